// Scan: bars for columns, maps over faces, marked words in texts.

import * as api from "../api.js";
import { fill, h, picture, unbroken, unique } from "../dom.js";
import { showJob } from "../jobs.js";
import { busy, cautions, chart, empty, formError, heading, link, more, notes, numbers, table } from "../parts.js";
import { address, FORGOTTEN, go } from "../state.js";
import { common } from "./open.js";

export const title = "Scan";
const WEAK = 0.05; // of the strongest word: what tells less is not marked

export function show(place, state) {
  if (!state.scan) {
    fill(place, heading("What leaks?"), empty("Nothing has been scanned yet", "Choose the data and its secret first.", link("Open data", address({ step: "open" }))));
    return undefined;
  }
  const body = h("div", {});
  fill(place, heading("What leaks?", `How much the data tells about ${state.secret.join(" and ")}, and what tells it.`), body);
  return showJob(body, state.scan, (view) => fill(body, result(view, state)));
}

function result(view, state) {
  return [
    h("p", { class: "lead" }, unbroken(view.share)),
    h("p", { class: "note" }, view.headline),
    cautions(view),
    view.words.slice(1).map((text) => h("p", {}, text)),
    view.faces ? faces(view, state) : null,
    view.charts?.length ? h("div", { class: view.charts.length > 1 ? "panels" : "" }, view.charts.map((one) => chart(one))) : null,
    view.texts?.length ? texts(view) : null,
    view.unjudged?.length ? h("p", { class: "note" }, `Not judged, and left out of a release unless kept: ${view.unjudged.join(", ")}.`) : null,
    view.tables.length ? more("The same as a table", view.tables.map((one) => table(one))) : null,
    more("The numbers", numbers(view), notes(view)),
    h("div", { class: "actions" }, link("Choose what to change", address({ step: "choose" }), { class: "button primary" })),
  ];
}

function faces(view, state) {
  const { originals, maps } = view.faces;
  const label = unique("patch");
  const said = h("output", { class: "said" });
  const population = h("figure", { class: "population" });
  const list = h("ul", { class: "heated" });
  const slider = h("input", { type: "range", min: 0, max: maps.length - 1, step: 1, id: label, class: "along" });
  slider.value = 0;
  const draw = () => {
    const map = maps[Number(slider.value)];
    said.textContent = `${map.patch} × ${map.patch} pixels`;
    slider.setAttribute("aria-valuetext", `patches of ${map.patch} pixels. ${map.alt}`);
    fill(population, picture(map.population, map.alt), h("figcaption", {}, "All images together: red tells more. Outlined are the fewest patches that have half of it."));
    fill(list, originals.map((original, k) => h("li", {}, picture(original, `Image ${k + 1}`), picture(map.faces[k], `What the patches of image ${k + 1} tell`))));
  };
  slider.addEventListener("input", draw);
  draw();
  return h("section", { class: "faces" },
    h("div", { class: "slide" },
      h("label", { for: label }, "Size of the patches"), said, slider,
      h("div", { class: "ends", "aria-hidden": "true" }, h("span", {}, "finer"), h("span", {}, "coarser"))),
    h("p", { class: "note" }, "A larger patch shows what the scanned patches in it tell together."),
    h("div", { class: "maps" }, population, h("div", {}, h("h2", {}, "Single images"), list, ramp(view.ramp))),
    finer(maps[0].patch, state));
}

function ramp(colours) {
  const stripes = colours.map((colour) => {
    const stripe = h("span", {});
    stripe.style.backgroundColor = /^#[0-9a-f]{6}$/.test(colour) ? colour : "transparent";
    return stripe;
  });
  return h("div", { class: "ramp" }, h("div", { class: "stripes", "aria-hidden": "true" }, stripes), h("div", { class: "ends" }, h("span", {}, "tells nothing"), h("span", {}, "tells most")));
}

function finer(patch, state) {
  if (patch < 4) return null;
  const form = h("form", { class: "inline" });
  const half = Math.max(2, Math.floor(patch / 2));
  const button = h("button", { type: "submit", class: "quiet" }, `Scan again with patches of ${half} pixels`);
  form.append(button, formError());
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    busy(form, button, async () => {
      const request = common(state);
      request.options.patch = half;
      if (state.steps) request.steps = Number(state.steps);
      const job = await api.start("scan", request);
      go({ ...FORGOTTEN.scan, patch: half, scan: job.id });
    });
  });
  return form;
}

function texts(view) {
  return h("section", { class: "marked" },
    h("h2", {}, "Some texts, with their telling words marked"),
    h("p", { class: "note" }, "Solid lines point towards the class that is named above a text, dotted ones away from it; the stronger the colour, the more. These texts are yours: they are shown here only."),
    view.texts.map((text) => h("figure", {}, h("figcaption", {}, text.note), h("blockquote", { dir: "auto" }, text.pieces.map(piece)))));
}

function piece({ text, bits, share }) {
  if (Math.abs(share) < WEAK || !text.trim()) return text;
  const mark = h("mark", { class: share > 0 ? "towards" : "against", title: `${Math.abs(bits).toFixed(2)} bits ${share > 0 ? "towards" : "away"}` }, text);
  mark.style.setProperty("--share", String(Math.abs(share)));
  return mark;
}
