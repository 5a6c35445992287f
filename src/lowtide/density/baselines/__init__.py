"""Known estimators of the information density, under one interface: what TIDE is measured against."""

from lowtide.density.baselines.base import Baseline
from lowtide.density.baselines.classifier import Classifier
from lowtide.density.baselines.kernel import Kernel
from lowtide.density.baselines.neighbours import Neighbours
from lowtide.density.baselines.plugin import PlugIn
from lowtide.density.baselines.ratio import Ratio

__all__ = ["Baseline", "Classifier", "Kernel", "Neighbours", "PlugIn", "Ratio"]
