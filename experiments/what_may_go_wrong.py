"""What may go wrong although every number on a card is right: laws small enough to compute what
then happens.

Each line is a way in which what a card rests on does not hold, what the card says, and what is
true. Nothing is estimated: laws are listed, and samples are counted by their exact probabilities.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
from scipy.stats import binom

from lowtide.report.console import parse_arguments, print_table, write_json
from lowtide.theory import counts
from lowtide.theory.measures import Lifts
from lowtide.types import Floats

_FAILURE = 0.05


@dataclass(frozen=True)
class Trouble:
    """One line: what goes wrong, a law, and one figure as it is stated and as it is."""

    trouble: str
    law: str
    figure: str
    stated: float
    true: float


def drift(n: int = 10_000) -> Trouble:
    """Released people are drawn from another law than the reference rows."""
    reference = np.full((2, 2), 0.25)
    later = np.array([[0.35, 0.15], [0.15, 0.35]])
    return Trouble(
        "released people are unlike the reference rows",
        f"a column tells nothing in {n:,} reference rows, and is right in 70 % of later ones",
        "right guesses, at most",
        counts.accuracy(reference * n, _FAILURE),
        Lifts.of_joint(later).bayes_vulnerability(),
    )


def small_drift(n: int = 10_000) -> Trouble:
    """A drift of total variation t raises right guesses by at most t: what holds instead."""
    reference = np.full((2, 2), 0.25)
    later = np.array([[0.26, 0.24], [0.24, 0.26]])
    variation = 0.5 * float(np.abs(later - reference).sum())
    return Trouble(
        "the same, and by how much",
        f"a drift of total variation {variation:.2f}: that much more than the bound, at most",
        "right guesses, at most",
        counts.accuracy(reference * n, _FAILURE) + variation,
        Lifts.of_joint(later).bayes_vulnerability(),
    )


def several_rows(rows: int = 25) -> Trouble:
    """Somebody has many rows, each of which tells a little."""
    one = np.array([[0.275, 0.225], [0.225, 0.275]])
    most = float(binom.sf(rows // 2, rows, 0.55))
    return Trouble(
        "a person has several rows",
        f"one row is right in 55 %, a person has {rows} independent ones",
        "right guesses",
        Lifts.of_joint(one).bayes_vulnerability(),
        most,
    )


def copied_rows(people: int = 100, copies: int = 10, right: float = 0.6) -> Trouble:
    """Reference rows come in copies, so that there are fewer independent ones than rows."""
    n = people * copies
    seen = np.arange(people + 1)
    below = [counts.accuracy(_right(copies * k, n), _FAILURE) < right for k in range(len(seen))]
    return Trouble(
        "reference rows are not independent",
        f"{people} people with {copies} equal rows each, counted as {n:,} rows",
        "how often the bound lies below the truth",
        _FAILURE,
        float(binom.pmf(seen, people, right)[below].sum()),
    )


def side_knowledge() -> Trouble:
    """The release is the secret turned round by a bit that somebody knows."""
    # Cells: (released bit, bit known beside it); the released bit is the exclusive or of secret and
    # known bit.
    joint = np.zeros((2, 2, 2))
    for secret in (0, 1):
        for known in (0, 1):
            joint[secret, secret ^ known, known] = 0.25
    return Trouble(
        "somebody knows more than the release",
        "the released bit is the secret plus a bit (modulo 2) that a friend knows",
        "right guesses",
        Lifts.of_joint(joint.sum(axis=2)).bayes_vulnerability(),
        Lifts.of_joint(joint.reshape(2, 4)).bayes_vulnerability(),
    )


def order(n: int = 1000) -> Trouble:
    """The values tell nothing, and the rows are sorted by the secret."""
    secret = np.arange(n) >= n // 2
    told = np.zeros((2, n))
    told[secret.astype(int), np.arange(n)] = 1 / n
    return Trouble(
        "the order or the index of rows tells",
        f"columns that tell nothing, {n:,} rows sorted by the secret",
        "right guesses",
        Lifts.of_joint(told.sum(axis=1, keepdims=True)).bayes_vulnerability(),
        Lifts.of_joint(told).bayes_vulnerability(),
    )


def another_secret() -> Trouble:
    """A plan is for the secret that was named."""
    named = np.full((2, 2), 0.25)
    other = np.array([[0.5, 0.0], [0.0, 0.5]])
    return Trouble(
        "another secret than the one that was named",
        "the column is independent of the named secret, and equal to another one",
        "right guesses",
        Lifts.of_joint(named).bayes_vulnerability(),
        Lifts.of_joint(other).bayes_vulnerability(),
    )


def known_secret() -> Trouble:
    """Two secrets, each hidden by itself; who knows the first learns the second."""
    joint = np.zeros((2, 2, 2))  # first secret, second secret, released bit
    for first in (0, 1):
        for second in (0, 1):
            joint[first, second, first ^ second] = 0.25
    beside = joint.transpose(1, 0, 2).reshape(2, 4)
    return Trouble(
        "one secret is known beforehand",
        "the released bit is the sum (modulo 2) of two secrets, of which each alone is hidden",
        "right guesses about the second",
        Lifts.of_joint(joint.sum(axis=0)).bayes_vulnerability(),
        Lifts.of_joint(beside).bayes_vulnerability(),
    )


def chosen_here(plans: int = 64, n: int = 1000, right: float = 0.6) -> Trouble:
    """The rows that judge a plan also chose it among many, each as telling as the other."""
    seen = np.arange(n + 1)
    below = np.array([counts.accuracy(_right(k, n), _FAILURE) < right for k in range(len(seen))])
    each = float(binom.pmf(seen, n, right)[below].sum())
    return Trouble(
        "the rows that are counted chose the release",
        f"the smallest bound of {plans} releases, each right in {right:.0%}, from the same {n:,}"
        " rows",
        "how often the bound lies below the truth",
        _FAILURE,
        1 - (1 - each) ** plans,
    )


def _right(right: int, n: int) -> Floats:
    """Counts of n rows, so many of which show their secret."""
    half = right // 2
    rest = n - right
    return np.array([[half, rest // 2], [rest - rest // 2, right - half]], dtype=float)


def all_troubles() -> list[Trouble]:
    """Every line of the table."""
    return [
        drift(),
        small_drift(),
        several_rows(),
        copied_rows(),
        chosen_here(),
        side_knowledge(),
        order(),
        another_secret(),
        known_secret(),
    ]


def main() -> None:
    """Compute and print all of them."""
    options = parse_arguments(__doc__ or "")
    found = all_troubles()
    print_table(
        "What may go wrong",
        ["what", "law", "figure", "stated", "true"],
        [tuple(asdict(one).values()) for one in found],
        note=(
            "All exact: neither sampling nor estimation; --quick, --seed and --data change nothing."
        ),
    )
    if options.json:
        write_json(options.json, {"troubles": [asdict(one) for one in found]})


if __name__ == "__main__":
    main()
