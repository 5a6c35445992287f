// Asks for one site at a time; the browser itself asks the user once more.

const [tab] = await chrome.tabs.query({ active: true, currentWindow: true });
const show = (id, isShown) => { document.getElementById(id).hidden = !isShown; };

let origin = null;
try {
  const url = new URL(tab.url);
  if (["http:", "https:"].includes(url.protocol)) origin = `${url.protocol}//${url.hostname}/*`;
} catch {
  // A page of the browser itself has no address that an extension may see.
}

async function refresh() {
  const isAllowed = origin !== null && (await chrome.permissions.contains({ origins: [origin] }));
  const name = origin?.replace(/^\w+:\/\/|\/\*$/g, "");
  document.getElementById("site").textContent = origin === null
    ? "Lowtide cannot underline on this page."
    : isAllowed ? `Words that give you away are underlined on ${name}.` : `Lowtide does not look at ${name}.`;
  show("allow", origin !== null && !isAllowed);
  show("once", origin !== null && !isAllowed);
  show("forbid", isAllowed);
}

const underlineNow = () => chrome.scripting.executeScript({ target: { tabId: tab.id }, files: ["content.js"] });

document.getElementById("allow").addEventListener("click", async () => {
  if (await chrome.permissions.request({ origins: [origin] })) await underlineNow();
  await refresh();
});
document.getElementById("once").addEventListener("click", underlineNow);
document.getElementById("forbid").addEventListener("click", async () => {
  await chrome.permissions.remove({ origins: [origin] });
  await refresh();
});

const slider = document.getElementById("budget");
slider.value = (await chrome.storage.local.get({ budget: 0.5 })).budget;
slider.addEventListener("change", () => chrome.storage.local.set({ budget: Number(slider.value) }));
await refresh();
