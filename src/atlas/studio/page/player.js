// An episode moment by moment: the level, what the agent sees, what holds, how far the task is, what a policy thinks.

import { h, percent } from "./ask.js";
import { Board } from "./board.js";
import { icon } from "./icons.js";

const ENDS = { solved: "good", failed: "bad", "out of steps": "bad", trivial: "fair" };

export class Player {
  /** `moved(scene)` is called with each moment that is shown. */
  constructor(title, { small = false, moved = () => {} } = {}) {
    this.moved = moved;
    this.board = new Board(title);
    this.view = new Board("What the agent sees");
    this.scenes = [];
    this.now = 0;
    this.speed = 6;
    this.facts = h("dl", { className: "facts" });
    this.thoughts = h("div", { className: "thoughts" });
    this.end = h("p", { className: "end", role: "status" });
    this.slider = h("input", { type: "range", min: 0, max: 0, value: 0, "aria-label": `${title}: moment`, oninput: () => { this.stop(); this.go(Number(this.slider.value)); } });
    const button = (sign, label, act) => h("button", { className: "icon", title: label, "aria-label": label, onclick: act }, sign);
    this.run = button(icon("play"), "Play or pause", () => (this.timer ? this.stop() : this.start()));
    this.told = h("output", { className: "told" });
    this.pace = h("select", { "aria-label": "Speed", onchange: () => { this.speed = Number(this.pace.value); if (this.timer) { this.stop(); this.start(); } } },
      [[2, "slow"], [6, "usual"], [15, "fast"], [60, "very fast"]].map(([value, words]) => h("option", { value, selected: value === 6 }, words)));
    this.controls = h("div", { className: "controls" },
      button(icon("start"), "To the start", () => { this.stop(); this.go(0); }),
      button(icon("back"), "A step back", () => { this.stop(); this.go(this.now - 1); }),
      this.run,
      button(icon("step"), "A step on", () => { this.stop(); this.go(this.now + 1); }),
      this.slider, this.told, small ? null : this.pace);
    this.panel = h("div", { className: "insight" },
      h("figure", { className: "view" }, h("div", {}, this.view.svg), h("figcaption", {}, "what it sees")), this.facts, this.thoughts);
    this.root = h("div", { className: `player${small ? " small" : ""}` },
      h("div", { className: "watching" }, h("div", { className: "frame" }, this.board.svg), this.panel), this.end, this.controls);
  }

  /** Show a film from its start, or add the later part of one: `film.first` says where it begins. */
  load(film, { add = false } = {}) {
    this.film = add ? this.film : film;
    const cells = [...film.cells];
    const made = film.scenes.map((scene) => {
      for (const [index, code] of scene.changed) cells[index] = code;
      return { ...scene, cols: film.cols, cells: [...cells] };
    });
    this.scenes = add ? [...this.scenes.slice(0, film.first), ...made] : made;
    this.ending = film.ending;
    this.holds = this.scenes.some((scene) => scene.holding);
    this.actions = film.actions;
    this.slider.max = this.scenes.length - 1;
    this.go(add ? this.scenes.length - 1 : 0);
  }

  empty() {
    this.stop();
    this.scenes = [];
    this.now = 0;
  }

  go(moment) {
    if (!this.scenes.length) return;
    this.now = Math.max(0, Math.min(this.scenes.length - 1, moment));
    const scene = this.scenes[this.now];
    this.board.show(scene);
    this.view.show(scene.view);
    this.slider.value = this.now;
    this.slider.setAttribute("aria-valuetext", `step ${this.now}: ${scene.did}`);
    this.told.textContent = `${this.now}/${this.scenes.length - 1} · ${scene.did}`;
    const rows = [["label", scene.label.join(" · ") || "nothing"], ["task", scene.state], ...(this.holds || scene.holding ? [["holding", scene.holding ?? "nothing"]] : []), ["return", scene.total.toFixed(2).replace(/\.?0+$/, "") || "0"]];
    this.facts.replaceChildren(...rows.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
    this.think(scene);
    const over = this.ending && this.now === this.scenes.length - 1;
    this.end.textContent = over ? { solved: "Solved: the task is complete.", failed: "Over: the task has failed.", trivial: "The first view alone ends this task.", "out of steps": "Over: out of steps." }[this.ending] : "";
    this.end.className = `end ${over ? ENDS[this.ending] : ""}`;
    this.moved(scene);
  }

  think(scene) {
    this.thoughts.hidden = !scene.p?.length && scene.value === undefined;
    const rows = (scene.p ?? []).map((share, action) => {
      const bar = h("i");
      bar.style.setProperty("--p", share / 100);
      return h("div", { className: action === scene.next ? "taken" : "" }, h("span", {}, this.actions[action]), bar, h("b", {}, percent(share / 100)));
    });
    const value = scene.value === undefined || scene.value === null ? [] : [h("p", {}, `expects a return of ${scene.value.toFixed(2)}`)];
    this.thoughts.replaceChildren(...rows, ...value);
  }

  start() {
    if (this.now >= this.scenes.length - 1) this.go(0);
    this.run.replaceChildren(icon("pause"));
    this.timer = setInterval(() => {
      if (this.now >= this.scenes.length - 1) this.stop();
      else this.go(this.now + 1);
    }, 1000 / this.speed);
  }

  stop() {
    clearInterval(this.timer);
    this.timer = undefined;
    this.run.replaceChildren(icon("play"));
  }
}
