"""Audits of releases that do not match the reference row by row, and of what a release adds to what
is known.
"""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from lowtide import audit
from lowtide.interface import Estimate
from lowtide.theory.measures import Lifts
from lowtide.worlds import parity
from lowtide.worlds.base import EnumerableWorld

FAST = ["logistic regression"]
VOTES = np.array(["no", "yes"])
PEOPLE = 1500


def bits(*flips):
    """A world of bits, each a fair secret bit but for its own flip."""
    atoms = np.array(list(np.ndindex(*(2,) * len(flips))), dtype=float)
    joint = [0.5 * np.where(atoms == s, 1 - np.array(flips), flips).prod(axis=1) for s in (0, 1)]
    return EnumerableWorld(atoms, joint)


def people(n=PEOPLE, seed=0):
    """A number, two columns that tell the vote by the law `bits(0.3, 0.2)`, noise, and the vote."""
    x, s = bits(0.3, 0.2).sample(n, seed)
    rng = np.random.default_rng(seed + 1000)
    columns = {
        "person": rng.permutation(n) + 7000,
        "age": x[:, 0],
        "job": x[:, 1],
        "noise": rng.normal(size=n),
    }
    return pd.DataFrame({**columns, "vote": VOTES[s]})


def parities(n, seed):
    """Three bits, whose parity is the vote: few rows do not show it."""
    x, s = parity(3).sample(n, seed)
    return pd.DataFrame(x, columns=list("abc")).assign(vote=VOTES[s])


def audited(release, reference, **options):
    return audit(release, reference, "vote", attackers=FAST, seed=3, progress=False, **options)


@pytest.fixture(scope="module")
def reference():
    return people()


@pytest.fixture(scope="module")
def release(reference):
    return reference[["person", "job", "noise"]]


@pytest.fixture(scope="module")
def in_order(release, reference):
    return audited(release, reference)


class TestJoined:
    def test_a_shuffled_release_is_audited_as_the_unshuffled_one(
        self, release, reference, in_order
    ):
        joined = audited(release.sample(frac=1, random_state=1), reference, id="person")
        assert joined.attacks.retrained == in_order.attacks.retrained
        assert joined.attacks.clean == in_order.attacks.clean
        assert in_order.attacks.headline.information.low > 0.1

    def test_without_the_join_the_same_file_tells_nothing(self, release, reference):
        found = audited(release.sample(frac=1, random_state=1), reference)
        assert found.attacks.headline.information.low < 0.01

    def test_some_of_the_rows_are_those_of_the_reference_with_their_ids(self, release, reference):
        some = release.sample(n=600, random_state=2)
        found = audited(some, reference, id="person")
        alone = audited(release.loc[sorted(some.index)], reference.loc[sorted(some.index)])
        assert found.attacks.headline.accuracy == alone.attacks.headline.accuracy
        exposed = found.to_json()["exposure"]["private"]["rows"]
        assert set(exposed) <= set(some.index.tolist())


class TestKnown:
    def test_what_is_added_is_the_conditional_information(self, release, reference):
        found = audited(release, reference, known=("age",))
        world = bits(0.3, 0.2)
        known = bits(0.3)
        exact = (
            Lifts.of_joint(world.joint).information() - Lifts.of_joint(known.joint).information()
        )
        assert found.added.information.low < exact < found.added.information.high
        assert found.added.information.low > 0
        # More than guessing from age, and less than from the release alone.
        assert found.added.information.value < found.attacks.headline.information.value
        assert "From age alone" in str(found.verdict)
        assert "Beside age" in str(found)

    def test_a_release_of_what_is_known_adds_nothing_and_passes_a_gate_that_it_fails_by_itself(
        self, reference
    ):
        copy = reference[["age"]]
        alone = audited(copy, reference, fail_above=0.02)
        found = audited(copy, reference, known=("age",), fail_above=0.02)
        assert abs(found.added.information.value) < 0.003
        assert found.added.information.high >= 0
        assert (alone.verdict.passed, found.verdict.passed) == (False, True)

    def test_the_bound_by_counts_is_about_who_has_the_release_alone(self, reference):
        copy = reference[["age"]]
        alone = "No attacker who has nothing but the release"
        assert alone in str(audited(copy, reference, known=("noise",)).verdict)
        assert alone in str(audited(copy, reference).verdict)

    def test_what_is_not_added_is_not_printed_below_nothing(self, release, reference):
        found = audited(release, reference, known=("age",)).added
        assert "it adds 0." in found.sentence("vote")
        less = replace(found, information=Estimate(-0.002, -0.009, 0.00491, 500))
        assert "nothing was found that it adds (0.0050 nat at most)." in less.sentence("vote")

    def test_a_limit_on_right_guesses_counts_what_is_known_as_well(self, release, reference):
        found = audited(release, reference, known=("age,noise",), fail_above="76%")
        assert found.added.names == ("age", "noise")
        assert found.verdict.passed is False


class TestTrain:
    def test_rows_of_others_teach_what_few_released_rows_do_not(self):
        few, others = (parities(n, seed) for n, seed in ((30, 5), (800, 6)))
        options = {"attackers": ["boosted trees"], "progress": False}
        alone = audit(few.drop(columns="vote"), few, "vote", **options)
        taught = audit(few.drop(columns="vote"), few, "vote", train=others, **options)
        assert len(taught.attacks.codes) == 30
        assert (
            alone.attacks.headline.information.high < 0.3 < taught.attacks.headline.information.low
        )
        assert taught.attacks.clean == alone.attacks.clean

    def test_rows_of_others_with_other_shares_of_the_classes_do_not_mislead(self):
        few = people(400, 5)
        others = people(2000, 6)
        lopsided = pd.concat([others[others.vote == "yes"], others[others.vote == "no"][:100]])
        found = audited(few[["age", "job"]], few, train=lopsided)
        shares = np.bincount(np.unique(few.vote, return_inverse=True)[1]) / len(few)
        assert found.attacks.prior == pytest.approx(shares, abs=0.01)
        assert found.attacks.headline.information.low > 0.05


class TestOtherRows:
    def test_resampled_real_rows_are_read(self, reference):
        made = people(1500, 9).drop(columns="person").sample(1500, replace=True, random_state=4)
        found = audited(made, reference, synthetic=True)
        exact = Lifts.of_joint(bits(0.3, 0.2).joint).information()
        assert found.attacks.headline.information.low < exact
        assert found.attacks.headline.information.low > 0.1
        assert found.verdict.conclusive is True
        assert "learnt nothing" not in str(found.verdict)

    def test_rows_that_teach_a_little_are_told_apart_from_those_that_teach_nothing(self, reference):
        made = people(1500, 9).drop(columns="person")
        half = np.random.default_rng(2).permutation(1500)[:750]
        votes = made["vote"].to_numpy().copy()
        votes[half] = np.random.default_rng(3).permutation(votes[half])
        found = audited(made.assign(vote=votes), reference, synthetic=True)
        taught, real = (
            one.information.value for one in (found.attacks.headline, found.attacks.headline_clean)
        )
        assert 0 < taught < real
        share = f"{100 * taught / real:.1f} %"
        assert f"In nats the synthetic rows teach {share} of what real rows do" in str(
            found.verdict
        )

    def test_synthetic_rows_without_the_class_tell_nothing_while_the_control_reads_real_rows(
        self, reference
    ):
        made = people(1500, 9).drop(columns="person")
        made["vote"] = np.random.default_rng(1).permutation(made.vote)
        found = audited(made, reference, synthetic=True, fail_above=0.05)
        assert found.attacks.headline.information.low < 0.005
        assert found.attacks.headline_clean.information.low > 0.1
        assert (found.verdict.conclusive, found.verdict.passed) == (True, True)
        assert "learnt nothing about the vote that holds for real people" in str(found.verdict)

    def test_attackers_who_fail_on_clean_rows_too_are_told_apart_from_a_silent_release(
        self, reference
    ):
        noise = ["noise", "vote"]
        found = audited(people(1500, 9)[noise], reference[noise], synthetic=True, fail_above=0.05)
        assert (found.verdict.conclusive, found.verdict.passed) == (False, None)
        assert "cannot read the clean data either" in str(found.verdict)
        assert "holds for real people" not in str(found.verdict)

    def test_other_peoples_rows_may_call_the_secret_and_columns_by_other_names(self, reference):
        others = people(1500, 8)[["age", "job", "vote"]].rename(
            columns={"vote": "ballot", "job": "profession"}
        )
        options = {"rows": "other", "release_secret": "ballot", "renamed": ("profession=job",)}
        found = audited(others, reference, **options)
        assert found.attacks.headline.information.low > 0.1
        assert "rows of other people" in str(found.verdict)
        assert json.dumps(found.to_json())


def test_the_report_keeps_row_numbers_to_its_private_part(tmp_path, release, reference):
    found = audited(release, reference, known=("age",), groups_of="age")
    found.write_report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    parts = {part.split('id="')[1].split('"')[0]: part for part in page.split("<section ")[1:]}
    assert {"added", "exposed", "measures", "exposed-rows"} <= set(parts)
    rows = ", ".join(map(str, found.exposure.private["rows"]))
    assert [name for name, part in parts.items() if rows in part] == ["exposed-rows"]
