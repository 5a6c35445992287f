"""Measures of statistical disclosure control, from the table of counts that bounds against every
attacker use.

They describe the rows that were counted, and nothing else: none of them has a confidence, and none
says what another draw of rows would show. A release can be k-anonymous and tell the secret of
everybody.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import entr

from lowtide.checks import LowtideError, real


@dataclass(frozen=True)
class Anonymity:
    """What the cells of a release look like.

    Attributes:
        k: rows in the rarest cell: nobody is shown like fewer than k − 1 others.
        unique: share of the rows that are alone in their cell.
        distinct: l of distinct l-diversity: the fewest classes that occur in a cell.
        entropy: l of entropy l-diversity: e to the entropy of the classes in a cell, at least.
        closeness: t of t-closeness: the largest total variation between the classes in a cell and
            those of all rows.
        disclosure: δ of δ-disclosure privacy: the largest |log p(s|cell)/p(s)|; infinite where a
            cell misses a class.
    """

    k: int
    unique: float
    distinct: int
    entropy: float
    closeness: float
    disclosure: float


def anonymity(counts: ArrayLike) -> Anonymity:
    """Measure a table of counts, (|S|, cells); cells without rows and classes without rows are left
    out.
    """
    table = real("counts", counts)
    if table.ndim != 2 or (table < 0).any() or table.sum() == 0:
        raise LowtideError("counts must be a table of how often each class was seen in each cell")
    table = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0]
    size = table.sum(axis=0)
    prior = table.sum(axis=1) / table.sum()
    within = table / size
    with np.errstate(divide="ignore"):
        lift = np.abs(np.log(within) - np.log(prior)[:, None])
    return Anonymity(
        k=int(size.min()),
        unique=float(size[size == 1].sum() / size.sum()),
        distinct=int((table > 0).sum(axis=0).min()),
        entropy=float(np.exp(entr(within).sum(axis=0).min())),
        closeness=float(0.5 * np.abs(within - prior[:, None]).sum(axis=0).max()),
        disclosure=float(lift.max()),
    )
