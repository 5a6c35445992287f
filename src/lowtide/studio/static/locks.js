// Features that are kept or hidden whatever the plan says: columns from a list, words by typing, patches by clicking.

import * as api from "./api.js";
import { fill, h, picture, unique } from "./dom.js";
import { field, more } from "./parts.js";

const STATES = { "": "as the plan says", keep: "keep as it is", hide: "always hide" };

/** The controls for a kind of data; `read()` gives the locks, `know(view)` tells what a plan has found. */
export function locks(state, kind) {
  const box = h("div", {});
  const made = { tables: columns, images: patches, texts: words }[kind](state, box);
  const element = more("Keep or hide some in any case", box);
  if (state.keep.length || state.hide.length) element.open = true;
  return { element, ...made };
}

function columns(state, box) {
  const chosen = new Map([...state.keep.map((name) => [name, "keep"]), ...state.hide.map((name) => [name, "hide"])]);
  const left = new Set([...state.secret]);
  const draw = (names) => fill(box,
    h("p", { class: "hint" }, "A column that you keep is released as it is, and the others are planned around it."),
    h("ul", { class: "locks" }, names.filter((name) => !left.has(name)).map((name) => {
      const select = h("select", { "aria-label": `What becomes of ${name}`, onchange: () => chosen.set(name, select.value) },
        Object.entries(STATES).map(([value, label]) => h("option", { value }, label)));
      select.value = chosen.get(name) ?? "";
      return h("li", {}, h("span", {}, name), select);
    })));
  draw([...chosen.keys()]);
  api.describe(state.data).then((about) => draw(about.columns.map(({ name }) => name))).catch(() => {});
  const named = (kind) => [...chosen].filter(([, value]) => value === kind).map(([name]) => name);
  return { read: () => ({ keep: named("keep"), hide: named("hide") }), know: () => {} };
}

function words(state, box) {
  const listed = (text) => text.split(",").map((word) => word.trim()).filter(Boolean);
  const keep = h("input", { type: "text", autocomplete: "off", value: state.keep.join(", ") });
  const hide = h("input", { type: "text", autocomplete: "off", value: state.hide.join(", ") });
  fill(box, h("div", { class: "fields" },
    field("Words to keep", keep, { name: "keep", hint: "Separated by commas." }),
    field("Words to hide", hide, { name: "hide", hint: "Separated by commas." })));
  return { read: () => ({ keep: listed(keep.value), hide: listed(hide.value) }), know: () => {} };
}

const MOST = 400; // patches that can be clicked on one by one

function patches(state, box) {
  const chosen = new Map([...state.keep.map((name) => [name, "keep"]), ...state.hide.map((name) => [name, "hide"])]);
  fill(box, h("p", { class: "hint" }, "Measure the trade-off first; then click on the patches of a face."));
  const know = (view) => {
    const { sample } = view;
    if (sample?.form !== "faces") return;
    const { height, width, patch } = sample.grid;
    const [down, across] = [Math.ceil(height / patch), Math.ceil(width / patch)];
    if (down * across > MOST) {
      fill(box, h("p", { class: "hint" }, "These patches are too small to click on; plan with larger ones."));
      return;
    }
    const grid = h("div", { class: "clickable", role: "group", "aria-label": "Patches of a face" });
    grid.style.setProperty("--across", String(across));
    const order = ["", "hide", "keep"];
    for (let j = 0; j < down * across; j += 1) {
      const name = String(j);
      const button = h("button", { type: "button" });
      const draw = () => {
        const value = chosen.get(name) ?? "";
        button.className = value;
        button.setAttribute("aria-label", `Row ${Math.floor(j / across) + 1}, column ${(j % across) + 1}: ${STATES[value]}`);
      };
      button.addEventListener("click", () => {
        chosen.set(name, order[(order.indexOf(chosen.get(name) ?? "") + 1) % 3]);
        draw();
      });
      draw();
      grid.append(button);
    }
    fill(box,
      h("p", { class: "hint", id: unique("patches") }, "Click on a patch to hide it always (grey), again to keep it (outlined), and again to leave it to the plan."),
      h("div", { class: "clicked" }, picture(sample.before[0], "A face, under the patches to click on"), grid));
  };
  const named = (kind) => [...chosen].filter(([, value]) => value === kind).map(([name]) => name);
  return { read: () => ({ keep: named("keep"), hide: named("hide") }), know };
}
