// Open: data from a drop, the project or a demo; then which column is what.

import * as api from "../api.js";
import { announce, bytes, count, fill, h, picture, plural, unique } from "../dom.js";
import { earlier } from "../earlier.js";
import { busy, field, formError, heading, more, showProblem, table } from "../parts.js";
import { FORGOTTEN, go } from "../state.js";

export const title = "Open";
export const TAKEN = ".csv,.gz,.tsv,.parquet,.pq,.arrow,.feather,.ipc,.jsonl,.ndjson,.zip,.npz";
const KINDS = { tables: "a table", images: "images", texts: "texts" };
const ROLES = {
  "": "ordinary",
  secret: "secret: must not be told",
  utility: "utility: should still be predicted",
  known: "known: the attacker has it anyway",
  ids: "id: tells rows apart",
  text: "text: what people wrote",
  group: "author: who wrote it",
};
const ROLES_OF = { tables: ["", "secret", "utility", "known", "ids", "text", "group"], texts: ["", "secret", "utility", "text", "group", "ids"], images: ["", "secret", "utility"] };
const ONE = ["utility", "ids", "text", "group"];

export async function show(place, state) {
  if (state.data) return chosen(place, state);
  const [project, jobs] = await Promise.all([api.project(), api.jobs()]);
  return pick(place, project, earlier(project.files, jobs));
}

function pick(place, project, begun) {
  const input = h("input", { type: "file", id: unique("file"), class: "unseen", accept: TAKEN });
  const drop = h("label", { class: "drop", for: input.id },
    h("span", { class: "drop-title" }, "Drop a file here, or choose one"),
    h("span", { class: "soft" }, "A table or a column of texts (CSV, Parquet, JSON lines), or a zip of images or of text files. It is copied into the project's own folder and goes nowhere else."));
  const form = h("form", { class: "opening" }, h("div", { class: "dropping" }, input, drop), formError());
  const take = (file) => busy(form, drop, async () => {
    if (!file) return;
    drop.classList.add("taking");
    try {
      announce(`Taking in ${file.name}`);
      use(await api.upload(file));
    } finally {
      drop.classList.remove("taking");
      input.value = "";
    }
  });
  input.addEventListener("change", () => take(input.files[0]));
  const over = (on) => (event) => { event.preventDefault(); drop.classList.toggle("over", on); };
  drop.addEventListener("dragenter", over(true));
  drop.addEventListener("dragover", over(true));
  drop.addEventListener("dragleave", over(false));
  drop.addEventListener("drop", (event) => { over(false)(event); take(event.dataTransfer.files[0]); });

  const choice = (label, detail, action) => {
    const button = h("button", { type: "button", class: "choice", onclick: () => busy(form, button, action) }, h("span", {}, label), h("span", { class: "soft" }, detail));
    return h("li", {}, button);
  };
  const files = project.files.map((file) => choice(file.name, `${KINDS[file.kind] ?? file.kind}, ${bytes(file.bytes)}`, async () => use(file)));
  const demos = project.demos.map((demo) => choice(demo.title, KINDS[demo.kind] ?? demo.kind, async () => {
    announce("Making the demo's data");
    use(await api.demo(demo.id));
  }));
  fill(place,
    heading("Which data do you want to share?", "The studio finds what in it gives a secret away, changes little else, and attacks what is left."),
    form,
    begun.length ? h("section", {}, h("h2", {}, "Go on where you left off"), h("ul", { class: "choices beside-each-other" }, begun)) : null,
    h("section", { class: "two" },
      h("div", {}, h("h2", {}, "In this project"),
        files.length ? h("ul", { class: "choices" }, files) : h("p", { class: "soft" }, `There is no table, folder of images or texts in “${project.name}” yet. Drop one above.`)),
      h("div", {}, h("h2", {}, "Or try a demo"), h("ul", { class: "choices" }, demos))));
}

const use = (file) => go({ ...FORGOTTEN.data, data: file.id, step: "open" });

async function chosen(place, state) {
  const about = await api.describe(state.data);
  const suggested = about.suggested ?? {};
  const kind = suggested.kind ?? about.file.kind;
  const nothing = !state.secret.length && !state.text;
  const roles = new Map(about.columns.map(({ name }) => [name, nothing ? guessed(suggested, name) : roleOf(state, name)]));
  const form = h("form", { class: "roles", novalidate: true });
  const button = h("button", { type: "submit", class: "primary" }, "Look for what leaks");
  const settings = advanced(state, kind);
  const columns = columnTable(about, kind, roles);
  form.append(columns, settings.element, formError(), h("div", { class: "actions" }, button));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    busy(form, button, async () => {
      const said = gathered(roles);
      if (!said.secret.length) {
        showProblem(form, { field: "secret", message: "Choose which column is the secret: what nobody should be able to tell from the rest." });
        return;
      }
      const asked = { ...said, ...settings.read() };
      const job = await api.start("scan", scanRequest({ ...state, ...asked }, kindOf(asked, about)));
      go({ ...FORGOTTEN.roles, ...asked, kind: kindOf(asked, about), scan: job.id, step: "scan" });
    });
  });
  const nouns = { images: ["image", "images"], texts: ["text", "texts"] }[kind] ?? ["row", "rows"];
  fill(place,
    heading(about.file.name, `${plural(about.rows, ...nouns)}, ${bytes(about.file.bytes)}.`),
    h("p", {}, h("button", { type: "button", class: "quiet", onclick: () => go({ ...FORGOTTEN.data, data: null }) }, "Open other data")),
    about.notes.map((text) => h("p", { class: "note" }, text)),
    about.thumbnails ? h("ul", { class: "thumbs" }, Array.from({ length: Math.min(12, about.thumbnails) }, (_, k) =>
      h("li", {}, picture(api.thumbnail(state.data, k), `Image ${k + 1}`)))) : null,
    h("h2", {}, "What is what?"),
    h("p", {}, "Say what is secret: one column, or several. If you know what the data is for, name that as the utility, and it is spared. What an attacker knows of everybody anyway, name as known."),
    form,
    about.preview.length ? more("The first ten rows", table({ title: "As they are in the file", header: previewed(about), rows: about.preview.map((row) => row.map((cell) => (cell === null ? null : String(cell)))) }, { first: false })) : null);
}

/** Names over the preview; a folder of texts shows the texts beside its one column. */
const previewed = ({ columns, preview }) => columns.map(({ name }) => name).concat(preview[0].length > columns.length ? ["text"] : []);

function guessed(suggested, name) {
  if (name === suggested.text) return "text";
  if (name === suggested.group) return "group";
  if (name === suggested.secret) return "secret";
  if (name === suggested.ids) return "ids";
  return "";
}

function roleOf(state, name) {
  if (state.secret.includes(name)) return "secret";
  if (state.known.includes(name)) return "known";
  return ONE.find((role) => state[role] === name) ?? "";
}

function columnTable(about, kind, roles) {
  const selects = new Map();
  const rows = about.columns.map(({ name, type, distinct, missing }) => {
    const select = h("select", { "aria-label": `Role of ${name}`, onchange: () => {
      if (ONE.includes(select.value)) {
        for (const [other, control] of selects) if (other !== name && control.value === select.value) { control.value = ""; roles.set(other, ""); }
      }
      roles.set(name, select.value);
    } }, ROLES_OF[kind].map((role) => h("option", { value: role }, ROLES[role])));
    select.value = roles.get(name) ?? "";
    selects.set(name, select);
    return h("tr", {},
      h("th", { scope: "row" }, name),
      h("td", { class: "spare" }, type),
      h("td", { class: "number spare" }, count(distinct)),
      h("td", { class: "number spare" }, missing ? count(missing) : "–"),
      h("td", {}, select));
  });
  const box = h("div", { class: "field" },
    h("p", { class: "error", hidden: true }),
    h("div", { class: "wide", role: "group", tabindex: "0", "aria-label": "Columns and their roles" },
      h("table", { class: "columns" },
        h("caption", { class: "unseen" }, "Columns and their roles"),
        h("thead", {}, h("tr", {},
          h("th", { scope: "col" }, kind === "images" ? "label" : "column"), h("th", { scope: "col", class: "spare" }, "type"),
          h("th", { scope: "col", class: "number spare" }, "different"), h("th", { scope: "col", class: "number spare" }, "missing"),
          h("th", { scope: "col" }, "role"))),
        h("tbody", {}, rows))));
  box.dataset.field = "secret";
  return box;
}

function advanced(state, kind) {
  const steps = h("input", { type: "number", min: 40, max: 1000000, inputmode: "numeric", value: state.steps ?? "" });
  const patch = h("input", { type: "number", min: 1, max: 64, inputmode: "numeric", value: state.patch ?? 8 });
  const fields = [field("Training steps", steps, { name: "steps", hint: "Leave empty for enough. Fewer are quicker and rougher; at least 40." })];
  if (kind === "images") fields.push(field("Patch size, pixels", patch, { name: "patch", hint: "Small patches show more, and take longer." }));
  const element = more("Settings", h("div", { class: "fields" }, fields));
  if (state.steps) element.open = true;
  return { element, read: () => ({ steps: steps.value || null, patch: kind === "images" ? patch.value || null : null }) };
}

function gathered(roles) {
  const said = { secret: [], known: [], utility: null, ids: null, text: null, group: null };
  for (const [name, role] of roles) {
    if (role === "secret" || role === "known") said[role].push(name);
    else if (role) said[role] = name;
  }
  return said;
}

/** The kind of data: a table whose texts nobody named is a table; a folder of texts has no column of them. */
function kindOf(said, { suggested, file }) {
  if (said.text) return "texts";
  return suggested?.text ? "tables" : suggested?.kind ?? file.kind;
}

/** What all requests about this data say. */
export function common(state) {
  const options = {};
  if (state.text) options.text = state.text;
  if (state.group && state.text) options.group = state.group;
  return { data: state.data, secret: state.secret, options };
}

function scanRequest(state, kind) {
  const request = common(state);
  request.kind = kind;
  if (state.patch && request.kind === "images") request.options.patch = Number(state.patch);
  if (state.steps) request.steps = Number(state.steps);
  return request;
}
