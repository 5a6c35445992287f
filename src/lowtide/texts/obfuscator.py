"""The obfuscator of texts: learn from reference texts which words to hide, then hide them in any others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from lowtide.density import fitting
from lowtide.density.artefact import Density
from lowtide.density.tide import TIDE
from lowtide.disclose.agreeing import refuse_few
from lowtide.disclose.budget import Budget
from lowtide.disclose.card import Feature, ReleaseCard
from lowtide.disclose.certificate import Certificate, full_disclosure
from lowtide.disclose.keys import open_noise
from lowtide.disclose.noise import KEY_BYTES, KeyedNoise
from lowtide.errors import LowtideError, count, one_of, within
from lowtide.labels import is_vector, read_classes
from lowtide.progress import progress_bar
from lowtide.splits import read_groups
from lowtide.tables.problem import Check
from lowtide.texts.encoder import TextEncoder, as_texts
from lowtide.texts.hider import TextHider
from lowtide.texts.policies import FixedTerms, PaperTerms, TermPolicy
from lowtide.texts.problem import CHECKERS, TextProblem, Tick, make_plan
from lowtide.texts.rewriting import HOW, MARK, How, ReleasedTexts
from lowtide.texts.substitutes import learn_similar
from lowtide.texts.terms import TermOptions, Vocabulary, find_terms
from lowtide.types import Bools

_BUDGET = 0.05  # nats
_PAPER_EPSILON = 0.5
_STATED_AT = 0.1  # the ε of bounds, when none is given
_ROOM = 0x7E0D  # rehearsals share no random numbers with data drawn with the same seed
_OPTIONS = TermOptions(min_count=2)
_SHOWN = (
    "There is no worst-case bound: the words that are left are released as they are, and what they tell rests on the "
    "estimate and on the attacks."
)
_PLAN = (
    "The same terms are hidden in every text, wherever they occur; which ones was decided for the population, not for "
    "the text."
)
_TRACES = {
    "drop": "A dropped word leaves a shorter text, and lengths were there for the attackers to read.",
    "mask": "A mark shows that a hidden term stood there; the places of marks were there for the attackers to read.",
    "replace": "A substitute shows what kind of term it stands for; substitutes were there for the attackers to read.",
}
_PAPER = (
    "No guarantee follows from the paper's rule: it looks at the raw text, the same term is hidden in one text and "
    "shown in another, and the places of what is hidden tell about the secret."
)
_UNKNOWN = "Words that are too rare in the reference texts to be terms are released as they are."


class TextObfuscator(BaseEstimator):  # type: ignore[misc]
    """Hide the words of texts that tell a secret, and only those.

    `fit(texts, s, groups=authors)` learns from reference texts which terms to hide, attacks a rehearsal of the release
    afresh, and writes the release card. `transform(texts)` hides them; all else stays as it is, byte by byte.

    Args:
        policy: `plan` hides the same terms in every text; `paper` hides what tells too much given the raw terms before
            it, text by text, and is here to reproduce the paper.
        how: what becomes of hidden words: `drop` leaves them out, `mask` writes one mark for all, `replace` draws
            another term for each.
        budget: how much the release may tell: nats, `Budget.bits(…)`, `Budget.accuracy(…)`, or a text such as `"65%"`;
            by default 0.05 nat.
        kept: the share of words to keep, instead of a budget.
        epsilon: for `paper` the largest density of a term that is shown, 0.5 by default; also the ε at which bounds
            are stated.
        features: what counts as a term; by default words that occur twice or more.
        mark: what `mask` writes.
        keep: terms that must never be hidden.
        hide: terms that must always be hidden, whether they occur in the reference texts or not.
        steps: training steps of TIDE's networks, for `paper`.
        attackers: names of the attackers that check the release; by default all that need no network.
        key_file: where the key of substitutes is kept, made when it does not exist; by default nowhere.
        progress: whether to draw progress bars; by default only on a terminal.
        random_state: the seed of everything but the substitutes of the release.

    Attributes:
        policy_: the fitted policy, a `FixedTerms` or a `PaperTerms`.
        check_: what fresh attackers made of the rehearsal.
        leakage_: what the strongest of them learnt, with its interval: a lower bound on what there is to learn.
        card_: the release card; it names no term.
        hider_: all that `transform` needs but the key, frozen; `hider_.save(path)` keeps it.
    """

    def __init__(
        self,
        policy: Literal["plan", "paper"] = "plan",
        how: How = "drop",
        *,
        budget: Budget | float | str | None = None,
        kept: float | None = None,
        epsilon: float | None = None,
        features: TermOptions | None = None,
        mark: str = MARK,
        keep: Sequence[str] = (),
        hide: Sequence[str] = (),
        steps: int | None = None,
        attackers: Sequence[str] | None = None,
        key_file: str | None = None,
        progress: bool | None = None,
        random_state: int = 0,
    ) -> None:
        self.policy = policy
        self.how = how
        self.budget = budget
        self.kept = kept
        self.epsilon = epsilon
        self.features = features
        self.mark = mark
        self.keep = keep
        self.hide = hide
        self.steps = steps
        self.attackers = attackers
        self.key_file = key_file
        self.progress = progress
        self.random_state = random_state

    def fit(self, texts: Any, s: ArrayLike | None = None, *, groups: ArrayLike | None = None) -> TextObfuscator:
        """Learn which terms to hide.

        Args:
            texts: n texts, as a list or a column.
            s: the secret of every text, finitely many values.
            groups: (n,) texts of one group, such as an author's and copies, stay on one side whenever texts are held
                out.
        """
        with progress_bar("deciding what to hide", 100, self.progress) as tick:
            problem, density = self._read(texts, s, groups)
            self.policy_, self.check_ = self._decide(problem, density, lambda done: tick(int(100 * done)))
        self.leakage_ = self.check_.leakage
        rewriter = problem.rewriter(self.policy_)
        self._noise = open_noise(self.key_file) if rewriter.draws else None
        self.card_ = self._card(problem, problem.release(self.policy_))
        self.hider_ = TextHider(self.policy_, rewriter, self.card_)
        return self

    def transform(self, texts: Any, *, ids: Any = None) -> ReleasedTexts:
        """Hide in texts what the policy says.

        Args:
            texts: n texts, as a list or a column.
            ids: (n,) one value per text that stays with it, which substitutes are keyed by; by default what it says.
        """
        check_is_fitted(self, "hider_")
        return self.hider_.transform(texts, noise=self._noise, ids=ids)

    def _read(self, texts: Any, s: ArrayLike | None, groups: ArrayLike | None) -> tuple[TextProblem, Density | None]:
        """Check what was given and lay it out; the paper's rule comes with its density."""
        self._check_options()
        if s is None:
            raise LowtideError("TextObfuscator needs the secret of every text: give s")
        listed = as_texts(texts)
        if np.asarray(s).shape[:1] != (len(listed),):
            raise LowtideError(f"there are {len(listed)} texts and s has shape {np.asarray(s).shape}; they must match")
        if is_vector(s):
            raise LowtideError("the secret is a vector of numbers; hiding needs finitely many values: put it into bins")
        classes, codes = read_classes(s)
        refuse_few(codes, classes, "texts")
        seed = count("random_state", self.random_state, 0)
        options = _OPTIONS if self.features is None else self.features
        density = self._density(listed, codes, groups, options) if self.policy == "paper" else None
        encoder = self._encoder(listed, options) if density is None else density.encoder
        if not isinstance(encoder, TextEncoder):
            raise LowtideError("features must say what counts as a term; give TermOptions")
        keep, hide = (_listed(name, getattr(self, name), encoder.vocabulary) for name in ("keep", "hide"))
        if (keep & hide).any():
            raise LowtideError(f"{int((keep & hide).sum())} term(s) cannot be both kept and hidden; choose")
        key = np.random.SeedSequence([seed, _ROOM]).generate_state(KEY_BYTES // 4).tobytes()
        numbers = read_groups(groups, len(listed))
        names = CHECKERS if self.attackers is None else tuple(self.attackers)
        problem = TextProblem(
            listed, codes, classes, numbers, encoder, self.how, keep, hide, KeyedNoise(key), self.mark, names, seed
        )
        return problem, density

    def _check_options(self) -> None:
        one_of("policy", self.policy, ("plan", "paper"))
        one_of("how", self.how, HOW)
        if self.epsilon is not None:
            within("epsilon", self.epsilon, 0.0, np.inf, high_open=True)
        if self.kept is not None:
            within("kept", self.kept, 0.0, 1.0)
        if self.policy == "paper" and (self.budget is not None or self.kept is not None):
            raise LowtideError("policy='paper' keeps neither a budget nor a share; leave them out, or use 'plan'")
        if self.budget is not None and self.kept is not None:
            raise LowtideError("give a budget or the share of words to keep, not both: one follows from the other")
        if self.features is not None and not isinstance(self.features, TermOptions):
            raise LowtideError(f"features must be TermOptions, got {type(self.features).__name__}")

    def _density(self, texts: list[str], codes: Any, groups: Any, options: TermOptions) -> Density:
        tide = TIDE(features=options, max_steps=self.steps, progress=self.progress, random_state=self.random_state)
        # Not `tide.fit`, which warns about its own training figure: nothing here rests on that one.
        density = fitting.fit_density(texts, codes, tide._options(), groups=groups)
        if not isinstance(density, Density):
            raise LowtideError("the policy needs a finite secret")  # cannot happen: its classes were read
        return density

    def _encoder(self, texts: list[str], options: TermOptions) -> TextEncoder:
        """The terms of the reference texts and those to hide; alike ones only where words are replaced."""
        vocabulary = Vocabulary.learn(texts, options)
        more = [term for term in _written("hide", self.hide, options) if term not in vocabulary]
        vocabulary = Vocabulary((*vocabulary.terms, *dict.fromkeys(more)), options) if more else vocabulary
        none = np.full((len(vocabulary), 1), -1, dtype=np.int32)
        return TextEncoder(vocabulary, learn_similar(texts, vocabulary) if self.how == "replace" else none)

    def _decide(self, problem: TextProblem, density: Density | None, tick: Tick) -> tuple[TermPolicy, Check]:
        if density is not None:
            # As the paper does, all texts are used; the rule promises nothing anyway.
            epsilon = _PAPER_EPSILON if self.epsilon is None else float(self.epsilon)
            policy = PaperTerms(problem.encoder.vocabulary, density, epsilon, problem.keep, problem.hide)
            return policy, problem.check(policy)
        budget = self._limit
        if budget is not None:
            budget.check(problem.classes.prior)
        return make_plan(problem, budget=budget, kept=self.kept, tick=tick)

    @property
    def _limit(self) -> Budget | None:
        if self.kept is not None or self.policy == "paper":
            return None
        return Budget(_BUDGET) if self.budget is None else Budget.read(self.budget)

    def _card(self, problem: TextProblem, release: ReleasedTexts) -> ReleaseCard:
        """The card of the rehearsed release of the reference texts. Terms are data: it names none."""
        attacks, budget = self.check_.attacks, self._limit
        changed = 1.0 - release.kept
        features: tuple[Feature, ...] = (Feature("words of the policy", changed),)
        if isinstance(self.policy_, FixedTerms):
            terms = int(self.policy_.hidden.sum())
            features = (Feature(f"{terms} listed terms", float(terms > 0)), Feature("all other words", 0.0))
        return ReleaseCard(
            mechanism=f"{self.how} words",
            certificate=self._certificate(problem),
            features=features,
            rows=len(release),
            classes=len(problem.classes.labels),
            largest_class=float(problem.classes.prior.max()),
            changed=changed,
            leakage=self.leakage_,
            attacks=(attacks.guess, *attacks.retrained),
            parameters={
                "how": self.how,
                "budget": None if budget is None else str(budget),
                "kept": self.kept,
                "epsilon": self.epsilon,
                "terms": len(problem.encoder.vocabulary),
                "must keep": int(problem.keep.sum()),
                "must hide": int(problem.hide.sum()),
            },
        )

    def _certificate(self, problem: TextProblem) -> Certificate:
        prior = problem.classes.prior
        if isinstance(self.policy_, PaperTerms):
            epsilon = self.policy_.epsilon
            said = (_PAPER, _SHOWN, _TRACES[self.how], _UNKNOWN)
            return Certificate("paper", epsilon, full_disclosure(epsilon, prior), said)
        epsilon = _STATED_AT if self.epsilon is None else float(self.epsilon)
        said = (_SHOWN, _PLAN, _TRACES[self.how], _UNKNOWN)
        return Certificate("plan", epsilon, full_disclosure(epsilon, prior), said)


def _listed(name: str, terms: Sequence[str], vocabulary: Vocabulary) -> Bools:
    """The mask (m,) of terms given by name; a term to keep that nobody knows is kept anyway."""
    mask = np.zeros(len(vocabulary), dtype=bool)
    for term in _written(name, terms, vocabulary.options):
        if term in vocabulary:
            mask[vocabulary.index(term)] = True
        elif name == "hide":
            raise LowtideError("a term to hide is not in the texts; policy='paper' knows nothing of it: leave it out")
    return mask


def _written(name: str, terms: Sequence[str], options: TermOptions) -> list[str]:
    """Terms as a vocabulary writes them."""
    if isinstance(terms, str):
        raise LowtideError(f"{name} must be a list of terms, got a single text; put it into a list")
    written = []
    for place, term in enumerate(terms):
        found = [one.text for one in find_terms(term, options) if (one.start, one.end) == (0, len(term))]
        if len(found) != 1:
            raise LowtideError(
                f"entry {place} of {name} is not one term as texts are read here; give words one by one, or set ngrams "
                "in features"
            )
        written += found
    return written
