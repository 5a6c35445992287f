"""What may be promised of a release, and what may not.

A promise here is a worst case over all laws of the data with the stated class shares: it rests on the mechanism alone,
never on an estimated density. Notation as in the theory: γ = e^ε, *forward* is `E_γ(P_{Y|s} ‖ P_Y)`, *reverse* is
`E_γ(P_Y ‖ P_{Y|s})`, each the largest over the classes s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from lowtide.errors import Floats, LowtideError, count, probabilities, within
from lowtide.interface import Estimate, Guarantee
from lowtide.theory import composition, hockey_stick, response

PolicyName = Literal["plan", "disclosed", "paper"]
POLICIES: tuple[PolicyName, ...] = ("plan", "disclosed", "paper")
Mask = NDArray[np.bool_]
_Side = Literal["forward", "reverse"]
_SIDES: tuple[_Side, ...] = ("forward", "reverse")
# hockey_stick is accurate to a relative 1e-9; promises are rounded up by as much.
_ROUND_UP = 1.0 + 1e-9
_FOLDS = 20  # of the jackknife behind the interval of a membership term

_CONDITIONS = (
    "This is about one row, for any law of the data with these class shares, as long as every hidden value keeps to "
    "the range its noise was set for and the hidden features are the same for everybody."
)
_NO_DENSITY = (
    "Which values are hidden was decided by an estimated density, so there is no worst-case bound for the whole "
    "release and none for its hidden part."
)
_RUNNING = (
    "Were the density exact, a release whose last feature is shown would tell at most {epsilon:.4g} nats about any "
    "class, for or against it."
)
_PAPER_FAILS = (
    "No guarantee for the whole release follows from the paper's claim: it looks at the raw past and lets copies of "
    "the secret through, the places of the noise tell about the secret, and it takes a radius for a diameter."
)


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
class Membership:
    """An estimate of what the places of the hidden values tell, with values hidden row by row; not a bound.

    Attributes:
        epsilon: ε of each feature.
        forward: `Σ_j p_j·θ_{γ q_j/p_j}` of the class where it is largest.
        reverse: `Σ_j q_j·θ_{γ p_j/q_j}` of the class where it is largest.
        hidden: q_j, the share of rows where each feature was hidden, (m,).
    """

    epsilon: float
    forward: Estimate
    reverse: Estimate
    hidden: tuple[float, ...]


@dataclass(frozen=True)
class Certificate:
    """What holds of one release and what does not.

    Attributes:
        policy: `plan` (one hidden set for everybody), `disclosed` (feature by feature) or `paper`.
        epsilon: the ε of the policy: of the whole for `plan`, of each feature for `disclosed` and `paper`, the running
            total for `disclosed` with one.
        whole: the bound for the whole release.
        hidden_part: the bound for someone who sees the hidden features alone; `None` where none is or none holds.
        added: what the hidden features add to any raw ones, in both directions; `None` where no such bound holds.
        claim: what the paper claims; no promise of ours.
        membership: the estimate for values hidden row by row.
        statements: all of it in sentences.
    """

    policy: PolicyName
    epsilon: float
    whole: TwoSided
    hidden_part: TwoSided | None
    added: Guarantee | None
    claim: Guarantee | None
    membership: Membership | None
    statements: tuple[str, ...]


def full_disclosure(epsilon: float, prior: ArrayLike) -> TwoSided:
    """The bound that every release satisfies: forward `(1 − γπ)_+`, reverse `1 − π`, for the rarest class."""
    epsilon, rarest = _epsilon(epsilon), float(_prior(prior).min())
    forward = abs(float(np.expm1(min(epsilon + np.log(rarest), 0.0))))
    return TwoSided(Guarantee(epsilon, forward), Guarantee(epsilon, 1.0 - rarest), True, True)


def certify_plan(
    epsilon: float,
    prior: ArrayLike,
    *,
    ratios: ArrayLike,
    hidden: ArrayLike,
    responses: Sequence[tuple[float, int]] = (),
) -> Certificate:
    """Certify a release that hides the same features for everybody.

    Args:
        epsilon: ε ≥ 0 at which the bounds are stated.
        prior: (|S|,) share of each class.
        ratios: (m,) D/λ of each feature, D its diameter; columns redacted or answered at random add 0.
        hidden: (m,) which features are hidden; the ratios of the others are not used.
        responses: (keep, categories) of each column of the hidden features that is answered at random.
    """
    ratios, mask = _plan(ratios, hidden, responses)
    epsilon, limit = _epsilon(epsilon), full_disclosure(epsilon, prior)
    if not mask.any():
        return Certificate(
            "plan", epsilon, limit, None, None, None, None, ("No feature is hidden.", _nothing_beyond(limit))
        )
    ratio = float(composition.gaussians(ratios[mask], 1.0))
    keeps, categories = [keep for keep, _ in responses], [k for _, k in responses]
    pair = partial(response.pairwise, ratio=ratio, keeps=keeps, categories=categories)
    alone = _below(limit, [float(response.lift(pair, epsilon, _prior(prior), side).max()) for side in _SIDES])
    added = Guarantee(epsilon, min(1.0, _ROUND_UP * float(pair(epsilon))))
    if mask.all():
        words = (_in_words("the whole release", alone), _CONDITIONS)
        return Certificate("plan", epsilon, alone, alone, added, None, None, words)
    more, delta = rounded_up(epsilon), rounded_up(added.delta)
    said = (
        "Some features are released as they are, so the worst-case bound for the whole release is vacuous: what "
        "the raw features tell rests on the estimate and on the attacks.",
        _in_words("the hidden features alone", alone),
        f"To whatever the raw features tell, the hidden ones add at most epsilon {more} and delta {delta}: if the raw "
        f"features tell at most E nats, for or against a class, except with probability d, the whole has epsilon "
        f"E + {more} and delta d + {delta}" + (" (vacuous)." if added.is_vacuous() else "."),
        _CONDITIONS,
    )
    return Certificate("plan", epsilon, limit, alone, added, None, None, said)


def certify_disclosed(
    epsilon: float,
    prior: ArrayLike,
    *,
    features: int,
    membership: Membership | None = None,
    running: bool = False,
) -> Certificate:
    """Certify a release that hides a value where its density given the disclosed past is too large.

    The density is estimated, so nothing is promised. Were it exact, the membership term (with p_j and q_j taken given
    each past, and averaged over pasts) would bound the whole at `e^{mε}`; with a running total E, at `e^{E + mε}`
    where ε is that of the term and may be 0.

    Args:
        epsilon: the largest density of one feature that is shown; with `running`, of all that has been shown.
        prior: (|S|,) share of each class.
        features: m, how many features there are.
        membership: the estimated term, computed at the same ε; with `running`, at any.
        running: whether `epsilon` limits the running total rather than each feature.
    """
    epsilon, features = _epsilon(epsilon), count("features", features, 1)
    if membership is not None and len(membership.hidden) != features:
        raise LowtideError(f"membership is about {len(membership.hidden)} features, the release has {features}")
    if membership is not None and not running and membership.epsilon != epsilon:
        raise LowtideError(f"membership was computed at epsilon {membership.epsilon!r}; compute it at {epsilon!r}")
    slack = membership.epsilon if membership else 0.0
    limit = full_disclosure(epsilon + features * slack if running else features * epsilon, prior)
    said = [_NO_DENSITY, _nothing_beyond(limit)]
    if running:
        said.append(_RUNNING.format(epsilon=epsilon))
    if membership is not None:
        said.append(
            f"An estimate, not a bound: where values were hidden, and what noise leaves of them, adds about "
            f"{membership.forward.value:.4g} forward and {membership.reverse.value:.4g} reverse to delta, at epsilon "
            f"{limit.forward.epsilon:.4g} and counted as if nothing had been disclosed before each feature."
        )
    return Certificate("disclosed", epsilon, limit, None, None, None, membership, tuple(said))


def certify_paper(epsilon: float, prior: ArrayLike, *, radii: ArrayLike, scale: float) -> Certificate:
    """Record the paper's claim for its own mechanism, which hides where the density given the *raw* past is too large.

    Args:
        epsilon: ε ≥ 0 of each feature.
        prior: (|S|,) share of each class.
        radii: (m,) the largest norm of each feature; √columns for columns in [0, 1].
        scale: λ > 0 of the noise, or infinity.
    """
    epsilon, radii = _epsilon(epsilon), within("radii", radii, 0.0, np.inf, high_open=True)
    if radii.ndim != 1 or not radii.size:
        raise LowtideError(f"radii must be a list of one number per feature, got the shape {radii.shape}")
    each = float(np.exp(hockey_stick.log_gaussian(epsilon, radii.max(), scale)))
    claim = Guarantee(radii.size * epsilon, min(1.0, radii.size * each))
    limit = full_disclosure(claim.epsilon, prior)
    words = f"The paper's claim for the whole release is delta {claim.delta:.4g} at epsilon {claim.epsilon:.4g}."
    said = (words, _PAPER_FAILS, _nothing_beyond(limit))
    return Certificate("paper", epsilon, limit, None, None, claim, None, said)


def hidden_shares(hidden: ArrayLike, s: ArrayLike, *, classes: int) -> tuple[Floats, Floats, Floats]:
    """How often each feature was hidden: p (|S|, m) within each class, q (m,) overall; and the class shares (|S|,).

    The p of a class of few rows shows how those very rows were treated: it does not belong on a card.

    Args:
        hidden: (n, m) booleans.
        s: (n,) codes 0 … classes − 1.
        classes: |S|.
    """
    counts, rows = (part.sum(axis=0) for part in _in_folds(hidden, s, classes))
    prior = rows / rows.sum()
    p = counts / rows[:, None]
    return p, prior @ p, prior


def membership(
    hidden: ArrayLike, s: ArrayLike, *, ratios: ArrayLike, epsilon: float, classes: int, level: float = 0.95
) -> Membership:
    """Estimate what is told by *where* values were hidden, and by what noise leaves of them.

    Each feature counts as if nothing had been disclosed before it: p_j and q_j are averages over the pasts. The term is
    convex in (p, q), so where the past tells nothing about the secret this is a lower estimate of the term that
    bounds the release; where the past does tell, it can lie on either side.

    Args:
        hidden: (n, m) whether each value was hidden.
        s: (n,) codes of the secret, 0 … classes − 1.
        ratios: (m,) D/λ of each feature, 0 where it is redacted.
        epsilon: ε ≥ 0 of each feature.
        classes: |S|.
        level: how often the interval (a jackknife over blocks of rows) should hold the term.
    """
    counts, rows = _in_folds(hidden, s, classes)
    ratios = within("ratios", ratios, 0.0, np.inf, high_open=True)
    if ratios.shape != counts.shape[2:]:
        raise LowtideError(f"ratios must have the shape {counts.shape[2:]}, one per feature, got {ratios.shape}")
    epsilon, level = _epsilon(epsilon), float(within("level", level, 0.0, 1.0, low_open=True, high_open=True))
    p, q, prior = hidden_shares(hidden, s, classes=classes)
    others = rows.sum(axis=0) - rows
    without = (counts.sum(axis=0) - counts) / np.maximum(others, 1)[..., None]
    without = np.where(others[..., None] > 0, without, p)  # a class of one row cannot be left out
    sides = []
    for side in _SIDES:
        whole, parts = (_term(shares, prior, ratios, epsilon, side) for shares in (p, without))
        worst = int(whole.argmax())
        half = float(ndtri(0.5 + level / 2) * np.sqrt((_FOLDS - 1) * parts[:, worst].var()))
        value = float(whole[worst])
        sides.append(Estimate(value, max(0.0, value - half), value + half, int(rows.sum())))
    return Membership(epsilon, sides[0], sides[1], tuple(q.tolist()))


def _term(p: Floats, prior: Floats, ratios: Floats, epsilon: float, side: _Side) -> Floats:
    """`Σ_j` of the selective bound for each class, (…, |S|) from p (…, |S|, m)."""
    q = np.broadcast_to((prior @ p)[..., None, :], p.shape)
    return np.asarray(hockey_stick.selective(epsilon, ratios, 1.0, p, q, side).sum(axis=-1))


def _in_folds(hidden: ArrayLike, s: ArrayLike, classes: int) -> tuple[Floats, Floats]:
    """How many rows were hidden (folds, |S|, m), and how many there are (folds, |S|)."""
    flags, codes, classes = np.asarray(hidden), np.asarray(s), count("classes", classes, 2)
    if flags.dtype != np.bool_ or flags.ndim != 2 or not flags.size or codes.shape != flags.shape[:1]:
        raise LowtideError(f"hidden must be booleans (n, m) and s (n,), got {flags.dtype} {flags.shape}, {codes.shape}")
    if codes.dtype.kind not in "iu" or codes.min() < 0 or codes.max() >= classes:
        raise LowtideError(f"s must hold whole numbers from 0 to {classes - 1}, one per row; encode the secret first")
    sizes = np.bincount(codes, minlength=classes)
    if not sizes.all():
        raise LowtideError(
            f"{int((sizes == 0).sum())} of the {classes} classes have no row; leave them out of `classes`"
        )
    # Rows of a class are dealt to the folds in turn, so that a fold never holds all of a class of two or more.
    order = np.argsort(codes, kind="stable")
    turn = (np.arange(len(codes)) - np.repeat(np.cumsum(sizes) - sizes, sizes)) % _FOLDS
    cell = turn * classes + codes[order]
    counts = np.zeros((_FOLDS * classes, flags.shape[1]))
    np.add.at(counts, cell, flags[order])
    rows = np.bincount(cell, minlength=_FOLDS * classes).astype(np.float64)
    return counts.reshape(_FOLDS, classes, -1), rows.reshape(_FOLDS, classes)


def _plan(ratios: ArrayLike, hidden: ArrayLike, responses: Sequence[tuple[float, int]]) -> tuple[Floats, Mask]:
    mask, numbers = np.asarray(hidden), np.asarray(ratios, dtype=np.float64)
    if mask.dtype != np.bool_ or mask.ndim != 1 or not mask.size or numbers.shape != mask.shape:
        raise LowtideError(
            f"hidden must be booleans and ratios numbers, one per feature, got {mask.dtype} {mask.shape} "
            f"and {numbers.shape}"
        )
    hint = "a feature without bounds can only be redacted"
    within("ratios of the hidden features", numbers[mask], 0.0, np.inf, high_open=True, hint=hint)
    if len(responses) and not mask.any():
        raise LowtideError(f"{len(responses)} responses, but no feature is hidden; give those of hidden features only")
    return numbers, mask


def _below(limit: TwoSided, deltas: Sequence[float]) -> TwoSided:
    """Promise the deltas, forward and reverse, rounded up; vacuous where they reach what full disclosure has."""
    forward, reverse = (
        min(bound.delta, abs(_ROUND_UP * delta))
        for bound, delta in zip((limit.forward, limit.reverse), deltas, strict=True)
    )
    return TwoSided(
        Guarantee(limit.forward.epsilon, forward),
        Guarantee(limit.reverse.epsilon, reverse),
        forward >= limit.forward.delta,
        reverse >= limit.reverse.delta,
    )


def _in_words(what: str, bound: TwoSided) -> str:
    """The meaning of `E_γ ≤ δ`, in both directions."""
    epsilon = bound.forward.epsilon
    times = rounded_up(np.exp(epsilon)) if epsilon < 100 else f"e^{rounded_up(epsilon)}"
    note = " (vacuous: this holds for full disclosure too)"
    forward = f"{rounded_up(bound.forward.delta)}{note * bound.forward_vacuous}"
    reverse = f"{rounded_up(bound.reverse.delta)}{note * bound.reverse_vacuous}"
    return (
        f"Whatever one looks for in {what}, its chance within a class of the secret is at most {times} times its "
        f"chance overall plus {forward}, and its chance overall is at most {times} times its chance within any class "
        f"plus {reverse}."
    )


def rounded_up(value: float) -> str:
    """Four digits, never below the value: a promise is not improved by printing it."""
    exact = float(value) * (1.0 - 1e-12)  # 0.9 as a float lies above 0.9
    return f"{float(Context(prec=4, rounding=ROUND_CEILING).create_decimal(exact)):.4g}"


def _nothing_beyond(limit: TwoSided) -> str:
    epsilon, forward, reverse = map(rounded_up, (limit.forward.epsilon, limit.forward.delta, limit.reverse.delta))
    return (
        f"The worst-case bound is vacuous: at epsilon {epsilon} all that holds is delta {forward} forward and "
        f"{reverse} reverse, as it does for full disclosure."
    )


def _epsilon(epsilon: float) -> float:
    return float(within("epsilon", epsilon, 0.0, np.inf, high_open=True))


def _prior(prior: ArrayLike) -> Floats:
    shares = probabilities("prior", prior)
    if shares.ndim != 1 or len(shares) < 2:
        raise LowtideError(f"prior must hold the shares of at least 2 classes, got the shape {shares.shape}")
    return within("prior", shares, 0.0, 1.0, low_open=True, high_open=True, hint="leave out classes that do not occur")
