"""What one feature is: patches, terms, table columns."""

from lowtide.features.groups import Features, one_per_column, patches

__all__ = ["Features", "one_per_column", "patches"]
