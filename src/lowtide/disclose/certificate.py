"""What may be promised of a release, and what may not.

A promise here is a worst case over all laws of the data in which no class is rarer than stated: it
rests on the mechanism and on that share alone, never on an estimated density. All bounds fall as
the share of the rarest class grows, in both directions, so that a lower confidence limit of it is
the safe end.

Notation as in the theory: γ = e^ε, *forward* is `E_γ(P_{Y|s} ‖ P_Y)`, *reverse* is
`E_γ(P_Y ‖ P_{Y|s})`, each the largest over the classes s.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from lowtide.checks import LowtideError, booleans, check_shape, count, probabilities, within
from lowtide.disclose.membership import SIDES, Membership
from lowtide.interface import Guarantee
from lowtide.theory import composition, hockey_stick, redraw, response
from lowtide.theory.shares import lower_limit
from lowtide.types import Bools, Floats

PolicyName = Literal["fixed", "redraw", "sequential"]
Past = Literal["disclosed", "raw"]
# hockey_stick is accurate to a relative 1e-9; promises are rounded up by as much.
_ROUND_UP = 1.0 + 1e-9
CONFIDENCE = 0.95  # that the shares of all classes lie above their lower limits

_CONDITIONS = (
    "This is about one row, for any law of the data in which no class is rarer, as long as every"
    " hidden value keeps to the range its noise was set for and the hidden features are the same"
    " for everybody."
)
_SOME_RAW = (
    "Some features are released as they are, so the worst-case bound for the whole release is"
    " vacuous: what the raw features tell rests on the attacks, and on the estimate where there is"
    " one."
)
_SOME_COARSER = (
    "Some features are released as they are, or coarser, so the worst-case bound for the whole"
    " release and every law of the data is vacuous: what they tell rests on the attacks, the"
    " estimate, and the bound from counts where there is one."
)
_NO_DENSITY = (
    "Which values are hidden was decided by an estimated density, so there is no worst-case bound"
    " for the whole release and none for its hidden part."
)
_REDACTED = (
    "Nothing of a hidden value is left in the release: by themselves the hidden features tell"
    " nothing."
)
_RUNNING = (
    "Were the density exact, a release whose last feature is shown would tell at most {epsilon:.4g}"
    " nats about any class, for or against it."
)
_KEPT = (
    "Some features are shown in every row, whatever they tell, so nothing limits what one row"
    " discloses: not even an exact density would."
)
_REDRAWN = (
    "Every value was kept with a chance that an estimated density gives, and otherwise drawn anew,"
    " so there is no worst-case bound: what the errors of the estimate leave is known from the"
    " estimate and the attacks."
)
_INDEPENDENT = (
    "Were the densities exact, and the law that new values are drawn from, the release would be"
    " independent of the secret: both divergences 0 at every epsilon, for every attacker and any"
    " number of features."
)
_LIMITED = (
    "Were the densities exact, and the law that new values are drawn from, no row would tell more"
    " than {high:.4g} nats for a class nor {low:.4g} against it, and the divergence at epsilon"
    " {epsilon:.4g} would be at most {forward} forward and {reverse} reverse."
)
_ADDED_ONLY = (
    "The features that are kept come first: all this is about what the others add to them."
)
_LOOKS = (
    "It is about the release by itself. Whoever knows a true value of a row sees what is released"
    " in its place, and learns from that{told}. Who knows several values of a row can learn more;"
    " that is not counted. A second release of the same rows under another key is a second look:"
    " use the same key again."
)
_TOLD = (
    ": by these densities at most {} nats beyond what the value tells by itself, and at most {} on"
    " average"
)
_RAW_PAST = (
    "No guarantee for the whole release follows: a rule that looks at the raw past lets copies of"
    " the secret through, and where something is hidden tells about the secret."
)
_PAPER_FAILS = "The paper's claim does not hold: besides, it takes a radius for a diameter."


@dataclass(frozen=True)
class TwoSided:
    """A bound in both directions, the largest over the classes.

    Attributes:
        forward: bounds `E_γ(P_{Y|s} ‖ P_Y)`.
        reverse: bounds `E_γ(P_Y ‖ P_{Y|s})`.
        forward_vacuous: whether every release satisfies `forward`, full disclosure included.
        reverse_vacuous: the same for `reverse`.
    """

    forward: Guarantee
    reverse: Guarantee
    forward_vacuous: bool
    reverse_vacuous: bool

    @property
    def vacuous(self) -> bool:
        """Whether it says nothing in either direction."""
        return self.forward_vacuous and self.reverse_vacuous


@dataclass(frozen=True)
class Certificate:
    """What holds of one release and what does not.

    Attributes:
        policy: `fixed` (one hidden set for everybody), `redraw` or `sequential` (feature by
            feature).
        epsilon: the ε of the policy: of the whole for `fixed`, of each feature for `sequential`,
            the running total for `sequential` with one.
        whole: the bound for the whole release.
        statements: all of it in sentences.
        hidden_part: the bound for someone who sees the hidden features alone; `None` where none is
            or none holds.
        added: what the hidden features add to any raw ones, in both directions; `None` where no
            such bound holds.
        claim: what the paper claims; no promise of ours.
        membership: the estimate for values hidden row by row.
        rarest_share: the share of the rarest class of the secret for which the bounds are computed.
    """

    policy: PolicyName
    epsilon: float
    whole: TwoSided
    statements: tuple[str, ...]
    hidden_part: TwoSided | None = None
    added: Guarantee | None = None
    claim: Guarantee | None = None
    membership: Membership | None = None
    rarest_share: float | None = None


def safe_prior(prior: ArrayLike, rows: int | None) -> Floats:
    """Two shares (π, 1 − π) in whose place no law that fits the sample has a larger bound.

    π is the lower confidence limit of the rarest class (Clopper–Pearson, Bonferroni over the
    classes). It holds for the classes that occur in the sample; of a class that does not, nothing
    is known.

    Args:
        prior: (|S|,) share of each class.
        rows: how many independent rows the shares were counted in; `None` where they are known
            exactly.
    """
    shares = _prior(prior)
    rarest = float(shares.min())
    if rows is not None:
        hits = np.rint(shares * count("rows", rows, 1))
        rarest = float(lower_limit(hits, rows, (1 - CONFIDENCE) / len(shares)).min())
    return np.array([rarest, 1.0 - rarest])


def full_disclosure(epsilon: float, prior: ArrayLike, rows: int | None = None) -> TwoSided:
    """The bound that every release satisfies: forward `(1 − γπ)_+`, reverse `1 − π`, for the rarest
    class.
    """
    epsilon = _epsilon(epsilon)
    rarest = float(safe_prior(prior, rows)[0])
    forward = abs(float(np.expm1(min(epsilon + np.log(rarest), 0.0))))
    return TwoSided(Guarantee(epsilon, forward), Guarantee(epsilon, 1.0 - rarest), True, True)


def certify_fixed(
    epsilon: float,
    prior: ArrayLike,
    *,
    ratios: ArrayLike,
    hidden: ArrayLike,
    responses: Sequence[tuple[float, int]] = (),
    rows: int | None = None,
    merged: bool = False,
) -> Certificate:
    """Certify a release that hides the same features for everybody.

    Args:
        epsilon: ε ≥ 0 at which the bounds are stated.
        prior: (|S|,) share of each class.
        ratios: (m,) D/λ of each feature, D its diameter; columns redacted or answered at random add
            0.
        hidden: (m,) which features are hidden; the ratios of the others are not used.
        responses: (keep, categories) of each column of the hidden features that is answered at
            random.
        rows: how many rows the shares were counted in; `None` where they are known exactly.
        merged: whether some features are released coarser than they are.
    """
    ratios, mask = _fixed(ratios, hidden, responses)
    limit = full_disclosure(epsilon, prior, rows)
    epsilon = _epsilon(epsilon)
    safe = safe_prior(prior, rows)
    rarest = float(safe[0])
    shares = _shares(prior, rows)
    if not mask.any():
        said = ("No feature is hidden.", _nothing_beyond(limit), *shares)
        return Certificate("fixed", epsilon, limit, said, rarest_share=rarest)
    ratio = float(composition.gaussians(ratios[mask], 1.0))
    keeps = [keep for keep, _ in responses]
    categories = [k for _, k in responses]
    pair = partial(response.pairwise, ratio=ratio, keeps=keeps, categories=categories)
    alone = _below(limit, [float(response.lift(pair, epsilon, safe, side).max()) for side in SIDES])
    added = Guarantee(epsilon, min(1.0, _ROUND_UP * float(pair(epsilon))))
    redacted = (_REDACTED,) if float(pair(0.0)) == 0.0 else ()
    if mask.all():
        said = (*redacted, _in_words("the whole release", alone), _CONDITIONS, *shares)
        return Certificate("fixed", epsilon, alone, said, alone, added, rarest_share=rarest)
    raw = _SOME_COARSER if merged else _SOME_RAW
    said = (
        raw,
        *redacted,
        _in_words("the hidden features alone", alone),
        _adds(added),
        _CONDITIONS,
        *shares,
    )
    return Certificate("fixed", epsilon, limit, said, alone, added, rarest_share=rarest)


def certify_sequential(
    epsilon: float,
    prior: ArrayLike,
    *,
    features: int,
    membership: Membership | None = None,
    running: bool = False,
    kept: bool = False,
    rows: int | None = None,
) -> Certificate:
    """Certify a release that hides a value where its density given the disclosed past is too large.

    The density is estimated, so nothing is promised. Were it exact, the membership term (with p_j
    and q_j taken given each past, and averaged over pasts) would bound the whole at `e^{mε}`; with
    a running total E, at `e^{E + mε}` where ε is that of the term and may be 0.

    Args:
        epsilon: the largest density of one feature that is shown; with `running`, of all that has
            been shown.
        prior: (|S|,) share of each class.
        features: m, how many features there are.
        membership: the estimated term, computed at the same ε; with `running`, at any.
        running: whether `epsilon` limits the running total rather than each feature.
        kept: whether some features are always shown, whatever they tell: then no running total
            limits the release.
        rows: how many rows the shares were counted in; `None` where they are known exactly.
    """
    epsilon = _epsilon(epsilon)
    features = count("features", features, 1)
    if membership is not None and len(membership.hidden) != features:
        raise LowtideError(
            f"membership is about {len(membership.hidden)} features, the release has {features}"
        )
    if membership is not None and not running and membership.epsilon != epsilon:
        raise LowtideError(
            f"membership was computed at epsilon {membership.epsilon!r}; compute it at {epsilon!r}"
        )
    slack = membership.epsilon if membership else 0.0
    limit = full_disclosure(
        epsilon + features * slack if running else features * epsilon, prior, rows
    )
    said = [_NO_DENSITY, _nothing_beyond(limit), *_shares(prior, rows)]
    if kept:
        said.append(_KEPT)
    elif running:
        said.append(_RUNNING.format(epsilon=epsilon))
    if membership is not None:
        said.append(
            "An estimate, not a bound: where values were hidden, and what is left of them, adds"
            f" about {membership.forward.value:.4g} forward and {membership.reverse.value:.4g}"
            f" reverse to delta, at epsilon {limit.forward.epsilon:.4g} and counted as if nothing"
            " had been disclosed before each feature."
        )
    rarest = float(safe_prior(prior, rows)[0])
    return Certificate(
        "sequential", epsilon, limit, tuple(said), membership=membership, rarest_share=rarest
    )


def certify_redraw(
    epsilon: float,
    prior: ArrayLike,
    *,
    budget: float,
    kept: bool = False,
    told: tuple[float, float] | None = None,
    rows: int | None = None,
) -> Certificate:
    """Record what redraw rests on: nothing is promised in the worst case.

    Args:
        epsilon: ε ≥ 0 at which divergences are stated.
        prior: (|S|,) share of each class.
        budget: the most, in nats, that a row may tell for a class.
        kept: whether some features are released as they are.
        told: bounds on the nats that somebody learns who knows one true value and sees what is
            released in its place: of any row that was looked at, and on average over rows, for the
            feature where that is most; `None` where that was not computed.
        rows: how many rows the shares were counted in; `None` where they are known exactly.
    """
    limit = full_disclosure(epsilon, prior, rows)
    rarest = float(safe_prior(prior, rows)[0])
    width = redraw.half_width(budget, rarest)
    said = _INDEPENDENT
    if 0 < width < np.inf:
        low, high = redraw.density_limits(width, rarest)
        forward, reverse = map(rounded_up, redraw.divergence(epsilon, width, rarest))
        said = _LIMITED.format(
            high=high, low=-low, epsilon=epsilon, forward=forward, reverse=reverse
        )
    elif width > 0:
        said = "So large a budget limits nothing: no row can tell more."
    looks = _LOOKS.format(told="" if told is None else _TOLD.format(*map(rounded_up, told)))
    words = (_REDRAWN, said, *([_ADDED_ONLY] if kept else []), looks, *_shares(prior, rows))
    return Certificate("redraw", budget, limit, words, rarest_share=rarest)


def certify_raw_past(
    epsilon: float, prior: ArrayLike, *, statements: Sequence[str] = (), rows: int | None = None
) -> Certificate:
    """Record that nothing is promised of a rule that hides by the density given the *raw* past.

    Args:
        epsilon: ε ≥ 0 of each feature.
        prior: (|S|,) share of each class.
        statements: what else is to be said of the release.
        rows: how many rows the shares were counted in; `None` where they are known exactly.
    """
    epsilon = _epsilon(epsilon)
    limit = full_disclosure(epsilon, prior, rows)
    said = (_RAW_PAST, _nothing_beyond(limit), *statements, *_shares(prior, rows))
    return Certificate(
        "sequential", epsilon, limit, said, rarest_share=float(safe_prior(prior, rows)[0])
    )


def certify_paper(
    epsilon: float, prior: ArrayLike, *, radii: ArrayLike, scale: float, rows: int | None = None
) -> Certificate:
    """The same with the paper's claim (paper, Thm 2 and Thm 3), stated at its ε of the whole
    release.

    Args:
        epsilon: ε ≥ 0 of each feature.
        prior: (|S|,) share of each class.
        radii: (m,) the largest norm of each feature; √columns for columns in [0, 1].
        scale: λ > 0 of the noise, or infinity.
        rows: how many rows the shares were counted in; `None` where they are known exactly.
    """
    epsilon = _epsilon(epsilon)
    radii = within("radii", radii, 0.0, np.inf, high_open=True)
    if radii.ndim != 1 or not radii.size:
        raise LowtideError(
            f"radii must be a list of one number per feature, got the shape {radii.shape}"
        )
    each = float(np.exp(hockey_stick.log_gaussian(epsilon, radii.max(), scale)))
    claim = Guarantee(radii.size * epsilon, min(1.0, radii.size * each))
    limit = full_disclosure(claim.epsilon, prior, rows)
    words = (
        f"The paper's claim for the whole release is delta {claim.delta:.4g} at epsilon"
        f" {claim.epsilon:.4g}."
    )
    said = (words, _RAW_PAST, _PAPER_FAILS, _nothing_beyond(limit), *_shares(prior, rows))
    return Certificate(
        "sequential",
        epsilon,
        limit,
        said,
        claim=claim,
        rarest_share=float(safe_prior(prior, rows)[0]),
    )


def _fixed(
    ratios: ArrayLike, hidden: ArrayLike, responses: Sequence[tuple[float, int]]
) -> tuple[Floats, Bools]:
    numbers = np.asarray(ratios, dtype=np.float64)
    mask = booleans("hidden", hidden, ("m",))
    check_shape("ratios", numbers.shape, mask.shape)
    if not mask.size:
        raise LowtideError("hidden has no entries; give one for each feature")
    hint = "a feature without bounds can only be redacted"
    within("ratios of the hidden features", numbers[mask], 0.0, np.inf, high_open=True, hint=hint)
    if len(responses) and not mask.any():
        raise LowtideError(
            f"{len(responses)} responses, but no feature is hidden; give those of hidden features"
            " only"
        )
    return numbers, mask


def _below(limit: TwoSided, deltas: Sequence[float]) -> TwoSided:
    """Promise the deltas, forward and reverse, rounded up; vacuous where they reach what full
    disclosure has.
    """
    forward, reverse = (
        Guarantee(bound.epsilon, min(bound.delta, abs(_ROUND_UP * delta)))
        for bound, delta in zip((limit.forward, limit.reverse), deltas, strict=True)
    )
    return TwoSided(
        forward, reverse, forward.delta >= limit.forward.delta, reverse.delta >= limit.reverse.delta
    )


def _in_words(what: str, bound: TwoSided) -> str:
    """The meaning of `E_γ ≤ δ`, in both directions."""
    epsilon = bound.forward.epsilon
    times = rounded_up(np.exp(epsilon)) if epsilon < 100 else f"e^{rounded_up(epsilon)}"
    note = " (vacuous: this holds for full disclosure too)"
    forward = f"{rounded_up(bound.forward.delta)}{note * bound.forward_vacuous}"
    reverse = f"{rounded_up(bound.reverse.delta)}{note * bound.reverse_vacuous}"
    return (
        f"Whatever one looks for in {what}, its chance within a class of the secret is at most"
        f" {times} times its chance overall plus {forward}, and its chance overall is at most"
        f" {times} times its chance within any class plus {reverse}."
    )


def _shares(prior: ArrayLike, rows: int | None) -> tuple[str, ...]:
    """The class shares that the numbers depend on."""
    if rows is None:
        return ()
    shares = _prior(prior)
    limit = float(safe_prior(prior, rows)[0])
    return (
        (
            f"These numbers depend on the share of the rarest class: it is {shares.min():.4g} in"
            f" {rows} reference rows, and they take it to be {limit:.4g}. The shares of all"
            f" {len(shares)} classes lie above such limits in {CONFIDENCE:.0%} of samples, if rows"
            " are drawn independently; of a class that does not occur in the reference rows"
            " nothing is known."
        ),
    )


def _adds(added: Guarantee) -> str:
    more = rounded_up(added.epsilon)
    delta = rounded_up(added.delta)
    return (
        f"To whatever the raw features tell, the hidden ones add at most epsilon {more} and delta"
        f" {delta}: if the raw features tell at most E nats, for or against a class, except with"
        f" probability d, the whole has epsilon E + {more} and delta d + {delta}"
        + (" (vacuous)." if added.is_vacuous() else ".")
    )


def rounded_up(value: float) -> str:
    """Four digits, never below the value: a promise is not improved by printing it."""
    exact = float(value) * (1.0 - 1e-12)  # 0.9 as a float lies above 0.9
    return f"{float(Context(prec=4, rounding=ROUND_CEILING).create_decimal(exact)):.4g}"


def _nothing_beyond(limit: TwoSided) -> str:
    epsilon, forward, reverse = map(
        rounded_up, (limit.forward.epsilon, limit.forward.delta, limit.reverse.delta)
    )
    return (
        f"The worst-case bound is vacuous: at epsilon {epsilon} all that holds is delta {forward}"
        f" forward and {reverse} reverse, as it does for full disclosure."
    )


def _epsilon(epsilon: float) -> float:
    return float(within("epsilon", epsilon, 0.0, np.inf, high_open=True))


def _prior(prior: ArrayLike) -> Floats:
    shares = probabilities("prior", prior)
    if shares.ndim != 1 or len(shares) < 2:
        raise LowtideError(
            f"prior must hold the shares of at least 2 classes, got the shape {shares.shape}"
        )
    return within(
        "prior",
        shares,
        0.0,
        1.0,
        low_open=True,
        high_open=True,
        hint="leave out classes that do not occur",
    )
