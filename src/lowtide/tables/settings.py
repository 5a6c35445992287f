"""What only the Obfuscator of tables takes, and which options go together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from lowtide.checks import one_of
from lowtide.disclose.rehearsal import Task
from lowtide.errors import LowtideError
from lowtide.tables.layout import Bounds, read_bounds


@dataclass(frozen=True)
class TableSettings:
    """What only the Obfuscator of tables takes.

    Attributes:
        bounds: the valid range of numeric columns, a pair for all, one per name, or texts such as `age=0:120`; by
            default that of the reference data, rounded outwards. Values are clipped to it.
        categorical: how `gaussian` hides categories: `redact`, or `response` for randomised response.
        fill: what a redacted number becomes; or `redraw`: with policy `fixed`, hidden columns are filled in with values
            drawn from their law given the columns that are shown.
        together: columns that are hidden or drawn together, such as `education,education_num`.
    """

    bounds: Bounds | Sequence[str] | None = None
    categorical: Literal["redact", "response"] = "redact"
    fill: float | Literal["redraw"] = 0.0
    together: Sequence[str] = ()

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
            f"fill='redraw' fills columns that are redacted for everybody, with policy='fixed' and mechanism='redact', "
            f"got policy={task.policy!r} and mechanism={task.mechanism!r}; leave fill out"
        )


def check_task(task: Task) -> None:
    """Refuse options that do not go together."""
    _check_fill(task)
    noiseless = task.mechanism == "redact" and task.policy != "paper" and task.settings.categorical == "redact"
    if noiseless and (task.lam is not None or task.delta is not None):
        raise LowtideError(
            "lam and delta are about noise, and redaction draws none; leave them out, or use mechanism gaussian"
        )
    if task.certify and (task.policy != "fixed" or task.mechanism != "redact" or task.budget is None):
        raise LowtideError(
            "a bound against every attacker is counted from columns as they are: --certify is for policy='fixed', "
            "mechanism='redact' and a budget"
        )
    if task.mechanism != "mixed":
        return
    if task.policy != "fixed" or task.kept is not None:
        raise LowtideError("mechanism='mixed' is for policy='fixed' with a budget; use 'redact' or 'gaussian'")
    if task.delta is not None:
        raise LowtideError("mechanism='mixed' takes lam or nothing; leave delta out")
