"""From a file to the audit of its release, on every road: each kind of data, features hidden or
redrawn.

Two sorts of tests share the work of one run. What a user may rely on: the secret is gone, what is
kept is kept, the card is true, the attackers read the source and hardly the release. And what was
recorded: hiding whole features gives the recorded file byte for byte; where values are drawn anew,
a few cells may differ, since the last bits of a fitted model differ between processors and a cell
whose keep probability lies at the drawn number then falls on the other side. A figure lies within
the interval that was recorded with it.

`python tests/test_roads.py [NAME ...]` records the answers of all roads, or of those named, anew,
after a change that is meant to alter them.
"""

import hashlib
import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import pyarrow.csv as pc
import pytest
from typer.testing import CliRunner

from lowtide import Plan, audit, plan, release, scan, verify
from lowtide.auditing.report import AuditReport
from lowtide.cli.main import app
from lowtide.disclose.plan_file import Release
from lowtide.images.modality import ImageModality
from lowtide.images.planner import ImageSettings
from lowtide.studio.views import view_of
from lowtide.texts.modality import TextModality
from lowtide.texts.planner import TextSettings

HERE = Path(__file__).parent / "golden"
sys.path.insert(0, str(HERE))
import golden_data  # noqa: E402 - beside the recorded answers

RECORDED_IN = HERE / "recorded.json"
RECORDED = json.loads(RECORDED_IN.read_text()) if RECORDED_IN.exists() else {}
TOLERANCE = (
    0.02  # of a figure without an interval; one sample of 48 judged ones falls on either side
)
AGREEING = 0.99  # of the cells of a redrawn file; measured between two processors: all
# Of images the networks decide, which are trained in bfloat16 or not, as the processor can: two
# processors changed the same pixels and, in 92 % of the images, agreed on whether to change it
# (57 % by chance); which other image lends its region follows the last bits.
AGREEING_IMAGES = 0.85
VERBS = ("scan", "plan", "release", "audit")
pytestmark = pytest.mark.filterwarnings("ignore::lowtide.errors.LowtideNote")


@dataclass(frozen=True)
class Road:
    """One kind of data and one way of hiding, from the file to the audit.

    Attributes:
        kind: the kind of data.
        write: writes the source.
        source: its name.
        target: the name of the release.
        secret: the name of the secret.
        planned: options of `plan`.
        released: options of `release`.
        reading: options of every verb that opens the data.
        scanned: options that only `scan` and `plan` take.
        attackers: who attacks; networks take minutes, and share split and seed with the others.
    """

    kind: str
    write: Callable[[Path], Path]
    source: str
    target: str
    secret: str
    planned: dict = field(default_factory=dict)
    released: dict = field(default_factory=dict)
    reading: dict = field(default_factory=dict)
    scanned: dict = field(default_factory=dict)
    attackers: tuple[str, ...] | None = None

    @property
    def redrawn(self):
        return self.planned.get("policy", "redraw") == "redraw" and "kept" not in self.planned


OF_AUTHORS = {"text": "text", "group": "author"}
WORDS = ("words", "weighted words", "naive bayes")
ROADS = {
    "tables": Road(
        "tables",
        golden_data.write_table,
        "survey.csv",
        "shared.csv",
        "vote",
        planned={"policy": "fixed", "budget": 0.05, "steps": 60},
    ),
    "images": Road(
        "images",
        golden_data.write_images,
        "faces.npz",
        "shared.npz",
        "smile",
        planned={"kept": 0.7},
        scanned={"patch": 4},
        attackers=("edges",),
    ),
    "texts": Road(
        "texts",
        golden_data.write_texts,
        "tweets.csv",
        "shared.csv",
        "party",
        planned={"kept": 0.85},
        reading=OF_AUTHORS,
        attackers=WORDS,
    ),
    "tables redrawn": Road(
        "tables",
        golden_data.write_people,
        "people.csv",
        "shared.csv",
        "vote",
        planned={"steps": 60},
        released={"ids": "person"},
    ),
    "images redrawn": Road(
        "images",
        golden_data.write_images,
        "faces.npz",
        "shared.npz",
        "smile",
        planned={"policy": "redraw"},
        scanned={"patch": 4},
        attackers=("edges",),
    ),
    "texts redrawn": Road(
        "texts",
        golden_data.write_texts,
        "tweets.csv",
        "shared.csv",
        "party",
        planned={"policy": "redraw"},
        reading=OF_AUTHORS,
        attackers=WORDS,
    ),
}


@dataclass(frozen=True)
class EdgesOnly(ImageSettings):
    """Plans of images are checked by the one attacker that is not a network."""

    attackers: tuple[str, ...] = ("edges",)


@dataclass(frozen=True)
class NoNetwork(TextSettings):
    """Plans of texts are checked by those that are not networks, either."""

    attackers: tuple[str, ...] = WORDS


@dataclass(frozen=True)
class Travelled:
    """What one road left behind."""

    name: str
    road: Road
    data: Path
    key: Path
    reading: object
    planned: Plan
    done: Release
    attacked: AuditReport

    def release(self, folder, key=None, planned=None):
        """Release the source once more."""
        with_key = {"key_file": key or self.key} if self.road.redrawn else {}
        target = folder / self.road.target
        how = {**self.road.released, **with_key}
        return release(self.data, planned or self.planned, target, progress=False, **how)

    def answers(self):
        """What each verb answered, as it is recorded."""
        results = dict(
            zip(VERBS, (self.reading, self.planned, self.done, self.attacked), strict=True)
        )
        documents = {
            "scan": shape(self.reading.to_json()),
            "card": shape(self.done.card.to_json()),
            "audit": shape(self.attacked.to_json()),
            "studio": {verb: shape(self.shown(verb, result)) for verb, result in results.items()},
        }
        answers = {
            "scan": scan_figures(self.road.kind, self.reading.to_json()),
            "plan": plan_figures(self.planned),
            "release": release_figures(self.road, self.done),
            "audit": audit_figures(self.attacked.to_json()),
            "documents": documents,
        }
        return json.loads(json.dumps(answers))

    def shown(self, verb, result):
        """What the page of the studio shows of a result."""
        place = {"source": self.data, "folder": self.data.parent}
        return view_of(verb, self.road.kind, result, request={}, notes=["a note"], **place)


def travel(name, folder):
    """Take one road, from a new file in a folder to the audit."""
    road = ROADS[name]
    data = road.write(folder / road.source)
    key = folder / "noise.key"
    key.write_text("07" * 32 + "\n")
    key.chmod(0o600)
    opened = {**road.reading, **road.scanned}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ImageModality, "settings", EdgesOnly)
        patch.setattr(TextModality, "settings", NoNetwork)
        planned = plan(data, road.secret, **road.planned, **opened, progress=False)
    with_key = {"key_file": key} if road.redrawn else {}
    done = release(data, planned, folder / road.target, progress=False, **road.released, **with_key)
    attack = {"attackers": road.attackers, "progress": False, **road.reading}
    attacked = audit(done.data, data, road.secret, **attack)
    reading = scan(data, road.secret, steps=60, progress=False, **opened)
    return Travelled(name, road, data, key, reading, planned, done, attacked)


def scan_figures(kind, scanned):
    features = {
        "tables": lambda: scanned["features"],
        "images": lambda: {
            "in_order": scanned["in_order_nats"],
            "order_free": scanned["order_free_nats"],
        },
        "texts": lambda: {label: terms[:12] for label, terms in scanned["terms"].items()},
    }[kind]()
    return {
        "information": scanned["information_nats"],
        "entropy": scanned["entropy_nats"],
        "features": features,
    }


def plan_figures(planned):
    features = [feature._asdict() for feature in planned.card.features]
    points = getattr(planned.hider.policy, "curve", ())
    return {
        "curve": [point_figures(point) for point in points],
        "features": features,
        "attacks": alone(planned.to_json()["card"]["attacks"]),
    }


def point_figures(point):
    """One choice on the curve: what is kept of it, or changed, and what attackers read there."""
    if hasattr(point, "read"):
        return {"budget": point.budget, "changed": point.changed, "read": asdict(point.read)}
    return {"kept": point.kept, "nats": point.reading.leakage.value}


def release_figures(road, done):
    card = done.card.to_json()
    figures = {name: card[name] for name in ("changed", "rows", "features")}
    if not road.redrawn:
        figures["sha256"] = hashlib.sha256(done.data.read_bytes()).hexdigest()
    return figures


def audit_figures(attacked):
    return {"change": attacked["change"]["share"], "attacks": alone(attacked["attacks"])}


def alone(attacks):
    """Attackers that are joined into one depend on the last bits of their networks."""
    return [attack for attack in attacks if attack["attacker"] != "together"]


def shape(value):
    """The names and the types of a document, without its values: what readers of it rely on."""
    if isinstance(value, dict):
        return {str(name): shape(entry) for name, entry in sorted(value.items())}
    if isinstance(value, (list, tuple)):
        kinds = {json.dumps(shape(entry), sort_keys=True) for entry in value}
        return [json.loads(kind) for kind in sorted(kinds)][:4]
    return {bool: "truth", int: "number", float: "number", str: "text"}.get(type(value), "null")


def cells(path, columns=None):
    """What a file shows, as an array of cells, of words or of pixels, in the order of its samples.

    Args:
        path: a table, texts or images.
        columns: of a table, those to read; by default all.
    """
    if path.suffix == ".npz":
        with np.load(path) as archive:
            return archive["images"]
    table = pc.read_csv(path)
    if "text" in table.column_names:
        return np.array([word for text in table["text"].to_pylist() for word in text.split()])
    names = columns or table.column_names
    return np.array([[str(cell) for cell in table[name].to_pylist()] for name in names]).T


def recorded_file(name):
    return HERE / f"{name.replace(' ', '_')}{Path(ROADS[name].target).suffix}"


def same(value, recorded, at="", *, tolerance=TOLERANCE):
    """Equal values; an estimate within the interval that was recorded, other numbers to
    tolerance.
    """
    if isinstance(recorded, dict) and {"value", "low", "high"} <= recorded.keys():
        assert recorded["low"] - 1e-9 <= value["value"] <= recorded["high"] + 1e-9, at
    elif isinstance(recorded, dict):
        assert value.keys() == recorded.keys(), at
        for name, entry in recorded.items():
            same(value[name], entry, f"{at}.{name}", tolerance=tolerance)
    elif isinstance(recorded, list):
        assert len(value) == len(recorded), at
        for place, entry in enumerate(recorded):
            same(value[place], entry, f"{at}[{place}]", tolerance=tolerance)
    elif isinstance(recorded, float):
        assert value == pytest.approx(recorded, abs=tolerance, rel=tolerance), at
    else:
        assert value == recorded, at


@pytest.fixture(scope="module", params=ROADS)
def road(request, tmp_path_factory):
    """One road, travelled once for all tests."""
    return travel(request.param, tmp_path_factory.mktemp(request.param.replace(" ", "_")))


@pytest.fixture(scope="module")
def answers(road):
    return road.answers()


class TestWhatAUserMayRelyOn:
    def test_the_secret_is_not_in_the_release(self, road):
        assert road.road.secret in fields(road.data)
        assert road.road.secret not in fields(road.done.data)

    def test_samples_keep_their_number(self, road):
        assert samples(road.data) == samples(road.done.data)

    def test_the_card_counts_the_cells_that_differ(self, road):
        if road.road.kind == "texts" and not road.road.redrawn:
            pytest.skip("words that were dropped have no place in the release")
        judged = None
        if road.road.kind == "tables":
            judged = [feature.name for feature in road.done.card.features]
        differing = float((cells(road.data, judged) != cells(road.done.data, judged)).mean())
        assert 0 < differing < 0.8
        assert (
            differing <= road.done.card.changed + 0.005
        )  # a pixel that was painted may look as before
        if road.road.kind == "tables":
            assert differing == pytest.approx(road.done.card.changed, abs=0.005)

    def test_attackers_read_the_source_and_hardly_the_release(self, road):
        attacks = road.attacked.attacks
        assert attacks.headline_clean.accuracy.low > attacks.guess.accuracy.value + 0.05
        assert attacks.headline.accuracy.value < attacks.headline_clean.accuracy.low

    def test_the_card_is_of_this_file_and_of_no_other(self, road, tmp_path):
        assert verify(road.done.card, road.done.data, road.planned)
        altered = tmp_path / road.done.data.name
        altered.write_bytes(road.done.data.read_bytes() + b" ")
        assert not verify(road.done.card, altered, road.planned)

    def test_a_saved_plan_releases_the_same_bytes_from_the_command_line(self, road, tmp_path):
        saved = road.planned.save(tmp_path / "plan.lowtide")
        target = tmp_path / road.road.target
        command = ["release", road.data, "--plan", saved, "--out", target, "--quiet"]
        if road.road.redrawn:
            command += ["--key-file", road.key]
        for name, value in road.road.released.items():
            command += [f"--{name}", value]
        ran = CliRunner().invoke(app, [str(word) for word in command], catch_exceptions=False)
        assert ran.exit_code == 0, ran.stderr
        assert contents(target) == contents(road.done.data)

    def test_draws_follow_the_key(self, road, tmp_path):
        if not road.road.redrawn:
            pytest.skip("nothing is drawn")
        other = tmp_path / "other.key"
        other.write_text("2b" * 32 + "\n")
        other.chmod(0o600)
        (tmp_path / "same").mkdir()
        (tmp_path / "other").mkdir()
        assert contents(road.release(tmp_path / "same").data) == contents(road.done.data)
        assert contents(road.release(tmp_path / "other", other).data) != contents(road.done.data)

    def test_the_card_names_no_value_of_the_secret(self, road):
        page = " ".join(road.done.card.files().values()).lower()
        assert "lowtide" in page
        for label in golden_data.LABELS[road.road.source]:
            assert label not in page


def fields(path):
    """The names of what a file holds: columns, or arrays."""
    if path.suffix == ".npz":
        with np.load(path) as archive:
            return sorted(archive.files)
    return pc.read_csv(path).column_names


def samples(path):
    """How many samples a file has."""
    if path.suffix == ".npz":
        with np.load(path) as archive:
            return len(archive["images"])
    return pc.read_csv(path).num_rows


def contents(path):
    """What a file holds; an archive also holds the time when it was written."""
    if path.suffix == ".npz":
        with np.load(path) as archive:
            return {name: archive[name].tobytes() for name in archive.files}
    return path.read_bytes()


class TestWhatWasRecorded:
    @pytest.mark.parametrize("verb", VERBS)
    def test_a_verb_gives_the_recorded_answer(self, road, answers, verb):
        recorded = RECORDED[road.name][verb]
        if verb != "release":
            assert len(recorded.get("attacks", recorded.get("features", ()))) >= 2
        drawn_by_networks = verb == "release" and road.name == "images redrawn"
        # So far may a share of images that are changed move where so many agree.
        tolerance = 1 - AGREEING_IMAGES if drawn_by_networks else TOLERANCE
        same(answers[verb], recorded, tolerance=tolerance)

    def test_redrawn_cells_are_those_that_were_recorded(self, road, answers):
        if not road.road.redrawn:
            pytest.skip("compared byte for byte, by its hash")
        source, released, recorded = map(
            cells, (road.data, road.done.data, recorded_file(road.name))
        )
        if road.road.kind == "images":
            changed, before = (image != source for image in (released, recorded))
            np.testing.assert_array_equal(changed.any(axis=0), before.any(axis=0))
            whole = (1, 2, 3)
            agreement = float((changed.any(axis=whole) == before.any(axis=whole)).mean())
            assert agreement >= AGREEING_IMAGES
            return
        assert float((released == recorded).mean()) >= AGREEING
        assert answers["release"]["changed"] > 2 * (1 - AGREEING)  # the source agrees less

    def test_documents_have_the_recorded_names_and_types(self, road, answers):
        assert answers["documents"] == RECORDED[road.name]["documents"]


if __name__ == "__main__":
    for named in sys.argv[1:] or ROADS:
        with tempfile.TemporaryDirectory() as made_in:
            travelled = travel(named, Path(made_in))
            RECORDED[named] = travelled.answers()
            if travelled.road.redrawn:
                recorded_file(named).write_bytes(travelled.done.data.read_bytes())
        kept = {name: RECORDED[name] for name in ROADS if name in RECORDED}
        RECORDED_IN.write_text(json.dumps(kept, indent=1) + "\n")
