// What a text tells, word by word in reading order, and what to leave out: what the page, the extension and the studio ask.

import { leakOf } from "./model.js";
import { remedyOf } from "./remedy.js";

/**
 * Explain a text.
 *
 * @param model from `openModel`.
 * @param text any text.
 * @param budget nats that the text may tell about any class; null looks for no remedy.
 * @returns density and belief for every class; `about`, the class that gains most belief; `words`, the known terms and
 *   those read by their characters, with their places and what each tells after those before it, for every class;
 *   `unknown` places of words that are no terms, and whether they are `spelled`, read by their characters; `others`, how many
 *   words are quoted or code; `tags` that were read in parts; `language`, where it is not the model's; `remedy`.
 */
export function answer(model, text, budget = null) {
  const reading = model.read(text);
  const places = new Map();
  const unknown = [];
  for (const term of reading.terms) {
    const column = model.column(term.text);
    if (!model.isKnown(term.text) && !term.text.includes(" ")) unknown.push([term.start, term.end]);
    if (column !== undefined) {
      if (!places.has(column)) places.set(column, []);
      places.get(column).push([term.start, term.end]);
    }
  }
  const sums = model.nothing();
  let before = model.trimmed(model.density(sums));
  const words = [];
  for (const [column, where] of places) {
    model.change(sums, column, 0, where.length);
    const after = model.trimmed(model.density(sums));
    words.push({ term: model.name(column), places: where, tells: after.map((value, s) => value - before[s]) });
    before = after;
  }
  const about = before.indexOf(Math.max(...before));
  const leak = leakOf(before);
  return {
    text,
    density: before,
    belief: model.belief(before),
    about,
    leak,
    words,
    unknown,
    spelled: model.arrays.r !== undefined,
    others: reading.others,
    tags: reading.tags,
    language: otherLanguage(model.about, reading.words),
    remedy: budget === null ? null : remedyOf(model, text, reading, leak, budget),
  };
}

/** The language of a text where it is another than that of the model; as texts/languages.py. */
function otherLanguage({ language, small_words: small }, words) {
  if (!language) return null;
  const scores = Object.entries(small).map(([name, known]) => [name, words.filter((word) => known.includes(word.text)).length]);
  const mine = scores.find(([name]) => name === language)?.[1] ?? 0;
  let best = [null, 0];
  for (const score of scores) if (score[0] !== language && score[1] > best[1]) best = score;
  return best[1] >= 3 && best[1] > 2 * mine ? best[0] : null;
}

/** The whole text in stretches {start, end, text, share, tells}: shares of the evidence about a class, within -1 and 1. */
export function spansOf(found, about = found.about) {
  const total = found.words.reduce((sum, word) => sum + Math.abs(word.tells[about]), 0) || Number.MIN_VALUE;
  const cuts = new Set([0, found.text.length]);
  const steps = new Map();
  const add = (place, count, tells) => {
    cuts.add(place);
    const step = steps.get(place) ?? [0, 0];
    steps.set(place, [step[0] + count, step[1] + tells]);
  };
  for (const word of found.words) {
    for (const [start, end] of word.places) {
      add(start, 1, word.tells[about]);
      add(end, -1, -word.tells[about]);
    }
  }
  const edges = [...cuts].sort((first, second) => first - second);
  const spans = [];
  let covering = 0;
  let tells = 0;
  for (let i = 0; i + 1 < edges.length; i++) {
    const [count, change] = steps.get(edges[i]) ?? [0, 0];
    covering += count;
    tells = covering ? tells + change : 0;
    const share = covering ? Math.max(-1, Math.min(1, tells / total)) : null;
    spans.push({ start: edges[i], end: edges[i + 1], text: found.text.slice(edges[i], edges[i + 1]), share, tells });
  }
  return spans;
}
