// The studio's own REST service. Errors are problem details; `field` names what is at fault, where one thing is.

export class Problem extends Error {
  constructor({ title, detail, status, field }) {
    super(detail || title || "The studio did not answer.");
    this.name = "Problem";
    this.status = status ?? 0;
    this.field = field ?? null;
  }
}

async function asked(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, { credentials: "same-origin", cache: "no-store", ...options });
  } catch {
    throw new Problem({ detail: "The studio does not answer. Is it still running? Start it again with `lowtide studio`, then reload." });
  }
  if (answer.ok) return answer.status === 204 ? null : answer.json();
  let body = {};
  try {
    body = await answer.json();
  } catch {
    body = { detail: `The studio answered with ${answer.status}.` };
  }
  if (answer.status === 401 || answer.status === 403) {
    body.detail = "This page has no valid token. Open the address that `lowtide studio` printed.";
  }
  throw new Problem({ status: answer.status, ...body });
}

const part = encodeURIComponent;
const get = (path) => asked(path);
const post = (path, body) =>
  asked(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body ?? {}) });

export const project = () => get("/api/project");
export const describe = (file) => get(`/api/files/${part(file)}`);
export const demo = (id) => post(`/api/demos/${part(id)}`);
export const start = (verb, request) => post(`/api/${verb}`, request);
export const jobs = () => get("/api/jobs");
export const job = (id) => get(`/api/jobs/${part(id)}`);
export const view = (id) => get(`/api/jobs/${part(id)}/view`);
export const files = (id) => get(`/api/jobs/${part(id)}/files`);
export const script = (id) => get(`/api/jobs/${part(id)}/script`);
export const result = (id) => get(`/api/jobs/${part(id)}/result`);
export const cancel = (id) => asked(`/api/jobs/${part(id)}`, { method: "DELETE" });
export const resume = (id) => post(`/api/jobs/${part(id)}/resume`);
export const review = (id, decision) => post(`/api/jobs/${part(id)}/review`, decision);
export const fileAddress = (id, name) => `/api/jobs/${part(id)}/files/${name.split("/").map(part).join("/")}`;
export const thumbnail = (file, k) => `/api/files/${part(file)}/thumbnail/${k}`;

export function upload(file) {
  const form = new FormData();
  form.append("file", file, file.name);
  return asked("/api/files", { method: "POST", body: form });
}

const ENDED = new Set(["done", "failed", "cancelled", "interrupted"]);
export const hasEnded = (found) => ENDED.has(found.state);

/** Hear about a job until it ends: server-sent events, and questions every other second where these do not come. */
export function follow(id, heard) {
  let stopped = false;
  let timer = 0;
  const source = new EventSource(`/api/jobs/${part(id)}/events`);
  const stop = () => {
    stopped = true;
    source.close();
    window.clearTimeout(timer);
  };
  const tell = (found) => {
    if (stopped) return;
    if (hasEnded(found)) stop();
    heard(found);
  };
  const ask = async () => {
    if (stopped) return;
    try {
      tell(await job(id));
    } catch (problem) {
      if (problem.status === 404) return stop();
    }
    timer = window.setTimeout(ask, 2000);
  };
  source.addEventListener("job", (event) => tell(JSON.parse(event.data)));
  source.addEventListener("error", () => {
    source.close();
    if (!stopped) ask();
  });
  return stop;
}

/** The card of a release as it is now, with the decisions about it. */
export async function card(release) {
  const file = (await files(release)).find(({ name }) => name.endsWith(".card.json"));
  return file ? get(fileAddress(release, file.name)) : {};
}
