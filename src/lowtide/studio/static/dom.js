// Elements made from texts, never from markup: what others wrote (names of columns, labels, texts) is always shown as text.

const SVG = "http://www.w3.org/2000/svg";
const DRAWN = new Set(["svg", "g", "line", "rect", "circle", "path", "polygon", "text", "tspan", "title", "desc", "defs", "pattern"]);
const SET = new Set(["ul", "li", "span"]);
const KEPT = new Set([
  "class", "id", "role", "aria-labelledby", "aria-hidden", "width", "height", "viewbox", "preserveaspectratio", "overflow",
  "x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "d", "points", "transform", "text-anchor", "patternunits",
  "patterntransform", "fill", "stroke",
]);

/** An element. Attributes that are functions are listeners (`onclick`), `true` and `false` switch one on or off. */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.replace(/^on/, ""), value);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...flat(children));
  return element;
}

function flat(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
}

/** Put new content in the place of all that an element holds. */
export function fill(element, ...children) {
  element.replaceChildren(...flat(children));
  return element;
}

/** An element of a drawing. */
export function s(tag, attributes = {}) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  return element;
}

/**
 * Charts of the report and their keys, built anew from the elements and attributes that charts are drawn with; anything
 * else (scripts, links, styles, listeners) is left out.
 */
export function drawing(markup) {
  const parsed = new DOMParser().parseFromString(markup, "text/html");
  return [...parsed.body.children].map(copied).filter(Boolean);
}

function copied(source) {
  const drawn = source.namespaceURI === SVG;
  const tag = drawn ? source.tagName : source.tagName.toLowerCase();
  if (!(drawn ? DRAWN : SET).has(tag)) return null;
  const element = drawn ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const { name, value } of source.attributes) {
    const local = /url\(/i.test(value) ? /^url\(#[\w-]+\)$/.test(value) : true;
    if (KEPT.has(name.toLowerCase()) && local) element.setAttribute(name, value);
  }
  for (const node of source.childNodes) {
    if (node.nodeType === Node.TEXT_NODE) element.append(node.data);
    else if (node.nodeType === Node.ELEMENT_NODE) {
      const child = copied(node);
      if (child) element.append(child);
    }
  }
  return element;
}

/** An image whose content came as the address of a PNG; another address is not shown. */
export function picture(address, alt, attributes = {}) {
  const isHere = /^data:image\/png;base64,[A-Za-z0-9+/=]+$/.test(address);
  const known = isHere || /^\/api\/files\/[0-9a-f]+\/thumbnail\/\d+$/.test(address);
  return h("img", { ...attributes, src: known ? address : "", alt, loading: isHere ? "eager" : "lazy", decoding: "async" });
}

/** Say something to those who do not see the page change. */
export function announce(text) {
  const live = document.getElementById("live");
  live.textContent = "";
  window.setTimeout(() => { live.textContent = text; }, 50);
}

let counter = 0;
/** A name for an element that no other has. */
export function unique(stem) {
  counter += 1;
  return `${stem}-${counter}`;
}

/** Numbers and sizes as people read them. */
export const count = (n) => Number(n).toLocaleString("en");
export const plural = (n, one, many) => `${count(n)} ${n === 1 ? one : many}`;
export const percent = (share) => `${Math.round(100 * share)}\u00a0%`;
/** A sentence whose numbers and their signs stay on one line. */
export const unbroken = (text) => text.replace(/(\d) %/g, "$1\u00a0%");
export function bytes(n) {
  if (n < 1000) return `${n} bytes`;
  const units = ["kB", "MB", "GB"];
  let size = n / 1000;
  let place = 0;
  while (size >= 1000 && place < units.length - 1) { size /= 1000; place += 1; }
  return `${size < 10 ? size.toFixed(1) : Math.round(size)} ${units[place]}`;
}
