// A run, perhaps one that still trains: its curves, what is replayed now, and where a problem came from.

import { ask, h, percent, s, short } from "./ask.js";
import { dialog } from "./share.js";

const TITLES = { held_out: "Held-out problems: share solved", solve_rate: "Training: share solved", solvable: "Share that can be solved", curriculum: "Sizes of what is replayed", score: "Scores", losses: "Losses" };
const SHARES = ["held_out", "solve_rate", "solvable"];
const groupOf = (name) => (name === "curriculum/problems" ? "" : name.startsWith("curriculum/solvable") ? "solvable" : name.split("/")[0]);

export async function runDialog(studio, run) {
  const done = studio.working("Reading the run …");
  let told;
  try { told = await ask("run", { run }); } catch (error) { studio.fail(error); return; } finally { done(); }
  const head = h("p", { role: "status", className: "dim" });
  const charts = h("div", { className: "charts" });
  const cards = h("div", { className: "gallery" });
  const when = h("p", { className: "dim" });
  const ancestry = h("div", { className: "ancestry" });
  const made = dialog(`Run ${told.name}`, head,
    h("div", { className: "row" }, h("button", { className: "primary", onclick: () => { studio.panels.watch.policy.value = run; studio.panels.watch.reset(); made.close(); studio.tab("watch"); } }, "Watch its policy")),
    charts, h("h3", {}, "Replayed now"), when, cards, ancestry);
  made.classList.add("wide");
  let shown = "";
  const show = (fresh) => {
    told = fresh;
    const minutes = fresh.seconds ? `, ${(fresh.seconds / 60).toFixed(1)} minutes` : "";
    head.textContent = `${fresh.teacher}: ${fresh.training ? "training" : "not training now"}, ${short(fresh.steps)} of ${short(fresh.total)} env steps${minutes}`;
    const groups = {};
    for (const name of Object.keys(fresh.curves)) (groups[groupOf(name)] ??= []).push(name);
    charts.replaceChildren(...Object.keys(TITLES).filter((group) => groups[group]).map((group) => chart(TITLES[group], groups[group], fresh.curves, SHARES.includes(group))));
    if (!charts.childElementCount) charts.append(h("p", { className: "dim" }, "It has written no metrics yet."));
    const replayed = fresh.replayed;
    when.textContent = replayed ? `as of ${short(replayed.steps ?? 0)} env steps, the likeliest first` : "It has kept no snapshot of its problems yet.";
    if (replayed && shown !== replayed.where) {
      shown = replayed.where;
      cards.replaceChildren(...replayed.problems.map((one) => card(studio, made, replayed.where, one, () => lineage(studio, made, run, one.name, ancestry))));
    }
  };
  show(told);
  const events = new EventSource(`live?${new URLSearchParams({ run })}`);
  events.addEventListener("changed", (event) => show(JSON.parse(event.data)));
  made.addEventListener("close", () => events.close());
}

const picture = (where, name) => h("span", { className: "picture" }, h("img", { loading: "lazy", alt: "", src: `picture?${new URLSearchParams({ where, name })}` }));

async function openFrom(studio, made, where, name) {
  try {
    const found = await ask("open", { where, name });
    await studio.load(found.problem, null);
    studio.path = null;
    made.close();
  } catch (error) { studio.fail(error); }
}

function card(studio, made, where, one, ancestors) {
  const played = one.attempts ? `solved ${one.solves} of ${one.attempts}` : "not played yet";
  return h("article", { className: "item" },
    h("button", { className: "plain", "aria-label": `Open ${one.name}`, onclick: () => openFrom(studio, made, where, one.name) }, picture(where, one.name)),
    h("span", { className: "small" }, one.words),
    h("span", { className: "dim small" }, `${percent(one.probability ?? 0)} of replays · ${played} · score ${Number(one.score ?? 0).toPrecision(2)}`),
    h("button", { className: "small", onclick: ancestors }, one.parent >= 0 ? `Generation ${one.generation}: lineage` : "Sampled: lineage"));
}

async function lineage(studio, made, run, name, box) {
  try {
    const { chain } = await ask("lineage", { run, name });
    box.replaceChildren(h("h3", {}, `Lineage of ${name}`), h("ol", { className: "chain" }, chain.map((one, number) => one.missing
      ? h("li", { className: "dim" }, `Problem ${one.number.toLocaleString("en")}: no snapshot has kept it.`)
      : h("li", {}, h("button", { className: "plain", "aria-label": `Open ${one.name}`, onclick: () => openFrom(studio, made, one.where, one.name) }, picture(one.where, one.name)),
        h("div", {}, h("b", {}, number === 0 ? "this problem" : `its ${"grand".repeat(Math.max(0, Math.min(3, number - 1)))}parent`), h("p", { className: "small" }, one.words),
          one.edits?.length ? h("ul", { className: "small" }, one.edits.map((edit) => h("li", {}, edit))) : h("p", { className: "small dim" }, "sampled"))))));
    box.scrollIntoView({ behavior: "smooth", block: "nearest" });
  } catch (error) { studio.fail(error); }
}

/** Curves over env steps. */
function chart(title, names, curves, share) {
  const [width, height, left, bottom] = [360, 190, 46, 22];
  const points = names.flatMap((name) => curves[name]);
  const most = Math.max(...points.map(([x]) => x), 1);
  let low = share ? 0 : Math.min(0, ...points.map(([, y]) => y));
  let high = share ? 1 : Math.max(...points.map(([, y]) => y), low + 1e-6);
  if (!share && high - low < 1e-9) high = low + 1;
  const x = (value) => left + ((width - left - 8) * value) / most;
  const y = (value) => height - bottom - ((height - bottom - 8) * (value - low)) / (high - low);
  const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${title}: ${names.map((name) => `${name.split("/")[1]} ${curves[name].at(-1)[1].toPrecision(3)}`).join(", ")}` });
  for (const value of [low, (low + high) / 2, high]) {
    svg.append(s("line", { x1: left, x2: width - 8, y1: y(value), y2: y(value), class: "rule" }));
    svg.append(s("text", { x: left - 5, y: y(value) + 3.5, class: "tick before" }, share ? percent(value) : Number(value.toPrecision(2)).toString()));
  }
  for (const value of [0, most / 2, most]) svg.append(s("text", { x: x(value), y: height - 6, class: "tick middle" }, short(Math.round(value))));
  names.forEach((name, number) => svg.append(s("polyline", { points: curves[name].map(([at, value]) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`).join(" "), class: `curve c${number % 8}` })));
  return h("figure", { className: "chart" }, h("figcaption", {}, title), svg,
    h("div", { className: "key small" }, names.map((name, number) => h("span", { className: `c${number % 8}` }, `${name.split("/")[1].replaceAll("_", " ")} ${share ? percent(curves[name].at(-1)[1]) : Number(curves[name].at(-1)[1].toPrecision(3))}`))));
}
