// Classes of characters as the Python that fitted the model knows them: browsers have another version of Unicode.

export const ALNUM = 1, ALPHA = 2, DIGIT = 4, SPACE = 8, MARK = 16, ACCENT = 32, CASED = 64, PASSED = 128;
export const IDEOGRAPH = 256;
const NAMES = { alnum: ALNUM, alpha: ALPHA, digit: DIGIT, space: SPACE, mark: MARK, accent: ACCENT, cased: CASED, passed: PASSED };

export class Characters {
  /** @param tables as `unicode_tables` of Python writes them; @param ideographs the inside of a character class. */
  constructor(tables, ideographs) {
    this.table = new Uint16Array(0x110000);
    for (const [name, bit] of Object.entries(NAMES)) this._mark(tables[name], bit);
    const signs = Array.from(ideographs);
    for (let i = 0; i < signs.length; i++) {
      const first = signs[i].codePointAt(0);
      const last = signs[i + 1] === "-" ? signs[i + 2].codePointAt(0) : first;
      if (last !== first) i += 2;
      for (let point = first; point <= last; point++) this.table[point] |= IDEOGRAPH;
    }
    this.small = new Map();
    for (const [first, many, step, far] of tables.lower) {
      for (let i = 0; i < many; i++) this.small.set(first + i * step, String.fromCodePoint(first + i * step + far));
    }
    for (const [sign, other] of Object.entries(tables.lower_long)) this.small.set(sign.codePointAt(0), other);
  }

  _mark(ranges, bit) {
    let point = 0;
    for (let i = 0; i < ranges.length; i += 2) {
      point += ranges[i];
      for (const last = point + ranges[i + 1]; point <= last; point++) this.table[point] |= bit;
    }
  }

  /** The classes of a code point; 0 beyond the end of a text, where it is undefined. */
  of(point) {
    return point === undefined ? 0 : this.table[point];
  }

  /** Whether every bit of a class is there for the code point before, or at, a place of a text. */
  at(text, place, bits) {
    return (this.of(text.codePointAt(place)) & bits) !== 0;
  }

  isLarge(point) {
    return this.small.has(point);
  }

  isSmall(point) {
    return (this.of(point) & ALPHA) !== 0 && !this.small.has(point);
  }

  /** As Python's `str.lower`. */
  lower(text) {
    const points = Array.from(text, (sign) => sign.codePointAt(0));
    let result = "";
    for (let i = 0; i < points.length; i++) {
      if (points[i] === 0x3a3) result += this._ends(points, i) ? "ς" : "σ";
      else result += this.small.get(points[i]) ?? String.fromCodePoint(points[i]);
    }
    return result;
  }

  _ends(points, place) {
    let before = place - 1, after = place + 1;
    while (before >= 0 && this.table[points[before]] & PASSED) before--;
    while (after < points.length && this.table[points[after]] & PASSED) after++;
    const cased = (point) => (this.of(point) & CASED) !== 0;
    return cased(points[before]) && !cased(points[after]);
  }
}
