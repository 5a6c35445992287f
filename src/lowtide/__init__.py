"""Lowtide: which features of your data give a secret away; hide just those, and attack what is
left.

Names are imported when they are used, so that `import lowtide` loads neither torch nor
scikit-learn.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lowtide.disclose.budget import Budget
    from lowtide.disclose.card import ReleaseCard
    from lowtide.disclose.obfuscator import Obfuscator
    from lowtide.disclose.plan_file import Plan
    from lowtide.errors import LowtideError
    from lowtide.estimate.density import Density
    from lowtide.estimate.tide import TIDE
    from lowtide.interface import Attack, Estimate, Guarantee
    from lowtide.verbs import audit, plan, release, scan, verify
    from lowtide.warning import warn

__version__ = "0.1.0"
_HOMES = {
    "TIDE": "lowtide.estimate.tide",
    "Attack": "lowtide.interface",
    "Budget": "lowtide.disclose.budget",
    "Density": "lowtide.estimate.density",
    "Estimate": "lowtide.interface",
    "Guarantee": "lowtide.interface",
    "LowtideError": "lowtide.errors",
    "Obfuscator": "lowtide.disclose.obfuscator",
    "Plan": "lowtide.disclose.plan_file",
    "ReleaseCard": "lowtide.disclose.card",
    "audit": "lowtide.verbs",
    "plan": "lowtide.verbs",
    "release": "lowtide.verbs",
    "scan": "lowtide.verbs",
    "verify": "lowtide.verbs",
    "warn": "lowtide.warning",
}
__all__ = [
    "TIDE",
    "Attack",
    "Budget",
    "Density",
    "Estimate",
    "Guarantee",
    "LowtideError",
    "Obfuscator",
    "Plan",
    "ReleaseCard",
    "__version__",
    "audit",
    "plan",
    "release",
    "scan",
    "verify",
    "warn",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'lowtide' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
