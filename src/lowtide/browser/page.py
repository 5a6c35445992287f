"""A model of texts as one HTML file that warns from disk and offline, and as a browser extension
(Manifest V3).
"""

import base64
import hashlib
import importlib.metadata
import json
import re
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from lowtide.browser.payload import Bits, pack_model, rounded
from lowtide.browser.vectors import make_vectors
from lowtide.estimate.density import Density
from lowtide.files import write_folder, write_whole
from lowtide.texts.partial import text_vocabulary

STATIC = Path(__file__).parent / "static"
"""ES modules and styles, which the studio serves as they are."""

ANSWERING = ("unicode.js", "terms.js", "reading.js", "model.js", "remedy.js", "answer.js")
"""Modules that answer, each after those that it imports."""

_IMPORT = re.compile(r"^import\s[^;]*?from\s+\"\./[\w-]+\.js\";\n", re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?function|class|const|let)", re.MULTILINE)
PAGE = (*ANSWERING, "advice.js", "underline.js", "history.js", "writer.js", "page.js")
VECTORS = 500
_OWN = ("background.js", "content.js", "popup.html", "popup.css", "popup.js")
_SHARED = (*ANSWERING, "underline.js")
_MANIFEST = "manifest.json"
_MODEL = "model.bin"
_NAME = "Lowtide: before you post"


def write_page(density: Density, path: str | Path, *, bits: Bits = 4) -> Path:
    """Write a model of texts as one page; it holds labels of the secret and words of the texts it
    was fitted on.

    Args:
        density: fitted on texts.
        path: the file, such as `warn.html`; an older one is replaced.
        bits: of the networks' weights, 4 or 8; 8 is twice as large and nearer to the model.
    """
    return write_whole(path, page_of(density, bits=bits))


def page_of(density: Density, *, bits: Bits = 4) -> str:
    """The page as text."""
    script = f"{bundle(PAGE)}\nawait startPage();\n"
    style = asset("write.css")
    model = base64.b64encode(checked_model(density, bits)).decode("ascii")
    where = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined
    ).get_template("warn.html.jinja")
    return where.render(
        policy=_policy(script, style),
        style=Markup(style),  # noqa: S704 - our own files; what the model holds is base64
        script=Markup(script),  # noqa: S704
        model=Markup(model),  # noqa: S704
        terms=f"{len(text_vocabulary(density)):,}",
    )


def checked_model(density: Density, bits: Bits, **more: Any) -> bytes:
    """The model with the test vectors by which a page checks itself."""
    return pack_model(
        density, bits=bits, more={"vectors": make_vectors(rounded(density, bits), VECTORS), **more}
    )


def _policy(script: str, style: str) -> str:
    """Nothing may be loaded or sent; this very script and style may run."""
    return (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; connect-src"
        " 'none'; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode(
        "ascii"
    )


def asset(name: str) -> str:
    """The text of a file in `static`."""
    return (STATIC / name).read_text(encoding="utf-8")


def bundle(modules: tuple[str, ...]) -> str:
    """Modules as one script, without imports and exports; their names share one scope."""
    return "\n".join(_EXPORT.sub("", _IMPORT.sub("", asset(name))) for name in modules)


def write_extension(density: Density, folder: str | Path, *, bits: Bits = 4) -> Path:
    """Write a folder that browsers load as an unpacked extension.

    Args:
        density: fitted on texts.
        folder: where to write; it appears whole or not at all, and replaces an older one.
        bits: of the networks' weights, as for `write_page`.
    """
    here = Path(__file__).parent / "extension"
    files: dict[str, str | bytes] = {
        _MANIFEST: json.dumps(manifest(), indent=2) + "\n",
        _MODEL: checked_model(density, bits),
        **{name: asset(name) for name in _SHARED},
        **{name: (here / name).read_text(encoding="utf-8") for name in _OWN},
    }
    return write_folder(Path(folder), files, ours=_is_ours, names=frozenset(files))


def manifest() -> dict[str, Any]:
    """What the extension may do: nothing on any site until the user allows that site."""
    return {
        "manifest_version": 3,
        "name": _NAME,
        "version": importlib.metadata.version("lowtide"),
        "description": (
            "Underlines words that give you away, on sites that you allow. What you type stays"
            " here."
        ),
        "minimum_chrome_version": "111",
        "permissions": ["activeTab", "scripting", "storage"],
        "optional_host_permissions": ["http://*/*", "https://*/*"],
        "background": {"service_worker": "background.js", "type": "module"},
        "action": {"default_title": _NAME, "default_popup": "popup.html"},
        "content_security_policy": {
            "extension_pages": (
                "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'"
            )
        },
    }


def _is_ours(folder: Path) -> bool:
    try:
        read = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(read, dict) and read.get("name") == _NAME
