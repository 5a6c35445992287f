"""Densities of a secret that is a vector of numbers, for the paper's synthetic table. Nothing else imports this."""

from lowtide.vectors.artefact import PairDensity
from lowtide.vectors.estimator import VectorTIDE

__all__ = ["PairDensity", "VectorTIDE"]
