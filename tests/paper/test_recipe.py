"""The paper's recipe for rows, texts and vectors: it runs, it overfits, and what it fits is an
ordinary density.
"""

import numpy as np
import pytest
import torch
from scipy import sparse

from lowtide import Density
from lowtide.errors import LowtideError
from paper.critics import PaperCritic
from paper.recipe import Recipe, fit_pairs, fit_rows, fit_texts
from paper.training import network, train, train_sparse


def test_it_learns_the_noise_of_its_training_rows():
    rng = np.random.default_rng(0)
    density = fit_rows(
        rng.standard_normal((200, 5)), rng.integers(0, 2, 200), Recipe(steps=400, progress=False)
    )
    assert density.prefixes(rng.standard_normal((3, 5))).shape == (3, 6, 2)
    fresh = density.information(rng.standard_normal((500, 5)), rng.integers(0, 2, 500))
    assert density.report.training > fresh.value + 0.2
    assert density.report.held_out is None


def test_a_saved_density_is_read_with_the_class_of_its_critic(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((60, 3))
    s = rng.integers(0, 2, 60)
    density = fit_rows(x, s, Recipe(steps=5, progress=False))
    density.save(tmp_path / "rows")
    with pytest.raises(LowtideError, match="critic of the saved density"):
        Density.load(tmp_path / "rows")
    again = Density.load(tmp_path / "rows", critics=[PaperCritic])
    np.testing.assert_array_equal(again(x), density(x))
    assert again.report == density.report


def test_texts_are_answered_like_rows_of_counts(tmp_path):
    rng = np.random.default_rng(0)
    s = rng.integers(0, 2, 400)
    words = np.array(["river", "stone", "lamp", "cloud", "green", "often"])
    chosen = np.where(s[:, None] == 1, rng.integers(0, 4, (400, 8)), rng.integers(2, 6, (400, 8)))
    texts = [" ".join(row) for row in words[chosen]]
    density = fit_texts(texts, s, Recipe(steps=150, progress=False))
    assert density.report.training > 0.05
    answer = density.conditionals(texts[:50])
    rows = density.encoder.encode(texts[:50])
    prefixes = np.diff(density.prefixes(rows), axis=1)
    owner = np.repeat(np.arange(50), np.diff(rows.indptr))
    np.testing.assert_allclose(answer.values, prefixes[owner, rows.indices], atol=1e-4)
    np.testing.assert_allclose(
        density.critic.scores(rows), density.critic.scores(rows.toarray()), atol=1e-5
    )
    density.save(tmp_path / "texts")
    assert np.array_equal(
        Density.load(tmp_path / "texts", critics=[PaperCritic])(texts), density(texts)
    )


def test_pairs_of_vectors_are_told_apart():
    rng = np.random.default_rng(0)
    s = rng.standard_normal((400, 2))
    x = s + 0.3 * rng.standard_normal((400, 2))
    density = fit_pairs(x, s, Recipe(trim=5.0, steps=150, progress=False))
    assert density.density(x, s).mean() > density.density(x, s[::-1]).mean() + 0.5


def test_the_papers_steps_on_sparse_rows_are_those_of_dense_ones(monkeypatch):
    """One batch that holds all rows is a full-batch step of the dense recipe, but for the order of
    the rows.
    """
    rng = np.random.default_rng(0)
    rows = sparse.csr_array(rng.poisson(0.2, (64, 20)).astype(np.float32))
    s = rng.integers(0, 2, 64)
    monkeypatch.setattr("paper.training.TWEETS", (16, 16, 8))
    monkeypatch.setattr("paper.training.SYNTHETIC", (16, 16, 8))
    # The same shuffle in both, and the rows as they are.
    monkeypatch.setattr(torch, "randperm", lambda n, generator: torch.arange(n))
    options = {"trim": 3.0, "objective": "chi2", "seed": 3, "show": False}
    one = train_sparse(rows, s, classes=2, steps=5, **options)
    other = train(
        torch.from_numpy(rows.toarray()), torch.eye(2)[torch.from_numpy(s)], epochs=5, **options
    )
    start = network(22, (16, 16, 8), torch.Generator().manual_seed(3))
    for mine, theirs, before in zip(
        one.parameters(), other.parameters(), start.parameters(), strict=True
    ):
        torch.testing.assert_close(mine, theirs, atol=1e-5, rtol=1e-4)
        assert mine.shape == before.shape
    assert any(
        not torch.allclose(a, b) for a, b in zip(one.parameters(), start.parameters(), strict=True)
    )
