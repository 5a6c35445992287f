"""Attacking a release: retrained attackers, what they learn, and the divergence they prove."""

from lowtide.attack.attackers import ATTACKERS, Attacker
from lowtide.attack.lower_bound import LowerBound, audit_divergence, lower_bound
from lowtide.attack.panel import AttackReport, attack

__all__ = ["ATTACKERS", "AttackReport", "Attacker", "LowerBound", "attack", "audit_divergence", "lower_bound"]
