"""The verbs as `df.lowtide` of pandas and polars: `import lowtide.frames`, then
`df.lowtide.scan(secret="vote")`.

Whichever of the two libraries is installed gets the accessor; neither is loaded for the other's
sake.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from lowtide import verbs
from lowtide.auditing.report import AuditReport
from lowtide.disclose.plan_file import Plan, Release


class LowtideAccessor:
    """`df.lowtide`: the verbs, with this data frame as their data.

    Args:
        frame: a data frame of pandas or polars.
    """

    def __init__(self, frame: Any) -> None:
        self._frame = frame

    def scan(self, secret: Any, **options: Any) -> Any:
        """What leaks about `secret`, a column or the values of every row; options as of
        `lowtide.scan`.
        """
        return verbs.scan(self._frame, secret, **options)

    def plan(self, secret: Any, **options: Any) -> Plan:
        """What to change so that little of `secret` is told; options as of `lowtide.plan`."""
        return verbs.plan(self._frame, secret, **options)

    def release(self, plan: Any, **options: Any) -> Release:
        """This data frame as `plan` releases it, with its card; options as of `lowtide.release`."""
        return verbs.release(self._frame, plan, **options)

    def audit(self, reference: Any, secret: Any, **options: Any) -> AuditReport:
        """Attack this data frame, the release of `reference`, which has `secret`; options as of
        `lowtide.audit`.
        """
        return verbs.audit(self._frame, reference, secret, **options)


def register() -> tuple[str, ...]:
    """Give `df.lowtide` to the libraries that are installed; their names."""
    found = tuple(
        name for name in ("pandas", "polars") if importlib.util.find_spec(name) is not None
    )
    for name in found:
        library = importlib.import_module(name)
        if getattr(library.DataFrame, "lowtide", None) is LowtideAccessor:
            continue
        if name == "pandas":
            library.api.extensions.register_dataframe_accessor("lowtide")(LowtideAccessor)
        else:
            library.api.register_dataframe_namespace("lowtide")(LowtideAccessor)
    return found


REGISTERED = register()
"""The libraries whose data frames have `df.lowtide`."""
