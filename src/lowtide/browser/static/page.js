// The page that works from disk: opens the model that it carries, and checks itself against what Python answered.

import { answer } from "./answer.js";
import { fromBase64, openModel } from "./model.js";
import { Writer } from "./writer.js";

const AT_ONCE = 10;
const NEAR = 1e-3; // nats

/** How many of the test texts that the model carries are answered otherwise than by Python. */
export async function selfCheck(model, pause = () => new Promise((done) => setTimeout(done))) {
  let wrong = 0;
  for (const [at, [text, words, density]] of model.about.vectors.entries()) {
    const read = model.read(text).words;
    const told = answer(model, text).density;
    const same = read.length === words.length
      && words.every(([term, start, end], i) => read[i].text === term && read[i].start === start && read[i].end === end)
      && density.every((value, s) => Math.abs(value - told[s]) < NEAR);
    wrong += same ? 0 : 1;
    if (at % AT_ONCE === AT_ONCE - 1) await pause();
  }
  return wrong;
}

export async function startPage() {
  const root = document.getElementById("writer");
  const check = document.getElementById("check");
  try {
    const block = document.getElementById("model");
    const model = await openModel(fromBase64(block.textContent));
    block.remove();
    window.lowtideWriter = new Writer(root, model);
    const wrong = await selfCheck(model);
    const count = model.about.vectors.length;
    check.textContent = wrong
      ? `This browser answers ${wrong} of ${count} test texts otherwise than Lowtide does; do not rely on it.`
      : `This page has checked itself on ${count} test texts.`;
    check.dataset.wrong = String(wrong);
  } catch {
    root.textContent = "This browser cannot open the model. A current version of Chrome, Edge, Firefox or Safari can.";
  }
}
