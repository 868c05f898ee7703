// Playing, the plan, a policy, all three side by side, and the edits of teachers.

import { Refusal, ask, cancel, h, many, percent } from "./ask.js";
import { Board } from "./board.js";
import { icon } from "./icons.js";
import { Player } from "./player.js";

const KEY_NAMES = { ArrowUp: "up", ArrowDown: "down", ArrowLeft: "left", ArrowRight: "right" };
const SHOWN = { up: "↑", down: "↓", left: "←", right: "→", " ": "space" };

class Panel {
  constructor(root, studio) {
    this.root = root;
    this.studio = studio;
  }

  get here() { return this.studio.current === this.root.id; }
  light(scene) { if (this.here) this.studio.task.highlight(scene.place); }
  lacking() { return this.studio.taskIsMissing || this.studio.document.task.value === null; }
  message(words) { this.note.textContent = words; }
}

/** Somebody plays, with keys or buttons. */
export class Play extends Panel {
  constructor(root, studio) {
    super(root, studio);
    this.player = new Player("Your play", { moved: (scene) => this.light(scene) });
    this.player.controls.prepend(h("button", { id: "restart", onclick: () => this.restart() }, "Restart"));
    this.pad = h("div", { className: "pad", role: "group", "aria-label": "Actions" });
    this.help = h("p", { className: "dim small help" });
    this.note = h("p", { className: "dim", role: "status" });
    this.player.board.svg.setAttribute("tabindex", "0");
    this.player.board.svg.setAttribute("role", "application");
    root.replaceChildren(this.note, this.player.root, this.pad, this.help);
    this.player.root.after(this.pad);
    this.actions = [];
    document.addEventListener("keydown", (event) => this.key(event));
  }

  domain(facts) {
    this.keys = facts.play;
    const keyOf = (action) => Object.entries(facts.play).find(([, number]) => number === action)?.[0];
    this.pad.replaceChildren(...facts.actions.map((name, action) => {
      const key = keyOf(action);
      return h("button", { className: "act", "data-action": action, "aria-keyshortcuts": key === " " ? "Space" : key, onclick: () => this.act(action) },
        h("kbd", {}, SHOWN[key] ?? key ?? ""), h("span", {}, name));
    }));
    this.pad.style.setProperty("--across", facts.actions.length % 3 ? 4 : 3);
    this.help.textContent = `Keys: ${facts.help}  r restart`;
  }

  reset() { this.actions = []; this.sent = 0; this.film = null; this.player.empty(); this.number = (this.number ?? 0) + 1; }
  enter() {
    if (!this.film) { this.restart(); return; }
    this.light(this.player.scenes[this.player.now]);
    this.focus();
  }

  focus() {
    if (this.wantsFocus) this.player.board.svg.focus({ preventScroll: true });
    this.wantsFocus = false;
  }

  restart() {
    this.reset();
    this.send();
  }

  key(event) {
    if (!this.here || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (event.target.matches?.("input, textarea, select") || (event.key === " " && event.target.matches?.("button, summary"))) return;
    if (event.target.matches?.("[role=tab]") && event.key.startsWith("Arrow")) return;
    const key = KEY_NAMES[event.key] ?? event.key;
    if (key === "r") this.restart();
    else if (key in this.keys) { event.preventDefault(); this.act(this.keys[key]); }
  }

  act(action) {
    if (!this.film || this.player.scenes.at(-1)?.done) return;
    if (this.player.now < this.player.scenes.length - 1) {  // played on from an earlier moment
      this.actions.length = this.player.now;
    }
    this.actions.push(action);
    this.send();
  }

  async send() {
    if (this.busy) { this.again = true; return; }
    this.busy = true;
    await this.studio.settled();
    this.message(this.lacking() ? "There is no task to play yet." : "");
    this.player.root.hidden = this.pad.hidden = this.lacking();
    if (this.lacking()) { this.busy = this.again = false; return; }
    const number = this.number;
    const actions = [...this.actions];
    const since = this.film ? Math.min(this.player.now + 1, this.player.scenes.length) : 0;
    const done = this.studio.working("Getting ready to play …");
    try {
      const film = await ask("play", { problem: this.studio.problem, actions, since });
      if (number === this.number) {
        const first = !this.film;
        this.film = film;
        this.player.load(film, { add: !first });
        if (first && actions.length) this.player.go(this.player.scenes.length - 1);
        if (first) this.focus();
      }
    } catch (error) { this.studio.fail(error); }
    done();
    this.busy = false;
    if (this.again) { this.again = false; if (number !== this.number || this.actions.length !== actions.length) this.send(); }
  }
}

/** The plan of the prover. */
export class Plan extends Panel {
  constructor(root, studio) {
    super(root, studio);
    this.player = new Player("The plan", { moved: (scene) => this.light(scene) });
    this.note = h("p", { className: "dim", role: "status" });
    this.steps = h("ol", { className: "steps" });
    root.replaceChildren(this.note, this.player.root, h("details", { className: "text" }, h("summary", {}, "The actions"), this.steps));
  }

  reset() { this.film = null; this.player.empty(); }
  leave() { this.player.stop(); }
  async start() { this.wanted = true; if (await this.load()) { this.wanted = false; this.player.start(); } }
  enter() { this.load(); }

  async load() {
    const found = this.studio.verdict.found;
    this.player.root.hidden = !found?.plan?.length;
    if (!found) { this.message(this.lacking() ? "There is no task to plan for yet." : "The search for a plan is not over yet."); return false; }
    if (!found.plan?.length) { this.message(found.plan ? "Nothing needs to be done." : `There is no plan: ${found.reason}.`); return false; }
    this.message("");
    if (this.film) { this.player.go(this.player.now); return true; }
    try {
      this.film = await ask("play", { problem: this.studio.problem, actions: found.plan, since: 0 });
    } catch (error) { this.studio.fail(error); return false; }
    this.steps.replaceChildren(...found.names.map((name) => h("li", {}, name.replaceAll("_", " "))));
    this.player.load(this.film);
    return true;
  }
}

/** A trained policy. */
export class Watch extends Panel {
  constructor(root, studio) {
    super(root, studio);
    this.player = new Player("The policy", { moved: (scene) => this.light(scene) });
    this.note = h("p", { className: "dim", role: "status" });
    this.runs = h("datalist", { id: "runs" });
    this.policy = h("input", {
      value: studio.start.policy ?? "", placeholder: "a run below the folder", "aria-label": "Which policy", spellcheck: false, list: "runs",
      onfocus: () => this.list(), onchange: () => { this.reset(); this.enter(); },
    });
    this.greedy = h("select", { "aria-label": "How actions are chosen", onchange: () => { this.reset(); this.enter(); } }, h("option", { value: "" }, "sampled"), h("option", { value: "yes" }, "greedy"));
    this.rated = h("span", { className: "rated", role: "status" });
    this.buttons = h("div", { className: "row" },
      h("label", {}, "Policy ", this.policy, this.runs), this.greedy,
      h("button", { id: "again", onclick: () => { this.seed += 1; this.film = null; this.load(true); } }, "Another episode"),
      h("button", { id: "rate", onclick: () => this.rate() }, "20 attempts"), this.rated);
    root.replaceChildren(this.buttons, this.note, this.player.root);
    this.seed = 0;
  }

  reset() { this.film = null; this.player.empty(); this.rated.textContent = ""; this.number = (this.number ?? 0) + 1; }
  leave() { this.player.stop(); }
  enter() { if (this.film) this.player.go(this.player.now); else this.load(true); }

  /** Offer the runs that are there now. */
  async list() {
    try {
      const { runs } = await ask("runs");
      this.runs.replaceChildren(...runs.map((run) => h("option", { value: run })));
    } catch (error) { this.studio.fail(error); }
  }

  body() { return { problem: this.studio.problem, policy: this.policy.value.trim(), greedy: Boolean(this.greedy.value) }; }

  async load(run = false) {
    const ready = this.policy.value.trim() && !this.lacking();
    this.player.root.hidden = !this.film;
    if (!ready) {
      this.message(this.lacking() ? "There is no task to play yet." : "No policy was given. Name a run folder here, or start with: atlas studio --policy RUN");
      return false;
    }
    if (this.film) return true;
    const number = this.number;
    const done = this.studio.working("The policy plays …");
    this.message("");
    try {
      const film = await ask("watch", { ...this.body(), seed: this.seed });
      if (number !== this.number) return false;
      this.film = film;
      this.player.root.hidden = false;
      this.player.load(film);
      this.message(`${film.policy.name}, after ${film.policy.steps.toLocaleString("en")} env steps: ${film.ending} in ${many(film.scenes.length - 1, "step")}`);
      if (run && this.here) this.player.start();
      return true;
    } catch (error) {
      if (error instanceof Refusal && !error.cancelled) this.message(error.message);
      else if (!(error instanceof Refusal)) throw error;
      return false;
    } finally { done(); }
  }

  async rate() {
    if (this.lacking() || !this.policy.value.trim()) { this.load(); return; }
    this.rated.replaceChildren(h("span", { className: "spinner" }), " playing … ", h("button", { onclick: () => cancel("rate") }, "Cancel"));
    try {
      const found = await ask("rate", { ...this.body(), attempts: 20, seed: this.seed });
      const steps = found.steps === null ? "" : `, ${found.steps.toFixed(0)} steps on average`;
      this.rated.textContent = `solved ${found.solved} of ${found.attempts} (${percent(found.low)} to ${percent(found.high)})${steps}`;
    } catch (error) {
      this.rated.textContent = error.cancelled ? "" : error.message;
    }
  }
}

/** Your play, the plan and the policy beside each other, step by step. */
export class Compare extends Panel {
  constructor(root, studio) {
    super(root, studio);
    this.players = { play: new Player("Your play", { small: true }), plan: new Player("The plan", { small: true }), watch: new Player("The policy", { small: true }) };
    this.notes = {};
    this.slider = h("input", { type: "range", min: 0, max: 0, value: 0, "aria-label": "Moment of all three", oninput: () => this.go(Number(this.slider.value)) });
    this.told = h("output", { className: "told" });
    const columns = Object.entries({ play: "You", plan: "Plan", watch: "Policy" }).map(([name, title]) => {
      this.notes[name] = h("p", { className: "dim small" });
      this.players[name].controls.hidden = true;
      return h("section", { "aria-label": title }, h("h3", {}, title), this.notes[name], this.players[name].root);
    });
    this.run = h("button", { className: "icon", "aria-label": "Play or pause all", onclick: () => this.toggle() }, icon("play"));
    root.replaceChildren(h("div", { className: "controls" }, this.run, this.slider, this.told), h("div", { className: "beside" }, columns));
  }

  reset() { this.stop(); this.loaded = false; if (this.here) this.enter(); }
  leave() { this.stop(); }

  async enter() {
    const { play, plan, watch } = this.studio.panels;
    this.put("play", play.film ? { scenes: play.player.scenes, ending: play.player.ending, actions: play.player.actions } : null, "Play it first, in the tab Play.");
    await plan.load();
    this.put("plan", plan.film && { scenes: plan.player.scenes, ending: plan.player.ending, actions: plan.player.actions }, plan.note.textContent);
    if (watch.policy.value.trim()) await watch.load();
    this.put("watch", watch.film && { scenes: watch.player.scenes, ending: watch.player.ending, actions: watch.player.actions }, watch.note.textContent || "No policy was given.");
    this.slider.max = Math.max(0, ...Object.values(this.players).map((player) => player.scenes.length - 1));
    this.go(0);
  }

  put(name, film, words) {
    const player = this.players[name];
    player.root.hidden = !film;
    this.notes[name].textContent = film ? `${many(film.scenes.length - 1, "step")}${film.ending ? `, ${film.ending}` : ""}` : words;
    player.empty();
    if (film) Object.assign(player, { scenes: film.scenes, ending: film.ending, actions: film.actions });
  }

  go(moment) {
    this.slider.value = moment;
    this.told.textContent = `step ${moment}`;
    for (const player of Object.values(this.players)) player.go(moment);
  }

  toggle() {
    if (this.timer) { this.stop(); return; }
    this.run.replaceChildren(icon("pause"));
    if (Number(this.slider.value) >= Number(this.slider.max)) this.go(0);
    this.timer = setInterval(() => {
      if (Number(this.slider.value) >= Number(this.slider.max)) this.stop();
      else this.go(Number(this.slider.value) + 1);
    }, 1000 / 6);
  }

  stop() { clearInterval(this.timer); this.timer = undefined; this.run.replaceChildren(icon("play")); }
}

/** One edit, as teachers make them: before and after. */
export class Edits extends Panel {
  constructor(root, studio) {
    super(root, studio);
    this.kind = h("select", { "aria-label": "Which edit" });
    this.note = h("p", { role: "status", className: "edit-words" });
    this.before = new Board("Before the edit");
    this.after = new Board("After the edit");
    this.words = [h("p", { className: "small" }), h("p", { className: "small" })];
    this.keep = h("button", { id: "keep-edit", className: "primary", onclick: () => this.accept() }, "Keep it");
    this.kept = h("ol", { className: "kept" });
    this.pair = h("div", { className: "beside two", hidden: true },
      h("section", { "aria-label": "Before" }, h("h3", {}, "Before"), h("div", { className: "frame" }, this.before.svg), this.words[0]),
      h("section", { "aria-label": "After" }, h("h3", {}, "After"), h("div", { className: "frame" }, this.after.svg), this.words[1], this.keep));
    root.replaceChildren(
      h("p", { className: "dim" }, "Teachers change problems by small edits like these. Each press draws another one of its kind."),
      h("div", { className: "row" }, this.kind, h("button", { id: "apply-edit", onclick: () => this.apply() }, "Make the edit")),
      this.note, this.pair, h("details", { className: "text" }, h("summary", {}, "Edits that were kept"), this.kept));
    this.seed = Math.floor(Math.random() * 1e6);
  }

  domain(facts) { this.kind.replaceChildren(...facts.edits.map((name) => h("option", { value: name }, name.replaceAll("_", " ")))); }
  reset() { this.made = null; this.pair.hidden = true; this.note.textContent = ""; }

  async apply() {
    await this.studio.settled();
    if (this.lacking()) { this.note.textContent = "There is no task yet."; return; }
    const done = this.studio.working("Editing …");
    try {
      const made = await ask("edit", { problem: this.studio.problem, kind: this.kind.value, seed: this.seed++ });
      const facts = await ask("level", { domain: made.problem.domain, level: made.problem.level });
      const told = await ask("task", { domain: made.problem.domain, level: made.problem.level, mode: "value", value: made.problem.task });
      this.made = made;
      this.before.show(this.studio.level.tiles);
      this.after.show(facts.tiles);
      this.words[0].textContent = this.studio.task.told.understood;
      this.words[1].textContent = told.understood;
      this.note.textContent = made.edit;
      this.pair.hidden = false;
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      this.pair.hidden = true;
      this.note.textContent = error.message;
    } finally { done(); }
  }

  async accept() {
    const { problem, edit } = this.made;
    this.kept.append(h("li", {}, edit));
    await this.studio.load({ ...problem, name: this.studio.document.name, tags: this.studio.document.tags, notes: this.studio.document.notes });
    this.studio.modified = true;
    this.studio.tab("edits");
  }
}
