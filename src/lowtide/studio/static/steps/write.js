// Write: a page of its own, which may not send anything anywhere while one types.

import * as api from "../api.js";
import { fill, h } from "../dom.js";
import { empty, heading, link } from "../parts.js";
import { address } from "../state.js";

export const title = "Write";

export async function show(place) {
  const [{ files, models }, jobs] = await Promise.all([api.project(), api.jobs()]);
  const scans = new Map(jobs.map((job) => [job.id, job]));
  const names = new Map(files.map(({ id, name }) => [id, name]));
  const about = ({ id, name }) => {
    const scan = scans.get(id);
    if (!scan) return [name, "a model in the project's folder"];
    const source = names.get(scan.request.data);
    return [`${scan.request.secret.join(" and ")}${source ? `, from ${source}` : ""}`, `scanned ${new Date(1000 * scan.created).toLocaleString()}`];
  };
  const choices = models.map((model) => [model.id, ...about(model)]);
  fill(place,
    heading("Write", "A text box that warns as you type: telling words are underlined, a meter shows what a reader would believe, and you see what to leave out. What you type never leaves the browser."),
    choices.length
      ? h("section", {}, h("h2", {}, "What should not be told?"), h("ul", { class: "choices beside-each-other" }, choices.map(([id, name, detail]) => h("li", {},
          h("a", { class: "choice", href: `/write?model=${encodeURIComponent(id)}` }, h("span", {}, name), h("span", { class: "soft" }, detail))))))
      : empty("There is no model of texts yet", "Scan some texts first; the demo with posts will do.", link("Open texts", address({ step: "open", data: null }))));
}
