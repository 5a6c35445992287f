"""The release card: what was done to a release, what may be promised of it and what was measured, on one page.

A card travels with the release. It holds no value of the data, no label of the secret, and neither key nor seed: who
has the seed can take the noise off again.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import math
import os
import platform
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
from scipy import sparse

from lowtide.disclose.certificate import Certificate, Membership, PolicyName, TwoSided, rounded_up
from lowtide.errors import LowtideError
from lowtide.interface import Attack, Estimate, Guarantee

FORMAT = "lowtide-release-card"
SCHEMA_VERSION = 1
_PACKAGES = ("lowtide", "numpy", "torch", "scikit-learn")
_BLOCK = 65536
_NAMED = 12  # features listed by name on the page; the JSON has them all
_DONE = {
    "plan": "The same features are hidden for everybody.",
    "disclosed": "Feature by feature, a value is hidden where it would tell too much beyond what was disclosed before.",
    "paper": "Feature by feature, a value is hidden where it would tell too much beyond the raw values before it.",
}
_NEVER = (
    "All of this is about one row: whoever stands in several is less protected.",
    "The estimate and the attacks speak for the data they were computed on; a better attacker may exist.",
)


class Feature(NamedTuple):
    """A feature by name, and the share of rows in which it is hidden; 1 is for everybody."""

    name: str
    hidden: float


def versions() -> dict[str, str]:
    """Lowtide, Python and the packages it computes with."""
    return {"python": platform.python_version(), **{name: importlib.metadata.version(name) for name in _PACKAGES}}


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
        changed: share of all values that were changed.
        leakage: estimated information of the release about the secret, in nats; `None` when it was not estimated.
        attacks: what attackers achieved.
        parameters: plain options; an infinite number is written out as text.
        data_sha256: of the released data, as `hash_rows` or `hash_table` give it.
        created: UTC, such as 2026-01-31T12:00:00Z.
        versions: of the software.
    """

    mechanism: str
    certificate: Certificate
    features: tuple[Feature, ...]
    rows: int
    classes: int
    largest_class: float
    changed: float
    leakage: Estimate | None = None
    attacks: tuple[Attack, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    data_sha256: str | None = None
    created: str = field(default_factory=now)
    versions: Mapping[str, str] = field(default_factory=versions)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", {name: _plain(value) for name, value in self.parameters.items()})
        self.to_json()
        shares = [feature.hidden for feature in self.features]
        if self.policy == "plan" and not set(shares) <= {0, 1}:
            raise LowtideError(
                "a plan hides a feature for everybody or for nobody; a card of it has shares 0 and 1 only"
            )
        if not self.certificate.whole.vacuous and min(shares, default=0) < 1:
            raise LowtideError("the certificate is of a release without raw features, and the card names some; redo it")
        try:
            datetime.fromisoformat(self.created)
        except ValueError as error:
            raise LowtideError("created must be a time in UTC such as 2026-01-31T12:00:00Z") from error

    @property
    def policy(self) -> PolicyName:
        """How it was decided what to hide."""
        return self.certificate.policy

    @property
    def strongest(self) -> Attack | None:
        """The attacker with the largest AUC among those that learnt from releases and attacked this one."""
        retrained = [a for a in self.attacks if (a.trained_on, a.target) == ("release", "release")]
        return max(retrained, key=lambda attack: attack.auc.value, default=None)

    @property
    def trusted(self) -> bool:
        """False when an attacker of the release extracts more than the estimate's interval allows."""
        found = [attack.information.value for attack in self.attacks if attack.target == "release"]
        return self.leakage is None or max(found, default=-math.inf) <= self.leakage.high

    def to_json(self) -> dict[str, Any]:
        """The card as plain values that satisfy `card_schema.json`."""
        leakage = self.leakage and {"nats": asdict(self.leakage), "bits": asdict(self.leakage.bits)}
        card = {
            "format": FORMAT,
            "schema_version": SCHEMA_VERSION,
            "versions": dict(self.versions),
            "created": self.created,
            "mechanism": self.mechanism,
            "parameters": {n: list(v) if isinstance(v, tuple) else v for n, v in self.parameters.items()},
            "features": [feature._asdict() for feature in self.features],
            "rows": self.rows,
            "classes": self.classes,
            "largest_class": self.largest_class,
            "changed": self.changed,
            "certificate": _listed(asdict(self.certificate)),
            "leakage": leakage,
            "attacks": [asdict(attack) for attack in self.attacks],
            "data_sha256": self.data_sha256,
        }
        _check(card, schema(), "the card")
        return card

    @classmethod
    def from_json(cls, card: Any) -> ReleaseCard:
        """Read what `to_json` wrote, or say what is wrong with it."""
        if not isinstance(card, Mapping) or card.get("format") != FORMAT:
            raise LowtideError(f"this is no release card: its format is not {FORMAT!r}")
        if card.get("schema_version") != SCHEMA_VERSION:
            found = card.get("schema_version")
            version = repr(found) if isinstance(found, int) else "none that can be read"
            raise LowtideError(f"the card's schema version is {version}, this Lowtide reads {SCHEMA_VERSION}")
        _check(card, schema(), "the card")
        values = {name: value for name, value in card.items() if name not in ("format", "schema_version")}
        return cls(
            **values
            | {
                "features": tuple(Feature(**feature) for feature in card["features"]),
                "certificate": _certificate(card["certificate"]),
                "leakage": card["leakage"] and Estimate(**card["leakage"]["nats"]),
                "attacks": tuple(_attack(attack) for attack in card["attacks"]),
            }
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the card as JSON; the file appears whole or not at all."""
        target, text = Path(path), json.dumps(self.to_json(), indent=2, allow_nan=False, ensure_ascii=False) + "\n"
        try:
            handle, partial = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        except OSError as error:
            raise LowtideError(f"cannot write {target}: {error.strerror}; choose a folder you may write to") from error
        try:
            os.fchmod(handle, 0o644)  # a card is for sharing; temporary files are not
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            Path(partial).replace(target)
        except BaseException:
            Path(partial).unlink(missing_ok=True)
            raise

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ReleaseCard:
        """Read a card that `save` wrote."""
        try:
            card = json.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise LowtideError(f"cannot read {path}: {error.strerror}") from error
        except (ValueError, RecursionError) as error:
            raise LowtideError(f"{path} is no JSON: truncated or altered; copy it again") from error
        try:
            return cls.from_json(card)
        except LowtideError as error:
            raise LowtideError(f"{path}: {error}") from error

    def text(self) -> str:
        """The card as a page of Markdown, to be read in a minute."""
        sections = [
            [f"# Release card: {_headline(self)}"],
            ["## Three numbers", "", *_numbers(self)],
            ["## What was done", "", *(f"- {line}" for line in _done(self))],
            ["## What holds, and what does not", "", *(f"- {line}" for line in self.certificate.statements)],
            ["## What is not promised", "", *(f"- {line}" for line in (*_raw(self), *_NEVER))],
            *([["## Attacks", "", *_attacks(self.attacks)]] if self.attacks else []),
            [_footer(self)],
        ]
        return "\n\n".join("\n".join(lines) for lines in sections) + "\n"


def hash_rows(rows: Any) -> str:
    """SHA-256 of released numbers: an array (n, columns), in memory or mapped, or a sparse matrix.

    It depends on the values and the shape, not on precision or order in memory. Hash releases only: a hash of clean
    data would let anyone check a guess at it.
    """
    digest = hashlib.sha256()
    if sparse.issparse(rows):
        matrix = sparse.csr_array(rows, dtype=np.float64, copy=True)
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        digest.update(f"sparse {matrix.shape}".encode())
        for part in (matrix.indptr, matrix.indices):
            digest.update(part.astype("<i8").tobytes())
        digest.update(_bytes(matrix.data))
        return digest.hexdigest()
    array = np.asanyarray(rows)
    if array.dtype.kind not in "biuf" or array.ndim == 0:
        raise LowtideError(f"rows must be an array of numbers, got {array.dtype}; give a table to hash_table")
    digest.update(f"dense {array.shape}".encode())
    for start in range(0, len(array), _BLOCK):
        digest.update(_bytes(array[start : start + _BLOCK]))
    return digest.hexdigest()


def hash_table(table: Any) -> str:
    """SHA-256 of a released data frame: names and cells, the same from any library. Hash releases only."""
    frame, digest = nw.from_native(table, eager_only=True), hashlib.sha256()
    for name in frame.columns:
        column = frame[name]
        cells = zip(column.to_list(), column.is_null().to_list(), strict=True)
        digest.update(json.dumps([str(name), [None if missing else _cell(value) for value, missing in cells]]).encode())
    return digest.hexdigest()


@cache
def schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of a card."""
    return dict(json.loads(resources.files("lowtide.disclose").joinpath("card_schema.json").read_text("utf-8")))


def _bytes(values: Any) -> bytes:
    numbers = np.asarray(values, dtype="<f8") + 0.0  # −0 is 0
    return np.where(np.isnan(numbers), np.nan, numbers).astype("<f8").tobytes()


def _cell(value: Any) -> Any:
    """A cell as JSON; libraries differ in whether 1 is a whole number, and in how they call what is missing."""
    if isinstance(value, float):
        return None if math.isnan(value) else int(value) if value.is_integer() else repr(value)
    return value if isinstance(value, (bool, int, str)) else str(value)


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple, np.ndarray)):
        return tuple(_plain(entry) for entry in value)
    value = value.item() if isinstance(value, np.generic) else value
    return str(value) if isinstance(value, float) and math.isinf(value) else value


def _listed(value: Any) -> Any:
    """Tuples as the lists that JSON has."""
    if isinstance(value, dict):
        return {name: _listed(entry) for name, entry in value.items()}
    return [_listed(entry) for entry in value] if isinstance(value, tuple) else value


def _certificate(card: Mapping[str, Any]) -> Certificate:
    term = card["membership"]
    return Certificate(
        card["policy"],
        card["epsilon"],
        _two_sided(card["whole"]),
        card["hidden_part"] and _two_sided(card["hidden_part"]),
        card["added"] and Guarantee(**card["added"]),
        card["claim"] and Guarantee(**card["claim"]),
        term
        and Membership(
            term["epsilon"], Estimate(**term["forward"]), Estimate(**term["reverse"]), tuple(term["hidden"])
        ),
        tuple(card["statements"]),
    )


def _two_sided(card: Mapping[str, Any]) -> TwoSided:
    return TwoSided(**{**card, "forward": Guarantee(**card["forward"]), "reverse": Guarantee(**card["reverse"])})


def _attack(card: Mapping[str, Any]) -> Attack:
    return Attack(**{**card, **{name: Estimate(**card[name]) for name in ("accuracy", "auc", "information")}})


_TYPES: dict[str, Callable[[Any], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
    "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, Mapping) and all(isinstance(name, str) for name in value),
}


def _check(value: Any, rule: Mapping[str, Any], where: str) -> None:
    """Check a value against the part of JSON Schema that our schema uses; messages name places, never values."""
    if "$ref" in rule:
        _check(value, schema()["$defs"][rule["$ref"].rpartition("/")[2]], where)
    if "anyOf" in rule and not any(_passes(value, option, where) for option in rule["anyOf"]):
        _check(value, rule["anyOf"][-1], where)
    kinds = [rule["type"]] if isinstance(rule.get("type"), str) else rule.get("type", [])
    if kinds and not any(_TYPES[kind](value) for kind in kinds):
        raise LowtideError(f"{where} must be of type {' or '.join(kinds)}, and finite if it is a number")
    allowed = rule.get("enum", [rule["const"]] if "const" in rule else [value])
    if not any(value is option or (type(value) is type(option) and value == option) for option in allowed):
        raise LowtideError(f"{where} must be one of {', '.join(map(repr, allowed))}")
    if "minimum" in rule and not rule["minimum"] <= value <= rule.get("maximum", math.inf):
        raise LowtideError(f"{where} must lie between {rule['minimum']} and {rule.get('maximum', 'infinity')}")
    if "minLength" in rule and len(value) < rule["minLength"]:
        raise LowtideError(f"{where} must not be empty")
    if "pattern" in rule and not re.search(rule["pattern"], value):
        raise LowtideError(f"{where} does not have the form {rule['pattern']}")
    if isinstance(value, Mapping):
        _check_members(value, rule, where)
    for j, entry in enumerate(value if isinstance(value, list) else ()):
        _check(entry, rule.get("items", {}), f"entry {j} of {where}")


def _passes(value: Any, rule: Mapping[str, Any], where: str) -> bool:
    try:
        _check(value, rule, where)
    except LowtideError:
        return False
    return True


def _check_members(value: Mapping[str, Any], rule: Mapping[str, Any], where: str) -> None:
    known, others = rule.get("properties", {}), rule.get("additionalProperties", {})
    if missing := [name for name in rule.get("required", []) if name not in value]:
        raise LowtideError(f"{where} lacks {', '.join(missing)}")
    for name, entry in value.items():
        if name not in known and others is False:
            raise LowtideError(f"{where} has an entry {name!r} that no card has")
        if "propertyNames" in rule and not _passes(name, rule["propertyNames"], where):
            raise LowtideError(f"{where} must not name {name!r}: a key, a password or a seed does not go on a card")
        _check(entry, known.get(name, others), f"{name!r} of {where}")


def _headline(card: ReleaseCard) -> str:
    whole = card.certificate.whole
    if whole.vacuous:
        return "no worst-case promise for the whole release (the bound is vacuous)"
    if whole.forward.delta == whole.reverse.delta == 0:
        return "nothing of the data is left in it"
    return "a worst-case promise for the whole release, whatever the class of the secret"


def _numbers(card: ReleaseCard) -> list[str]:
    """The three numbers, and what to think of them."""
    rows = [("Worst-case bound for the whole release", _bound(card.certificate.whole))]
    if card.certificate.claim is not None:
        claim = card.certificate.claim
        rows.append(("The paper's claim, which is no bound", f"delta {claim.delta:.4g} at epsilon {claim.epsilon:.4g}"))
    estimate = "not estimated"
    if card.leakage is not None:
        estimate = f"{card.leakage} nats = {card.leakage.bits} bits, from {card.leakage.n} rows"
    rows.append(("Estimated leakage, held out", estimate))
    attack, found = card.strongest, "no attacker was trained on the release: nothing is known from below"
    if attack is not None:
        found = (
            f"{_quoted(attack.attacker)}: accuracy {attack.accuracy} (a blind guess: {card.largest_class:.4f}), "
            f"AUC {attack.auc}, {attack.information} nats"
        )
    rows.append(("Strongest retrained attack, a lower bound", found))
    table = ["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)]
    warning = (
        "**Do not trust the estimate**: an attacker extracts more than its interval allows. The estimator is too weak."
    )
    return table if card.trusted else [*table, "", warning]


def _bound(whole: TwoSided) -> str:
    if whole.vacuous:
        return "vacuous: full disclosure satisfies it too"
    note = " (vacuous)"
    return (
        f"delta {rounded_up(whole.forward.delta)}{note * whole.forward_vacuous} forward, "
        f"{rounded_up(whole.reverse.delta)}{note * whole.reverse_vacuous} reverse, "
        f"at epsilon {rounded_up(whole.forward.epsilon)}"
    )


def _done(card: ReleaseCard) -> list[str]:
    everybody = [feature.name for feature in card.features if feature.hidden == 1]
    sometimes = [feature for feature in card.features if 0 < feature.hidden < 1]
    sometimes.sort(key=lambda feature: -feature.hidden)
    partly = [f"{_quoted(feature.name)} ({feature.hidden:.1%})" for feature in sometimes]
    lines = [
        f"{_DONE[card.policy]} Mechanism: {_quoted(card.mechanism)}.",
        f"{card.rows} rows, a secret of {card.classes} classes; {card.changed:.1%} of the values were changed.",
        f"Hidden for everybody ({len(everybody)} of {len(card.features)}): {_some(list(map(_quoted, everybody)))}.",
    ]
    if partly:
        lines.append(f"Hidden in some rows ({len(partly)} of {len(card.features)}): {_some(partly)}.")
    options = [f"{_quoted(name)} = {_quoted(_shown(value))}" for name, value in card.parameters.items()]
    return [*lines, f"Options: {'; '.join(options)}."] if options else lines


def _raw(card: ReleaseCard) -> list[str]:
    if card.policy != "plan":
        return ["Any worst case: what the release tells is known from the estimate and the attacks only."]
    names = [_quoted(feature.name) for feature in card.features if feature.hidden == 0]
    return [f"Anything about what is released as it is ({len(names)} features): {_some(names)}."] if names else []


def _shown(value: Any) -> str:
    return f"({_some([str(entry) for entry in value])})" if isinstance(value, tuple) else str(value)


def _some(names: Sequence[str]) -> str:
    rest = len(names) - _NAMED
    return (", ".join(names[:_NAMED]) or "none") + (f" and {rest} more" if rest > 0 else "")


def _quoted(text: str) -> str:
    """Text of others, such as a column's name, made harmless to the page."""
    return re.sub(r"([\\`*_{}\[\]<>#|])", r"\\\1", " ".join(text.split()))


def _attacks(attacks: Sequence[Attack]) -> list[str]:
    head = ["| attacker | learnt from | attacks | accuracy | AUC | information, nats |", "|---|---|---|---|---|---|"]
    order = sorted(attacks, key=lambda a: (a.trained_on != "release", -a.auc.value))  # the retrained come first
    cells = [
        (_quoted(a.attacker), a.trained_on, a.target, str(a.accuracy), str(a.auc), str(a.information)) for a in order
    ]
    return head + [f"| {' | '.join(row)} |" for row in cells]


def _footer(card: ReleaseCard) -> str:
    software = ", ".join(f"{name} {version}" for name, version in card.versions.items())
    digest = f" SHA-256 of the released data: {card.data_sha256}." if card.data_sha256 else ""
    return f"Written {card.created} with {software}.{digest}"
