"""Known estimators of the information density, under one interface: what TIDE is measured
against.
"""

from peers.estimators.base import Baseline
from peers.estimators.classifier import Classifier
from peers.estimators.kernel import Kernel
from peers.estimators.neighbours import Neighbours
from peers.estimators.plugin import PlugIn
from peers.estimators.ratio import Ratio

__all__ = ["Baseline", "Classifier", "Kernel", "Neighbours", "PlugIn", "Ratio"]
