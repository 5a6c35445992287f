// Write: a page of its own, which may not send anything anywhere while one types.

import * as api from "../api.js";
import { fill, h } from "../dom.js";
import { empty, heading, link } from "../parts.js";
import { address } from "../state.js";

export const title = "Write";

export async function show(place) {
  const found = (await api.jobs()).filter((job) => job.verb === "scan" && job.kind === "texts" && job.state === "done");
  fill(place,
    heading("Write", "A text box that warns as you type: leaking words underlined, a belief meter, and what to leave out. What you type never leaves the browser."),
    found.length
      ? h("ul", { class: "choices" }, found.map((job) => h("li", {}, h("a", { class: "choice", href: `/write?model=${encodeURIComponent(job.id)}` },
          h("span", {}, `With what was learnt about ${job.request.secret.join(" and ")}`), h("span", { class: "soft" }, `scanned ${new Date(1000 * job.created).toLocaleString()}`)))))
      : empty("There is no model of texts yet", "Scan some texts first; the demo with posts will do.", link("Open texts", address({ step: "open", data: null }))));
}
