"""From a request to what a verb is called with: ids become paths, and what cannot work is refused
by its field.

Light: neither torch nor the kinds of data are imported.
"""

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from lowtide import modalities
from lowtide.errors import LowtideError
from lowtide.options import fields_of, read_options
from lowtide.studio.limits import suffix_of
from lowtide.studio.problems import RefusedError
from lowtide.studio.store import Store, StoredFile, StoredJob, disk_name

_KEPT_BY_US = (
    "mapping",
    "order",
)  # options that name private files of a release, which its job keeps itself
_AMOUNTS = ("budget", "kept", "certify", "epsilon", "delta", "lam")
_SAID = (*_AMOUNTS, "policy", "past", "mechanism", "utility", "keep", "hide")


def prepare(store: Store, verb: str, request: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """What the process of a job is told.

    Args:
        store: where files and earlier jobs are.
        verb: what to do.
        request: as one of the models of `lowtide.studio.models` gave it.
        folder: of the job; links to its data are made in it, so that data has the name its owner
            gave it.
    """
    given = dict(request)
    kind = kind_of(store, verb, given)
    arguments = _ARGUMENTS[verb](store, given, kind, folder)
    source = arguments["reference" if verb == "audit" else "data"]
    prepared = {
        "verb": verb,
        "kind": kind,
        "request": given,
        "arguments": arguments,
        "source": source,
    }
    if verb == "release":
        prepared["released"] = released_name(_file(store, given["data"], "data"), kind)
    return {**prepared, "names": _names(store, folder)}


def kind_of(store: Store, verb: str, request: Mapping[str, Any]) -> str:
    """The kind of data a request is about."""
    if verb == "release":
        return _job(store, request["plan"], "plan", "plan").kind
    if request.get("kind") is not None:
        return str(request["kind"])
    if request["options"].get("text") is not None:
        return "texts"
    if verb == "audit":
        job = store.job(request["release"])
        return job.kind if job is not None else _file(store, request["release"], "release").kind
    return _file(store, request["data"], "data").kind


def check(store: Store, verb: str, request: Mapping[str, Any]) -> str:
    """Refuse, before it is queued, a request that cannot work; the kind of data it is about."""
    kind = kind_of(store, verb, request)
    options_of(store, kind, verb, request["options"])
    if verb == "release":
        plan_path(store, request["plan"])
    if verb == "audit" and store.job(request["release"]) is not None:
        released_path(store, request["release"])
    store.path_of(_file(store, request["reference" if verb == "audit" else "data"], "data"))
    return kind


def options_of(store: Store, kind: str, verb: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a kind, checked, with paths in place of ids of files."""
    known = modalities.options()
    try:
        read_options(kind, known[kind], verb, given, known)
    except LowtideError as error:
        raise RefusedError(422, str(error), "options") from error
    hints = get_type_hints(known[kind])
    read = {}
    for name, value in given.items():
        if name in _KEPT_BY_US:
            raise RefusedError(
                422, f"{name} is kept by the job that released; leave it out", f"options.{name}"
            )
        if not _fits(value, hints[name]):
            raise RefusedError(
                422, f"the option {name!r} has a value of another type", f"options.{name}"
            )
        read[name] = _with_paths(store, name, value)
    return read


def _fits(value: Any, hint: Any) -> bool:
    if hint is Any:
        return isinstance(value, str)
    if isinstance(hint, UnionType):
        return any(_fits(value, one) for one in get_args(hint))
    if get_origin(hint) is tuple:
        return isinstance(value, list) and all(isinstance(one, str) for one in value)
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint)


def _with_paths(store: Store, name: str, value: Any) -> Any:
    """The value of an option; where it names a file, that must be one of the project, by its id."""
    if name == "stop" and value != "english":
        raise RefusedError(
            422,
            "stop takes `english` only; a list of words of your own needs Python",
            "options.stop",
        )
    if name == "train":
        return str(store.path_of(_file(store, value, "options.train")))
    if name == "hierarchy":
        pairs = [one.partition("=") for one in value]
        return [
            f"{column}={store.path_of(_file(store, ident, 'options.hierarchy'))}"
            for column, _, ident in pairs
        ]
    return value


def _scan_arguments(store: Store, given: dict[str, Any], kind: str, folder: Path) -> dict[str, Any]:
    said = {"data": _linked(store, given["data"], folder), "secret": given["secret"], "kind": kind}
    said["seed"] = given["seed"]
    if given.get("steps") is not None:
        said["steps"] = given["steps"]
    return {**said, **options_of(store, kind, "scan", given["options"])}


def _plan_arguments(store: Store, given: dict[str, Any], kind: str, folder: Path) -> dict[str, Any]:
    base = _scan_arguments(store, {**given, "options": {}}, kind, folder)
    said = {name: given[name] for name in _SAID if given.get(name) not in (None, [])}
    return {**base, **said, **options_of(store, kind, "plan", given["options"])}


def _release_arguments(
    store: Store, given: dict[str, Any], kind: str, folder: Path
) -> dict[str, Any]:
    said = {
        "data": _linked(store, given["data"], folder),
        "plan": str(plan_path(store, given["plan"])),
    }
    said["key_file"] = str(store.folder / "noise.key")  # one for all releases of a project
    if given.get("ids") is not None:
        said["ids"] = given["ids"]
    options = options_of(store, kind, "release", given["options"])
    if options.get("rename"):
        options["mapping"] = "names.csv"
    return {**said, **options}


def _audit_arguments(
    store: Store, given: dict[str, Any], kind: str, folder: Path
) -> dict[str, Any]:
    said: dict[str, Any] = {
        "reference": _linked(store, given["reference"], folder),
        "secret": given["secret"],
    }
    options = options_of(store, kind, "audit", given["options"])
    job = store.job(given["release"])
    if job is None:
        said["release"] = _linked(store, given["release"], folder)
    else:
        released = released_path(store, job.id)
        said["release"] = str(released)
        said["plan"] = str(plan_path(store, job.request["plan"]))
        options = {**options, **_private(released, kind)}
    if given["known"]:
        options["known"] = [",".join(given["known"])]
    for name in ("utility", "attackers", "fail_above", "accept"):
        if given.get(name) not in (None, []):
            said[name] = given[name]
    return {**said, "epsilon": given["epsilon"], "seed": given["seed"], "kind": kind, **options}


def _private(released: Path, kind: str) -> dict[str, str]:
    """The files beside a release that say which sample is which, for its audit."""
    orders = sorted(released.parent.glob("*.order.*"))
    names = released.parent / "names.csv"
    if kind == "images":
        return {"mapping": str(names)} if names.is_file() else {}
    return {"order": str(orders[0])} if orders else {}


def _file(store: Store, identity: str, field: str) -> StoredFile:
    found = store.file(identity) if isinstance(identity, str) else None
    if found is None:
        raise RefusedError(422, "there is no such file; list them with GET /api/project", field)
    return found


def _job(store: Store, identity: str, verb: str, field: str) -> StoredJob:
    job = store.job(identity)
    if job is None or job.verb != verb:
        raise RefusedError(422, f"there is no such job that did {verb!r}", field)
    return job


def _linked(store: Store, identity: str, folder: Path) -> str:
    """The path of a file; of one that is kept by its hash, a link that has the name its owner gave
    it.
    """
    file = _file(store, identity, "data")
    path = store.path_of(file)
    if file.source == "project":
        return str(path)
    name = disk_name(file.name)
    if path.is_dir():
        name = name.removesuffix(".zip") or "data"
    elif suffix_of(name) != suffix_of(file.name):
        name = f"data{suffix_of(file.name)}"
    link = folder / "in" / identity / name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(path)
    return str(link)


def plan_path(store: Store, identity: str) -> Path:
    """Where the plan of a job is."""
    job = _job(store, identity, "plan", "plan")
    return _made(store, job, ("plan.json", "plan.lowtide"), "plan")


def released_path(store: Store, identity: str) -> Path:
    """Where the release of a job is."""
    job = _job(store, identity, "release", "release")
    prepared = (
        json.loads((store.job_folder(identity) / "request.json").read_text())
        if job.state == "done"
        else {}
    )
    return _made(store, job, (prepared.get("released", ""),), "release")


def _made(store: Store, job: StoredJob, names: Iterable[str], field: str) -> Path:
    if job.state != "done":
        raise RefusedError(
            409, f"the job to {job.verb} is {job.state}; it must be done first", field
        )
    out = store.job_folder(job.id) / "out"
    found = next((out / name for name in names if name and (out / name).exists()), None)
    if found is None:
        raise RefusedError(
            409, f"what the job to {job.verb} wrote is not there any more; resume it", field
        )
    return found


def released_name(file: StoredFile, kind: str) -> str:
    """What a release is called: as its source, and shared."""
    suffix = suffix_of(file.name)
    name = disk_name(file.name)
    stem = name[: -len(suffix)] if suffix and name.lower().endswith(suffix) else name
    if suffix in ("", ".zip"):
        return f"{stem or 'data'}-shared" if kind == "images" else f"{stem or 'data'}-shared.csv"
    return f"{stem or 'data'}-shared{suffix}"


def _names(store: Store, folder: Path) -> dict[str, str]:
    """What to call paths in messages: nobody needs to read where the studio keeps things."""
    links = sorted(folder.glob("in/*/*"))
    named = {str(link.parent) + os.sep: "" for link in links}
    out = {str(folder / part) + os.sep: "" for part in ("out.part", "out")}
    return {
        **named,
        **out,
        str(store.folder / "files") + os.sep: "",
        str(store.project) + os.sep: "",
    }


def option_list(kind: str) -> list[dict[str, Any]]:
    """The options of a kind, for a page to show: name, help, verbs, default."""
    made: list[dict[str, Any]] = []
    for verb in ("scan", "plan", "release", "audit"):
        for name, field in fields_of(modalities.options()[kind], verb).items():
            if name in _KEPT_BY_US or any(one["name"] == name for one in made):
                continue
            default = list(field.default) if isinstance(field.default, tuple) else field.default
            help_text = field.metadata["help"]
            verbs = list(field.metadata["verbs"])
            made.append({"name": name, "help": help_text, "verbs": verbs, "default": default})
    return made


_ARGUMENTS = {
    "scan": _scan_arguments,
    "plan": _plan_arguments,
    "release": _release_arguments,
    "audit": _audit_arguments,
}
