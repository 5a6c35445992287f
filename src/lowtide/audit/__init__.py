"""Judging a release: retrained attackers, what was changed, what it is still good for, and the verdict in words."""

from lowtide.audit.change import Change, ColumnChange, changed
from lowtide.audit.erasers import CorrelationRemover, Leace
from lowtide.audit.judge import AuditReport, audit
from lowtide.audit.predictions import Prediction
from lowtide.audit.rivals import FittedRival, MutualInformation, RandomFeatures, Rival, Rivalled, UniformNoise
from lowtide.audit.utility import UtilityReport, predicts
from lowtide.audit.verdict import Gate, Verdict, give_verdict

__all__ = [
    "AuditReport",
    "Change",
    "ColumnChange",
    "CorrelationRemover",
    "FittedRival",
    "Gate",
    "Leace",
    "MutualInformation",
    "Prediction",
    "RandomFeatures",
    "Rival",
    "Rivalled",
    "UniformNoise",
    "UtilityReport",
    "Verdict",
    "audit",
    "changed",
    "give_verdict",
    "predicts",
]
