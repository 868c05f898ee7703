// The level: painted, dragged, resized, drawn at random, or typed as text.

import { Refusal, ask, h, quiet, toast } from "./ask.js";
import { Board, stamp } from "./board.js";
import { icon } from "./icons.js";

const HAND = "move things";

export class Editor {
  /** `state.level` are facts of a level as the server tells them; `changed(facts)` is called with new ones. */
  constructor(root, studio) {
    this.root = root;
    this.studio = studio;
    this.board = new Board("The level, to be painted");
    this.tool = HAND;
    this.variant = 0;
    this.cursor = null;
    this.refused = [];
    this.queue = [];
    this.build();
  }

  build() {
    const svg = this.board.svg;
    svg.setAttribute("tabindex", "0");
    svg.setAttribute("role", "application");
    svg.setAttribute("aria-describedby", "board-help");
    svg.classList.add("editable");
    svg.addEventListener("pointerdown", (event) => this.press(event));
    svg.addEventListener("pointermove", (event) => this.drag(event));
    svg.addEventListener("pointerup", (event) => this.release(event));
    svg.addEventListener("pointercancel", () => { this.from = null; this.painting = false; this.mark(); });
    svg.addEventListener("pointerleave", () => { this.hover = null; this.mark(); });
    svg.addEventListener("contextmenu", (event) => event.preventDefault());
    svg.addEventListener("keydown", (event) => this.key(event));
    svg.addEventListener("focus", () => { if (svg.matches(":focus-visible")) { this.cursor ??= [...this.facts.tiles.at]; this.mark(); } });
    svg.addEventListener("blur", () => { this.cursor = null; this.mark(); });
    this.palette = h("div", { className: "palette", role: "toolbar", "aria-label": "Brushes" });
    this.variants = h("div", { className: "variants", role: "toolbar", "aria-label": "Kinds of this brush" });
    this.said = h("p", { className: "said", role: "status", "aria-live": "polite" });
    this.sizes = h("span", { className: "sizes dim" });
    this.rows = h("input", { type: "number", min: 1, max: 99, "aria-label": "Rows", onchange: () => this.resize() });
    this.columns = h("input", { type: "number", min: 1, max: 99, "aria-label": "Columns", onchange: () => this.resize() });
    const worlds = Object.keys(this.studio.start.domains);
    this.world = h("select", { id: "world", "aria-label": "World", hidden: worlds.length < 2, onchange: () => this.studio.load(this.studio.start.domains[this.world.value].example, null).catch((error) => this.fail(error)) },
      worlds.map((name) => h("option", { value: name }, name)));
    this.templates = h("select", { "aria-label": "Start from a template", onchange: () => this.template() });
    this.size = h("select", { "aria-label": "Size of a random level" });
    this.texts = h("div", { className: "texts" });
    const text = h("details", { className: "text", id: "level-text" }, h("summary", {}, "Level as text"), this.texts);
    this.legend = h("div", { className: "legend" });
    this.root.replaceChildren(
      h("div", { className: "tools" }, this.palette, this.variants),
      h("div", { className: "frame" }, svg),
      h("p", { id: "board-help", className: "hidden" }, "Arrow keys move over the cells, Enter paints, M picks up and puts down what is there."),
      this.said,
      h("div", { className: "row" },
        this.world,
        h("label", { className: "size" }, "Size ", this.rows, " × ", this.columns),
        this.templates,
        h("span", { className: "joined" }, h("button", { id: "random-level", onclick: () => this.random() }, "Random level"), this.size),
        this.sizes),
      text,
      h("details", { className: "text" }, h("summary", {}, "What the pictures mean"), this.legend),
    );
    this.type = quiet(200, () => this.typed());
  }

  /** Take over a domain: its brushes, templates and the keys of its text. */
  domain(facts) {
    this.domainFacts = facts;
    this.world.value = this.studio.document.domain;
    this.names = new Map(facts.brushes.filter((brush) => brush.symbols.length === 1).map((brush) => [brush.symbols[0], brush.name]));
    this.groups = [...new Set(facts.brushes.map((brush) => brush.group))];
    this.chosen ??= new Map();
    const option = (value, words) => h("option", { value }, words ?? value);
    this.templates.replaceChildren(option("", "Template …"), ...facts.templates.map((name) => option(name)));
    this.size.replaceChildren(option("0", `any ${facts.stratum ?? "size"}`), ...(facts.stratum ? facts.sizes.map((n) => option(n, `${n} ${facts.stratum}`)) : []));
    this.size.hidden = !facts.stratum;
    this.fields = Object.fromEntries(facts.keys.map((key, number) => {
      const field = number === 0
        ? h("textarea", { spellcheck: false, rows: 8, wrap: "off", "aria-label": `Text of the level: ${key}` })
        : h("input", { spellcheck: false, autocomplete: "off", "aria-label": `Text of the level: ${key}` });
      field.addEventListener("input", () => this.type());
      return [key, field];
    }));
    this.trouble = h("p", { className: "trouble", role: "alert" });
    this.texts.replaceChildren(...Object.entries(this.fields).map(([key, field], number) =>
      number === 0 ? field : h("label", {}, `${key} `, field)), this.trouble);
    this.legend.replaceChildren(...facts.legend.map(([picture, words]) => {
      const item = h("span");
      item.innerHTML = picture;
      item.append(words);
      return item;
    }));
    this.tool = HAND;
    this.refused = [];
    this.say("");
    this.showPalette();
  }

  /** Show a level. */
  show(facts, fromText = false) {
    this.facts = facts;
    this.board.show(facts.tiles);
    this.board.svg.setAttribute("aria-label", `Level, ${this.board.rows} rows and ${this.board.cols} columns`);
    this.rows.value = this.board.rows;
    this.columns.value = this.board.cols;
    this.sizes.textContent = Object.entries(facts.sizes).map(([name, value]) => `${name} ${value}`).join(" · ");
    if (!fromText) {
      for (const [key, field] of Object.entries(this.fields)) if (document.activeElement !== field) field.value = facts.level[key] ?? "";
      this.fields[this.domainFacts.keys[0]].rows = Math.min(22, this.board.rows + 1);
      this.complain(null);
    }
    this.mark();
  }

  showPalette() {
    const button = (name, picture, pressed, choose) => {
      const made = h("button", { className: "brush", title: name, "aria-label": name, "aria-pressed": String(pressed), onclick: choose }, picture);
      return made;
    };
    const brushes = this.domainFacts.brushes;
    const of = (group) => brushes.filter((brush) => brush.group === group);
    const current = brushes.find((brush) => brush.name === this.tool);
    this.palette.replaceChildren(
      button(HAND, h("span", { className: "hand" }, icon("move")), this.tool === HAND, () => this.choose(HAND)),
      ...this.groups.map((group) => {
        const kinds = of(group);
        const shown = kinds[Math.min(this.chosen.get(group) ?? this.variant, kinds.length - 1)];
        return button(kinds.length > 1 ? `${group}: ${shown.name}` : shown.name, stamp(shown.symbols), current?.group === group, () => this.choose(shown.name));
      }));
    const kinds = current ? of(current.group) : [];
    this.variants.hidden = kinds.length < 2;
    this.variants.replaceChildren(...kinds.map((brush, number) =>
      button(brush.name, stamp(brush.symbols), brush.name === this.tool, () => {
        this.chosen.set(brush.group, number);
        if (brush.group !== "agent") { this.variant = number; for (const group of this.groups) if (group !== "agent" && of(group).length === kinds.length) this.chosen.set(group, number); }
        this.choose(brush.name);
      })));
  }

  choose(tool) {
    const held = document.activeElement?.getAttribute?.("aria-label");
    this.tool = tool;
    this.showPalette();
    this.say(tool === HAND ? "Drag things to move them." : `Paint: ${tool}. The right button clears.`);
    if (held) this.root.querySelector(`.brush[aria-label="${CSS.escape(held)}"]`)?.focus();
  }

  // Pointer

  press(event) {
    const place = this.board.under(event);
    if (!place || event.button > 2) return;
    event.preventDefault();
    this.board.svg.focus({ preventScroll: true });
    this.cursor = null;
    this.board.svg.setPointerCapture(event.pointerId);
    const clearing = event.button === 2 || event.altKey;
    if (this.tool === HAND && !clearing) this.from = place;
    else {
      this.painting = clearing ? this.domainFacts.brushes[0].name : this.tool;
      this.last = null;
      this.stroke(place);
    }
    this.mark();
  }

  drag(event) {
    const place = this.board.under(event);
    if (String(place) === String(this.hover)) return;
    this.hover = place;
    if (place && this.painting) this.stroke(place);
    this.mark();
  }

  release(event) {
    const place = this.board.under(event);
    const from = this.from;
    this.painting = false;
    this.from = null;
    this.mark();
    if (!from || !place) return;
    if (String(from) !== String(place)) this.send("move", { source: from, target: place }, place);
    else this.say(this.describe(place));
  }

  stroke(place) {
    if (String(place) === String(this.last)) return;
    this.last = place;
    this.queue.push({ brush: this.painting, at: place });
    this.flush();
  }

  flush() { this.painted ??= this.paint().finally(() => { this.painted = null; }); }

  async paint() {
    while (this.queue.length) {
      const strokes = this.queue.splice(0);
      try {
        const facts = await ask("paint", { ...this.where(), strokes });
        this.refused = facts.refused;
        if (facts.refused.length) this.say(facts.refused.at(-1).sentence, true);
        else this.say("");
        if (strokes.length > facts.refused.length) this.changed(facts, "paint");
        else this.mark();
      } catch (error) { this.fail(error); }
    }
  }

  // Keys

  key(event) {
    if (event.ctrlKey || event.metaKey) return;
    const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    if (event.key in steps) {
      event.preventDefault();
      const [row, column] = this.cursor ?? this.facts.tiles.at;
      const [down, right] = steps[event.key];
      this.cursor = [Math.max(0, Math.min(this.board.rows - 1, row + down)), Math.max(0, Math.min(this.board.cols - 1, column + right))];
      this.say(this.describe(this.cursor));
    } else if ((event.key === "Enter" || event.key === " ") && this.cursor) {
      event.preventDefault();
      if (this.tool === HAND) this.grab();
      else { this.painting = this.tool; this.last = null; this.stroke(this.cursor); this.painting = false; }
    } else if (event.key === "m" && this.cursor) this.grab();
    else if ((event.key === "Delete" || event.key === "Backspace") && this.cursor) {
      event.preventDefault();
      this.queue.push({ brush: this.domainFacts.brushes[0].name, at: this.cursor });
      this.flush();
    } else if (event.key === "Escape") { this.from = null; this.cursor = null; }
    else return;
    this.mark();
  }

  grab() {
    if (!this.from) { this.from = this.cursor; this.say(`Moving: ${this.describe(this.cursor)}`); return; }
    this.send("move", { source: this.from, target: this.cursor }, this.cursor);
    this.from = null;
  }

  describe([row, column]) {
    const tiles = this.facts.tiles;
    const what = this.names.get(`cell${tiles.cells[row * tiles.cols + column]}`) ?? "nothing";
    const agent = tiles.at[0] === row && tiles.at[1] === column ? "the agent, on " : "";
    return `Row ${row}, column ${column}: ${agent}${what}`;
  }

  mark() {
    const marks = this.refused.map(({ at }) => ({ at, kind: "bad" }));
    if (this.from) marks.push({ at: this.from, kind: "from" });
    if (this.hover) marks.push({ at: this.hover, kind: "hover" });
    if (this.cursor) marks.push({ at: this.cursor, kind: "cursor" });
    if (this.blamed) marks.push({ at: this.blamed, kind: "bad" });
    this.board.mark(marks.filter(({ at: [row, column] }) => row < this.board.rows && column < this.board.cols));
  }

  // Everything else

  where() {
    return { domain: this.studio.document.domain, level: this.facts.level };
  }

  async send(message, body, blamed = null) {
    try {
      const facts = await ask(message, { ...this.where(), ...body });
      this.refused = [];
      this.say("");
      this.changed(facts, message);
    } catch (error) {
      if (blamed && error instanceof Refusal) { this.refused = [{ at: blamed }]; this.say(error.message, true); this.mark(); }
      else this.fail(error);
    }
  }

  resize() {
    if (this.rows.validity.valid && this.columns.validity.valid && this.rows.value && this.columns.value)
      this.send("resize", { rows: Number(this.rows.value), columns: Number(this.columns.value) }).then(() => this.show(this.facts));
  }

  template() {
    const name = this.templates.value;
    this.templates.value = "";
    if (name) this.send("template", { name });
  }

  async random() {
    const seed = Math.floor(Math.random() * 2 ** 31);
    const done = this.studio.working("Drawing a level …");
    try {
      const found = await ask("sample", { domain: this.studio.document.domain, what: "level", seed, size: Number(this.size.value), pairing: "independent" });
      this.changed(await ask("level", { domain: this.studio.document.domain, level: found.level }), "random");
    } catch (error) { this.fail(error); }
    done();
  }

  async typed() {
    const level = Object.fromEntries(Object.entries(this.fields).map(([key, field]) => [key, field.value]).filter(([key, value], number) => number === 0 || value.trim()));
    try {
      const facts = await ask("level", { domain: this.studio.document.domain, level });
      this.complain(null);
      this.changed(facts, "text", true);
    } catch (error) {
      if (error instanceof Refusal && !error.offline) this.complain(error);
      else this.fail(error);
    }
  }

  /** Say what is wrong with the text of a level, and where. */
  complain(error) {
    for (const [key, field] of Object.entries(this.fields)) {
      const bad = error !== null && (error.key ?? this.domainFacts.keys[0]) === key;
      field.classList.toggle("bad", bad);
      field.setAttribute("aria-invalid", String(bad));
    }
    const place = error?.line ? `line ${error.line}${error.column ? `, column ${error.column}` : ""}: ` : "";
    this.trouble.textContent = error ? place + error.message : "";
  }

  changed(facts, how, fromText = false) {
    this.show(facts, fromText);
    this.studio.levelChanged(facts, how);
  }

  say(words, bad = false) {
    this.said.textContent = words;
    this.said.classList.toggle("bad", bad);
  }

  fail(error) {
    if (error instanceof Refusal) { if (!error.cancelled) toast(error.message, "bad"); }
    else throw error;
  }
}
