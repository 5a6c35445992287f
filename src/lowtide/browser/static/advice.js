// What to say of each word that a remedy names.

const KINDS = { "#": "tag", "＃": "tag", "@": "tag", "＠": "tag" };

/** For each word {word, places, said, mayGo}: leave it out, or reword; no other word, which would only rename the secret. */
export function advise(model, found) {
  const negations = new Set(model.about.negations);
  return found.remedy.words.map((word, i) => {
    const places = found.remedy.places[i];
    const written = found.text.slice(...places[0]);
    const isNumber = !/\p{L}/u.test(word) && /\p{N}/u.test(word);
    const isNegation = negations.has(word) || word.endsWith("n't");
    let said = `Leave out “${written}”, or reword this.`;
    if (isNegation || isNumber) said = `Reword around “${written}”: without it you would say something else.`;
    else if (KINDS[word[0]] || !/[\p{L}\p{N}]/u.test(word)) said = `Leave out “${written}”.`;
    return { word, places, said, mayGo: !isNegation && !isNumber };
  });
}
