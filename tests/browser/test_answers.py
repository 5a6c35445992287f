"""The scripts of a page answer as Python does, in a real browser."""

import base64
import json
import os

import numpy as np
import pytest

from lowtide.browser.page import ANSWERING, STATIC, bundle
from lowtide.browser.payload import pack_model, rounded
from lowtide.browser.vectors import generated_texts, make_vectors, utf16_places
from lowtide.errors import LowtideError
from lowtide.texts.partial import read_densities
from lowtide.texts.writing import read_writing

MODELS = {
    "pairs, three classes": {"ngrams": 2, "classes": 3},
    "characters": {"ngrams": 2, "classes": 3, "characters": True},
    "every other rule": {
        "weighting": "counts",
        "accents": False,
        "urls": True,
        "numbers": False,
        "apostrophes": "split",
        "hyphens": "keep",
        "stop": "english",
    },
    "runs of three": {
        "ngrams": 3,
        "weighting": "binary",
        "apostrophes": "drop",
        "hyphens": "drop",
        "handles": False,
    },
}
TEXTS = int(os.environ.get("LOWTIDE_PAGE_TEXTS", "3000"))  # 20000 takes minutes
COMPARE = """async ([model64, cases]) => {
  const model = await openModel(fromBase64(model64));
  const vectors = cases ?? model.about.vectors;
  let words = 0, farthest = 0, needed = 0;
  const wrong = [];
  for (const [text, expected, density, told, remedy] of vectors) {
    const places = model.read(text).words.map((word) => [word.text, word.start, word.end]);
    const found = JSON.stringify(places);
    words += expected.length;
    if (found !== JSON.stringify(expected)) {
      wrong.push(["words", text, found, expected]);
      continue;
    }
    const answered = answer(model, text, remedy ? 0.5 : null);
    density.forEach((value, s) => {
      farthest = Math.max(farthest, Math.abs(value - answered.density[s]));
    });
    (told ?? []).forEach((row, j) => row.forEach((value, s) => {
      farthest = Math.max(farthest, Math.abs(value - answered.words[j].tells[s])); }));
    if (told && told.length !== answered.words.length) wrong.push(["terms", text]);
    if (!remedy) continue;
    needed += answered.remedy.needed;
    const [ours, theirs] = [answered.remedy.words, remedy[0]].map((list) => list.toSorted());
    const same = JSON.stringify(ours) === JSON.stringify(theirs);
    if (!same || answered.remedy.removed !== remedy[1]) {
      wrong.push(["remedy", text, answered.remedy, remedy]);
    }
  }
  return { texts: vectors.length, words, farthest, needed, wrong };
}"""


def compare(tab, density, bits, cases=None, vectors=None):
    """What a browser answers beside what Python does."""
    packed = base64.b64encode(pack_model(density, bits=bits, more={"vectors": vectors})).decode()
    script = f"async (given) => {{ {bundle(ANSWERING)}\nreturn await ({COMPARE})(given); }}"
    return tab.evaluate(script, [packed, cases])


@pytest.mark.parametrize("name", MODELS)
def test_vectors_are_answered_alike(name, tab, draw):
    density = draw(**MODELS[name])
    bits = 8 if "runs" in name else 4
    vectors = make_vectors(rounded(density, bits), 150)
    found = compare(tab, density, bits, vectors=vectors)
    assert found["wrong"] == []
    assert found["texts"] == 150
    assert found["farthest"] < 2e-5
    assert found["words"] > 500
    assert found["needed"] > 10


@pytest.mark.parametrize("name", ["pairs, three classes", "characters"])
def test_generated_texts_are_cut_and_answered_alike(name, tab, draw):
    density = draw(**MODELS[name])
    vocabulary = density.encoder.vocabulary
    texts = generated_texts(vocabulary, TEXTS, seed=1)
    told = read_densities(rounded(density), texts)
    cases = []
    for text, g in zip(texts, told, strict=True):
        places = utf16_places(text)
        words = read_writing(text, vocabulary, vocabulary.options).words
        cases.append(
            [
                text,
                [[word.text, places[word.start], places[word.end]] for word in words],
                g.tolist(),
                None,
                None,
            ]
        )
    found = compare(tab, density, 4, json.loads(json.dumps(cases)))
    assert found["wrong"] == []
    assert found["texts"] == TEXTS
    assert found["farthest"] < 2e-5


def test_rounding_to_four_bits_moves_beliefs_little(draw):
    density = draw(ngrams=2)
    texts = generated_texts(density.encoder.vocabulary, 300, seed=2)
    odds = density.classes.prior * np.exp(read_densities(density, texts))
    beliefs = odds / odds.sum(axis=1, keepdims=True)
    for bits, most in ((4, 0.05), (8, 0.005)):
        other = density.classes.prior * np.exp(read_densities(rounded(density, bits), texts))
        moved = np.abs(other / other.sum(axis=1, keepdims=True) - beliefs).max()
        assert 0 < moved < most


def test_only_models_of_texts_are_packed(draw):
    with pytest.raises(LowtideError, match="bits"):
        pack_model(draw(), bits=3)


def test_every_module_is_a_module_of_the_browser(tab):
    """The files load as they are, too, as the studio serves them."""
    tab.route(
        "http://studio.test/**",
        lambda route: route.fulfill(path=STATIC / route.request.url.rsplit("/", 1)[-1]),
    )
    tab.route(
        "http://studio.test/",
        lambda route: route.fulfill(body="<!DOCTYPE html>", content_type="text/html"),
    )
    tab.goto("http://studio.test/")
    for path in sorted(STATIC.glob("*.js")):
        assert (
            tab.evaluate("async (path) => Object.keys(await import(path)).length", f"/{path.name}")
            > 0
        ), path.name
