// The task: typed in English, as a formula or as transitions; drawn at once; edited as a graph.

import { Refusal, ask, drawn, h, quiet, toast } from "./ask.js";

const MODES = { english: "English", ltlf: "LTLf", yaml: "Transitions" };
const HINTS = {
  english: "pick up the red key, then open the red door, without going to a ball",
  ltlf: "F(carrying_key_red & X F front_door_red_open)",
  yaml: "transitions:\n  u0: {u1: carrying_key_red}\n  u1: {uA: front_door_red_open}",
};
const JOINS = /[,.;()\n]|\b(?:then|and|or|without|before|after|while|until|either|finally|first)\b/i;
const ARTICLES = /\b(a|an|the)\b/g;
const MOST = 8;

export class TaskPanel {
  constructor(root, studio) {
    this.root = root;
    this.studio = studio;
    this.mode = "english";
    this.chosen = null;
    this.build();
    this.send = quiet(120, () => this.read());
  }

  build() {
    this.tabs = Object.entries(MODES).map(([mode, words]) =>
      h("button", { role: "radio", "aria-checked": String(mode === this.mode), tabIndex: mode === this.mode ? 0 : -1, "data-mode": mode, onclick: () => this.switchTo(mode) }, words));
    this.text = h("textarea", {
      id: "task-text", rows: 3, spellcheck: false, autocomplete: "off", maxLength: 20000, role: "combobox", "aria-label": "The task",
      "aria-autocomplete": "list", "aria-expanded": "false", "aria-controls": "completions", "aria-describedby": "task-trouble",
    });
    this.under = h("div", { className: "under", "aria-hidden": "true" });
    this.list = h("ul", { id: "completions", role: "listbox", "aria-label": "Completions", hidden: true });
    this.trouble = h("div", { id: "task-trouble", className: "trouble", role: "alert" });
    this.words = h("p", { className: "understood" });
    this.steps = h("pre", { className: "explained" });
    this.inSteps = h("details", { className: "text", hidden: true }, h("summary", {}, "In numbered steps"), this.steps);
    this.findings = h("ul", { className: "findings" });
    this.machines = h("div", { className: "machines" });
    this.inspector = h("div", { className: "inspector", role: "group", "aria-label": "The chosen part of the machine" });
    this.sampler = h("select", { "aria-label": "How random tasks are drawn" });
    this.pairing = h("select", { "aria-label": "What random tasks are made of" },
      h("option", { value: "level" }, "from the level"), h("option", { value: "independent" }, "independent"));
    const modes = h("div", { className: "segmented", role: "radiogroup", "aria-label": "How the task is written" }, this.tabs);
    modes.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      const names = Object.keys(MODES);
      const next = names[(names.indexOf(this.mode) + step + names.length) % names.length];
      this.switchTo(next);
      this.tabs.find((tab) => tab.dataset.mode === next).focus();
    });
    this.text.addEventListener("input", () => { this.underline([]); this.complete(); this.send(); });
    this.text.addEventListener("scroll", () => { this.under.scrollTop = this.text.scrollTop; });
    this.text.addEventListener("keydown", (event) => this.key(event));
    this.text.addEventListener("blur", () => setTimeout(() => this.close(), 150));
    this.root.replaceChildren(
      h("div", { className: "head" }, h("h2", {}, "Task"), modes),
      h("div", { className: "writing" }, this.under, this.text, this.list),
      this.trouble, this.words, this.inSteps, this.findings,
      h("div", { className: "graph" }, this.machines, this.inspector),
      h("div", { className: "row" },
        h("span", { className: "joined" }, h("button", { id: "random-task", onclick: () => this.random() }, "Random task"), this.sampler, this.pairing)),
    );
  }

  domain(facts) {
    this.facts = facts;
    this.sampler.replaceChildren(...facts.samplers.map((name) => h("option", { value: name }, name)));
    this.plain = facts.phrases.map((phrase) => phrase.replace(ARTICLES, "").replace(/\s+/g, " ").trim());
  }

  /** Take over a task of the document: its mode, its text, its value. */
  load(task, told) {
    this.mode = task.mode;
    this.text.value = task.text;
    this.chosen = null;
    this.showMode();
    if (told) this.show(told);
    else this.read(false);
  }

  showMode() {
    for (const tab of this.tabs) {
      tab.setAttribute("aria-checked", String(tab.dataset.mode === this.mode));
      tab.tabIndex = tab.dataset.mode === this.mode ? 0 : -1;
    }
    this.text.placeholder = HINTS[this.mode];
    this.text.classList.toggle("code", this.mode !== "english");
    this.under.classList.toggle("code", this.mode !== "english");
    this.text.wrap = this.mode === "yaml" ? "off" : "soft";
    this.grow();
  }

  grow() {
    const lines = this.text.value.split("\n").length;
    this.text.rows = Math.max(3, Math.min(16, this.mode === "yaml" ? lines : Math.max(lines, Math.ceil(this.text.value.length / 58) + 1)));
  }

  switchTo(mode) {
    if (mode === this.mode) return;
    this.mode = mode;
    const told = this.told;
    if (mode === "yaml" && told) this.text.value = told.yaml;
    else if (mode === "english" && told && !told.refused) this.text.value = typeof told.value === "string" ? told.value : told.explanation;
    else if (mode === "ltlf") this.text.value = "";
    this.showMode();
    this.close();
    if (this.text.value) this.read();
    else { this.trouble.textContent = ""; this.text.focus(); }
  }

  // Reading

  async read(remember = true) {
    const mode = this.mode;
    const text = this.text.value;
    this.grow();
    if (!text.trim()) { this.trouble.textContent = ""; this.root.classList.add("stale"); this.studio.taskMissing(); return; }
    try {
      const told = await ask("task", { domain: this.studio.document.domain, level: this.studio.document.level, mode, text });
      this.show(told);
      if (remember && !told.refused) this.studio.taskChanged({ mode, text, value: mode === "ltlf" ? { ltlf: text } : mode === "english" ? text : told.value });
    } catch (error) { this.refuse(error); }
  }

  /** Another level: what speaks of all its things means something else now. */
  levelChanged() {
    if (this.mode === "english" && /\b(all|every|each|both)\b/i.test(this.text.value)) this.send();
  }

  refuse(error) {
    if (!(error instanceof Refusal)) throw error;
    if (error.cancelled) return;
    if (error.offline) { toast(error.message, "bad"); return; }
    const [sentence, ...place] = error.message.split("\n");
    const line = h("pre", { className: "place" }, place.join("\n"));
    this.trouble.replaceChildren(sentence, line);
    line.scrollLeft = (line.scrollWidth * place.at(-1)?.indexOf("^")) / Math.max(...place.map((one) => one.length)) - line.clientWidth / 2;
    this.underline(error.spans ?? []);
    this.text.setAttribute("aria-invalid", "true");
    this.root.classList.add("stale");
    this.studio.taskMissing();
  }

  /** Show what a task is. */
  show(told) {
    this.told = told;
    this.trouble.textContent = told.refused ?? "";
    this.underline([]);
    this.text.setAttribute("aria-invalid", String(Boolean(told.refused)));
    this.root.classList.remove("stale");
    const bare = (words) => words.toLowerCase().replace(/[^a-z0-9]+/g, " ").trim();
    this.words.textContent = told.refused || (this.mode === "english" && bare(told.understood) === bare(this.text.value)) ? "" : told.understood;
    this.inSteps.hidden = Boolean(told.refused) || !told.explanation.includes("\n");
    this.steps.textContent = told.explanation;
    this.findings.replaceChildren(...told.findings.map((one) => h("li", { className: one.level }, one.sentence)));
    if (told.refused) this.studio.taskMissing();
    this.draw();
  }

  underline(spans) {
    const text = this.text.value;
    const parts = [];
    let at = 0;
    for (const [start, end] of [...spans].sort((a, b) => a[0] - b[0])) {
      if (start < at) continue;
      parts.push(text.slice(at, start), h("mark", {}, text.slice(start, end) || " "));
      at = end;
    }
    this.under.replaceChildren(...parts, text.slice(at), "\n");
  }

  // Completion

  complete() {
    const before = this.text.value.slice(0, this.text.selectionStart);
    const possible = new Set(this.studio.level?.possible ?? []);
    let start, found;
    if (this.mode === "english") {
      const fragment = before.split(JOINS).at(-1).trimStart();
      start = before.length - fragment.length;
      const words = fragment.toLowerCase().replace(ARTICLES, "").replace(/\s+/g, " ").trimStart();
      found = words.length < 2 ? [] : rank(this.plain, (phrase) => (phrase.startsWith(words) && phrase !== words.trim() ? 0 : -1), possible).map((id) => this.facts.phrases[id]);
    } else {
      const word = before.match(/[A-Za-z_]+$/)?.[0] ?? "";
      start = before.length - word.length;
      const parts = word.toLowerCase().split("_").filter(Boolean);
      found = word.length < 2 ? [] : rank(this.facts.propositions, (name) => (name === word ? -1 : name.startsWith(word) ? 0 : parts.every((part) => name.includes(part)) ? 1 : -1), possible).map((id) => this.facts.propositions[id]);
    }
    this.start = start;
    this.offer = found;
    this.active = -1;
    this.list.replaceChildren(...found.map((words, number) => h("li", { role: "option", id: `completion-${number}`, "aria-selected": "false", onmousedown: (event) => { event.preventDefault(); this.accept(number); } }, words)));
    this.list.hidden = !found.length;
    this.text.setAttribute("aria-expanded", String(Boolean(found.length)));
    this.text.removeAttribute("aria-activedescendant");
  }

  key(event) {
    if (this.list.hidden) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      this.active = (this.active + (event.key === "ArrowDown" ? 1 : -1) + this.offer.length) % this.offer.length;
      [...this.list.children].forEach((item, number) => item.setAttribute("aria-selected", String(number === this.active)));
      this.text.setAttribute("aria-activedescendant", `completion-${this.active}`);
    } else if (event.key === "Tab" && !event.shiftKey) { event.preventDefault(); this.accept(Math.max(0, this.active)); }
    else if (event.key === "Enter" && this.active >= 0) { event.preventDefault(); this.accept(this.active); }
    else if (event.key === "Escape") { event.stopPropagation(); this.close(); }
  }

  accept(number) {
    const rest = this.text.value.slice(this.text.selectionStart);
    const head = this.text.value.slice(0, this.start) + this.offer[number];
    this.text.value = head + rest;
    this.text.setSelectionRange(head.length, head.length);
    this.close();
    this.send();
  }

  close() {
    this.list.hidden = true;
    this.text.setAttribute("aria-expanded", "false");
  }

  // The machine

  draw() {
    const told = this.told;
    const nest = (name, seen) => {
      const machine = told.machines[name];
      const svg = drawn(machine.svg);
      svg.dataset.machine = name;
      svg.setAttribute("role", "group");
      svg.setAttribute("aria-label", `Machine ${name}`);
      const natural = Number(svg.getAttribute("width"));
      svg.style.minWidth = `${Math.min(natural, Math.max(300, 0.62 * natural))}px`;
      for (const part of svg.querySelectorAll("[data-key]")) {
        const key = part.dataset.key;
        const edge = key.startsWith("e") ? machine.edges[Number(key.slice(1))] : null;
        part.setAttribute("tabindex", "0");
        part.setAttribute("role", "button");
        part.setAttribute("aria-label", edge ? `transition ${edge.source} to ${edge.target}: ${edge.formula.join(" and ") || "always"}` : `state ${key}`);
        const pick = () => this.choose({ machine: name, key });
        part.addEventListener("click", pick);
        part.addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); pick(); } });
      }
      const drawing = h("div", { className: "machine" }, svg);
      const inner = machine.calls.filter((call) => !seen.includes(call)).map((call) =>
        h("details", { className: "called", open: true }, h("summary", {}, `${call}, called by ${name}`), nest(call, [...seen, call])));
      return h("div", { className: "nest" }, drawing, inner);
    };
    this.machines.replaceChildren(nest(told.root, [told.root]));
    if (Object.values(told.machines).some((machine) => machine.edges.length > 1 && hides(machine))) this.machines.append(h("p", { className: "dim small" }, told.hidden));
    this.highlight(this.place);
    this.inspect();
  }

  /** Light the state where an episode stands: [machine, state], or null. */
  highlight(place) {
    this.place = place;
    for (const part of this.machines.querySelectorAll(".here")) part.classList.remove("here");
    if (!place) return;
    this.machines.querySelector(`svg[data-machine="${CSS.escape(place[0])}"] [data-key="${CSS.escape(place[1])}"]`)?.classList.add("here");
  }

  choose(what) {
    const same = this.chosen && this.chosen.machine === what.machine && this.chosen.key === what.key;
    this.chosen = same ? null : what;
    this.inspect();
  }

  inspect() {
    for (const part of this.machines.querySelectorAll(".chosen")) part.classList.remove("chosen");
    const machine = this.chosen && this.told.machines[this.chosen.machine];
    const part = machine && this.machines.querySelector(`svg[data-machine="${this.chosen.machine}"] [data-key="${this.chosen.key}"]`);
    if (!part) {
      this.chosen = null;
      this.inspector.replaceChildren(h("p", { className: "dim small" }, "Choose a state or a transition of the machine to change it."));
      return;
    }
    part.classList.add("chosen");
    const key = this.chosen.key;
    if (key.startsWith("e")) this.inspectEdge(machine, Number(key.slice(1)));
    else this.inspectState(machine, key);
  }

  inspectState(machine, state) {
    const ends = { uA: "accepts: the task is done", uR: "rejects: the task has failed" }[state];
    const fresh = freeState(machine);
    const target = h("select", { "aria-label": "Where the new transition leads" }, [fresh, ...targets(machine)].map((name) => h("option", { value: name }, name === fresh ? `${fresh} (new state)` : name)));
    this.inspector.replaceChildren(
      h("p", {}, h("b", {}, state), ` ${ends ?? (state === "u0" ? "is where the task starts" : "is a state on the way")}`),
      ends ? "" : h("div", { className: "row" }, "Add a transition to ", target, this.search("when …", (name) => this.change((edges) => [...edges, { source: state, target: target.value, formula: [name], call: null }]))),
      state === "u0" ? "" : h("button", { className: "danger", onclick: () => this.change((edges) => edges.filter((edge) => edge.source !== state && edge.target !== state)) }, `Remove ${state}`),
    );
  }

  inspectEdge(machine, number) {
    const edge = machine.edges[number];
    const put = (changes) => this.change((edges) => edges.map((one, place) => (place === number ? { ...one, ...changes } : one)));
    const choice = (label, options, value, act) => h("select", { "aria-label": label, onchange: (event) => act(event.target.value) }, options.map(([given, words]) => h("option", { value: given, selected: given === value }, words)));
    const chips = edge.formula.map((literal, place) => {
      const negated = literal.startsWith("-");
      const name = literal.replace(/^-/, "");
      const others = edge.formula.filter((_, other) => other !== place);
      return h("span", { className: `chip ${negated ? "not" : ""}` },
        h("button", { title: negated ? "must not hold: press to ask for it" : "must hold: press to forbid it", "aria-label": `${negated ? "not " : ""}${name}: negate`, onclick: () => put({ formula: edge.formula.map((one, other) => (other === place ? (negated ? name : `-${name}`) : one)) }) }, `${negated ? "not " : ""}${name}`),
        h("button", { "aria-label": `remove ${name}`, title: "remove", onclick: () => put({ formula: others }) }, "×"));
    });
    const others = Object.keys(this.told.machines).filter((name) => name !== this.chosen.machine && name !== this.told.root);
    this.inspector.replaceChildren(
      h("p", {}, h("b", {}, `${edge.source} → `), choice("Where it leads", [...new Set([...targets(machine), freeState(machine)])].map((name) => [name, name]), edge.target, (value) => put({ target: value })), " when all of these hold:"),
      h("div", { className: "chips" }, chips.length ? chips : h("span", { className: "dim" }, "always"), this.search("add a condition …", (name) => put({ formula: [...edge.formula.filter((one) => one.replace(/^-/, "") !== name), name] }))),
      h("div", { className: "row" },
        h("label", {}, "reward ", h("input", { type: "number", step: "any", value: edge.reward, className: "number", onchange: (event) => put({ reward: Number(event.target.value), usual: false }) })),
        others.length ? h("label", {}, "calls ", choice("Which machine it calls", [["", "nothing"], ...others.map((name) => [name, name])], edge.call ?? "", (value) => put({ call: value || null }))) : "",
        h("button", { className: "danger", onclick: () => this.change((edges) => edges.filter((_, place) => place !== number)) }, "Remove transition")),
    );
  }

  /** A field that finds propositions. */
  search(hint, act) {
    const found = h("ul", { className: "found", role: "listbox", hidden: true });
    const field = h("input", { type: "search", placeholder: hint, "aria-label": hint, autocomplete: "off", className: "find" });
    let names = [];
    const look = () => {
      const parts = field.value.toLowerCase().split(/[\s_]+/).filter(Boolean);
      const possible = new Set(this.studio.level?.possible ?? []);
      names = parts.length ? rank(this.facts.propositions, (name) => (parts.every((part) => name.includes(part)) ? name.startsWith(parts[0]) ? 0 : 1 : -1), possible).map((id) => this.facts.propositions[id]) : [];
      found.replaceChildren(...names.map((name) => h("li", { role: "option", onmousedown: (event) => { event.preventDefault(); act(name); } }, name)));
      found.hidden = !names.length;
    };
    field.addEventListener("input", look);
    field.addEventListener("blur", () => setTimeout(() => { found.hidden = true; }, 150));
    field.addEventListener("keydown", (event) => { if (event.key === "Enter" && names.length) { event.preventDefault(); act(names[0]); } });
    return h("span", { className: "searching" }, field, found);
  }

  /** Change the edges of the chosen machine, and send the task as transitions. */
  async change(edit) {
    const machines = Object.fromEntries(Object.entries(this.told.machines).map(([name, machine]) =>
      [name, name === this.chosen.machine ? edit(machine.edges) : machine.edges]));
    const value = asTransitions(this.told.root, machines);
    try {
      const told = await ask("task", { domain: this.studio.document.domain, level: this.studio.document.level, mode: "value", value });
      const sentence = typeof told.value === "string" && !told.refused;
      this.mode = sentence ? "english" : "yaml";
      this.text.value = sentence ? told.value : told.yaml;
      this.showMode();
      this.show(told);
      if (!told.refused) this.studio.taskChanged({ mode: this.mode, text: this.text.value, value: told.value });
    } catch (error) {
      if (error instanceof Refusal) toast(error.message, "bad");
      else throw error;
    }
  }

  async random() {
    const done = this.studio.working("Drawing a task …");
    try {
      const { domain, level } = this.studio.document;
      const found = await ask("sample", { domain, level, what: "task", seed: Math.floor(Math.random() * 2 ** 31), tasks: this.sampler.value, pairing: this.pairing.value });
      await this.take(found.task);
    } catch (error) {
      if (error instanceof Refusal) { if (!error.cancelled) toast(error.message, "bad"); }
      else throw error;
    } finally { done(); }
  }

  /** Take a value as files hold it. */
  async take(value) {
    const told = await ask("task", { domain: this.studio.document.domain, level: this.studio.document.level, mode: "value", value });
    this.mode = typeof value === "string" ? "english" : "yaml";
    this.text.value = typeof value === "string" ? value : told.yaml;
    this.showMode();
    this.show(told);
    this.studio.taskChanged({ mode: this.mode, text: this.text.value, value });
  }
}

/** The numbers of the best names: `fit` gives 0 for the best, -1 for none; what the level can make true comes first. */
function rank(names, fit, possible) {
  const found = [];
  names.forEach((name, id) => {
    const how = fit(name);
    if (how >= 0) found.push([how + (possible.has(id) ? 0 : 2), name.length, id]);
  });
  return found.sort((a, b) => a[0] - b[0] || a[1] - b[1]).slice(0, MOST).map(([, , id]) => id);
}

const targets = (machine) => [...new Set([...machine.states, "uA", "uR"])];
const freeState = (machine) => { let n = 1; while (machine.states.includes(`u${n}`)) n += 1; return `u${n}`; };

/** Whether drawings leave out negations that only keep edges apart. */
function hides(machine) {
  return machine.states.some((state) => {
    const literals = new Set(machine.edges.filter((edge) => edge.source === state).flatMap((edge) => edge.formula));
    return [...literals].some((literal) => literal.startsWith("-") && literals.has(literal.slice(1)));
  });
}

/** Machines as files have them. */
export function asTransitions(root, machines) {
  const transitions = {};
  for (const [name, edges] of Object.entries(machines)) {
    const rows = (transitions[name] = {});
    for (const edge of edges) {
      const row = (rows[edge.source] ??= {});
      const entry = { call: edge.call ?? "leaf", formula: edge.formula };
      if (edge.reward !== undefined && !edge.usual) entry.reward = edge.reward;
      (row[edge.target] ??= { edges: [] }).edges.push(entry);
    }
  }
  return { root, transitions };
}
