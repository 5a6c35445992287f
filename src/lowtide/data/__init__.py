"""Tables in files: reading, writing and describing them."""

from lowtide.data.describing import Column, Description, describe
from lowtide.data.formats import FORMATS, find_column
from lowtide.data.reading import batches, read, schema_like, schema_of
from lowtide.data.writing import Writer

__all__ = [
    "FORMATS",
    "Column",
    "Description",
    "Writer",
    "batches",
    "describe",
    "find_column",
    "read",
    "schema_like",
    "schema_of",
]
