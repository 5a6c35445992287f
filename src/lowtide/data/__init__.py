"""Tables and images in files: reading, writing and describing them."""

from lowtide.data.describing import Column, Description, describe
from lowtide.data.formats import FORMATS, find_column
from lowtide.data.picture_arrays import cached
from lowtide.data.picture_names import NameCheck, names_tell, pair, read_mapping
from lowtide.data.picture_opening import open_pictures
from lowtide.data.picture_writing import PictureWriter
from lowtide.data.pictures import PictureFolder, Skipped
from lowtide.data.reading import batches, read, schema_like, schema_of
from lowtide.data.writing import Writer

__all__ = [
    "FORMATS",
    "Column",
    "Description",
    "NameCheck",
    "PictureFolder",
    "PictureWriter",
    "Skipped",
    "Writer",
    "batches",
    "cached",
    "describe",
    "find_column",
    "names_tell",
    "open_pictures",
    "pair",
    "read",
    "read_mapping",
    "schema_like",
    "schema_of",
]
