"""Results that write their own report."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from lowtide.errors import LowtideError


class ReportWriter(Protocol):
    """Writes the report of one result."""

    def __call__(self, path: Path, *, figures: Path | None = None, scan: Any = None) -> list[Path]:
        """Write the page and, where asked for, its figures as files; returns what was written, the page first."""
        ...


@dataclass(frozen=True, eq=False)
class Reported:
    """A result of a verb, which knows how to write its report.

    Attributes:
        writer: writes it; the verbs set it, since they hold the data that a report shows averages of.
    """

    writer: ReportWriter | None = field(default=None, repr=False, kw_only=True)

    def write_report(self, path: str | Path, *, figures: str | Path | None = None, scan: Any = None) -> list[Path]:
        """Write the report as one HTML file.

        Args:
            path: the file; it appears whole or not at all.
            figures: a folder for the figures of the report, made when it does not exist.
            scan: a scan of the same data, to be shown before the rest.
        """
        if self.writer is None:
            raise LowtideError("this result holds no data to report about; make it with lowtide.scan, plan or audit")
        return self.writer(Path(path), figures=None if figures is None else Path(figures), scan=scan)
