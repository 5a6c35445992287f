"""The commands on URLs: DATA, RELEASE and --reference are read from them, and nothing is written to
one.
"""

import pytest

pytest.importorskip("fsspec")


@pytest.fixture
def far(home, serve):
    """The survey's folder, as one with a password sees it."""
    with serve(home.folder) as (address, _):
        yield f"http://ann:pw@{address.removeprefix('http://')}"


def test_release_and_audit_of_urls(far, home, lowtide, tmp_path):
    out = tmp_path / "shared.csv"
    ran = lowtide(
        "release", f"{far}/survey.csv?sig=abc", "--plan", home.plan, "--out", out, "--json", "-"
    )
    assert ran.code == 0
    assert out.read_bytes() == home.shared.read_bytes()
    options = ("--secret", "beast", "--attacker", "logistic regression", "--quiet")
    report = tmp_path / "report.html"
    audited = lowtide(
        "audit",
        f"{far}/shared.csv",
        "--reference",
        f"{far}/survey.csv",
        "--report",
        report,
        *options,
    )
    assert audited.code == 0
    written = [path.read_text() for path in tmp_path.rglob("*") if path.is_file()]
    for text in (*ran, *audited, *written):
        assert "ann:pw" not in str(text)
        assert "sig=abc" not in str(text)
    assert "shared.csv: what it still tells" in report.read_text()


@pytest.mark.parametrize("flag", ["--out", "--json"])
def test_nothing_is_written_to_a_url(flag, home, refused):
    out = () if flag == "--out" else ("--out", "shared.csv")
    line = refused(
        "release", home.survey, "--plan", home.plan, *out, flag, "s3://bucket/shared.csv"
    )
    assert f"{flag} is a URL (s3://…), and results are written to paths only; give a path" in line


def test_what_is_wrong_is_one_line(far, home, refused):
    assert "there is no file http://127.0.0.1" in refused(
        "scan", f"{far}/none.csv", "--secret", "beast"
    )
    assert "host can be reached" in refused("plan", "http://127.0.0.1:1/x.csv", "--secret", "beast")
    assert "nope:// is not a protocol" in refused(
        "scan", "nope://bucket/x.csv", "--secret", "beast"
    )
    assert "matches no files" in refused("scan", f"{far}/*.parquet", "--secret", "beast")
    audit = ("audit", home.shared, "--secret", "beast", "--reference")
    assert "there is no file http://127.0.0.1" in refused(*audit, f"{far}/none.csv")
