"""How much a release may tell: nats, bits, or how often an attacker may be right.

The frozen result of an Obfuscator, and what its saved forms share whatever the kind of data.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from scipy.optimize import brentq
from torch import Tensor

from lowtide import modalities
from lowtide.bundles import read_bundle, write_bundle
from lowtide.checks import LowtideError, real, within
from lowtide.density.artefact import Density
from lowtide.density.objectives import information_of, mean_with_interval
from lowtide.disclose.card import ReleaseCard
from lowtide.disclose.noise import KeyedNoise
from lowtide.disclose.standing import Unit, budget_in_words
from lowtide.interface import NATS_PER_BIT, Estimate
from lowtide.labels import Classes
from lowtide.types import Bools, Floats, Ints

_PLAIN = 0.1  # weight of the plain worth beside the usefulness: a feature of no use is still worth something


@dataclass(frozen=True)
class Reading:
    """What an attacker's held-out answers say about a release.

    Attributes:
        leakage: the information in nats.
        accuracy: how often the most likely class is right.
    """

    leakage: Estimate
    accuracy: Estimate

    @classmethod
    def of(cls, density: Floats, codes: Ints, prior: Floats) -> Reading:
        """Read densities (n, |S|) of held-out rows whose classes are `codes` (n,)."""
        right = (density + np.log(prior)).argmax(axis=1) == codes
        own = density[np.arange(len(codes)), codes]
        return cls(information_of(own), mean_with_interval(right.astype(np.float64)))


@dataclass(frozen=True)
class Point:
    """One choice on the trade-off curve.

    Attributes:
        hidden: (m,) what it hides.
        kept: the share of the worth of all features, pixels or words that it keeps as they are.
        reading: what is left for an attacker, on held-out samples.
        useful: what is left for the use one has in mind, when there is one.
        noised: the hidden features that are noised where the others are redacted; none where all are hidden alike.
        lam: the λ of their noise.
    """

    hidden: Bools
    kept: float
    reading: Reading
    useful: Reading | None = None
    noised: tuple[int, ...] = ()
    lam: float | None = None


def blended_worth(plain: Floats, useful: Floats) -> Floats:
    """What keeping each feature is worth, as shares: mostly what it carries of a utility.

    Args:
        plain: (m,) shares of the data that each feature is.
        useful: (m,) what each carries of the utility, not negative; where none carries any, the plain shares count.
    """
    total = useful.sum()
    return _PLAIN * plain + (1 - _PLAIN) * (useful / total if total > 0 else plain)


@dataclass(frozen=True)
class Budget:
    """What a release may tell about the secret.

    Attributes:
        limit: nats of information, the share of right guesses, or δ.
        unit: `nats`, `accuracy`, or `delta`: the largest divergence, where a bound against every attacker is counted.
    """

    limit: float
    unit: Unit = "nats"

    def __post_init__(self) -> None:
        high = math.inf if self.unit == "nats" else 1.0
        hint = "no release tells less than nothing: the smallest budget is 0, and redaction of everything reaches it"
        within("budget", self.limit, 0.0, high, high_open=True, hint=hint if self.unit == "nats" else "")

    @classmethod
    def nats(cls, limit: float) -> Budget:
        """A budget of `limit` nats."""
        return cls(float(limit))

    @classmethod
    def bits(cls, limit: float) -> Budget:
        """A budget of `limit` bits."""
        return cls(float(limit) * NATS_PER_BIT)

    @classmethod
    def accuracy(cls, limit: float) -> Budget:
        """An attacker may be right at most this often."""
        return cls(float(limit), "accuracy")

    @classmethod
    def read(cls, value: Budget | float | str) -> Budget:
        """A budget from a number of nats or a text such as `0.02`, `0.02nats`, `0.03bits` or `55%`."""
        if isinstance(value, Budget):
            return value
        if not isinstance(value, str):
            return cls(float(real("budget", value)))
        match = re.fullmatch(r"\s*([0-9.eE+-]+)\s*(nats?|bits?|%|)\s*", value)
        try:
            number = float(match[1]) if match else math.nan
        except ValueError:
            number = math.nan
        if match is None or math.isnan(number):
            raise LowtideError(f"budget must read like 0.02, 0.02nats, 0.03bits or 55%, got {value!r}")
        if match[2] == "%":
            return cls.accuracy(number / 100)
        return cls.bits(number) if match[2].startswith("bit") else cls(number)

    def check(self, prior: Floats) -> None:
        """Refuse what no release can reach: fewer right guesses than always naming the most frequent class."""
        if self.unit == "accuracy" and self.limit < prior.max():
            raise LowtideError(
                f"an attacker who always names the most frequent class is right {prior.max():.1%} of the time, "
                f"whatever is hidden; the budget allows {self.limit:.1%}: allow at least that much"
            )

    def meets(self, reading: Reading) -> bool:
        """Whether a reading stays within the budget."""
        return self._of(reading).value <= self.limit

    def is_broken(self, reading: Reading) -> bool:
        """Whether a reading lies above the budget by more than its interval."""
        return self._of(reading).low > self.limit

    def _of(self, reading: Reading) -> Estimate:
        return reading.leakage if self.unit == "nats" else reading.accuracy

    def density(self, prior: Floats) -> float:
        """The largest ε such that `|i(s; y)| ≤ ε` for all s and y keeps the budget.

        A density within ±ε carries at most `ε·tanh(ε/2)` nats, and lifts the most likely class to at most
        `e^ε·max p(s)`.
        """
        if self.unit == "accuracy":
            return math.log(self.limit / float(prior.max())) if self.limit > prior.max() else 0.0
        if self.limit == 0:
            return 0.0
        return float(brentq(lambda e: e * math.tanh(e / 2) - self.limit, 0.0, self.limit + 2 + math.sqrt(self.limit)))

    def __str__(self) -> str:
        return budget_in_words(self.limit, self.unit)


FORMAT = "lowtide-hider"
Config = dict[str, Any]
Tensors = dict[str, Tensor]
Parts = tuple[Config, Tensors]
_DENSITY = "density."
_GARBLED = (KeyError, TypeError, AttributeError, ValueError, IndexError, OverflowError, RecursionError)


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
        config = {"kind": self.kind, "policy": policy, "mechanism": mechanism, "card": self.card.to_json()}
        return config, {**tensors, **more}

    def save(self, path: str | Path) -> None:
        """Write `config.json`, `model.safetensors`, `card.json`, `card.md` into the folder `path`; keep it inside."""
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
    """Refuse a hider whose card is about another one: nothing would be hidden under the numbers of the old card."""
    shares = [feature.hidden for feature in hider.card.features]
    if hider.card.policy != hider.policy.name:
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
        raise LowtideError(f"{where} lacks or garbles a part of what is to be hidden; make it again") from error


def density_parts(density: object) -> Parts:
    """A density as plain JSON and tensors, with numbers in place of the labels of the secret."""
    if not isinstance(density, Density):
        raise LowtideError(f"cannot save a policy with a {type(density).__name__}; its density must be that of a TIDE")
    classes = Classes(tuple(range(len(density.classes.labels))), density.classes.prior)
    config, tensors = replace(density, classes=classes, report=None).parts()
    return config, {f"{_DENSITY}{name}": tensor for name, tensor in tensors.items()}


def read_density(config: Mapping[str, Any], tensors: Mapping[str, Tensor], where: str | Path) -> Density:
    """Rebuild what `density_parts` gave."""
    own = {name.removeprefix(_DENSITY): tensor for name, tensor in tensors.items() if name.startswith(_DENSITY)}
    return Density.from_parts(dict(config), own, where)


def read_mask(values: Any, m: int) -> Bools:
    """A mask (m,) as it was written; a garbled one would hide something else."""
    mask = np.asarray(values)
    if mask.dtype != np.bool_ or mask.shape != (m,):
        raise LowtideError("what is hidden must be one choice, true or false, for each feature; make it again")
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
        tuple(map(int, config["noised"])),
        config["lam"],
    )


def _reading(config: Mapping[str, Any]) -> Reading:
    return Reading(Estimate(**config["leakage"]), Estimate(**config["accuracy"]))


def ordered_parts(*, hidden: Bools, keep: Bools, hide: Bools, order: Ints, curve: tuple[Point, ...]) -> Parts:
    """A fixed policy that hides along an order; every point of its curve hides the first so many of the order."""
    arrays = {"hidden": hidden, "keep": keep, "hide": hide, "order": order}
    points = [{**point_config(point), "depth": int(point.hidden.sum())} for point in curve]
    tensors = {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}
    return {"name": "fixed", "curve": points}, tensors


def read_ordered(config: Mapping[str, Any], tensors: Mapping[str, Tensor], m: int) -> dict[str, Any]:
    """The arguments that `ordered_parts` was given, of m features."""
    found: dict[str, Any] = {name: read_mask(tensors[name].numpy(), m) for name in ("hidden", "keep", "hide")}
    order = tensors["order"].numpy().astype(np.intp)
    if not np.array_equal(np.sort(order), np.arange(m)):
        raise LowtideError("the order of hiding does not name every feature once; make it again")
    place = np.empty(m, dtype=np.intp)
    place[order] = np.arange(m)
    curve = tuple(read_point(point, place < int(point["depth"])) for point in config["curve"])
    return {**found, "order": order, "curve": curve}
