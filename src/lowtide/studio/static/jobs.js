// A job on the page: how far it is, how to stop it, what went wrong, how to go on.

import * as api from "./api.js";
import { announce, fill, h, unique } from "./dom.js";

const DOING = { scan: "Looking for what leaks", plan: "Finding the trade-off", release: "Writing the release", audit: "Attacking the release" };
const ENDS = { done: "done", failed: "did not succeed", cancelled: "cancelled", interrupted: "interrupted" };

/**
 * Show a job and follow it; when it is done, `done(view, job)` shows its result in its place.
 *
 * @returns a function that stops following.
 */
export function showJob(place, id, done) {
  let stop = () => {};
  let left = false;
  const ended = async (job) => {
    if (job.state !== "done") return fill(place, stopped(job, again));
    try {
      const view = await api.view(job.id);
      if (!left) done(view, job);
    } catch (problem) {
      fill(place, h("p", { class: "error" }, problem.message));
    }
  };
  const again = (job) => {
    const panel = running(job);
    fill(place, panel.element);
    stop = api.follow(job.id, (found) => {
      if (left) return;
      if (!api.hasEnded(found)) return panel.update(found);
      announce(`${DOING[found.verb]}: ${ENDS[found.state]}.`);
      ended(found);
    });
  };
  (async () => {
    try {
      const job = await api.job(id);
      if (left) return;
      if (api.hasEnded(job)) await ended(job);
      else again(job);
    } catch (problem) {
      if (!left) fill(place, h("p", { class: "error" }, problem.status === 404 ? "This job is not there any more. Start it again." : problem.message));
    }
  })();
  return () => { left = true; stop(); };
}

function running(first) {
  const label = unique("progress");
  const what = h("p", { class: "what" });
  const bar = h("progress", { "aria-labelledby": label });
  const cancel = h("button", { type: "button", class: "quiet", onclick: async () => {
    cancel.setAttribute("aria-disabled", "true");
    try {
      await api.cancel(first.id);
    } catch (problem) {
      what.textContent = problem.message;
    }
  } }, "Cancel");
  const element = h("section", { class: "job", "data-job": first.id },
    h("h2", { id: label }, DOING[first.verb]),
    bar, what,
    h("p", { class: "soft" }, "You can close or reload this page: the work goes on."),
    cancel);
  let said = 0;
  const update = (job) => {
    const { progress } = job;
    if (job.state === "queued") what.textContent = "Waiting for other work to end …";
    else if (!progress) what.textContent = "Starting …";
    else {
      what.textContent = progress.what ? `${progress.what} …` : "Working …";
      if (progress.total > 1) {
        bar.max = progress.total;
        bar.value = progress.done;
        const quarter = Math.floor((4 * progress.done) / progress.total);
        if (quarter > said && quarter < 4) announce(`${25 * quarter} percent of: ${progress.what}`);
        said = quarter;
      } else bar.removeAttribute("value");
    }
  };
  update(first);
  return { element, update };
}

function stopped(job, again) {
  const words = {
    failed: ["This did not work", job.error?.detail ?? "The job ended without saying why."],
    cancelled: ["Cancelled", "Nothing was written. You can start it again, or go back and change what is asked for."],
    interrupted: ["Interrupted", "The studio was stopped while this was running. Nothing half-done was kept."],
  };
  const [title, text] = words[job.state];
  const error = h("p", { class: "error", hidden: true });
  return h("section", { class: `job ${job.state}`, "data-job": job.id, role: "group" },
    h("h2", {}, title),
    h("p", { class: job.state === "failed" ? "error" : "" }, text),
    h("button", { type: "button", onclick: async () => {
      try {
        again(await api.resume(job.id));
      } catch (problem) {
        error.textContent = problem.message;
        error.hidden = false;
      }
    } }, job.state === "interrupted" ? "Go on" : "Start again"),
    error);
}
