"""Jobs: the whole way of a table, what goes wrong on it, and the script that does the same."""

import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from lowtide.disclose.card import ReleaseCard

HIDDEN = ["party", "own_place", "clinton_place", "dole_place"]
PLAN = {
    "secret": ["vote"],
    "policy": "fixed",
    "mechanism": "gaussian",
    "lam": 0.4,
    "budget": "0.2",
    "keep": ["age", "educ", "popul", "tv_news", "income"],
    "hide": HIDDEN,
    "steps": 40,
}


@pytest.fixture(scope="module")
def walk(studio):
    """The jobs of the whole way on the demo's survey, by verb, and the events that the plan
    sent.
    """
    data = studio.client.post("/api/demos/election").json()
    plan = studio.ask("plan", data=data["id"], **PLAN)
    with studio.client.stream("GET", f"/api/jobs/{plan}/events", timeout=400) as stream:
        lines = [line for line in stream.iter_lines() if line.startswith("data: ")]
    events = [json.loads(line.removeprefix("data: ")) for line in lines]
    release = studio.ask("release", data=data["id"], plan=plan, ids="person")
    studio.wait(release)
    audit = studio.ask(
        "audit",
        release=release,
        data=data["id"],
        secret=["vote"],
        utility="income",
        attackers=["logistic regression"],
    )
    studio.wait(audit)
    return {"data": data, "plan": plan, "release": release, "audit": audit, "events": events}


def fetch(studio, job, name):
    answer = studio.client.get(f"/api/jobs/{job}/files/{name}")
    assert answer.status_code == 200, answer.text
    return answer


def names(studio, job):
    return {one["name"]: one["what"] for one in studio.client.get(f"/api/jobs/{job}/files").json()}


def test_all_of_them_come_to_their_end(studio, walk):
    for verb in ("plan", "release", "audit"):
        job = studio.job(walk[verb])
        assert (job["state"], job["error"], job["verb"]) == ("done", None, verb), job
        assert job["created"] <= job["started"] <= job["ended"]
    assert walk["release"] in [job["id"] for job in studio.client.get("/api/jobs").json()]


def test_events_tell_how_far_a_job_is_and_end_with_it(walk):
    told = [event["progress"] for event in walk["events"] if event["progress"]]
    # A slow listener is told the newest state only, so that the bar of one step may pass unseen.
    assert any(one["what"] and 0 < one["done"] <= one["total"] for one in told)
    assert [event["state"] for event in walk["events"]][-1] == "done"


def test_what_a_job_wrote_can_be_fetched_and_nothing_else(studio, walk):
    assert names(studio, walk["plan"]) == {
        "plan.json": "plan",
        "report.html": "report",
        "result.json": "result",
    }
    shared = names(studio, walk["release"])
    assert shared["survey-shared.csv"] == "data"
    assert shared["survey-shared.csv.card.json"] == "card"
    head = fetch(studio, walk["release"], "survey-shared.csv").text.split("\n", 1)[0].split(",")
    assert "vote" not in head
    assert "age" in head
    for name in (
        "../request.json",
        "..%2frequest.json",
        "view.json",
        "%2e%2e/stderr.txt",
        "nothing",
    ):
        assert studio.client.get(f"/api/jobs/{walk['release']}/files/{name}").status_code == 404, (
            name
        )


def test_results_and_views_are_those_of_the_verbs(studio, walk):
    for verb in ("plan", "release", "audit"):
        result = studio.client.get(f"/api/jobs/{walk[verb]}/result").json()
        assert result
        view = studio.client.get(f"/api/jobs/{walk[verb]}/view").json()
        assert view["title"]
        assert str(studio.project) not in json.dumps(view)
    card = json.loads(fetch(studio, walk["release"], "survey-shared.csv.card.json").content)
    assert card == studio.client.get(f"/api/jobs/{walk['release']}/result").json()
    hidden = {feature["name"] for feature in card["features"] if feature["hidden"] > 0}
    assert hidden == set(HIDDEN)


def test_a_report_is_shown_without_scripts_and_as_nobodys_page(studio, walk):
    path = f"/api/jobs/{walk['plan']}/files/report.html"
    shown = studio.client.get(path, params={"view": "true"})
    policy = shown.headers["content-security-policy"]
    assert shown.headers["content-type"].startswith("text/html")
    assert policy.startswith("sandbox; default-src 'none'")
    assert "allow-scripts" not in policy
    assert "script-src" not in policy
    given = studio.client.get(path)
    assert given.headers["content-disposition"].startswith("attachment")
    assert given.headers["content-security-policy"].startswith("sandbox")


def test_the_card_takes_a_reviewers_decision(studio, walk):
    asked = {
        "name": "Ada Lovelace",
        "decision": "approve with changes",
        "comment": "towns are small",
    }
    answer = studio.client.post(
        f"/api/jobs/{walk['audit']}/review", json={**asked, "until": "2999-12-31"}
    )
    assert answer.status_code == 200, answer.text
    decided = answer.json()["decisions"][-1]
    assert (decided["name"], decided["decision"]) == ("Ada Lovelace", "approve-with-changes")
    card = ReleaseCard.from_json(
        json.loads(fetch(studio, walk["release"], "survey-shared.csv.card.json").content)
    )
    assert card.edited_since is None
    assert len(card.decisions) == 1
    assert studio.client.post(f"/api/jobs/{walk['plan']}/review", json=asked).status_code == 409
    bad = studio.client.post(
        f"/api/jobs/{walk['release']}/review", json={**asked, "until": "tomorrow"}
    )
    assert bad.status_code == 422


def test_the_shell_script_gives_the_same_release(studio, walk, tmp_path):
    script = studio.client.get(f"/api/jobs/{walk['release']}/script").json()
    compile(script["python"], "script", "exec")
    place = tmp_path / "bin"
    place.mkdir()
    (place / "lowtide").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m lowtide "$@"\n')
    (place / "lowtide").chmod(0o755)
    env = {**os.environ, "PATH": f"{place}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    ran = subprocess.run(  # noqa: S603 - what we wrote ourselves
        ["/bin/sh", "-c", script["shell"]],
        cwd=studio.project,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    made = (studio.project / "survey-shared.csv").read_bytes()
    assert made == fetch(studio, walk["release"], "survey-shared.csv").content
    whole = studio.client.get(f"/api/jobs/{walk['audit']}/script").json()["shell"]
    assert [line.split()[1] for line in whole.splitlines() if line.startswith("lowtide")] == [
        "plan",
        "release",
        "audit",
    ]


def test_an_error_of_a_job_says_what_is_wrong_and_quotes_no_data_or_path(studio):
    rows = b"".join(b"SECRETVALUE,%d\n" % i for i in range(40))
    identity = studio.file("one class.csv", b"vote,x\n" + rows)
    job = studio.wait(studio.ask("scan", data=identity, secret=["vote"]))
    assert job["state"] == "failed"
    assert job["error"]["status"] == 422
    assert "vote" in job["error"]["detail"]
    assert "SECRETVALUE" not in json.dumps(job)
    assert str(studio.project) not in json.dumps(job["error"])
    assert studio.client.get(f"/api/jobs/{job['id']}/result").status_code == 409


def test_a_plan_that_draws_is_released_without_a_column_of_ids(studio, walk):
    release = studio.ask("release", data=walk["data"]["id"], plan=walk["plan"])
    assert studio.wait(release)["state"] == "done"
    again = studio.ask("release", data=walk["data"]["id"], plan=walk["plan"])
    assert studio.wait(again)["state"] == "done"
    first, second = (fetch(studio, job, "survey-shared.csv").content for job in (release, again))
    assert first == second
    assert (
        first != fetch(studio, walk["release"], "survey-shared.csv").content
    )  # drawn by the ids of its rows


def test_a_limit_that_redraw_does_not_take_ends_before_the_work_and_names_the_choice(studio):
    data = studio.client.post("/api/demos/election").json()
    asked = studio.ask("plan", data=data["id"], secret=["vote"], budget="75%")
    job = studio.wait(asked, seconds=120)
    assert (job["state"], job["error"]["status"]) == ("failed", 422), job
    assert "choose policy='fixed'" in job["error"]["detail"]
    assert "leave the limit out to redraw" in job["error"]["detail"]


def test_a_folder_is_fetched_as_a_zip(studio, walk, tmp_path):
    """A plan with weights is a folder: here one that stands for it."""
    out = Path(studio.project) / ".lowtide-studio" / "jobs" / walk["plan"] / "out"
    (out / "model.lowtide").mkdir()
    (out / "model.lowtide" / "config.json").write_text("{}")
    with zipfile.ZipFile(
        io.BytesIO(fetch(studio, walk["plan"], "model.lowtide.zip").content)
    ) as archive:
        assert "model.lowtide/config.json" in archive.namelist()
    assert "model.lowtide.zip" in names(studio, walk["plan"])
    (out / "model.lowtide" / "config.json").unlink()
    (out / "model.lowtide").rmdir()


def test_the_server_itself_stays_light(studio, walk):
    assert studio.client.get("/api/project").json()["torch"] is False
