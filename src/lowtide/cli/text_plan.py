"""`lowtide plan` and `lowtide release` of texts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from lowtide.cli.common import note, out, show_progress
from lowtide.cli.outputs import check_outputs
from lowtide.cli.texts import GivenTexts, Terms, read_given_texts
from lowtide.density.tide import TIDE
from lowtide.disclose.budget import Budget
from lowtide.disclose.card import ReleaseCard
from lowtide.disclose.keys import open_noise
from lowtide.disclose.obfuscator import Obfuscator
from lowtide.errors import LowtideError, one_of
from lowtide.files import sha256_of, write_whole
from lowtide.report.console import print_table, write_json
from lowtide.report.contents import Report
from lowtide.report.html import write_report
from lowtide.table_files.formats import format_of
from lowtide.table_files.writing import Writer
from lowtide.texts.cleaning import cleaner
from lowtide.texts.lists import TermLists
from lowtide.texts.plan_file import TextPlan, write_changes
from lowtide.texts.policies import FixedTerms
from lowtide.texts.rewriting import HOW, How

Hiding = Annotated[
    str, typer.Option("--how", help="texts: what becomes of hidden words: drop, mask or replace", metavar="HOW")
]
_ROWS = 12  # points of the curve that are printed
_TERMS = 40  # hidden terms that are printed


def plan_corpus(
    path: Path,
    secret: str,
    *,
    text: str | None,
    group: str | None,
    terms: Terms,
    encoding: str,
    policy: Literal["fixed", "sequential", "paper"],
    how: str,
    budget: Budget | None,
    kept: float | None,
    epsilon: float | None,
    keep: tuple[str, ...],
    hide: tuple[str, ...],
    output: Path,
    json: Path | None,
    report: Path | None,
    figures: Path | None,
    seed: int,
    steps: int | None,
    quiet: bool,
) -> None:
    """`lowtide plan` of texts."""
    if policy == "sequential":
        raise LowtideError("--policy sequential is for tables and images; for texts there are fixed and paper")
    given = read_given_texts(path, secret, text=text, group=group, encoding=encoding)
    columns = tuple(name for name in keep if name in given.found.others.column_names)
    _check_words(given, terms, keep=[name for name in keep if name not in columns], hide=list(hide))
    progress = show_progress(quiet)
    hider = Obfuscator(
        TIDE(terms.options, max_steps=steps, progress=progress, random_state=seed),
        policy,
        _how(how),
        budget=budget,
        kept=kept,
        epsilon=epsilon,
        keep=tuple(name for name in keep if name not in columns),
        hide=hide,
        progress=progress,
        random_state=seed,
    )
    hider.fit(given.found.texts, given.s, groups=given.groups)
    made = TextPlan(hider.hider_, given.secret, given.found.names[0], columns)  # type: ignore[arg-type]
    print_plan(made)
    made.save(output)
    out.print(f"plan: {output}", soft_wrap=True)
    note(f"keep {output} inside: it holds words of your texts")
    if json is not None:
        write_json(json, {"secret": made.secret, "curve": curve_json(made), "card": made.hider.card.to_json()})
    if report is not None:
        for written in write_report(plan_report(path.name, made, given), report, figures=figures):
            out.print(f"written: {written}", soft_wrap=True)


def _check_words(given: GivenTexts, terms: Terms, *, keep: list[str], hide: list[str]) -> None:
    """Refuse words that no text has: a misspelt name would keep or hide nothing, unnoticed."""
    words = cleaner(terms.options).words
    left = {name: f" {' '.join(words(name))} " for name in (*keep, *hide)}
    for text in given.found.texts if left else ():
        said = f" {' '.join(words(text))} "
        left = {name: word for name, word in left.items() if word not in said or not word.strip()}
    others = ", ".join(map(repr, given.found.others.column_names)) or "none"
    for name in (name for name in keep if name in left):
        raise LowtideError(f"--keep {name!r} is no word of the texts and no column to release; these are: {others}")
    for name in (name for name in hide if name in left):
        raise LowtideError(f"--hide {name!r} is no word of the texts; columns are left out unless they are kept")


def _how(how: str) -> How:
    one_of("--how", how, HOW)
    return how  # type: ignore[return-value]


def print_plan(made: TextPlan) -> None:
    """The curve of a plan, the first of its terms, and its three numbers."""
    policy, card = made.hider.policy, made.hider.card
    if isinstance(policy, FixedTerms):
        every = max(1, len(policy.curve) // _ROWS)
        print_table(
            "The trade-off: words kept, and what logistic regression still reads",
            ["words kept", "terms hidden", "bits", "accuracy"],
            [
                (f"{p.kept:.1%}", int(p.hidden.sum()), str(p.reading.leakage.bits), str(p.reading.accuracy))
                for p in policy.curve[::every]
            ],
        )
        hidden = policy.terms
        more = f" and {len(hidden) - _TERMS:,} more" if len(hidden) > _TERMS else ""
        out.print(
            f"hidden: {len(hidden):,} terms; {policy.kept:.1%} of the words stay. In the order of hiding: "
            f"{', '.join(hidden[:_TERMS])}{more}",
            soft_wrap=True,
        )
    out.print(card.text().split("## What was done")[0].strip(), soft_wrap=True)


def curve_json(made: TextPlan) -> list[dict[str, object]]:
    """The points of a plan as plain values."""
    policy = made.hider.policy
    if not isinstance(policy, FixedTerms):
        return []
    return [
        {
            "kept": p.kept,
            "terms": int(p.hidden.sum()),
            "nats": p.reading.leakage.value,
            "accuracy": p.reading.accuracy.value,
        }
        for p in policy.curve
    ]


def plan_report(name: str, made: TextPlan, given: GivenTexts) -> Report:
    """The report of a plan; the list of hidden words is in the part that stays inside."""
    policy, size = made.hider.policy, made.hider.card.parameters.get("terms")
    plan = policy if isinstance(policy, FixedTerms) else None
    return Report(
        title=f"{name}: a plan to hide {made.secret}",
        secret=made.secret,
        features=() if plan is None else plan.vocabulary.terms,
        curve=() if plan is None else plan.curve,
        chosen=None if plan is None else plan.hidden,
        budget=str(made.hider.card.parameters.get("budget") or ""),
        card=made.hider.card,
        terms=TermLists((), (), len(given.s), int(str(size))),
    )


def _changes_of(output: Path) -> Path:
    """Where the changes go: beside the release, in its format."""
    ends = "".join(output.suffixes[-2:]) if output.suffix == ".gz" else output.suffix
    return output.with_name(f"{output.name.removesuffix(ends)}.changes{ends}")


def release_corpus(
    path: Path,
    plan: Path,
    output: Path,
    *,
    key_file: Path | None,
    json: Path | None,
    encoding: str,
) -> None:
    """`lowtide release` of texts: the texts without what tells, where they were changed, and the card."""
    beside = {name: output.with_suffix(f".{name}") for name in ("card.json", "card.md")}
    changes = _changes_of(output)
    check_outputs(
        {"data": path, "plan": plan, "key": key_file},
        {"--out": output, "--json": json, "changes": changes, **beside},
    )
    format_of(output)
    made = TextPlan.load(plan)
    found = made.open(path, encoding=encoding)
    dropped = [n for n in found.others.column_names if n not in (*made.kept, made.secret)]
    if dropped:
        note(f"left out: {', '.join(dropped)}; a plan made with --keep COLUMN releases a column as it is")
    draws = made.hider.mechanism.draws
    if draws and key_file is None:
        note("without --key-file the key of the substitutes is forgotten: releasing again would draw others")
    table, released = made.release(found, noise=open_noise(key_file) if draws else None)
    with Writer(output, table.schema) as writer:
        writer.write(table)
    card: ReleaseCard = replace(
        made.hider.card, rows=len(released), changed=1.0 - released.kept, data_sha256=sha256_of(output)
    )
    for name, content in card.files().items():
        out.print(f"card: {write_whole(beside[name], content)}", soft_wrap=True)
    out.print(f"changes: {write_changes(changes, released)}", soft_wrap=True)
    note(f"keep {changes} inside: it has the length of every hidden word")
    out.print(f"released: {output} ({len(released):,} texts, {1 - released.kept:.1%} of the words hidden)")
    if json is not None:
        write_json(json, card.to_json())
