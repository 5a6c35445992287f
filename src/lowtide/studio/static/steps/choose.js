// Choose: how to change the data, what to keep or hide in any case, and how far to go along the trade-off.

import * as api from "../api.js";
import { draggable } from "../curve.js";
import { fill, h, percent, unbroken, unique } from "../dom.js";
import { showJob } from "../jobs.js";
import { locks } from "../locks.js";
import { busy, cardFacts, chart, empty, formError, heading, link, more, notes, numbers, table, verdict } from "../parts.js";
import { beside } from "../samples.js";
import { address, FORGOTTEN, go } from "../state.js";
import { common } from "./open.js";

export const title = "Choose";
const WAYS = {
  fixed: { name: "Hide", text: "The same for everybody: what tells most is left out.", ask: { policy: "fixed" } },
  redraw: { name: "Redraw", text: "Telling values are drawn anew. No column is left out for it; the file does not mark what was drawn, but an attacker can often guess.", ask: { policy: "redraw" } },
  merge: { name: "Make coarser", text: "Ages become bands, rare values are joined; nothing is invented.", ask: { mechanism: "merge" } },
};
const WAYS_OF = { tables: ["redraw", "fixed", "merge"], images: ["fixed", "redraw"], texts: ["fixed", "redraw"] };

export function show(place, state) {
  if (!state.secret.length) {
    fill(place, heading("What should change?"), empty("There is no secret yet", "Choose the data and its secret first.", link("Open data", address({ step: "open" }))));
    return undefined;
  }
  const kind = state.kind ?? "tables";
  const way = WAYS_OF[kind].includes(state.way) ? state.way : WAYS_OF[kind][0];
  const body = h("div", { class: "planned" });
  const form = asking(state, kind, way);
  fill(place, heading("What should change?", `Find the place between what an attacker learns about ${state.secret.join(" and ")} and what the data is still good for.`), form.element, body);
  if (!state.plan) {
    fill(body, h("p", { class: "soft" }, "The trade-off has not been measured yet. It takes a minute or so; you then drag along it."));
    return undefined;
  }
  return showJob(body, state.plan, (view, job) => {
    form.know(view);
    fill(body, result(view, job, state, form));
  });
}

function request(state, way, chosen, extra = {}) {
  const asked = { ...common(state), ...WAYS[way].ask, keep: chosen.keep, hide: chosen.hide };
  if (state.kind) asked.kind = state.kind;
  if (state.patch && state.kind === "images") asked.options.patch = Number(state.patch);
  if (state.steps) asked.steps = Number(state.steps);
  if (state.utility && way !== "none") asked.utility = state.utility;
  const { options, ...rest } = extra;
  return { ...asked, ...rest, options: { ...asked.options, ...options } };
}

async function plan(state, way, chosen, extra) {
  const job = await api.start("plan", request(state, way, chosen, extra));
  go({ ...FORGOTTEN.plan, ...chosen, way, plan: job.id, step: "choose" });
}

function asking(state, kind, first) {
  let way = first;
  const form = h("form", { class: "asking" });
  const name = unique("way");
  const choices = WAYS_OF[kind].map((one) => {
    const input = h("input", { type: "radio", name, value: one, checked: one === first, onchange: () => { way = one; } });
    return h("label", { class: "way" }, input, h("span", { class: "way-name" }, WAYS[one].name), h("span", { class: "soft" }, WAYS[one].text));
  });
  const locked = locks(state, kind);
  const button = h("button", { type: "submit", class: state.plan ? "" : "primary" }, state.plan ? "Measure the trade-off anew" : "Measure the trade-off");
  form.append(
    h("fieldset", { class: "ways" }, h("legend", {}, "How to change it"), choices),
    locked.element,
    formError(),
    h("div", { class: "actions" }, button));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    busy(form, button, () => plan(state, way, locked.read()));
  });
  return { element: form, know: locked.know, read: locked.read };
}

function result(view, job, state, form) {
  const way = job.request.mechanism === "merge" ? "merge" : view.policy;
  const sample = beside(view.sample, { nouns: view.nouns });
  const outcome = h("div", { class: "outcome" });
  const draw = view.curve ? along(view, state, way, form, sample) : view.dial ? turning(view, state, way, form) : null;
  if (draw) outcome.append(draw);
  return [
    h("section", { class: "trade" }, h("h2", {}, "The trade-off"), outcome),
    h("section", { class: "chosen-plan" }, h("h2", {}, "This plan, checked afresh"), verdict(view), attack(view), features(view)),
    sample?.element,
    more("The three numbers of this plan", numbers(view), notes(view)),
    view.tables.length ? more("The plan as tables", view.tables.map((one) => table(one)), view.lines.map((text) => h("p", { class: "note" }, text))) : null,
    view.card ? more("The card that a release would carry", cardFacts(view.card)) : null,
    h("div", { class: "actions" }, link("Release with this plan", address({ step: "release" }), { class: "button primary" })),
  ];
}

/** Two bars: how often an attacker is right after, and blindly. */
function attack(view) {
  if (!view.attack) return null;
  const bar = (label, share, kind) => {
    const inner = h("span", { class: `fill ${kind}` });
    inner.style.setProperty("--share", String(share));
    return h("div", { class: "meter" }, h("span", { class: "meter-label" }, label), h("span", { class: "rail", "aria-hidden": "true" }, inner), h("span", { class: "meter-value" }, percent(share)));
  };
  const { before, after, blind } = view.attack;
  return h("div", { class: "meters" }, h("h3", {}, "How often an attacker is right"),
    before === null ? null : bar("from the data as it is", before, "before"),
    bar("from this release", after, "after"),
    bar("by blind guessing", blind, "blind"));
}

function features(view) {
  if (!view.features.length) return null;
  const word = view.policy === "redraw" ? "drawn anew" : "hidden";
  const said = (one) => (one.merged ? one.merged : one.hidden >= 1 ? word : one.hidden <= 0 ? "as it is" : `${word} in ${one.hidden < 0.005 ? "under 1 %" : percent(one.hidden)}`);
  return h("ul", { class: "names" }, view.features.map((one) =>
    h("li", { class: one.hidden >= 1 ? "off" : one.merged || one.hidden > 0 ? "partly" : "on" }, h("strong", {}, one.name), ` ${said(one)}`)));
}

function along(view, state, way, form, sample) {
  const consequence = h("p", { class: "lead consequence" });
  const detail = h("p", { class: "detail-line" });
  const shares = h("ul", { class: "names" });
  const target = h("form", { class: "here" });
  const button = h("button", { type: "submit", class: "primary" }, "Plan for this point");
  const hint = h("p", { class: "soft" });
  target.append(button, hint, formError());
  const curve = draggable(view.curve, (at, point) => {
    [consequence.textContent, detail.textContent] = point.words.map(unbroken);
    fill(shares, (point.shares ?? []).map(([name, share]) => h("li", {}, h("strong", {}, name), ` ${share} changed`)));
    const here = at === view.curve.chosen;
    button.hidden = here || !point.ask;
    hint.textContent = here ? "This is the plan below." : point.ask ? "Figures along the curve are estimates; a plan is checked afresh." : "Nothing is hidden here: this is the data as it is.";
    sample?.preview(point, here);
  });
  target.addEventListener("submit", (event) => {
    event.preventDefault();
    const point = view.curve.points[curve.at];
    busy(target, button, () => plan(state, way, form.read(), point.ask));
  });
  curve.start();
  return h("div", {}, curve.element, consequence, detail, shares, target);
}

/** Where there is no curve to drag along: what can be turned, and what the plans made so far have left. */
function turning(view, state, way, form) {
  const { option, low, high, step, at, label, private: side } = view.dial;
  const id = unique("dial");
  const said = h("output", { class: "said", for: id });
  const sign = side === "high" ? -1 : 1; // so that "more private" is at the left, as on the curve
  const [least, most] = sign < 0 ? [-high, -low] : [low, high];
  const slider = h("input", { type: "range", id, min: least, max: most, step, class: "along" });
  slider.value = sign * at;
  const turned = () => sign * Number(slider.value);
  const button = h("button", { type: "submit", class: "primary", hidden: true }, "Plan with this");
  const show = () => {
    said.textContent = percent(turned());
    slider.setAttribute("aria-valuetext", percent(turned()));
    button.hidden = Math.abs(turned() - at) < 0.75 * step;
  };
  const ends = [h("span", {}, "more private"), h("span", {}, "more useful")];
  const target = h("form", { class: "here" });
  const past = h("ul", { class: "past" });
  target.append(
    h("p", { class: "note" }, "What another share would leave is known only once it is planned; here are the plans so far."),
    past,
    h("div", { class: "slide" }, h("label", { for: id }, label), said, slider, h("div", { class: "ends", "aria-hidden": "true" }, ends)),
    button, formError());
  slider.addEventListener("input", show);
  target.addEventListener("submit", (event) => {
    event.preventDefault();
    const value = Math.round(1000 * turned()) / 1000;
    busy(target, button, () => plan(state, way, form.read(), option === "kept" ? { kept: value } : { options: { [option]: value } }));
  });
  show();
  earlier(past, state, option);
  return target;
}

async function earlier(list, state, option) {
  const found = (await api.jobs()).filter((job) => job.verb === "plan" && job.state === "done" && job.request.data === state.data && job.request.policy === "redraw");
  const lines = await Promise.all(found.slice(0, 8).map(async (job) => {
    const view = await api.view(job.id);
    const share = (option === "kept" ? job.request.kept : job.request.options[option]) ?? view.dial?.at;
    const here = job.id === state.plan;
    const words = [share ? `${percent(share)}: ` : "", `an attacker is right ${percent(view.attack?.after ?? 0)} of the time`].join("");
    return h("li", {}, here ? h("strong", {}, `${words} (shown)`) : h("a", { href: address({ plan: job.id, release: null, audit: null }) }, words));
  }));
  fill(list, lines);
}

export { chart };
