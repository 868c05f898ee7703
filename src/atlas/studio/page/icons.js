// Small signs for buttons, as strokes, so that they look the same with every font.

import { s } from "./ask.js";

const PATHS = {
  start: "M6 5v14 M19 5 9 12l10 7z",
  back: "M16 5 7 12l9 7z",
  play: "M8 5l11 7-11 7z",
  pause: "M8 5v14 M16 5v14",
  step: "M5 5l9 7-9 7z M18 5v14",
  undo: "M9 6 4 11l5 5 M4 11h10a5 5 0 0 1 0 10h-3",
  redo: "M15 6l5 5-5 5 M20 11H10a5 5 0 0 0 0 10h3",
  theme: "M12 3a9 9 0 1 0 0 18z M12 3a9 9 0 0 1 0 18",
  move: "M12 3v18 M3 12h18 M9 6l3-3 3 3 M9 18l3 3 3-3 M6 9l-3 3 3 3 M18 9l3 3-3 3",
  close: "M6 6l12 12 M18 6 6 18",
  folder: "M3 6h6l2 2h10v11H3z",
  file: "M6 3h8l4 4v14H6z M14 3v4h4",
  run: "M3 17l5-6 4 4 4-8 5 6",
  up: "M12 20V5 M6 11l6-6 6 6",
};

export function icon(name) {
  return s("svg", { class: "sign-icon", viewBox: "0 0 24 24", "aria-hidden": "true" }, s("path", { d: PATHS[name] }));
}
