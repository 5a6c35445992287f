"""Lowtide: which features of your data give a secret away; hide just those, and attack what is left."""

from lowtide.density import TIDE, Density, PairDensity
from lowtide.disclose import Budget, Obfuscator, ReleaseCard
from lowtide.disclose.images import ImageObfuscator
from lowtide.errors import LowtideError
from lowtide.interface import Attack, Estimate, Guarantee

__version__ = "0.1.0"
__all__ = [
    "TIDE",
    "Attack",
    "Budget",
    "Density",
    "Estimate",
    "Guarantee",
    "ImageObfuscator",
    "LowtideError",
    "Obfuscator",
    "PairDensity",
    "ReleaseCard",
    "__version__",
]
