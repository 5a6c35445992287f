"""The frozen density: identities that hold for any weights, and bundles that do not lie."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.numpy import load_file
from scipy import sparse

from lowtide.bundles import seal
from lowtide.errors import LowtideError
from lowtide.estimate.density import Density, FitReport
from lowtide.estimate.learners.base import Null
from lowtide.estimate.learners.network import Masked
from lowtide.estimate.learners.ranks import RankScaling
from lowtide.estimate.masking import Shape
from lowtide.estimate.training import forward, initial_weights
from lowtide.features import Features
from lowtide.interface import Estimate
from lowtide.labels import Classes
from lowtide.tables.encoder import TableEncoder, read_table

GROUPS = np.array([0, 1, 1, 2, 3, 3, 3, 4])


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(0).standard_normal((40, len(GROUPS))).astype(np.float32)


@pytest.fixture(scope="module")
def density(rows):
    """A density with random weights: nothing fitted, everything else real."""
    generator = torch.Generator().manual_seed(0)
    weights = initial_weights(3, torch.tensor(GROUPS), 3, Shape(), generator)
    weights["e"] += 0.3 * torch.randn(weights["e"].shape, generator=generator)
    # a feature no network looks at
    weights["W"][:, GROUPS == 2] = 0.0
    weights["e"][:, 2] = 0.0
    weights = {name: value.numpy() for name, value in weights.items()}
    gate = np.array([0.5, 1.0, 0.2, 0.0, 0.7, 2.0], dtype=np.float32)
    critic = Masked(GROUPS, RankScaling.of(rows), weights, gate)
    report = FitReport("by hand", True, Estimate(0.1, 0.0, 0.2, 40), 0.15, {"null": 0.0})
    names = ("a", "b", "c", "d", "e")
    classes = Classes(("x", "y", "z"), np.array([0.5, 0.3, 0.2]))
    return Density(
        classes,
        Features(GROUPS, names),
        critic,
        3.0,
        TableEncoder((), (None,) * len(GROUPS)),
        report,
    )


def test_numpy_answers_as_the_networks_that_were_trained(density, rows):
    critic = Masked(
        GROUPS, density.critic.scaling, density.critic.weights, np.zeros(6, dtype=np.float32)
    )
    seen = np.random.default_rng(1).random((len(rows), 5)) < 0.5
    weights = {name: torch.from_numpy(value).double() for name, value in critic.weights.items()}
    z = torch.from_numpy(critic.scaling(rows)).double()
    for mask in (seen, np.ones_like(seen)):
        shown = torch.from_numpy(mask).double()
        expected = forward(z * shown[:, GROUPS], shown, weights).sum(dim=0)
        np.testing.assert_allclose(critic.scores(rows, mask), expected, rtol=1e-12, atol=1e-12)
    assert np.abs(critic.scores(rows)).max() > 0.1


def test_renaming_the_labels_changes_no_answer(density, rows):
    untrimmed = Density(density.classes, density.features, density.critic, 50.0, density.encoder)
    total = (density.classes.prior * np.exp(untrimmed.prefixes(rows))).sum(axis=-1)
    np.testing.assert_allclose(total, 1.0, rtol=1e-5)


def test_prefixes_in_one_pass_equal_separate_evaluations(density, rows):
    prefixes = density.prefixes(rows)
    for j in range(6):
        np.testing.assert_allclose(
            prefixes[:, j], density.observed(rows, np.arange(5) < j), atol=1e-4
        )
    np.testing.assert_allclose(prefixes[:, -1], density(rows), atol=1e-4)
    np.testing.assert_array_equal(prefixes[:, 0], 0.0)


def test_what_features_tell_alone_is_what_masks_of_one_feature_show(density, rows):
    expected = np.stack([density.observed(rows, np.arange(5) == j) for j in range(5)], axis=1)
    assert np.abs(expected).max() > 0.1
    np.testing.assert_allclose(density.alone(rows), expected, atol=1e-12)
    null = Density(density.classes, density.features, Null(3, 5), 3.0, density.encoder)
    np.testing.assert_array_equal(null.alone(rows), np.zeros((40, 5, 3)))


def test_every_row_may_have_its_own_mask(density, rows):
    masks = np.random.default_rng(1).random((40, 5)) < 0.5
    alone = np.concatenate([density.observed(rows[i : i + 1], masks[i]) for i in range(40)])
    np.testing.assert_allclose(density.observed(rows, masks), alone, atol=1e-9)


def test_unseen_columns_do_not_matter(density, rows):
    mask = np.array([True, False, True, False, True])
    changed = np.where(mask[GROUPS], rows, 99.0)
    np.testing.assert_array_equal(density.observed(rows, mask), density.observed(changed, mask))


def test_conditionals_add_up(density, rows):
    np.testing.assert_allclose(density.conditionals(rows).sum(axis=1), density(rows), atol=1e-4)


def test_shapley_adds_up_and_matches_the_definition(density, rows):
    few = rows[:3]
    attribution = density.shapley(few, orders=2000, seed=1)
    np.testing.assert_allclose(attribution.values.sum(axis=1), density(few), atol=1e-4)
    # The definition: a weighted sum over all subsets.
    exact = np.zeros_like(attribution.values)
    for subset in range(32):
        mask = (subset >> np.arange(5)) & 1 == 1
        weight = 1 / (5 * [1, 4, 6, 4, 1, 1][mask.sum()])
        for j in np.flatnonzero(~mask):
            grown = mask | (np.arange(5) == j)
            exact[:, j] += weight * (density.observed(few, grown) - density.observed(few, mask))
    assert (np.abs(attribution.values - exact) <= 5 * attribution.error + 1e-3).mean() > 0.99
    assert attribution.orders == 2000
    assert attribution.error.max() < 0.1


def test_a_feature_the_critic_ignores_has_shapley_value_zero(density, rows):
    ungated = Masked(
        density.critic.groups,
        density.critic.scaling,
        density.critic.weights,
        np.zeros(6, dtype=np.float32),
    )
    plain = Density(density.classes, density.features, ungated, 3.0, density.encoder)
    np.testing.assert_allclose(plain.conditionals(rows)[:, 2], 0.0, atol=1e-6)


def test_densities_are_trimmed(density, rows):
    tight = Density(density.classes, density.features, density.critic, 0.1, density.encoder)
    assert np.abs(tight(rows)).max() <= 0.1
    assert np.abs(tight.conditionals(rows)).max() <= 0.2 + 1e-9


def test_information_has_an_interval(density, rows):
    estimate = density.information(rows, ["x", "y"] * 20)
    assert estimate.low < estimate.value < estimate.high
    assert estimate.n == 40
    assert estimate.bits.value == pytest.approx(estimate.value / np.log(2))
    with pytest.raises(LowtideError, match=r"there are 40 rows and s has shape \(2,\)"):
        density.information(rows, ["x", "y"])


def test_a_saved_density_answers_the_same(density, rows, tmp_path):
    density.save(tmp_path / "bundle")
    again = Density.load(tmp_path / "bundle")
    assert sorted(path.name for path in (tmp_path / "bundle").iterdir()) == [
        "config.json",
        "model.safetensors",
    ]
    np.testing.assert_array_equal(again.prefixes(rows), density.prefixes(rows))
    assert again.report == density.report
    assert again.features == density.features
    assert again.classes.labels == density.classes.labels
    density.save(tmp_path / "bundle")  # replacing a bundle is fine
    assert [path.name for path in tmp_path.iterdir()] == ["bundle"], (
        "nothing half-done is left behind"
    )


def test_gaps_dates_and_merged_categories_are_saved(tmp_path):
    texts = [f"t{k % 1100}" for k in range(2200)]
    table = pd.DataFrame(
        {"a": [None, *range(2199)], "d": pd.to_datetime("2020-01-01"), "t": texts, "b": 1.0}
    )
    _, encoder = read_table(table)
    # One claim, in two parts.
    assert None not in (encoder.fills[0], encoder.dates[1]) and encoder.others[2]  # noqa: PT018
    features = encoder.features()
    Density(
        Classes((0, 1), np.array([0.5, 0.5])), features, Null(2, len(features)), 3.0, encoder
    ).save(tmp_path / "a")
    again = Density.load(tmp_path / "a")
    assert again.encoder == encoder
    assert again.prefixes(table.head(3)).shape == (3, 5, 2)


def test_the_null_model_saves_too(tmp_path):
    null = Density(
        Classes((0, 1), np.array([0.5, 0.5])),
        Features(np.arange(2), ("a", "b")),
        Null(2, 2),
        3.0,
        TableEncoder((), (None, None)),
    )
    null.save(tmp_path / "null")
    assert Density.load(tmp_path / "null").prefixes(np.zeros((4, 2))).shape == (4, 3, 2)


class TestDamage:
    @pytest.fixture
    def bundle(self, density, tmp_path):
        density.save(tmp_path / "bundle")
        return tmp_path / "bundle"

    def edit(self, bundle, **changes):
        """As somebody edits it who knows how digests are computed."""
        path = bundle / "config.json"
        config = {**json.loads(path.read_text()), **changes}
        path.write_text(
            json.dumps({**config, **seal(config, load_file(bundle / "model.safetensors"))})
        )

    def test_an_edited_config_is_refused(self, bundle):
        path = bundle / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "trim": 0.0}))
        with pytest.raises(LowtideError, match="does not match its digest"):
            Density.load(bundle)

    def test_truncated_tensors_are_refused(self, bundle):
        model = bundle / "model.safetensors"
        model.write_bytes(model.read_bytes()[:-100])
        with pytest.raises(LowtideError, match="does not match its checksum"):
            Density.load(bundle)

    def test_tampered_tensors_are_refused(self, bundle):
        model = bundle / "model.safetensors"
        content = bytearray(model.read_bytes())
        content[-1] ^= 1
        model.write_bytes(bytes(content))
        with pytest.raises(LowtideError, match="truncated or altered"):
            Density.load(bundle)

    def test_a_truncated_config_is_refused(self, bundle):
        path = bundle / "config.json"
        path.write_text(path.read_text()[:50])
        with pytest.raises(LowtideError, match="is not JSON"):
            Density.load(bundle)

    def test_a_newer_version_is_refused(self, bundle):
        self.edit(bundle, version=99)
        with pytest.raises(LowtideError, match="format version 99, this Lowtide reads 6; upgrade"):
            Density.load(bundle)

    def test_an_earlier_version_is_refused_with_what_to_do(self, bundle):
        self.edit(bundle, version=5)
        with pytest.raises(LowtideError, match=r"saved by an earlier version .* make it again"):
            Density.load(bundle)

    def test_an_unknown_kind_is_refused(self, bundle):
        encoder = json.loads((bundle / "config.json").read_text())["encoder"]
        self.edit(bundle, encoder={**encoder, "kind": "sounds"})
        with pytest.raises(LowtideError, match=r"kind must be one of .* got 'sounds'"):
            Density.load(bundle)

    def test_an_inconsistent_encoder_is_refused(self, bundle):
        columns = {"kind": "tables", "names": [], "categories": [None] * len(GROUPS)}
        self.edit(bundle, encoder={**columns, "fills": [1.0]})
        with pytest.raises(LowtideError, match="one entry of fills"):
            Density.load(bundle)

    def test_another_format_is_refused(self, bundle):
        self.edit(bundle, format="something")
        with pytest.raises(LowtideError, match="its format is not"):
            Density.load(bundle)

    def test_a_critic_that_is_not_installed_is_named(self, bundle):
        self.edit(bundle, critic={"kind": "unheard of"})
        with pytest.raises(
            LowtideError, match=r"critic of the saved density must be one of .*, got 'unheard of'"
        ):
            Density.load(bundle)

    def test_a_missing_part_is_refused(self, bundle):
        self.edit(bundle, critic={})
        with pytest.raises(LowtideError, match="lacks or garbles"):
            Density.load(bundle)

    @pytest.mark.parametrize(
        "changes", [{"prior": [[1.0], 0.3, 0.2]}, {"trim": "wide"}, {"trim": [3.0]}]
    )
    def test_parts_of_another_shape_or_type_are_refused(self, bundle, changes):
        self.edit(bundle, **changes)
        with pytest.raises(LowtideError, match="lacks or garbles"):
            Density.load(bundle)

    def test_missing_files_are_refused(self, bundle, tmp_path):
        (bundle / "model.safetensors").unlink()
        with pytest.raises(LowtideError, match=r"no readable model\.safetensors"):
            Density.load(bundle)
        with pytest.raises(LowtideError, match=r"cannot read .*nowhere"):
            Density.load(tmp_path / "nowhere")

    def test_saving_over_a_foreign_folder_is_refused(self, density, tmp_path):
        (tmp_path / "precious").mkdir()
        (tmp_path / "precious" / "thesis.txt").write_text("years of work")
        with pytest.raises(
            LowtideError, match="not a Lowtide folder of this kind; nothing was changed"
        ):
            density.save(tmp_path / "precious")
        assert (tmp_path / "precious" / "thesis.txt").exists()


def test_a_table_has_no_explanation(density, rows):
    with pytest.raises(LowtideError, match="for densities of texts"):
        density.explain(rows[0])


def test_sparse_rows_need_a_critic_that_reads_them(density, rows):
    with pytest.raises(LowtideError, match=r"fitted on dense rows; give X\.toarray"):
        density.conditionals(sparse.csr_array(rows))


def test_bad_rows_and_masks_are_refused(density, rows):
    with pytest.raises(LowtideError, match="X has 7 features, but TIDE is expecting 8"):
        density(rows[:, :7])
    with pytest.raises(LowtideError, match="mask must be booleans of shape"):
        density.observed(rows, np.ones(8, dtype=bool))
    with pytest.raises(LowtideError, match="mask has 3 rows and X 40"):
        density.observed(rows, np.ones((3, 5), dtype=bool))
    with pytest.raises(LowtideError, match="orders must be at least 2"):
        density.shapley(rows, orders=1)
