"""A plan for texts of one kind: made once, then used to release any number of files.

It is the hider, and what the hider does not know: the names of the columns of text and secret, and the other columns
that are released on the user's word. All others are left out: who wrote a text tells more than its words.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from lowtide.bundles import read_bundle, write_bundle
from lowtide.disclose.noise import KeyedNoise
from lowtide.errors import LowtideError
from lowtide.table_files.writing import Writer
from lowtide.texts.hider import TextHider
from lowtide.texts.reading import TextSet, read_texts
from lowtide.texts.rewriting import ReleasedTexts

FORMAT = "lowtide-text-plan"


@dataclass(frozen=True, eq=False)
class TextPlan:
    """What to do with texts in a file.

    Attributes:
        hider: what to hide.
        secret: the name of the secret's column, dropped from every release.
        text: the name of the column of texts.
        kept: other columns that are released as they are, on the user's word.
    """

    hider: TextHider
    secret: str
    text: str
    kept: tuple[str, ...] = ()

    def open(self, path: Path, *, encoding: str = "utf-8") -> TextSet:
        """Read the texts of a file, or of a folder of text files, without asking for the secret."""
        found = read_texts(path, text=None if path.is_dir() else self.text, encoding=encoding)
        missing = [name for name in self.kept if name not in found.others.column_names]
        if missing:
            raise LowtideError(f"{path} lacks {', '.join(map(repr, missing))}, which the plan keeps; make another plan")
        return found

    def release(self, found: TextSet, *, noise: KeyedNoise | None = None) -> tuple[pa.Table, ReleasedTexts]:
        """The released table, with the columns of the plan, and where its texts were changed."""
        released = self.hider.transform(found.texts, noise=noise)
        columns = {self.text: pa.array(released.texts, pa.string())}
        columns |= {name: found.others[name] for name in self.kept if name != self.secret}
        return pa.table(columns), released

    def save(self, path: str | Path) -> None:
        """Write `config.json`, `model.safetensors`, `card.json`, `card.md` into the folder `path`; keep it inside."""
        config, tensors = self.hider.parts()
        head = {"secret": self.secret, "text": self.text, "kept": list(self.kept)}
        write_bundle(Path(path), {**head, **config}, tensors, form=FORMAT, beside=self.hider.card.files())

    @classmethod
    def load(cls, path: str | Path) -> TextPlan:
        """Read a plan back from the folder `path`."""
        config, tensors = read_bundle(Path(path), form=FORMAT)
        hider = TextHider.from_parts(config, tensors, path)
        kept = config.get("kept")
        names = [config.get("secret"), config.get("text"), *(kept if isinstance(kept, list) else (None,))]
        # A plan that names the secret twice would release it.
        if not all(isinstance(name, str) for name in names) or names[0] in names[1:]:
            raise LowtideError(f"{path} lacks or garbles a part of a plan; make it again with `lowtide plan`")
        return cls(hider, names[0], names[1], tuple(names[2:]))


def is_text_plan(path: Path) -> bool:
    """Whether the folder `path` holds a plan for texts."""
    config = path / "config.json"
    return config.is_file() and f'"{FORMAT}"' in config.read_text(encoding="utf-8", errors="replace")[:200]


def write_changes(path: Path, released: ReleasedTexts) -> Path:
    """Write where texts were changed, in the format that the name of the file says.

    The words are not in it, but their lengths are, so it stays inside.
    """
    table = pa.table(released.changes.columns())
    with Writer(path, table.schema) as writer:
        writer.write(table)
    return path
