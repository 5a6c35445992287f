"""What the process of a job does: call the verb, and write its result, report and view. Imports the
verbs.
"""

import json
from pathlib import Path
from typing import Any

from lowtide import verbs
from lowtide.files import write_whole
from lowtide.studio.views import view_of


def do(asked: dict[str, Any], out: Path, notes: list[str]) -> None:
    """Do a job.

    Args:
        asked: `verb`, `kind`, the verb's own arguments with paths in place of ids (`arguments`),
            `source`, what the data is called, `outputs`, names of what is written, and the
            `request` as it came.
        out: an empty folder to write into.
        notes: what was noted so far; the list grows.
    """
    verb = asked["verb"]
    arguments = dict(asked["arguments"])
    result = _VERBS[verb](arguments, out, asked)
    write_whole(out / "result.json", json.dumps(result.to_json(), indent=2, allow_nan=False) + "\n")
    if verb != "release":
        result.write_report(out / "report.html")
    view = view_of(
        verb,
        asked["kind"],
        result,
        source=Path(asked["source"]),
        request=asked["request"],
        folder=out,
        notes=[_told(note, asked["names"]) for note in notes],
    )
    write_whole(out / "view.json", json.dumps(view, allow_nan=False))


def _told(text: str, names: dict[str, str]) -> str:
    for path, name in names.items():
        text = text.replace(path, name)
    return text


def _scan(arguments: dict[str, Any], out: Path, _: dict[str, Any]) -> Any:
    found = verbs.scan(arguments.pop("data"), _secret(arguments), **_plain(arguments))
    found.density.save(out / "model.lowtide")
    return found


def _plan(arguments: dict[str, Any], out: Path, _: dict[str, Any]) -> Any:
    made = verbs.plan(arguments.pop("data"), _secret(arguments), **_plain(arguments))
    made.save(out / ("plan.lowtide" if made.parts()[1] else "plan.json"))
    return made


def _release(arguments: dict[str, Any], out: Path, asked: dict[str, Any]) -> Any:
    if "mapping" in arguments:
        arguments["mapping"] = out / arguments["mapping"]
    return verbs.release(
        arguments.pop("data"), arguments.pop("plan"), out / asked["released"], **_plain(arguments)
    )


def _audit(arguments: dict[str, Any], _: Path, __: dict[str, Any]) -> Any:
    return verbs.audit(
        arguments.pop("release"),
        arguments.pop("reference"),
        _secret(arguments),
        **_plain(arguments),
    )


def _secret(arguments: dict[str, Any]) -> str | tuple[str, ...]:
    names = arguments.pop("secret")
    return names[0] if len(names) == 1 else tuple(names)


def _plain(arguments: dict[str, Any]) -> dict[str, Any]:
    """JSON has lists where options are tuples."""
    return {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in arguments.items()
    }


_VERBS = {"scan": _scan, "plan": _plan, "release": _release, "audit": _audit}
