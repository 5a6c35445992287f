"""The command lines and the Python that do the same as a job, to be run in the project's folder."""

import os
import shlex
from collections.abc import Mapping
from typing import Any, NamedTuple

from lowtide import modalities
from lowtide.options import fields_of
from lowtide.studio.preparing import kind_of, options_of, released_name
from lowtide.studio.problems import RefusedError
from lowtide.studio.store import FOLDER, Store, StoredJob

_PLAN = "plan.lowtide"
_MODEL = "model.lowtide"
_REPEATED = {"attackers": "attacker"}  # what the command line calls one of several
_RESULTS = {"scan": "found", "plan": "made", "release": "done", "audit": "audited"}


class _Call(NamedTuple):
    """A verb with what it is given: places first, then options by the names Python has for them."""

    verb: str
    kind: str
    places: dict[str, Any]
    options: dict[str, Any]


def script_of(store: Store, job: StoredJob) -> tuple[str, str]:
    """For a terminal, and for Python; a release begins with its plan, an audit with its release."""
    calls = _calls(store, job)
    shell = ["#!/bin/sh", "# Run this in the project's folder.", "set -e", *map(_command, calls)]
    names = ", ".join(sorted(call.verb for call in calls))
    python = [
        f"from lowtide import {names}",
        "",
        *(line for call in calls for line in _python(call)),
    ]
    return "\n".join(shell) + "\n", "\n".join(python) + "\n"


def _calls(store: Store, job: StoredJob) -> list[_Call]:
    """What led to a job, and the job itself."""
    request = job.request
    if job.verb in ("scan", "plan"):
        return [_fitting(store, job)]
    if job.verb == "release":
        return [*_calls(store, _earlier(store, request["plan"])), _releasing(store, job)]
    released = store.job(request["release"])
    before = [] if released is None else _calls(store, released)
    return [*before, _auditing(store, job, released)]


def _earlier(store: Store, identity: str) -> StoredJob:
    found = store.job(identity)
    if found is None:
        raise RefusedError(404, "the job that this one rests on is not there any more")
    return found


def _fitting(store: Store, job: StoredJob) -> _Call:
    request = job.request
    said = {"secret": job.request["secret"]}
    given = {
        name: value
        for name, value in request.items()
        if name not in ("data", "secret", "kind", "options")
    }
    said |= {
        name: value
        for name, value in given.items()
        if value not in (None, []) and (name, value) != ("seed", 0)
    }
    said |= _options(store, job.kind, job.verb, request["options"])
    return _Call(job.verb, job.kind, {"data": _place(store, request["data"])}, said)


def _releasing(store: Store, job: StoredJob) -> _Call:
    request = job.request
    said = {"key_file": f"{FOLDER}/noise.key"}
    if request.get("ids") is not None:
        said["ids"] = request["ids"]
    said |= _options(store, job.kind, "release", request["options"])
    if said.get("rename"):
        said["mapping"] = "names.csv"
    places = {"data": _place(store, request["data"]), "plan": _PLAN, "out": _released(store, job)}
    return _Call("release", job.kind, places, said)


def _auditing(store: Store, job: StoredJob, released: StoredJob | None) -> _Call:
    request = job.request
    said = {"secret": job.request["secret"]}
    said |= {
        name: request[name]
        for name in ("utility", "attackers", "accept", "fail_above")
        if request.get(name)
    }
    said |= {"epsilon": request["epsilon"]} if request["epsilon"] != 0.1 else {}
    said |= {"seed": request["seed"]} if request["seed"] else {}
    said |= {"known": [",".join(request["known"])]} if request["known"] else {}
    said |= _options(store, job.kind, "audit", request["options"])
    if released is None:
        place = _place(store, request["release"])
    else:
        place = _released(store, released)
        said["plan"] = _PLAN
        if released.request["options"].get("shuffle"):
            said["order"] = f"{place}.order.csv"
        if released.request["options"].get("rename"):
            said["mapping"] = "names.csv"
    return _Call(
        "audit",
        job.kind,
        {"release": place, "reference": _place(store, request["reference"])},
        said,
    )


def _options(store: Store, kind: str, verb: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Options of the kind, with paths relative to the project."""

    def near(value: Any) -> Any:
        if isinstance(value, list):
            return [near(one) for one in value]
        return value.replace(str(store.project) + os.sep, "") if isinstance(value, str) else value

    return {name: near(value) for name, value in options_of(store, kind, verb, given).items()}


def _place(store: Store, identity: str) -> str:
    file = store.file(identity)
    if file is None:
        raise RefusedError(404, "a file that this job read is not there any more")
    return f"./{file.place}" if file.place.startswith("-") else file.place


def _released(store: Store, job: StoredJob) -> str:
    file = store.file(job.request["data"])
    if file is None:
        raise RefusedError(404, "a file that this job read is not there any more")
    return released_name(file, kind_of(store, "release", job.request))


def _command(call: _Call) -> str:
    """One command, an option on each line."""
    first, *others = call.places.items()
    flags = fields_of(modalities.options()[call.kind], call.verb)
    parts = [["lowtide", call.verb, first[1]]]
    for name, value in [*others, *call.options.items()]:
        own = flags[name].metadata["flag"] if name in flags and name not in call.places else None
        flag = "--" + (own or _REPEATED.get(name, name)).replace("_", "-")
        if value is True:
            parts.append([flag])
            continue
        for one in value if isinstance(value, list | tuple) else [value]:
            text = str(one)
            parts.append([f"{flag}={text}"] if text.startswith("-") else [flag, text])
    if call.verb == "plan":
        parts.append(["--out", _PLAN])
    if call.verb == "scan":
        parts.append(["--save", _MODEL])
    if call.verb != "release":
        parts.append(["--report", f"{call.verb}.html"])
    return " \\\n  ".join(map(shlex.join, parts))


def _python(call: _Call) -> list[str]:
    """The same as a call of the verb."""
    said = dict(call.options)
    places = [repr(value) for value in call.places.values()]
    if "secret" in said:
        names = said.pop("secret")
        places.append(repr(names[0] if len(names) == 1 else tuple(names)))
    if call.kind != "tables" and call.verb != "release":
        said["kind"] = call.kind
    keywords = [
        f"{name}={(tuple(value) if isinstance(value, list) else value)!r}"
        for name, value in said.items()
    ]
    result = _RESULTS[call.verb]
    lines = [f"{result} = {call.verb}(", *(f"    {part}," for part in [*places, *keywords]), ")"]
    if call.verb == "plan":
        lines.append(f"{result}.save({_PLAN!r})")
    if call.verb == "scan":
        lines.append(f"{result}.density.save({_MODEL!r})")
    if call.verb != "release":
        lines.append(f"{result}.write_report({call.verb + '.html'!r})")
    return [*lines, f"print({result})", ""]
