"""The picture of the README: some rows of a survey, what each cell tells, their release, and the
attacker's odds.

The data is the 1996 American National Election Study, which is in the public domain and ships with
statsmodels.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup

from lowtide import Density, audit, plan, release, scan
from lowtide.errors import LowtideError
from lowtide.files import write_whole
from lowtide.interface import TextTable
from lowtide.report.console import parse_arguments, print_tables, write_json
from lowtide.table_files.survey import load_survey
from lowtide.types import Floats

SHOWN = {
    "party": "party",
    "own_place": "own view",
    "clinton_place": "Clinton is",
    "age": "age",
    "educ": "school",
}
PARTIES = ("strong D", "D", "leans D", "neither", "leans R", "R", "strong R")
VIEWS = ("far left", "left", "mid left", "middle", "mid right", "right", "far right")
SCHOOLS = ("grade", "grade +", "high", "high +", "associate", "college", "master")
WORDS = {  # what the codes of the study mean
    "party": dict(enumerate(PARTIES)),
    "own_place": dict(enumerate(VIEWS, 1)),
    "clinton_place": dict(enumerate(VIEWS, 1)),
    "educ": dict(enumerate(SCHOOLS, 1)),
}
ROWS = 7  # of the file, the first ones
# pixels: of a cell, and above the tables
_CELL = 72
_HIGH = 30
_TOP = 100
# pixels: where the three parts begin
_LEFT = 24
_RIGHT = 440
_ODDS = 856
_WIDTH = 1128
_HEIGHT = 350
_MOST = 0.5  # nats: a cell that tells as much, or more, has the full colour
_STYLE = """
text{font:13px system-ui,-apple-system,'Segoe UI',Roboto,sans-serif;fill:#1c2b33}
.head,.small{font-size:12.5px;fill:#51636d}.title{font-size:16px;font-weight:600}
.big{font-size:24px;font-weight:650}.grid{fill:none;stroke:#d5dee3}.drawn{fill:#dcedf2;stroke:#12607a;stroke-width:1.5}
.arrow{fill:none;stroke:#93a4ad;stroke-width:2}
.before{fill:#b3402a}.after{fill:#12607a}.rail{fill:#edf2f4}
.blind{stroke:#1c2b33;stroke-width:1.5;stroke-dasharray:4 3}
"""


class Odds(NamedTuple):
    """How often the vote is guessed right: from the clean rows, from the release, and from
    nothing.
    """

    before: float
    after: float
    blind: float


def main() -> None:
    """Run the four verbs on the survey, and draw what came out."""
    options = parse_arguments(__doc__ or "")
    frame = load_survey().to_pandas()
    steps = 60 if options.quick else 200
    asked = {"seed": options.seed, "progress": False}
    found = scan(frame, "vote", steps=steps, **asked)
    made = plan(frame, "vote", utility="income", steps=steps, **asked)
    done = release(frame, made, ids=np.arange(len(frame)), progress=False)
    attacks = audit(done.data, frame, "vote", **asked).attacks
    if attacks.headline_clean is None:
        raise LowtideError("the audit has no attack on the clean rows; give it the reference")
    blind = float(frame["vote"].value_counts(normalize=True).max())
    odds = Odds(attacks.headline_clean.accuracy.value, attacks.headline.accuracy.value, blind)
    told = _told(found.density, frame.head(ROWS))
    path = (options.json or Path("overview.json")).with_suffix(".svg")
    write_whole(
        path,
        _picture(frame.head(ROWS), done.data.head(ROWS), told, odds, made.card.changed).encode(),
    )
    rows = (
        ("an attacker on the clean rows", f"{odds.before:.1%}"),
        ("an attacker on the release", f"{odds.after:.1%}"),
        ("a blind guess", f"{odds.blind:.1%}"),
        ("values that were drawn anew", f"{made.card.changed:.1%}"),
    )
    print_tables([TextTable("The survey, before and after", ("share", ""), rows)])
    print(f"figure: {path}", file=sys.stderr)
    if options.json is not None:
        write_json(options.json, {**odds._asdict(), "changed": made.card.changed})


def _told(density: Density, rows: Any) -> Floats:
    """How much each cell moves the belief in the person's own vote: (rows, columns shown),
    order-free, in nats.
    """
    columns = [name for name in rows.columns if name != "vote"]
    own = density.classes.encode(rows["vote"])
    shares = density.shapley(rows[columns]).values[np.arange(len(rows)), :, own]
    return np.asarray(shares[:, [columns.index(name) for name in SHOWN]])


def _picture(clean: Any, shared: Any, told: Floats, odds: Odds, changed: float) -> str:
    parts = [
        *_table(_LEFT, "A survey: what gives the vote away", clean, [_shade(row) for row in told]),
        *_table(
            _RIGHT, f"Its release: {changed:.0%} of answers redrawn", shared, _marks(clean, shared)
        ),
        *_odds(odds),
        *(_arrow(x) for x in (_RIGHT, _ODDS)),
    ]
    below = _TOP + ROWS * _HIGH + 26
    parts += [
        _text(_LEFT, below, "the redder, the more the answer reveals", "small"),
        _text(_RIGHT, below, "blue: redrawn; whoever gets the file cannot tell which", "small"),
    ]
    frame = Markup(
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {} {}" role="img"'
        ' aria-label="{}">{}{}{}</svg>\n'
    )
    about = (
        f"Attackers guess the vote right {odds.after:.0%} of the time from the release,"
        f" {odds.before:.0%} before."
    )
    ground = Markup('<rect width="100%" height="100%" rx="10" fill="#fff"/>')
    return str(
        frame.format(
            _WIDTH,
            _HEIGHT,
            about,
            Markup(f"<style>{_STYLE}</style>"),  # noqa: S704
            ground,
            Markup("").join(parts),
        )
    )


def _text(x: float, y: float, words: str, look: str = "", anchor: str = "start") -> Markup:
    return Markup('<text x="{}" y="{}" class="{}" text-anchor="{}">{}</text>').format(
        x, y, look, anchor, words
    )


def _arrow(x: float) -> Markup:
    """From one part to the next, which begins at x."""
    y = _TOP + ROWS * _HIGH / 2
    return Markup('<path d="M{} {}h22m-7 -6l7 6l-7 6" class="arrow"/>').format(x - 41, y)


def _shade(row: Floats) -> list[str]:
    """The fill of each cell of a row: white where it tells nothing for the vote, red where it tells
    much.
    """
    shares = np.clip(row / _MOST, 0.0, 1.0)
    return [f'style="fill:rgba(179,64,42,{share:.2f})" class="grid"' for share in shares]


def _marks(clean: Any, shared: Any) -> list[list[str]]:
    """Which cells were drawn anew and came out different."""
    same = clean[list(SHOWN)].to_numpy() == shared[list(SHOWN)].to_numpy()
    return [['class="grid"' if one else 'class="drawn"' for one in row] for row in same]


def _table(left: int, title: str, rows: Any, looks: list[list[str]]) -> Iterator[Markup]:
    yield _text(left, 40, title, "title")
    for k, name in enumerate(SHOWN.values()):
        yield _text(left + k * _CELL + _CELL / 2, _TOP - 12, name, "head", "middle")
    for i, (values, row) in enumerate(zip(rows[list(SHOWN)].to_numpy(), looks, strict=True)):
        for k, (name, value, look) in enumerate(zip(SHOWN, values, row, strict=True)):
            x = left + k * _CELL
            y = _TOP + i * _HIGH
            cell = Markup('<rect x="{}" y="{}" width="{}" height="{}" {}/>')
            yield cell.format(x + 1, y + 1, _CELL - 2, _HIGH - 2, Markup(look))  # noqa: S704 - ours
            words = WORDS.get(name, {}).get(value, f"{value:g}")
            yield _text(x + _CELL / 2, y + 20, words, "", "middle")


def _odds(odds: Odds) -> Iterator[Markup]:
    """Two bars: how often an attacker guesses right, and where a blind guess stands."""
    yield _text(_ODDS, 40, "An attacker guesses the vote", "title")
    yield _text(_ODDS, _TOP - 12, "trained on each, tested on others", "head")
    wide = _WIDTH - _ODDS - 24
    bars = (
        ("before", "right, from the survey", odds.before),
        ("after", "right, from the release", odds.after),
    )
    for k, (look, name, share) in enumerate(bars):
        y = _TOP + k * 92
        bar = Markup('<rect x="{}" y="{}" width="{:.1f}" height="14" rx="3" class="{}"/>')
        yield _text(_ODDS, y + 22, f"{share:.0%}", "big")
        yield _text(_ODDS + wide, y + 22, name, "small", "end")
        yield bar.format(_ODDS, y + 34, wide, "rail")
        yield bar.format(_ODDS, y + 34, wide * share, look)
        x = _ODDS + wide * odds.blind
        yield Markup('<line x1="{0:.1f}" x2="{0:.1f}" y1="{1}" y2="{2}" class="blind"/>').format(
            x, y + 29, y + 53
        )
    yield _text(
        _ODDS, _TOP + ROWS * _HIGH + 26, f"dashed: a blind guess is right {odds.blind:.0%}", "small"
    )


if __name__ == "__main__":
    main()
