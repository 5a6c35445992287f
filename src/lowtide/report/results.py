"""The report of a result of a verb, written from the data that the result is about."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lowtide.auditing.report import AuditReport
from lowtide.disclose.card import ReleaseCard
from lowtide.disclose.plan_file import Plan
from lowtide.places import as_place, is_place
from lowtide.protocols import Dataset, Modality
from lowtide.report.html import write_report
from lowtide.report.sections import make_report


@dataclass(frozen=True, eq=False)
class ResultReport:
    """Writes the report of a result, from the data it is about."""

    modality: Modality
    title: str
    data: Dataset
    scan: Any = None
    plan: Plan | None = None
    audit: AuditReport | None = None
    card: ReleaseCard | None = None
    single: int = 0
    seed: int = 0

    def __call__(self, path: Path, *, figures: Path | None = None, scan: Any = None) -> list[Path]:
        """Write the page and its figures."""
        hider = None if self.plan is None else self.plan.hider
        found = scan or self.scan
        view = None
        if found is not None or hider is not None:
            view = self.modality.view(
                self.data.samples, scan=found, hider=hider, single=self.single, seed=self.seed
            )
        page = make_report(
            self.title,
            self.data.secret,
            self.modality,
            scan=found,
            plan=None if hider is None else self.modality.outline(hider),
            audit=self.audit,
            card=self.card,
            view=view,
        )
        return write_report(page, path, figures=figures)


def reported_plan(made: Plan, data: Dataset) -> Plan:
    """A plan that writes its report from the data it was made from."""
    title = f"{data.name}: a plan to hide {data.secret}"
    return replace(made, writer=ResultReport(made.modality, title, data, plan=made, card=made.card))


def reported_audit(
    found: AuditReport,
    modality: Modality,
    release: Any,
    data: Dataset,
    *,
    plan: Plan | None,
    card: ReleaseCard | None,
) -> AuditReport:
    """An audit that writes its report, titled by the release it is of."""
    name = as_place(release).name if is_place(release) else data.name
    title = f"{name}: what it still tells about {data.secret}"
    return replace(
        found, writer=ResultReport(modality, title, data, plan=plan, audit=found, card=card)
    )
