"""Numbers, names and small tables as people read them: on a page, in a terminal, in a notebook, on
a card.
"""

import html
import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from itertools import pairwise

from lowtide.interface import Estimate, TextTable

_JOINERS = "\u200c\u200d"  # emoji and some scripts are spelled with them
_ACCENTS = 3  # that a letter may carry; towers of them cover the lines above
_HARMLESS = (  # signs that Python does not call printable, and that do not steer a terminal
    f"\n\t{_JOINERS}"
)
_EXACT = 1e-9  # of the last digit: rounding errors do not raise a bound
_CELL = 'style="text-align:left;padding:.15em .8em .15em 0;vertical-align:top"'


def number(value: float, digits: int = 4) -> str:
    """A number with a fixed count of decimals, never −0."""
    return f"{value:z.{digits}f}".replace("-", "−")


def interval(estimate: Estimate, digits: int = 4) -> str:
    """An estimate with its interval; where nothing was found, the most that could have gone
    unseen.
    """
    if not estimate.found:
        return (
            f"none found; at most {number(estimate.high, digits)}"
            if estimate.high > 0
            else str(estimate)
        )
    return (
        f"{number(estimate.value, digits)} [{number(estimate.low, digits)},"
        f" {number(estimate.high, digits)}]"
    )


def unseen(estimate: Estimate, rows: str = "rows") -> str:
    """What can be said of information, in nats, where nothing was found."""
    if estimate.high <= 0:
        return "none: nothing that could tell is released"
    return (
        f"none found; at most {number(estimate.high)} nat could have gone unseen in {estimate.n:,}"
        f" {rows}"
    )


def percent(share: float) -> str:
    """One decimal; what is short of everything never becomes 100 %, and what is something never 0
    %.
    """
    value = round(100.0 * share, 1)
    return f"{min(max(value, 0.1), 99.9) if 0 < share < 1 else value:z.1f}\u00a0%"


def percent_up(share: float) -> str:
    """A share that is not exceeded, in percent: rounded up, but not for an error of rounding."""
    return f"{min(math.ceil(1000 * share - _EXACT) / 10, 100):.1f} %"


def nats_up(value: float) -> str:
    """Nats that are not exceeded, rounded up; a dash where they are infinite."""
    return "–" if math.isinf(value) else f"{math.ceil(1e4 * value - _EXACT) / 1e4:.4f}"


def percents(share: Estimate) -> str:
    """A share with its interval, in percent; where nothing was found, the most that could have gone
    unseen.
    """
    if not share.found and share.high > 0:
        return f"none found; at most {percent(share.high)}"
    return f"{percent(share.value)} [{percent(share.low)}, {percent(share.high)}]"


def percentages(*shares: float) -> tuple[str, ...]:
    """Shares as percentages that do not pretend: whole ones, or one decimal for all where whole
    ones would mislead.

    That is where two different shares lie less than a point apart, and where one short of certainty
    would become 100 % (or one above 0 would become 0 %). Where even one decimal would, the next
    smaller (larger) one is given.
    """
    ordered = sorted(set(shares))
    whole = {share: _rounded(100 * share, 0) for share in shares}
    close = any(b - a < 0.01 - 1e-9 for a, b in pairwise(ordered))
    close = close or len(set(whole.values())) < len(whole)
    extreme = any(0 < share < 1 and not 0.005 <= share < 0.995 for share in shares)
    digits = 1 if close or extreme else 0
    return tuple(f"{_rounded(100 * share, digits):.{digits}f} %" for share in shares)


def _rounded(percent: float, digits: int) -> float:
    """Round half up, but never onto 0 or 100 from beside them."""
    unit = 10.0**-digits
    rounded = math.floor(percent / unit + 0.5) * unit
    return min(max(rounded, unit), 100 - unit) if 0 < percent < 100 else rounded


def in_ascii(text: str) -> str:
    """Numbers as a keyboard writes them, for files and terminals: a hyphen for a minus, a plain
    space before %.
    """
    return text.replace("−", "-").replace("\u00a0", " ")


def listed(names: Sequence[str], most: int) -> str:
    """Names in a row; a long list is cut."""
    rest = len(names) - most
    return (", ".join(plain(name, 60) for name in names[:most]) or "none") + (
        f" and {rest} more" if rest > 0 else ""
    )


def plain(text: str, most: int = 200) -> str:
    """Text of others, such as a column's name, on one line, without control characters, not
    endless.
    """
    line = "".join(letter for letter in " ".join(str(text).split()) if letter.isprintable())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def visible(text: str) -> str:
    """Text of others on one line, as `plain` but uncut: with its outer spaces, its joiners and no
    towers of accents.
    """
    kept = []
    accents = 0
    for letter in re.sub(r"\s+", " ", text):
        accents = accents + 1 if unicodedata.category(letter) in ("Mn", "Me") else 0
        if accents <= _ACCENTS and (letter.isprintable() or letter in _JOINERS):
            kept.append(letter)
    return "".join(kept)


def shown(term: str, most: int = 40) -> str:
    """A term out of somebody's text, no wider than `most` letters; wide letters count twice."""
    line = visible(term[: 8 * most]).strip()
    room = most
    for place, letter in enumerate(line):
        room -= wide(letter)
        if room < 0:
            return f"{line[: max(place - 1, 0)].rstrip()}…"
    return line if line.strip(_JOINERS) else "(nothing to see)"


def wide(letter: str) -> int:
    """How many letters' room a character takes: 0 for one that joins another, 2 for wide ones."""
    if letter in _JOINERS or unicodedata.category(letter) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def printable(text: str) -> str:
    """The text without signs that would steer a terminal."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() or sign in _HARMLESS else "\ufffd" for sign in text)


def cell(value: object) -> str:
    """A cell of a table: floats are rounded to four digits after the point."""
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def text_of(tables: Iterable[TextTable]) -> str:
    """Tables as aligned lines of text, as `__str__` of a result shows them."""
    return "\n\n".join("\n".join(_lines(table)) for table in tables)


def html_of(tables: Iterable[TextTable]) -> str:
    """Tables as a fragment of HTML without scripts, as a notebook shows them."""
    return "".join(_table_html(table) for table in tables)


def html_of_markdown(text: str) -> str:
    """The Markdown that Lowtide writes itself (headings, lists, tables, paragraphs) as a fragment
    of HTML.
    """
    blocks = [block.split("\n") for block in text.strip().split("\n\n")]
    return "".join(_block(lines) for lines in blocks)


def _lines(table: TextTable) -> list[str]:
    rows = [[visible(cell(value)) for value in row] for row in (table.header, *table.rows)]
    widths = [max(sum(map(wide, row[j])) for row in rows) for j in range(len(table.header))]
    body = [
        "  ".join(
            text + " " * (width - sum(map(wide, text)))
            for text, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]
    rule = "  ".join("-" * width for width in widths)
    parts = [
        visible(table.title),
        *([body[0], rule, *body[1:]] if table.header else []),
        visible(table.note),
    ]
    return [part for part in parts if part]


def _table_html(table: TextTable) -> str:
    head = "".join(f"<th {_CELL}>{_safe(name)}</th>" for name in table.header)
    body = "".join(
        f"<tr>{''.join(f'<td {_CELL}>{_safe(cell(value))}</td>' for value in row)}</tr>"
        for row in table.rows
    )
    title = f"<p><strong>{_safe(table.title)}</strong></p>" if table.title else ""
    note = f"<p>{_safe(table.note)}</p>" if table.note else ""
    grid = (
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        if table.header
        else ""
    )
    return f"{title}{grid}{note}"


def _safe(text: str) -> str:
    return html.escape(visible(text))


def _block(lines: list[str]) -> str:
    first = lines[0]
    if first.startswith("#"):
        level = min(2 + first.count("#", 0, 2), 4)
        return f"<h{level}>{_unescaped(first.lstrip('# '))}</h{level}>" + (
            "" if len(lines) < 2 else _block(lines[1:])
        )
    if first.startswith("- "):
        return f"<ul>{''.join(f'<li>{_unescaped(line[2:])}</li>' for line in lines)}</ul>"
    if first.startswith("|"):
        rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in lines if not set(line) <= set("|-")]
        cells = [
            "".join(f"<td {_CELL}>{_unescaped(entry.strip())}</td>" for entry in row)
            for row in rows
        ]
        return f"<table><tbody>{''.join(f'<tr>{row}</tr>' for row in cells)}</tbody></table>"
    return f"<p>{_unescaped(' '.join(lines))}</p>"


def _unescaped(text: str) -> str:
    return _safe(re.sub(r"\\([\\`*_{}\[\]<>#|])", r"\1", text))


def sampled_words(used: int, rows: int, noun: str) -> str:
    """How many samples stand for all, for notes and cards."""
    return f"a uniform sample of {used:,} of {rows:,} {noun}"
