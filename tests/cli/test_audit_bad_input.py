"""What is wrong with an audit is said in one line, with value, rule and remedy, and exit code 2,
before any attack.
"""

import pytest

from lowtide.attack import cross_fitting


@pytest.fixture
def nobody_attacks(monkeypatch):
    """A command that is refused must not have trained anybody."""

    def trained(*_, **__):
        raise AssertionError("attackers were trained")

    monkeypatch.setattr(cross_fitting.FoldedPanel, "train", trained)


@pytest.fixture
def survey(tmp_path):
    """Write a table of 60 rows, each cell by a function of its number; returns its path."""

    def write(name, **columns):
        lines = [
            ",".join(columns),
            *(",".join(str(cell(i)) for cell in columns.values()) for i in range(60)),
        ]
        path = tmp_path / name
        path.write_text("\n".join(lines) + "\n")
        return path

    return write


CLEAN = {
    "person": lambda i: f"P{i:03d}",
    "author": lambda i: f"A{i // 2}",
    "age": lambda i: 20 + i % 7,
    "town": lambda i: "NORTH" if i % 3 else "SOUTH",
    "beast": lambda i: "ZEBRA" if i % 2 else "OKAPI",
}


@pytest.fixture
def reference(survey):
    return survey("clean.csv", **CLEAN)


@pytest.fixture
def said(survey, reference, refused, nobody_attacks):
    """The line that an audit of a release with these columns ends with."""

    def check(*options, but=(), secret="beast", **columns):
        shown = {name: cell for name, cell in CLEAN.items() if name not in ("beast", *but)}
        release = survey("shared.csv", **{**shown, **columns})
        line = refused(
            "audit", release, "--reference", reference, "--secret", secret, "--quiet", *options
        )
        for value in ("P00", "P10", "NORTH", "ZEBRA", "OKAPI"):
            assert value not in line, "messages count, and quote no value"
        return line

    return check


IDS = {
    "none in common": (
        lambda i: f"Q{i}",
        "no id of the release is in the reference (60 and 60 ids)",
        "means the same",
    ),
    "half in common": (
        lambda i: f"P{i + 30:03d}",
        "30 of the 60 ids of the release are not in",
        "--rows other",
    ),
    "repeated": (lambda i: f"P{i // 2:03d}", "60 rows and 30 different ids", "must name one row"),
    "missing": (
        lambda i: "" if i < 4 else f"P{i:03d}",
        "4 rows of the release have no id",
        "in every row",
    ),
}


@pytest.mark.parametrize("case", IDS)
def test_ids_that_do_not_join(said, case):
    ids, what, remedy = IDS[case]
    line = said("--id", "person", person=ids)
    assert what in line
    assert remedy in line


def test_columns_that_are_missing_or_renamed_are_suggested(said):
    assert "no column 'persn'" in said("--id", "persn")
    assert "did you mean 'person'?" in said("--id", "persn")
    assert "the release has no column 'person'" in said(
        "--id", "person", but=("person",), human=CLEAN["person"]
    )
    assert "did you mean 'beast'?" in said(secret="beats")
    assert "did you mean 'town'?" in said("--known", "tonw")
    assert "did you mean 'town'?" in said("--groups-of", "twon")
    assert "did you mean 'author'?" in said("--group", "autor", "--posts", "1,2")
    assert "did you mean 'age'?" in said("--utility", "agee")
    assert "must read NEW=OLD" in said("--column", "city")
    assert "did you mean 'city'?" in said(
        "--column", "citty=town", but=("town",), city=CLEAN["town"]
    )
    elsewhere = {"but": ("town",), "towns": CLEAN["town"], "beast": CLEAN["beast"]}
    assert "say --column 'towns=town'" in said("--synthetic", **elsewhere)
    assert "did you mean --release-secret 'beasts'?" in said(
        "--rows", "other", beasts=CLEAN["beast"]
    )


def test_a_release_without_a_column_in_common_is_refused(said):
    others = {
        "but": ("person", "author", "age", "town"),
        "beast": CLEAN["beast"],
        "wage": lambda i: i,
    }
    line = said("--synthetic", **others)
    assert "columns that the reference has not, 1 in all, the first 'wage'" in line
    assert "no column in common" in said("--synthetic", but=others["but"], beast=CLEAN["beast"])


def test_other_rows_without_a_class_of_the_secret_are_refused(said):
    line = said("--rows", "other", beast=lambda i: "ZEBRA")
    assert "has no row of 1 of the 2 classes" in line


def test_numbers_of_posts_need_persons_and_must_be_whole(said):
    assert "--group" in said("--posts", "1,5")
    assert "whole numbers from 1 on" in said("--group", "author", "--posts", "1,few")
    assert "whole numbers from 1 on" in said("--group", "author", "--posts", "0")


def test_contradictory_options_are_refused(said):
    assert "leave it out" in said("--synthetic", "--id", "person", beast=CLEAN["beast"])
    assert "one at a time" in said("--known", "age", "--train", "more.csv")
    assert "'others'" in said("--rows", "others", beast=CLEAN["beast"])
    assert "names the secret" in said("--known", "beast")


COSTS = {
    "guess,ZEBRA\nno,1\n": "costs for 1 classes in its header, 1 of which are among the 2 values",
    "guess,ZEBRA,OKAPI,GNU\nno,1,1,1\n": "costs for 3 classes",
    "guess,ZEBRA,ZEBRA\nno,1,1\n": "1 of which are among the 2",
    "guess,ZEBRA,OKAPI\nno,1\n": "a row of 2 costs for every guess",
    "guess,ZEBRA,OKAPI\n": "a row of 2 costs for every guess",
    "guess,ZEBRA,OKAPI\nno,1,much\n": "costs that are not numbers",
    "guess,ZEBRA,OKAPI\nno,1,-1\n": "not below 0",
    "guess,ZEBRA,OKAPI\nno,1,inf\n": "must be finite",
    "": "costs for 0 classes",
}


@pytest.mark.parametrize("text", COSTS)
def test_costs_of_another_shape(said, tmp_path, text):
    costs = tmp_path / "costs.csv"
    costs.write_text(text)
    assert COSTS[text] in said("--costs", costs)


def test_costs_that_cannot_be_read(said, tmp_path):
    assert "cannot read the costs" in said("--costs", tmp_path / "none.csv")
    (tmp_path / "costs.csv").write_bytes(b"guess,Z\xe9BRA\n")
    assert "cannot read the costs" in said("--costs", tmp_path / "costs.csv")


POLICIES = {
    "secret = [": "is not TOML",
    '[[secret]]\nname = "beast"\nlimits = ["0.05", "0.1bits"]\n': "two limits of one quantity",
    '[[secret]]\nname = "beast"\nlimits = ["40%"]\n': "lies below the blind guess",
    '[[secret]]\nname = "beast"\nlimits = "0.05"\n[[secret]]\nname = "beast"\nlimits = ["0.1"]\n': (
        "limits"
    ),
    '[[secret]]\nname = "beast"\n[[secret]]\nname = "beast"\n': "'beast'",
    '[[secret]]\nname = "town"\nlimits = ["0.05"]\n': "no [[secret]] named 'beast'",
    'minimum_group = 500\n[[secret]]\nname = "beast"\nlimits = ["0.05"]\n': (
        "more than the 60 samples"
    ),
}


@pytest.mark.parametrize("text", POLICIES)
def test_policy_files_that_cannot_be_kept(said, tmp_path, text):
    policy = tmp_path / "lowtide.toml"
    policy.write_text(text)
    line = said("--policy-file", policy)
    assert POLICIES[text] in line
    assert "lowtide.toml" in line


def test_a_policy_file_that_cannot_be_read(said, tmp_path):
    assert "none.toml" in said("--policy-file", tmp_path / "none.toml")
    (tmp_path / "policy.toml").write_bytes(b"\xff\xfe\x00")
    assert "policy.toml" in said("--policy-file", tmp_path / "policy.toml")
    assert "Is a directory; check the path" in said("--policy-file", tmp_path)


def test_rows_without_a_secret_are_left_out_and_counted(lowtide, survey, refused):
    shown = {name: CLEAN[name] for name in ("age", "town")}
    release = survey("shared.csv", **shown)
    gaps = survey("gaps.csv", **shown, beast=lambda i: "" if i < 8 else CLEAN["beast"](i))
    options = ("--secret", "beast", "--attacker", "logistic regression", "--quiet")
    ran = lowtide("audit", release, "--reference", gaps, *options)
    assert ran.code == 0, ran.err
    assert "8 rows" in ran.err
    one = survey("one.csv", **shown, beast=lambda i: "ZEBRA" if i % 2 else "")
    assert "'beast' is the same in every row" in refused(
        "audit", release, "--reference", one, *options
    )
    none = survey("none.csv", **shown, beast=lambda i: "")
    assert "'beast' is missing in every row" in refused(
        "audit", release, "--reference", none, *options
    )
