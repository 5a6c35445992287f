"""The frozen result for images: what to hide and how, saved without pickle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lowtide.bundles import read_bundle, write_bundle
from lowtide.density.artefact import Density
from lowtide.disclose.budget import Reading
from lowtide.disclose.card import ReleaseCard
from lowtide.disclose.noise import KeyedNoise, row_ids
from lowtide.errors import LowtideError
from lowtide.images.encoder import Grid, Images, as_images
from lowtide.images.mechanism import ImageMechanism
from lowtide.images.policies import FixedPatches, PaperPatches, PatchPolicy
from lowtide.images.released import Released, all_flags
from lowtide.images.sequential import SequentialPatches
from lowtide.interface import Estimate
from lowtide.labels import Classes
from lowtide.tables.planning import Point
from lowtide.types import Bools

FORMAT = "lowtide-image-hider"
Config = dict[str, Any]


@dataclass(frozen=True, eq=False)
class ImageHider:
    """Hides in images what a policy says, by a mechanism.

    Attributes:
        policy: what to hide.
        mechanism: how it is disclosed.
        card: what is known of the release it was rehearsed with.
    """

    policy: PatchPolicy
    mechanism: ImageMechanism
    card: ReleaseCard

    def transform(self, images: Any, *, noise: KeyedNoise | None = None, ids: Any = None) -> Any:
        """Hide in images: an array gives an array of the same shape, `Images` give `Images` that hide when read.

        Args:
            images: bytes (n, height, width) or (n, height, width, channels), or `Images`.
            noise: where noise is drawn from, if the mechanism draws any.
            ids: one value per image that stays with it; needed where noise is drawn.
        """
        opened = self.read(images)
        numbers = row_ids(ids, len(opened)) if self.mechanism.draws else None
        if self.mechanism.draws and noise is None:
            raise LowtideError("hidden patches need noise; give noise=KeyedNoise(key), with a key from new_key()")
        release = Released(opened, self.policy, self.mechanism, noise, numbers)
        if isinstance(images, np.ndarray):
            return release.read(np.arange(len(opened))).reshape(images.shape)
        return release

    def flags(self, images: Any) -> Bools:
        """What is hidden of each image, (n, m)."""
        return all_flags(self.read(images), self.policy)

    def read(self, images: Any) -> Images:
        """Images of the size that was fitted, or an error."""
        opened, grid = as_images(images), self.mechanism.grid
        if tuple(opened.shape) != (grid.height, grid.width, grid.channels):
            height, width, channels = opened.shape
            raise LowtideError(
                f"the plan is for images of {grid.width}×{grid.height} pixels and {grid.channels} channel(s), "
                f"got {width}×{height} and {channels}; resize them, or plan for that size"
            )
        return opened

    def save(self, path: str | Path) -> None:
        """Write `config.json`, `model.safetensors`, `card.json`, `card.md` into the folder `path`; keep it inside."""
        config, tensors = self.parts()
        write_bundle(Path(path), config, tensors, form=FORMAT, beside=self.card.files())

    def parts(self) -> tuple[Config, dict[str, Tensor]]:
        """The hider as plain JSON and tensors."""
        policy, tensors = _policy_parts(self.policy)
        return {"policy": policy, "mechanism": self.mechanism.to_config(), "card": self.card.to_json()}, tensors

    @classmethod
    def load(cls, path: str | Path) -> ImageHider:
        """Read a hider back from the folder `path`."""
        config, tensors = read_bundle(Path(path), form=FORMAT)
        return cls.from_parts(config, tensors, path)

    @classmethod
    def from_parts(cls, config: Mapping[str, Any], tensors: dict[str, Tensor], path: str | Path) -> ImageHider:
        """Rebuild what `parts` took apart; `path`, where it came from, is for the error message."""
        try:
            mechanism = ImageMechanism.from_config(config["mechanism"])
            policy = _read_policy(config["policy"], tensors, mechanism, path)
            card = ReleaseCard.from_json(config["card"])
            if len(card.features) != len(mechanism.grid):
                raise LowtideError("the card is about other patches than the mechanism; make it again")
            return cls(policy, mechanism, card)
        except LowtideError as error:
            raise LowtideError(f"{path}: {error}") from error
        except (KeyError, TypeError, AttributeError, ValueError, IndexError, OverflowError) as error:
            raise LowtideError(f"{path} lacks or garbles a part of what is to be hidden; make it again") from error


def _policy_parts(policy: PatchPolicy) -> tuple[Config, dict[str, Tensor]]:
    if isinstance(policy, FixedPatches):
        tensors = {
            "hidden": torch.from_numpy(policy.hidden),
            "keep": torch.from_numpy(policy.keep),
            "hide": torch.from_numpy(policy.hide),
            "order": torch.from_numpy(policy.order),
            "marginal": torch.from_numpy(policy.marginal),
            "points": torch.from_numpy(np.stack([point.hidden for point in policy.curve])),
        }
        return {"name": "plan", "curve": [{**asdict(point), "hidden": None} for point in policy.curve]}, tensors
    if not isinstance(policy, (PaperPatches, SequentialPatches)) or not isinstance(policy.density, Density):
        raise LowtideError(f"cannot save a {type(policy).__name__} with another density than that of a TIDE")
    classes = Classes(tuple(range(len(policy.density.classes.labels))), policy.density.classes.prior)
    density, weights = replace(policy.density, classes=classes, report=None).parts()
    lists = {"keep": policy.keep.tolist(), "hide": policy.hide.tolist()}
    return {"name": policy.name, "epsilon": policy.epsilon, **lists, "density": density}, weights


def _read_policy(
    config: Mapping[str, Any], tensors: dict[str, Tensor], mechanism: ImageMechanism, where: Any
) -> PatchPolicy:
    grid = mechanism.grid
    if config["name"] == "plan":
        masks = {name: _mask(tensors[name].numpy(), grid) for name in ("hidden", "keep", "hide")}
        order, marginal = tensors["order"].numpy().astype(np.intp), tensors["marginal"].numpy()
        if not np.array_equal(np.sort(order), np.arange(len(grid))) or marginal.shape != order.shape:
            raise LowtideError("the order of the plan does not name every patch once; make it again")
        points = zip(config["curve"], tensors["points"].numpy(), strict=True)
        curve = tuple(_read_point(point, _mask(hidden, grid)) for point, hidden in points)
        return FixedPatches(grid, masks["hidden"], order, masks["keep"], masks["hide"], curve, marginal)
    density = Density.from_parts(config["density"], tensors, where)
    keep, hide = (_mask(np.array(config[name]), grid) for name in ("keep", "hide"))
    if config["name"] == "disclosed":
        return SequentialPatches(density, mechanism, float(config["epsilon"]), keep, hide)
    return PaperPatches(density, float(config["epsilon"]), keep, hide)


def _mask(values: Any, grid: Grid) -> Bools:
    """A mask (m,) as it was written; a garbled one would hide something else."""
    mask = grid.features.mask(values)
    if mask.ndim != 1:
        raise LowtideError("what is hidden must be one choice per patch; make it again")
    return mask


def _read_point(config: Mapping[str, Any], hidden: Bools) -> Point:
    reading = config["reading"]
    return Point(
        hidden, float(config["kept"]), Reading(Estimate(**reading["leakage"]), Estimate(**reading["accuracy"]))
    )
