// Reads texts for the content scripts of sites that the user has allowed. Nothing is sent anywhere: the model is a file of
// this extension, and the only request that it makes is for that file.

import { answer } from "./answer.js";
import { openModel } from "./model.js";
import { underlines } from "./underline.js";

let opening = null;

function model() {
  opening ??= fetch(chrome.runtime.getURL("model.bin")).then(async (file) => openModel(new Uint8Array(await file.arrayBuffer())));
  return opening;
}

/** What a content script draws. */
async function read(text) {
  const opened = await model();
  const { budget } = await chrome.storage.local.get({ budget: 0.5 });
  const found = answer(opened, text);
  const isOver = found.leak > budget;
  const share = Math.round(100 * found.belief[found.about]);
  return {
    marks: isOver ? underlines(found) : [],
    said: isOver ? `A reader would believe ${opened.labels[found.about]} with ${share} %` : "",
  };
}

chrome.runtime.onMessage.addListener((message, sender, reply) => {
  if (sender.id !== chrome.runtime.id || message?.kind !== "read" || typeof message.text !== "string") return false;
  read(message.text).then(reply, () => reply({ marks: [], said: "" }));
  return true;
});

const scriptOf = (origin) => ({
  id: `site ${origin}`, matches: [origin], js: ["content.js"], allFrames: true, matchOriginAsFallback: false, runAt: "document_idle",
});

/** Keep the content scripts to the sites that are allowed now, whoever allowed or forbade them. */
async function follow() {
  const { origins = [] } = await chrome.permissions.getAll();
  const there = await chrome.scripting.getRegisteredContentScripts();
  const gone = there.filter((script) => !script.matches.every((match) => origins.includes(match))).map((script) => script.id);
  if (gone.length) await chrome.scripting.unregisterContentScripts({ ids: gone });
  const known = new Set(there.map((script) => script.id));
  const more = origins.map(scriptOf).filter((script) => !known.has(script.id));
  if (more.length) await chrome.scripting.registerContentScripts(more);
}

chrome.permissions.onAdded.addListener(follow);
chrome.permissions.onRemoved.addListener(follow);
chrome.runtime.onInstalled.addListener(follow);
chrome.runtime.onStartup.addListener(follow);
