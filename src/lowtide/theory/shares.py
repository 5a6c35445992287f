"""What a sample of n rows says for certain about a share of the law behind it."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv

from lowtide.types import Floats


def lower_limit(hits: ArrayLike, n: int, failure: float) -> Floats:
    """The lower limit of Clopper and Pearson: above the true share in at most a share `failure` of
    samples.

    Args:
        hits: how many of the rows have the property, 0 … n, of any shape.
        n: how many rows there are, drawn independently.
        failure: in (0, 1).
    """
    k = np.asarray(hits, dtype=np.float64)
    return np.where(k > 0, betaincinv(np.maximum(k, 1.0), n - k + 1, failure), 0.0)


def upper_limit(hits: ArrayLike, n: int, failure: float) -> Floats:
    """The upper limit: below the true share in at most a share `failure` of samples; arguments as
    above.
    """
    return 1.0 - lower_limit(n - np.asarray(hits), n, failure)
