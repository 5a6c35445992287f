"""A release that is interrupted, ended or made twice at once leaves data and card that belong
together.
"""

import os
import shutil
import signal

import pytest

from lowtide.disclose.card import ReleaseCard
from lowtide.files import Staging
from lowtide.tables.releasing import TableSink


@pytest.fixture
def place(home, survey, tmp_path):
    """A folder with a plan, an older release with its card, and other rows to release to the same
    name.
    """
    for path in (home.plan, home.shared, *home.folder.glob("shared.csv.card.*")):
        shutil.copy(path, tmp_path)
    survey(tmp_path / "later.csv", seed=8)
    return tmp_path


def release(lowtide, place):
    return lowtide(
        "release", place / "later.csv", "--plan", place / "plan.json", "--out", place / "shared.csv"
    )


def names(place):
    return sorted(path.name for path in place.iterdir())


@pytest.mark.parametrize("name", ["rename", "replace"])
def test_an_interrupted_release_never_puts_new_data_beside_the_old_card(
    place, lowtide, monkeypatch, name
):
    before = names(place)
    real = getattr(os, name)
    outcomes = []
    for step in range(1, 20):
        calls = iter(range(1, 1000))

        def interrupted(*paths, step=step, calls=calls):
            if next(calls) == step:
                raise KeyboardInterrupt
            return real(*paths)

        monkeypatch.setattr(os, name, interrupted)
        ran = release(lowtide, place)
        monkeypatch.setattr(os, name, real)
        assert ReleaseCard.load(place / "shared.csv.card.json").matches(place / "shared.csv")
        assert names(place) == before
        outcomes.append(ran.code)
        if ran.code == 0:
            break
    assert outcomes[-1] == 0
    assert set(outcomes[:-1]) == {130}


def test_a_release_that_is_ended_by_the_system_leaves_nothing_half_done(
    place, lowtide, monkeypatch
):
    before = names(place)
    data = (place / "shared.csv").read_bytes()
    write = TableSink.write

    def ended(sink, changed):
        write(sink, changed)
        assert any(name.endswith(".part") for name in names(place))
        assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(TableSink, "write", ended)
    ran = release(lowtide, place)
    assert ran.code == 143
    assert ran.err == "interrupted; nothing half-done was written. Run the same command again.\n"
    assert (place / "shared.csv").read_bytes() == data
    assert names(place) == before
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_two_releases_at_once_do_not_mix_their_cards(place, lowtide):
    with Staging(place / "shared.csv"):
        ran = release(lowtide, place)
    assert ran.code == 2
    assert "another release" in ran.err
    assert release(lowtide, place).code == 0
    assert ReleaseCard.load(place / "shared.csv.card.json").matches(place / "shared.csv")
