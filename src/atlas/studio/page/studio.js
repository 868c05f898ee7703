// The studio: one document (a level and a task), its history, and all that is shown of it.

import { Refusal, ask, h, toast, token } from "./ask.js";
import { Editor } from "./editor.js";
import { openDialog } from "./gallery.js";
import { icon } from "./icons.js";
import { Compare, Edits, Plan, Play, Watch } from "./panels.js";
import { runDialog } from "./run.js";
import { shareDialog, saveDialog, unpacked } from "./share.js";
import { TaskPanel } from "./task.js";
import { Verdict } from "./verdict.js";

const start = JSON.parse(document.getElementById("start").textContent);
const $ = (id) => document.getElementById(id);

class Studio {
  constructor() {
    this.start = start;
    this.where = start.where;
    this.past = [];
    this.future = [];
    this.document = { ...start.problem, task: asTask(start.problem.task, start.task) };
    this.level = start.level;
    this.editor = new Editor($("draw"), this);
    this.task = new TaskPanel($("task"), this);
    this.verdict = new Verdict($("verdict"), this);
    this.panels = { play: new Play($("play"), this), plan: new Plan($("plan"), this), watch: new Watch($("watch"), this), edits: new Edits($("edits"), this) };
    this.panels.compare = new Compare($("compare"), this);
    this.tabs();
    this.header();
    this.domain(this.document.domain);
    this.showAll(start.level, start.task);
    this.remember();
    this.verdict.ask();
  }

  get facts() { return start.domains[this.document.domain]; }

  /** The document as messages have it. */
  get problem() {
    const { domain, level, name, tags, notes, task } = this.document;
    return { domain, level, name, tags, notes, task: task.value };
  }

  domain(name) {
    $("sprite").innerHTML = start.domains[name].sprite;
    this.editor.domain(start.domains[name]);
    this.task.domain(start.domains[name]);
    this.panels.edits.domain(start.domains[name]);
    this.panels.play.domain(start.domains[name]);
    this.shown = name;
  }

  // Changes

  levelChanged(facts, how) {
    this.level = facts;
    this.document = { ...this.document, level: facts.level };
    this.changed(how === "paint" || how === "text" ? how : "");
    this.task.levelChanged();
  }

  taskChanged(task) {
    this.taskIsMissing = false;
    if (JSON.stringify(task) === JSON.stringify(this.document.task)) { this.verdict.ask(); return; }
    this.document = { ...this.document, task };
    this.changed("task");
  }

  /** The text of the task cannot be read, so there is nothing to prove or play. */
  taskMissing() {
    this.taskIsMissing = true;
    this.verdict.missing();
    for (const panel of Object.values(this.panels)) panel.reset();
    this.shownPanel()?.enter?.();
  }

  /** Wait until what was painted and typed is part of the document. */
  async settled() {
    await this.editor.painted;
    await this.editor.type.now();
    await this.task.send.now();
  }

  changed(kind) {
    this.remember(kind);
    this.modified = true;
    $("saved").textContent = "";
    for (const panel of Object.values(this.panels)) panel.reset();
    this.task.highlight(null);
    if (!this.taskIsMissing) this.verdict.ask();
    this.shownPanel()?.enter?.();
  }

  /** Take over another document; `where` is the set that it belongs to. */
  async load(problem, where = undefined) {
    const { domain, level } = problem;
    const done = this.working("Opening …");
    let told, facts;
    try {
      told = problem.task === null ? null : await ask("task", { domain, level, mode: "value", value: problem.task });
      facts = await ask("level", { domain, level });
    } finally { done(); }
    if (where !== undefined) this.where = where;
    this.document = { ...problem, task: told ? asTask(problem.task, told) : { mode: "english", text: "", value: null } };
    this.taskIsMissing = !told;
    this.level = facts;
    if (this.shown !== problem.domain) this.domain(problem.domain);
    this.showAll(facts, told);
    this.changed("");
    this.modified = false;
    this.tab("draw");
  }

  showAll(facts, told) {
    this.editor.show(facts);
    this.task.load(this.document.task, told);
    $("name").value = this.document.name;
    document.title = `${this.document.name || "untitled"} · ATLAS studio`;
  }

  // History. Changes of one kind that follow each other closely are one step.

  remember(kind = "") {
    const now = Date.now();
    const entry = { document: this.document, level: this.level, kind, when: now };
    const last = this.past.at(-1);
    if (last && kind === "task" && last.kind === kind && now - last.when < 1200) this.past[this.past.length - 1] = entry;
    else this.past.push(entry);
    if (this.past.length > 300) this.past.shift();
    this.future = [];
    this.buttons();
  }

  travel(from, to) {
    const entry = from === this.past ? (to.push(from.pop()), from.at(-1)) : from.pop();
    if (from !== this.past) this.past.push(entry);
    this.document = entry.document;
    this.level = entry.level;
    this.taskIsMissing = this.document.task.value === null;
    if (this.shown !== this.document.domain) this.domain(this.document.domain);
    this.showAll(entry.level, null);
    for (const panel of Object.values(this.panels)) panel.reset();
    this.verdict.ask();
    this.buttons();
    this.shownPanel()?.enter?.();
  }

  async undo() { await this.settled(); if (this.past.length > 1) this.travel(this.past, this.future); }
  async redo() { await this.settled(); if (this.future.length) this.travel(this.future, this.past); }

  buttons() {
    $("undo").disabled = this.past.length < 2;
    $("redo").disabled = !this.future.length;
  }

  // Tabs and header

  tabs() {
    this.tabNames = ["draw", "play", "plan", "watch", "compare", "edits"];
    const list = document.querySelector(".tabs");
    list.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const count = this.tabNames.length;
      this.tab(this.tabNames[(this.tabNames.indexOf(this.current) + step + count) % count]);
      $(`tab-${this.current}`).focus();
    });
    for (const name of this.tabNames) $(`tab-${name}`).addEventListener("click", () => {
      if (name === "play") this.panels.play.wantsFocus = true;  // the keys play at once
      this.tab(name);
    });
    this.current = "draw";
  }

  tab(name) {
    this.shownPanel()?.leave?.();
    this.current = name;
    for (const one of this.tabNames) {
      const here = one === name;
      $(one).hidden = !here;
      $(`tab-${one}`).setAttribute("aria-selected", String(here));
      $(`tab-${one}`).tabIndex = here ? 0 : -1;
    }
    if (name === "draw") this.task.highlight(null);
    this.shownPanel()?.enter?.();
  }

  shownPanel() { return this.panels[this.current]; }

  header() {
    for (const name of ["undo", "redo", "theme"]) $(name).append(icon(name));
    $("undo").addEventListener("click", () => this.undo());
    $("redo").addEventListener("click", () => this.redo());
    $("open").addEventListener("click", () => openDialog(this));
    $("save").addEventListener("click", () => saveDialog(this));
    $("share").addEventListener("click", () => shareDialog(this));
    $("save").hidden = start.read_only;
    $("name").addEventListener("change", () => {
      this.document = { ...this.document, name: $("name").value.trim() };
      document.title = `${this.document.name || "untitled"} · ATLAS studio`;
      this.remember("name");
    });
    $("theme").addEventListener("click", () => {
      const root = document.documentElement;
      const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = dark ? "light" : "dark";
      localStorage.setItem("atlas-studio-theme", root.dataset.theme);
    });
    document.addEventListener("keydown", (event) => {
      if (!(event.ctrlKey || event.metaKey) || event.altKey || document.querySelector("dialog[open]")) return;
      const typing = event.target.matches?.("textarea, input");
      const key = event.key.toLowerCase();
      if (key === "s") { event.preventDefault(); if (!start.read_only) saveDialog(this); }
      else if (key === "o") { event.preventDefault(); openDialog(this); }
      else if (key === "z" && !typing) { event.preventDefault(); if (event.shiftKey) this.redo(); else this.undo(); }
      else if (key === "y" && !typing) { event.preventDefault(); this.redo(); }
    });
  }

  /** Say that something is under way; the result ends it. */
  working(words) {
    const shown = h("div", { className: "toast working" }, h("span", { className: "spinner" }), words);
    const timer = setTimeout(() => $("toasts").append(shown), 250);
    return () => { clearTimeout(timer); shown.remove(); };
  }

  fail(error) {
    if (!(error instanceof Refusal)) throw error;
    if (!error.cancelled) toast(error.message, "bad");
  }
}

/** A task as files hold it, with the text that it is edited as. */
function asTask(value, told) {
  if (typeof value === "string") return { mode: "english", text: value, value };
  if (value && typeof value.ltlf === "string") return { mode: "ltlf", text: value.ltlf, value };
  return { mode: "yaml", text: told.yaml, value };
}

const theme = localStorage.getItem("atlas-studio-theme");
if (theme) document.documentElement.dataset.theme = theme;
localStorage.setItem("atlas-studio-token", token);
const studio = new Studio();
window.studio = studio;

/** A link may hold a problem: it is read in the page, and only its text goes to the server, as typed text does. */
async function fromFragment() {
  if (!location.hash.startsWith("#p=")) return;
  try {
    const text = await unpacked(location.hash.slice(3));
    const { problem } = await ask("read", { text });
    await studio.load(problem, null);
  } catch (error) { toast(error instanceof Refusal ? error.message : "The link holds no problem that can be read.", "bad"); }
  history.replaceState(null, "", location.pathname);
}
await fromFragment();
window.addEventListener("hashchange", fromFragment);
window.addEventListener("beforeunload", (event) => { if (studio.modified && !start.read_only) event.preventDefault(); });
document.documentElement.dataset.ready = "true";
if (start.run) runDialog(studio, start.run);
