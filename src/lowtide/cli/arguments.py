"""The arguments of commands, as frozen dataclasses whose docstrings are the help, and the flags
made from them.

Light: imports no verb.
"""

import dataclasses
import inspect
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import typer

from lowtide import modalities
from lowtide.cli.flags import JSON_HELP, argument, flag
from lowtide.options import fields_of
from lowtide.places import Place, place_of

Run = Callable[[Any, dict[str, Any]], None]


def command(verb: type[Any], run: Run, *, kinds: str | None = None) -> Callable[..., None]:
    """A function that typer can make a command of.

    Args:
        verb: a frozen dataclass of `argument` and `flag` fields; its docstring is the help.
        run: what to do, with an instance of it and the options of kinds that were given, by name.
        kinds: the verb whose options of kinds are flags, too.
    """
    own = [_own_parameter(field, hint) for field, hint in _hints(verb)]
    theirs = _kind_parameters(kinds) if kinds else {}

    def call(**given: Any) -> None:
        named = {field.name: given[field.name] for field in dataclasses.fields(verb)}
        said = {
            name: _value(given[name]) for name in theirs if given[name] not in (None, False, [], ())
        }
        run(verb(**named), said)

    call.__doc__ = verb.__doc__
    parameters = [*own, *theirs.values()]
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call


def _hints(verb: type[Any]) -> list[tuple[dataclasses.Field[Any], Any]]:
    hints = get_type_hints(verb)
    return [(field, hints[field.name]) for field in dataclasses.fields(verb)]


def _own_parameter(field: dataclasses.Field[Any], hint: Any) -> inspect.Parameter:
    about = field.metadata
    # A path would lose a slash of a URL.
    parser = None
    if hint == Place:
        hint = str
        parser = place_of
    if about.get("argument"):
        info: Any = typer.Argument(help=about["help"], metavar=about["metavar"], parser=parser)
        left_out = (
            inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default
        )
        return _parameter(field.name, left_out, hint, info)
    name = about["flag"] or f"--{field.name.replace('_', '-')}"
    shown = about["shown"] if about["shown"] is not None else True
    how = {
        "metavar": about["metavar"],
        "min": about["least"],
        "show_default": shown,
        "parser": parser,
    }
    info = typer.Option(name, help=about["help"], **how)
    default = inspect.Parameter.empty if about.get("required") else field.default
    return _parameter(field.name, default, hint, info)


def _kind_parameters(verb: str) -> dict[str, inspect.Parameter]:
    """One flag for each option of a kind; an option that several kinds have is one flag."""
    found: dict[str, list[tuple[str, dataclasses.Field[Any], Any]]] = {}
    for kind, options in modalities.options().items():
        hints = get_type_hints(options)
        for name, field in fields_of(options, verb).items():
            found.setdefault(name, []).append((kind, field, hints[name]))
    return {name: _kind_parameter(name, owners) for name, owners in found.items()}


def _kind_parameter(
    name: str, owners: list[tuple[str, dataclasses.Field[Any], Any]]
) -> inspect.Parameter:
    _, field, hint = owners[0]
    about = field.metadata
    kinds = ", ".join(sorted(kind for kind, _, _ in owners))
    is_list = typing.get_origin(hint) is tuple
    if is_list:
        hint = list[str] | None
    elif hint is not bool and not isinstance(hint, types.UnionType):
        hint = hint | None
    info = typer.Option(
        f"--{(about['flag'] or name).replace('_', '-')}",
        help=f"{kinds}: {about['help']}{' (repeat)' if is_list else ''}",
        metavar=about["metavar"],
        min=about["least"],
        max=about["most"],
        show_default=False if field.default in (None, False, ()) else str(field.default),
    )
    return _parameter(name, False if hint is bool else None, hint, info)


def _parameter(name: str, default: Any, hint: Any, info: Any) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=Annotated[hint, info])


def _value(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


_DATA = (
    "CSV, Parquet, Arrow/Feather or JSON lines, by its suffix; a folder or pattern of such files;"
    " or a folder of images or texts: a path, or a URL such as s3://bucket/visits/*.parquet"
)
_POLICY_FILE = "limits to keep, such as lowtide.toml: "
_ENGINE = "where it runs: processes of this machine, or a Ray cluster"
_DEVICE = "where networks are trained; auto is the first of cuda, mps and cpu that is there"
Device = Literal["auto", "cpu", "cuda", "mps"]


def _default_budgets() -> str:
    """The default budget of every kind, as the help shows it."""
    budgets = {
        kind: options.default_budget for kind, options in sorted(modalities.options().items())
    }
    return ", ".join(f"{kind} {budget:g}" for kind, budget in budgets.items()) + " nat"


@dataclass(frozen=True, kw_only=True)
class ScanArguments:
    """What leaks: how much the data tells about the secret, and which columns, patches or words
    tell it.

    Example: lowtide scan survey.csv --secret vote

    Example: lowtide scan faces/ --secret smile --patch 8 --report faces.html

    Example: lowtide scan tweets.csv --text text --secret party --group author --save party.lowtide
    """

    data: Place = argument(_DATA, "DATA")
    secret: list[str] = flag(
        ...,
        "column to protect, of 2 to 100 values: never released (tables: repeat for several)",
        metavar="COLUMN",
    )
    json: Path | None = flag(None, JSON_HELP, metavar="FILE")
    report: Path | None = flag(None, "write an HTML report here", metavar="FILE")
    figures: Path | None = flag(None, "write the report's figures here", metavar="DIR")
    save: Path | None = flag(None, "keep the fitted density here", metavar="DIR")
    seed: int = flag(0, "of every random draw")
    steps: int | None = flag(None, "training steps of the networks", shown="auto", least=40)
    device: Device = flag("cpu", _DEVICE)
    workers: int = flag(
        1, "processes that ask the fitted density; the result is the same for any number", least=1
    )
    engine: Literal["local", "ray"] = flag("local", _ENGINE)
    address: str | None = flag(None, "of the Ray cluster", shown="this machine")
    quiet: bool = flag(False, "no progress bars")


@dataclass(frozen=True, kw_only=True)
class PlanArguments:
    """What to hide or redraw for a budget, at little damage; and the whole trade-off curve.

    Example: lowtide plan survey.csv --secret vote --keep age --utility income

    Example: lowtide plan survey.csv --secret vote --policy fixed --budget 0.02 --out plan.json

    Example: lowtide plan survey.csv --secret vote --mechanism merge --attacker-accuracy 0.65
    --certify 0.95

    Example: lowtide plan faces/ --secret smile --patch 4 --attacker-accuracy 0.65 --hide
    20,30,24,12

    Example: lowtide plan tweets.csv --text text --secret party --group author --kept 0.8 --out
    tweets.lowtide
    """

    data: Place = argument(_DATA, "DATA")
    secret: list[str] | None = flag(
        None,
        "column to protect, of 2 to 100 values: never released (tables: repeat for several)",
        metavar="COLUMN",
        shown="that of --policy-file",
    )
    budget: list[str] | None = flag(
        None,
        "what the release may tell: 0.02 (nats), 0.03bits, 65%; redraw: budget per row in nats or"
        " bits, by default 0; of several secrets one for all, or for each: sex=0.02 (repeat)",
        shown=_default_budgets(),
    )
    attacker_accuracy: float | None = flag(
        None,
        "budget as the share an attacker may guess right, such as 0.65; tables: needs --policy"
        " fixed or a mechanism",
    )
    kept: float | None = flag(
        None,
        "share of columns, pixels or words to keep, in place of a budget; tables: needs --policy"
        " fixed",
    )
    keep: list[str] | None = flag(
        None,
        "release as it is: a column; a patch's number or a box x,y,w,h; a term (repeat)",
        metavar="FEATURE",
    )
    hide: list[str] | None = flag(
        None, "always hide these features, named as for --keep (repeat)", metavar="FEATURE"
    )
    utility: str | None = flag(
        None, "column that the release should still predict", metavar="COLUMN"
    )
    policy: Literal["fixed", "redraw", "sequential"] | None = flag(
        None,
        "what decides what is changed",
        shown="redraw for tables that hold the secret, else fixed",
    )
    past: Literal["disclosed", "raw"] | None = flag(
        None,
        "what sequential goes by: what a sample's release shows so far, or its raw values",
        shown="disclosed",
    )
    mechanism: str | None = flag(
        None,
        "what hiding does: redact, gaussian, merge (tables); redact, gaussian (images); drop, mask,"
        " replace (texts)",
        shown="redact; texts drop",
    )
    epsilon: float | None = flag(None, "threshold of a feature, or ε of the noise")
    delta: float | None = flag(
        None, "with ε, calibrates the noise (tables); with --certify, what the release keeps"
    )
    lam: float | None = flag(None, "scale of the noise, in units of a feature's range")
    certify: float | None = flag(
        None,
        "keep the budget against every attacker, by counts, with this confidence",
        metavar="0.95",
    )
    strict: bool = flag(False, "refuse anything but a budget that is kept")
    policy_file: Path | None = flag(
        None,
        _POLICY_FILE + "gives secret and budget, and refuses what exceeds them",
        metavar="FILE",
    )
    out: Path | None = flag(
        None,
        "where to keep the plan: a folder; or a .json file, for tables with --policy fixed",
        shown="plan.lowtide; plan.json where that can hold it",
    )
    sign: Path | None = flag(
        None, "sign the plan with the key in this file, made when there is none", metavar="FILE"
    )
    json: Path | None = flag(None, JSON_HELP, metavar="FILE")
    report: Path | None = flag(None, "write an HTML report here", metavar="FILE")
    figures: Path | None = flag(None, "write the report's figures here", metavar="DIR")
    seed: int = flag(0, "of every random draw but the noise of a release")
    steps: int | None = flag(None, "training steps of the networks", shown="auto", least=40)
    device: Device = flag("cpu", _DEVICE)
    quiet: bool = flag(False, "no progress bars")


@dataclass(frozen=True, kw_only=True)
class ReleaseArguments:
    """Write the hidden data and its card. The secret is left out, always.

    Example: lowtide release survey.csv --plan plan.lowtide --ids person --out shared.parquet

    Example: lowtide release visits/ --plan plan.lowtide --out shared/ --shards 1000000 --workers 8

    Example: lowtide release faces/ --plan faces.lowtide --out shared/ --rename --mapping names.csv
    """

    data: Place = argument(_DATA, "DATA")
    plan: Path = flag(..., "made by `lowtide plan`", metavar="PLAN")
    out: Path = flag(..., "the release: a file, whose suffix is its format, or a folder of images")
    key_file: Path | None = flag(
        None, "key of the noise: never share it", metavar="FILE", shown="beside the plan"
    )
    signed_by: Path | None = flag(
        None, "the key that the plan must be signed with; signs the card, too", metavar="FILE"
    )
    fresh_noise: bool = flag(
        False, "noise that cannot be drawn again: several releases average it away"
    )
    workers: int = flag(
        1, "processes that work on it; the result is the same for any number", least=1
    )
    shards: int | None = flag(
        None, "write a folder of files of so many rows, with a manifest", metavar="ROWS", least=1
    )
    engine: Literal["local", "ray"] = flag("local", _ENGINE)
    address: str | None = flag(None, "of the Ray cluster", shown="this machine")
    json: Path | None = flag(None, JSON_HELP, metavar="FILE")
    quiet: bool = flag(False, "no progress bars")


@dataclass(frozen=True, kw_only=True)
class AuditArguments:
    """Attack a release with freshly retrained attackers, and say plainly what is left.

    Exit code 1 when a limit of --fail-above or --policy-file is not kept.

    Example: lowtide audit shared.parquet --reference survey.csv --secret vote --fail-above 0.05

    Example: lowtide audit shared.parquet --reference survey.csv --policy-file lowtide.toml --junit
    limits.xml

    Example: lowtide audit shared/ --reference faces/ --secret smile --utility male

    Example: lowtide audit shared.csv --reference tweets.csv --text text --secret party --group
    author
    """

    release: Place = argument("the released file or folder, or its URL", "RELEASE")
    reference: Place = flag(
        ...,
        "the data before, or its URL: the same samples (tables and texts: in the same order)",
        metavar="DATA",
    )
    secret: list[str] | None = flag(
        None,
        "column to protect (tables: repeat for several)",
        metavar="COLUMN",
        shown="that of --policy-file",
    )
    fail_above: list[str] | None = flag(
        None,
        "exit 1 unless attacks tell at most this, at the upper end: 0.05, 0.03bits, 55%; of several"
        " secrets for all, or for each: sex=0.05 (repeat)",
        metavar="LIMIT",
    )
    policy_file: Path | None = flag(
        None, _POLICY_FILE + "exit 1 unless every one of them is kept", metavar="FILE"
    )
    costs: Path | None = flag(
        None, "CSV of what guesses (rows) cost at each class (columns)", metavar="FILE"
    )
    junit: Path | None = flag(
        None, "write a test case for each limit here, as JUnit XML", metavar="FILE"
    )
    summary: Path | None = flag(
        None, "write a page of Markdown here, for a pipeline; - prints it", metavar="FILE"
    )
    utility: str | None = flag(None, "column that should still be predicted", metavar="COLUMN")
    plan: Path | None = flag(None, "the plan, for the report", metavar="PLAN")
    card: Path | None = flag(
        None, "its card; by default the one beside the release", metavar="FILE"
    )
    epsilon: float = flag(0.1, "of the divergence that attacks prove")
    attacker: list[str] | None = flag(None, "who attacks (repeat)", metavar="NAME", shown="all")
    accept: list[str] | None = flag(
        None, "a column that nobody judges, excluded from the gate (repeat)", metavar="COLUMN"
    )
    json: Path | None = flag(None, JSON_HELP, metavar="FILE")
    report: Path | None = flag(None, "write an HTML report here", metavar="FILE")
    figures: Path | None = flag(None, "write the report's figures here", metavar="DIR")
    seed: int = flag(0, "of every random draw")
    device: Device = flag("cpu", _DEVICE)
    workers: int = flag(
        1, "processes that train attackers; the result is the same for any number", least=1
    )
    engine: Literal["local", "ray"] = flag("local", _ENGINE)
    address: str | None = flag(None, "of the Ray cluster", shown="this machine")
    quiet: bool = flag(False, "no progress bars")


@dataclass(frozen=True, kw_only=True)
class ShowArguments:
    """Print a release card for people.

    Example: lowtide show shared.parquet.card.json
    """

    card: Path = argument("a release card", "CARD")
    json: Path | None = flag(None, JSON_HELP, metavar="FILE")


@dataclass(frozen=True, kw_only=True)
class VerifyArguments:
    """Check that a release is the very one that a card was written for, and what the card says of
    it.

    Exit code 1 when it is not, or a reviewer rejected it; 2 when an approval expired, or the card
    was edited. Without --plan or --signed-by, an edit is not noticed when the digest of the card
    was computed anew.

    Example: lowtide verify shared.parquet.card.json shared.parquet
    """

    card: Path = argument("a release card", "CARD")
    data: Path = argument("the released file or folder", "RELEASE")
    plan: Path | None = flag(
        None,
        "check as well that this plan made it, and that the card says what the plan says",
        metavar="PLAN",
    )
    signed_by: Path | None = flag(None, "the key that the card must be signed with", metavar="FILE")
    policy_file: Path | None = flag(
        None, "check as well that those whom it names approved", metavar="FILE"
    )


@dataclass(frozen=True, kw_only=True)
class ReviewArguments:
    """Store a reviewer's decision about a release in its card, bound to all that the card says.

    Example: lowtide review shared.parquet.card.json --decision approve --name "Ada Lovelace"
    --expires 2027-12-31

    Example: lowtide review shared.parquet.card.json --decision reject --name "Ada Lovelace" --note
    "small towns"
    """

    card: Path = argument("the card of a release", "CARD")
    decision: Literal["approve", "approve-with-changes", "reject"] = flag(..., "what was decided")
    name: str = flag(..., "who decided")
    note: str = flag("", "why, or which changes; it travels with the card", metavar="TEXT")
    date: str | None = flag(None, "when, as YYYY-MM-DD", metavar="DATE", shown="today")
    expires: str | None = flag(
        None, "the last day on which an approval holds, as YYYY-MM-DD", metavar="DATE"
    )
    policy_file: Path | None = flag(None, "refuse a name that it does not have", metavar="FILE")
    json: Path | None = flag(None, JSON_HELP, metavar="FILE")


@dataclass(frozen=True, kw_only=True)
class DemoArguments:
    """The whole job on data that needs no download: scan, plan, release, audit, report.

    `table` is the 1996 American National Election Study (944 people, public domain; needs the extra
    `demo`): the secret is the vote, the release should still predict incomes, and redrawing values
    stands beside hiding columns. `faces` are drawn and smile or not, `texts` are generated posts of
    people from the coast and from the hills.

    Example: lowtide demo

    Example: lowtide demo faces --out out/faces
    """

    kind: Literal["table", "faces", "texts"] = argument("table, faces or texts", "KIND", "table")
    out: Path | None = flag(
        None, "where to write", metavar="DIR", shown="out/demo, out/demo-faces or out/demo-texts"
    )
    budget: str | None = flag(
        None,
        "what one row, image or text may tell, in nats; of a table the most that a row may tell for"
        " a vote",
        shown="0 for the table, else that of the kind",
    )
    json: Path | None = flag(None, JSON_HELP, metavar="FILE")
    seed: int = flag(0, "of every random draw")
    quiet: bool = flag(False, "no progress bars")
