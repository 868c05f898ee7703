// What can be opened: sets with their pictures, files and folders, runs, and pasted text.

import { Refusal, ask, cancel, h, percent } from "./ask.js";
import { icon } from "./icons.js";
import { runDialog } from "./run.js";
import { dialog, unpacked } from "./share.js";

export function openDialog(studio) {
  const body = h("div", { className: "opening" });
  const made = dialog("Open", body);
  made.classList.add("wide");
  const gallery = new Gallery(studio, made);
  const pasted = h("textarea", { rows: 10, spellcheck: false, wrap: "off", placeholder: "A problem as YAML, or a link that holds one", "aria-label": "A problem as text or link" });
  const trouble = h("p", { className: "trouble", role: "alert" });
  const sections = {
    sets: h("div", {}, h("div", { className: "row" }, studio.start.sets.map((name) => h("button", { className: "set", onclick: () => gallery.open(name) }, name))), gallery.root),
    files: h("div", { className: "files" }),
    text: h("div", {}, pasted, trouble, h("div", { className: "row end" }, h("button", { className: "primary", onclick: async () => {
      try {
        const text = pasted.value.trim();
        const read = /#p=([\w-]+)$/.exec(text);
        const { problem } = await ask("read", { text: read ? await unpacked(read[1]) : pasted.value });
        await studio.load(problem, null);
        studio.path = null;
        made.close();
      } catch (error) { trouble.textContent = error instanceof Refusal ? error.message : "This link holds no problem that can be read."; }
    } }, "Open"))),
  };
  const titles = { sets: "Sets", files: `Files in ${studio.start.root}`, text: "Text or link" };
  const tabs = Object.keys(sections).map((name) => h("button", { role: "tab", "aria-selected": "false", onclick: () => show(name) }, titles[name]));
  const show = (name) => {
    Object.keys(sections).forEach((one, number) => {
      sections[one].hidden = one !== name;
      tabs[number].setAttribute("aria-selected", String(one === name));
    });
    if (name === "files" && !sections.files.childElementCount) folder(".");
  };
  const folder = async (path) => {
    try {
      const found = await ask("folder", { path });
      const item = (sign, words, act) => h("button", { className: "entry", onclick: act }, icon(sign), words);
      sections.files.replaceChildren(
        h("p", { className: "dim" }, found.path),
        ...(found.parent === null ? [] : [item("up", "..", () => folder(found.parent))]),
        ...found.entries.map((entry) => item(
          entry.kind, entry.kind === "run" ? `${entry.name} (run)` : entry.name,
          () => (entry.kind === "run" ? (made.close(), runDialog(studio, entry.path)) : entry.kind === "folder" ? folder(entry.path) : gallery.open(entry.path, () => show("sets"))))),
        ...(found.entries.some((entry) => entry.kind === "file") ? [h("button", { onclick: () => gallery.open(found.path, () => show("sets")) }, "Open this folder as a set")] : []),
        ...(found.entries.length ? [] : [h("p", { className: "dim" }, "There are no problems here.")]));
    } catch (error) { studio.fail(error); }
  };
  body.replaceChildren(h("div", { className: "tabs", role: "tablist" }, tabs), ...Object.values(sections));
  show("sets");
  gallery.open(studio.where ?? studio.start.sets[0]);
}

class Gallery {
  constructor(studio, made) {
    this.studio = studio;
    this.dialog = made;
    this.search = h("input", { type: "search", placeholder: "Search names, tasks, tags", "aria-label": "Search", oninput: () => this.filter() });
    this.tag = h("select", { "aria-label": "Tag", onchange: () => this.filter() });
    this.verdict = h("select", { "aria-label": "Verdict", onchange: () => this.filter() }, [["", "any verdict"], ["solvable", "solvable"], ["unsolvable", "unsolvable"], ["unknown", "unknown"], ["none", "not proven yet"]].map(([value, words]) => h("option", { value }, words)));
    this.rate = h("select", { "aria-label": "Solve rate", onchange: () => this.filter() }, [["", "any solve rate"], ["0", "never solved"], ["some", "sometimes solved"], ["1", "always solved"]].map(([value, words]) => h("option", { value }, words)));
    this.prove = h("button", { onclick: () => this.proveAll() }, "Prove all");
    this.count = h("span", { className: "dim", role: "status" });
    this.grid = h("div", { className: "gallery" });
    this.root = h("div", {}, h("div", { className: "row filters" }, this.search, this.tag, this.verdict, this.rate, this.prove, this.count), this.grid);
    made.addEventListener("close", () => { this.stopped = true; cancel("verdicts"); });
  }

  async open(where, then = () => {}) {
    const done = this.studio.working("Reading …");
    try {
      const found = await ask("open", { where });
      if (found.problem) {
        await this.studio.load(found.problem, null);
        this.studio.path = /\.ya?ml$/.test(where) ? where : null;
        this.dialog.close();
        return;
      }
      this.where = where;
      this.problems = found.problems;
      this.found = {};
      then();
      this.fill();
    } catch (error) { this.studio.fail(error); } finally { done(); }
  }

  fill() {
    const tags = [...new Set(this.problems.flatMap((one) => one.tags))].sort();
    this.tag.replaceChildren(h("option", { value: "" }, "any tag"), ...tags.map((tag) => h("option", { value: tag }, tag)));
    this.tag.hidden = !tags.length;
    this.rate.hidden = this.problems.every((one) => one.rate === null);
    this.cards = this.problems.map((one) => {
      const picture = h("img", { loading: "lazy", alt: "", src: `picture?${new URLSearchParams({ where: this.where, name: one.name })}` });
      const badge = h("span", { className: "badge" });
      const rate = one.rate === null ? null : h("span", { className: "rate" }, percent(one.rate));
      const sizes = Object.entries(one.sizes).map(([name, value]) => (name === "size" ? value : `${value} ${value === "1" ? name.replace(/s$/, "") : name}`)).join(" · ");
      const card = h("button", { className: "item", onclick: () => this.choose(one.name), "aria-label": `${one.name}: ${one.words}` },
        h("span", { className: "picture" }, picture, badge, rate), h("b", {}, one.name), h("span", { className: "small" }, one.words), h("span", { className: "dim small" }, `${sizes} · ${one.states} states`));
      return { one, card, badge };
    });
    this.grid.replaceChildren(...this.cards.map(({ card }) => card));
    this.filter();
  }

  filter() {
    const words = this.search.value.toLowerCase().split(/\s+/);
    let shown = 0;
    for (const { one, card } of this.cards) {
      const text = `${one.name} ${one.words} ${one.tags.join(" ")}`.toLowerCase();
      const verdict = this.found[one.name]?.verdict ?? "none";
      const rate = one.rate === null ? "" : one.rate === 0 ? "0" : one.rate === 1 ? "1" : "some";
      card.hidden = !(words.every((word) => text.includes(word)) && (!this.tag.value || one.tags.includes(this.tag.value)) && (!this.verdict.value || verdict === this.verdict.value) && (!this.rate.value || rate === this.rate.value));
      shown += card.hidden ? 0 : 1;
    }
    this.count.textContent = `${shown} of ${this.cards.length}`;
  }

  async proveAll() {
    if (this.proving) { this.stopped = true; cancel("verdicts"); return; }
    this.proving = true;
    this.stopped = false;
    const names = this.cards.filter(({ one, card }) => !card.hidden && !this.found[one.name]).map(({ one }) => one.name);
    try {
      for (let at = 0; at < names.length && !this.stopped; at += 4) {
        this.prove.textContent = `Stop (${at} of ${names.length})`;
        const { verdicts } = await ask("verdicts", { where: this.where, names: names.slice(at, at + 4) });
        Object.assign(this.found, verdicts);
        for (const { one, badge } of this.cards) {
          const known = this.found[one.name];
          if (known && !badge.textContent) {
            badge.className = `badge ${known.trivial ? "unknown" : known.verdict}`;
            badge.textContent = known.plan_length === null ? known.verdict : `${known.plan_length} steps`;
            badge.title = known.reason;
          }
        }
        this.filter();
      }
    } catch (error) { if (!error.cancelled) this.studio.fail(error); }
    this.proving = false;
    this.prove.textContent = "Prove all";
  }

  async choose(name) {
    try {
      const found = await ask("open", { where: this.where, name });
      await this.studio.load(found.problem, this.where);
      this.studio.path = null;
      this.dialog.close();
    } catch (error) { this.studio.fail(error); }
  }
}
