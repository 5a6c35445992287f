"""Lowtide: which features of your data give a secret away; hide just those, and attack what is left."""

from lowtide.density.artefact import Density
from lowtide.density.tide import TIDE
from lowtide.disclose.budget import Budget
from lowtide.disclose.card import ReleaseCard
from lowtide.disclose.obfuscator import Obfuscator
from lowtide.errors import LowtideError
from lowtide.interface import Attack, Estimate, Guarantee
from lowtide.vectors.artefact import PairDensity

__version__ = "0.1.0"
__all__ = [
    "TIDE",
    "Attack",
    "Budget",
    "Density",
    "Estimate",
    "Guarantee",
    "LowtideError",
    "Obfuscator",
    "PairDensity",
    "ReleaseCard",
    "__version__",
]
