// Work that was begun before: what each job was asked for is on the server, and leads back to where one left off.

import { h } from "./dom.js";
import { address, FORGOTTEN } from "./state.js";

const DID = { scan: "scanned", plan: "planned", release: "released", audit: "audited" };
const STANDS = { queued: "waiting", running: "running now", failed: "did not succeed", cancelled: "cancelled", interrupted: "interrupted" };
const MOST = 6;

/** One link for each data and secret, to the newest job about them; `files` and `jobs` as the server lists them. */
export function earlier(files, jobs) {
  const names = new Map(files.map(({ id, name }) => [id, name]));
  const seen = new Set();
  const links = [];
  for (const job of jobs) {
    const state = stateOf(job, jobs);
    if (!state || !names.has(state.data)) continue;
    const about = JSON.stringify([state.data, state.secret]);
    if (seen.has(about) || links.length === MOST) continue;
    seen.add(about);
    const done = STANDS[job.state] ?? `${DID[job.verb]} ${new Date(1000 * job.ended).toLocaleString()}`;
    links.push(h("li", {}, h("a", { class: "choice", href: address({ ...FORGOTTEN.data, ...state }) },
      h("span", {}, `${names.get(state.data)}: ${state.secret.join(" and ")}`),
      h("span", { class: "soft" }, STANDS[job.state] ? `${job.verb}, ${done}` : done))));
  }
  return links;
}

/** What the address says where a job is shown; null where a job that it rests on is gone. */
function stateOf(job, jobs) {
  const { request } = job;
  const earlierJob = (id) => jobs.find((one) => one.id === id);
  if (job.verb === "scan") return { ...asked(job), scan: job.id, step: "scan" };
  if (job.verb === "plan") {
    const way = request.mechanism === "merge" ? "merge" : request.policy;
    const scan = jobs.find((one) => one.verb === "scan" && one.state === "done" && one.request.data === request.data && String(one.request.secret) === String(request.secret));
    return { ...asked(job), keep: request.keep, hide: request.hide, way, scan: scan?.id, plan: job.id, step: "choose" };
  }
  if (job.verb === "release") {
    const plan = earlierJob(request.plan);
    return plan ? { ...stateOf(plan, jobs), data: request.data, ids: request.ids, release: job.id, step: "release" } : null;
  }
  const release = earlierJob(request.release);
  const before = release ? stateOf(release, jobs) : asked(job);
  return before ? { ...before, known: request.known, audit: job.id, step: "audit" } : null;
}

/** What jobs of every verb but `release` are asked. */
function asked({ kind, request }) {
  const { secret, utility, steps, options } = request;
  return { data: request.data ?? request.reference, kind, secret, utility, steps, text: options.text, group: options.group, patch: options.patch };
}
