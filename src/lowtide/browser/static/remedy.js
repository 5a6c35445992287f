// What to leave out of a text so that it tells little: a port of texts/remedies.py and of `rewrite` in texts/encoder.py.

import { ALNUM, SPACE } from "./unicode.js";
import { joinWords, pointBefore } from "./terms.js";
import { leakOf } from "./model.js";

const ROUNDING = 2e-5;
const SLACK = 1e-9;
const SETS = 1 << 11; // sets of words that are tried one by one
const FEWER_SETS = 1 << 8; // where terms of several words come about by a removal
const BACK = 1 << 19;
const LONGEST_SEARCHED = 200; // words of a text for which a remedy is sought
const GLUE = "&'’＇-‐‑";
const SIGNS = "#@＃＠";
const OPENING = "([{«“‘\"'¿¡";
const CLOSING = ")]}»”’\"',.;:!?…。、，！？";

/** How often each known term occurs among words. */
function countsOf(model, words) {
  const counts = new Map();
  for (const term of joinWords(words, model.tokeniser.options.ngrams)) {
    const column = model.column(term.text);
    if (column !== undefined) counts.set(column, (counts.get(column) ?? 0) + 1);
  }
  return counts;
}

export function sumsOf(model, counts) {
  const sums = model.nothing();
  for (const [column, count] of counts) model.change(sums, column, 0, count);
  return sums;
}

/** The different words of a text that matter to some known term: what may go. */
export class TextWords {
  constructor(model, text, reading) {
    this.model = model;
    this.text = text;
    this.sequence = reading.words;
    this.runs = model.tokeniser.options.ngrams > 1 || reading.tags.length > 0;
    const matter = new Set();
    for (const term of reading.terms) {
      if (model.column(term.text) !== undefined) for (const word of term.text.split(" ")) matter.add(word);
    }
    const places = new Map();
    const units = this.sequence.map((word) => reading.tags.find((tag) => tag.start <= word.start && word.start < tag.end) ?? word);
    this.sequence.forEach((word, i) => {
      const unit = units[i];
      if (!matter.has(word.text)) return;
      if (!places.has(unit.text)) places.set(unit.text, []);
      const there = places.get(unit.text);
      if (!there.some((place) => place.start === unit.start)) there.push(unit);
    });
    this.names = [...places.keys()];
    this.places = [...places.values()];
    const number = new Map(this.names.map((name, i) => [name, i]));
    this.owners = units.map((unit) => number.get(unit.text) ?? -1);
    this.counts = countsOf(model, this.sequence);
    this.sums = sumsOf(model, this.counts);
  }

  /** max |i(s; text)| with the words where `kept`; from what differs from the whole text. */
  leak(kept) {
    const counts = countsOf(this.model, this.sequence.filter((_, i) => this.owners[i] < 0 || kept[this.owners[i]]));
    if (counts.size === 0) return leakOf(this.model.density(this.model.nothing()));
    const sums = this.model.copy(this.sums);
    for (const [column, before] of this.counts) {
      const after = counts.get(column) ?? 0;
      if (after !== before) this.model.change(sums, column, before, after);
    }
    for (const [column, after] of counts) if (!this.counts.has(column)) this.model.change(sums, column, 0, after);
    return leakOf(this.model.density(sums));
  }

  flipped(kept) {
    return kept.map((_, i) => this.leak(kept.map((there, j) => there !== (i === j))));
  }
}

const byLeak = (leaks) => (first, second) => leaks[first] - leaks[second] || first - second;
const indices = (flags, wanted) => flags.flatMap((flag, i) => (flag === wanted ? [i] : []));

function greedy(words, target) {
  const kept = words.names.map(() => true);
  let leak = words.leak(kept);
  while (kept.includes(true) && leak > target) {
    const leaks = words.flipped(kept);
    const best = indices(kept, true).sort(byLeak(leaks))[0];
    kept[best] = false;
    leak = leaks[best];
  }
  return kept;
}

function putBack(words, kept, target) {
  let many = Math.max(1, Math.floor(indices(kept, false).length / 8));
  for (let round = Math.floor(BACK / Math.max(1, kept.length)); round > 0; round--) {
    const leaks = words.flipped(kept);
    const fitting = indices(kept, false).filter((word) => leaks[word] <= target).sort(byLeak(leaks));
    many = Math.min(many, fitting.length);
    let trial = kept;
    while (many) {
      trial = kept.slice();
      for (const word of fitting.slice(0, many)) trial[word] = true;
      if (words.leak(trial) <= target) break;
      many = Math.floor(many / 2);
    }
    if (!many) break;
    kept = trial;
  }
  return kept;
}

function* subsets(count, size, first = 0) {
  if (size === 0) {
    yield [];
    return;
  }
  for (let i = first; i <= count - size; i++) for (const rest of subsets(count, size - 1, i + 1)) yield [i, ...rest];
}

function choose(n, k) {
  let ways = 1;
  for (let i = 0; i < k; i++) ways = (ways * (n - i)) / (i + 1);
  return Math.round(ways);
}

function smallest(words, limit) {
  const target = Math.max(limit - ROUNDING, 0);
  const kept = putBack(words, greedy(words, target), target);
  const size = indices(kept, false).length;
  let tried = 0;
  let proven = true;
  for (let fewer = 1; fewer < size; fewer++) {
    tried += choose(kept.length, fewer);
    if (tried > (words.runs ? FEWER_SETS : SETS)) return [kept, false];
    let best = null;
    let least = Infinity;
    for (const gone of subsets(kept.length, fewer)) {
      const trial = kept.map((_, i) => !gone.includes(i));
      const leak = words.leak(trial);
      if (leak < least) [best, least] = [trial, leak];
    }
    if (least <= target) return [best, proven];
    proven = proven && least > limit + ROUNDING;
  }
  return [kept, proven];
}

/** What to leave out so that max |i(s; text)| is at most `limit`; null for a text that is too long to search. */
export function remedyOf(model, text, reading, leak, limit) {
  if (leak <= limit + SLACK) return { needed: false, words: [], places: [], smallest: true, removed: text, left: leak };
  if (reading.words.length > LONGEST_SEARCHED) return null;
  const words = new TextWords(model, text, reading);
  const [kept, proven] = smallest(words, limit);
  const chosen = indices(kept, false);
  const places = chosen.flatMap((word) => words.places[word]).sort((first, second) => first.start - second.start);
  const removed = rewrite(text, places.map((place) => [place.start, place.end, ""]), model.tokeniser.characters);
  const again = sumsOf(model, countsOf(model, model.read(removed).words));
  const left = leakOf(model.trimmed(model.density(again)));
  return {
    needed: true,
    words: chosen.map((word) => words.names[word]),
    places: chosen.map((word) => words.places[word].map((place) => [place.start, place.end])),
    smallest: proven,
    removed,
    left,
  };
}

/** Put other words, or nothing, in the place of some words: changes are [start, end, new], in order and apart. */
export function rewrite(text, changes, characters) {
  const stretches = [];
  for (const [start, end, other] of changes) {
    if (other) {
      stretches.push([start, end, other]);
      continue;
    }
    let low = start;
    const last = stretches[stretches.length - 1];
    if (last && last[1] === start && !last[2].trim()) low = stretches.pop()[0];
    const floor = stretches.length ? stretches[stretches.length - 1][1] : 0;
    stretches.push(removal(text, low, end, floor, characters));
  }
  let result = "";
  let at = 0;
  for (const [start, end, other] of stretches) {
    result += text.slice(at, start) + other;
    at = end;
  }
  return result + text.slice(at);
}

function removal(text, start, end, floor, characters) {
  const isSpace = (point) => (characters.of(point) & SPACE) !== 0;
  const isAlnum = (point) => (characters.of(point) & ALNUM) !== 0;
  const has = (signs, place) => text[place] !== undefined && signs.includes(text[place]);
  const glue = /[A-Za-z0-9]/.test(text[end - 1]) ? GLUE + SIGNS : GLUE;
  if (end + 1 < text.length && has(glue, end) && !(isSpace(text.codePointAt(end + 1)) || has(SIGNS, end + 1))) end++;
  else if (start - 1 > floor && has(GLUE + SIGNS, start - 1) && !isSpace(pointBefore(text, start - 1))) start--;
  let left = start;
  let right = end;
  while (left > floor && isSpace(text.charCodeAt(left - 1))) left--;
  while (right < text.length && isSpace(text.charCodeAt(right))) right++;
  if (left === 0) return [start, right, ""];
  if (right === text.length) return [left, end, ""];
  if (left < start && right > end) return text.slice(end, right).includes("\n") ? [left, end, ""] : [start, right, ""];
  const ends = has(CLOSING, end) && !isAlnum(text.codePointAt(end + 1));
  const begins = has(OPENING, start - 1) && !isAlnum(pointBefore(text, start - 1));
  if (left < start) return [ends ? left : start, end, ""];
  return [start, end, right > end || ends || begins ? "" : " "];
}
