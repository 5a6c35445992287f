"""Attacking a release: retrained attackers, what they learn, and the divergence they prove."""

from lowtide.attack.attackers import ATTACKERS, Attacker
from lowtide.attack.edges import Album
from lowtide.attack.lower_bound import LowerBound, audit_divergence, lower_bound
from lowtide.attack.panel import AttackReport, attack
from lowtide.attack.pictures import FROM_CLEAN, IMAGE_ATTACKERS
from lowtide.attack.texts import TEXT_ATTACKERS

__all__ = [
    "ATTACKERS",
    "FROM_CLEAN",
    "IMAGE_ATTACKERS",
    "TEXT_ATTACKERS",
    "Album",
    "AttackReport",
    "Attacker",
    "LowerBound",
    "attack",
    "audit_divergence",
    "lower_bound",
]
