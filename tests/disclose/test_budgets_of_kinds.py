"""Images and texts: a budget is kept, not shown or exceeded, and card, plan, report and `strict`
say which.
"""

import numpy as np
import pytest

from lowtide import TIDE, Obfuscator, modalities
from lowtide.disclose.plan_file import Plan
from lowtide.errors import LowtideError, LowtideNote
from lowtide.images.encoder import Stack
from lowtide.images.planner import ImageSettings
from lowtide.report.html import render
from lowtide.report.sections import make_report
from lowtide.texts.planner import TextSettings
from lowtide.worlds import drawn_faces
from lowtide.worlds.text import naive_bayes_text

FACES = drawn_faces(32, patch=8)
TEXTS = naive_bayes_text(120, length=12.0, charged=0.2, strength=1.2, seed=7)
LAYOUTS = {
    "images": {"resize": None, "grey": False, "kept": []},
    "texts": {"text": "text", "kept": []},
}
ENOUGH = {"images": "70%", "texts": "64%"}
FEW = {"images": "0.02", "texts": "0.01"}


@pytest.fixture(scope="module", params=["images", "texts"])
def kind(request):
    """The name of a kind, samples of it, and their secret."""
    if request.param == "images":
        x, s = FACES.sample(400, 11)
        return "images", Stack(np.rint(FACES.images(x) * 255).astype(np.uint8)), s
    sequences, s = TEXTS.sample_sequences(1500, seed=8)
    return "texts", [TEXTS.text(sequence) for sequence in sequences], s


def hider(name, **options):
    if name == "images":
        return Obfuscator(TIDE(8), settings=ImageSettings(attackers=("edges",)), **options)
    return Obfuscator(settings=TextSettings(attackers=("words",)), **options)


def pages(name, fitted):
    """The card, the printed plan and the report."""
    plan = Plan(name, "secret", LAYOUTS[name], fitted.hider_)
    modality = modalities.get(name)
    outline = modality.outline(fitted.hider_)
    report = make_report("title", "secret", modality, plan=outline, card=fitted.card_)
    return fitted.card_.text(), str(plan), render(report)


def test_a_budget_that_the_samples_can_show_is_kept(kind):
    name, samples, s = kind
    fitted = hider(name, budget=ENOUGH[name], strict=True).fit(samples, s)
    standing = fitted.card_.standing
    limit = float(ENOUGH[name].rstrip("%")) / 100
    assert standing.state == "kept"
    # It is the upper end of every attacker that was on the card, not the lower one, that lies
    # within.
    retrained = [one for one in fitted.card_.attacks if one.trained_on == "release"]
    assert max(one.accuracy.high for one in retrained) <= standing.upper <= limit
    assert fitted.card_.to_json()["standing"]["state"] == "kept"
    for page in pages(name, fitted):
        assert "he budget is kept: at most" in page
    assert (~fitted.policy_.hidden).any()


def test_a_budget_that_so_few_samples_cannot_show_is_said_not_to_be_shown(kind):
    name, samples, s = kind
    with pytest.warns(LowtideNote, match="cannot show that a budget of"):
        fitted = hider(name, budget=FEW[name]).fit(samples, s)
    assert fitted.card_.standing.state == "not shown"
    assert fitted.card_.standing.rows_needed > len(s)
    for page in pages(name, fitted):
        assert "he budget is not shown" in page
        assert "samples of reference data would show it" in page
    with pytest.raises(LowtideError, match="cannot show that a budget of"):
        hider(name, budget=FEW[name], strict=True).fit(samples, s)


def test_a_budget_that_is_exceeded_whatever_is_hidden_is_refused():
    sequences, s = TEXTS.sample_sequences(1500, seed=8)
    texts = [TEXTS.text(sequence) for sequence in sequences]
    with pytest.raises(
        LowtideError, match=r"still tell .*; the budget is .*: raise it, or keep fewer terms"
    ):
        hider("texts", budget="60%", keep=tuple(TEXTS.features.names)).fit(texts, s)
