// A text box that warns while one types: underlines, what a reader would believe, what to leave out, and the history.

import { answer } from "./answer.js";
import { PostHistory } from "./history.js";
import { advise } from "./advice.js";
import { drawUnderlines, underlines } from "./underline.js";

const BITS = Math.LN2;
const PAUSE = 120; // milliseconds without a key before the text is read
const SPOKEN = 900; // and before a screen reader is told
const MOST_WORDS = 8;

const percent = (share) => `${Math.round(100 * share)} %`;
const bits = (nats) => `${(nats / BITS).toFixed(2)} bits`;

/** An element with attributes, listeners (`onclick`) and children; children that are strings are text. */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

export class Writer {
  /**
   * @param root an element to fill.
   * @param model from `openModel`.
   * @param options `budget` in nats, `storage` for the history (by default that of the browser, null for none).
   */
  constructor(root, model, options = {}) {
    this.model = model;
    this.budget = options.budget ?? model.about.budget ?? 0.5;
    this.allowance = 4 * this.budget;
    this.history = new PostHistory(model, options.storage === undefined ? browserStorage() : options.storage);
    this.found = null;
    this._build(root);
    this.refresh();
  }

  get text() {
    return this.field.value;
  }

  set text(value) {
    this.field.value = value;
    this.refresh();
  }

  _build(root) {
    this.mirror = make("div", { class: "lt-mirror", "aria-hidden": "true" });
    this.field = make("textarea", {
      class: "lt-input", id: "lt-text", rows: "5", dir: "auto", spellcheck: "true", "aria-describedby": "lt-verdict",
      placeholder: "Write what you are about to post…", oninput: () => this._typed(), onselect: () => this._point(),
      onkeyup: () => this._point(), onclick: () => this._point(),
    });
    this.verdict = make("p", { class: "lt-verdict", id: "lt-verdict" });
    this.spoken = make("p", { class: "lt-spoken", role: "status" });
    this.pointed = make("p", { class: "lt-pointed" });
    this.beliefs = make("div", { class: "lt-beliefs" });
    this.notes = make("ul", { class: "lt-notes" });
    this.words = make("ul", { class: "lt-words" });
    this.remedy = make("div", { class: "lt-remedy" });
    const writing = make(
      "section", { class: "lt-card lt-writing" },
      make("label", { for: "lt-text", class: "lt-label" }, "Your text"),
      make("div", { class: "lt-field" }, this.mirror, this.field),
      make("p", { class: "lt-legend" },
        make("span", { class: "lt-mark lt-towards lt-strong" }, "points to what a reader comes to believe"),
        make("span", { class: "lt-mark lt-away" }, "points away from it")),
      this.pointed,
    );
    const told = make(
      "section", { class: "lt-card", "aria-label": "What a reader would believe" },
      make("h2", {}, "What a reader would believe"), this.verdict, this.beliefs, this.words, this.notes,
    );
    const better = make("section", { class: "lt-card", "aria-label": "What to change" }, make("h2", {}, "What to change"), this.remedy, this._budgetSlider());
    root.replaceChildren(make("div", { class: "lt-writer" }, writing, told, better, this._historyCard(), this.spoken));
  }

  _budgetSlider() {
    this.budgetText = make("output", { for: "lt-budget" });
    const slider = make("input", {
      type: "range", id: "lt-budget", min: "0.1", max: "2", step: "0.05", value: String(this.budget),
      oninput: (event) => {
        this.budget = Number(event.target.value);
        this.refresh();
      },
    });
    return make(
      "div", { class: "lt-budget" },
      make("label", { for: "lt-budget" }, "What one text may tell"),
      make("div", { class: "lt-ends" }, make("span", {}, "more private"), slider, make("span", {}, "says more")),
      this.budgetText,
    );
  }

  _historyCard() {
    this.account = make("input", { type: "text", id: "lt-account", value: "me", autocomplete: "off", oninput: () => this._showHistory() });
    this.together = make("p", {});
    this.used = make("div", { class: "lt-bar lt-used" });
    this.post = make("button", { type: "button", onclick: () => this._posted() }, "I have posted this");
    this.forget = make("button", { type: "button", class: "lt-quiet", onclick: () => this._forget() }, "Forget these posts");
    return make(
      "section", { class: "lt-card", "aria-label": "All posts together" },
      make("h2", {}, "All posts together"),
      make("div", { class: "lt-account" }, make("label", { for: "lt-account" }, "Account"), this.account),
      this.together, this.used,
      make("div", { class: "lt-buttons" }, this.post, this.forget),
      make("p", { class: "lt-small" }, this.history.isKept
        ? "Kept in this browser only: the date of each post and what it told, never its text."
        : "This browser keeps nothing: the history ends with this page."),
    );
  }

  _typed() {
    // The underlines of words that have moved would be wrong until the text is read.
    drawUnderlines(this.mirror, this.text, []);
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.refresh(), PAUSE);
  }

  /** What is said of some words of a text, if a remedy names them. */
  adviceFor(text, words) {
    const found = answer(this.model, text);
    const places = words.map((word) => this.model.read(text).words.filter((one) => one.text === word).map((one) => [one.start, one.end]));
    return advise(this.model, { ...found, remedy: { words, places } });
  }

  /** Read the text and show what it tells. */
  refresh() {
    clearTimeout(this.waiting);
    this.found = answer(this.model, this.text, this.budget);
    this.marks = underlines(this.found);
    drawUnderlines(this.mirror, this.text, this.marks);
    this._showBelief();
    this._showWords();
    this._showRemedy();
    this._showHistory();
    this._point();
    clearTimeout(this.speaking);
    this.speaking = setTimeout(() => { this.spoken.textContent = this.text ? this.verdict.textContent : ""; }, SPOKEN);
  }

  _showBelief() {
    const { found, model } = this;
    const before = model.prior[found.about];
    const after = found.belief[found.about];
    const label = model.labels[found.about];
    if (!found.words.length) this.verdict.textContent = this.text.trim() ? "The model knows none of these words; to other readers they may tell something." : "Nothing is written yet.";
    else if (found.leak <= this.budget) this.verdict.textContent = `Within the budget: a reader believes ${label} with ${percent(after)} instead of ${percent(before)}.`;
    else this.verdict.textContent = `A reader would believe ${label} with ${percent(after)} instead of ${percent(before)}.`;
    this.verdict.classList.toggle("lt-over", found.leak > this.budget);
    this.beliefs.replaceChildren(...model.labels.map((name, s) => {
      const fill = make("div", { class: "lt-fill" });
      const tick = make("div", { class: "lt-tick" });
      fill.style.inlineSize = `${100 * found.belief[s]}%`;
      tick.style.insetInlineStart = `${100 * model.prior[s]}%`;
      const said = `${name}: ${percent(found.belief[s])}, before reading ${percent(model.prior[s])}`;
      return make("div", { class: "lt-belief" }, make("span", { class: "lt-name" }, name),
        make("div", { class: "lt-bar", role: "img", "aria-label": said }, fill, tick), make("span", { class: "lt-value", "aria-hidden": "true" }, percent(found.belief[s])));
    }));
    this.notes.replaceChildren(...notesOf(found, model).map((note) => make("li", {}, note)));
  }

  _showWords() {
    const { found, model } = this;
    const telling = found.words.filter((word) => Math.abs(word.tells[found.about]) >= 0.03);
    telling.sort((first, second) => Math.abs(second.tells[found.about]) - Math.abs(first.tells[found.about]));
    this.words.replaceChildren(...telling.slice(0, MOST_WORDS).map((word) => {
      const tells = word.tells[found.about];
      const [start, end] = word.places[0];
      const label = `${tells > 0 ? "towards" : "away from"} ${model.labels[found.about]}, ${bits(Math.abs(tells))}`;
      const button = make("button", { type: "button", class: "lt-word", onclick: () => this._select(start, end) }, word.term);
      return make("li", {}, button, ` ${label}`);
    }));
  }

  _showRemedy() {
    const { found } = this;
    this.budgetText.textContent = `${bits(this.budget)}: no class becomes more than ${Math.exp(this.budget).toFixed(1)} times as believable`;
    if (!found.words.length || (found.remedy && !found.remedy.needed)) {
      this.remedy.replaceChildren(make("p", {}, found.words.length ? "Nothing: this text is within your budget." : "Nothing yet."));
      return;
    }
    if (!found.remedy) {
      this.remedy.replaceChildren(make("p", {}, "The text is too long to look for the fewest words to change; the underlined words tell most."));
      return;
    }
    const advice = advise(this.model, found);
    const items = advice.map((one) => make("li", {}, one.said));
    const which = found.remedy.smallest ? "the fewest words that do" : "maybe not the fewest words that do";
    const all = make("button", { type: "button", onclick: () => this._replace(found.remedy.removed) }, advice.length > 1 ? "Leave them all out" : "Leave it out");
    const parts = [make("p", {}, `To stay within your budget (${which}):`), make("ul", { class: "lt-advice" }, ...items)];
    this.remedy.replaceChildren(...parts, ...(advice.every((one) => one.mayGo) ? [all] : []));
  }

  _showHistory() {
    const account = this.account.value.trim() || "me";
    const posts = this.history.posts(account);
    const isNew = this.found.words.length > 0;
    const now = this.history.total(account, isNew ? this.found.density : null);
    const most = now.density.indexOf(Math.max(...now.density));
    const count = posts.length === 1 ? "1 post" : `${posts.length} posts`;
    const belief = `believes ${this.model.labels[most]} with ${percent(now.belief[most])}`;
    const which = !posts.length ? "With this post" : isNew ? `With ${count} and this one` : `With ${count}`;
    const told = `${bits(now.leak)} of ${bits(this.allowance)}`;
    this.together.textContent = posts.length || isNew
      ? `${which} a reader ${belief}, if each post tells something of its own (${told}).`
      : "No post so far.";
    const fill = make("div", { class: `lt-fill${now.leak > this.allowance ? " lt-over" : ""}` });
    fill.style.inlineSize = `${Math.min(100, (100 * now.leak) / this.allowance)}%`;
    this.used.replaceChildren(fill);
    this.post.disabled = !this.text.trim();
    this.forget.disabled = posts.length === 0;
  }

  _posted() {
    this.history.add(this.account.value.trim() || "me", this.found.density);
    this._replace("");
  }

  _forget() {
    this.history.forget(this.account.value.trim() || "me");
    this._showHistory();
  }

  /** Say what the word at the caret tells. */
  _point() {
    const at = this.field.selectionStart;
    const mark = this.marks?.find((one) => one.start <= at && at <= one.end && document.activeElement === this.field);
    const label = this.model.labels[this.found.about];
    this.pointed.textContent = mark
      ? `“${this.text.slice(mark.start, mark.end)}” points ${mark.towards ? "to" : "away from"} ${label}, by ${bits(Math.abs(mark.tells))}.`
      : "";
  }

  _select(start, end) {
    this.field.focus();
    this.field.setSelectionRange(start, end);
    this._point();
  }

  /** Put another text into the box, so that undo brings the old one back. */
  _replace(text) {
    this.field.focus();
    this.field.select();
    const done = text ? document.execCommand("insertText", false, text) : document.execCommand("delete");
    if (!done || this.text !== text) this.field.value = text;
    this.refresh();
  }
}

function notesOf(found, model) {
  const several = (count, one, more) => (count === 1 ? `1 ${one}` : `${count} ${more}`);
  const notes = [];
  if (found.language) notes.push(`The text seems to be in ${found.language}, and the model is of another language: rely on nothing here.`);
  const judged = found.spelled ? `judged by ${found.unknown.length === 1 ? "its" : "their"} characters alone` : "counted as telling nothing";
  if (found.words.length && found.unknown.length) notes.push(`${several(found.unknown.length, "word is", "words are")} unknown to the model, ${judged}.`);
  if (found.others) notes.push(`${several(found.others, "word is", "words are")} in quoted lines or code: not yours, and not read.`);
  for (const tag of found.tags) notes.push(`${found.text.slice(tag.start, tag.end)} is read as “${tag.words.join(" ")}”.`);
  return notes;
}

function browserStorage() {
  try {
    return window.localStorage;
  } catch {
    return null;
  }
}
