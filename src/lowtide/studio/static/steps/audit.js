// Audit: fresh attackers on a release, who is exposed, and the reviewer's decision.

import * as api from "../api.js";
import { announce, fill, h, unique } from "../dom.js";
import { showJob } from "../jobs.js";
import { busy, chart, empty, field, formError, heading, link, more, notes, numbers, table, verdict } from "../parts.js";
import { address, go } from "../state.js";
import { common, TAKEN } from "./open.js";
import { script } from "./release.js";

export const title = "Audit";
const QUICK = { tables: ["logistic regression"], images: ["edges"], texts: ["words"] };

export async function show(place, state) {
  if (!state.data || !state.secret.length) {
    fill(place, heading("Audit"), empty("There is nothing to compare with yet", "Open the data before release and choose its secret; then audit a release of it, yours or somebody else's.", link("Open data", address({ step: "open" }))));
    return undefined;
  }
  const { files } = await api.project();
  const others = files.filter(({ id, kind }) => id !== state.data && (kind === "images") === (state.kind === "images"));
  const body = h("div", {});
  fill(place, heading("What can an attacker still tell?", "Attackers that have seen such releases are trained afresh and tested on people they have not seen."), form(state, others), body);
  if (!state.audit) return undefined;
  return showJob(body, state.audit, async (view, job) => {
    fill(body, await result(view, job, state));
  });
}

function form(state, others) {
  const made = h("form", { class: "auditing" });
  const release = h("select", {},
    h("option", { value: state.release ?? "" }, state.release ? "the release of the step before" : "choose one, or give its file"),
    others.map(({ id, name }) => h("option", { value: id }, name)));
  const thorough = h("select", {}, h("option", { value: "all" }, "all attackers"), h("option", { value: "quick" }, "a quick look: one attacker"));
  thorough.value = state.quick ? "quick" : "all";
  const given = h("input", { type: "file", accept: TAKEN, onchange: () => busy(made, button, async () => {
    if (!given.files.length) return;
    const file = await api.upload(given.files[0]);
    release.append(h("option", { value: file.id }, file.name));
    release.value = file.id;
    announce(`${file.name} is chosen`);
  }) });
  const fields = [
    field("Which release", release, { name: "release" }),
    field("Or somebody else's", given, { name: "file", hint: "A file with the same rows as your data, changed by whoever." }),
    field("How thoroughly", thorough, { name: "attackers", hint: "A quick look may miss what a better attacker finds." }),
  ];
  const button = h("button", { type: "submit", class: state.audit ? "" : "primary" }, state.audit ? "Attack it again" : "Attack the release");
  fill(made, h("div", { class: "fields" }, fields),
    state.known.length ? h("p", { class: "note" }, `The attacker is taken to know ${state.known.join(", ")} anyway; the release is charged for what it adds.`) : null,
    formError(), h("div", { class: "actions" }, button));
  made.addEventListener("submit", (event) => {
    event.preventDefault();
    busy(made, button, async () => {
      if (!release.value) throw new api.Problem({ field: "release", detail: "Choose the release to attack, or give its file." });
      const request = { ...common(state), release: release.value, known: state.known };
      if (state.kind) request.kind = state.kind;
      if (state.utility) request.utility = state.utility;
      if (thorough.value === "quick") request.attackers = QUICK[state.kind ?? "tables"];
      const job = await api.start("audit", request);
      go({ audit: job.id, quick: thorough.value === "quick" ? "1" : null, step: "audit" });
    });
  });
  return made;
}

async function result(view, job, state) {
  const [files, same] = await Promise.all([api.files(job.id), api.script(job.id)]);
  const report = files.find(({ what }) => what === "report");
  const [attacks, ...others] = view.charts;
  return [
    h("section", {}, verdict(view), view.gate ? h("p", { class: view.passed ? "" : "caution" }, view.gate) : null, numbers(view), notes(view)),
    attacks ? h("section", {}, h("h2", {}, "Before and after"), chart(attacks, attacks.title)) : null,
    h("section", {}, h("h2", {}, "Who is exposed"), view.added ? h("p", {}, view.added) : null,
      h("div", { class: others.length > 1 ? "panels" : "" }, others.map((one) => chart(one))),
      table(view.exposed),
      more("Which rows tell most", h("p", {}, `Numbers of rows of your data, from 0; do not publish them: ${view.exposed_rows.join(", ")}.`))),
    view.change.length ? h("section", {}, h("h2", {}, "What changed, and what it is still good for"), view.change.map((text) => h("p", {}, text))) : null,
    view.tables.length ? more("All attacks and measures", view.tables.map((one) => table(one))) : null,
    report ? h("p", {}, h("a", { href: api.fileAddress(job.id, report.name), download: report.name }, "Download the report")) : null,
    state.release ? decision(state.release) : null,
    script(same),
  ];
}

const DECISIONS = { approve: "Approve", "approve with changes": "Approve with changes", reject: "Reject" };

/** The reviewer's decision, which goes onto the card of the release. */
function decision(release) {
  const form = h("form", { class: "deciding", novalidate: true });
  const name = h("input", { type: "text", autocomplete: "name", required: true, maxlength: 120 });
  const comment = h("textarea", { rows: 3, maxlength: 1000 });
  const until = h("input", { type: "date" });
  const group = unique("decision");
  const choices = Object.entries(DECISIONS).map(([value, label]) =>
    h("label", { class: "way" }, h("input", { type: "radio", name: group, value }), h("span", { class: "way-name" }, label)));
  const decided = h("fieldset", { class: "ways" }, h("legend", {}, "Decision"), h("p", { class: "error", hidden: true }), choices);
  decided.dataset.field = "decision";
  const stored = h("ul", { class: "decisions" });
  const button = h("button", { type: "submit" }, "Write it on the card");
  form.append(
    decided,
    h("div", { class: "fields" },
      field("Who decides", name, { name: "name" }),
      field("Why, or which changes", comment, { name: "comment" }),
      field("Until when, if it ends", until, { name: "until" })),
    formError(), h("div", { class: "actions" }, button));
  const show = (card) => fill(stored, (card.decisions ?? []).map((one) =>
    h("li", {}, h("strong", {}, one.decision.replaceAll("-", " ")), ` by ${one.name} on ${one.date}`, one.expires ? `, until ${one.expires}` : "", one.note ? `: ${one.note}` : "")));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    busy(form, button, async () => {
      const chosen = form.querySelector(`input[name="${group}"]:checked`);
      if (!chosen) throw new api.Problem({ field: "decision", detail: "Say whether this release may leave the house." });
      const body = { name: name.value, decision: chosen.value, comment: comment.value };
      if (until.value) body.until = until.value;
      show(await api.review(release, body));
      announce("The decision is on the card.");
      form.reset();
    });
  });
  api.card(release).then(show).catch(() => {});
  return h("section", {}, h("h2", {}, "The reviewer's decision"), h("p", {}, "It is bound to this very release: whoever changes the card or the data afterwards breaks it."), stored, form);
}
