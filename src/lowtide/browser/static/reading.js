// Which words of a text are its writer's, and how hashtags are read: a port of texts/writing.py.

import { joinWords } from "./terms.js";

const LONGEST_TAG = 100;

/** Where quoted lines, fenced code and `code` in a line stand, in order and apart, as [start, end]. */
export function quotedSpans(text) {
  const spans = [];
  let fence = "";
  let start = 0;
  for (const line of text.split("\n")) {
    const end = start + line.length;
    const opening = /^ {0,3}(```|~~~)/.exec(line);
    if (fence || opening || /^ {0,3}>/.test(line)) {
      spans.push([start, end]);
      if (opening && (!fence || opening[1] === fence)) fence = fence ? "" : opening[1];
    } else {
      for (const code of line.matchAll(/`[^`\n]+`/g)) spans.push([start + code.index, start + code.index + code[0].length]);
    }
    start = end + 1;
  }
  return spans;
}

/** The writer's own words: {words, terms, others, tags}; `isKnown` tells whether the model knows a term. */
export function readWriting(text, tokeniser, isKnown) {
  const spans = quotedSpans(text);
  const words = [];
  const tags = [];
  let others = 0;
  let at = 0;
  for (const term of tokeniser.words(text)) {
    while (at < spans.length && spans[at][1] <= term.start) at++;
    if (at < spans.length && spans[at][0] <= term.start) {
      others++;
      continue;
    }
    const parts = isKnown(term.text) ? [] : tagWords(text.slice(term.start, term.end), term.start, tokeniser);
    if (parts.length) tags.push({ start: term.start, end: term.end, text: term.text, words: parts.map((part) => part.text) });
    words.push(...(parts.length ? parts : [term]));
  }
  return { words, terms: joinWords(words, tokeniser.options.ngrams), others, tags };
}

function tagWords(piece, start, tokeniser) {
  const signs = Array.from(piece);
  if ((signs[0] !== "#" && signs[0] !== "＃") || signs.length > LONGEST_TAG) return [];
  const cuts = tagCuts(signs, tokeniser.characters);
  const places = [0];
  for (const sign of signs) places.push(places[places.length - 1] + sign.length);
  const words = [];
  let parts = 0;
  for (let i = 0; i + 1 < cuts.length; i++) {
    if (signs[cuts[i]] === "_") continue;
    parts++;
    const [first, last] = [places[cuts[i]], places[cuts[i + 1]]];
    const text = tokeniser.written(piece.slice(first, last));
    if (text) words.push({ text, start: start + first, end: start + last });
  }
  return parts < 2 ? [] : words;
}

/** Where the words of a hashtag begin, and its end: before a capital that begins a word, and around `_`. */
function tagCuts(signs, characters) {
  const points = signs.map((sign) => sign.codePointAt(0));
  const small = points.map((point) => characters.isSmall(point));
  const large = points.map((point) => characters.isLarge(point));
  if (!small.includes(true)) return [];
  const cuts = [1];
  for (let at = 2; at < signs.length; at++) {
    const follows = !large[at - 1] || (at + 1 < signs.length && small[at + 1]);
    const beside = (signs[at] === "_") !== (signs[at - 1] === "_");
    if (beside || (large[at] && follows)) cuts.push(at);
  }
  return [...cuts, signs.length];
}
