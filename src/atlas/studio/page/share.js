// A problem as a link, as a file, and as text.

import { Refusal, ask, h, toast } from "./ask.js";
import { icon } from "./icons.js";

const through = async (bytes, stream) => new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(stream)).arrayBuffer());

/** A text as part of a link. */
export async function packed(text) {
  const bytes = await through(new TextEncoder().encode(text), new CompressionStream("deflate-raw"));
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

export async function unpacked(part) {
  const bytes = Uint8Array.from(atob(part.replaceAll("-", "+").replaceAll("_", "/")), (letter) => letter.charCodeAt(0));
  const found = await through(bytes, new DecompressionStream("deflate-raw"));
  if (found.length > 200000) throw new Error("too long");
  return new TextDecoder().decode(found);
}

/** A dialog with a heading, closed by its button, by Escape or by a press beside it. */
export function dialog(title, ...inside) {
  const made = h("dialog", { "aria-label": title },
    h("div", { className: "head" }, h("h2", {}, title), h("button", { className: "icon", "aria-label": "Close", onclick: () => made.close() }, icon("close"))), inside);
  made.addEventListener("click", (event) => { if (event.target === made) made.close(); });
  made.addEventListener("close", () => made.remove());
  document.body.append(made);
  made.showModal();
  return made;
}

export async function shareDialog(studio) {
  await studio.settled();
  if (document.querySelector("dialog[open]")) return;
  if (studio.taskIsMissing) { toast("There is no task yet: a problem needs one.", "bad"); return; }
  try {
    const { text } = await ask("text", studio.problem);
    const link = `${location.origin}/#p=${await packed(text)}`;
    const field = h("input", { value: link, readOnly: true, id: "link", "aria-label": "Link" });
    const copy = (words, told) => h("button", { onclick: () => navigator.clipboard.writeText(words).then(() => toast(told)) }, "Copy");
    dialog("Share",
      h("p", {}, "This link holds the whole problem. It opens in the studio of whoever has one running; nothing is sent anywhere."),
      h("div", { className: "row" }, field, copy(link, "The link is copied.")),
      h("p", {}, "The same as a file:"),
      h("textarea", { readOnly: true, rows: 14, value: text, wrap: "off", id: "yaml", "aria-label": "The problem as YAML" }),
      h("div", { className: "row" }, copy(text, "The text is copied.")));
    field.select();
  } catch (error) { studio.fail(error); }
}

export async function saveDialog(studio) {
  await studio.settled();
  if (document.querySelector("dialog[open]")) return;
  if (studio.taskIsMissing) { toast("There is no task yet: a problem needs one.", "bad"); return; }
  const field = h("input", { id: "save-path", value: studio.path ?? `${(studio.document.name || "untitled").replaceAll(/[^\w.-]+/g, "-")}.yaml`, "aria-label": "File", spellcheck: false });
  const tags = h("input", { value: studio.document.tags.join(", "), "aria-label": "Tags", placeholder: "keys, doors" });
  const notes = h("textarea", { value: studio.document.notes, rows: 2, "aria-label": "Notes" });
  const told = h("p", { className: "trouble", role: "alert" });
  const write = async (overwrite) => {
    studio.document = { ...studio.document, tags: tags.value.split(",").map((tag) => tag.trim()).filter(Boolean), notes: notes.value.trim() };
    try {
      const done = await ask("save", { ...studio.problem, path: field.value.trim(), overwrite });
      studio.path = done.path;
      studio.modified = false;
      document.getElementById("saved").textContent = `saved as ${done.path}`;
      toast(`Saved as ${done.path}.`);
      made.close();
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      told.replaceChildren(error.message, ...(error.message.includes("is there already") ? [" ", h("button", { id: "overwrite", type: "button", onclick: () => write(true) }, "Overwrite")] : []));
    }
  };
  const form = h("form", { onsubmit: (event) => { event.preventDefault(); write(studio.path === field.value.trim()); } },
    h("label", {}, `File below ${studio.start.root}`, field), h("label", {}, "Tags", tags), h("label", {}, "Notes", notes), told,
    h("div", { className: "row end" }, h("button", { className: "primary", id: "save-now" }, "Save")));
  const made = dialog("Save", form);
  field.focus();
}
