// What the user has chosen lives in the address: a reload, a bookmark or the back button bring it back. Jobs live on the
// server. The part after # is never sent anywhere.

const SEVERAL = new Set(["secret", "known", "keep", "hide"]);

/** The state in the address. */
export function read() {
  const given = new URLSearchParams(window.location.hash.replace(/^#/, ""));
  const state = { step: "open", secret: [], known: [], keep: [], hide: [] };
  for (const name of new Set(given.keys())) {
    state[name] = SEVERAL.has(name) ? given.getAll(name) : given.get(name);
  }
  return state;
}

function written(state) {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(state)) {
    if (Array.isArray(value)) value.forEach((one) => given.append(name, one));
    else if (value !== null && value !== undefined && value !== "" && value !== false) given.set(name, String(value));
  }
  return `#${given}`;
}

export const address = (changes) => written({ ...read(), ...changes });

/** Change the state and show it; `quietly` changes the address only. */
export function go(changes, { quietly = false, replace = false } = {}) {
  const hash = address(changes);
  if (quietly || replace) window.history.replaceState(null, "", hash);
  else window.history.pushState(null, "", hash);
  if (!quietly) window.dispatchEvent(new Event("studio:state"));
}

/** What was found downstream no longer holds once something upstream is chosen anew. */
export const FORGOTTEN = {
  data: { secret: [], utility: null, known: [], ids: null, text: null, group: null, keep: [], hide: [], scan: null, plan: null, release: null, audit: null, way: null, patch: null },
  roles: { scan: null, plan: null, release: null, audit: null, keep: [], hide: [] },
  scan: {},
  plan: { release: null, audit: null },
  release: { audit: null },
};
