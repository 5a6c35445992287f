"""The client of the docs works as it stands, and the page on the studio names every route and
option.
"""

import re
from pathlib import Path

from typer.testing import CliRunner

from lowtide.cli.main import app
from lowtide.disclose.card import ReleaseCard

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "studio.md").read_text()
CLIENT = DOCS / "howto" / "use-rest.md"


def test_the_client_of_the_docs_plans_and_releases(studio, tmp_path, monkeypatch):
    (block,) = re.findall(r"^```py\n(.*?)^```", CLIENT.read_text(), re.DOTALL | re.MULTILINE)
    rows = "".join(
        f"{i},{(i // 2 * 7) % 50},{i % 2},{i % 2 if i % 5 else 1 - i % 2}\n" for i in range(300)
    )
    (tmp_path / "survey.csv").write_text(f"person,age,vote,town\n{rows}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOWTIDE_STUDIO", f"{studio.address}/?token={studio.token}")
    told = {}
    exec(compile(block.replace("budget=0.05", "budget=0.05, steps=40"), str(CLIENT), "exec"), told)  # noqa: S102
    told["studio"].close()
    assert b"vote" not in told["shared"].split(b"\n")[0]
    card = ReleaseCard.from_json(studio.client.get(f"/api/jobs/{told['release']}/result").json())
    assert card.rows == 300
    assert "town" in {one.name for one in card.features if one.hidden}


def test_every_route_and_option_is_described(studio):
    for path in studio.client.get("/api/openapi.json").json()["paths"]:
        last = re.sub(r"\{[^}]*\}", "", path).rstrip("/").rsplit("/", 1)[-1]
        assert last in PAGE, path
    told = CliRunner().invoke(app, ["studio", "--help"], env={"COLUMNS": "200"}).stdout
    for option in set(re.findall(r"--[a-z-]+", told)) - {"--help"}:
        assert option in PAGE, option
    assert told.count("Example: lowtide studio") == 3
