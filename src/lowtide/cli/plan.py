"""`lowtide plan`: what to hide for a budget."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer

from lowtide.bundles import check_bundle_place
from lowtide.cli.common import (
    Encoding,
    Figures,
    Given,
    Json,
    Quiet,
    ReportFile,
    Secret,
    Seed,
    Steps,
    Table,
    Types,
    note,
    note_columns,
    out,
    read_given,
    reported,
    show_progress,
    words_of,
)
from lowtide.cli.image_plan import plan_folder
from lowtide.cli.images import Grey, Opening, Patch, Resize, Strict, are_images
from lowtide.cli.outputs import check_outputs
from lowtide.cli.text_plan import Hiding, plan_corpus
from lowtide.cli.texts import Group, MinCount, MostTerms, Ngrams, Stop, Terms, Text, Without, are_texts
from lowtide.density.tide import TIDE
from lowtide.disclose.budget import Budget
from lowtide.disclose.obfuscator import Obfuscator
from lowtide.errors import LowtideError
from lowtide.report.console import print_table, write_json
from lowtide.report.html import Report, write_report
from lowtide.table_files.formats import find_column
from lowtide.tables.plan_file import TablePlan
from lowtide.tables.policies import FixedColumns

Policy = Annotated[Literal["fixed", "sequential", "paper"], typer.Option("--policy", help="who decides what is hidden")]
Mechanism = Annotated[
    Literal["redact", "gaussian", "mixed"],
    typer.Option("--mechanism", help="what hiding does; mixed noises numbers where that is enough"),
]
BudgetText = Annotated[
    str | None,
    typer.Option("--budget", help="what the release may tell: 0.02 (nats), 0.03bits", show_default="0.01 nat"),
]
Accuracy = Annotated[
    float | None, typer.Option("--attacker-accuracy", help="budget as the share an attacker may guess right")
]
Keep = Annotated[list[str] | None, typer.Option("--keep", help="column to release as it is (repeat)", metavar="COLUMN")]
Hide = Annotated[list[str] | None, typer.Option("--hide", help="column to hide anyway (repeat)", metavar="COLUMN")]
Utility = Annotated[
    str | None, typer.Option("--utility", help="column that the others should still tell", metavar="COLUMN")
]


@reported
def run(
    file: Table,
    secret: Secret,
    budget: BudgetText = None,
    attacker_accuracy: Accuracy = None,
    keep: Keep = None,
    hide: Hide = None,
    utility: Utility = None,
    policy: Policy = "fixed",
    mechanism: Mechanism = "redact",
    epsilon: Annotated[float | None, typer.Option("--epsilon", help="threshold of a column, or ε of the noise")] = None,
    delta: Annotated[float | None, typer.Option("--delta", help="with ε, calibrates the noise")] = None,
    lam: Annotated[float | None, typer.Option("--lam", help="noise, in units of a column's range")] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--out", help="where to keep the plan; a folder for networks and images", show_default="plan.json"
        ),
    ] = None,
    json: Json = None,
    report: ReportFile = None,
    figures: Figures = None,
    types: Types = None,
    encoding: Encoding = "utf-8",
    patch: Patch = 8,
    share: Annotated[
        float | None,
        typer.Option("--kept", help="images, texts: share of pixels or words to keep, not a budget"),
    ] = None,
    text: Text = None,
    group: Group = None,
    how: Hiding = "drop",
    ngrams: Ngrams = 1,
    min_count: MinCount = 2,
    terms: MostTerms = None,
    stop: Stop = None,
    without: Without = None,
    resize: Resize = None,
    grey: Grey = False,
    strict: Strict = False,
    seed: Seed = 0,
    steps: Steps = None,
    quiet: Quiet = False,
) -> None:
    """What to hide for a budget, at the least damage; and the whole trade-off.

    Example: lowtide plan survey.csv --secret vote --budget 0.02 --keep age --utility income

    Example: lowtide plan faces/ --secret smile --patch 4 --attacker-accuracy 0.65 --out faces.lowtide

    Example: lowtide plan tweets.csv --text text --secret party --group author --kept 0.8 --out tweets.lowtide
    """
    texts = are_texts(file, text, group)
    images = not texts and are_images(file)
    output = output or Path("plan.lowtide" if images or texts else "plan.json")
    what = "a plan for images or texts" if images or texts else None if policy == "fixed" else f"the policy {policy!r}"
    _check_places(file, what, output, json, report, figures)
    limit = _budget(budget, attacker_accuracy)
    if texts:
        if utility or delta is not None or lam is not None or mechanism != "redact":
            raise LowtideError("--utility, --mechanism, --delta and --lam are not for texts; they have --how")
        plan_corpus(
            file,
            secret,
            text=text,
            group=group,
            terms=Terms(ngrams, min_count, terms, stop, tuple(without or ())),
            encoding=encoding,
            policy=policy,
            how=how,
            budget=limit,
            kept=share,
            epsilon=epsilon,
            keep=tuple(keep or ()),
            hide=tuple(hide or ()),
            output=output,
            json=json,
            report=report,
            figures=figures,
            seed=seed,
            steps=steps,
            quiet=quiet,
        )
        return
    if images:
        if keep or hide or utility or delta is not None:
            raise LowtideError("--keep, --hide, --utility and --delta are about columns; images have patches")
        plan_folder(
            file,
            secret,
            patch=patch,
            opening=Opening(resize, grey, strict),
            policy=policy,
            mechanism=mechanism,
            budget=limit,
            kept=share,
            epsilon=epsilon,
            lam=lam,
            output=output,
            json=json,
            report=report,
            figures=figures,
            seed=seed,
            steps=steps,
            quiet=quiet,
        )
        return
    if mechanism == "redact" and not lam is delta is None:
        raise LowtideError(
            "--lam and --delta are about noise, and redaction draws none; add --mechanism gaussian or mixed"
        )
    given = read_given(file, secret, types, encoding)
    kept, hidden = _columns(keep, given), _columns(hide, given)
    if set(kept) & set(hidden):
        raise LowtideError(f"{', '.join(sorted(set(kept) & set(hidden)))} cannot be both kept and hidden; choose")
    note_columns(given)
    hider = Obfuscator(
        TIDE(max_steps=steps, random_state=seed, progress=False),
        policy,
        mechanism,
        budget=limit,
        kept=share,
        epsilon=epsilon,
        delta=delta,
        lam=lam,
        keep=tuple(name for name in kept if name in given.judged),
        hide=tuple(name for name in hidden if name in given.judged),
        progress=show_progress(quiet),
        random_state=seed,
    )
    made = make_plan(given, hider, keep=kept, utility=utility)
    print_plan(made)
    made.save(output)
    out.print(f"plan: {output}", soft_wrap=True)
    note(f"{output} is not for publication; keep it inside: it holds ranges and categories of your data")
    if json is not None:
        write_json(json, plan_json(made))
    if report is not None:
        for path in write_report(plan_report(file.name, made), report, figures=figures):
            out.print(f"written: {path}", soft_wrap=True)


def make_plan(given: Given, hider: Obfuscator, *, keep: tuple[str, ...], utility: str | None) -> TablePlan:
    """Fit, and keep what a release of this layout needs to know."""
    if utility is not None:
        utility = find_column(utility, given.judged)
    fitted = hider.fit(given.x, given.s, utility=utility)
    kept = tuple(name for name in given.identifiers if name in keep)
    blank = tuple(name for name in given.identifiers if name not in keep)
    hider_: Any = fitted.hider_
    return TablePlan(hider_, given.secret, blank, words_of(given.table), kept, utility)


def print_plan(made: TablePlan) -> None:
    """The plan as a table, and its three numbers."""
    policy, card = made.hider.policy, made.hider.card
    shares = {feature.name: feature.hidden for feature in card.features}
    marginal = dict(zip(shares, policy.marginal, strict=True)) if isinstance(policy, FixedColumns) else {}
    rows = [
        (name, f"{share:.0%}", "" if not marginal or np.isnan(marginal[name]) else f"{marginal[name]:.4f}")
        for name, share in sorted(shares.items(), key=lambda pair: (-pair[1], -marginal.get(pair[0], 0.0)))
    ]
    print_table("What is hidden", ["column", "rows hidden", "nats it carries"], rows)
    for name in made.identifiers:
        out.print(f"also blank, since it names rows: {name}", soft_wrap=True)
    out.print(card.text().split("## What was done")[0].strip(), markup=False, soft_wrap=True)


def plan_json(made: TablePlan) -> dict[str, Any]:
    """The plan as plain values, without what was learnt about the data: no range, no category, no network."""
    config, _ = made.parts()
    for part, inside in (("policy", "density"), ("mechanism", "private")):
        config[part] = {name: value for name, value in config[part].items() if name != inside}
    return config


def plan_report(name: str, made: TablePlan) -> Report:
    """The report of a plan."""
    policy = made.hider.policy
    extra = {}
    if isinstance(policy, FixedColumns):
        extra = {"curve": policy.curve, "chosen": policy.hidden}
    return Report(
        title=f"{name}: a plan to hide {made.secret}",
        secret=made.secret,
        features=made.hider.mechanism.features.names,
        budget=str(made.hider.card.parameters.get("budget") or ""),
        card=made.hider.card,
        **extra,  # type: ignore[arg-type]
    )


def _check_places(
    file: Path, large: str | None, output: Path, json: Path | None, report: Path | None, figures: Path | None
) -> None:
    """Refuse before the long work what could not be written after it."""
    single = output.suffix == ".json"
    if single and large is not None:
        raise LowtideError(
            f"{large} needs more than a JSON file holds; name a folder instead, such as --out "
            f"{output.with_suffix('.lowtide')}"
        )
    if not single:
        check_bundle_place(output)
    files = {"--json": json, "--report": report}
    folders = {"--figures": figures}
    (files if single else folders)["--out"] = output
    check_outputs({"data": file}, files, folders=folders)


def _budget(text: str | None, accuracy: float | None) -> Budget | None:
    if text is not None and accuracy is not None:
        raise LowtideError("give --budget or --attacker-accuracy, not both")
    return Budget.accuracy(accuracy) if accuracy is not None else None if text is None else Budget.read(text)


def _columns(names: list[str] | None, given: Given) -> tuple[str, ...]:
    return tuple(find_column(name, [*given.judged, *given.identifiers]) for name in names or ())
