"""What an audit asks of texts: how many of their words changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from lowtide.auditing.utility import Change
from lowtide.errors import LowtideError
from lowtide.texts.cleaning import TermOptions, cleaner


def changed_texts(clean: Sequence[str], release: Sequence[str]) -> Change:
    """Count the words of the clean texts that the release no longer has.

    Words are compared as terms are written, so a change of case or of spaces is none.

    Args:
        clean: n texts.
        release: the same texts after the release, in the same order.

    Returns:
        The share of the words that are gone, by whatever they were replaced.
    """
    if len(clean) != len(release):
        raise LowtideError(
            f"the release has {len(release)} texts and the reference {len(clean)}; they must be the same texts, in the "
            "same order"
        )
    words = cleaner(TermOptions()).words
    gone = total = 0
    for before, after in zip(clean, release, strict=True):
        said = Counter(words(before))
        total += said.total()
        if before != after:
            gone += (said - Counter(words(after))).total()
    return Change(gone / total if total else 0.0, None, None, (), len(clean), "words")
