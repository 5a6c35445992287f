"""A stranger adds a kind of data in one file, and every verb, the command line too, works on it.

The kind is series of eight numbers, whose features are windows: a window is hidden or shown as a
whole. What a table does with rows of numbers is right for series, so the kind takes it from there
and says only what differs: how files are read and written, what a feature is, and what things are
called.
"""

import json
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from typer.testing import CliRunner

from lowtide import LowtideError, Plan, audit, modalities, plan, release, scan
from lowtide.cli.arguments import ScanArguments, command
from lowtide.cli.main import app
from lowtide.options import option
from lowtide.protocols import Changed, Dataset, Matched, Nouns
from lowtide.tables.dataset import TableSource
from lowtide.tables.modality import TableModality

LENGTH = 8


class Series(np.ndarray):
    """n series of eight numbers, (n, 8)."""


@dataclass(frozen=True)
class SeriesOptions:
    """How series are cut."""

    default_budget: ClassVar[float] = 0.02

    window: int = option(2, "numbers in a window", verbs=("scan", "plan"), least=1)


class SeriesJob:
    """A file of series, released in two batches."""

    def __init__(self, source, plan):
        self.values = read_series(source)[0]
        self.plan = plan
        self.total = len(self.values)

    def batches(self):
        yield from np.array_split(self.values, 2)

    def change(self, batch, noise):
        shown, flags = self.plan.hider.release(np.asarray(batch), noise=noise)
        cells = flags[:, self.plan.hider.mechanism.features.groups]
        return Changed(
            shown,
            len(shown),
            flags.sum(axis=0).astype(float),
            float(cells.size),
            float(cells.sum()),
        )

    @contextmanager
    def sink(self, out, staged):
        parts = []
        yield type("Sink", (), {"write": lambda _, changed: parts.append(changed.samples)})()
        write_series(staged(out), np.concatenate(parts))

    def finish(self):
        pass


class SeriesModality(TableModality):
    name = "series"
    nouns = Nouns(
        row="series",
        rows="series",
        a_row="A series",
        feature="window",
        features="windows",
        columns="windows",
        named=True,
        worth="the numbers",
        unit="number",
        counted="windows",
    )
    options = SeriesOptions

    def claims(self, x, features=None):
        return isinstance(x, Series)

    def claims_source(self, source, given):
        return (
            Path(source).suffix == ".series"
            if isinstance(source, (str, Path))
            else self.claims(source)
        )

    def open(self, source, secret, options, *, progress):
        values, labels = read_series(source)
        return Dataset(
            "series",
            Path(source).name,
            values,
            secret,
            labels,
            np.ones(len(labels), bool),
            source=TableSource(),
        )

    def features(self, options):
        return (np.arange(LENGTH) // options.window).tolist()

    def beside(self, out, options):
        return {}

    def release_job(self, source, plan, options, *, ids, progress):
        return SeriesJob(source, plan)

    def match(self, release, reference, secret, options, *, utility, progress):
        data = self.open(reference, secret, options, progress=progress)
        return Matched(data, read_series(release)[0], data.samples)


def read_series(path):
    with np.load(path) as packed:
        return packed["values"].view(Series), packed.get("mood")


def write_series(path, values, **labels):
    with Path(path).open("wb") as file:
        np.savez(file, values=np.asarray(values), **labels)
    return path


@pytest.fixture
def kind():
    modalities.register(SeriesModality())
    yield
    modalities.unregister("series")


@pytest.fixture
def file(tmp_path, kind):
    """The third window tells the mood; the others are noise."""
    rng = np.random.default_rng([7, 404])
    mood = rng.integers(0, 2, 500)
    values = rng.normal(size=(500, LENGTH))
    values[:, 4:6] += 2.0 * mood[:, None]
    return write_series(tmp_path / "a.series", values, mood=np.array(["calm", "wild"])[mood])


def test_every_verb_works_on_the_new_kind(file, tmp_path):
    found = scan(file, "mood", steps=60, progress=False)
    assert found.ranked()[0].name == "feature 3"
    assert len(found.features) == 4
    made = plan(file, "mood", budget=0.1, steps=60, progress=False)
    assert made.kind == "series"
    assert made.hider.policy.hidden.tolist() == [False, False, True, False]
    made.save(tmp_path / "plan.json")
    done = release(
        file, Plan.load(tmp_path / "plan.json"), tmp_path / "shared.series", progress=False
    )
    assert str(done) == "500 series, 25.0% of the numbers changed"
    shown, clean = (np.asarray(read_series(path)[0]) for path in (tmp_path / "shared.series", file))
    assert (shown[:, 4:6] == 0).all()
    np.testing.assert_array_equal(
        np.delete(shown, (4, 5), axis=1), np.delete(clean, (4, 5), axis=1)
    )
    judged = audit(
        tmp_path / "shared.series", file, "mood", attackers=["boosted trees"], progress=False
    )
    assert judged.attacks.headline_clean.accuracy.value > 0.9
    assert judged.attacks.headline.accuracy.low < 0.55
    written = judged.write_report(tmp_path / "report.html", figures=tmp_path / "figures")
    assert "series" in written[0].read_text()
    assert "windows" in made.write_report(tmp_path / "plan.html")[0].read_text()


def test_objects_of_the_new_kind_are_found_and_its_options_are_its_own(file, tmp_path):
    assert modalities.of(read_series(file)[0]).name == "series"
    assert modalities.of(np.zeros((3, 2))).name == "tables"
    with pytest.raises(LowtideError, match="'window' is for series, and this is about tables"):
        scan(np.zeros((30, 2)), np.arange(30) % 2, window=3)
    with pytest.raises(LowtideError, match="'patch' is for images, and this is about series"):
        scan(file, "mood", patch=3)
    with pytest.raises(LowtideError, match="must be a whole number of at least 1, got 0"):
        scan(file, "mood", window=0)


def test_the_command_line_has_flags_of_the_new_kind(file, tmp_path):
    said = []
    call = command(ScanArguments, lambda arguments, given: said.append(given), kinds="scan")
    assert call.__annotations__["window"].__metadata__[0].help == "series: numbers in a window"
    result = CliRunner().invoke(
        app, ["scan", str(file), "--secret", "mood", "--steps", "60", "--json", "-"]
    )
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["features"][0]["name"] == "feature 3"
