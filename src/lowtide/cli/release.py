"""`lowtide release`: write the hidden data and its card."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from lowtide.cli.common import Encoding, Json, Quiet, Table, Types, out, read_types, reported, show_progress
from lowtide.data import Writer, batches, find_column, schema_of
from lowtide.data.table_plan import TablePlan
from lowtide.density.exposure import Bools
from lowtide.density.progress import progress_bar
from lowtide.disclose.card import ReleaseCard
from lowtide.disclose.keys import open_noise
from lowtide.disclose.layout import owners
from lowtide.errors import LowtideError
from lowtide.files import write_whole
from lowtide.report.console import write_json


@reported
def run(
    file: Table,
    plan: Annotated[Path, typer.Option("--plan", help="made by `lowtide plan`", metavar="FILE")],
    output: Annotated[Path, typer.Option("--out", help="the released table; its suffix is its format")],
    ids: Annotated[
        str | None, typer.Option("--ids", help="column that names rows, where noise is drawn", metavar="COLUMN")
    ] = None,
    key_file: Annotated[
        Path | None, typer.Option("--key-file", help="where the key of the noise is kept: never share it")
    ] = None,
    json: Json = None,
    types: Types = None,
    encoding: Encoding = "utf-8",
    quiet: Quiet = False,
) -> None:
    """Write the hidden data and its card. The secret's column is left out, always.

    Example: lowtide release survey.csv --plan plan.json --out shared.parquet
    """
    made = TablePlan.load(plan)
    card = release_file(file, made, output, ids=ids, key_file=key_file, types=types, encoding=encoding, quiet=quiet)
    for path in write_card(card, output):
        out.print(f"card: {path}", soft_wrap=True)
    out.print(f"released: {output} ({card.rows:,} rows, {card.changed:.1%} of the values changed)", soft_wrap=True)
    if json is not None:
        write_json(json, card.to_json())


def release_file(
    file: Path,
    made: TablePlan,
    output: Path,
    *,
    ids: str | None = None,
    key_file: Path | None = None,
    types: list[str] | None = None,
    encoding: str = "utf-8",
    quiet: bool = True,
) -> ReleaseCard:
    """Release a file batch by batch; the card says what was changed in these very rows."""
    if output.resolve() == file.resolve():
        raise LowtideError("the release would overwrite the data it is made from; give --out another name")
    schema = schema_of(file, types=read_types(types), encoding=encoding)
    if ids is not None:
        ids = find_column(ids, schema.names)
    noise = open_noise(key_file) if made.hider.mechanism.draws else None
    tally = _Tally(made)
    with progress_bar("releasing", 1, show_progress(quiet)):
        stream = iter(batches(file, like=schema, encoding=encoding))
        first = next(stream)
        released, flags = made.release(first, noise=noise, ids=ids)
        with Writer(output, released.schema) as writer:
            while True:
                tally.take(flags)
                writer.write(released)
                following = next(stream, None)
                if following is None:
                    break
                released, flags = made.release(following, noise=noise, ids=ids)
    return tally.card(output)


def write_card(card: ReleaseCard, output: Path) -> list[Path]:
    """Put the card beside the release, for machines and for people."""
    texts = card.files()
    return [write_whole(output.with_suffix(f".{name}"), text) for name, text in texts.items()]


class _Tally:
    """What the card says of the rows that are released, counted batch by batch."""

    def __init__(self, made: TablePlan) -> None:
        self.made, self.rows = made, 0
        self.hidden = np.zeros(len(made.hider.mechanism.features))

    def take(self, flags: Bools) -> None:
        """Add a batch of flags (n, m)."""
        self.rows += len(flags)
        self.hidden += flags.sum(axis=0)

    def card(self, output: Path) -> ReleaseCard:
        """The card of the plan, with the figures of these rows and the hash of the file."""
        card, mechanism, shares = self.made.hider.card, self.made.hider.mechanism, self.hidden / self.rows
        features = tuple(f._replace(hidden=float(share)) for f, share in zip(card.features, shares, strict=True))
        changed = float(shares[owners(mechanism.encoder, mechanism.features)].mean())
        with output.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return replace(card, features=features, rows=self.rows, changed=changed, data_sha256=digest)
