"""A budget over a person's history: in a plan, in a warning before posting, and in an audit of
several samples.
"""

import json

import numpy as np
import pandas as pd
import pytest

from lowtide import LowtideError, Obfuscator, audit, plan, warn
from lowtide.disclose.history import told_before
from lowtide.estimate.density import Density
from lowtide.estimate.learners.bag import Bag
from lowtide.features import one_per_column
from lowtide.labels import Classes
from lowtide.texts.encoder import TextEncoder
from lowtide.texts.planner import TextSettings
from lowtide.texts.terms import TermOptions, Vocabulary
from lowtide.worlds.text import naive_bayes_text

WORLD = naive_bayes_text(60, length=8.0, charged=0.3, strength=1.6, seed=7)
WRITERS = 300
EACH = 6
FAST = {"settings": TextSettings(attackers=("naive bayes",)), "progress": False}
pytestmark = pytest.mark.filterwarnings("ignore::lowtide.errors.LowtideNote")


def corpus(seed=0):
    """Six texts of each of some writers, who have one side."""
    sequences, s = WORLD.sample_sequences(4 * WRITERS * EACH, seed)
    rows = np.concatenate([np.flatnonzero(s == side)[: WRITERS * EACH // 2] for side in (0, 1)])
    texts = [WORLD.text(sequences[row]) for row in rows]
    return texts, s[rows], np.repeat(np.arange(WRITERS), EACH)


TEXTS, SIDES, WHO = corpus()


@pytest.fixture(scope="module")
def density():
    """The exact density of the world."""
    names = WORLD.features.names
    encoder = TextEncoder(
        Vocabulary(tuple(names), TermOptions()), np.full((len(names), 2), -1, dtype=np.int32)
    )
    u = np.log(WORLD.frequencies).T.astype(np.float32)
    classes = Classes((0, 1), np.asarray(WORLD.prior))
    return Density(
        classes,
        one_per_column(len(names)),
        Bag(np.arange(len(names)), "counts", {"u": u}),
        30.0,
        encoder,
    )


def test_a_budget_over_several_texts_hides_more_than_one_over_single_ones():
    single = Obfuscator(budget=0.08, **FAST).fit(TEXTS, SIDES, groups=WHO)
    fast = {**FAST, "settings": TextSettings(attackers=("naive bayes",), history=EACH)}
    several = Obfuscator(budget=0.08, **fast).fit(TEXTS, SIDES, groups=WHO)
    assert single.check_.together is None
    together = several.check_.together
    assert together.samples == EACH
    assert together.information.value < 0.08
    assert several.policy_.kept < single.policy_.kept - 0.02
    assert several.card_.standing.rows == together.persons < 100, (
        "writers judge, and not their texts"
    )
    assert several.card_.parameters["texts of one writer together"] == EACH


def test_a_history_that_nobody_has_or_that_has_no_authors_is_refused():
    with pytest.raises(LowtideError, match="fewer than 20 writers have 7 texts"):
        plan(TEXTS, SIDES, group=WHO, history=7, budget=0.3, kind="texts", progress=False)
    with pytest.raises(LowtideError, match="needs to know who wrote them"):
        Obfuscator(budget=0.3, settings=TextSettings(history=3), progress=False).fit(TEXTS, SIDES)
    with pytest.raises(LowtideError, match="leave history out"):
        plan(TEXTS, SIDES, group=WHO, history=3, kept=0.8, kind="texts", progress=False)
    with pytest.raises(LowtideError, match="--group COLUMN"):
        audit(TEXTS, None, SIDES, posts="1,5", kind="texts", progress=False)


def test_an_audit_says_what_several_texts_tell(tmp_path):
    found = audit(
        TEXTS,
        None,
        SIDES,
        group=WHO,
        posts="1,6",
        attackers=["naive bayes"],
        kind="texts",
        progress=False,
    )
    one, six = found.together.told
    assert six.accuracy.low > one.accuracy.high
    assert json.loads(json.dumps(found.to_json()))["together"]["told"][1]["samples"] == 6
    assert "of one person tell together" in found.text()
    found.write_report(tmp_path / "audit.html")
    assert 'id="together"' in (tmp_path / "audit.html").read_text()


def test_rows_of_a_table_are_looked_at_by_person():
    shown = np.where(np.random.default_rng(0).random(len(SIDES)) < 0.3, 1 - SIDES, SIDES)
    clean = pd.DataFrame({"person": [f"p{one}" for one in WHO], "shown": shown, "side": SIDES})
    options = {"attackers": ["logistic regression"], "progress": False}
    found = audit(clean[["shown"]], clean, "side", group="person", posts=[1, 5], **options)
    one, five = found.together.told
    assert one.accuracy.value == pytest.approx(0.7, abs=0.04)
    assert five.accuracy.value == pytest.approx(0.837, abs=0.05)
    assert found.counted is None, "rows of one person are not independent"
    with pytest.raises(LowtideError, match="--group COLUMN"):
        audit(clean[["shown"]], clean, "side", posts=[1, 5], **options)
    with pytest.raises(LowtideError, match="names the secret"):
        audit(clean[["shown"]], clean, "side", group="side", **options)


def test_earlier_texts_use_up_the_budget_of_the_next(density, tmp_path):
    telling = max(TEXTS[:200], key=lambda text: abs(density.density([text])[0]).max())
    once, twice = (told_before(density, [telling] * k) for k in (1, 2))
    assert once == pytest.approx(np.abs(density.density([telling])[0]).max(), abs=1e-5)
    assert twice > once > 0.3
    (tmp_path / "earlier.txt").write_text(f"{telling}\n\n{telling}\n")
    assert told_before(density, str(tmp_path / "earlier.txt")) == pytest.approx(twice)
    assert told_before(density, "0.1bits") == pytest.approx(0.0693, abs=1e-4)
    alone = warn(telling, density, budget=once + 0.1)
    after = warn(telling, density, budget=once + 0.1, history=[telling])
    assert not alone.remedy.needed
    assert after.remedy.needed
    assert after.remedy.budget == pytest.approx(0.1, abs=1e-6)
    assert "leaves 0.14 bits of the budget" in str(after)
    assert after.to_json()["earlier_nats"] == pytest.approx(once)
    assert "uses up the budget" in str(warn(telling, density, budget=0.1, history=0.2))
    for wrong in ("nowhere.txt", "50%", str(tmp_path)):
        with pytest.raises(LowtideError):
            warn(telling, density, history=wrong)
