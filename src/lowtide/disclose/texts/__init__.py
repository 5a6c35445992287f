"""Hide what tells a secret in texts: which words, and what becomes of them."""

from lowtide.disclose.texts.hider import TextHider
from lowtide.disclose.texts.obfuscator import TextObfuscator
from lowtide.disclose.texts.policies import TermPaper, TermPlan, TermPoint
from lowtide.disclose.texts.rewriting import Changes, ReleasedTexts, Rewriter

__all__ = [
    "Changes",
    "ReleasedTexts",
    "Rewriter",
    "TermPaper",
    "TermPlan",
    "TermPoint",
    "TextHider",
    "TextObfuscator",
]
