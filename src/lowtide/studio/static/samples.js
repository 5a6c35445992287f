// Ten rows, some faces or some texts before and after. They are the owner's own, and stay on this machine.

import { h, picture, s } from "./dom.js";

const BETWEEN = /([^\p{L}\p{M}\p{N}\p{Extended_Pictographic}@#_'’-]+)/u; // words: spaces and punctuation

/** A sample before and after; `preview(point)` of it shows what a point of the curve would hide. */
export function beside(sample, { nouns = { rows: "rows" } } = {}) {
  if (!sample) return null;
  const shown = { rows, faces, texts }[sample.form];
  if (!shown) return { element: h("p", { class: "note" }, sample.why ?? ""), preview: () => {} };
  const { element, preview } = shown(sample);
  return {
    element: h("section", { class: "beside" },
      h("h2", {}, "Before and after"),
      h("p", { class: "note" }, `Some of your own ${nouns.rows}. They are shown here only, and are in no report.`),
      element),
    preview: preview ?? (() => {}),
  };
}

function rows(sample) {
  const gone = new Set(sample.gone);
  const tags = sample.columns.map((name) => h("span", { class: "tag", hidden: !gone.has(name) }, gone.has(name) ? "left out" : "hidden"));
  const heads = sample.columns.map((name, c) => h("th", { scope: "col" }, name, tags[c]));
  const body = sample.before.map((before, r) => h("tr", {}, before.map((cell, c) => {
    const after = sample.after[r][c];
    const lost = gone.has(sample.columns[c]) || after === null;
    const changed = lost || after !== cell;
    return h("td", { class: changed ? "changed" : "" },
      h("span", { class: "was" }, cell ?? "–"),
      changed ? [h("span", { class: "unseen" }, " becomes "), h("span", { class: "now" }, lost ? "–" : after)] : null);
  })));
  const table = h("table", {},
    h("caption", {}, "The first ten rows: as they are, and as the release would show them"),
    h("thead", {}, h("tr", {}, heads)),
    h("tbody", {}, body));
  const preview = (point) => {
    const hidden = new Set(point.hidden);
    sample.columns.forEach((name, c) => {
      const off = hidden.has(name) || gone.has(name);
      tags[c].hidden = !off;
      heads[c].classList.toggle("hidden-column", off);
      body.forEach((row) => row.children[c].classList.toggle("hidden-column", off));
    });
  };
  return { element: h("div", { class: "wide", role: "group", tabindex: "0", "aria-label": "Rows before and after" }, table), preview };
}

function faces(sample) {
  const { height, width, patch } = sample.grid;
  const across = Math.ceil(width / patch);
  const covers = [];
  const captions = [];
  const planned = [];
  const pairs = sample.before.map((before, k) => {
    const cover = s("svg", { class: "cover", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true" });
    covers.push(cover);
    captions.push(h("figcaption", {}, "before"));
    planned.push(h("figcaption", {}, "after"));
    return h("li", {},
      h("figure", {}, h("div", { class: "covered" }, picture(before, `Image ${k + 1} as it is`), cover), captions.at(-1)),
      h("figure", {}, picture(sample.after[k], `Image ${k + 1} as this plan releases it`), planned.at(-1)));
  });
  const preview = (point, isPlan) => {
    const masked = isPlan ? [] : (point.masked ?? []); // what the plan itself hides is beside it
    captions.forEach((caption) => { caption.textContent = masked.length ? "grey: hidden at this point" : "before"; });
    planned.forEach((caption) => { caption.textContent = isPlan ? "after" : "after, by the last plan"; });
    covers.forEach((cover) => {
      cover.replaceChildren(...masked.map((j) => s("rect", {
        class: "covering", x: patch * (j % across), y: patch * Math.floor(j / across), width: patch, height: patch,
      })));
    });
  };
  return { element: h("ul", { class: "pairs" }, pairs), preview };
}

function texts(sample) {
  return {
    element: h("ul", { class: "quotes" }, sample.before.map((before, k) => h("li", {},
      h("figure", {}, h("figcaption", {}, "before"), h("blockquote", { dir: "auto" }, words(before, sample.after[k], "cut"))),
      h("figure", {}, h("figcaption", {}, "after"), h("blockquote", { dir: "auto" }, words(sample.after[k], before, "new")))))),
  };
}

/** The words of a text, those that the other one does not have marked. */
function words(text, other, kind) {
  const left = new Map();
  other.split(BETWEEN).forEach((word) => left.set(word, (left.get(word) ?? 0) + 1));
  return text.split(BETWEEN).map((word, place) => {
    if (place % 2 || !word) return word; // what stands between words
    const there = left.get(word) ?? 0;
    left.set(word, there - 1);
    return there > 0 ? word : h(kind === "cut" ? "del" : "ins", {}, word);
  });
}
