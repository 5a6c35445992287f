"""The frozen result of an Obfuscator: what to hide and how, small, immutable, saved without pickle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from torch import Tensor

from lowtide.bundles import read_bundle, write_bundle
from lowtide.density.artefact import Density
from lowtide.disclose.budget import Reading
from lowtide.disclose.card import ReleaseCard
from lowtide.disclose.noise import KeyedNoise, row_ids
from lowtide.errors import LowtideError
from lowtide.features import Features
from lowtide.interface import Estimate
from lowtide.labels import Classes
from lowtide.tables.cells import write
from lowtide.tables.encoder import TableEncoder
from lowtide.tables.mechanism import TableMechanism
from lowtide.tables.planning import Point
from lowtide.tables.policies import ColumnPolicy, FixedColumns, PaperColumns
from lowtide.tables.sequential import Rule, SequentialColumns
from lowtide.types import Bools, Floats32

FORMAT = "lowtide-hider"
Config = dict[str, Any]


@dataclass(frozen=True, eq=False)
class TableHider:
    """Hides what a policy says, by a mechanism.

    Attributes:
        policy: what to hide.
        mechanism: how it is disclosed.
        card: what is known of the release it was rehearsed with.
    """

    policy: ColumnPolicy
    mechanism: TableMechanism
    card: ReleaseCard

    def transform(self, x: Any, *, noise: KeyedNoise | None = None, ids: Any = None) -> tuple[Any, Bools]:
        """Hide in a table; the released table, and what was hidden of each row, (n, m).

        Args:
            x: rows with the columns of the reference data.
            noise: where noise is drawn from, if the mechanism draws any.
            ids: one value per row that stays with the row; needed where noise is drawn.
        """
        if isinstance(self.policy, FixedColumns) and not self.mechanism.draws and nw.dependencies.is_into_dataframe(x):
            return self._redact(x, self.policy.hidden)
        rows, flags, drawn = self._flags(x, noise, ids)
        # As everywhere in scikit-learn, a list of rows comes back as an array.
        table = x if nw.dependencies.is_into_dataframe(x) or hasattr(x, "detach") else np.asarray(x)
        return write(table, self.mechanism.hide(rows, flags, **drawn), flags, self.mechanism), flags

    def flags(self, x: Any, *, noise: KeyedNoise | None = None, ids: Any = None) -> Bools:
        """What is hidden of each row, (n, m); arguments as in `transform`."""
        return self._flags(x, noise, ids)[1]

    def _redact(self, x: Any, hidden: Bools) -> tuple[Any, Bools]:
        """What `transform` does to a data frame where no row matters: refuse the same tables, but encode no text."""
        refuse_new_columns(x, self.mechanism.encoder)
        n = self.mechanism.encoder.check(x)
        row = self.mechanism.hide(np.zeros((1, sum(self.mechanism.encoder.widths))), hidden)
        rows = np.broadcast_to(row, (n, row.shape[1]))
        return write(x, rows, hidden, self.mechanism), np.tile(hidden, (n, 1))

    def _flags(self, x: Any, noise: KeyedNoise | None, ids: Any) -> tuple[Floats32, Bools, dict[str, Any]]:
        refuse_new_columns(x, self.mechanism.encoder)
        rows = self.mechanism.encoder.encode(x)
        drawn = {"noise": noise, "ids": row_ids(ids, len(rows))} if self.mechanism.draws else {}
        everything = np.ones(len(self.mechanism.features), dtype=bool)
        standins = rows if isinstance(self.policy, FixedColumns) else self.mechanism.hide(rows, everything, **drawn)  # type: ignore[arg-type]
        return rows, self.policy.flags(rows, standins), drawn

    def save(self, path: str | Path) -> None:
        """Write `config.json`, `model.safetensors`, `card.json`, `card.md` into the folder `path`; keep it inside."""
        config, tensors = self.parts()
        write_bundle(Path(path), config, tensors, form=FORMAT, beside=self.card.files())

    @classmethod
    def load(cls, path: str | Path) -> TableHider:
        """Read a hider back from the folder `path`."""
        return cls.from_parts(*read_bundle(Path(path), form=FORMAT), path)

    def parts(self) -> tuple[Config, dict[str, Tensor]]:
        """The hider as plain JSON and tensors. Labels of the secret are not in it."""
        policy, tensors = _policy_parts(self.policy)
        return {"policy": policy, "mechanism": self.mechanism.to_config(), "card": self.card.to_json()}, tensors

    @classmethod
    def from_parts(cls, config: Mapping[str, Any], tensors: dict[str, Tensor], where: str | Path) -> TableHider:
        """Rebuild what `parts` took apart; `where` it came from is for the error message."""
        try:
            mechanism = TableMechanism.from_config(config["mechanism"])
            policy = _read_policy(config["policy"], tensors, mechanism.features, where)
            card = ReleaseCard.from_json(config["card"])
            if tuple(feature.name for feature in card.features) != mechanism.features.names:
                raise LowtideError("the card is about other features than the mechanism; make it again")
            return cls(policy, mechanism, card)
        except LowtideError as error:
            raise LowtideError(f"{where}: {error}") from error
        except (KeyError, TypeError, AttributeError, ValueError, IndexError, OverflowError) as error:
            raise LowtideError(f"{where} lacks or garbles a part of what is to be hidden; make it again") from error


def names_of(x: Any) -> list[str]:
    """The names of the columns of a data frame of any library; none for an array."""
    if not nw.dependencies.is_into_dataframe(x):
        return []
    return list(map(str, nw.from_native(x, eager_only=True).columns))


def refuse_new_columns(x: Any, encoder: TableEncoder) -> None:
    """Refuse columns that were not there in training: nothing is known about them, and one may be the secret."""
    extra = [name for name in names_of(x) if name not in encoder.names] if encoder.names else []
    if extra:
        raise LowtideError(
            f"X has the column(s) {', '.join(extra)} that were not there in training, so nobody knows what they tell; "
            "drop them, or fit with them"
        )


def _policy_parts(policy: ColumnPolicy) -> tuple[Config, dict[str, Tensor]]:
    if isinstance(policy, FixedColumns):
        curve = [_point_config(point) for point in policy.curve]
        marginal = [None if np.isnan(value) else float(value) for value in policy.marginal]
        return {"name": "plan", "hidden": policy.hidden.tolist(), "curve": curve, "marginal": marginal}, {}
    if not isinstance(policy, (SequentialColumns, PaperColumns)):
        raise LowtideError(f"cannot save a {type(policy).__name__}")  # cannot happen: there are three policies
    classes = Classes(tuple(range(len(policy.density.classes.labels))), policy.density.classes.prior)
    density, tensors = replace(policy.density, classes=classes, report=None).parts()
    if isinstance(policy, PaperColumns):
        lists = {"keep": policy.keep.tolist(), "hide": policy.hide.tolist()}
        return {"name": "paper", "epsilon": policy.epsilon, **lists, "density": density}, tensors
    rule = policy.rule
    limits = {name: None if np.isinf(value) else value for name, value in (("each", rule.each), ("total", rule.total))}
    plain = {**limits, "keep": rule.keep.tolist(), "hide": rule.hide.tolist()}
    how = {"rounds": policy.rounds, "unsettled": policy.unsettled}
    return {"name": "disclosed", "rule": plain, **how, "density": density}, tensors


def _read_policy(config: Mapping[str, Any], tensors: dict[str, Tensor], features: Features, where: Any) -> ColumnPolicy:
    if config["name"] == "plan":
        numbers = zip(features.names, config["marginal"], strict=True)
        marginal = np.array([np.nan if value is None else value for _, value in numbers], dtype=np.float64)
        curve = tuple(_read_point(point, features) for point in config["curve"])
        return FixedColumns(features, _mask(config["hidden"], features), curve, marginal)
    density = Density.from_parts(config["density"], tensors, where)
    if config["name"] == "paper":
        lists = (_mask(config[name], features) for name in ("keep", "hide"))
        return PaperColumns(density, config["epsilon"], *lists)
    rule = config["rule"]
    each, total = (np.inf if rule[name] is None else float(rule[name]) for name in ("each", "total"))
    keep, hide = (_mask(rule[name], features) for name in ("keep", "hide"))
    return SequentialColumns(density, Rule(each, total, keep, hide), config["rounds"], config["unsettled"])


def _mask(values: Any, features: Features) -> Bools:
    """A mask (m,) as it was written; a garbled one would hide something else."""
    mask = features.mask(values)
    if mask.ndim != 1:
        raise LowtideError("what is hidden must be one choice per feature; make it again")
    return mask


def _point_config(point: Point) -> Config:
    return {**asdict(point), "hidden": point.hidden.tolist()}


def _read_point(config: Mapping[str, Any], features: Features) -> Point:
    readings = [config["reading"], config["useful"]]
    reading, useful = (
        value and Reading(Estimate(**value["leakage"]), Estimate(**value["accuracy"])) for value in readings
    )
    noised, lam = tuple(map(int, config.get("noised", ()))), config.get("lam")
    return Point(_mask(config["hidden"], features), float(config["kept"]), reading, useful, noised, lam)
