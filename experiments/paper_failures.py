"""Four statements of the paper that fail, each on a law small enough to compute exactly.

For each law the table shows what the paper claims of its own release, what is true (by enumeration
and quadrature, no estimate), the bound of lowtide.theory for the very same release, and what is
true when the leaking features are hidden as the theory asks, with the same noise or, in the third
row, with enough.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
from scipy.special import ndtr

from lowtide import worlds
from lowtide.report.console import parse_arguments, print_table, write_json
from lowtide.theory import calibration, hockey_stick


@dataclass(frozen=True)
class Failure:
    """One row: a law, a release of it, and four numbers for the same quantity."""

    statement: str
    law: str
    quantity: str
    claim: float
    truth: float
    bound: float
    mended: float
    vacuous: bool = False  # whether any release at all satisfies the bound


def raw_past(epsilon: float = 0.2, delta: float = 0.01) -> Failure:
    """Conditioning on the raw past lets a copy of the secret through."""
    world = worlds.redundant_bit(2)
    scale = calibration.scale_for(epsilon, delta, 1.0)
    release = world.release(world.leaking(epsilon), scale)
    return Failure(
        "a feature is safe if it adds nothing to the raw past",
        "X1 = X2 = S",
        f"E at e^{2 * epsilon:g}, noise for {delta:g} a feature",
        claim=2 * delta,
        truth=float(release.forward(2 * epsilon).max()),
        # X2 is released as it is: all that can be promised is what holds for any release, (1 −
        # γπ)_+.
        bound=float(max(0.0, 1 - np.exp(2 * epsilon) * world.prior.min())),
        mended=float(world.release(np.array([True, True]), scale).forward(2 * epsilon).max()),
        vacuous=True,
    )


def membership(epsilon: float = 0.1, p: float = 0.1, scale: float = 10.0) -> Failure:
    """Noise on the leaking value alone marks it."""
    world = worlds.rare_value(p)
    release = world.release(world.leaking(epsilon), scale)
    return Failure(
        "noise where it hurts, and only there",
        f"X = 1 in {p:.0%} of s = 1, else 0",
        f"E at e^{epsilon:g}, noise {scale:g}",
        claim=float(hockey_stick.gaussian(np.exp(epsilon), 1.0, scale)),
        truth=float(release.forward(epsilon).max()),
        bound=float(hockey_stick.selective(epsilon, 0.0, scale, p, p / 2)),
        mended=float(world.release(np.array([True]), scale).forward(epsilon).max()),
    )


def radius(prior: float = 0.1, scale: float = 1.0) -> Failure:
    """The radius of the values stands in for their diameter."""
    world = worlds.two_points(prior)
    everybody = np.array([True])
    claim = hockey_stick.gaussian(1.0, 1.0, scale)
    enough = calibration.scale_for(0.0, claim, 2.0, prior, "forward")
    return Failure(
        "the noise is set by the radius of the values",
        f"X = ±1, p(s) = {prior:g}",
        f"E at e^0, noise {scale:g}",
        claim=float(claim),
        truth=float(world.release(everybody, scale).forward(0.0).max()),
        bound=float(hockey_stick.prior_aware(0.0, 2.0, scale, prior, "forward")),
        mended=float(world.release(everybody, enough).forward(0.0).max()),
    )


def fixed_attacker(flip: float = 0.2, scale: float = 1.0) -> Failure:
    """An attacker trained on clean data has no reason to look at an echo of the secret."""
    world = worlds.redundant_bit(2, flip=flip)
    release = world.release(world.leaking(flip), scale)
    stay = 1 - flip
    return Failure(
        "an attacker trained on clean data measures the leak",
        f"X1 = S, X2 = S but for {flip:.0%}",
        f"attacker's accuracy, noise {scale:g}",
        claim=float(ndtr(0.5 / scale)),
        truth=release.accuracy(),
        # Given X2 the prior is (1 − flip, flip); the best guess from two Gaussians at distance 1
        # adds θ to it.
        bound=float(stay + flip * hockey_stick.gaussian(stay / flip, 1.0, scale)),
        mended=world.release(np.array([True, True]), scale).accuracy(),
    )


def main() -> None:
    """Print the table."""
    options = parse_arguments(__doc__ or "")
    failures = [raw_past(), membership(), radius(), fixed_attacker()]
    print_table(
        "Where the paper's statements fail",
        [
            "the paper's statement",
            "the law",
            "what is measured",
            "claim",
            "truth",
            "our bound",
            "mended",
        ],
        [
            (
                f.statement,
                f.law,
                f.quantity,
                f.claim,
                f.truth,
                f"{f.bound:.4f}{' vacuous' * f.vacuous}",
                f.mended,
            )
            for f in failures
        ],
        note=(
            "Claim below truth: the statement fails. Truth and mended are exact; our bound is never"
            " below the truth."
        ),
    )
    if options.json:
        write_json(options.json, {"failures": [asdict(failure) for failure in failures]})


if __name__ == "__main__":
    main()
