// What several steps show: verdicts, numbers, charts, tables, forms with their errors.

import { count, drawing, fill, h, unbroken, unique } from "./dom.js";

/** The verdict of a view: its sentence, what to beware of, and notes. */
export function verdict(view) {
  return [
    h("p", { class: "lead" }, unbroken(view.headline)),
    cautions(view),
  ];
}

export const cautions = (view) => view.cautions.map((text) => h("p", { class: "caution" }, h("strong", {}, "Caution. "), text));

export function notes(view) {
  const said = [...view.notes, ...(view.said ?? [])];
  return said.map((text) => h("p", { class: "note" }, text));
}

/** The three numbers, those of them that say something. */
export function numbers(view) {
  const told = view.numbers.filter((one) => one.value !== "none");
  if (!told.length) return null;
  return h("div", { class: "numbers" }, told.map((one) =>
    h("div", { class: "figure" },
      h("p", { class: "figure-label" }, one.label),
      h("p", { class: "big" }, one.value),
      h("ul", { class: "detail" }, one.details.map((text) => h("li", {}, text))),
      h("p", { class: "meaning" }, one.meaning))));
}

/** A chart of the report with its key. */
export function chart(found, caption = found.heading || found.title) {
  return h("figure", { class: "drawn" },
    h("figcaption", {}, caption),
    found.key ? drawing(found.key) : null,
    drawing(found.svg));
}

/** A table that scrolls sideways by itself where it is too wide; rows are lists of texts. */
export function table({ title, header, rows, note, more }, { first = true } = {}) {
  const caption = unique("caption");
  return h("div", { class: "wide", role: "group", tabindex: "0", "aria-labelledby": caption },
    h("table", {},
      h("caption", { id: caption }, title),
      h("thead", {}, h("tr", {}, header.map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, rows.map((row) =>
        h("tr", {}, row.map((cell, place) =>
          h(first && place === 0 ? "th" : "td", first && place === 0 ? { scope: "row" } : {}, cell ?? "–")))))),
    note ? h("p", { class: "note" }, note) : null,
    more ? h("p", { class: "note" }, `${count(more)} more rows are in the files.`) : null);
}

/** Something to open for who wants more. */
export function more(summary, ...children) {
  return h("details", {}, h("summary", {}, summary), children);
}

/** A card in words: facts, what holds, what does not. */
export function cardFacts(card) {
  if (!card) return null;
  return [
    h("dl", {}, card.facts.map(([what, said]) => h("div", {}, h("dt", {}, what), h("dd", {}, said)))),
    h("h3", {}, "What holds, and what does not"),
    h("ul", { class: "plain" }, card.holds.map((text) => h("li", {}, text))),
    h("h3", {}, "What is not promised"),
    h("ul", { class: "plain" }, card.open.map((text) => h("li", {}, text))),
    h("p", { class: "note" }, card.footer),
  ];
}

/** A field with its label, a hint and a place for its error. */
export function field(label, control, { hint = "", name = "" } = {}) {
  const id = control.id || unique("field");
  control.id = id;
  const said = [];
  const about = hint ? h("p", { class: "hint", id: `${id}-hint` }, hint) : null;
  if (about) said.push(about.id);
  const error = h("p", { class: "error", id: `${id}-error`, hidden: true });
  said.push(error.id);
  control.setAttribute("aria-describedby", said.join(" "));
  const box = h("div", { class: "field" }, h("label", { for: id }, label), control, about, error);
  box.dataset.field = name;
  return box;
}

/** Show an error beside the field at fault, or above the button where no field is to blame; and go there. */
export function showProblem(form, problem) {
  clearProblems(form);
  const named = (problem.field ?? "").split(".");
  const box = [...form.querySelectorAll("[data-field]")].find((one) => one.dataset.field && named.includes(one.dataset.field));
  if (!box) {
    const place = form.querySelector(".form-error") ?? form.appendChild(h("p", { class: "error form-error", tabindex: "-1" }));
    place.setAttribute("tabindex", "-1");
    place.textContent = problem.message;
    place.hidden = false;
    place.focus();
    return;
  }
  const error = box.querySelector(".error");
  error.textContent = problem.message;
  error.hidden = false;
  const control = box.querySelector("input, select, textarea, button");
  if (control) {
    control.setAttribute("aria-invalid", "true");
    control.focus();
  }
}

export function clearProblems(form) {
  form.querySelectorAll(".error").forEach((place) => { place.textContent = ""; place.hidden = true; });
  form.querySelectorAll("[aria-invalid]").forEach((control) => control.removeAttribute("aria-invalid"));
}

/** A place for errors that no field is to blame for. */
export const formError = () => h("p", { class: "error form-error", tabindex: "-1", hidden: true });

/** Do something long by a button: it rests meanwhile, and errors are shown in its form. */
export async function busy(form, button, work) {
  clearProblems(form);
  button.setAttribute("aria-disabled", "true");
  try {
    await work();
  } catch (problem) {
    showProblem(form, problem);
  } finally {
    button.removeAttribute("aria-disabled");
  }
}

export function heading(text, lead = null) {
  return [h("h1", { tabindex: "-1" }, text), lead ? h("p", { class: "under" }, lead) : null];
}

/** A step that cannot begin yet. */
export function empty(title, text, action) {
  return h("section", { class: "empty" }, h("h2", {}, title), h("p", {}, text), action);
}

export function link(label, address, attributes = {}) {
  return h("a", { class: "button", href: address, ...attributes }, label);
}

export { fill };
