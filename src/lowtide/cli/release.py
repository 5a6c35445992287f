"""`lowtide release`: write the hidden data and its card."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from lowtide.cli.common import Encoding, Json, Quiet, Table, Types, note, out, read_types, reported, show_progress
from lowtide.cli.image_plan import release_folder
from lowtide.cli.images import Strict, are_images
from lowtide.cli.outputs import check_outputs
from lowtide.cli.text_plan import release_corpus
from lowtide.disclose.card import ReleaseCard
from lowtide.disclose.keys import open_noise
from lowtide.disclose.noise import Ids, row_ids
from lowtide.errors import LowtideError
from lowtide.files import sha256_of, write_whole
from lowtide.images.plan_file import is_image_plan
from lowtide.progress import progress_bar
from lowtide.report.console import write_json
from lowtide.table_files.formats import find_column, format_of
from lowtide.table_files.reading import batches, schema_like
from lowtide.table_files.writing import Writer
from lowtide.tables.layout import owners
from lowtide.tables.plan_file import TablePlan
from lowtide.texts.plan_file import is_text_plan
from lowtide.types import Bools


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
    png: Annotated[bool, typer.Option("--png", help="images: write PNG, so that no shown pixel changes")] = False,
    quality: Annotated[int, typer.Option("--quality", help="images: of JPEG files", min=1, max=100)] = 95,
    rename: Annotated[bool, typer.Option("--rename", help="images: number them anew, in random order")] = False,
    mapping: Annotated[
        Path | None, typer.Option("--mapping", help="images: where the private list of names goes", metavar="FILE")
    ] = None,
    strict: Strict = False,
    quiet: Quiet = False,
) -> None:
    """Write the hidden data and its card. The secret is left out, always.

    Example: lowtide release survey.csv --plan plan.json --out shared.parquet

    Example: lowtide release faces/ --plan faces.lowtide --out shared/ --rename --mapping names.csv

    Example: lowtide release tweets.csv --plan tweets.lowtide --out shared.csv
    """
    if is_text_plan(plan):
        release_corpus(file, plan, output, key_file=key_file, json=json, encoding=encoding)
        return
    reads = {"data": file, "plan": plan, "key": key_file}
    if are_images(file) or is_image_plan(plan):
        check_outputs(reads, {"--json": json, "--mapping": mapping})
        release_folder(
            file,
            plan,
            output,
            key_file=key_file,
            png=png,
            quality=quality,
            rename=rename,
            mapping=mapping,
            strict=strict,
            json=json,
            quiet=quiet,
        )
        return
    check_outputs(reads, {"--out": output, "--json": json, **_card_paths(output)})
    format_of(output)
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
    draws = made.hider.mechanism.draws
    if draws and ids is None:
        raise LowtideError(
            "this plan draws noise, which belongs to a row and stays with it: name the column that tells rows apart "
            "with --ids COLUMN"
        )
    schema = schema_like(file, made.columns, types=read_types(types), encoding=encoding)
    ids = None if ids is None else find_column(ids, schema.names)
    if draws and key_file is None:
        note("without --key-file the key of the noise is forgotten: releasing these rows again would draw other noise")
    made.check_columns(schema.names)  # before a key is made
    noise = open_noise(key_file) if draws else None
    tally = _Tally(made)
    with progress_bar("releasing", 1, show_progress(quiet)):
        tables = batches(file, like=schema, encoding=encoding)
        stream = ((table, *made.release(table, noise=noise, ids=ids)) for table in tables)
        first = next(stream)
        with Writer(output, first[1].schema) as writer:
            for table, released, flags in chain((first,), stream):
                tally.take(flags, table[ids].to_pylist() if draws and ids else None)
                writer.write(released)
            tally.check_ids()
    return tally.card(output)


def write_card(card: ReleaseCard, output: Path) -> list[Path]:
    """Put the card beside the release, for machines and for people."""
    paths = _card_paths(output)
    return [write_whole(paths[name], text) for name, text in card.files().items()]


def _card_paths(output: Path) -> dict[str, Path]:
    return {name: output.with_suffix(f".{name}") for name in ("card.json", "card.md")}


class _Tally:
    """What the card says of the rows that are released, counted batch by batch."""

    def __init__(self, made: TablePlan) -> None:
        self.made, self.rows = made, 0
        self.hidden = np.zeros(len(made.hider.mechanism.features))
        self.ids: list[Ids] = []

    def take(self, flags: Bools, ids: Any = None) -> None:
        """Add a batch of flags (n, m), and the ids of its rows where noise is drawn."""
        self.rows += len(flags)
        self.hidden += flags.sum(axis=0)
        if ids is not None:
            self.ids.append(row_ids(ids, len(flags)))

    def check_ids(self) -> None:
        """Refuse ids that come again in another batch: equal ids get equal noise, which two rows would cancel."""
        if self.ids and len(np.unique(np.concatenate(self.ids))) < self.rows:
            raise LowtideError("--ids names a column that repeats itself; give every row an id of its own")

    def card(self, output: Path) -> ReleaseCard:
        """The card of the plan, with the figures of these rows and the hash of the file."""
        card, mechanism, shares = self.made.hider.card, self.made.hider.mechanism, self.hidden / self.rows
        features = tuple(f._replace(hidden=float(share)) for f, share in zip(card.features, shares, strict=True))
        changed = float(shares[owners(mechanism.encoder, mechanism.features)].mean())
        return replace(card, features=features, rows=self.rows, changed=changed, data_sha256=sha256_of(output))
