"""Every verb on every kind of data answers as it was recorded, to rounding: three kinds, four verbs, real files.

`python tests/test_golden.py` records the answers anew, after a change that is meant to alter them.
"""

import hashlib
import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from lowtide import audit, plan, release, scan
from lowtide.images.modality import ImageModality
from lowtide.images.planner import ImageSettings

HERE = Path(__file__).parent / "golden"
sys.path.insert(0, str(HERE))
import golden_data  # noqa: E402 - beside the recorded answers

RECORDED = json.loads((HERE / "recorded.json").read_text())  # by this file, see below
TOLERANCE = 1e-3  # sums in single precision, in another order with another number of threads
KINDS = {
    "tables": (
        golden_data.write_table,
        "survey.csv",
        "shared.csv",
        "vote",
        {},
        {"policy": "fixed", "budget": 0.05, "steps": 60},
    ),
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


@dataclass(frozen=True)
class EdgesOnly(ImageSettings):
    """Plans of images are checked by the one attacker that is not a network."""

    attackers: tuple[str, ...] = ("edges",)


def answers(kind, folder):
    """What each verb answers on one kind of data, as it is recorded."""
    write, source, target, secret, options, wanted = KINDS[kind]
    data = write(folder / source)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ImageModality, "settings", EdgesOnly)
        made = plan(data, secret, **wanted, **options, progress=False)
    done = release(data, made, folder / target, progress=False)
    reading = {name: value for name, value in options.items() if name != "patch"}
    found = audit(folder / target, data, secret, attackers=ATTACKERS[kind], progress=False, **reading)
    leakage = scan(data, secret, steps=60, progress=False, **options)
    card = done.card.to_json()
    return {
        "scan": scanned(kind, leakage.to_json()),
        "plan": planned(made),
        "release": {name: card[name] for name in ("changed", "rows", "features")}
        | {"sha256": hashlib.sha256(done.data.read_bytes()).hexdigest(), "data_sha256": card["data_sha256"]},
        "audit": {"change": found.to_json()["change"]["share"], "attacks": alone(found.to_json()["attacks"])},
    }


def scanned(kind, said):
    features = {
        "tables": lambda: said["features"],
        "images": lambda: {"in_order": said["in_order_nats"], "order_free": said["order_free_nats"]},
        "texts": lambda: {label: terms[:12] for label, terms in said["terms"].items()},
    }[kind]()
    return {"information": said["information_nats"], "entropy": said["entropy_nats"], "features": features}


def planned(made):
    said = made.to_json()
    curve = [
        point if isinstance(point, dict) else
        {"kept": point.kept, "nats": point.reading.leakage.value, "accuracy": point.reading.accuracy.value}
        for point in said.get("curve", made.hider.policy.curve)
    ]  # fmt: skip
    features = [dict(feature._asdict()) for feature in made.card.features]
    return {"curve": curve, "features": features, "attacks": alone(said["card"]["attacks"])}


def alone(attacks):
    """Attackers that are joined into one depend on the last bits of their networks."""
    return [one for one in attacks if one["attacker"] != "together"]


@pytest.fixture(scope="module", params=KINDS)
def job(request, tmp_path_factory):
    """The whole job on one kind of data: its name, and what each verb answered.

    On images more than 10 s: the recorded scan is one of 60 steps.
    """
    return request.param, answers(request.param, tmp_path_factory.mktemp(request.param))


def same(found, recorded, at=""):
    """Equal values; numbers to rounding."""
    if isinstance(recorded, dict):
        assert found.keys() == recorded.keys(), at
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


@pytest.mark.parametrize("verb", ["scan", "plan", "release", "audit"])
def test_a_verb_gives_the_recorded_answer(job, verb):
    kind, found = job
    recorded = RECORDED[kind][verb]
    if verb != "release":
        assert len(recorded.get("attacks", recorded.get("features", ()))) >= 2
    same(json.loads(json.dumps(found[verb])), recorded)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made_in:
        for one in KINDS:
            (Path(made_in) / one).mkdir()
            RECORDED[one] = answers(one, Path(made_in) / one)
    (HERE / "recorded.json").write_text(json.dumps(RECORDED, indent=1) + "\n")
