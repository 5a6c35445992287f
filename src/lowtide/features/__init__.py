"""What one feature is: patches, terms, table columns."""

from lowtide.features.groups import Features, one_per_column, patches
from lowtide.features.terms import TermOptions, Vocabulary
from lowtide.features.texts import TextEncoder

__all__ = ["Features", "TermOptions", "TextEncoder", "Vocabulary", "one_per_column", "patches"]
