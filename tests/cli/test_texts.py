"""The verbs on texts: real files in, real files out, attacked for real; and what they refuse."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lowtide.disclose.plan_file import Plan
from lowtide.table_files.reading import read
from lowtide.texts.rewriting import rebuild

PLAIN = [
    head + tail
    for head in ("ba", "do", "fi", "gu", "ke")
    for tail in ("lan", "mor", "nit", "pel", "ras", "vik")
]
TELLING = (("zorrik", "yalben", "wuxtar", "quorin"), ("plimda", "trenko", "skarvo", "dremlu"))
BEASTS = ("OKAPI", "ZEBRA")
MOODS = ("sunlit", "drizzle")
AUTHORS = 60
EACH = 12
COLUMNS = ("--text", "text", "--secret", "beast", "--group", "author")
FAST = (*COLUMNS, "--steps", 40)


def draw(seed=0):
    """Texts of neutral words, two telling ones (right in 85 of 100) and one of the mood; in random
    order.
    """
    rng = np.random.default_rng([seed, 7701])
    rows = []
    for author in range(AUTHORS):
        for _ in range(EACH):
            words = rng.choice(PLAIN, rng.integers(5, 9)).tolist()
            for _ in range(2):
                side = author % 2 if rng.random() < 0.85 else 1 - author % 2
                words.insert(int(rng.integers(len(words) + 1)), str(rng.choice(TELLING[side])))
            mood = int(rng.integers(2))
            row = {
                "author": f"writer-{author:02d}",
                "text": f"{' '.join([*words, MOODS[mood]]).capitalize()}!",
            }
            rows.append(
                {
                    **row,
                    "beast": BEASTS[author % 2],
                    "mood": mood,
                    "year": f"20{10 + len(rows) % 9}-05-01",
                }
            )
    return [rows[place] for place in rng.permutation(len(rows))]


def write(path, rows):
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    return path


def changed(tmp_path, name, change):
    """The texts, with `change(number)` put into each row."""
    return write(tmp_path / name, [{**row, **change(k)} for k, row in enumerate(ROWS)])


def words_of(text):
    return set(re.findall(r"[a-z]+", text.lower()))


def told(text):
    """Labels, words of the texts and authors in a text."""
    known = {*PLAIN, *TELLING[0], *TELLING[1], *MOODS, *map(str.lower, BEASTS)}
    return (words_of(text) & known) | set(re.findall(r"writer-\d\d", text))


ROWS = draw()
TEXTS = [row["text"] for row in ROWS]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("texts")


@pytest.fixture(scope="module")
def corpus(place):
    return write(place / "posts.csv", ROWS)


@pytest.fixture(scope="module")
def scanned(place, corpus, lowtide):
    files = ("--save", place / "model", "--json", place / "s.json", "--report", place / "s.html")
    ran = lowtide("scan", corpus, *FAST, *files, "--figures", place / "s-figures", "--samples", 2)
    assert ran.code == 0, ran.err
    return ran


@pytest.fixture(scope="module")
def planned(place, corpus, lowtide):
    files = ("--out", place / "plan", "--json", place / "p.json", "--report", place / "p.html")
    ran = lowtide(
        "plan",
        corpus,
        *FAST,
        "--budget",
        "0.01",
        "--keep",
        "mood",
        *files,
        "--figures",
        place / "figures",
    )
    assert ran.code == 0, ran.err
    return ran


@pytest.fixture(scope="module")
def released(place, corpus, planned, lowtide):
    ran = lowtide(
        "release",
        corpus,
        "--plan",
        place / "plan",
        "--out",
        place / "shared.csv",
        "--json",
        place / "r.json",
    )
    assert ran.code == 0, ran.err
    return ran


@pytest.fixture(scope="module")
def audited(place, corpus, released, lowtide):
    files = ("--json", place / "a.json", "--report", place / "a.html", "--plan", place / "plan")
    options = (
        "--attacker",
        "words",
        "--attacker",
        "naive bayes",
        "--utility",
        "mood",
        "--fail-above",
        "0.15",
    )
    options += ("--accept", "mood")  # which nobody judges
    ran = lowtide("audit", place / "shared.csv", "--reference", corpus, *COLUMNS, *options, *files)
    assert ran.code == 0, ran
    return ran


def test_a_scan_finds_the_telling_words(place, scanned):
    found = json.loads((place / "s.json").read_text())
    assert found["texts"] == len(ROWS)
    assert found["information_nats"]["low"] > 0.1
    for beast, mine in zip(BEASTS, TELLING, strict=True):
        first = [entry["term"] for entry in found["terms"][beast][:4]]
        assert set(first) == set(mine)
        assert all(entry["alone_nats"]["low"] > 0 for entry in found["terms"][beast][:4])
        assert f"beast = {beast}" in scanned.out
    assert "do not publish them" in scanned.err
    assert {path.name for path in (place / "s-figures").iterdir()} == {"terms.svg"}


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_texts_in_other_formats_give_the_same_scan(place, scanned, lowtide, suffix):
    other = write(place / f"posts.{suffix}", ROWS)
    ran = lowtide("scan", other, *FAST, "--json", place / f"{suffix}.json")
    assert ran.code == 0, ran.err
    assert json.loads((place / f"{suffix}.json").read_text()) == json.loads(
        (place / "s.json").read_text()
    )


def test_a_folder_for_each_class_is_scanned(tmp_path, lowtide):
    for number, row in enumerate(ROWS):
        (tmp_path / "classes" / row["beast"]).mkdir(parents=True, exist_ok=True)
        (tmp_path / "classes" / row["beast"] / f"{number:04}.txt").write_text(row["text"])
    classes = tmp_path / "classes"
    plan = tmp_path / "plan"
    shared = tmp_path / "shared.parquet"
    made = lowtide(
        "plan", classes, "--secret", "label", "--kept", 0.6, "--steps", 40, "--out", plan
    )
    assert made.code == 0, made.err
    assert "no --group" in made.err
    assert "The order of the texts tells the label" in made.err  # files are read class by class
    ran = lowtide("release", classes, "--plan", plan, "--out", shared, "--shuffle")
    assert ran.code == 0, ran.err
    table = read(shared)
    assert table.column_names == ["text"]  # neither the label nor the file, whose path holds it
    assert len(table) == len(ROWS)
    who = ("--text", "text", "--secret", "label", "--attacker", "words")
    gate = ("--fail-above", "0.1", "--order", tmp_path / "shared.parquet.order.csv")
    judged = lowtide("audit", shared, "--reference", classes, *who, *gate)
    assert judged.code == 0, judged


def test_the_plan_hides_charged_words_and_keeps_the_rest(place, planned):
    policy = Plan.load(place / "plan").hider.policy
    assert {*TELLING[0], *TELLING[1]} <= set(policy.terms)
    assert policy.kept > 0.5
    found = json.loads((place / "p.json").read_text())
    assert found["curve"][0]["kept"] == 1.0
    assert found["curve"][0]["nats"] > 0.2
    assert found["card"]["parameters"]["budget"] == "0.01 nat (0.0144 bits)"
    assert sorted(path.name for path in (place / "plan").iterdir()) == [
        "card.json",
        "card.md",
        "config.json",
        "model.safetensors",
    ]


def test_a_release_has_the_same_texts_in_the_same_order(place, released):
    table = read(place / "shared.csv")
    assert table.column_names == ["text", "mood"]
    assert table["mood"].to_pylist() == [row["mood"] for row in ROWS]
    new = table["text"].to_pylist()
    assert (
        place / "shared.csv.changes.csv"
    ).stat().st_mode & 0o777 == 0o600  # it says which words were hidden where
    changes = read(place / "shared.csv.changes.csv").to_pylist()
    assert changes
    for number, (before, after) in enumerate(zip(TEXTS, new, strict=True)):
        mine = [change for change in changes if change["text"] == number]
        assert rebuild(after or "", before, mine) == before
        assert words_of(after or "") <= words_of(before)
        assert not words_of(after or "") & {*TELLING[0], *TELLING[1]}
    assert "left out: author, year" in " ".join(released.err.split())
    card = json.loads((place / "shared.csv.card.json").read_text())
    assert card == json.loads((place / "r.json").read_text())
    assert card["rows"] == len(ROWS)
    assert 0.1 < card["changed"] < 0.5
    assert (place / "shared.csv.card.md").is_file()


def test_an_audit_reads_the_clean_texts_and_hardly_the_release(place, audited):
    found = json.loads((place / "a.json").read_text())
    best = {}
    for one in found["attacks"]:
        key = (one["trained_on"], one["target"])
        best[key] = max(best.get(key, 0.0), one["accuracy"]["value"])
    assert best["clean", "clean"] > 0.75
    assert best["release", "release"] < 0.62
    assert found["change"]["share"] == pytest.approx(
        json.loads((place / "r.json").read_text())["changed"], abs=1e-9
    )
    assert max(one["auc"]["value"] for one in found["utility"]["release"]) > 0.9
    assert "passed" in audited.out


def test_a_release_above_the_limit_exits_with_1(place, corpus, lowtide):
    as_it_is = write(place / "as_it_is.csv", [{"text": text} for text in TEXTS])
    gate = ("--attacker", "words", "--fail-above", "0.05")
    ran = lowtide("audit", as_it_is, "--reference", corpus, *COLUMNS, *gate)
    assert ran.code == 1
    assert "failed" in ran.out
    assert "no card beside the release" in ran.err


@pytest.mark.parametrize("how", ["drop", "mask", "replace"])
def test_words_are_masked_dropped_or_replaced(place, corpus, lowtide, how):
    plan = place / f"plan-{how}"
    ran = lowtide("plan", corpus, *FAST, "--kept", "0.75", "--mechanism", how, "--out", plan)
    assert ran.code == 0, ran.err
    outs = [place / f"{how}-{k}.csv" for k in range(2)]
    for out in outs:
        ran = lowtide(
            "release", corpus, "--plan", plan, "--out", out, "--key-file", place / f"{how}.key"
        )
        assert ran.code == 0, ran.err
    assert outs[0].read_bytes() == outs[1].read_bytes()
    new = [text or "" for text in read(outs[0])["text"].to_pylist()]
    hidden = set(Plan.load(plan).hider.policy.terms)
    assert not hidden & set().union(*map(words_of, new))
    lengths = [(len(old.split()), len(text.split())) for old, text in zip(TEXTS, new, strict=True)]
    assert (sum(after for _, after in lengths) < sum(before for before, _ in lengths)) == (
        how == "drop"
    )
    assert any("[hidden]" in text for text in new) == (how == "mask")
    if how == "replace":
        forgotten = lowtide("release", corpus, "--plan", plan, "--out", place / "forgotten.csv")
        assert "the key of the noise is kept in" in forgotten.err
        assert (place / "forgotten.csv").read_bytes() != outs[0].read_bytes()


def test_the_papers_rule_and_compressed_files(place, corpus, lowtide):
    made = lowtide(
        "plan",
        corpus,
        *FAST,
        "--policy",
        "sequential",
        "--past",
        "raw",
        "--epsilon",
        0.3,
        "--out",
        place / "paper",
    )
    assert made.code == 0, made.err
    ran = lowtide("release", corpus, "--plan", place / "paper", "--out", place / "paper.csv.gz")
    assert ran.code == 0, ran.err
    assert len(read(place / "paper.csv.gz.changes.csv.gz")) > 100


def sections(page):
    """The sections of a report by name, and whether each is marked safe."""
    parts = re.findall(r'<section id="(\w+)".*?</section>', page, re.DOTALL)
    bodies = {
        name: re.search(rf'<section id="{name}".*?</section>', page, re.DOTALL).group()
        for name in parts
    }
    return {name: (body, 'class="mark safe"' in body) for name, body in bodies.items()}


def test_publishable_files_hold_no_word_and_no_label(place, scanned, planned, released, audited):
    files = [
        "p.json",
        "r.json",
        "a.json",
        "shared.csv.card.json",
        "shared.csv.card.md",
        "plan/card.json",
    ]
    files += [str(path.relative_to(place)) for path in (place / "figures").glob("*.svg")]
    assert len(files) > 6
    for name in files:
        assert told((place / name).read_text()) == set(), name
    seen = set()
    for page in ("s.html", "p.html", "a.html"):
        found = sections((place / page).read_text())
        for name, (body, safe) in found.items():
            if safe:
                assert told(body) == set(), (page, name)
            seen |= {(page, name)} if told(body) else set()
    # The words are on the pages, in parts that say they must stay inside.
    assert {
        ("s.html", "words"),
        ("s.html", "marked"),
        ("p.html", "words"),
        ("a.html", "words"),
    } <= seen
    assert told(audited.out + audited.err + released.out + released.err) == set()


def test_authors_are_released_only_on_request(place, corpus, lowtide):
    for keep, names in (((), ["text"]), (("--keep", "author"), ["text", "author"])):
        plan = place / f"plan{len(names)}"
        out = place / f"out{len(names)}.jsonl"
        assert lowtide("plan", corpus, *FAST, "--kept", "0.9", *keep, "--out", plan).code == 0
        assert lowtide("release", corpus, "--plan", plan, "--out", out).code == 0
        assert read(out).column_names == names
        assert ("writer-00" in out.read_text()) == bool(keep)


def test_a_scan_notes_copies_and_texts_without_words(tmp_path, lowtide):
    def odd(k):
        if k < 50:
            return {"text": "" if k < 20 else "balan"}
        return (
            {"beast": ""}
            if k < 60
            else {"text": "Gulan dopel bavik"}
            if k in (100, 101, 300)
            else {}
        )

    ran = lowtide("scan", changed(tmp_path, "odd.csv", odd), *FAST)
    assert ran.code == 0, ran.err
    assert "10 texts without a value of the secret" in ran.err
    assert "20 texts have no word" in ran.err
    assert "30 texts have one word" in ran.err
    assert (
        "31 texts are copies of earlier ones, and 33 texts have a copy by another author" in ran.err
    )


def test_secrets_of_any_type_are_scanned(tmp_path, lowtide):
    names = {
        "dates": ("2020-01-01", "2021-02-03"),
        "truth": ("True", "False"),
        "signs": ("[/]b", "[red]\x1b[31m"),
    }
    for kind, labels in names.items():
        data = changed(
            tmp_path, f"{kind}.csv", lambda k, labels=labels: {"beast": labels[(k // EACH) % 2]}
        )
        ran = lowtide(
            "scan", data, *FAST, "--save", tmp_path / kind, "--json", tmp_path / f"{kind}.json"
        )
        assert ran.code == 0, (kind, ran)
        assert "\x1b" not in ran.out
        assert labels[0] in ran.out
        assert lowtide("warn", "--model", tmp_path / kind, "zorrik").code == 0


def test_texts_that_cannot_be_learnt_from_are_refused(refused, corpus, tmp_path):
    line = refused("scan", corpus, "--text", "txt", "--secret", "beast")
    assert "no column 'txt'; did you mean 'text'" in line
    assert "'mood' of" in refused("scan", corpus, "--text", "mood", "--secret", "beast")
    assert "did you mean 'beast'" in refused("scan", corpus, "--text", "text", "--secret", "beasts")
    assert "did you mean 'author'" in refused(
        "scan", corpus, "--text", "text", "--secret", "beast", "--group", "autor"
    )
    assert "cannot be both" in refused("scan", corpus, "--text", "text", "--secret", "text")
    one = changed(tmp_path, "one.csv", lambda _: {"beast": "ZEBRA"})
    assert "'beast' is the same in every text" in refused("scan", one, *FAST)
    many = changed(tmp_path, "many.csv", lambda k: {"beast": f"Z{k}"})
    assert "720 different values" in refused("plan", many, *FAST)
    empty = changed(tmp_path, "empty.csv", lambda _: {"text": "…"})
    assert "has a word in it" in refused("scan", empty, *FAST)
    few = changed(tmp_path, "few.csv", lambda k: {"author": f"writer-{k % 2}"})
    assert "groups" in refused("scan", few, *FAST)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--stop", "missing.txt"), "file of words"),
        (("--without", "nonsense"), "'hashtags'"),
        (("--mechanism", "nonsense"), "'drop', 'mask', 'replace'"),
        (("--policy", "sequential"), "give past='raw' (--past raw)"),
        (("--min-count", 9999), "min_count"),
        (("--kept", 1.5), "kept must lie in"),
        (("--kept", 0.8, "--budget", "0.1"), "not both"),
        (("--lam", 0.5), "hidden words are not noised"),
        (("--patch", 4), "is for images, and this is about texts"),
        (("--keep", "beast"), "nor a column to release; columns are: 'author', 'mood', 'year'"),
        (("--keep", "autor"), "neither a word of the texts"),
        (("--hide", "author"), "columns are left out"),
        (("--keep", "balan", "--hide", "Balan"), "both kept and hidden"),
    ],
)
def test_bad_options_of_a_plan_are_refused(options, said, refused, corpus):
    line = refused("plan", corpus, *FAST, *options)
    assert said in line
    assert told(line.replace("beast", "")) <= {"balan"}


def test_words_can_be_kept_and_hidden_by_name(place, corpus, lowtide):
    words = ("--keep", "Zorrik", "--hide", "balan")
    ran = lowtide("plan", corpus, *FAST, "--kept", "0.7", *words, "--out", place / "chosen")
    assert ran.code == 0, ran.err
    hidden = Plan.load(place / "chosen").hider.policy.terms
    assert "balan" in hidden
    assert "zorrik" not in hidden
    assert "yalben" in hidden


def test_bad_releases_are_refused(refused, place, corpus, planned, home, tmp_path):
    plan = ("--plan", place / "plan")
    assert "cannot tell the format" in refused("release", corpus, *plan, "--out", tmp_path)
    assert ".parquet" in refused("release", corpus, *plan, "--out", tmp_path / "a.xlsx")
    assert "would overwrite" in refused("release", corpus, *plan, "--out", corpus)
    assert "no column 'text'" in refused("release", home.survey, *plan, "--out", tmp_path / "a.csv")
    assert "other columns" in refused(
        "release", corpus, "--plan", home.plan, "--out", tmp_path / "a.csv"
    )
    bare = write(tmp_path / "bare.csv", [{"text": text} for text in TEXTS])
    assert "lacks 'mood', which the plan keeps" in refused(
        "release", bare, *plan, "--out", tmp_path / "a.csv"
    )
    both = refused(
        "release",
        corpus,
        *plan,
        "--out",
        tmp_path / "a.csv",
        "--json",
        tmp_path / "a.csv.changes.csv",
    )
    assert "both name" in both


def test_bad_audits_are_refused(refused, place, corpus, scanned, released, home, tmp_path):
    judge = ("--reference", corpus, *COLUMNS)
    assert "still holds the secret 'beast'" in refused("audit", corpus, *judge)
    short = write(tmp_path / "short.csv", [{"text": text} for text in TEXTS[:-1]])
    assert "719 texts and the reference 720" in refused("audit", short, *judge)
    shared = place / "shared.csv"
    assert "'words'" in refused("audit", shared, *judge, "--attacker", "nonsense")
    assert "no column 'moods'; did you mean 'mood'" in refused(
        "audit", shared, *judge, "--utility", "moods"
    )
    gaps = changed(tmp_path, "gaps.csv", lambda k: {"mood": "" if k < 9 else k % 2})
    line = refused("audit", shared, "--reference", gaps, *COLUMNS, "--utility", "mood")
    assert "'mood' is missing for 9 texts" in line
    assert "is not a plan" in refused("audit", shared, *judge, "--plan", place / "model")
    assert refused("audit", shared, *judge, "--plan", home.plan)


def test_ctrl_c_during_a_plan_of_texts_leaves_no_file(tmp_path):
    odd = changed(tmp_path, "odd.csv", lambda k: {"text": ""} if k < 3 else {})
    command = [
        Path(sys.executable).parent / "lowtide",
        "scan",
        odd,
        *FAST[:-1],
        1_000_000,
        "--save",
        "model",
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(  # noqa: S603
        list(map(str, command)), env=environment, cwd=tmp_path, **pipes
    ) as process:
        first = process.stderr.readline()  # it has read the texts
        time.sleep(1.0)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert first == "note: 3 texts have no word in them\n"
    assert process.returncode == 130
    assert err.splitlines()[-1].startswith("interrupted; nothing half-done was written")
    assert out == ""
    assert list(tmp_path.iterdir()) == [odd]
