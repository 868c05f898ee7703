"use strict";
// Tables that sort when their heads are pressed, curves over another axis, a switch between dark and light, and players of episodes.

for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => head.firstElementChild.addEventListener("click", () => {
    const up = head.getAttribute("aria-sort") !== "ascending";
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const key = (row) => {
      const cell = row.cells[column];
      return cell.dataset.key === undefined ? cell.textContent : Number(cell.dataset.key);
    };
    const order = (a, b) => typeof a === "number" && typeof b === "number"
      ? a - b : String(a).localeCompare(String(b), undefined, { numeric: true });
    const rows = [...table.tBodies[0].rows].sort((a, b) => order(key(a), key(b)) * (up ? 1 : -1));
    table.tBodies[0].append(...rows);
  }));
}

for (const field of document.querySelectorAll("input.filter")) {
  const rows = [...field.parentElement.querySelectorAll("tbody tr")];
  field.addEventListener("input", () => {
    const wanted = field.value.toLowerCase().split(/\s+/);
    for (const row of rows) row.hidden = !wanted.every((word) => row.textContent.toLowerCase().includes(word));
  });
}

for (const section of document.querySelectorAll("section")) {
  const switches = [...section.querySelectorAll(".axes button")];
  const choose = (axis) => {
    for (const figure of section.querySelectorAll("figure[data-axis]"))
      figure.classList.toggle("other", figure.dataset.axis !== "" && figure.dataset.axis !== axis);
    for (const one of switches) one.setAttribute("aria-pressed", String(one.dataset.axis === axis));
  };
  if (!switches.length) continue;
  switches[0].parentElement.hidden = false;
  for (const one of switches) one.addEventListener("click", () => choose(one.dataset.axis));
  choose(switches[0].dataset.axis);
}

const theme = document.querySelector("nav button");
theme.hidden = false;
theme.addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
});

const SVG = "http://www.w3.org/2000/svg";
const element = (name, parent, text) => {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  parent.append(made);
  return made;
};

class Player {
  constructor(root) {
    this.film = JSON.parse(root.querySelector("script").textContent);
    this.svg = root.querySelector(".level svg");
    this.machines = [...root.querySelectorAll(".machine > div")];
    this.thoughts = root.querySelector(".thoughts");
    this.rows = this.film.cells.length / this.film.cols;
    this.svg.setAttribute("viewBox", `0 0 ${this.film.cols} ${this.rows}`);
    this.svg.setAttribute("height", (this.svg.getAttribute("width") * this.rows) / this.film.cols);
    this.cells = [...this.film.cells];
    this.now = 0;
    this.controls(root.querySelector(".controls"));
    this.build();
    this.show(0);
  }

  controls(box) {
    this.button = element("button", box, "▶");
    this.button.type = "button";
    this.button.setAttribute("aria-label", "play or pause");
    this.slider = element("input", box);
    this.slider.setAttribute("aria-label", "moment");
    Object.assign(this.slider, { type: "range", min: 0, max: this.film.scenes.length - 1, value: 0 });
    this.told = element("output", box);
    this.button.addEventListener("click", () => (this.timer ? this.stop() : this.start()));
    this.slider.addEventListener("input", () => { this.stop(); this.show(Number(this.slider.value)); });
  }

  build() {
    this.svg.replaceChildren();
    const make = (name) => this.svg.appendChild(document.createElementNS(SVG, name));
    const put = (shape, index) => {
      shape.setAttribute("x", index % this.film.cols);
      shape.setAttribute("y", Math.floor(index / this.film.cols));
      shape.setAttribute("width", 1);
      shape.setAttribute("height", 1);
      return shape;
    };
    this.uses = this.cells.map((_, index) => put(make("use"), index));
    this.lights = this.cells.map((_, index) => {
      const light = put(make("rect"), index);
      light.setAttribute("fill", "#fff");
      light.setAttribute("fill-opacity", "0.22");
      return light;
    });
    this.agent = make("use");
    this.held = make("use");
    this.paint(this.cells.keys());
  }

  paint(indices) {
    for (const index of indices) this.uses[index].setAttribute("href", `#cell${this.cells[index]}`);
  }

  show(moment) {
    if (moment < this.now) { this.cells = [...this.film.cells]; this.now = 0; this.paint(this.cells.keys()); }
    for (; this.now < moment; this.now++) {
      const changed = this.film.scenes[this.now + 1].changed;
      for (const [index, code] of changed) this.cells[index] = code;
      this.paint(changed.map(([index]) => index));
    }
    const scene = this.film.scenes[moment];
    this.place(scene);
    this.machines.forEach((machine, number) => { machine.hidden = number !== scene.place; });
    this.think(scene);
    this.slider.value = moment;
    this.told.textContent = `${moment} · ${scene.did}`;
  }

  place(scene) {
    const [row, column] = scene.at;
    this.agent.setAttribute("href", `#agent${scene.to}`);
    this.agent.setAttribute("x", column);
    this.agent.setAttribute("y", row);
    this.held.setAttribute("transform", `translate(${column + 0.55} ${row + 0.55}) scale(0.45)`);
    const empty = scene.held === undefined;
    this.held.setAttribute("href", empty ? "" : `#cell${scene.held}`);
    this.held.style.display = empty ? "none" : "";
    const lit = new Set(scene.lit);
    this.lights.forEach((light, index) => { light.style.display = lit.has(index) ? "" : "none"; });
  }

  think(scene) {
    this.thoughts.replaceChildren();
    (scene.p ?? []).forEach((share, action) => {
      const row = element("div", this.thoughts);
      if (action === scene.next) row.className = "taken";
      element("span", row, this.film.actions[action]);
      element("i", row).style.setProperty("--p", share);
      element("b", row, `${share}%`);
    });
    const hopes = scene.value === null || scene.value === undefined ? "" : `, expects a return of ${scene.value.toFixed(2)}`;
    element("p", this.thoughts, `task in ${scene.state}${hopes}`);
    if (scene.holding) element("p", this.thoughts, `carrying a ${scene.holding}`);
  }

  start() {
    if (this.now === this.film.scenes.length - 1) this.show(0);
    this.button.textContent = "⏸";
    const pace = Math.max(60, Math.min(220, 20000 / this.film.scenes.length));
    this.timer = setInterval(() => {
      if (this.now >= this.film.scenes.length - 1) this.stop();
      else this.show(this.now + 1);
    }, pace);
  }

  stop() {
    clearInterval(this.timer);
    this.timer = undefined;
    this.button.textContent = "▶";
  }
}

for (const root of document.querySelectorAll(".player")) new Player(root);
