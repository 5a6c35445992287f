"""Classifiers of other packages attack where they are installed, and are left out where they are
not.
"""

from importlib.util import find_spec

import numpy as np
import pytest

from lowtide.attack import attackers, panel
from lowtide.attack.attackers import INSTALLED, installed_attackers
from lowtide.errors import LowtideNote

HISTOGRAMS = {
    "histogram trees": ("sklearn.ensemble", "HistGradientBoostingClassifier", {"max_iter": 20})
}


def two_copies(n=400, seed=0):
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 2, n)
    return np.column_stack([s + rng.normal(size=n), rng.normal(size=n)]), s


def reads(name):
    """The attacker learns from a column that tells, and nothing from one that does not."""
    x, s = two_copies()
    told, untold = (
        panel.attack(one, s, attackers=name, progress=False).headline for one in (x, x[:, 1:])
    )
    assert told.accuracy.low > 0.55
    assert untold.information.low < 0.01
    return told.attacker


def test_a_classifier_of_an_installed_package_attacks(monkeypatch):
    monkeypatch.setattr(attackers, "INSTALLED", HISTOGRAMS)
    assert reads("histogram trees") == "histogram trees"


def test_what_is_not_there_or_cannot_be_loaded_is_left_out(tmp_path, monkeypatch):
    absent = {"one": ("no_such_package_at_all", "Classifier", {})}
    assert installed_attackers("tables", np.asarray, absent) == {}
    assert installed_attackers("images", np.asarray, HISTOGRAMS) == {}
    (tmp_path / "broken_attacker.py").write_text("raise OSError('a library is missing')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.warns(LowtideNote, match="broken_attacker is installed and cannot be loaded"):
        assert (
            installed_attackers(
                "tables", np.asarray, {"one": ("broken_attacker", "Classifier", {})}
            )
            == {}
        )


@pytest.mark.parametrize("name", INSTALLED)
def test_the_real_ones_attack_where_they_are_installed(name):
    if find_spec(attackers.INSTALLED[name][0]) is None:
        pytest.skip(f"{name} is not installed")
    assert reads(name) == name
