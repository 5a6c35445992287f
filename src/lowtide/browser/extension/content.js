// Underlines what gives the writer away in the text field that is being typed in. It draws above the page, in a closed
// shadow root, so that the site can neither read nor change it, and it never touches the field itself.

(() => {
  if (globalThis.lowtideIsHere) return;
  globalThis.lowtideIsHere = true;
  const PAUSE = 200; // milliseconds without a key before a text is read
  const LONGEST = 20000;
  const COPIED = [
    "direction", "fontFamily", "fontSize", "fontStyle", "fontVariant", "fontWeight", "fontStretch", "letterSpacing", "lineHeight",
    "overflowWrap", "paddingBottom", "paddingLeft", "paddingRight", "paddingTop", "tabSize", "textAlign", "textIndent",
    "textTransform", "unicodeBidi", "wordBreak", "wordSpacing", "writingMode",
  ];
  const STYLE = `
    :host { all: initial; }
    .frame { position: fixed; overflow: hidden; pointer-events: none; z-index: 2147483647; }
    .mirror { color: transparent; box-sizing: border-box; position: absolute; inset: 0 auto auto 0; }
    mark { background: none; color: transparent; text-decoration: underline 2px #b84a00; text-underline-offset: 0.22em; text-decoration-skip-ink: none; }
    mark.away { text-decoration: underline dotted 2px #00639b; }
    mark.strong { text-decoration-thickness: 3px; }
    .line { position: fixed; pointer-events: none; z-index: 2147483647; border-bottom: 2px solid #b84a00; }
    .line.away { border-bottom: 2px dotted #00639b; }
    .line.strong { border-bottom-width: 3px; }
    .said { position: fixed; pointer-events: none; z-index: 2147483647; font: 12px/1.4 system-ui, sans-serif; color: #fff;
      background: #1d2733; border-radius: 4px; padding: 2px 8px; }
  `;
  const host = document.createElement("div");
  host.setAttribute("aria-hidden", "true");
  const root = host.attachShadow({ mode: "closed" });
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(STYLE);
  root.adoptedStyleSheets = [sheet];
  let field = null;
  let marks = [];
  let said = "";
  let waiting = 0;

  const isInput = (element) =>
    element instanceof HTMLTextAreaElement || (element instanceof HTMLInputElement && ["text", "search"].includes(element.type));
  const box = (name, extra = "") => Object.assign(document.createElement("div"), { className: `${name} ${extra}`.trim() });

  /** The text nodes of an editable element, and its text with line breaks between blocks. */
  function contents(element) {
    const nodes = [];
    let text = "";
    const walk = (node) => {
      for (const child of node.childNodes) {
        if (child.nodeType === Node.TEXT_NODE) {
          nodes.push([text.length, child]);
          text += child.data;
        } else if (child.nodeType === Node.ELEMENT_NODE) {
          const isBlock = child.tagName === "BR" || getComputedStyle(child).display === "block";
          if (isBlock && text && !text.endsWith("\n")) text += "\n";
          walk(child);
        }
      }
    };
    walk(element);
    return { nodes, text };
  }

  const textOf = (element) => (isInput(element) ? element.value : contents(element).text);

  function place(element, { left, top, width, height }) {
    Object.assign(element.style, { left: `${left}px`, top: `${top}px`, width: `${width}px`, height: `${height}px` });
    return element;
  }

  function drawInput() {
    const style = getComputedStyle(field);
    const where = field.getBoundingClientRect();
    const frame = place(box("frame"), {
      left: where.left + field.clientLeft, top: where.top + field.clientTop, width: field.clientWidth, height: field.clientHeight,
    });
    const mirror = box("mirror");
    for (const name of COPIED) mirror.style[name] = style[name];
    const isLine = field instanceof HTMLInputElement;
    mirror.style.whiteSpace = isLine ? "pre" : "pre-wrap";
    mirror.style.width = `${field.clientWidth}px`;
    if (isLine) mirror.style.lineHeight = `${field.clientHeight - parseFloat(style.paddingTop) - parseFloat(style.paddingBottom)}px`;
    mirror.style.transform = `translate(${-field.scrollLeft}px, ${-field.scrollTop}px)`;
    let at = 0;
    for (const mark of marks) {
      const drawn = document.createElement("mark");
      drawn.className = `${mark.towards ? "" : "away"} ${mark.strong ? "strong" : ""}`.trim();
      drawn.textContent = field.value.slice(mark.start, mark.end);
      mirror.append(field.value.slice(at, mark.start), drawn);
      at = mark.end;
    }
    mirror.append(field.value.slice(at));
    frame.append(mirror);
    return [frame];
  }

  function drawEditable() {
    const { nodes } = contents(field);
    const lines = [];
    for (const mark of marks) {
      for (const [start, node] of nodes) {
        const from = Math.max(mark.start, start) - start;
        const to = Math.min(mark.end, start + node.length) - start;
        if (from >= to) continue;
        const range = document.createRange();
        range.setStart(node, from);
        range.setEnd(node, to);
        for (const rect of range.getClientRects()) {
          lines.push(place(box("line", `${mark.towards ? "" : "away"} ${mark.strong ? "strong" : ""}`), rect));
        }
      }
    }
    return lines;
  }

  function draw() {
    if (!field?.isConnected || !said) {
      host.remove();
      return;
    }
    const where = field.getBoundingClientRect();
    const label = box("said");
    label.textContent = said;
    Object.assign(label.style, { left: `${where.left}px`, top: `${Math.min(where.bottom + 4, innerHeight - 26)}px` });
    root.replaceChildren(...(isInput(field) ? drawInput() : drawEditable()), label);
    if (!host.isConnected) document.documentElement.append(host);
  }

  async function read() {
    const mine = field;
    const text = mine ? textOf(mine) : "";
    if (!text.trim() || text.length > LONGEST) return clear();
    let found;
    try {
      found = await chrome.runtime.sendMessage({ kind: "read", text });
    } catch {
      return clear(); // the extension was removed or updated
    }
    if (mine !== field || textOf(mine) !== text) return; // typed on meanwhile: it will be read again
    ({ marks, said } = found);
    draw();
  }

  function clear() {
    marks = [];
    said = "";
    host.remove();
  }

  function typed() {
    clear();
    clearTimeout(waiting);
    waiting = setTimeout(read, PAUSE);
  }

  function enter(element) {
    if (element === field) return;
    field = isInput(element) ? element : element?.isContentEditable ? element.closest("[contenteditable]:not([contenteditable=false])") : null;
    clear();
    if (field) typed();
  }

  addEventListener("focusin", (event) => enter(event.composedPath()[0]), true);
  addEventListener("input", (event) => {
    enter(event.composedPath()[0]);
    if (field) typed();
  }, true);
  for (const moved of ["scroll", "resize"]) addEventListener(moved, () => requestAnimationFrame(draw), true);
  if (document.activeElement) enter(document.activeElement);
})();
