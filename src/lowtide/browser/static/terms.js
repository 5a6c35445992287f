// Texts as terms: a port of texts/cleaning.py and texts/terms.py, character by character and in linear time.
// Places are those of JavaScript, in UTF-16.

import { ACCENT, ALNUM, ALPHA, Characters, DIGIT, IDEOGRAPH, MARK, SPACE } from "./unicode.js";

const LONGEST = 200; // characters; a longer run without a space is not a word
const REMEMBERED = 1 << 16;

const width = (point) => (point > 0xffff ? 2 : 1);
const isAsciiWord = (point) =>
  (point >= 48 && point <= 57) || (point >= 65 && point <= 90) || (point >= 97 && point <= 122) || point === 95;

/** The code point that ends before a place of a text; undefined at its beginning. */
export function pointBefore(text, place) {
  if (place <= 0) return undefined;
  const last = text.charCodeAt(place - 1);
  const pair = last >= 0xdc00 && last <= 0xdfff && place > 1 && (text.charCodeAt(place - 2) & 0xfc00) === 0xd800;
  return pair ? text.codePointAt(place - 2) : last;
}

export class Tokeniser {
  /** @param rules options, stop list, tables and character classes, as `page_model` of Python writes them. */
  constructor(rules) {
    this.options = rules.options;
    this.characters = new Characters(rules.unicode, rules.classes.ideographs);
    this.stop = new Set(rules.stop);
    const { images, symbols, flags, modifiers } = rules.classes;
    const more = `${modifiers}*(?:\\u200d[${images}${symbols}]${modifiers}*)*`;
    this.emoji = [`[${flags}]{2}`, "[0-9#*]\\ufe0f?\\u20e3", `[${images}]${more}`, `[${symbols}]\\ufe0f${more}`].map(
      (source) => new RegExp(source, "uy"),
    );
    this.entity = /&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,30});/y;
    this.url = /(?:[Hh][Tt][Tt][Pp][Ss]?:\/\/|[Ww][Ww][Ww]\.)[!#-;=?-~]*[A-Za-z0-9/=&%#_~$+-]/y;
    this.joiners = new Set(Array.from(rules.classes.joiners, (sign) => sign.codePointAt(0)));
    this.apostrophes = new Set(Array.from(rules.classes.apostrophes));
    this.hyphens = new Set(Array.from(rules.classes.hyphens));
    const inner = Array.from(rules.classes.points);
    if (this.options.apostrophes !== "split") inner.push(...this.apostrophes);
    if (this.options.hyphens !== "split") inner.push(...this.hyphens);
    this.inner = new Set(inner.map((sign) => sign.codePointAt(0)));
    this.remembered = new Map();
  }

  /** The words of a text, as {text, start, end}. */
  words(text) {
    const found = [];
    for (let place = 0; place < text.length; ) {
      const end = this._piece(text, place).end;
      if (end > place) {
        const term = this.written(text.slice(place, end));
        if (term) found.push({ text: term, start: place, end });
        place = end;
      } else {
        place += width(text.codePointAt(place));
      }
    }
    return found;
  }

  /** How a piece is written as a term; empty when it is left out. */
  written(piece) {
    let term = this.remembered.get(piece);
    if (term === undefined) {
      term = this._clean(piece);
      if (this.remembered.size >= REMEMBERED) this.remembered.clear();
      if (piece.length <= LONGEST) this.remembered.set(piece, term);
    }
    return term;
  }

  _clean(piece) {
    const { kind } = this._piece(piece, 0);
    const signs = Array.from(piece);
    if (!kind || signs.length > LONGEST) return "";
    const options = this.options;
    if (kind === "emoji") return options.emoji ? piece.replace(/[\ufe0e\ufe0f]/g, "") : "";
    if (kind === "url") return options.urls ? site(piece) : "";
    const isAlpha = (sign) => this.characters.at(sign, 0, ALPHA);
    if (
      kind === "entity" ||
      (kind === "hashtag" && !options.hashtags) ||
      (kind === "handle" && !options.handles) ||
      (kind === "word" && !options.numbers && !signs.some(isAlpha))
    ) {
      return "";
    }
    let term = Array.from(this.characters.lower(piece).normalize("NFC"), (sign) => this._sign(sign)).join("");
    if (!options.accents) {
      const plain = Array.from(term.normalize("NFD")).filter((sign) => !this.characters.at(sign, 0, ACCENT));
      term = plain.join("").normalize("NFC");
    }
    if (kind === "acronym") term = term.replace(/\.+$/, "");
    return this.stop.has(term) ? "" : term;
  }

  _sign(sign) {
    if (this.joiners.has(sign.codePointAt(0))) return "";
    if (this.apostrophes.has(sign)) return this.options.apostrophes === "drop" ? "" : "'";
    if (this.hyphens.has(sign)) return this.options.hyphens === "drop" ? "" : "-";
    return sign === "＃" ? "#" : sign === "＠" ? "@" : sign;
  }

  /** The piece that begins at a place, as {kind, end}; its end is the place itself where there is none. */
  _piece(text, place) {
    const point = text.codePointAt(place);
    const bits = this.characters.of(point);
    let end = 0;
    if (point >= 0xa9 || point === 35 || point === 42 || (point >= 48 && point <= 57)) {
      for (const pattern of this.emoji) if ((end = matched(pattern, text, place))) return { kind: "emoji", end };
    }
    if (point === 38 && (end = matched(this.entity, text, place))) return { kind: "entity", end };
    if ("HhWw".includes(text[place]) && (end = matched(this.url, text, place))) return { kind: "url", end };
    if ((end = this._hashtag(text, place, point))) return { kind: "hashtag", end };
    if ((end = this._handle(text, place, point))) return { kind: "handle", end };
    if ((end = this._acronym(text, place, point))) return { kind: "acronym", end };
    if (bits & IDEOGRAPH) return { kind: "ideograph", end: this._over(text, place + width(point), MARK) };
    if (this._isLetter(point)) return { kind: "word", end: this._word(text, place) };
    return { kind: "", end: place };
  }

  _isLetter(point) {
    const bits = this.characters.of(point);
    return (bits & ALNUM) !== 0 && (bits & IDEOGRAPH) === 0;
  }

  _isLetterButDigit(point) {
    return this._isLetter(point) && (this.characters.of(point) & DIGIT) === 0;
  }

  /** The place behind all characters of some classes. */
  _over(text, place, bits) {
    while (place < text.length && this.characters.at(text, place, bits)) place += width(text.codePointAt(place));
    return place;
  }

  _letters(text, place) {
    for (let point; this._isLetter((point = text.codePointAt(place))); ) place += width(point);
    return place;
  }

  _hashtag(text, place, point) {
    if (point !== 35 && point !== 0xff03) return 0;
    const before = pointBefore(text, place);
    if (before === 38 || isAsciiWord(before)) return 0;
    let at = place + 1;
    const isNumber = (one) => one === 95 || (this.characters.of(one) & DIGIT) !== 0;
    while (isNumber(text.codePointAt(at))) at += width(text.codePointAt(at));
    if (!this.characters.at(text, at, ALNUM)) return 0;
    for (let one; (one = text.codePointAt(at)) === 95 || this.characters.of(one) & (ALNUM | MARK); ) at += width(one);
    return at;
  }

  _handle(text, place, point) {
    if ((point !== 64 && point !== 0xff20) || isAsciiWord(pointBefore(text, place))) return 0;
    let at = place + 1;
    const first = text.codePointAt(at);
    if (first !== 95 && !this._isLetter(first)) return 0;
    for (let one; (one = text.codePointAt(at)) === 95 || this._isLetter(one) || this.characters.of(one) & MARK; ) {
      at += width(one);
    }
    return at;
  }

  _acronym(text, place, point) {
    if (!this._isLetterButDigit(point)) return 0;
    let end = place + width(point);
    let last = 0;
    let before = 0;
    for (let next; text[end] === "." && this._isLetterButDigit((next = text.codePointAt(end + 1))); ) {
      before = last;
      last = end + 1 + width(next);
      end = last;
    }
    if (!last) return 0;
    const next = text.codePointAt(last);
    if (this._isLetter(next) || this.characters.of(next) & MARK) last = before; // a word begins with its last letter
    if (!last) return 0;
    return text[last] === "." ? last + 1 : last;
  }

  _word(text, place) {
    let at = this._letters(text, place);
    for (;;) {
      const point = text.codePointAt(at);
      if (point === undefined) return at;
      let next = at;
      if (this._isLetter(point)) next = this._letters(text, at);
      else if (this.characters.of(point) & MARK) next = this._over(text, at, MARK);
      else if (this.joiners.has(point)) {
        let behind = at;
        while (this.joiners.has(text.codePointAt(behind))) behind++;
        if (this._isLetter(text.codePointAt(behind))) next = behind;
      } else if (point === 46 || point === 44) {
        const isDigit = (one) => (this.characters.of(one) & DIGIT) !== 0;
        if (isDigit(pointBefore(text, at)) && isDigit(text.codePointAt(at + 1))) next = at + 1;
      } else if (this.inner.has(point) && this._isLetter(text.codePointAt(at + width(point)))) {
        next = at + width(point);
      }
      if (next === at) return at;
      at = next;
    }
  }
}

function matched(pattern, text, place) {
  pattern.lastIndex = place;
  return pattern.test(text) ? pattern.lastIndex : 0;
}

function site(url) {
  let rest = url.toLowerCase().replace(/^http:\/\//, "").replace(/^https:\/\//, "");
  for (const sign of "/?#") rest = rest.split(sign)[0];
  rest = rest.slice(rest.lastIndexOf("@") + 1).split(":")[0];
  return rest.replace(/^\.+|\.+$/g, "").replace(/^www\./, "");
}

/** Terms of up to `ngrams` words, in the order in which they start, shorter ones first. */
export function joinWords(words, ngrams) {
  if (ngrams === 1) return words;
  const terms = [];
  words.forEach((word, first) => {
    let name = word.text;
    terms.push(word);
    for (const other of words.slice(first + 1, first + ngrams)) {
      name = `${name} ${other.text}`;
      terms.push({ text: name, start: word.start, end: other.end });
    }
  });
  return terms;
}
