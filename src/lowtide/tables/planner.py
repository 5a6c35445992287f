"""Tables for the Obfuscator: reference rows laid out, a policy for them, and what may be promised
of it.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from lowtide.disclose.card import Feature, ReleaseCard
from lowtide.disclose.certificate import (
    Certificate,
    certify_fixed,
    certify_paper,
    certify_redraw,
    certify_sequential,
    safe_prior,
)
from lowtide.disclose.check import Check
from lowtide.disclose.membership import membership
from lowtide.disclose.noise import KEY_BYTES, KeyedNoise
from lowtide.disclose.raw_past import RawPast
from lowtide.disclose.rehearsal import Goal, Rehearsal, Task, Tick, read_secret, read_utility
from lowtide.errors import LowtideError, note
from lowtide.estimate.fitting import read_features
from lowtide.extras import need_torch
from lowtide.features import Features
from lowtide.labels import Classes
from lowtide.splits import stream
from lowtide.tables.encoder import TableEncoder, is_frame, read_table
from lowtide.tables.grouping import find_functions, group_columns, groups_of, owner_names
from lowtide.tables.hider import TableHider, names_of
from lowtide.tables.layout import bounded, column_names, owners
from lowtide.tables.mechanism import TableMechanism
from lowtide.tables.merge_planning import MERGED_JUDGING, plan_merges
from lowtide.tables.merge_problem import MergeProblem
from lowtide.tables.planning_attackers import LabelledRows
from lowtide.tables.policies import ColumnPolicy, FixedColumns
from lowtide.tables.problem import TableProblem, keep_share, make_plan, make_sequential, refuse_few
from lowtide.tables.redraw_planning import fill_hidden, rehearse_redraw
from lowtide.tables.settings import check_task, read_merges
from lowtide.types import Bools

_PAPER_NOISE = 1.0  # λ of the paper's experiments


@dataclass(frozen=True, eq=False)
class TablePlanner:
    """Reference rows laid out for a task; see `disclose.rehearsal.Planner`.

    Attributes:
        task: what was asked for.
        problem: the rows, features and mechanism.
        x: the table as it was given, for the density of a rule that looks at the raw past.
        s: the secret as it was given.
    """

    task: Task
    problem: TableProblem
    x: Any = field(repr=False)
    s: ArrayLike = field(repr=False)

    @classmethod
    def read(
        cls,
        x: Any,
        s: ArrayLike,
        task: Task,
        *,
        groups: ArrayLike | None = None,
        utility: ArrayLike | str | None = None,
    ) -> TablePlanner:
        """Check what was given and lay it out.

        Args:
            x: n rows: an array, a tensor or a data frame.
            s: (n,) the secret of every row.
            task: what was asked for.
            groups: must be `None`.
            utility: (n,) what the release should still tell, or the name of a column.
        """
        check_task(task)
        if task.mechanism == "merge" and not is_frame(x):
            raise LowtideError(
                "merged columns hold text, so mechanism='merge' needs a data frame with named"
                " columns"
            )
        if groups is not None:
            raise LowtideError(
                "groups are not kept apart when tables are planned; leave groups out"
            )
        if sparse.issparse(x):
            raise LowtideError("Obfuscator needs dense rows, and X is sparse; give X.toarray()")
        refuse_secret_inside(x, s)
        rows, encoder = read_table(x)
        classes, codes = read_secret(s, len(rows), "rows")
        refuse_few(rows, codes)
        task, features = group(task, encoder, x)
        keep = named(listed(task.keep), features, "keep")
        hide = named(listed(task.hide), features, "hide")
        if (keep & hide).any():
            raise LowtideError(
                f"{', '.join(_names(features, keep & hide))} cannot be both kept and hidden; choose"
            )
        mechanism = _mechanism(task, encoder, features, rows, classes)
        options = task.tide._options()
        key = stream(options.seed, "table rehearsal").generate_state(KEY_BYTES // 4).tobytes()
        data = LabelledRows(rows, codes, classes)
        shown = x if is_frame(x) or hasattr(x, "detach") else np.asarray(x)
        problem = TableProblem(
            data,
            features,
            mechanism,
            options,
            keep,
            hide,
            KeyedNoise(key),
            epsilon=task.stated_at,
            table=shown,
        )
        if task.certify is not None:
            share = MERGED_JUDGING if task.mechanism == "merge" else problem.judging
            problem = replace(problem, confidence=task.certify, judging=share)
        if utility is not None:
            useful, own = _useful(x, problem, utility)
            problem = replace(problem, utility=useful, utility_feature=own)
        return cls(task, problem, x, s)

    @property
    def classes(self) -> Classes:
        """The values of the secret and their prior."""
        return self.problem.data.classes

    @property
    def width(self) -> int:
        """How many columns the table has."""
        return len(self.problem.mechanism.encoder.categories)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its columns; none of an array."""
        return self.problem.mechanism.encoder.names

    @property
    def judging(self) -> Bools:
        """(n,) the rows that judge the release."""
        return self.problem.judged

    @property
    def judges(self) -> int:
        """How many they are."""
        return int(self.judging.sum())

    def rehearse(self, goal: Goal | None, tick: Tick) -> Rehearsal:
        """Plan, and attack a rehearsal of the release."""
        ways = {"fixed": self._fixed, "redraw": self._redraw, "sequential": self._sequential}
        return ways[self.task.policy](goal, tick)

    def hider(self, rehearsal: Rehearsal, card: ReleaseCard) -> TableHider:
        """The frozen result."""
        return TableHider(rehearsal.policy, rehearsal.mechanism, card)

    def _fixed(self, goal: Goal | None, tick: Tick) -> Rehearsal:
        policy, check, problem = self._plan(goal, tick)
        mechanism = problem.mechanism
        if self.task.settings.fill == "redraw":
            policy = replace(policy, fill=fill_hidden(self.problem, self.x, policy.hidden))
        answers = [
            answer for j in np.flatnonzero(policy.hidden) for answer in mechanism.responses(int(j))
        ]
        certificate = certify_fixed(
            self.task.stated_at,
            self.classes.prior,
            ratios=mechanism.ratios(),
            hidden=policy.hidden,
            responses=answers,
            rows=len(self.problem.data.codes),
            merged=mechanism.merging is not None and bool(mechanism.merging.columns),
        )
        return self._rehearsal(policy, check, problem, certificate)

    def _plan(self, goal: Goal | None, tick: Tick) -> tuple[FixedColumns, Check, TableProblem]:
        """What to hide from everybody, and the table with what was merged."""
        problem = self.problem
        looks = itertools.count(1)
        if goal is None:
            return (
                *keep_share(problem, 1.0 if self.task.kept is None else self.task.kept, tick),
                problem,
            )
        if self.task.mechanism != "merge":
            return *make_plan(problem, goal, looks, tick), problem
        said = read_merges(self.task.settings, problem.mechanism.encoder)
        found = plan_merges(MergeProblem(problem, said), goal, looks, tick)
        return found.policy, found.check, found.problem

    def _redraw(self, goal: Goal | None, tick: Tick) -> Rehearsal:
        problem = self.problem
        budget = self.task.row_budget
        if self.task.kept is not None:
            raise LowtideError(
                "redraw of tables takes a budget for a row, not a share to keep, got kept ="
                f" {self.task.kept}: leave kept out, or choose policy='fixed' (--policy fixed)"
            )
        rows = len(problem.data.codes)
        kept = bool(problem.keep.any())
        found = rehearse_redraw(problem, self.x, budget, lambda done: tick(0.9 * done))
        for remedy in found.remedies:
            note(f"{remedy}.")
        certificate = certify_redraw(
            self.task.stated_at,
            self.classes.prior,
            budget=budget,
            kept=kept,
            told=(
                max(one.most for one in found.policy.told),
                max(one.mean for one in found.policy.told),
            ),
            rows=rows,
        )
        shares = zip(problem.features.names, found.changed.mean(axis=0), strict=True)
        return Rehearsal(
            found.policy,
            problem.mechanism,
            found.check,
            certificate,
            features=tuple(Feature(*pair) for pair in shares),
            rows=rows,
            changed=float(
                found.changed[:, owners(problem.mechanism.encoder, problem.features)].mean()
            ),
            described="redraw",
            parameters={
                "row budget, nats": budget,
                "order": found.order,
                "passes": len(found.policy.columns.passes),
                "keep": listed(self.task.keep),
                "hide": found.hidden,
                "surface": tuple(map(str, found.remedies)),
                "rounded": tuple(own.name for own in found.policy.columns.coded if own.grain > 0),
                "together": groups_of(problem.features, problem.mechanism.encoder),
            },
        )

    def _sequential(self, goal: Goal | None, tick: Tick) -> Rehearsal:
        if self.task.past == "raw":
            return self._raw_past()
        problem = self.problem
        mechanism = self.problem.mechanism
        prior = self.classes.prior
        need_torch("policy='sequential'")
        policy, check = make_sequential(problem, goal, self.task.epsilon, tick)
        running = bool(np.isfinite(policy.rule.total))
        each = 0.0 if self.task.epsilon is None else self.task.epsilon
        term = membership(
            policy.flags(problem.data.rows, problem.standins),
            problem.data.codes,
            ratios=mechanism.ratios(),
            epsilon=each,
            classes=len(prior),
            responses=[mechanism.responses(j) for j in range(len(problem.features))],
        )
        total = policy.rule.total if running else each
        certificate = certify_sequential(
            total,
            prior,
            features=len(problem.features),
            membership=term,
            running=running,
            kept=bool(problem.keep.any()),
            rows=len(problem.data.codes),
        )
        return self._rehearsal(policy, check, problem, certificate)

    def _raw_past(self) -> Rehearsal:
        problem = self.problem
        mechanism = self.problem.mechanism
        density = self.task.tide.fit(self.x, self.s).artefact
        # The policy is asked about encoded rows.
        plain = replace(density, encoder=TableEncoder((), (None,) * len(density.features.groups)))
        policy = RawPast(plain, self.task.threshold, problem.keep, problem.hide)
        # In units of the ranges every column lies in [0, 1], where radius and diameter are both
        # √columns.
        radii = mechanism.ratios() * (mechanism.lam or 1.0)
        n = len(problem.data.codes)
        scale = mechanism.lam or np.inf
        certificate = certify_paper(
            policy.epsilon, self.classes.prior, radii=radii, scale=scale, rows=n
        )
        check = problem.check(policy.flags(problem.data.rows, problem.standins))
        return self._rehearsal(policy, check, problem, certificate)

    def _rehearsal(
        self, policy: ColumnPolicy, check: Check, problem: TableProblem, certificate: Certificate
    ) -> Rehearsal:
        """What the card says of the rehearsed release of the reference rows."""
        mechanism = problem.mechanism
        task = self.task
        flags = policy.flags(problem.data.rows, problem.standins)
        features = problem.features
        given = bounded(self.problem.mechanism.encoder, task.settings.ranges)
        names = column_names(mechanism.encoder)
        cells = flags[:, owners(mechanism.encoder, features)]
        merging = mechanism.merging
        coarser = np.array([merging is not None and name in merging.columns for name in names])
        # Row by row any column may be hidden in later data.
        noisy = [
            j
            for j, kind in enumerate(mechanism.kinds)
            if kind == "gaussian" and (task.policy != "fixed" or cells[:, j].any())
        ]
        return Rehearsal(
            policy,
            mechanism,
            check,
            certificate,
            features=tuple(
                Feature(*pair) for pair in zip(features.names, flags.mean(axis=0), strict=True)
            ),
            rows=len(flags),
            changed=float((cells | coarser).mean()),
            described=task.mechanism,
            parameters={
                **({} if merging is None else merging.on_card()),
                "delta": task.delta,
                "lam": mechanism.lam,
                "ranges_learnt": tuple(names[j] for j in noisy if j not in given),
                "categorical": task.settings.categorical,
                "fill": task.settings.fill if isinstance(task.settings.fill, str) else None,
                "keep": listed(task.keep),
                "hide": listed(task.hide),
                "together": groups_of(features, mechanism.encoder),
            },
        )


def group(task: Task, encoder: TableEncoder, x: Any) -> tuple[Task, Features]:
    """What the features of a table are, and the task with what it keeps and hides named as these
    are.
    """
    features = group_columns(
        read_features(task.tide.features, encoder), encoder, task.settings.together
    )
    keep, hide = (owner_names(listed(names), features, encoder) for names in (task.keep, task.hide))
    if task.policy == "redraw":
        locked = named(keep, features, "keep") + 2 * named(hide, features, "hide")
        features, _ = find_functions(features, encoder, x, locked[owners(encoder, features)])
        keep, hide = (
            owner_names(listed(names), features, encoder) for names in (task.keep, task.hide)
        )
    return replace(task, keep=keep, hide=hide), features


def _mechanism(
    task: Task, encoder: TableEncoder, features: Features, rows: Any, classes: Classes
) -> TableMechanism:
    """How hidden features are disclosed."""
    unscaled = task.past == "raw" and task.lam is None and task.delta is None
    return TableMechanism.build(
        encoder,
        features,
        rows,
        kind="gaussian" if task.mechanism == "gaussian" else "redact",
        categorical=task.settings.categorical,
        lam=_PAPER_NOISE if unscaled else task.lam,
        # Without δ, ε is the threshold of the policy and no promise about noise.
        epsilon=None if task.delta is None else task.epsilon,
        delta=task.delta,
        prior=safe_prior(classes.prior, len(rows)),
        bounds=task.settings.ranges,
        fill=task.settings.blank,
        keep=listed(task.keep),
    )


def refuse_secret_inside(x: Any, s: Any) -> None:
    """Refuse a table that still holds the secret's own column."""
    name = getattr(s, "name", None)
    if isinstance(name, str) and name in names_of(x):
        raise LowtideError(
            f"the secret {name!r} is still a column of the data; drop it before hiding the rest"
        )


def named(names: Sequence[str], features: Features, option: str) -> Bools:
    """The mask (m,) of features given by name; `option` is what the caller calls the list."""
    mask = np.zeros(len(features), dtype=bool)
    for name in names:
        if name not in features.names:
            near = difflib.get_close_matches(str(name), features.names, n=1)
            raise LowtideError(
                f"{option} names {name!r}, which is not a feature; "
                + (
                    f"did you mean {near[0]!r}?"
                    if near
                    else f"the features are {', '.join(features.names[:20])}"
                )
            )
        mask[features.names.index(name)] = True
    return mask


def listed(names: Sequence[str]) -> tuple[str, ...]:
    """Names as a tuple; a single one is a list of one."""
    return (names,) if isinstance(names, str) else tuple(names)


def _useful(x: Any, problem: TableProblem, utility: ArrayLike | str) -> tuple[LabelledRows, Bools]:
    """The rows with the classes of what they should still tell, and the mask (m,) of the utility's
    own column.

    A column does not count towards telling itself.
    """
    rows = problem.data.rows
    own_feature = np.zeros(len(problem.features), dtype=bool)
    if isinstance(utility, str):
        encoder = problem.mechanism.encoder
        own = named([utility], Features(np.arange(len(encoder.names)), encoder.names), "utility")
        rows = np.where(np.repeat(own, encoder.widths), np.float32(0), rows)
        own_feature[owners(encoder, problem.features)[own]] = True
        utility = np.asarray(nw.from_native(x, eager_only=True)[utility].to_list())
    classes, codes = read_utility(utility, len(rows), "rows")
    return LabelledRows(rows, codes, classes), own_feature


def _names(features: Features, mask: Bools) -> list[str]:
    return [name for name, chosen in zip(features.names, mask, strict=True) if chosen]
