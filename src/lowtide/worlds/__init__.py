"""Laws whose information density is known exactly: every estimate and every bound is tested on
them.
"""

from lowtide.worlds.base import (
    EnumerableWorld,
    FiniteWorld,
    parity,
    rare_value,
    redundant_bit,
    two_points,
    xor,
)
from lowtide.worlds.faces import DrawnFaces, drawn_faces
from lowtide.worlds.gaussian import (
    GaussianPair,
    GaussianXor,
    ShiftedGaussian,
    gaussian_pair,
    gaussian_xor,
    shifted_gaussian,
)
from lowtide.worlds.release import ExactRelease, Policy, Step
from lowtide.worlds.text import NaiveBayesText, naive_bayes_text

__all__ = [
    "DrawnFaces",
    "EnumerableWorld",
    "ExactRelease",
    "FiniteWorld",
    "GaussianPair",
    "GaussianXor",
    "NaiveBayesText",
    "Policy",
    "ShiftedGaussian",
    "Step",
    "drawn_faces",
    "gaussian_pair",
    "gaussian_xor",
    "naive_bayes_text",
    "parity",
    "rare_value",
    "redundant_bit",
    "shifted_gaussian",
    "two_points",
    "xor",
]
