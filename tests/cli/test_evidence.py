"""The gate of a policy file, its evidence, and reviewers' decisions, on the command line."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree as Xml

import numpy as np
import pytest

from lowtide.cli.arguments import AuditArguments, VerifyArguments
from lowtide.hashes import sha256_of

ROOT = Path(__file__).parents[2]
QUICK = ("--attacker", "logistic regression", "--quiet")
POLICY = """
minimum_group = 10
[[secret]]
name = "beast"
budget = "0.02"
limits = ["0.05", "65%"]
[approval]
names = ["Ada"]
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A survey, a release of it that tells nothing, one that tells, a policy file, and a card of
    the first.
    """
    folder = tmp_path_factory.mktemp("evidence")
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 2, 800)
    towns = np.where(rng.random(800) < 0.9, kinds, 1 - kinds)
    ages = rng.integers(0, 3, 800)
    lines = [f"a{age},{('north', 'south')[town]}" for age, town in zip(ages, towns, strict=True)]
    beasts = [("ZEBRA", "OKAPI")[kind] for kind in kinds]
    whole = [f"{line},{beast}" for line, beast in zip(lines, beasts, strict=True)]
    (folder / "survey.csv").write_text("\n".join(["age,town,beast", *whole]) + "\n")
    (folder / "shared.csv").write_text(
        "\n".join(["age,town", *(f"a{age},hidden" for age in ages)]) + "\n"
    )
    (folder / "telling.csv").write_text("\n".join(["age,town", *lines]) + "\n")
    (folder / "lowtide.toml").write_text(POLICY)
    return folder


@pytest.fixture
def card(place, make_card):
    path = place / "shared.csv.card.json"
    make_card(rows=800, data_sha256=sha256_of(place / "shared.csv")).save(path)
    yield path
    for one in (path, path.with_suffix(".md")):
        one.unlink(missing_ok=True)


def audit(lowtide, place, name, *options):
    source = ("--reference", place / "survey.csv", "--policy-file", place / "lowtide.toml")
    return lowtide("audit", place / name, *source, *QUICK, *options)


def test_a_release_that_keeps_every_limit_passes_and_leaves_evidence(lowtide, place, tmp_path):
    files = (
        "--junit",
        tmp_path / "limits.xml",
        "--summary",
        tmp_path / "summary.md",
        "--json",
        tmp_path / "a.json",
    )
    ran = audit(lowtide, place, "shared.csv", *files, "--report", tmp_path / "report.html")
    assert ran.code == 0, ran.err
    assert "Gate passed: 3 of 3 limits of lowtide.toml kept." in ran.out
    # Lowtide wrote this XML.
    cases = Xml.parse(tmp_path / "limits.xml").getroot().findall(".//testcase")  # noqa: S314
    assert [one.get("name") for one in cases] == [
        "at most 0.05 nat about beast",
        "at most 65 % right guesses of beast",
        "at least 10 rows shown alike",
    ]
    assert not any(len(one) for one in cases)
    assert "To be approved by one of: Ada." in (tmp_path / "summary.md").read_text()
    assert [
        one["state"] for one in json.loads((tmp_path / "a.json").read_text())["gate"]["outcomes"]
    ] == ["kept"] * 3
    page = (tmp_path / "report.html").read_text()
    assert "What was asked, what was found" in page
    assert "at least 10 rows shown alike" in page
    for path in tmp_path.iterdir():
        assert not re.search("ZEBRA|OKAPI", path.read_text()), path.name


def test_a_release_that_tells_fails_the_gate_with_exit_code_1(lowtide, place, tmp_path):
    files = (
        "--junit",
        tmp_path / "limits.xml",
        "--summary",
        "-",
        "--report",
        tmp_path / "report.html",
    )
    ran = audit(lowtide, place, "telling.csv", *files)
    assert ran.code == 1, ran.err
    # Lowtide wrote this XML.
    failures = Xml.parse(tmp_path / "limits.xml").getroot().findall(".//failure")  # noqa: S314
    assert [one.get("type") for one in failures] == ["exceeded", "exceeded"]
    assert "**Gate failed: 1 of 3 limits of lowtide.toml kept.**" in ran.out
    page = (tmp_path / "report.html").read_text()
    assert page.index("Gate failed: 1 of 3") < page.index('id="attacks"'), (
        "the verdict says it first"
    )


def test_contradictions_and_unknown_secrets_end_with_exit_code_2(refused, place, tmp_path):
    source = (place / "shared.csv", "--reference", place / "survey.csv", *QUICK)
    policy = tmp_path / "policy.toml"
    for text, said in {
        POLICY.replace("65%", "40%"): "lies below the blind guess",
        POLICY.replace("beast", "beats"): "no [[secret]] named 'beast'; did you mean 'beats'?",
        POLICY.replace('"65%"', '"0.1bits"'): "two limits of one quantity",
        POLICY.replace("minimum_group", "min_group"): "did you mean 'minimum_group'?",
        POLICY.replace("= 10", "= 10_000"): "minimum_group = 10000 is more than the 800 samples",
    }.items():
        policy.write_text(text)
        assert said in refused("audit", *source, "--secret", "beast", "--policy-file", policy)
    plan = ("plan", place / "survey.csv", "--policy-file", place / "lowtide.toml")
    assert "exceeds what" in refused(*plan, "--budget", "0.03")
    assert "leave kept out" in refused(*plan, "--kept", "0.5")
    assert "needs the secret" in refused("audit", *source)
    assert "needs the secret" in refused("plan", place / "survey.csv")


def test_evidence_that_cannot_be_written_is_refused_before_the_audit(refused, place, tmp_path):
    source = ("audit", place / "shared.csv", "--reference", place / "survey.csv", *QUICK)
    asked = (*source, "--policy-file", place / "lowtide.toml")
    assert "--junit has a test case for each limit" in refused(
        *source, "--secret", "beast", "--junit", "limits.xml"
    )
    assert "--junit - is not a file" in refused(*asked, "--junit", "-")
    assert "printed into each other" in refused(*asked, "--summary", "-", "--json", "-")
    assert "which is the policy file" in refused(*asked, "--summary", place / "lowtide.toml")
    assert "which is the release" in refused(*asked, "--junit", place / "shared.csv")
    assert "both name" in refused(*asked, "--junit", tmp_path / "x", "--summary", tmp_path / "x")


def test_a_plan_takes_secret_and_budget_from_the_file(lowtide, place, tmp_path):
    options = ("--policy", "fixed", "--steps", 40, "--quiet", "--out", tmp_path / "plan.json")
    ran = lowtide("plan", place / "survey.csv", "--policy-file", place / "lowtide.toml", *options)
    assert ran.code == 0, ran.err
    said = json.loads((tmp_path / "plan.json").read_text())
    assert said["secret"] == "beast"
    assert said["card"]["parameters"]["budget"].startswith("0.02 nat")


def test_decisions_are_stored_shown_and_verified(lowtide, place, card):
    data = place / "shared.csv"
    hashed = json.loads(card.read_text())["data_sha256"]
    asked = ("--policy-file", place / "lowtide.toml")
    assert lowtide("verify", card, data).code == 0
    assert "approvals needed: 1, from Ada" in lowtide("verify", card, data, *asked).out
    ran = lowtide(
        "review", card, "--decision", "approve", "--name", "Ada", "--note", "fine", *asked
    )
    assert ran.code == 0, ran.err
    assert "Approved by Ada" in card.with_suffix(".md").read_text()
    assert "Approved by Ada" in lowtide("show", card).out
    assert lowtide("verify", card, data, *asked).code == 0
    assert (
        lowtide(
            "review", card, "--decision", "reject", "--name", "Grace", "--date", "2026-01-31"
        ).code
        == 0
    )
    said = json.loads(card.read_text())
    assert ([one["name"] for one in said["decisions"]], said["data_sha256"]) == (
        ["Ada", "Grace"],
        hashed,
    )
    ran = lowtide("verify", card, data)
    assert (ran.code, "Grace rejected this release on 2026-01-31" in ran.out) == (1, True)


def test_expired_and_edited_cards_end_with_exit_code_2(lowtide, refused, sealed, place, card):
    data = place / "shared.csv"
    dates = ("--date", "2020-01-01", "--expires", "2020-06-01")
    assert lowtide("review", card, "--decision", "approve", "--name", "Ada", *dates).code == 0
    assert "the approval of Ada expired on 2020-06-01" in refused("verify", card, data)
    assert lowtide("review", card, "--decision", "approve", "--name", "Ada").code == 0
    assert lowtide("verify", card, data).code == 0
    card.write_text(json.dumps(sealed(json.loads(card.read_text()), changed=0.4)))
    assert "edited after the decision of Ada" in refused("verify", card, data)
    before = card.read_text()
    assert "edited after" in refused("review", card, "--decision", "approve", "--name", "Grace")
    assert card.read_text() == before


def test_bad_reviews_are_refused(refused, place, card):
    asked = ("review", card, "--decision", "approve", "--name")
    assert "'Eve' is not among those who approve" in refused(
        *asked, "Eve", "--policy-file", place / "lowtide.toml"
    )
    assert "date must be a day such as" in refused(*asked, "Ada", "--date", "yesterday")
    assert "lies before" in refused(
        *asked, "Ada", "--date", "2020-01-02", "--expires", "2020-01-01"
    )
    assert "which is the card" in refused(*asked, "Ada", "--json", card)
    page = ("review", card.with_suffix(".md"), "--decision", "approve", "--name", "Ada")
    assert "is not the card for machines" in refused(*page)


def flags(arguments):
    return {f"--{name.replace('_', '-')}" for name in arguments.__dataclass_fields__}


COMMANDS = {"audit": flags(AuditArguments), "verify": flags(VerifyArguments)}


@pytest.mark.parametrize("name", [".pre-commit-hooks.yaml", "action.yml", "docs/evidence.md"])
def test_ready_made_files_call_commands_with_options_that_exist(name):
    text = re.sub(r"\\\n\s*", " ", (ROOT / name).read_text())
    called = re.findall(r"lowtide (audit|verify)\b([^\n`]*)", text)
    assert called
    for command, options in called:
        assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", options)) <= COMMANDS[command], (
            name,
            command,
            options,
        )


def test_the_verify_hook_runs_whatever_a_commit_changes():
    """A release that changes without its card is what it is there for."""
    hook = (ROOT / ".pre-commit-hooks.yaml").read_text().split("- id: ")[1]
    assert hook.startswith("lowtide-verify\n")
    assert "always_run: true" in hook
    assert "files:" not in hook.replace("pass_filenames:", "")


def test_the_action_asks_for_no_secret_and_uses_only_inputs_that_it_declares():
    text = (ROOT / "action.yml").read_text()
    declared = set(
        re.findall(r"^  ([a-z-]+):$", text.split("\nruns:")[0].split("\ninputs:")[1], re.MULTILINE)
    )
    used = set(re.findall(r"\$\{\{ inputs\.([a-z-]+) \}\}", text))
    assert used == declared
    assert "secrets." not in text
    script = text[text.index("run: |") :]
    assert "${{" not in script, "inputs must reach the shell as variables"
    assert {"--summary", "--junit", "--policy-file"} <= set(re.findall(r"--[a-z-]+", script))
    assert "using: composite" in text


@pytest.mark.parametrize("name", [".pre-commit-hooks.yaml", "action.yml"])
def test_ready_made_files_are_indented_as_yaml(name):
    """No parser of YAML is installed: checks what breaks most often, by line."""
    lines = [
        line
        for line in (ROOT / name).read_text().splitlines()
        if line.strip() and not line.strip().startswith("#")
    ]
    script = None
    for line in lines:
        indent = len(line) - len(line.lstrip())
        assert "\t" not in line
        assert indent % 2 == 0
        if script is not None and indent > script:
            continue
        script = indent if line.endswith("|") else None
        assert re.fullmatch(r"\s*(- )?[A-Za-z_-]+:( \S.*)?", line), line
        value = line.partition(": ")[2]
        assert value[:1] in "\"'" or ": " not in value, f"quote the value: {line}"
