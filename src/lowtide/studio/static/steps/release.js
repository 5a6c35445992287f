// Release: write the changed data with its card, and fetch all of it; and the script that does the same.

import * as api from "../api.js";
import { announce, bytes, fill, h, unique } from "../dom.js";
import { showJob } from "../jobs.js";
import { busy, cardFacts, empty, field, formError, heading, link, more, notes, numbers, verdict } from "../parts.js";
import { beside } from "../samples.js";
import { address, FORGOTTEN, go } from "../state.js";

export const title = "Release";
const WHAT = {
  data: ["The data to share", "without the secret"],
  card: ["Its card", "what was done, and what may be promised; it travels with the data"],
  "card to read": ["Its card, to read", "the same in words"],
  plan: ["The plan", "do not publish it; further files of this layout are released with it"],
  report: ["The report", "one page; it says which parts may be published"],
  model: ["The model", "do not publish it"],
  result: ["All figures", "as JSON"],
  private: ["Which sample is which", "do not publish it; an audit needs it"],
  changes: ["Where words were changed", "do not publish it: it shows how long they were"],
  other: ["", ""],
};
const ORDER = Object.keys(WHAT);

export async function show(place, state) {
  if (!state.plan) {
    fill(place, heading("Release"), empty("There is no plan yet", "Choose what to change first.", link("Choose", address({ step: "choose" }))));
    return undefined;
  }
  const body = h("div", {});
  fill(place, heading("Release", "The secret itself is left out, always. Your own file is not touched."), await form(state), body);
  if (!state.release) return undefined;
  return showJob(body, state.release, async (view, job) => {
    fill(body, await result(view, job, state));
  });
}

async function form(state) {
  const kind = state.kind ?? "tables";
  // Names of images may tell who is who, and so may the order of a file that was sorted.
  const shuffle = h("input", { type: "checkbox", id: unique("shuffle"), checked: true });
  const label = kind === "images" ? "Number the images anew, in random order: names may tell" : "Write them in random order: the order of a file may tell";
  const made = h("form", { class: "releasing" });
  const fields = [];
  let ids = null;
  const takesIds = await api.view(state.plan).then((view) => view.takes_ids, () => false); // a plan that is still made: not yet
  if (takesIds) {
    const about = await api.describe(state.data);
    ids = h("select", {}, h("option", { value: "" }, "none"), about.columns.filter(({ name }) => !state.secret.includes(name)).map(({ name }) => h("option", { value: name }, name)));
    ids.value = state.ids ?? "";
    fields.push(field("Column that tells rows apart (optional)", ids, { name: "ids", hint: "Without one, each row is recognised by its content: a row whose values change between two releases is drawn anew, and comparing both releases can then tell more." }));
  }
  const button = h("button", { type: "submit", class: state.release ? "" : "primary" }, state.release ? "Write it again" : "Write the release");
  fields.push(h("div", { class: "check" }, shuffle, h("label", { for: shuffle.id }, label)));
  made.append(h("div", { class: "fields single" }, fields), formError(), h("div", { class: "actions" }, button));
  made.addEventListener("submit", (event) => {
    event.preventDefault();
    busy(made, button, async () => {
      const options = shuffle.checked ? { [kind === "images" ? "rename" : "shuffle"]: true } : {};
      const request = { data: state.data, plan: state.plan, options };
      if (ids?.value) request.ids = ids.value;
      const job = await api.start("release", request);
      go({ ...FORGOTTEN.release, release: job.id, step: "release" });
    });
  });
  return made;
}

async function result(view, job, state) {
  const [written, planned, same] = await Promise.all([api.files(job.id), api.files(state.plan), api.script(job.id)]);
  const found = [...written.map((file) => ({ ...file, job: job.id })), ...planned.filter(({ what }) => what === "plan" || what === "report").map((file) => ({ ...file, job: state.plan }))];
  found.forEach((file) => {
    if (file.name.endsWith(".card.md")) file.what = "card to read";
    if (file.name.includes(".changes.")) file.what = "changes";
  });
  found.sort((a, b) => ORDER.indexOf(a.what) - ORDER.indexOf(b.what));
  const sample = beside(view.sample, { nouns: view.nouns });
  return [
    h("section", {}, h("h2", {}, "Written"), h("p", { class: "lead" }, view.summary, "."),
      h("ul", { class: "downloads" }, found.filter(({ what }) => what !== "result").map(download))),
    h("section", {}, h("h2", {}, "What is known of it"), verdict(view), numbers(view), notes(view)),
    sample?.element,
    view.card ? more("The card in words", cardFacts(view.card)) : null,
    h("div", { class: "actions" }, link("Attack this release", address({ step: "audit" }), { class: "button primary" })),
    script(same),
  ];
}

function download(file) {
  const [label, detail] = WHAT[file.what] ?? WHAT.other;
  return h("li", { class: file.what },
    h("a", { href: api.fileAddress(file.job, file.name), download: file.name },
      h("strong", {}, label || file.name), h("span", { class: "file-name" }, `${file.name}, ${bytes(file.bytes)}`)),
    detail ? h("span", { class: "soft" }, detail) : null);
}

/** The command lines and the Python that do the same, to copy. */
export function script({ shell, python }) {
  const shown = (name, text) => {
    const code = h("pre", { tabindex: "0", role: "group", "aria-label": name }, h("code", {}, text));
    const copy = h("button", { type: "button", class: "quiet", onclick: async () => {
      try {
        await navigator.clipboard.writeText(text);
        copy.textContent = "Copied";
        announce(`${name} copied`);
      } catch {
        window.getSelection().selectAllChildren(code);
      }
      window.setTimeout(() => { copy.textContent = "Copy"; }, 2000);
    } }, "Copy");
    return h("div", { class: "script" }, h("h3", {}, name), copy, code);
  };
  return h("section", { class: "scripts" }, h("h2", {}, "The same without the studio"), shown("In a terminal", shell), shown("In Python", python));
}
