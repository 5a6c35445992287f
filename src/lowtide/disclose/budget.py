"""How much a release may tell: nats, bits, or how often an attacker may be right.

Light: `warn` reads budgets, and starts without SciPy.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from lowtide.checks import LowtideError, real, within
from lowtide.errors import note
from lowtide.estimate.objectives import information_of, mean_with_interval
from lowtide.interface import NATS_PER_BIT, Estimate
from lowtide.types import Bools, Floats, Ints

Unit = Literal["nats", "accuracy", "delta"]
# Weight of the plain worth beside the usefulness: a feature of no use is still worth something
_PLAIN = 0.1


@dataclass(frozen=True)
class Reading:
    """What an attacker's held-out answers say about a release.

    Attributes:
        leakage: the information in nats.
        accuracy: how often the most likely class is right.
    """

    leakage: Estimate
    accuracy: Estimate

    @classmethod
    def of(cls, density: Floats, codes: Ints, prior: Floats) -> Reading:
        """Read densities (n, |S|) of held-out rows whose classes are `codes` (n,)."""
        right = (density + np.log(prior)).argmax(axis=1) == codes
        own = density[np.arange(len(codes)), codes]
        return cls(information_of(own), mean_with_interval(right.astype(np.float64)))


@dataclass(frozen=True)
class Point:
    """One choice on the trade-off curve.

    Attributes:
        hidden: (m,) what it hides.
        kept: the share of the worth of all features, pixels or words that it keeps as they are.
        reading: what is left for an attacker, on held-out samples.
        useful: what is left for the use one has in mind, when there is one.
    """

    hidden: Bools
    kept: float
    reading: Reading
    useful: Reading | None = None


def blended_worth(plain: Floats, useful: Floats) -> Floats:
    """What keeping each feature is worth, as shares: mostly what it carries of a utility.

    Args:
        plain: (m,) shares of the data that each feature is.
        useful: (m,) what each carries of the utility, not negative; where none carries any, the
            plain shares count.
    """
    total = useful.sum()
    return _PLAIN * plain + (1 - _PLAIN) * (useful / total if total > 0 else plain)


@dataclass(frozen=True)
class Budget:
    """What a release may tell about the secret.

    Attributes:
        limit: nats of information, the share of right guesses, or δ.
        unit: `nats`, `accuracy`, or `delta`: the largest divergence, where a bound against every
            attacker is counted.
    """

    limit: float
    unit: Unit = "nats"

    def __post_init__(self) -> None:
        if self.unit == "accuracy" and 1.0 < self.limit <= 100.0:
            raise LowtideError(
                f"the share an attacker may guess right must lie in [0, 1), got {self.limit:g};"
                f" write {self.limit / 100:g} for {self.limit:g} %"
            )
        high = math.inf if self.unit == "nats" else 1.0
        hint = (
            "no release tells less than nothing: the smallest budget is 0, and redaction of"
            " everything reaches it"
        )
        within(
            "budget",
            self.limit,
            0.0,
            high,
            high_open=True,
            hint=hint if self.unit == "nats" else "",
        )

    @classmethod
    def nats(cls, limit: float) -> Budget:
        """A budget of `limit` nats."""
        return cls(float(limit))

    @classmethod
    def bits(cls, limit: float) -> Budget:
        """A budget of `limit` bits."""
        return cls(float(limit) * NATS_PER_BIT)

    @classmethod
    def accuracy(cls, limit: float) -> Budget:
        """An attacker may be right at most this often."""
        return cls(float(limit), "accuracy")

    @classmethod
    def read(cls, value: Budget | float | str) -> Budget:
        """A budget from a number of nats or a text such as `0.02`, `0.02nats`, `0.03bits` or
        `55%`.
        """
        if isinstance(value, Budget):
            return value
        if not isinstance(value, str):
            return cls(float(real("budget", value)))
        match = re.fullmatch(r"\s*([0-9.eE+-]+)\s*(nats?|bits?|%|)\s*", value)
        try:
            number = float(match[1]) if match else math.nan
        except ValueError:
            number = math.nan
        if match is None or math.isnan(number):
            raise LowtideError(
                f"budget must read like 0.02, 0.02nats, 0.03bits or 55%, got {value!r}"
            )
        if match[2] == "%":
            return cls.accuracy(number / 100)
        return cls.bits(number) if match[2].startswith("bit") else cls(number)

    def check(self, prior: Floats) -> None:
        """Refuse what no release can reach: fewer right guesses than always naming the most
        frequent class.
        """
        if self.unit == "accuracy" and self.limit < prior.max():
            raise LowtideError(
                f"an attacker who always names the most frequent class is right {prior.max():.1%}"
                f" of the time, whatever is hidden; the budget allows {self.limit:.1%}: allow at"
                " least that much"
            )

    def compare(self, secret: str, labels: NDArray[Any]) -> None:
        """Say where a budget is more than the secret holds, before the long work.

        Args:
            secret: what it is called.
            labels: (n,) its values.
        """
        shares = np.unique(labels, return_counts=True)[1] / len(labels)
        held = float(-(shares * np.log(shares)).sum())
        if self.unit == "nats" and self.limit >= held:
            note(
                f"{secret!r} holds {held:.2g} nat in all, and the budget is {self}: it asks for"
                " little or nothing to be changed; give a smaller one, such as 0.05"
            )

    def meets(self, reading: Reading) -> bool:
        """Whether a reading stays within the budget."""
        return self._of(reading).value <= self.limit

    def is_broken(self, reading: Reading) -> bool:
        """Whether a reading lies above the budget by more than its interval."""
        return self._of(reading).low > self.limit

    def _of(self, reading: Reading) -> Estimate:
        return reading.leakage if self.unit == "nats" else reading.accuracy

    def density(self, prior: Floats) -> float:
        """The largest ε such that `|i(s; y)| ≤ ε` for all s and y keeps the budget.

        A density within ±ε carries at most `ε·tanh(ε/2)` nats, and lifts the most likely class to
        at most `e^ε·max p(s)`.
        """
        if self.unit == "accuracy":
            return math.log(self.limit / float(prior.max())) if self.limit > prior.max() else 0.0
        if self.limit == 0:
            return 0.0

        from scipy import optimize

        highest = self.limit + 2 + math.sqrt(self.limit)
        return float(optimize.brentq(lambda e: e * math.tanh(e / 2) - self.limit, 0.0, highest))

    def __str__(self) -> str:
        return budget_in_words(self.limit, self.unit)


def budget_in_words(limit: float, unit: Unit) -> str:
    """What a release may tell, such as "0.02 nat (0.0289 bits)"."""
    if unit == "accuracy":
        return f"an attacker right at most {limit:.1%} of the time"
    if unit == "delta":
        return f"a divergence of at most {limit:g}, in both directions"
    return f"{limit:g} nat ({limit / NATS_PER_BIT:.3g} bits)"
