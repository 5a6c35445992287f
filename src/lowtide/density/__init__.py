"""Estimating information densities: TIDE, its critics, its frozen results, and the baselines."""

from lowtide.density.artefact import Attribution, Density, FitReport, TermConditionals
from lowtide.density.pair_artefact import PairDensity
from lowtide.density.tide import TIDE

__all__ = ["TIDE", "Attribution", "Density", "FitReport", "PairDensity", "TermConditionals"]
