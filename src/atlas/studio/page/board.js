// A level drawn from tiles: cells by number, the agent, what it sees, what it holds.

import { s } from "./ask.js";

export class Board {
  constructor(label) {
    this.svg = s("svg", { class: "board", role: "img", "aria-label": label, preserveAspectRatio: "xMidYMid meet" });
    this.cells = s("g");
    this.lights = s("g");
    this.above = s("g");
    this.agent = s("use");
    this.held = s("use");
    this.svg.append(this.cells, this.lights, this.agent, this.held, this.above);
    this.key = "";
    new ResizeObserver(() => this.fit()).observe(this.svg);
  }

  /** Cells take whole pixels, so that no seams show between them. */
  fit() {
    const frame = this.svg.parentElement;
    if (!frame || !this.cols) return;
    const style = getComputedStyle(frame);
    const room = frame.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    const most = frame.classList.contains("frame") ? Math.max(220, 0.6 * innerHeight) : Infinity;
    const cell = Math.max(4, Math.floor(Math.min(room / this.cols, most / this.rows, 56)));
    if (room > 0) this.svg.style.width = `${cell * this.cols}px`;
  }

  /** Show tiles; only what has changed is touched. */
  show(tiles) {
    const rows = tiles.cells.length / tiles.cols;
    if (this.key !== `${rows}x${tiles.cols}`) this.build(rows, tiles.cols);
    tiles.cells.forEach((code, index) => {
      if (this.codes[index] !== code) {
        this.codes[index] = code;
        this.uses[index].setAttribute("href", `#cell${code}`);
      }
    });
    const lit = new Set(tiles.lit);
    this.shades.forEach((shade, index) => shade.classList.toggle("on", lit.has(index)));
    const [row, column] = tiles.at;
    this.agent.setAttribute("href", `#agent${tiles.to}`);
    this.agent.setAttribute("x", column);
    this.agent.setAttribute("y", row);
    const empty = tiles.held === undefined;
    this.held.setAttribute("href", empty ? "" : `#cell${tiles.held}`);
    this.held.setAttribute("transform", `translate(${column + 0.55} ${row + 0.55}) scale(0.45)`);
    this.held.style.display = empty ? "none" : "";
    this.tiles = tiles;
  }

  build(rows, cols) {
    this.key = `${rows}x${cols}`;
    this.rows = rows;
    this.cols = cols;
    this.svg.setAttribute("viewBox", `0 0 ${cols} ${rows}`);
    this.codes = new Array(rows * cols).fill(-1);
    const at = (index) => ({ x: index % cols, y: Math.floor(index / cols), width: 1, height: 1 });
    this.uses = this.codes.map((_, index) => s("use", at(index)));
    this.shades = this.codes.map((_, index) => s("rect", { ...at(index), class: "lit" }));
    this.cells.replaceChildren(...this.uses);
    this.lights.replaceChildren(...this.shades);
    this.above.replaceChildren();
    this.fit();
  }

  /** The cell under a pointer, as [row, column]; null outside. */
  under(event) {
    const matrix = this.svg.getScreenCTM();
    if (!matrix) return null;
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix.inverse());
    const place = [Math.floor(point.y), Math.floor(point.x)];
    return place[0] >= 0 && place[0] < this.rows && place[1] >= 0 && place[1] < this.cols ? place : null;
  }

  /** Frames around cells: `[{at, kind}]`. */
  mark(marks) {
    this.above.replaceChildren(...marks.map(({ at: [row, column], kind }) =>
      s("rect", { x: column + 0.04, y: row + 0.04, width: 0.92, height: 0.92, rx: 0.1, class: `mark ${kind}` })));
  }
}

/** A small picture of something that can be painted. */
export function stamp(symbols) {
  return s("svg", { class: "stamp", viewBox: "0 0 1 1", "aria-hidden": "true" },
    ...symbols.map((name) => s("use", { href: `#${name}`, width: 1, height: 1 })));
}
