"""Every verb on every kind of data answers as it was recorded, to rounding: three kinds, four verbs, real files."""

import hashlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from lowtide import audit, plan, release, scan
from lowtide.images import problem

HERE = Path(__file__).parent / "golden"
sys.path.insert(0, str(HERE))
import golden_data  # noqa: E402 - beside the recorded answers

RECORDED = json.loads((HERE / "recorded.json").read_text())
TOLERANCE = 1e-3  # sums in single precision, in another order with another number of threads
KINDS = {
    "tables": (golden_data.write_table, "survey.csv", "shared.csv", "vote", {}, {"budget": 0.05, "steps": 60}),
    "images": (golden_data.write_images, "faces.npz", "shared.npz", "smile", {"patch": 4}, {"kept": 0.7}),
    "texts": (
        golden_data.write_texts,
        "tweets.csv",
        "shared.csv",
        "party",
        {"text": "text", "group": "author"},
        {"kept": 0.85},
    ),
}
# Networks take minutes; the other attackers share their split and their seed.
ATTACKERS = {"tables": None, "images": ["edges"], "texts": ["words", "weighted words", "naive bayes"]}
pytestmark = pytest.mark.filterwarnings("ignore::lowtide.errors.LowtideNote")


@pytest.fixture(scope="module", params=KINDS)
def job(request, tmp_path_factory):
    """The whole job on one kind of data: its name, and what each verb answered.

    On images more than 10 s: the recorded scan is one of 60 steps.
    """
    kind = request.param
    write, source, target, secret, options, wanted = KINDS[kind]
    folder = tmp_path_factory.mktemp(kind)
    data = write(folder / source)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(problem, "CHECKERS", ("edges",))
        made = plan(data, secret, **wanted, **options, progress=False)
    done = release(data, made, folder / target, progress=False)
    reading = {name: value for name, value in options.items() if name != "patch"}
    found = audit(folder / target, data, secret, attackers=ATTACKERS[kind], progress=False, **reading)
    leakage = scan(data, secret, steps=60, progress=False, **options)
    return kind, leakage, made, done, found


def same(found, recorded, at=""):
    """Equal values; numbers to rounding."""
    if isinstance(recorded, dict):
        assert found.keys() >= recorded.keys(), at
        for name, value in recorded.items():
            same(found[name], value, f"{at}.{name}")
    elif isinstance(recorded, list):
        assert len(found) == len(recorded), at
        for place, value in enumerate(recorded):
            same(found[place], value, f"{at}[{place}]")
    elif isinstance(recorded, float):
        assert found == pytest.approx(recorded, abs=TOLERANCE, rel=TOLERANCE), at
    else:
        assert found == recorded, at


def test_scan_gives_the_recorded_answer(job):
    kind, leakage, *_ = job
    said, recorded = leakage.to_json(), RECORDED[kind]["scan"]
    same(said["information_nats"], recorded["information"])
    same(said["entropy_nats"], recorded["entropy"])
    if kind == "images":
        np.testing.assert_allclose(said["in_order_nats"], recorded["features"]["in_order"], atol=TOLERANCE)
        np.testing.assert_allclose(said["order_free_nats"], recorded["features"]["order_free"], atol=TOLERANCE)
    elif kind == "texts":
        same({label: terms[:12] for label, terms in said["terms"].items()}, recorded["features"])
    else:
        same(said["features"], recorded["features"])


def test_plan_gives_the_recorded_answer(job):
    kind, _, made, *_ = job
    recorded = RECORDED[kind]["plan"]
    said = made.to_json()
    curve = said.get("curve", made.hider.policy.curve)
    points = [
        point if isinstance(point, dict) else
        {"kept": point.kept, "nats": point.reading.leakage.value, "accuracy": point.reading.accuracy.value}
        for point in curve
    ]  # fmt: skip
    same(points, recorded["curve"])
    same([dict(feature._asdict()) for feature in made.card.features], recorded["features"])
    attacks = {attack["attacker"]: attack for attack in recorded["attacks"]}
    names = [attack.attacker for attack in made.card.attacks if attack.attacker != "together"]
    assert len(names) >= 2
    for attack in said["card"]["attacks"]:
        if attack["attacker"] in names:
            same(attack, attacks[attack["attacker"]])


def test_release_gives_the_recorded_bytes(job):
    kind, _, _, done, _ = job
    recorded = RECORDED[kind]["release"]
    same(done.card.to_json(), {name: recorded[name] for name in ("changed", "rows", "features")})
    assert hashlib.sha256(done.data.read_bytes()).hexdigest() == recorded["sha256"]
    assert done.card.data_sha256 == recorded["sha256"]


def test_audit_gives_the_recorded_answer(job):
    kind, *_, found = job
    said, recorded = found.to_json(), RECORDED[kind]["audit"]
    same(said["change"]["share"], recorded["change"])
    attacks = {(one["attacker"], one["trained_on"], one["target"]): one for one in recorded["attacks"]}
    compared = [one for one in said["attacks"] if one["attacker"] != "together"]
    assert len(compared) >= 4
    for one in compared:
        same(one, attacks[one["attacker"], one["trained_on"], one["target"]])
