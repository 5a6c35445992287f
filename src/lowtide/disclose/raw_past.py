"""The paper's rule: hide a feature whose density given the *raw* features before it exceeds ε
(paper, Eq. 4, Eq. 14).

One rule for every kind of data. It looks at what is not released, so that copies of the secret pass
and the places of what is hidden tell about it; nothing is promised of the whole release.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np

from lowtide.checks import LowtideError, limit_of
from lowtide.disclose.card import OLD_NAME
from lowtide.disclose.saved import Parts, Tensors, density_parts, read_density, read_mask
from lowtide.types import Bools, Ints

OLD_PLAN = (
    f"the plan is for the policy {OLD_NAME!r}, which is no longer known; make it again with"
    " policy='sequential' and past='raw' (--policy sequential --past raw)"
)


class Conditionals(Protocol):
    """What the rule asks: a fitted density."""

    def conditionals(self, x: Any) -> Any:
        """`i(s; x_j | x^{j−1})`, (n, m, |S|), or `TermConditionals` of the terms that are
        present.
        """
        ...


@dataclass(frozen=True, eq=False)
class RawPast:
    """The rule with its density (paper, Eq. 4 and Eq. 14).

    Attributes:
        density: of the raw features, in their order.
        epsilon: ε.
        keep: (m,) features that are never hidden.
        hide: (m,) features that always are.
    """

    name: ClassVar[str] = "sequential"
    past: ClassVar[str] = "raw"
    density: Conditionals = field(repr=False)
    epsilon: float
    keep: Bools = field(repr=False)
    hide: Bools = field(repr=False)

    def flags(self, x: Any, columns: Any = None) -> Any:
        """What to hide of n samples, where `max_s |i(s; x_j | x^{j−1})| > ε`.

        Args:
            x: n samples: rows, images or texts.
            columns: of texts, for each the features that it has; ignored for samples that have all
                of them.

        Returns:
            (n, m) booleans; of texts one mask after the other, of the features that each has.
        """
        if isinstance(x, np.ndarray):
            return self._flags(x)
        return self._present_flags(list(x), columns)

    def _flags(self, x: Any) -> Bools:
        steps = np.asarray(self.density.conditionals(x))
        if steps.shape[:2] != (len(x), len(self.keep)):
            raise LowtideError(
                f"the density answers {steps.shape[:2]} for {len(x)} samples of {len(self.keep)}"
                " features; fit it again"
            )
        return self._allowed((np.abs(steps) > self.epsilon).any(axis=-1))

    def _present_flags(self, x: Sequence[Any], columns: Sequence[Ints]) -> Iterator[Bools]:
        steps = self.density.conditionals(x)
        if len(steps.indptr) != len(x) + 1:
            raise LowtideError(
                "the density answers for other samples than it was asked about; fit it again"
            )
        telling = np.abs(np.asarray(steps.values)).max(axis=-1) > self.epsilon
        for row, present in enumerate(columns):
            mine = slice(steps.indptr[row], steps.indptr[row + 1])
            above = np.asarray(steps.terms[mine])[telling[mine]]
            yield self._allowed(np.isin(present, above), present)

    def _allowed(self, telling: Bools, columns: Ints | slice = slice(None)) -> Bools:
        """What is hidden of some features, where `telling` exceeds ε."""
        return np.asarray((telling & ~self.keep[columns]) | self.hide[columns])

    def parts(self) -> Parts:
        """Plain JSON, and the masks and the weights of the density as tensors."""
        density, tensors = density_parts(self.density)
        masks = {"keep": np.array(self.keep), "hide": np.array(self.hide)}
        config = {"name": self.name, "past": self.past, "epsilon": self.epsilon, "density": density}
        return config, {**tensors, **masks}

    @classmethod
    def read(cls, config: Mapping[str, Any], tensors: Tensors, m: int, where: Any) -> RawPast:
        """Rebuild what `parts` gave, of m features; `where` it came from is for error messages."""
        keep, hide = (read_mask(tensors[name], m) for name in ("keep", "hide"))
        return cls(
            read_density(config["density"], tensors, where), limit_of(config["epsilon"]), keep, hide
        )


def is_raw_past(config: Mapping[str, Any]) -> bool:
    """Whether a saved policy is this rule; refuses the name that it had in earlier versions."""
    if config["name"] == OLD_NAME:
        raise LowtideError(OLD_PLAN)
    return config.get("past") == RawPast.past
