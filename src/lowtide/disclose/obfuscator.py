"""The Obfuscator: learn what to hide from reference data, then hide it in any data of the same columns."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from lowtide.density.artefact import Density
from lowtide.density.fitting import read_features
from lowtide.density.tide import TIDE
from lowtide.disclose.budget import Budget
from lowtide.disclose.card import Feature, ReleaseCard
from lowtide.disclose.certificate import Certificate, certify_disclosed, certify_paper, certify_plan
from lowtide.disclose.keys import open_noise
from lowtide.disclose.membership import membership
from lowtide.disclose.noise import KEY_BYTES, KeyedNoise
from lowtide.errors import LowtideError, one_of, within
from lowtide.features import Features
from lowtide.labels import is_vector, read_classes
from lowtide.progress import progress_bar
from lowtide.tables.encoder import TableEncoder, read_table
from lowtide.tables.hider import TableHider, names_of
from lowtide.tables.layout import column_names, constants, owners
from lowtide.tables.mechanism import TableMechanism
from lowtide.tables.mixed_mechanism import soften
from lowtide.tables.planning_attackers import LabelledRows
from lowtide.tables.policies import ColumnPolicy, FixedColumns, PaperColumns
from lowtide.tables.problem import Check, TableProblem, Tick, make_plan, make_sequential, refuse_few
from lowtide.tables.sequential import SequentialColumns
from lowtide.types import Bools

PolicyName = Literal["plan", "disclosed", "paper"]
MechanismName = Literal["redact", "gaussian", "mixed"]
_BUDGET = 0.01  # nats
_PAPER_EPSILON = 0.5
_PAPER_NOISE = 1.0
_MOST_LABELS = 10  # numbers with more values are measured, not counted
_STATED_AT = 0.1  # the ε of bounds, when none is given
_ROOM = 0xD15C  # rehearsals share no random numbers with data drawn with the same seed


class Obfuscator(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Hide what tells a secret, and only that.

    `fit(X, s)` learns from reference data which features to hide, attacks a rehearsal of the release afresh, and
    writes the release card. `transform(X)` hides them: same kind of table, same columns, names and dtypes.

    Args:
        estimator: a `TIDE` whose options (features, trim, steps, seed …) the critics take; by default `TIDE()`.
        policy: `plan` hides the same features for everybody; `disclosed` goes through the features of each row and
            hides what tells too much given what the row has already disclosed; `paper` looks at the raw row, and is
            here to reproduce the paper.
        mechanism: what hiding does: `redact`; `gaussian` noise on numbers; or `mixed`, where `plan` redacts and then
            gives numbers back with the least noise that keeps the budget.
        budget: how much the whole release may tell: nats, `Budget.bits(…)`, `Budget.accuracy(…)`, or a text such as
            `"0.03bits"`. By default 0.01 nat, unless `disclosed` is given an `epsilon`.
        epsilon: for `paper` and `disclosed`, the largest density of a feature that is shown; also the ε at which
            noise is calibrated and bounds are stated (0.1 by default).
        delta: with `epsilon`, calibrates the noise: even everything hidden together keeps (ε, δ).
        lam: the scale of the noise in units of each column's range, instead of (ε, δ); `mixed` finds it by itself.
        keep: names of features that must be released as they are.
        hide: names of features that must be hidden.
        bounds: the valid range of numeric columns, a pair for all or one per name; by default that of the reference
            data. Values are clipped to it.
        categorical: how `gaussian` hides categories: `redact`, or `response` for randomised response.
        fill: what a redacted number becomes.
        key_file: where the key of the noise is kept, made when it does not exist; by default nowhere.
        progress: whether to draw progress bars; by default only on a terminal.
        random_state: the seed of everything but the noise of the release; an estimator that is given has its own.

    Attributes:
        policy_: the fitted policy: a `FixedColumns`, a `SequentialColumns` or a `PaperColumns`.
        mechanism_: how hidden features are disclosed.
        check_: what fresh attackers made of the rehearsal.
        leakage_: the estimated leakage of the release, with its interval.
        card_: the release card.
        hider_: all that `transform` needs but the key, frozen; `hider_.save(path)` keeps it.
        n_features_in_: columns of X.
    """

    def __init__(
        self,
        estimator: TIDE | None = None,
        policy: PolicyName = "plan",
        mechanism: MechanismName = "redact",
        *,
        budget: Budget | float | str | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
        lam: float | None = None,
        keep: Sequence[str] = (),
        hide: Sequence[str] = (),
        bounds: Mapping[str, tuple[float, float]] | tuple[float, float] | None = None,
        categorical: Literal["redact", "response"] = "redact",
        fill: float = 0.0,
        key_file: str | None = None,
        progress: bool | None = None,
        random_state: int = 0,
    ) -> None:
        self.estimator = estimator
        self.policy = policy
        self.mechanism = mechanism
        self.budget = budget
        self.epsilon = epsilon
        self.delta = delta
        self.lam = lam
        self.keep = keep
        self.hide = hide
        self.bounds = bounds
        self.categorical = categorical
        self.fill = fill
        self.key_file = key_file
        self.progress = progress
        self.random_state = random_state

    def fit(
        self,
        X: Any,  # noqa: N803 - scikit-learn's name
        y: ArrayLike | None = None,
        *,
        utility: ArrayLike | str | None = None,
    ) -> Obfuscator:
        """Learn what to hide.

        Args:
            X: reference rows: an array, a tensor or a data frame.
            y: the secret of every row, finitely many values.
            utility: something that the release should still tell, one value per row: labels, or numbers, which are
                put into four equal bins; or the name of a column of X, to be told by the others. `plan` then keeps
                what carries it, rather than as many columns as possible.
        """
        problem = self._read(X, y)
        if utility is not None:
            useful, prized = _useful(X, problem, utility)
            problem = replace(problem, utility=useful, prized=prized)
        with progress_bar("deciding what to hide", 100, self.progress) as tick:
            self.policy_, self.check_, self.mechanism_ = self._decide(problem, X, y, lambda done: tick(int(100 * done)))
        self.leakage_, problem = self.check_.leakage, replace(problem, mechanism=self.mechanism_)
        self._noise = open_noise(self.key_file) if problem.mechanism.draws else None
        flags = self.policy_.flags(problem.data.rows, problem.standins)
        self.card_ = self._card(problem, flags)
        self.hider_ = TableHider(self.policy_, self.mechanism_, self.card_)
        return self

    def transform(self, X: Any, *, ids: Any = None) -> Any:  # noqa: N803
        """Hide in X what the policy says.

        Args:
            X: rows with the columns of the reference data.
            ids: one value per row that stays with the row; needed where noise is drawn, which is keyed by it.
        """
        check_is_fitted(self, "hider_")
        return self.hider_.transform(X, noise=self._noise, ids=ids)[0]

    def fit_transform(self, X: Any, y: ArrayLike | None = None, *, ids: Any = None) -> Any:  # noqa: N803
        """Learn what to hide, and hide it in the same rows."""
        return self.fit(X, y).transform(X, ids=ids)

    def flags(self, X: Any, *, ids: Any = None) -> Bools:  # noqa: N803
        """What is hidden of each row, (n, m)."""
        check_is_fitted(self, "hider_")
        return self.hider_.flags(X, noise=self._noise, ids=ids)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """The names of the columns, which stay as they are."""
        check_is_fitted(self, "policy_")
        return np.array(column_names(self.mechanism_.encoder), dtype=object)

    def _read(self, x: Any, s: ArrayLike | None) -> TableProblem:
        """Check what was given and lay it out."""
        one_of("policy", self.policy, ("plan", "disclosed", "paper"))
        one_of("mechanism", self.mechanism, ("redact", "gaussian", "mixed"))
        if self.mechanism == "mixed" and (self.policy != "plan" or self.delta is not None):
            raise LowtideError("mechanism='mixed' is for policy='plan', and takes lam or nothing; leave delta out")
        if self.epsilon is not None:
            within("epsilon", self.epsilon, 0.0, np.inf, high_open=True)
        if self.policy == "paper" and self.budget is not None:
            raise LowtideError("policy='paper' keeps no budget; leave budget out, or use 'plan' or 'disclosed'")
        if s is None:
            raise LowtideError("Obfuscator requires y to be passed, but the target y is None: give the secret")
        if sparse.issparse(x):
            raise LowtideError("Obfuscator needs dense rows, and X is sparse; give X.toarray()")
        refuse_secret_inside(x, s)
        rows, encoder = read_table(x)
        self.n_features_in_ = len(encoder.categories)
        if encoder.names:
            self.feature_names_in_ = np.array(encoder.names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        shape = np.asarray(s).shape
        if shape[:1] != (len(rows),):
            raise LowtideError(f"X has {len(rows)} rows and s has shape {shape}; they must match")
        if is_vector(s):
            raise LowtideError("the secret is a vector of numbers; hiding needs finitely many values: put it into bins")
        classes, codes = read_classes(s)
        refuse_few(rows, codes)
        tide = self._tide()
        features = read_features(tide.features, encoder)
        keep, hide = named(_list(self.keep), features, "keep"), named(_list(self.hide), features, "hide")
        if (keep & hide).any():
            raise LowtideError(f"{', '.join(_names(features, keep & hide))} cannot be both kept and hidden; choose")
        mechanism = self._mechanism(encoder, features, rows, classes.prior)
        options = tide._options()
        key = np.random.SeedSequence([options.seed, _ROOM]).generate_state(KEY_BYTES // 4).tobytes()
        return TableProblem(
            LabelledRows(rows, codes, classes), features, mechanism, options, keep, hide, KeyedNoise(key)
        )

    def _mechanism(self, encoder: TableEncoder, features: Features, rows: Any, prior: Any) -> TableMechanism:
        """How hidden features are disclosed; `mixed` begins with redaction."""
        return TableMechanism.build(
            encoder,
            features,
            rows,
            kind="gaussian" if self.mechanism == "gaussian" else "redact",
            categorical=self.categorical,
            lam=_PAPER_NOISE if self.policy == "paper" and self.lam is None and self.delta is None else self.lam,
            # Without δ, ε is the threshold of the policy and no promise about noise.
            epsilon=None if self.delta is None else self.epsilon,
            delta=self.delta,
            prior=prior,
            bounds=self.bounds,
            fill=self.fill,
            keep=_list(self.keep),
        )

    def _noisy(self, problem: TableProblem) -> TableMechanism:
        """For `mixed`: noise on every number that has a range."""
        encoder, features, rows = problem.mechanism.encoder, problem.features, problem.data.rows
        flat = constants(encoder, features, rows, self.bounds)
        return TableMechanism.build(
            encoder, features, rows, kind="gaussian", lam=1.0, bounds=self.bounds, fill=self.fill, keep=flat
        )

    def _tide(self) -> TIDE:
        if self.estimator is not None and not isinstance(self.estimator, TIDE):
            raise LowtideError(f"estimator must be a TIDE, got {type(self.estimator).__name__}")
        tide = TIDE() if self.estimator is None else clone(self.estimator)
        return tide.set_params(random_state=self.random_state) if self.estimator is None else tide

    def _decide(self, problem: TableProblem, x: Any, s: Any, tick: Tick) -> tuple[ColumnPolicy, Check, TableMechanism]:
        budget = None if self.budget is None else Budget.read(self.budget)
        if self.policy == "paper":
            epsilon = _PAPER_EPSILON if self.epsilon is None else float(self.epsilon)
            policy = PaperColumns(self._fit_tide(x, s), epsilon, problem.keep, problem.hide)
            return policy, problem.check(policy.flags(problem.data.rows, problem.standins)), problem.mechanism
        if budget is None and (self.policy == "plan" or self.epsilon is None):
            budget = Budget(_BUDGET)
        if budget is not None:
            budget.check(problem.data.classes.prior)
        if self.policy == "plan":
            return self._plan(problem, budget or Budget(_BUDGET), tick)
        return *make_sequential(problem, budget, self.epsilon, tick), problem.mechanism

    def _plan(self, problem: TableProblem, budget: Budget, tick: Tick) -> tuple[FixedColumns, Check, TableMechanism]:
        if self.mechanism != "mixed":
            return *make_plan(problem, budget, tick), problem.mechanism
        plan, check = make_plan(problem, budget, lambda done: tick(0.8 * done))
        mechanism, softer, points = soften(
            problem,
            self._noisy(problem),
            plan.hidden,
            budget,
            lam=None if self.lam is None else float(self.lam),
            tick=lambda done: tick(0.8 + 0.2 * done),
        )
        return replace(plan, curve=(*plan.curve, *points)), softer or check, mechanism

    def _fit_tide(self, x: Any, s: ArrayLike) -> Density:
        artefact = self._tide().fit(x, s).artefact
        if not isinstance(artefact, Density):
            raise LowtideError("the paper's policy needs a finite secret")  # cannot happen: its classes were read
        # The policy is asked about encoded rows.
        return replace(artefact, encoder=TableEncoder((), (None,) * len(artefact.features.groups)))

    def _card(self, problem: TableProblem, flags: Bools) -> ReleaseCard:
        """The card of the rehearsed release of the reference rows."""
        owner = owners(problem.mechanism.encoder, problem.features)
        attacks = self.check_.attacks
        return ReleaseCard(
            mechanism=self.mechanism,
            certificate=self._certificate(problem, flags),
            features=tuple(Feature(*pair) for pair in zip(problem.features.names, flags.mean(axis=0), strict=True)),
            rows=len(flags),
            classes=len(problem.data.classes.labels),
            largest_class=float(problem.data.classes.prior.max()),
            changed=float(flags[:, owner].mean()),
            leakage=self.leakage_,
            attacks=(attacks.guess, *attacks.retrained),
            parameters={
                "budget": str(Budget.read(self.budget)) if self.budget is not None else None,
                "epsilon": self.epsilon,
                "delta": self.delta,
                "lam": problem.mechanism.lam,
                "noised": self._noised(problem),
                "categorical": self.categorical,
                "keep": _list(self.keep),
                "hide": _list(self.hide),
            },
        )

    def _noised(self, problem: TableProblem) -> tuple[str, ...]:
        """The features that `mixed` noises; the other hidden ones are redacted."""
        return tuple(_names(problem.features, problem.mechanism.ratios() > 0)) if self.mechanism == "mixed" else ()

    def _certificate(self, problem: TableProblem, flags: Bools) -> Certificate:
        mechanism, prior = problem.mechanism, problem.data.classes.prior
        epsilon = _STATED_AT if self.epsilon is None else float(self.epsilon)
        if isinstance(self.policy_, FixedColumns):
            hidden = self.policy_.hidden
            answers = [answer for j in np.flatnonzero(hidden) for answer in mechanism.responses(int(j))]
            return certify_plan(epsilon, prior, ratios=mechanism.ratios(), hidden=hidden, responses=answers)
        if isinstance(self.policy_, PaperColumns):
            # In units of the ranges every column lies in [0, 1], where radius and diameter are both √columns.
            radii = mechanism.ratios() * (mechanism.lam or 1.0)
            return certify_paper(self.policy_.epsilon, prior, radii=radii, scale=mechanism.lam or np.inf)
        if not isinstance(self.policy_, SequentialColumns):
            raise LowtideError("this policy has no certificate")  # cannot happen: there are three policies
        rule, running = self.policy_.rule, np.isfinite(self.policy_.rule.total)
        each = 0.0 if self.epsilon is None else epsilon
        term = membership(
            flags,
            problem.data.codes,
            ratios=mechanism.ratios(),
            epsilon=each,
            classes=len(prior),
            responses=[mechanism.responses(j) for j in range(len(problem.features))],
        )
        total = rule.total if running else each
        return certify_disclosed(total, prior, features=len(problem.features), membership=term, running=bool(running))

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn that a secret is required."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def refuse_secret_inside(x: Any, s: Any) -> None:
    """Refuse a table that still holds the secret's own column."""
    name = getattr(s, "name", None)
    if isinstance(name, str) and name in names_of(x):
        raise LowtideError(f"the secret {name!r} is still a column of the data; drop it before hiding the rest")


def named(names: Sequence[str], features: Features, option: str) -> Bools:
    """The mask (m,) of features given by name."""
    mask = np.zeros(len(features), dtype=bool)
    for name in names:
        if name not in features.names:
            near = difflib.get_close_matches(str(name), features.names, n=1)
            raise LowtideError(
                f"{option} names {name!r}, which is not a feature; "
                + (f"did you mean {near[0]!r}?" if near else f"the features are {', '.join(features.names[:20])}")
            )
        mask[features.names.index(name)] = True
    return mask


def _list(names: Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _useful(x: Any, problem: TableProblem, utility: ArrayLike | str) -> tuple[LabelledRows, Bools]:
    """The rows with what they should still tell as classes, and the feature (m,) that is that itself.

    A column does not count towards telling itself.
    """
    rows, prized = problem.data.rows, np.zeros(len(problem.features), dtype=bool)
    if isinstance(utility, str):
        encoder = problem.mechanism.encoder
        own = named([utility], Features(np.arange(len(encoder.names)), encoder.names), "utility")
        rows = np.where(np.repeat(own, encoder.widths), np.float32(0), rows)
        prized[owners(encoder, problem.features)[own]] = True
        utility = np.asarray(nw.from_native(x, eager_only=True)[utility].to_list())
    values = np.asarray(utility)
    if values.shape != (len(rows),):
        raise LowtideError(f"X has {len(rows)} rows and utility has shape {values.shape}; give one value per row")
    if values.dtype.kind in "iuf" and len(np.unique(values)) > _MOST_LABELS:
        if not np.isfinite(values).all():
            raise LowtideError("utility has entries that are NaN or infinite; fill or drop those rows first")
        values = np.searchsorted(np.quantile(values, (0.25, 0.5, 0.75)), values)
    classes, codes = read_classes(values)
    return LabelledRows(rows, codes, classes), prized


def _names(features: Features, mask: Bools) -> list[str]:
    return [name for name, chosen in zip(features.names, mask, strict=True) if chosen]
