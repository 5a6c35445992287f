"""Policies: which features of a row to hide. Each names what it looks at, and so what it may
promise.

| policy | looks at | promise |
|---|---|---|
| `FixedColumns` | the population, once | no redundancy and no membership leak |
| `SequentialColumns` | the row's disclosed past, the candidate | membership stated |
| `disclose.raw_past.RawPast` | this row's raw features | none for the whole release |

Feature by feature: hide what tells too much given what this sample has already disclosed.

The critic must know the histories it is asked about: values, stand-ins of hidden features, the
candidate. The policy decides which histories occur, and the critic decides the policy; so it is
refitted on the histories of its own policy until the flags stop changing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from lowtide.checks import limit_of
from lowtide.disclose.budget import Point
from lowtide.disclose.saved import (
    Parts,
    Tensors,
    density_parts,
    point_config,
    read_density,
    read_mask,
    read_point,
)
from lowtide.estimate.density import Density
from lowtide.estimate.learners.base import Null, normalise
from lowtide.estimate.learners.network import Disclosures, Masked
from lowtide.estimate.objectives import Options
from lowtide.features import Features
from lowtide.splits import generator
from lowtide.tables.filling import ColumnFill
from lowtide.tables.samplers import Histories
from lowtide.training import one_thread
from lowtide.types import Bools, Floats, Floats32

if TYPE_CHECKING:
    from lowtide.tables import planning_attackers as learning


class ColumnPolicy(Protocol):
    """Says what to hide."""

    name: ClassVar[str]

    def flags(self, rows: Floats32, standins: Floats32) -> Bools:
        """What to hide of encoded rows (n, columns), (n, m); `standins` are the same rows with
        everything hidden.
        """
        ...

    def parts(self) -> Parts:
        """The policy as plain JSON, with its name, and tensors."""
        ...


@dataclass(frozen=True)
class FixedColumns:
    """One choice for everybody.

    Attributes:
        features: what the m features are.
        hidden: (m,) what is hidden.
        curve: the trade-off: what attackers are left with, against what is kept.
        marginal: (m,) what each feature carries of the leakage of the raw data, in nats, averaged
            over random orders of hiding; they add up to the leakage. NaN where the feature had to
            be kept or hidden.
        fill: what hidden columns are filled in with; `None` where they are left blank.
    """

    name: ClassVar[str] = "fixed"
    features: Features
    hidden: Bools
    curve: tuple[Point, ...] = field(repr=False)
    marginal: Floats = field(repr=False)
    fill: ColumnFill | None = field(default=None, repr=False)

    def flags(self, rows: Floats32, standins: Floats32) -> Bools:
        """The same for every row."""
        return np.tile(self.hidden, (len(rows), 1))

    def parts(self) -> Parts:
        """Plain JSON: without a fill it needs no tensors."""
        fill = None
        tensors: Tensors = {}
        if self.fill is not None:
            fill, tensors = self.fill.parts()
        curve = [{**point_config(point), "hidden": point.hidden.tolist()} for point in self.curve]
        marginal = [None if np.isnan(value) else float(value) for value in self.marginal]
        config = {
            "name": self.name,
            "hidden": self.hidden.tolist(),
            "curve": curve,
            "marginal": marginal,
        }
        return {**config, **({} if fill is None else {"fill": fill})}, tensors

    @classmethod
    def read(
        cls, config: Mapping[str, Any], tensors: Tensors, features: Features, where: Any
    ) -> FixedColumns:
        """Rebuild what `parts` gave."""
        numbers = zip(features.names, config["marginal"], strict=True)
        marginal = np.array(
            [np.nan if value is None else value for _, value in numbers], dtype=np.float64
        )
        m = len(features)
        curve = tuple(read_point(point, read_mask(point["hidden"], m)) for point in config["curve"])
        fill = ColumnFill.read(config.get("fill"), tensors)
        return cls(features, read_mask(config["hidden"], m), curve, marginal, fill)


_ROUNDS = 6
_SETTLED = 0.01  # share of flags that may still change
_TRAINING_ROWS = 6000
_CHUNK = 1 << 22  # doubles of rows that are decided at once


@dataclass(frozen=True)
class Rule:
    """When a candidate is hidden.

    Attributes:
        each: hide when `max_s |i(s; x_j | y^{j−1})|` exceeds it.
        total: hide when `max_s |i(s; y^{j−1}, x_j)|` exceeds it.
        keep: (m,) features that are never hidden.
        hide: (m,) features that always are.
    """

    each: float
    total: float
    keep: Bools
    hide: Bools

    def flags(self, j: int, before: Floats, after: Floats) -> Bools:
        """Whether to hide feature j of each row (n,), from densities before and after it (n,
        |S|).
        """
        if self.keep[j] or self.hide[j]:
            return np.full(len(after), self.hide[j])
        return (np.abs(after - before).max(axis=1) > self.each) | (
            np.abs(after).max(axis=1) > self.total
        )


@dataclass(frozen=True)
class SequentialColumns:
    """A fitted policy: the critic of histories, the rule, and how the fit went.

    Attributes:
        density: over the m raw features and their m stand-ins.
        rule: when to hide.
        rounds: how many fits it took.
        unsettled: share of flags that still changed in the last one.
    """

    name: ClassVar[str] = "sequential"
    density: Density
    rule: Rule
    rounds: int
    unsettled: float

    def flags(self, rows: Floats32, standins: Floats32) -> Bools:
        """What to hide of each row, (n, m); decided along the order of the features."""
        both = np.concatenate([rows, standins], axis=1)
        size = max(1, _CHUNK // both.shape[1])
        with one_thread():
            return np.concatenate(
                [self._flags(both[at : at + size]) for at in range(0, max(1, len(both)), size)]
            )

    def _flags(self, both: Floats32) -> Bools:
        """The same of rows with their stand-ins, (n, 2 · columns), few enough for double
        precision.
        """
        n = len(both)
        m = len(self.rule.keep)
        critic = self.density.critic
        if not isinstance(critic, Masked):  # nothing was found: no density differs from 0
            nothing = np.zeros((n, len(self.density.classes.labels)))
            return np.stack([self.rule.flags(j, nothing, nothing) for j in range(m)], axis=1)
        history = Disclosures(critic, both)
        hidden = np.zeros((n, m), dtype=bool)
        before = self._densities(history.scores())
        for j in range(m):
            after = self._densities(history.scores(j))
            hidden[:, j] = self.rule.flags(j, before, after)
            flags = hidden[:, j]
            history.disclose(j, ~flags)
            if flags.any():
                history.disclose(m + j, flags)
                after = self._densities(history.scores())
            before = after
        return hidden

    def _densities(self, scores: Floats) -> Floats:
        """(n, |S|), normalised and trimmed."""
        trim = self.density.trim
        return np.asarray(normalise(scores, np.log(self.density.classes.prior)).clip(-trim, trim))

    def parts(self) -> Parts:
        """Plain JSON, and the weights of the density."""
        density, tensors = density_parts(self.density)
        rule = {
            "each": _finite_or_none(self.rule.each),
            "total": _finite_or_none(self.rule.total),
            "keep": self.rule.keep.tolist(),
            "hide": self.rule.hide.tolist(),
        }
        fit = {"rounds": self.rounds, "unsettled": self.unsettled}
        return {"name": self.name, "rule": rule, **fit, "density": density}, tensors

    @classmethod
    def read(
        cls, config: Mapping[str, Any], tensors: Tensors, features: Features, where: Any
    ) -> SequentialColumns:
        """Rebuild what `parts` gave."""
        rule = config["rule"]
        each, total = (
            np.inf if rule[name] is None else limit_of(rule[name]) for name in ("each", "total")
        )
        keep, hide = (read_mask(rule[name], len(features)) for name in ("keep", "hide"))
        density = read_density(config["density"], tensors, where)
        return cls(density, Rule(each, total, keep, hide), config["rounds"], config["unsettled"])


def fit_sequential(
    data: learning.LabelledRows,
    standins: Floats32,
    features: Features,
    rule: Rule,
    options: Options,
    *,
    start: Bools | None = None,
    tick: Callable[[float], None] = lambda _: None,
) -> SequentialColumns:
    """Fit the critic on the histories of its own policy until the flags stop changing.

    Args:
        data: the reference rows (n, columns) and their classes.
        standins: (n, columns) every feature hidden.
        features: what the m features are.
        rule: when to hide.
        options: how to fit.
        start: (n, m) flags to start from, those of a similar rule; random ones by default.
        tick: called with the share of the work that is done.
    """
    from lowtide.tables import planning_attackers as learning

    rng = generator(options.seed, "table histories")
    if len(data.codes) > _TRAINING_ROWS:
        index = np.sort(rng.choice(len(data.codes), _TRAINING_ROWS, replace=False))
        data = data.take(index)
        standins = standins[index]
        start = None if start is None else start[index]
    both = learning.LabelledRows(
        np.concatenate([data.rows, standins], axis=1), data.codes, data.classes
    )
    n = len(data.codes)
    m = len(features)
    hidden = (
        (rng.random((n, m)) < rng.random((n, 1))) & ~rule.keep | rule.hide
        if start is None
        else start
    )
    for number in range(1, _ROUNDS + 1):
        patience = learning.PATIENCE if m > learning.WIDE else None
        own = replace(learning.economical(options), seed=options.seed + number, patience=patience)
        part = _part_of(tick, number)
        density, _ = learning.fit_critic(
            both, learning.doubled(features), own, Histories(hidden), part
        )
        if number > 1 and isinstance(density.critic, Null):
            break  # in what this policy leaves, nothing is read: it stays as it is
        policy = SequentialColumns(density, rule, number, 1.0)
        flags = policy.flags(data.rows, standins)
        policy = replace(policy, unsettled=float((flags != hidden).mean()))
        hidden = flags
        part(1.0)
        if policy.unsettled <= _SETTLED:
            break
    return policy


def _part_of(tick: Callable[[float], None], number: int) -> Callable[[float], None]:
    """Progress within round `number`, from 1."""
    return lambda done: tick((number - 1 + done) / _ROUNDS)


def _finite_or_none(limit: float) -> float | None:
    """A threshold as JSON can hold it."""
    return None if np.isinf(limit) else limit
