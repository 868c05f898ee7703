// Messages to the server, and small helpers that every part of the page uses.

export class Refusal extends Error {
  constructor(error) {
    super(error.sentence);
    Object.assign(this, error);
  }
}

const page = Math.random().toString(36).slice(2);
export const token = location.pathname.split("/")[1];

async function post(name, body) {
  let answer;
  try {
    answer = await fetch(`do/${name}`, {
      method: "POST",
      headers: { "content-type": "application/json", "x-page": page },
      body: JSON.stringify(body),
    });
  } catch {
    throw new Refusal({ sentence: "The studio does not answer: is it still running in its terminal?", offline: true });
  }
  const content = answer.headers.get("content-type")?.includes("json") ? await answer.json() : { error: { sentence: await answer.text() } };
  if (!answer.ok) throw new Refusal(content.error ?? { sentence: answer.statusText });
  return content;
}

/** The reply to a message; what is wrong with it is thrown as a `Refusal`. */
export const ask = (name, body = {}) => post(name, body);
export const cancel = (message) => post("cancel", { message }).catch(() => {});

/** An element: properties by name (`on…` are listeners, `aria…` and `data…` attributes), then what is in it. */
export function h(tag, properties = {}, ...inside) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name.includes("-") || name === "role" || name === "for" || name === "list") made.setAttribute(name, value);
    else made[name] = value;
  }
  made.append(...inside.flat().filter((one) => one !== null && one !== undefined && one !== false));
  return made;
}

export const SVG = "http://www.w3.org/2000/svg";
export function s(tag, attributes = {}, ...inside) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...inside);
  return made;
}

/** SVG that the server drew. */
export function drawn(text) {
  const holder = document.createElement("template");
  holder.innerHTML = text;
  return holder.content.firstElementChild;
}

/** Call a function once things have been quiet for a while. `now` waits no longer, and is over when the call is. */
export function quiet(wait, call) {
  let timer, wanted, running;
  const go = () => {
    later.cancel();
    running = call(...wanted);
  };
  const later = (...given) => {
    later.cancel();
    wanted = given;
    timer = setTimeout(go, wait);
  };
  later.cancel = () => { clearTimeout(timer); timer = undefined; };
  later.now = () => { if (timer !== undefined) go(); return running; };
  return later;
}

export function toast(words, kind = "note") {
  const shown = h("div", { className: `toast ${kind}` }, words);
  document.getElementById("toasts").append(shown);
  setTimeout(() => shown.remove(), kind === "bad" ? 7000 : 3500);
}

export const percent = (share) => `${Math.round(100 * share)} %`;
export const many = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;
export const short = (n) => (n >= 1e9 ? `${(n / 1e9).toFixed(1)}G` : n >= 1e6 ? `${(n / 1e6).toFixed(1)}M` : n >= 1e3 ? `${(n / 1e3).toFixed(0)}k` : `${n}`);
