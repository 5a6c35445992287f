"""A measure of leakage from answers to held-out samples; its interval has what the attacker may not
have learnt yet.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm
from scipy.stats import t as student

from lowtide.attack.panel import AttackReport
from lowtide.interface import Estimate
from lowtide.theory.tangents import Tangents
from lowtide.types import Floats, Ints

# Of the jackknife: 19 degrees of freedom, whose Student interval is 7 % wider than the normal one
_BLOCKS = 20
# Of an error that falls as 1/√n, doubling the samples takes off 1 − 1/√2: what is left is so many
# times as much.
_BEYOND = 1 / (np.sqrt(2) - 1)


@dataclass(frozen=True, eq=False)
class HeldFigure:
    """How a measure is taken from held-out answers.

    Attributes:
        key: its name in JSON.
        name: what it is called.
        sums: of tangents over blocks of samples, (blocks, …): from the answers, the block of each
            sample and their number.
        link: from the mean over samples to the measure.
        meaning: in a line.
        least: what the measure is at least, whatever the data.
    """

    key: str
    name: str
    sums: Callable[[Tangents, Ints, int], Floats]
    link: Callable[[Floats], float]
    meaning: str
    least: float = 0.0


@dataclass(frozen=True, eq=False)
class HeldAnswers:
    """Answers to held-out samples, what an attacker answered having learnt from half as many, and
    the truth.

    Attributes:
        own: answers of the strongest attacker.
        whole: answers of the attacker that has also learnt from half the samples, mostly the same
            one.
        half: what it answered then; `None` where none has.
        blocks: (n,) the block of the jackknife that each sample is in.
        witnesses: how many of the samples are independent.
        level: of the intervals.
        paid: of the lower ends, so that those of all attackers hold together and the strongest may
            be picked.
    """

    own: Tangents
    whole: Tangents
    half: Tangents | None
    blocks: Ints
    witnesses: int
    level: float
    paid: float

    @classmethod
    def of(cls, report: AttackReport, groups: Ints | None, level: float) -> HeldAnswers:
        """Those of the strongest attacker of a report."""
        place = report.tested(report.strongest)
        rows = report.rows[place]
        codes = report.codes[place]
        owners = np.arange(len(rows)) if groups is None else np.asarray(groups)[rows]
        _, owners = np.unique(owners, return_inverse=True)
        own = Tangents(report.probabilities, report.prior, codes)
        whole = own
        half = None
        if report.halved is not None and report.curve is not None:
            name = report.curve.whole.attack.attacker
            if np.array_equal(report.tested(name), place):
                whole, half = (
                    Tangents(q, report.prior, codes) for q in (report.answers[name], report.halved)
                )
        paid = 1 - (1 - level) / max(1, len(report.retrained))
        witnesses = int(owners.max()) + 1
        return cls(own, whole, half, owners % min(_BLOCKS, witnesses), witnesses, level, paid)

    def estimate(self, figure: HeldFigure) -> Estimate:
        """A measure that held-out truth bounds from below; the upper end has what more samples may
        teach.
        """
        count = int(self.blocks.max()) + 1
        counts = np.bincount(self.blocks, minlength=count)
        sums = figure.sums(self.own, self.blocks, count)
        value, error, bias = jackknifed(sums, counts, figure.link)
        # Of the eigenvalues of a mean the largest come out too large, and the smallest too small.
        low = value - max(0.0, bias) - self._times(self.paid, count) * error
        high = value + max(0.0, -bias) + self._times(self.level, count) * error
        if self.half is not None:
            gained = figure.sums(self.whole, self.blocks, count) - figure.sums(
                self.half, self.blocks, count
            )
            beyond, spread, bias = jackknifed(sums + _BEYOND * gained, counts, figure.link)
            high = max(high, beyond + max(0.0, -bias) + self._times(self.level, count) * spread)
        low, value, high = (max(figure.least, end) for end in (low, value, high))
        return Estimate(value, low, high, len(self.blocks))

    def doubt(self, extreme: Callable[[Floats], Floats]) -> float:
        """How far off, at this level, a sample's figure may be, since the attacker has learnt from
        few samples.

        Twice the samples halve the variance of an answer: what they have moved it by has the
        variance that is left.
        """
        if self.half is None:
            return 0.0
        moved = extreme(self.whole.lift) - extreme(self.half.lift)
        return float(norm.ppf(0.5 + self.level / 2) * np.sqrt(np.mean(np.square(moved))))

    def untaught(self) -> float:
        """Nats that more samples may teach beside what these have taught, at the upper end."""
        if self.half is None:
            return 0.0
        gained = self.whole.information() - self.half.information()
        count = int(self.blocks.max()) + 1
        counts = np.bincount(self.blocks, minlength=count)
        value, error, _ = jackknifed(block_sums(gained, self.blocks, count), counts, float)
        return max(0.0, float(_BEYOND * (value + self._times(self.level, count) * error)))

    @staticmethod
    def _times(level: float, count: int) -> float:
        return float(student.ppf(0.5 + level / 2, count - 1))


def block_sums(values: Floats, blocks: Ints, count: int) -> Floats:
    """Sums (count,) of values (n,) over blocks."""
    return np.bincount(blocks, values, minlength=count).astype(np.float64)


def jackknifed(
    sums: Floats, counts: Ints, link: Callable[[Floats], float]
) -> tuple[float, float, float]:
    """A function of a mean, its standard error and its bias, from leaving out each block in turn.

    Args:
        sums: (blocks, …) over the samples of each block.
        counts: (blocks,) how many samples each has.
        link: from the mean to the figure.
    """
    blocks = len(counts)
    total = sums.sum(axis=0)
    n = counts.sum()
    value = link(total / n)
    without = np.array(
        [link((total - part) / (n - some)) for part, some in zip(sums, counts, strict=True)]
    )
    error = np.sqrt((blocks - 1) / blocks * np.square(without - without.mean()).sum())
    return value, float(error), float((blocks - 1) * (without.mean() - value))
