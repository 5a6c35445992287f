"""The release card: what was done to a release, what may be promised of it and what was measured,
on one page.

A card travels with the release. It holds no value of the data, no label of the secret, and neither
key nor seed: who has the seed can take the noise off again.
"""

from __future__ import annotations

import importlib.metadata
import json
import math
import os
import platform
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jsonschema import Draft202012Validator, ValidationError
from jsonschema.exceptions import best_match
from jsonschema.validators import extend

from lowtide.bundles import is_signature, sign
from lowtide.disclose.card_page import page
from lowtide.disclose.certificate import Certificate, Past, PolicyName, TwoSided
from lowtide.disclose.membership import Membership
from lowtide.disclose.review import Decision, card_digest, digest_of
from lowtide.disclose.standing import Bound, SecretStanding, Standing, Unjudged, rests_on_few
from lowtide.errors import LowtideError, note
from lowtide.files import regular, write_whole
from lowtide.formatting import html_of_markdown
from lowtide.hashes import sha256_of
from lowtide.interface import Attack, DivergenceCurve, Estimate, Guarantee, RowOrder, strongest
from lowtide.nesting import check_nesting
from lowtide.types import Floats

FORMAT = "lowtide-release-card"
SCHEMA_VERSION = 3
OLD_NAME = "paper"  # of the policy 'sequential' with past='raw'
_WITHOUT_DIGEST = 2  # the version before, whose cards are read but cannot be verified
_NO_DIGEST = (
    f"the card is of schema version {_WITHOUT_DIGEST} and has no digest, so that an edit would"
    " go unnoticed; release again"
)
_EDITED = (
    "the card does not match its digest: it was edited or damaged after it was written; take the"
    " card that was written with the release, or release again"
)
# What the card of a release says of its own samples, so that a plan's card cannot know it.
_OF_THE_RELEASE = (
    "rows",
    "changed",
    "data_sha256",
    "plan_sha256",
    "decisions",
    "schema_version",
    "signature",
)
_COUNTED = ("blank", "beyond")  # of what nobody judged, likewise
_PACKAGES = ("lowtide", "numpy", "torch", "scikit-learn")
_MOST = sys.float_info.max
_ROUNDING = 1e-9  # the tolerance of an audit's verdict
_TELLING = (
    "type",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "enum",
    "const",
)  # their value is part of the rule


class Feature(NamedTuple):
    """A feature by name, and the share of rows in which it is hidden; 1 is for everybody."""

    name: str
    hidden: float


def versions() -> dict[str, str]:
    """Lowtide, Python and the packages it computes with."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):  # PyTorch is an extra
            found[name] = importlib.metadata.version(name)
    return found


def now() -> str:
    """This second, in UTC."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True, kw_only=True)
class ReleaseCard:
    """The card of one release.

    Attributes:
        mechanism: the name of the mechanism.
        certificate: what may be promised.
        features: each feature, and in which share of rows it is hidden.
        rows: how many rows were released.
        classes: how many values the secret has.
        largest_class: share of the commonest one, which is how often a blind guess is right.
        secret: the name of the secret, such as that of its column; `None` where it has none, and on
            older cards.
        changed: share of all values that were changed.
        leakage: estimated information of the release about the secret, in nats; `None` where there
            is no estimate, as for images and texts, which are only attacked.
        attacks: what attackers achieved.
        standing: whether the budget is kept; `None` without a budget.
        secrets: where the secret is the product of several, what is told about each by itself.
        bound: what holds against every attacker; `None` where the release has too many different
            rows to count.
        divergence: the divergences of the rehearsed release for several ε; `None` where nobody
            attacked.
        order: whether rows are in random order, and whether that of the reference rows tells;
            `None` on older cards.
        unjudged: what of the data neither the estimate nor an attacker looked at.
        parameters: plain options; an infinite number is written out as text.
        data_sha256: of the released file or folder, as `lowtide.files.sha256_of` gives it; `None`
            for a plan.
        plan_sha256: digest of the plan that made the release; `None` for a plan's own card.
        decisions: of reviewers, in the order in which they were made.
        created: UTC, such as 2026-01-31T12:00:00Z.
        versions: of the software.
        sealed: whether it has a digest; cards of schema version 2 have none.
        signature: HMAC of its digest with the key that the plan was signed with; `None` where
            nobody gave the key.
    """

    mechanism: str
    certificate: Certificate
    features: tuple[Feature, ...]
    rows: int
    classes: int
    largest_class: float
    changed: float
    secret: str | None = None
    leakage: Estimate | None = None
    attacks: tuple[Attack, ...] = ()
    standing: Standing | None = None
    secrets: tuple[SecretStanding, ...] = ()
    bound: Bound | None = None
    divergence: DivergenceCurve | None = None
    order: RowOrder | None = None
    unjudged: Unjudged = field(default_factory=Unjudged)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    data_sha256: str | None = None
    plan_sha256: str | None = None
    decisions: tuple[Decision, ...] = ()
    created: str = field(default_factory=now)
    versions: Mapping[str, str] = field(default_factory=versions)
    sealed: bool = True
    signature: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "parameters", {name: _plain(value) for name, value in self.parameters.items()}
        )
        _check({**self._content(), "digest": "0" * 64})  # what is no card may have no digest
        shares = [feature.hidden for feature in self.features]
        if self.policy == "fixed" and not set(shares) <= {0, 1}:
            raise LowtideError(
                "a fixed policy hides a feature for everybody or for nobody; a card of it has"
                " shares 0 and 1 only"
            )
        if not self.certificate.whole.vacuous and min(shares, default=0) < 1:
            raise LowtideError(
                "the certificate is of a release without raw features, and the card names some;"
                " redo it"
            )
        try:
            datetime.fromisoformat(self.created)
        except ValueError as error:
            raise LowtideError(
                "created must be a time in UTC such as 2026-01-31T12:00:00Z"
            ) from error

    @property
    def policy(self) -> PolicyName:
        """How it was decided what to hide."""
        return self.certificate.policy

    @property
    def past(self) -> Past | None:
        """What `sequential` went by where that is not what was disclosed: the raw values."""
        return self.parameters.get("past")

    @property
    def merged(self) -> dict[str, str]:
        """The features that are released coarser than they are, and the labels that each then
        shows.
        """
        names, labels = (self.parameters.get(name) or () for name in ("merged", "merged_labels"))
        return dict(zip(names, labels, strict=True))

    @property
    def strongest(self) -> Attack | None:
        """The strongest, in each figure, that attackers achieved who learnt from releases and
        attacked this one.
        """
        retrained = [a for a in self.attacks if (a.trained_on, a.target) == ("release", "release")]
        return strongest(retrained) if retrained else None

    @property
    def trusted(self) -> bool:
        """False when an attack on the release contradicts the estimate, or that rests on too few
        rows.
        """
        return self.leakage is None or not (
            self.contradicted or rests_on_few(self.leakage, self._prior)
        )

    @property
    def contradicted(self) -> bool:
        """Whether the whole interval of an attack on the release lies above that of the
        estimate.
        """
        shown = max(
            (a.information.low for a in self.attacks if a.target == "release"), default=-math.inf
        )
        return self.leakage is not None and shown > self.leakage.high + _ROUNDING

    @property
    def _prior(self) -> Floats:
        """(|S|,) shares of the classes, the others than the commonest as even as they can be."""
        rest = (1 - self.largest_class) / max(1, self.classes - 1)
        return np.array([self.largest_class] + [rest] * (self.classes - 1))

    def to_json(self) -> dict[str, Any]:
        """The card as plain values that satisfy `card_schema.json`."""
        card = self._content()
        if self.sealed:
            card["digest"] = card_digest(card)
        return card

    def _content(self) -> dict[str, Any]:
        """All that `to_json` gives, but the digest."""
        leakage = self.leakage and {"nats": asdict(self.leakage), "bits": asdict(self.leakage.bits)}
        card: dict[str, Any] = {
            "format": FORMAT,
            "schema_version": SCHEMA_VERSION if self.sealed else _WITHOUT_DIGEST,
            "versions": dict(self.versions),
            "created": self.created,
            "mechanism": self.mechanism,
            "parameters": _listed(self.parameters),
            "features": [feature._asdict() for feature in self.features],
            "rows": self.rows,
            "classes": self.classes,
            "largest_class": self.largest_class,
            "changed": self.changed,
            "certificate": _listed(asdict(self.certificate)),
            "leakage": leakage,
            "attacks": [asdict(attack) for attack in self.attacks],
            "standing": self.standing and asdict(self.standing),
            "bound": self.bound and asdict(self.bound),
            "divergence": self.divergence and _listed(asdict(self.divergence)),
            "order": self.order and asdict(self.order),
            "unjudged": _listed(asdict(self.unjudged)),
            "data_sha256": self.data_sha256,
            "plan_sha256": self.plan_sha256,
        }
        if self.secret is not None:  # older cards have no name of the secret
            card["secret"] = self.secret
        if self.secrets:  # cards of one secret are as they were before there were several
            card["secrets"] = [asdict(one) for one in self.secrets]
        if self.decisions:  # likewise
            card["decisions"] = [asdict(decision) for decision in self.decisions]
        if self.signature is not None:
            card["signature"] = self.signature
        return card

    @classmethod
    def from_json(cls, card: Any) -> ReleaseCard:
        """Read what `to_json` wrote, or say what is wrong with it; a card that was edited is
        refused.
        """
        if not isinstance(card, Mapping) or card.get("format") != FORMAT:
            raise LowtideError(f"this is not a release card: its format is not {FORMAT!r}")
        found = card.get("schema_version")
        if found not in (_WITHOUT_DIGEST, SCHEMA_VERSION):
            version = repr(found) if isinstance(found, int) else "none that can be read"
            raise LowtideError(
                f"the card's schema version is {version}, this Lowtide reads {_WITHOUT_DIGEST} and"
                f" {SCHEMA_VERSION}"
            )
        certificate = card.get("certificate")
        if isinstance(certificate, Mapping) and certificate.get("policy") == OLD_NAME:
            raise LowtideError(
                f"the card is of the policy {OLD_NAME!r}, which is no longer known; plan and"
                " release again with policy='sequential' and past='raw' (--policy sequential"
                " --past raw)"
            )
        _check(card)
        sealed = found == SCHEMA_VERSION
        if sealed and card["digest"] != card_digest(card):
            raise LowtideError(_EDITED)
        values = {
            name: value
            for name, value in card.items()
            if name not in ("format", "schema_version", "digest")
        }
        return cls(
            **values
            | {
                "features": tuple(Feature(**feature) for feature in card["features"]),
                "certificate": _certificate(card["certificate"]),
                "leakage": card["leakage"] and Estimate(**card["leakage"]["nats"]),
                "attacks": tuple(_attack(attack) for attack in card["attacks"]),
                "order": _order(card.get("order")),
                "standing": card.get("standing") and Standing(**card["standing"]),
                "secrets": tuple(_secret(one) for one in card.get("secrets", ())),
                "bound": card.get("bound") and Bound(**card["bound"]),
                "divergence": _divergence(card.get("divergence")),
                "unjudged": _unjudged(card.get("unjudged", {})),
                "decisions": tuple(Decision(**decision) for decision in card.get("decisions", ())),
                "sealed": sealed,
            }
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the card as JSON; the file appears whole or not at all."""
        write_whole(Path(path), self.files()["card.json"])

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ReleaseCard:
        """Read a card that `save` wrote."""
        place = regular(path)
        try:
            text = place.read_bytes()
        except OSError as error:
            raise LowtideError(f"cannot read {path}: {error.strerror}") from error
        check_nesting(text, path)
        try:
            card = json.loads(text.decode())
        except ValueError as error:
            raise LowtideError(
                f"{path} is not JSON: truncated or altered; copy it again"
            ) from error
        try:
            loaded = cls.from_json(card)
        except LowtideError as error:
            raise LowtideError(f"{path}: {error}") from error
        if not loaded.sealed:
            note(f"{path}: {_NO_DIGEST}")
        return loaded

    def matches(self, path: str | os.PathLike[str]) -> bool:
        """Whether a released file or folder is the very one that this card was written for."""
        if self.data_sha256 is None:
            raise LowtideError(
                "the card has no hash: it is that of a plan; give the card of the release"
            )
        return self.data_sha256 == sha256_of(Path(path))

    def reviewed(self, decision: Decision) -> ReleaseCard:
        """The card with one more decision, bound to all that it says."""
        if self.data_sha256 is None:
            raise LowtideError(
                "the card has no hash: it is that of a plan; review the card of the release"
            )
        if not self.sealed:
            raise LowtideError(f"{_NO_DIGEST}, and review its card")
        bound = replace(decision, digest=digest_of(self.to_json(), self.decisions, decision))
        return replace(self, decisions=(*self.decisions, bound))

    @property
    def edited_since(self) -> Decision | None:
        """The first decision that is not bound to the card as it is: card or decision was edited
        afterwards.
        """
        said = self.to_json()
        pairs = enumerate(self.decisions)
        return next(
            (one for k, one in pairs if one.digest != digest_of(said, self.decisions[:k], one)),
            None,
        )

    @property
    def digest(self) -> str | None:
        """SHA-256 of all that the card says but decisions; `None` on cards of schema version 2."""
        return card_digest(self._content()) if self.sealed else None

    def signed(self, key: bytes | None) -> ReleaseCard:
        """The card with the signature of its digest; without a key as it is."""
        digest = self.digest
        return self if key is None or digest is None else replace(self, signature=sign(digest, key))

    def is_signed_with(self, key: bytes) -> bool:
        """Whether somebody who has this key signed the card as it is."""
        digest = self.digest
        return digest is not None and is_signature(self.signature, digest, key)

    def differences(self, planned: ReleaseCard) -> list[str]:
        """The entries in which the card of a release differs from the card of its plan, by name.

        What a plan cannot know is left out: how many rows were released, their hash, how many
        values were changed, and, where that is decided row by row, the shares in which features are
        hidden.
        """
        here = self._claims()
        there = planned._claims()
        return sorted(
            name for name in here.keys() | there.keys() if here.get(name) != there.get(name)
        )

    def _claims(self) -> dict[str, Any]:
        """What a card says that is the same on the card of the plan."""
        card: dict[str, Any] = json.loads(json.dumps(self._content()))
        claims = {name: value for name, value in card.items() if name not in _OF_THE_RELEASE}
        claims["unjudged"] = {
            name: value for name, value in card["unjudged"].items() if name not in _COUNTED
        }
        order = self.order or RowOrder(None, False, None)
        claims["order"] = asdict(replace(order, shuffled=None))
        if self.policy != "fixed":
            claims["features"] = [feature.name for feature in self.features]
        return claims

    def files(self) -> dict[str, str]:
        """The card as files: `card.json` for machines, `card.md` for people."""
        plain = json.dumps(self.to_json(), indent=2, allow_nan=False, ensure_ascii=False) + "\n"
        return {"card.json": plain, "card.md": self.text()}

    def text(self) -> str:
        """The card as a page of Markdown, to be read in a minute."""
        return page(self)

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        """What `text` says, for a notebook."""
        return html_of_markdown(self.text())


@cache
def schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of a card."""
    return dict(
        json.loads(
            resources.files("lowtide.disclose").joinpath("card_schema.json").read_text("utf-8")
        )
    )


@cache
def _validator() -> Any:
    """The schema compiled, and stricter: numbers fit a float, whole ones are written so, and names
    are text.
    """
    types = {
        "number": lambda _, value: (
            type(value) is not bool and isinstance(value, (int, float)) and abs(value) <= _MOST
        ),
        "integer": lambda _, value: type(value) is not bool and isinstance(value, int),
        "object": lambda _, value: (
            isinstance(value, Mapping) and all(isinstance(name, str) for name in value)
        ),
    }
    return extend(
        Draft202012Validator, type_checker=Draft202012Validator.TYPE_CHECKER.redefine_many(types)
    )(schema())


def _check(card: Any) -> None:
    """Refuse what is not a card; the message names the place and the rule, never the value."""
    error = best_match(_validator().iter_errors(card))
    if error is not None:
        raise LowtideError(f"{error.json_path} of the card breaks the rule {_rule(error)}")


def _rule(error: ValidationError) -> str:
    rule = str(error.validator)
    value = error.validator_value
    if rule == "required":
        return f"{rule}: {', '.join(name for name in value if name not in error.instance)}"
    if rule == "pattern":
        return f"{rule}: {error.schema['description']}"
    if rule in _TELLING:
        return f"{rule}: {' or '.join(map(str, value)) if isinstance(value, list) else value}"
    return rule


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple, np.ndarray)):
        return tuple(_plain(entry) for entry in value)
    value = value.item() if isinstance(value, np.generic) else value
    return str(value) if isinstance(value, float) and math.isinf(value) else value


def _listed(value: Any) -> Any:
    """Tuples as the lists that JSON has."""
    if isinstance(value, Mapping):
        return {name: _listed(entry) for name, entry in value.items()}
    return [_listed(entry) for entry in value] if isinstance(value, tuple) else value


def _certificate(card: Mapping[str, Any]) -> Certificate:
    term = card["membership"]
    read = {
        "whole": _two_sided(card["whole"]),
        "hidden_part": card["hidden_part"] and _two_sided(card["hidden_part"]),
        "added": card["added"] and Guarantee(**card["added"]),
        "claim": card["claim"] and Guarantee(**card["claim"]),
        "membership": term and _membership(term),
        "statements": tuple(card["statements"]),
    }
    return Certificate(**{**card, **read})


def _membership(card: Mapping[str, Any]) -> Membership:
    sides = {side: Estimate(**card[side]) for side in ("forward", "reverse")}
    return Membership(**{**card, **sides, "hidden": tuple(card["hidden"])})


def _two_sided(card: Mapping[str, Any]) -> TwoSided:
    return TwoSided(
        **{**card, "forward": Guarantee(**card["forward"]), "reverse": Guarantee(**card["reverse"])}
    )


def _divergence(card: Mapping[str, Any] | None) -> DivergenceCurve | None:
    if card is None:
        return None
    lists = {name: tuple(value) for name, value in card.items() if isinstance(value, list)}
    estimates = {
        name: tuple(Estimate(**one) for one in card[name])
        for name in ("forward", "reverse", "tail")
    }
    if len({len(values) for values in lists.values()}) != 1:
        raise LowtideError(
            "the divergence of the card must have as many numbers as epsilons; make it again"
        )
    return DivergenceCurve(**{**card, **lists, **estimates, "certain": Estimate(**card["certain"])})


def _order(card: Mapping[str, Any] | None) -> RowOrder | None:
    return (
        None
        if card is None
        else RowOrder(**{**card, "told": card["told"] and Estimate(**card["told"])})
    )


def _unjudged(card: Mapping[str, Any]) -> Unjudged:
    lists: dict[str, Any] = {
        name: tuple(value) for name, value in card.items() if isinstance(value, list)
    }
    return Unjudged(**{**card, **lists})


def _secret(card: Mapping[str, Any]) -> SecretStanding:
    found = {name: Estimate(**card[name]) for name in ("accuracy", "information")}
    return SecretStanding(
        **{**card, **found, "standing": card["standing"] and Standing(**card["standing"])}
    )


def _attack(card: Mapping[str, Any]) -> Attack:
    return Attack(
        **{**card, **{name: Estimate(**card[name]) for name in ("accuracy", "auc", "information")}}
    )
