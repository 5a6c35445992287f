// Which stretches of a text to underline, and how strongly.

import { spansOf } from "./answer.js";

const WEAK = 0.03; // share of the evidence in a text from which on a word is marked
const STRONG = 0.15;
const FAINT = 0.03; // nats; where the whole text tells nothing, its largest share is nothing, too

/** Stretches to underline as {start, end, towards, strong, tells}, in order and apart. */
export function underlines(found) {
  return spansOf(found)
    .filter((span) => span.share !== null && Math.abs(span.share) >= WEAK && Math.abs(span.tells) >= FAINT)
    .map(({ start, end, share, tells }) => ({ start, end, towards: share > 0, strong: Math.abs(share) >= STRONG, tells }));
}

/** Write a text into an element with marks around what is underlined; as text, whatever it holds. */
export function drawUnderlines(element, text, marks) {
  const parts = [];
  let at = 0;
  for (const mark of marks) {
    parts.push(document.createTextNode(text.slice(at, mark.start)));
    const drawn = document.createElement("mark");
    drawn.className = `lt-mark ${mark.towards ? "lt-towards" : "lt-away"}${mark.strong ? " lt-strong" : ""}`;
    drawn.textContent = text.slice(mark.start, mark.end);
    parts.push(drawn);
    at = mark.end;
  }
  parts.push(document.createTextNode(`${text.slice(at)}\n`));
  element.replaceChildren(...parts);
}
