// A model of texts in a page: its weights, and what any counts of terms tell. As in estimate/learners/bag.py:
// score = sum of w*u + trunk(h / (3 sqrt(1 + q))) - trunk(0), with h the sum of w*c*E and q that of (w*c)^2.
// A word that is no term counts as often as it occurs, by its runs of characters: texts/spelling.py.

import { Tokeniser } from "./terms.js";
import { readWriting } from "./reading.js";

const SPREAD = 3;
const NOTHING = 1e-9; // a difference of equal sums

/** The bytes of base64 text, without a request. */
export function fromBase64(text) {
  const raw = atob(text.trim());
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return bytes;
}

/** Open a model from the bytes that `pack_model` of Python wrote. */
export async function openModel(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const buffer = await new Response(stream).arrayBuffer();
  const length = new DataView(buffer).getUint32(0, true);
  const about = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  if (about.format !== "lowtide-page" || about.version !== 2) throw new Error("this is not a model that this page reads");
  const kinds = { f4: Float32Array, i2: Int16Array, i4: Int32Array, u1: Uint8Array, i1: Int8Array };
  const arrays = {};
  for (const [name, { kind, shape, start }] of Object.entries(about.arrays)) {
    arrays[name] = new kinds[kind](buffer, start, shape.reduce((product, size) => product * size, 1));
  }
  return new Model(about, arrays);
}

export class Model {
  constructor(about, arrays) {
    this.about = about;
    this.arrays = arrays;
    this.labels = about.classes;
    this.classes = about.classes.length;
    this.prior = about.prior;
    this.logPrior = about.prior.map(Math.log);
    this.terms = about.terms.split("\n");
    this.columns = new Map(this.terms.map((term, column) => [term, column]));
    this.tokeniser = new Tokeniser(about.rules);
    this.isKnown = (term) => this.columns.has(term);
    this.others = new Map(); // words that are no terms: their columns, behind those of the terms
    this.names = []; // of these
    this.spelled = []; // and what each tells
    this.networks = about.networks; // {nets, width, hidden, bits}, or null
    this.width = this.networks ? this.networks.nets * this.networks.width : 0;
    this.rows = new Map();
    if (this.networks) this.zero = this._trunk(new Float64Array(this.width));
  }

  /** The writer's own words of a text; see reading.js. */
  read(text) {
    if (this.names.length > 8192) {
      this.names = [];
      this.spelled = [];
      this.others.clear();
    }
    return readWriting(text, this.tokeniser, this.isKnown);
  }

  /** The column of a term, or of a word that is read by its characters; undefined where nothing is known of it. */
  column(term) {
    const known = this.columns.get(term) ?? this.others.get(term);
    if (known !== undefined || !this.arrays.r || term.includes(" ")) return known;
    const column = this.terms.length + this.names.length;
    this.others.set(term, column);
    this.names.push(term);
    this.spelled.push(this._spell(term));
    return column;
  }

  /** How a column is written. */
  name(column) {
    return this.terms[column] ?? this.names[column - this.terms.length];
  }

  /** What the runs of characters of a word tell, for every class. */
  _spell(word) {
    const { r, r_scale: scale } = this.arrays;
    const runs = r.length / this.classes;
    const points = Array.from(` ${word} `, (sign) => sign.codePointAt(0));
    const told = new Float64Array(this.classes);
    for (const size of this.about.run_sizes) {
      for (let start = 0; start + size <= points.length; start++) {
        let code = size;
        for (let i = 0; i < size; i++) code = Math.imul(code ^ points[start + i], 0x01000193);
        code = Math.imul(code ^ (code >>> 15), 0x2c1b3c6d);
        const column = ((code ^ (code >>> 13)) >>> 0) % runs;
        for (let s = 0; s < this.classes; s++) told[s] += r[column * this.classes + s] * scale[s];
      }
    }
    return told;
  }

  /** The weight of a term that occurs `count` times. */
  weight(count) {
    const { weighting } = this.about;
    return weighting === "counts" ? count : weighting === "log" ? Math.log2(1 + count) : Math.sign(count);
  }

  /** Sums over no term. */
  nothing() {
    return { alone: new Float64Array(this.classes), h: new Float64Array(this.width), q: 0 };
  }

  /** Add a term to sums, or take it away, from `before` to `after` occurrences. */
  change(sums, column, before, after) {
    const spelled = this.spelled[column - this.terms.length];
    if (spelled) {
      for (let s = 0; s < this.classes; s++) sums.alone[s] += (after - before) * spelled[s];
      return;
    }
    const step = this.weight(after) - this.weight(before);
    const scale = this.arrays.u_scale;
    for (let s = 0; s < this.classes; s++) sums.alone[s] += step * this.arrays.u[column * this.classes + s] * scale[s];
    const row = this.networks ? this.arrays.e[column] : -1;
    if (row < 0) return;
    const c = this.arrays.c[row];
    sums.q += c * c * (this.weight(after) ** 2 - this.weight(before) ** 2);
    const entries = this._row(row);
    const factor = step * c;
    for (let i = 0; i < entries.length; i++) sums.h[i] += factor * entries[i];
  }

  copy(sums) {
    return { alone: sums.alone.slice(), h: sums.h.slice(), q: sums.q };
  }

  /** i(s; text) for every class, in nats, not trimmed, from sums over its terms. */
  density(sums) {
    const scores = Array.from(sums.alone);
    if (this.networks && sums.q > NOTHING) {
      const scale = 1 / (SPREAD * Math.sqrt(1 + sums.q));
      const together = this._trunk(sums.h.map((value) => value * scale));
      for (let s = 0; s < this.classes; s++) scores[s] += (together[s] - this.zero[s]) / this.networks.nets;
    }
    return normalised(scores, this.logPrior);
  }

  trimmed(density) {
    const { trim } = this.about;
    return density.map((value) => Math.min(trim, Math.max(-trim, value)));
  }

  /** What a reader believes after texts that tell `density`. */
  belief(density) {
    const weights = density.map((value, s) => Math.exp(value + this.logPrior[s]));
    const total = weights.reduce((sum, value) => sum + value, 0);
    return weights.map((value) => value / total);
  }

  /** The embedding of a term, from 4 or 8 bits; those used last are kept. */
  _row(row) {
    let entries = this.rows.get(row);
    if (entries) return entries;
    entries = new Float32Array(this.width);
    const scale = this.arrays.E_scale[row];
    if (this.networks.bits === 8) {
      const start = row * this.width;
      for (let i = 0; i < this.width; i++) entries[i] = this.arrays.E[start + i] * scale;
    } else {
      const bytes = Math.ceil(this.width / 2);
      for (let i = 0; i < this.width; i++) {
        const pair = this.arrays.E[row * bytes + (i >> 1)];
        entries[i] = ((i & 1 ? pair >> 4 : pair & 15) - 8) * scale;
      }
    }
    if (this.rows.size > 2048) this.rows.clear();
    this.rows.set(row, entries);
    return entries;
  }

  /** Scores of all networks together, summed. */
  _trunk(h) {
    const { nets, width, hidden } = this.networks;
    const { b, V, a, U } = this.arrays;
    const first = new Float64Array(width);
    const scores = new Array(this.classes).fill(0);
    for (let k = 0; k < nets; k++) {
      for (let i = 0; i < width; i++) first[i] = Math.max(0, h[k * width + i] + b[k * width + i]);
      for (let j = 0; j < hidden; j++) {
        let value = a[k * hidden + j];
        for (let i = 0; i < width; i++) value += first[i] * V[(k * width + i) * hidden + j];
        if (value <= 0) continue;
        for (let s = 0; s < this.classes; s++) scores[s] += value * U[(k * hidden + j) * this.classes + s];
      }
    }
    return scores;
  }
}

function normalised(scores, logPrior) {
  const joint = scores.map((value, s) => value + logPrior[s]);
  const most = Math.max(...joint);
  const total = most + Math.log(joint.reduce((sum, value) => sum + Math.exp(value - most), 0));
  return scores.map((value) => value - total);
}

export const leakOf = (density) => Math.max(...density.map(Math.abs));
