"""Whose rows they are, and which groups they form."""

from dataclasses import replace
from typing import Any

import numpy as np

from lowtide.attack.together import read_posts
from lowtide.checks import LowtideError
from lowtide.interface import AuditContext
from lowtide.protocols import Dataset, Matched
from lowtide.table_files.formats import find_column
from lowtide.tables.options import TableOptions
from lowtide.tables.secrets import secret_texts

_MOST_SUBGROUPS = 100  # as many as a secret may have values


def with_persons(
    matched: Matched, told: AuditContext, options: TableOptions
) -> tuple[Matched, AuditContext]:
    """The rows of a person count as one observation, and may be looked at together."""
    if options.group is None:
        if options.posts is not None:
            raise LowtideError(
                "--posts adds up what rows of one person tell; say whose each is with --group"
                " COLUMN"
            )
        return matched, told
    data = matched.data
    name = find_column(options.group, data.source.table.column_names)
    if name == data.secret:
        raise LowtideError(
            f"--group names the secret {name!r}; name the column that says whose each row is"
        )
    column = data.source.table[name]
    if column.null_count:
        raise LowtideError(
            f"--group: {column.null_count:,} rows of the reference do not say whose they are; leave"
            " them out"
        )
    persons = np.unique(secret_texts(column), return_inverse=True)[1]
    each = tuple(replace(one, groups=persons) for one in data.each)
    posts = () if options.posts is None else read_posts(options.posts)
    return replace(matched, data=replace(data, groups=persons, each=each)), replace(
        told, persons=persons, posts=posts
    )


def subgroups(data: Dataset, name: str | None) -> dict[str, Any]:
    """The subgroups that the values of a column of the reference make."""
    if name is None:
        return {}
    table = data.source.table
    column = find_column(name, table.column_names)
    values, codes = np.unique(secret_texts(table[column]), return_inverse=True)
    if not 2 <= len(values) <= _MOST_SUBGROUPS:
        raise LowtideError(
            f"--groups-of {column!r} makes {len(values):,} groups; it must make 2 to"
            f" {_MOST_SUBGROUPS}: choose a column of few values"
        )
    return {"subgroups": codes, "subgroups_of": column}
