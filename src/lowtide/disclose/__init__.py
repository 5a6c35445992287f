"""Hide what tells a secret: policies, mechanisms, certificates, the release card."""

from lowtide.disclose.budget import Budget
from lowtide.disclose.card import ReleaseCard
from lowtide.disclose.certificate import Certificate
from lowtide.disclose.mechanisms import Mechanism
from lowtide.disclose.obfuscator import Obfuscator
from lowtide.disclose.policies import Paper, Plan
from lowtide.disclose.sequential import Sequential

__all__ = ["Budget", "Certificate", "Mechanism", "Obfuscator", "Paper", "Plan", "ReleaseCard", "Sequential"]
