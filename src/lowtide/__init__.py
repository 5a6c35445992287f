"""Lowtide: which features of your data give a secret away, and what noise or redaction leaves of it."""

from lowtide.density import TIDE, Density, PairDensity
from lowtide.errors import LowtideError
from lowtide.interface import Estimate, Guarantee

__version__ = "0.1.0"
__all__ = ["TIDE", "Density", "Estimate", "Guarantee", "LowtideError", "PairDensity", "__version__"]
