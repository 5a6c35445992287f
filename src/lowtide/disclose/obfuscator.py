"""The Obfuscator: learn what to hide from reference data, then hide it in any data of the same
layout.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from lowtide import modalities
from lowtide.checks import LowtideError, one_of, within
from lowtide.disclose.aim import Aim
from lowtide.disclose.budget import Budget
from lowtide.disclose.certificate import Past, PolicyName
from lowtide.disclose.noise import open_noise
from lowtide.disclose.rehearsal import Goal, Planner, Task
from lowtide.disclose.standing import Standing
from lowtide.doc_links import Documented
from lowtide.errors import note
from lowtide.estimate.tide import TIDE
from lowtide.progress import progress_bar
from lowtide.protocols import Modality
from lowtide.training import computing_on


class Obfuscator(Documented, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Hide what tells a secret, and only that: columns of tables, patches of images, words of
    texts.

    `fit(X, s)` learns from reference data which features to hide, attacks a rehearsal of the
    release afresh, and writes the release card. `transform(X)` hides them; all else stays as it is:
    a table has the same columns, names and dtypes, an image the same pixels, a text the same bytes.

    Args:
        estimator: a `TIDE` whose options (features, trim, steps, device, seed …) the critics take;
            by default `TIDE()`. Attackers are trained on its device, too. Its `features` say what
            may be hidden: of images the side of a patch, 8 by default; of texts what counts as a
            term, by default words that occur twice or more.
        policy: `fixed` hides the same features for everybody; `redraw` (data frames, images, texts)
            keeps each value as often as its density allows and draws others in place of the rest;
            `sequential` (tables and images) goes through the features of each sample and hides what
            tells too much given its features before, see `past`.
        mechanism: what hiding does. Tables: `redact`; `gaussian` noise on numbers; or `merge`,
            where `fixed` makes columns coarser: bands of numbers, joined categories. Images:
            `redact` paints a patch over, `gaussian` adds noise to its pixels, which averages out
            over many pixels. Texts: `drop` leaves words out, `mask` writes one mark for all,
            `replace` draws another term for each. By default the first of each.
        budget: how much the whole release may tell: nats, `Budget.bits(…)`, `Budget.accuracy(…)`,
            or a text such as `"0.03bits"` or `"65%"`. By default 0.01 nat for tables and 0.05 for
            images and texts, unless `sequential` is given an `epsilon`.
        past: what `sequential` takes the features before to be: `disclosed`, as the sample's
            release shows them (tables and images), or `raw`, as they are: the paper's rule, which
            promises nothing.
        kept: the share of columns, pixels or words to keep, instead of a budget; for `fixed`, and
            of texts for `redraw`.
        epsilon: for `sequential`, the largest density of a feature that is shown; also the ε at
            which noise is calibrated and bounds are stated (0.1 by default).
        delta: tables: with `epsilon`, calibrates the noise: even everything hidden together keeps
            (ε, δ); with `certify`, (ε, δ) is the budget that the whole release keeps.
        lam: the scale of the noise in units of a column's range, or of the pixel range.
        keep: features that must be released: names of columns; numbers of patches, row by row from
            the upper left, a mask (m,), or boxes `"x,y,w,h"` in pixels, which stand for all patches
            they touch; terms.
        hide: features that must be hidden, likewise.
        certify: tables, `fixed` with `redact` or `merge`: keep the budget against every attacker
            with this confidence, such as 0.95, by a bound from counts rather than by an estimate.
            Columns with many values are then hidden, or merged.
        strict: refuse anything but a budget that is kept: few rows before the long work, else the
            outcome.
        settings: what only one kind of data has: a `TableSettings`, an `ImageSettings` or a
            `TextSettings`.
        key_file: where the key of the noise is kept, made when it does not exist; by default
            nowhere.
        progress: whether to draw progress bars; by default only on a terminal.
        random_state: the seed of everything but the noise of the release; an estimator that is
            given has its own.

    Attributes:
        policy_: the fitted policy of the kind, such as a `FixedColumns`.
        mechanism_: how hidden features are disclosed.
        check_: what fresh attackers made of the rehearsal.
        leakage_: the estimated leakage of the release, with its interval; `None` for images and
            texts, which have no estimate of their own: there `check_.attacks` bounds it from below.
        card_: the release card.
        hider_: all that `transform` needs but the key, frozen; `hider_.save(path)` keeps it.
        n_features_in_: columns of a table, numbers in an image, terms of the vocabulary of texts.
    """

    def __init__(
        self,
        estimator: TIDE | None = None,
        policy: PolicyName = "fixed",
        mechanism: str | None = None,
        *,
        budget: Budget | float | str | None = None,
        past: Past = "disclosed",
        kept: float | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
        lam: float | None = None,
        keep: Any = (),
        hide: Any = (),
        certify: float | None = None,
        strict: bool = False,
        settings: Any = None,
        key_file: str | None = None,
        progress: bool | None = None,
        random_state: int = 0,
    ) -> None:
        self.estimator = estimator
        self.policy = policy
        self.mechanism = mechanism
        self.budget = budget
        self.past = past
        self.kept = kept
        self.epsilon = epsilon
        self.delta = delta
        self.lam = lam
        self.keep = keep
        self.hide = hide
        self.certify = certify
        self.strict = strict
        self.settings = settings
        self.key_file = key_file
        self.progress = progress
        self.random_state = random_state

    def fit(
        self,
        X: Any,  # noqa: N803 - scikit-learn's name
        y: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
        utility: ArrayLike | str | None = None,
    ) -> Obfuscator:
        """Learn what to hide.

        Args:
            X: n reference samples: a table (an array, a tensor or a data frame), images (`Images`,
                or bytes (n, height, width) or (n, height, width, channels)), or texts (a list or a
                column).
            y: (n,) the secret of every sample, finitely many values.
            groups: (n,) texts of one group, such as an author's and copies, stay on one side
                whenever texts are held out; of texts only.
            utility: (n,) something that the release should still tell: labels, or numbers, which
                are put into four equal bins; or the name of a column of a table, to be told by the
                others. `fixed` then keeps what carries it, rather than as much as possible.
        """
        modality = modalities.of(X)
        task = self._task(modality)
        if y is None:
            raise LowtideError(
                "Obfuscator requires y to be passed, but the target y is None: give the secret"
            )
        if utility is not None and task.policy not in ("fixed", "redraw"):
            raise LowtideError(
                f"policy={task.policy!r} does not plan for a utility; leave it out, or use 'fixed'"
                " or 'redraw'"
            )
        with computing_on(task.tide.device):
            planner = modality.planner(X, y, task, groups=groups, utility=utility)
            return self._plan(planner, task, tuple(modality.attackers))

    def _plan(self, planner: Planner, task: Task, attackers: tuple[str, ...]) -> Obfuscator:
        """Plan, rehearse, and keep what was found; `attackers` are those that an audit may run."""
        self.n_features_in_ = planner.width
        if planner.names:
            self.feature_names_in_ = np.array(planner.names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        goal = self._goal(planner, task)
        with progress_bar("planning what to hide", 100, self.progress) as tick:
            rehearsal = planner.rehearse(goal, lambda done: tick(int(100 * done))).completed()
        self._refuse(rehearsal.standing(task))
        self.policy_ = rehearsal.policy
        self.mechanism_ = rehearsal.mechanism
        self.check_ = rehearsal.check
        self.leakage_ = self.check_.leakage
        self.card_ = rehearsal.card(planner.classes, task, attackers)
        self.hider_ = planner.hider(rehearsal, self.card_)
        self._noise = open_noise(self.key_file) if self.hider_.draws else None
        return self

    def transform(self, X: Any, *, ids: Any = None) -> Any:  # noqa: N803
        """Hide in X what the policy says: a table of the same library, images as an array or
        `Images`, texts.

        Args:
            X: n samples with the layout of the reference data.
            ids: (n,) one value per sample that stays with it, which draws and noise are keyed by.
                By default a sample is recognised by its content: what a row holds, an image shows,
                a text says.
        """
        check_is_fitted(self, "hider_")
        return self.hider_.transform(X, noise=self._noise, ids=ids)

    def fit_transform(
        self,
        X: Any,  # noqa: N803
        y: ArrayLike | None = None,
        *,
        ids: Any = None,
        groups: ArrayLike | None = None,
        utility: ArrayLike | str | None = None,
    ) -> Any:
        """Learn what to hide, and hide it in the same samples."""
        return self.fit(X, y, groups=groups, utility=utility).transform(X, ids=ids)

    def flags(self, X: Any, *, ids: Any = None) -> Any:  # noqa: N803
        """What is hidden of each sample, (n, m) booleans; of texts sparse, with the terms that
        occur.
        """
        check_is_fitted(self, "hider_")
        return self.hider_.flags(X, noise=self._noise, ids=ids)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """The names of the columns, patches or terms, which stay as they are."""
        check_is_fitted(self, "hider_")
        return np.array(self.hider_.names, dtype=object)

    def _task(self, modality: Modality) -> Task:
        """Check what holds for every kind of data, and fill in the defaults of this one."""
        one_of("policy", self.policy, modality.policies)
        one_of("past", self.past, ("disclosed", "raw"))
        if self.past == "raw" and self.policy != "sequential":
            raise LowtideError(
                f"past='raw' is for policy='sequential', got policy={self.policy!r}; leave past out"
            )
        mechanism = one_of(
            "mechanism", self.mechanism or modality.mechanisms[0], modality.mechanisms
        )
        settings = modality.settings() if self.settings is None else self.settings
        if not isinstance(settings, modality.settings):
            raise LowtideError(
                f"settings of {modality.name} must be a {modality.settings.__name__}, got"
                f" {type(settings).__name__}"
            )
        epsilon = None
        if self.epsilon is not None:
            epsilon = float(within("epsilon", self.epsilon, 0.0, np.inf, high_open=True))
        if self.kept is not None:
            within("kept", self.kept, 0.0, 1.0)
            if self.policy not in ("fixed", "redraw"):
                raise LowtideError(
                    f"policy={self.policy!r} keeps no share; leave kept out, or use 'fixed'"
                )
            if self.budget is not None:
                raise LowtideError(
                    "give a budget or the share to keep, not both: one follows from the other"
                )
        return Task(
            policy=self.policy,
            mechanism=mechanism,
            budget=self._budget(modality),
            kept=None if self.kept is None else float(self.kept),
            epsilon=epsilon,
            delta=self.delta,
            lam=self.lam,
            keep=self.keep,
            hide=self.hide,
            settings=settings,
            tide=self._tide(),
            seed=self.random_state,
            certify=self._confidence(),
            strict=self.strict,
            row_budget=self._row_budget(),
            past=self.past,
        )

    def _confidence(self) -> float | None:
        """The confidence of a bound against every attacker, where one is asked for."""
        if self.certify is None:
            return None
        hint = "a confidence such as 0.95"
        return float(
            within("certify", self.certify, 0.5, 1.0, low_open=True, high_open=True, hint=hint)
        )

    def _row_budget(self) -> float:
        """What `redraw` allows a row to tell for a class, in nats; nothing by default."""
        if self.policy != "redraw" or self.budget is None:
            return 0.0
        budget = Budget.read(self.budget)
        if budget.unit != "nats":
            raise LowtideError(
                f"the budget of redraw bounds what a row tells, in nats or bits, got {budget}: give"
                " nats, of which 0 is the strictest, or choose policy='fixed' (--policy fixed) for"
                " this limit"
            )
        return budget.limit

    def _goal(self, planner: Planner, task: Task) -> Goal | None:
        """What to plan for; a budget that so few samples cannot show is refused or noted before the
        long work.
        """
        if task.budget is None:
            if self.strict:
                raise LowtideError(
                    "strict asks for a budget that is kept, and there is none; give a budget"
                )
            return None
        prior = planner.classes.prior
        judging = planner.judging
        task.budget.check(prior)
        aim = Aim.of(task.budget, prior, judging=planner.judges, reference=len(judging))
        if not aim.can_be_shown and task.certify is None:
            words = aim.warning(len(judging))
            if self.strict:
                raise LowtideError(words)
            note(words)
        return Goal(aim, len(judging), task.certify, task.strict)

    def _refuse(self, standing: Standing | None) -> None:
        if self.strict and standing is not None and standing.state != "kept":
            raise LowtideError(
                f"the budget is {standing}; strict refuses anything but a budget that is kept"
            )

    def _budget(self, modality: Modality) -> Budget | None:
        if self.past == "raw" and self.budget is not None:
            raise LowtideError(
                "past='raw' keeps no budget; leave budget out, or use past='disclosed'"
            )
        if self.policy == "redraw":  # its budget is about single rows, and holds by design
            return None
        if self.certify is not None and self.delta is not None:
            if self.epsilon is None or self.budget is not None:
                raise LowtideError(
                    "certify keeps one budget: epsilon and delta together, or budget; leave the"
                    " other out"
                )
            return Budget(float(within("delta", self.delta, 0.0, 1.0, high_open=True)), "delta")
        if self.budget is not None:
            return Budget.read(self.budget)
        decided = self.past == "raw" or self.kept is not None
        if decided or (self.policy == "sequential" and self.epsilon is not None):
            return None
        return Budget(modality.default_budget)

    def _tide(self) -> TIDE:
        if self.estimator is None:
            return TIDE(progress=self.progress, random_state=self.random_state)
        if not isinstance(self.estimator, TIDE):
            raise LowtideError(f"estimator must be a TIDE, got {type(self.estimator).__name__}")
        return clone(self.estimator)

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn that a secret is required."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
