"""The frozen result for texts: what to hide and how, saved without pickle."""

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
from lowtide.interface import Estimate
from lowtide.labels import Classes
from lowtide.texts.encoder import TextEncoder, as_texts
from lowtide.texts.policies import FixedTerms, PaperTerms, TermPoint, TermPolicy
from lowtide.texts.rewriting import ReleasedTexts, Rewriter, text_ids
from lowtide.types import Bools

FORMAT = "lowtide-text-hider"
Config = dict[str, Any]
_DENSITY = "density."


@dataclass(frozen=True, eq=False)
class TextHider:
    """Hides in texts what a policy says.

    Attributes:
        policy: what to hide.
        rewriter: what becomes of it.
        card: what is known of the release it was rehearsed with.
    """

    policy: TermPolicy
    rewriter: Rewriter
    card: ReleaseCard

    def transform(self, texts: Any, *, noise: KeyedNoise | None = None, ids: Any = None) -> ReleasedTexts:
        """Hide in texts.

        Args:
            texts: n texts, as a list or a column.
            noise: where substitutes are drawn from, if words are replaced.
            ids: (n,) one value per text that stays with it, which substitutes are keyed by; by default what it says.
        """
        listed = as_texts(texts)
        numbers = None
        if self.rewriter.draws:
            numbers = text_ids(listed) if ids is None else row_ids(ids, len(listed))
        return self.rewriter.write(listed, self.policy, noise=noise, ids=numbers)

    def save(self, path: str | Path) -> None:
        """Write `config.json`, `model.safetensors`, `card.json`, `card.md` into the folder `path`; keep it inside."""
        config, tensors = self.parts()
        write_bundle(Path(path), config, tensors, form=FORMAT, beside=self.card.files())

    def parts(self) -> tuple[Config, dict[str, Tensor]]:
        """The hider as plain JSON and tensors. Labels of the secret are not in it; the terms are."""
        policy, tensors = _policy_parts(self.policy)
        rewriter = self.rewriter
        for name in ("hidden", "tokens"):
            tensors[f"rewriter.{name}"] = torch.from_numpy(getattr(rewriter, name).copy())
        tensors["similar"] = torch.from_numpy(rewriter.encoder.similar.copy())
        how = {"how": rewriter.how, "mark": rewriter.mark, "encoder": rewriter.encoder.to_config()}
        return {"policy": policy, "rewriter": how, "card": self.card.to_json()}, tensors

    @classmethod
    def load(cls, path: str | Path) -> TextHider:
        """Read a hider back from the folder `path`."""
        return cls.from_parts(*read_bundle(Path(path), form=FORMAT), path)

    @classmethod
    def from_parts(cls, config: Mapping[str, Any], tensors: dict[str, Tensor], path: str | Path) -> TextHider:
        """Rebuild what `parts` took apart; `path`, where it came from, is for the error message."""
        try:
            plain = config["rewriter"]
            encoder = TextEncoder.from_config(plain["encoder"], tensors["similar"].numpy())
            arrays = tensors["rewriter.hidden"].numpy(), tensors["rewriter.tokens"].numpy()
            policy = _read_policy(config["policy"], tensors, encoder, path)
            card = ReleaseCard.from_json(config["card"])
            return cls(policy, Rewriter(encoder, plain["how"], *arrays, plain["mark"]), card)
        except LowtideError as error:
            raise LowtideError(f"{path}: {error}") from error
        except (KeyError, TypeError, AttributeError, ValueError, IndexError, OverflowError) as error:
            raise LowtideError(f"{path} lacks or garbles a part of what is to be hidden; make it again") from error


def _policy_parts(policy: TermPolicy) -> tuple[Config, dict[str, Tensor]]:
    if isinstance(policy, FixedTerms):
        names = ("hidden", "order", "tokens", "keep", "hide")
        tensors = {name: torch.from_numpy(getattr(policy, name).copy()) for name in names}
        curve = [{**point._asdict(), "reading": asdict(point.reading)} for point in policy.curve]
        return {"name": "plan", "curve": curve}, tensors
    if not isinstance(policy, PaperTerms) or not isinstance(policy.density, Density):
        raise LowtideError(f"cannot save a {type(policy).__name__} with another density than that of a TIDE")
    classes = Classes(tuple(range(len(policy.density.classes.labels))), policy.density.classes.prior)
    density, weights = replace(policy.density, classes=classes, report=None).parts()
    tensors = {f"{_DENSITY}{name}": value for name, value in weights.items()}
    tensors |= {name: torch.from_numpy(getattr(policy, name).copy()) for name in ("keep", "hide")}
    return {"name": policy.name, "epsilon": policy.epsilon, "density": density}, tensors


def _read_policy(config: Mapping[str, Any], tensors: dict[str, Tensor], encoder: TextEncoder, where: Any) -> TermPolicy:
    vocabulary, terms = encoder.vocabulary, len(encoder.vocabulary)
    keep, hide = (_mask(tensors[name], terms) for name in ("keep", "hide"))
    if config["name"] == "paper":
        own = {name.removeprefix(_DENSITY): value for name, value in tensors.items() if name.startswith(_DENSITY)}
        return PaperTerms(
            vocabulary, Density.from_parts(config["density"], own, where), float(config["epsilon"]), keep, hide
        )
    order, tokens = tensors["order"].numpy().astype(np.intp), tensors["tokens"].numpy().astype(np.float64)
    if not np.array_equal(np.sort(order), np.arange(terms)) or tokens.shape != order.shape:
        raise LowtideError("the order of the plan does not name every term once; make it again")
    curve = tuple(_read_point(point) for point in config["curve"])
    return FixedTerms(vocabulary, _mask(tensors["hidden"], terms), order, tokens, keep, hide, curve)


def _mask(values: Tensor, terms: int) -> Bools:
    mask = values.numpy()
    if mask.dtype != np.bool_ or mask.shape != (terms,):
        raise LowtideError("what is hidden must be one choice per term; make it again")
    return mask


def _read_point(config: Mapping[str, Any]) -> TermPoint:
    reading = config["reading"]
    both = Reading(Estimate(**reading["leakage"]), Estimate(**reading["accuracy"]))
    return TermPoint(int(config["depth"]), float(config["kept"]), both)
