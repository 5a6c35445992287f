"""Texts for the Obfuscator: reference texts laid out, a policy for them, and what may be promised
of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from lowtide.checks import LowtideError, count, one_of
from lowtide.disclose.card import Feature, ReleaseCard
from lowtide.disclose.certificate import Certificate, certify_raw_past, full_disclosure
from lowtide.disclose.check import Check
from lowtide.disclose.noise import KEY_BYTES, KeyedNoise
from lowtide.disclose.raw_past import RawPast
from lowtide.disclose.rehearsal import (
    Goal,
    Rehearsal,
    Task,
    Tick,
    read_secret,
    read_utility,
    refuse_few,
)
from lowtide.estimate.density import Density
from lowtide.formatting import in_ascii, interval, percents
from lowtide.labels import Classes
from lowtide.splits import read_groups, stream
from lowtide.texts.encoder import TextEncoder, as_texts
from lowtide.texts.hider import TextHider
from lowtide.texts.learning import fit_texts, learn_similar
from lowtide.texts.planning import TextProblem, make_plan
from lowtide.texts.policies import TermPolicy
from lowtide.texts.redraw_planning import rehearse_words
from lowtide.texts.rewriting import MARK
from lowtide.texts.terms import TermOptions, Vocabulary, find_terms
from lowtide.training import one_thread
from lowtide.types import Bools, Labels

_OPTIONS = TermOptions(min_count=2)
_SHOWN = (
    "There is no worst-case bound: the words that are left are released as they are, and what they"
    " tell rests on the attacks."
)
_FIXED = (
    "The same terms are hidden in every text, wherever they occur; which ones was decided for the"
    " population, not for the text."
)
_TRACES = {
    "drop": (
        "A dropped word leaves a shorter text, and lengths were there for the attackers to read."
    ),
    "mask": (
        "A mark shows that a hidden term stood there; the places of marks were there for the"
        " attackers to read."
    ),
    "replace": (
        "A substitute shows what kind of term it stands for; substitutes were there for the"
        " attackers to read."
    ),
}
_FILLED = (
    "Hidden places are filled in with words drawn from their law given the words that are shown"
    " around them; neither the hidden word nor the secret is looked at, so this tells no more than"
    " a mark in its place."
)
_REDRAWN = (
    "Words were kept with a chance that an estimated density gives, and otherwise drawn from those"
    " that stand between the same neighbours, so there is no worst-case bound: what is left is"
    " known from the attacks."
)
_NAMES_STAY = (
    "Names, handles, numbers, addresses, negations, signs and lengths are as they were, and go on"
    " telling what they do."
)
_NAMES_GIVE_WAY = (
    "Handles, numbers, addresses, negations, signs and lengths are as they were, and go on telling"
    " what they do. Names may have given way to words; none was put in."
)
_SECOND_LOOK = (
    "It is about the release by itself. Whoever knows a true word of a text sees whether it was"
    " changed and learns from that; a second release under another key is a second look."
)
_UNKNOWN = "Words that are too rare in the reference texts to be terms are released as they are."


@dataclass(frozen=True)
class TextSettings:
    """What only the Obfuscator of texts takes.

    Attributes:
        mark: what `mask` writes.
        attackers: names of the attackers that check the release; by default quick ones steer the
            search, and all that an audit runs check its end.
        fill: `redraw` to fill in hidden places with words that fit between those that are shown;
            for `fixed`.
        redraw_names: whether `redraw` may put words in the places of names; it never puts a name
            into a text.
        history: how many texts of one writer the budget is about; for `fixed`, with groups.
    """

    mark: str = MARK
    attackers: Sequence[str] | None = None
    fill: str | None = None
    redraw_names: bool = False
    history: int = 1


@dataclass(frozen=True, eq=False)
class TextPlanner:
    """Reference texts laid out for a task; see `disclose.rehearsal.Planner`.

    Attributes:
        task: what was asked for.
        problem: the texts, terms and mechanism.
        density: of the terms, for a rule that looks at the raw text; `None` for others.
    """

    task: Task
    problem: TextProblem
    density: Density | None = field(default=None, repr=False)

    @classmethod
    def read(
        cls,
        x: Any,
        s: ArrayLike,
        task: Task,
        *,
        groups: ArrayLike | None = None,
        utility: ArrayLike | str | None = None,
    ) -> TextPlanner:
        """Check what was given and lay it out.

        Args:
            x: n texts, as a list or a column.
            s: (n,) the secret of every text.
            task: what was asked for.
            groups: (n,) texts of one group stay on one side whenever texts are held out.
            utility: (n,) what the release should still tell.
        """
        if task.delta is not None or task.lam is not None:
            raise LowtideError("hidden words are not noised; leave lam and delta out")
        _check_settings(task)
        texts = as_texts(x)
        classes, codes = read_secret(s, len(texts), "texts")
        refuse_few(codes, classes, "texts")
        useful = _useful(utility, len(texts))
        seed = count("random_state", task.seed, 0)
        options = _term_options(task.tide.features)
        density = None
        if task.past == "raw":
            # As the paper does, all texts are used; the rule promises nothing anyway.
            with one_thread():
                density = fit_texts(
                    texts, codes, task.tide.set_params(features=options)._options(), groups=groups
                )
            encoder = cast("TextEncoder", density.encoder)
        else:
            encoder = _encoder(texts, task, options)
        keep, hide = (
            _listed(name, getattr(task, name), encoder.vocabulary) for name in ("keep", "hide")
        )
        if (keep & hide).any():
            raise LowtideError(
                f"{int((keep & hide).sum())} term(s) cannot be both kept and hidden; choose"
            )
        key = stream(seed, "text rehearsal").generate_state(KEY_BYTES // 4).tobytes()
        problem = TextProblem(
            texts,
            codes,
            classes,
            read_groups(groups, len(texts)),
            encoder,
            task.mechanism,  # type: ignore[arg-type]
            keep,
            hide,
            KeyedNoise(key),
            mark=task.settings.mark,
            attackers=None if task.settings.attackers is None else tuple(task.settings.attackers),
            seed=seed,
            utility=useful,
            fill=task.settings.fill is not None,
            history=count("history", task.settings.history, 1),
        )
        return cls(task, problem, density)

    @property
    def classes(self) -> Classes:
        """The values of the secret and their prior."""
        return self.problem.classes

    @property
    def width(self) -> int:
        """How many terms there are."""
        return len(self.problem.encoder.vocabulary)

    @property
    def names(self) -> tuple[str, ...]:
        """Texts have no columns of their own."""
        return ()

    @property
    def judging(self) -> Bools:
        """(n,) the texts that judge the release."""
        return self.problem.judged

    @property
    def judges(self) -> int:
        """How many they are; of histories, how many writers have that many."""
        return self.problem.judges

    def rehearse(self, goal: Goal | None, tick: Tick) -> Rehearsal:
        """Plan, and attack a rehearsal of the release."""
        problem = self.problem
        prior = self.classes.prior
        n = len(self.problem.codes)
        if self.task.policy == "redraw":
            return self._redraw(tick)
        traces = (_FILLED if problem.fill else _TRACES[problem.how], _UNKNOWN)
        if self.density is not None:
            epsilon = self.task.threshold
            rule = RawPast(self.density, epsilon, problem.keep, problem.hide)
            said = certify_raw_past(epsilon, prior, statements=(_SHOWN, *traces), rows=n)
            return self._rehearsal(rule, problem.check(rule), said, None)
        epsilon = self.task.stated_at
        policy, check = make_plan(problem, goal=goal, kept=self.task.kept, tick=tick)
        said = Certificate(
            "fixed", epsilon, full_disclosure(epsilon, prior, n), (_SHOWN, _FIXED, *traces)
        )
        return self._rehearsal(policy, check, said, int(policy.hidden.sum()))

    def _redraw(self, tick: Tick) -> Rehearsal:
        problem = self.problem
        names = self.task.settings.redraw_names
        found = rehearse_words(
            problem, kept=self.task.kept, with_names=names, tick=lambda done: tick(0.9 * done)
        )
        epsilon = self.task.stated_at
        n = len(problem.codes)
        caps = [one.cap for one in found.policy.redrawer.passes]
        words = (
            (
                "The file does not mark which words were drawn anew, but an attacker may guess: do"
                " not use a single text as a fact about a person."
            ),
            _REDRAWN,
            _NAMES_GIVE_WAY if names else _NAMES_STAY,
            _UNKNOWN,
            _SECOND_LOOK,
        )
        return Rehearsal(
            found.policy,
            problem.rewriter(found.policy),
            found.check,
            Certificate("redraw", epsilon, full_disclosure(epsilon, self.classes.prior, n), words),
            features=(Feature("words", found.changed),),
            rows=n,
            changed=found.changed,
            described="redraw words",
            parameters={
                "terms": len(problem.encoder.vocabulary),
                "must keep": int(problem.keep.sum()),
                "passes": len(caps),
                "nats a word may tell": max(caps, default=0.0),
                "names": "may give way" if names else "stay",
            },
        )

    def hider(self, rehearsal: Rehearsal, card: ReleaseCard) -> TextHider:
        """The frozen result."""
        return TextHider(rehearsal.policy, rehearsal.mechanism, card)

    def _rehearsal(
        self, policy: TermPolicy, check: Check, certificate: Certificate, terms: int | None
    ) -> Rehearsal:
        """What the card says of the rehearsed release of the reference texts. Terms are data: it
        names none.

        Args:
            policy: what is hidden.
            check: what attackers made of it.
            certificate: what may be promised.
            terms: how many terms are hidden from everybody; `None` where that differs between
                texts.
        """
        problem = self.problem
        release = problem.release(policy)
        changed = 1.0 - release.kept
        features: tuple[Feature, ...] = (Feature("words of the policy", changed),)
        if terms is not None:
            features = (
                Feature(f"{terms} listed terms", float(terms > 0)),
                Feature("all other words", 0.0),
            )
        return Rehearsal(
            policy,
            problem.rewriter(policy),
            check,
            certificate,
            features=features,
            rows=len(release),
            changed=changed,
            described="fill hidden words in" if problem.fill else f"{problem.how} words",
            parameters={
                "terms": len(problem.encoder.vocabulary),
                "must keep": int(problem.keep.sum()),
                "must hide": int(problem.hide.sum()),
                "fill": self.task.settings.fill,
                **self._history(check),
            },
        )

    def _history(self, check: Check) -> dict[str, Any]:
        """What the card says of several texts of one writer, where the budget is about these."""
        told = check.together
        if told is None:
            return {}
        found = (
            f"{percents(told.accuracy)} right, {interval(told.information)} nats, {told.persons:,}"
            " writers"
        )
        return {"texts of one writer together": told.samples, "these tell": in_ascii(found)}


def _check_settings(task: Task) -> None:
    """Refuse what does not go together."""
    settings = task.settings
    if task.policy == "sequential" and task.past == "disclosed":
        raise LowtideError(
            "policy='sequential' of texts looks at the raw text, and promises nothing; give"
            " past='raw' (--past raw), or use policy='fixed' or 'redraw'"
        )
    if settings.history > 1 and (task.policy != "fixed" or task.budget is None):
        raise LowtideError(
            f"a budget over {settings.history} texts of a writer is for policy='fixed' with a"
            " budget; leave history out"
        )
    if settings.fill is not None:
        one_of("fill", settings.fill, ("redraw",))
        if task.policy != "fixed":
            raise LowtideError(f"fill is for policy='fixed', got {task.policy!r}; leave fill out")
        if task.mechanism == "replace":
            raise LowtideError(
                "mechanism='replace' leaves no place to fill in; leave mechanism or fill out"
            )
        if _term_options(task.tide.features).ngrams > 1:
            raise LowtideError("fill works word by word; leave ngrams out")
    if settings.redraw_names and task.policy != "redraw":
        raise LowtideError(
            f"redraw_names is for policy='redraw', got {task.policy!r}; leave it out"
        )
    if task.policy == "redraw" and task.row_budget > 0:
        raise LowtideError(
            "redraw of texts takes the share of the words to keep, such as kept=0.95 (--kept 0.95),"
            " not a budget; by default it changes all that clearly tells"
        )


def _useful(utility: ArrayLike | None, n: int) -> Labels | None:
    """The classes (n,) of what the release should still tell; `None` when nothing is named."""
    if utility is None:
        return None
    classes, codes = read_utility(utility, n, "texts")
    refuse_few(codes, classes, "texts", "utility")
    return codes


def _term_options(features: Any) -> TermOptions:
    """What counts as a term, from the features of an estimator."""
    if features is None:
        return _OPTIONS
    if not isinstance(features, TermOptions):
        raise LowtideError(
            f"the features of texts must be TermOptions, got {type(features).__name__}"
        )
    return features


def _encoder(texts: list[str], task: Task, options: TermOptions) -> TextEncoder:
    """The terms of the reference texts and those to hide; alike ones only where words are
    replaced.
    """
    vocabulary = Vocabulary.learn(texts, options)
    more = [term for term in _written("hide", task.hide, options) if term not in vocabulary]
    vocabulary = (
        Vocabulary((*vocabulary.terms, *dict.fromkeys(more)), options) if more else vocabulary
    )
    none = np.full((len(vocabulary), 1), -1, dtype=np.int32)
    return TextEncoder(
        vocabulary, learn_similar(texts, vocabulary) if task.mechanism == "replace" else none
    )


def _listed(name: str, terms: Sequence[str], vocabulary: Vocabulary) -> Bools:
    """The mask (m,) of terms given by name; a term to keep that nobody knows is kept anyway."""
    mask = np.zeros(len(vocabulary), dtype=bool)
    for term in _written(name, terms, vocabulary.options):
        if term in vocabulary:
            mask[vocabulary.index(term)] = True
        elif name == "hide":
            raise LowtideError(
                "a term to hide is not in the texts; past='raw' knows nothing of it: leave it out"
            )
    return mask


def _written(name: str, terms: Sequence[str], options: TermOptions) -> list[str]:
    """Terms as a vocabulary writes them."""
    if isinstance(terms, str):
        raise LowtideError(f"{name} must be a list of terms, got a single text; put it into a list")
    written = []
    for place, term in enumerate(terms):
        found = [
            one.text for one in find_terms(term, options) if (one.start, one.end) == (0, len(term))
        ]
        if len(found) != 1:
            raise LowtideError(
                f"entry {place} of {name} is not one term as texts are read here; give words one by"
                " one, or set ngrams in features"
            )
        written += found
    return written
