"""What only the Obfuscator of tables takes, and which options go together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lowtide.checks import one_of
from lowtide.disclose.rehearsal import Task
from lowtide.errors import LowtideError
from lowtide.table_files.formats import find_column
from lowtide.tables.bands import check_cuts, read_bands
from lowtide.tables.encoder import TableEncoder
from lowtide.tables.hierarchy import read_hierarchies, read_hierarchy
from lowtide.tables.layout import Bounds, bounded, read_bounds
from lowtide.tables.merge_trees import Merges


@dataclass(frozen=True)
class TableSettings:
    """What only the Obfuscator of tables takes.

    Attributes:
        bounds: the valid range of numeric columns, a pair for all, one per name, or texts such as
            `age=0:120`; by default that of the reference data, rounded outwards. Values are clipped
            to it.
        categorical: how `gaussian` hides categories: `redact`, or `response` for randomised
            response.
        fill: what a redacted number becomes; or `redraw`: with policy `fixed`, hidden columns are
            filled in with values drawn from their law given the columns that are shown.
        together: columns that are hidden or drawn together, such as `education,education_num`.
        bands: of `merge`, where the bands of a column begin: texts such as `age=17,30,45,65`, or
            cuts by name.
        hierarchy: of `merge`, what categories may be joined into: texts such as
            `workclass=FILE.csv`, or by name.
    """

    bounds: Bounds | Sequence[str] | None = None
    categorical: Literal["redact", "response"] = "redact"
    fill: float | Literal["redraw"] = 0.0
    together: Sequence[str] = ()
    bands: Mapping[str, Sequence[float]] | Sequence[str] = ()
    hierarchy: Mapping[str, str | Path] | Sequence[str] = ()

    @property
    def blank(self) -> float:
        """What a redacted number becomes where nothing fills it in."""
        return 0.0 if isinstance(self.fill, str) else self.fill

    @property
    def ranges(self) -> Bounds | None:
        """The bounds, read."""
        if isinstance(self.bounds, Sequence) and all(isinstance(text, str) for text in self.bounds):
            return read_bounds(self.bounds) or None  # type: ignore[arg-type]
        return self.bounds  # type: ignore[return-value]


def _check_fill(task: Task) -> None:
    fill = task.settings.fill
    if not isinstance(fill, str):
        return
    one_of("fill", fill, ("redraw",))
    if task.policy != "fixed" or task.mechanism != "redact":
        raise LowtideError(
            "fill='redraw' fills columns that are redacted for everybody, with policy='fixed' and"
            f" mechanism='redact', got policy={task.policy!r} and mechanism={task.mechanism!r};"
            " leave fill out"
        )


def _check_merge(task: Task) -> None:
    settings = task.settings
    if task.mechanism != "merge":
        given = [name for name in ("bands", "hierarchy") if getattr(settings, name)]
        if given:
            raise LowtideError(
                f"{' and '.join(given)} say how columns are merged; use mechanism='merge', or"
                " leave out"
            )
        return
    if task.policy != "fixed" or task.kept is not None:
        raise LowtideError(
            "mechanism='merge' is for policy='fixed' with a budget; use 'redact' for a share to"
            " keep"
        )
    noisy = task.lam is not None or (task.delta is not None and task.certify is None)
    if noisy or settings.categorical != "redact":
        raise LowtideError("mechanism='merge' draws no noise; leave lam, delta and categorical out")
    if settings.together:
        raise LowtideError("mechanism='merge' judges every column by itself; leave together out")


def check_task(task: Task) -> None:
    """Refuse options that do not go together."""
    _check_fill(task)
    noiseless = (
        task.mechanism == "redact"
        and task.past == "disclosed"
        and task.settings.categorical == "redact"
    )
    if noiseless and (task.lam is not None or (task.delta is not None and task.certify is None)):
        raise LowtideError(
            "lam and delta are about noise, and redaction draws none; leave them out, or use"
            " mechanism gaussian"
        )
    _check_merge(task)
    countable = (
        task.policy == "fixed" and task.mechanism in ("redact", "merge") and task.lam is None
    )
    if task.certify is not None and (not countable or task.budget is None):
        raise LowtideError(
            "a bound against every attacker is counted from columns as they are, or merged: certify"
            " is for policy='fixed', mechanism='redact' or 'merge' without noise, and a budget"
        )


def read_merges(settings: TableSettings, encoder: TableEncoder) -> Merges:
    """What the settings say of merging, by the names of the table's columns."""
    names = encoder.names
    given = settings.bands
    bands = given if isinstance(given, Mapping) else read_bands(given)
    for cuts in bands.values():
        check_cuts(cuts)
    files = settings.hierarchy
    trees = (
        {name: read_hierarchy(path) for name, path in files.items()}
        if isinstance(files, Mapping)
        else None
    )
    hierarchies = read_hierarchies(files) if trees is None else trees  # type: ignore[arg-type]
    both = sorted(set(bands) & set(hierarchies))
    if both:
        raise LowtideError(f"{', '.join(both)} has bands and a hierarchy; give one of them")
    return Merges(
        {find_column(name, names): tuple(map(float, cuts)) for name, cuts in bands.items()},
        {find_column(name, names): one for name, one in hierarchies.items()},
        {names[place]: pair for place, pair in bounded(encoder, settings.ranges).items()},
    )
