// The studio's page: which step is shown, and how to get to the others.

import * as api from "./api.js";
import { announce, fill, h } from "./dom.js";
import { address, read } from "./state.js";
import * as audit from "./steps/audit.js";
import * as choose from "./steps/choose.js";
import * as open from "./steps/open.js";
import * as release from "./steps/release.js";
import * as scan from "./steps/scan.js";
import * as write from "./steps/write.js";

const STEPS = { open, scan, choose, release, audit, write };
const NEEDS = { scan: "data", choose: "data", release: "plan", audit: "data" };
const main = document.getElementById("main");
let leave = () => {};
let shown = null;

function steps(state) {
  const items = Object.entries(STEPS).map(([name, step], place) => {
    const here = name === state.step;
    const ready = !NEEDS[name] || state[NEEDS[name]];
    const number = name === "write" ? "" : String(place + 1);
    const inner = [h("span", { class: "number", "aria-hidden": "true" }, number), h("span", {}, step.title)];
    const item = ready || here
      ? h("a", { href: address({ step: name }), "aria-current": here ? "step" : null }, inner)
      : h("span", { class: "later", "aria-disabled": "true", role: "link" }, inner);
    return h("li", { class: name === "write" ? "apart" : "" }, item);
  });
  fill(document.getElementById("steps"), items);
}

async function show() {
  const state = read();
  if (!STEPS[state.step]) state.step = "open";
  const moved = shown !== null && shown !== state.step;
  shown = state.step;
  leave();
  leave = () => {};
  steps(state);
  const step = STEPS[state.step];
  document.title = `${step.title} · Lowtide studio`;
  const place = h("div", { class: `step step-${state.step}` });
  fill(main, place);
  try {
    const stop = await step.show(place, state);
    if (typeof stop === "function") leave = stop;
  } catch (problem) {
    fill(place, h("section", { class: "empty", role: "alert" },
      h("h1", { tabindex: "-1" }, "This does not work right now"),
      h("p", {}, problem.message),
      h("button", { type: "button", onclick: show }, "Try again")));
  }
  if (moved) {
    place.querySelector("h1")?.focus({ preventScroll: true });
    window.scrollTo(0, 0);
    announce(step.title);
  }
}

document.getElementById("skip").addEventListener("click", () => main.focus());
window.addEventListener("popstate", show);
window.addEventListener("studio:state", show);

if (new URLSearchParams(window.location.search).has("token")) {
  // The token is a cookie by now; it need not stand in the address, where others may read it.
  window.history.replaceState(null, "", `/${window.location.hash}`);
}
api.project().then((found) => {
  document.getElementById("project").textContent = found.name;
}).catch(() => {});
show();
