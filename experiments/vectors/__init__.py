"""Densities of a secret that is a vector of numbers, for the paper's synthetic table. Not part of
the library.
"""

from vectors.artefact import PairDensity
from vectors.estimator import VectorTIDE

__all__ = ["PairDensity", "VectorTIDE"]
