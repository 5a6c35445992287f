"""The frozen result of an Obfuscator, and what its saved forms share whatever the kind of data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from lowtide import modalities
from lowtide.bundles import Arrays, read_bundle, write_bundle
from lowtide.checks import LowtideError
from lowtide.disclose.budget import Point, Reading
from lowtide.disclose.card import ReleaseCard
from lowtide.disclose.noise import KeyedNoise
from lowtide.estimate.density import Density
from lowtide.interface import Estimate
from lowtide.labels import Classes
from lowtide.types import Bools, Ints

FORMAT = "lowtide-hider"
Config = dict[str, Any]
Tensors = Arrays
Parts = tuple[Config, Tensors]
_DENSITY = "density."
_GARBLED = (
    KeyError,
    TypeError,
    AttributeError,
    ValueError,
    IndexError,
    OverflowError,
    RecursionError,
)


@dataclass(frozen=True, eq=False)
class Hider(ABC):
    """Hides what a policy says, by a mechanism: small, immutable, saved without pickle.

    Attributes:
        policy: what to hide.
        mechanism: how it is disclosed; `draws` says whether that takes a key.
        card: what is known of the release it was rehearsed with.
    """

    kind: ClassVar[str]
    policy: Any
    mechanism: Any
    card: ReleaseCard

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The names of the columns, patches or terms of a release."""

    @property
    def draws(self) -> bool:
        """Whether a release draws random numbers, and so takes a key."""
        return bool(self.mechanism.draws)

    @abstractmethod
    def transform(self, x: Any, *, noise: KeyedNoise | None = None, ids: Any = None) -> Any:
        """Hide in samples of the kind; the release.

        Args:
            x: n samples like those of the reference data.
            noise: where noise is drawn from, if the mechanism draws any.
            ids: (n,) one value per sample that stays with it, which noise is keyed by.
        """

    @abstractmethod
    def flags(self, x: Any, *, noise: KeyedNoise | None = None, ids: Any = None) -> Any:
        """What is hidden of each sample, (n, m) booleans; arguments as in `transform`."""

    def mechanism_parts(self) -> Parts:
        """The mechanism as plain JSON and tensors."""
        return self.mechanism.to_config(), {}

    def parts(self) -> Parts:
        """The hider as plain JSON and tensors; labels of the secret are not in it."""
        policy, tensors = self.policy.parts()
        mechanism, more = self.mechanism_parts()
        config = {
            "kind": self.kind,
            "policy": policy,
            "mechanism": mechanism,
            "card": self.card.to_json(),
        }
        return config, {**tensors, **more}

    def save(self, path: str | Path) -> None:
        """Write `config.json`, `model.safetensors`, `card.json`, `card.md` into the folder `path`;
        keep it inside.
        """
        config, tensors = self.parts()
        write_bundle(Path(path), config, tensors, form=FORMAT, beside=self.card.files())


def load_hider(path: str | Path) -> Hider:
    """Read a hider of any kind back from the folder `path`."""
    config, tensors = read_bundle(Path(path), form=FORMAT)
    with reading(path):
        modality = modalities.get(str(config["kind"]))
        hider: Hider = modality.read_hider(config, tensors, path)
        check_card(hider)
    return hider


def check_card(hider: Hider) -> None:
    """Refuse a hider whose card is about another one: nothing would be hidden under the numbers of
    the old card.
    """
    shares = [feature.hidden for feature in hider.card.features]
    past = getattr(hider.policy, "past", None)
    if (hider.card.policy, hider.card.past) != (hider.policy.name, past):
        raise LowtideError("the card is about another policy; make it again")
    if hider.policy.name != "fixed" or len(shares) != len(hider.policy.hidden):
        return
    if not np.array_equal(np.array(shares) == 1, hider.policy.hidden):
        raise LowtideError("the card is about other hidden features than the policy; make it again")


@contextmanager
def reading(where: str | Path) -> Iterator[None]:
    """Say of every error while parts are read where they came from."""
    try:
        yield
    except LowtideError as error:
        raise LowtideError(f"{where}: {error}") from error
    except _GARBLED as error:
        raise LowtideError(
            f"{where} lacks or garbles a part of what is to be hidden; make it again"
        ) from error


def density_parts(density: object) -> Parts:
    """A density as plain JSON and tensors, with numbers in place of the labels of the secret."""
    if not isinstance(density, Density):
        raise LowtideError(
            f"cannot save a policy with a {type(density).__name__}; its density must be that of a"
            " TIDE"
        )
    classes = Classes(tuple(range(len(density.classes.labels))), density.classes.prior)
    config, tensors = replace(density, classes=classes, report=None).parts()
    return config, {f"{_DENSITY}{name}": tensor for name, tensor in tensors.items()}


def read_density(config: Mapping[str, Any], tensors: Tensors, where: str | Path) -> Density:
    """Rebuild what `density_parts` gave."""
    own = {
        name.removeprefix(_DENSITY): tensor
        for name, tensor in tensors.items()
        if name.startswith(_DENSITY)
    }
    return Density.from_parts(dict(config), own, where)


def read_mask(values: Any, m: int) -> Bools:
    """A mask (m,) as it was written; a garbled one would hide something else."""
    mask = np.asarray(values)
    if mask.dtype != np.bool_ or mask.shape != (m,):
        raise LowtideError(
            "what is hidden must be one choice, true or false, for each feature; make it again"
        )
    return mask


def point_config(point: Point) -> Config:
    """A point of the trade-off curve as plain JSON, but for what it hides."""
    return {name: value for name, value in asdict(point).items() if name != "hidden"}


def read_point(config: Mapping[str, Any], hidden: Bools) -> Point:
    """Rebuild a point from what `point_config` gave and the mask (m,) of what it hides."""
    useful = config["useful"]
    return Point(
        hidden,
        float(config["kept"]),
        _reading(config["reading"]),
        None if useful is None else _reading(useful),
    )


def _reading(config: Mapping[str, Any]) -> Reading:
    return Reading(Estimate(**config["leakage"]), Estimate(**config["accuracy"]))


def ordered_parts(
    *, hidden: Bools, keep: Bools, hide: Bools, order: Ints, curve: tuple[Point, ...]
) -> Parts:
    """A fixed policy that hides along an order; every point of its curve hides the first so many of
    the order.
    """
    arrays = {"hidden": hidden, "keep": keep, "hide": hide, "order": order}
    points = [{**point_config(point), "depth": int(point.hidden.sum())} for point in curve]
    return {"name": "fixed", "curve": points}, {
        name: np.array(array) for name, array in arrays.items()
    }


def read_ordered(config: Mapping[str, Any], tensors: Tensors, m: int) -> dict[str, Any]:
    """The arguments that `ordered_parts` was given, of m features."""
    found: dict[str, Any] = {
        name: read_mask(tensors[name], m) for name in ("hidden", "keep", "hide")
    }
    order = tensors["order"].astype(np.intp)
    if not np.array_equal(np.sort(order), np.arange(m)):
        raise LowtideError("the order of hiding does not name every feature once; make it again")
    place = np.empty(m, dtype=np.intp)
    place[order] = np.arange(m)
    curve = tuple(read_point(point, place < int(point["depth"])) for point in config["curve"])
    return {**found, "order": order, "curve": curve}
