"""Lowtide: find the features that give a secret away, hide just those, and say plainly what is left."""

from lowtide.density import TIDE, Density, PairDensity
from lowtide.errors import LowtideError
from lowtide.interface import Estimate, Guarantee

__version__ = "0.1.0"
__all__ = ["TIDE", "Density", "Estimate", "Guarantee", "LowtideError", "PairDensity", "__version__"]
