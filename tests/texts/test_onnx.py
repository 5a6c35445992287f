"""The exported model against the density it was made from, in another runtime."""

import json
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from lowtide import worlds
from lowtide.density.artefact import Density
from lowtide.density.bag_training import initial_networks
from lowtide.density.critics.bag import Bag, average
from lowtide.density.critics.base import Null
from lowtide.errors import LowtideError
from lowtide.features import one_per_column
from lowtide.labels import Classes
from lowtide.tables.encoder import TableEncoder
from lowtide.texts.encoder import TextEncoder
from lowtide.texts.explaining import explain
from lowtide.texts.onnx_export import export_onnx
from lowtide.texts.terms import TermOptions, Vocabulary

TERMS = 300
WORLD = worlds.naive_bayes_text(TERMS, 3, charged=0.5, prior=[0.2, 0.3, 0.5])
TEXTS = [WORLD.text(sequence) for sequence in WORLD.sample_sequences(40, seed=1).x]


def of_texts(critic, trim=8.0):
    vocabulary = Vocabulary(WORLD.features.names)
    encoder = TextEncoder(vocabulary, np.full((TERMS, 1), -1, dtype=np.int32))
    return Density(Classes(("a", "b", "é"), WORLD.prior), one_per_column(TERMS), critic, trim, encoder)


def as_arrays(drawn):
    return [{name: value.numpy() for name, value in one.items()} for one in drawn]


def bag(weighting, *, networks, trim=8.0, known=None):
    """A critic, whose networks know the `known` most frequent terms, or all."""
    generator = torch.Generator().manual_seed(0)
    weights = {"u": np.log(WORLD.frequencies).T.astype(np.float32)}
    if networks:
        counts = np.random.default_rng(0).integers(0, 50, TERMS).astype(float)
        drawn = [initial_networks(counts, 60, 3, generator, known=known or TERMS) for _ in range(4)]
        weights = average([{**one, **weights, "E": 20 * one["E"]} for one in as_arrays(drawn)])
    return of_texts(Bag(np.arange(TERMS), weighting, weights), trim)


def run(folder, texts):
    """Score texts as a page would: from the files alone."""
    about = json.loads((folder / "vocabulary.json").read_text(encoding="utf-8"))
    vocabulary = Vocabulary(tuple(about["terms"]), TermOptions.from_config(about["options"]))
    read = []
    for text in texts:
        times = {}
        for column, _ in vocabulary.find(text):
            times[column] = times.get(column, 0) + 1
        read.append(times)
    width = max(1, *map(len, read))
    terms, counts = np.zeros((len(read), width), np.int64), np.zeros((len(read), width), np.float32)
    for row, times in enumerate(read):
        terms[row, : len(times)], counts[row, : len(times)] = list(times), list(times.values())
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(folder / "model.onnx", options, providers=["CPUExecutionProvider"])
    density, prefixes = session.run(["density", "prefixes"], {"terms": terms, "counts": counts})
    return density, prefixes, [len(times) for times in read]


DENSITIES = {
    "networks": bag("log", networks=True),
    "networks, counts, trimmed": bag("counts", networks=True, trim=0.5),
    "networks that know few terms": bag("log", networks=True, known=40),
    "terms alone": bag("binary", networks=False),
    "terms alone, log": bag("log", networks=False),
    "null": of_texts(Null(3, TERMS)),
}


@pytest.mark.parametrize("name", DENSITIES)
def test_the_model_answers_as_the_density_does(name, tmp_path):
    density = DENSITIES[name]
    folder = export_onnx(density, tmp_path / "page")
    texts = [*TEXTS, "", "quite unknown", f"{TEXTS[0]} {TEXTS[0]}"]
    answer, prefixes, lengths = run(folder, texts)
    expected = density.density(texts)
    np.testing.assert_allclose(answer, expected, atol=1e-4)
    assert answer.dtype == np.float32
    assert (np.abs(expected).max() > 0.3) == (name != "null")
    for text, row, length in zip(texts, prefixes, lengths, strict=True):
        steps = np.array([word.conditional for word in explain(density, text).words]).reshape(-1, 3)
        np.testing.assert_allclose(np.diff(row[: length + 1], axis=0), steps, atol=1e-4)
        np.testing.assert_allclose(row[length:], np.tile(row[-1], (len(row) - length, 1)), atol=1e-6)


def test_single_texts_give_the_same_as_a_batch(tmp_path):
    density = DENSITIES["networks"]
    folder = export_onnx(density, tmp_path / "page")
    for text in (TEXTS[0], ""):
        np.testing.assert_allclose(run(folder, [text, ""])[0][:1], density.density([text]), atol=1e-4)


def test_the_folder_says_all_that_is_needed(tmp_path):
    folder = export_onnx(DENSITIES["networks"], str(tmp_path / "deep" / "page"))
    assert {path.name for path in folder.iterdir()} == {"model.onnx", "vocabulary.json", "README.txt"}
    about = json.loads((folder / "vocabulary.json").read_text(encoding="utf-8"))
    assert about["classes"] == ["a", "b", "é"]
    np.testing.assert_allclose(about["prior"], WORLD.prior)
    assert (about["trim"], about["weighting"], len(about["terms"])) == (8.0, "log", TERMS)
    model = onnx.load(folder / "model.onnx")
    assert model.opset_import[0].version <= 18
    assert {one.name for one in model.graph.input} == {"terms", "counts"}
    assert [path.name for path in folder.parent.iterdir()] == ["page"]


def test_an_older_export_is_replaced_and_nothing_else(tmp_path):
    folder = export_onnx(DENSITIES["networks"], tmp_path / "page")
    export_onnx(DENSITIES["null"], folder)
    assert not run(folder, TEXTS)[0].any()
    other = tmp_path / "mine"
    other.mkdir()
    (other / "notes.txt").write_text("keep")
    with pytest.raises(LowtideError, match="nothing was changed"):
        export_onnx(DENSITIES["null"], other)
    assert (other / "notes.txt").read_text() == "keep"
    with pytest.raises(LowtideError, match="cannot write"):
        export_onnx(DENSITIES["null"], other / "notes.txt" / "page")
    assert {path.name for path in tmp_path.iterdir()} == {"page", "mine"}


def test_bad_exports_are_refused(tmp_path, monkeypatch):
    density = DENSITIES["networks"]
    tables = Density(density.classes, density.features, density.critic, 8.0, TableEncoder((), (None,) * TERMS))
    with pytest.raises(LowtideError, match="not fitted on texts"):
        export_onnx(tables, tmp_path / "page")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(LowtideError, match=r"lowtide\[onnx\]"):
        export_onnx(density, tmp_path / "page")
    assert not list(tmp_path.iterdir())
