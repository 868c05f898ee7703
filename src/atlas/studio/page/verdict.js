// Whether the problem can be solved: asked for again whenever it changes, in the background.

import { Refusal, ask, cancel, h, many, quiet } from "./ask.js";

const SIGNS = { solvable: "✓", unsolvable: "✗", unknown: "?" };
const WORDS = { solvable: "Solvable", unsolvable: "Unsolvable", unknown: "Unknown" };

export class Verdict {
  constructor(root, studio) {
    this.root = root;
    this.studio = studio;
    this.number = 0;
    this.later = quiet(120, (budget) => this.send(budget));
    this.root.setAttribute("aria-live", "polite");
  }

  ask(budget = undefined) {
    this.found = null;
    this.root.setAttribute("aria-busy", "true");
    this.later(budget);
  }

  missing() {
    this.later.cancel();
    this.number += 1;
    this.found = null;
    const empty = !this.studio.task?.text.value.trim();
    this.show("none", "–", "No verdict", empty ? "There is no task to solve yet." : "The task cannot be read yet.");
  }

  async send(budget) {
    const number = ++this.number;
    if (this.studio.document.task.value === null) { this.missing(); return; }
    const waiting = setTimeout(() => {
      if (number !== this.number) return;
      const since = Date.now();
      this.show("none", h("span", { className: "spinner" }), "Searching …", "", [h("button", { id: "cancel-search", onclick: () => { cancel("verdict"); } }, "Cancel")]);
      this.root.setAttribute("aria-busy", "true");
      const clock = setInterval(() => {
        if (number !== this.number || !this.root.querySelector("#cancel-search")) clearInterval(clock);
        else this.reason.textContent = `${Math.round((Date.now() - since) / 1000)} s`;
      }, 1000);
    }, this.found === null && this.root.childElementCount ? 350 : 0);
    try {
      const found = await ask("verdict", { problem: this.studio.problem, budget, where: this.studio.where });
      clearTimeout(waiting);
      if (number !== this.number) return;
      this.found = found;
      this.tell(found);
      this.studio.panels.plan.reset();
      this.studio.panels.compare.reset();
      this.studio.shownPanel()?.enter?.();
    } catch (error) {
      clearTimeout(waiting);
      if (number !== this.number) return;
      if (!(error instanceof Refusal)) throw error;
      if (error.cancelled) this.show("none", "–", "Cancelled", "The search was stopped.", [h("button", { onclick: () => this.ask() }, "Search again")]);
      else this.show("none", "!", "No verdict", error.message, [h("button", { onclick: () => this.ask() }, "Try again")]);
    }
  }

  tell(found) {
    const buttons = [];
    if (found.plan?.length) buttons.push(h("button", { id: "show-plan", className: "primary", onclick: () => { this.studio.tab("plan"); this.studio.panels.plan.start(); } }, `Show the plan · ${many(found.plan.length, "step")}`));
    if (found.verdict === "unknown") buttons.push(h("button", { onclick: () => this.ask(10 * found.budget) }, "Search ten times as long"));
    const findings = found.findings.filter((one) => one.sentence !== found.reason);
    this.show(found.trivial ? "unknown" : found.verdict, SIGNS[found.verdict], found.trivial ? "Trivial" : WORDS[found.verdict], capital(found.reason), buttons, findings);
  }

  show(kind, sign, word, reason, buttons = [], findings = []) {
    this.root.dataset.verdict = kind;
    this.root.setAttribute("aria-busy", "false");
    this.reason = h("p", { className: "reason" }, reason);
    this.root.replaceChildren(
      h("div", { className: "sign", "aria-hidden": "true" }, sign),
      h("div", { className: "says" }, h("h2", {}, word), this.reason,
        findings.length ? h("ul", { className: "findings" }, findings.map((one) => h("li", { className: one.level }, `${capital(one.kind)}: ${one.sentence}`))) : null),
      h("div", { className: "acts" }, buttons));
  }
}

const capital = (words) => words.charAt(0).toUpperCase() + words.slice(1) + (/[.!?]$/.test(words) || !words.includes(" ") ? "" : ".");
