"""Jobs that are stopped: cancelled, or killed with the server in the middle of a release."""

import csv
import json
import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from lowtide.disclose.card import ReleaseCard
from lowtide.studio.store import lock_job

ROWS = 400_000


@pytest.fixture
def table(tmp_path):
    """A small table to plan from, and a large one of its layout, which takes seconds to release."""
    rng = np.random.default_rng(0)
    large = tmp_path / "project" / "large.csv"
    large.parent.mkdir()
    vote = rng.integers(0, 2, ROWS)
    town = np.where(rng.random(ROWS) < 0.7, vote, rng.integers(0, 3, ROWS))
    with large.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["person", "town", "age", "vote"])
        rows.writerows(
            zip(
                range(ROWS),
                town.tolist(),
                rng.integers(18, 90, ROWS).tolist(),
                vote.tolist(),
                strict=True,
            )
        )
    lines = large.read_text().splitlines()[:401]
    (large.parent / "small.csv").write_text("\n".join(lines) + "\n")
    return large.parent


def files(studio):
    return {file["name"]: file["id"] for file in studio.client.get("/api/project").json()["files"]}


def processes(folder):
    """Ids of processes that work in the folder of a job."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdecimal() and str(folder).encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def half_way(job):
    told = job["progress"]
    return told is not None and told["what"] == "releasing" and 0 < told["done"] < ROWS


def test_killed_in_the_middle_of_a_release(open_studio, table):
    studio = open_studio(table)
    known = files(studio)
    plan = studio.ask(
        "plan",
        data=known["small.csv"],
        secret=["vote"],
        policy="fixed",
        mechanism="gaussian",
        lam=0.4,
        budget="0.3",
        hide=["town"],
        keep=["age"],
        steps=40,
    )
    assert studio.wait(plan)["state"] == "done"
    release = studio.ask("release", data=known["large.csv"], plan=plan, ids="person")
    waiting = studio.ask("release", data=known["small.csv"], plan=plan, ids="person")
    folder = table / ".lowtide-studio" / "jobs" / release
    studio.wait(release, half_way)
    (worker,) = processes(folder)
    studio.process.send_signal(signal.SIGSTOP)  # so that it does not see its worker die
    os.kill(worker, signal.SIGKILL)
    studio.stop(signal.SIGKILL)
    assert (
        folder / "out.part"
    ).is_dir()  # what a killed process leaves is not under the name of a result
    assert not (folder / "out").exists()

    studio.start()
    job = studio.job(release)
    assert job["state"] == "interrupted"
    assert studio.client.get(f"/api/jobs/{release}/files").status_code == 409
    assert not list(folder.glob("out*"))
    assert not list(table.glob("large-shared*"))
    assert studio.client.post(f"/api/jobs/{release}/resume").status_code == 202
    assert studio.wait(release)["state"] == "done"
    assert studio.wait(waiting)["state"] == "done"
    released = folder / "out" / "large-shared.csv"
    assert ReleaseCard.load(folder / "out" / "large-shared.csv.card.json").matches(released)
    with released.open() as lines:
        assert sum(1 for _ in lines) == ROWS + 1
    assert studio.client.post(f"/api/jobs/{release}/resume").status_code == 409
    cancelled_and_orphaned(studio, table, known)


def cancelled_and_orphaned(studio, table, known):
    """A job is cancelled; another loses its server; neither leaves a process or a file."""
    first = studio.ask("scan", data=known["large.csv"], secret=["vote"])
    second = studio.ask("scan", data=known["small.csv"], secret=["vote"])
    studio.wait(first, lambda job: job["state"] == "running")
    assert studio.client.delete(f"/api/jobs/{second}").json()["state"] == "cancelled"
    assert studio.client.delete(f"/api/jobs/{first}").json()["state"] == "cancelled"
    jobs = table / ".lowtide-studio" / "jobs"
    assert not processes(jobs / first)
    assert not list((jobs / first).glob("out*"))
    assert studio.client.delete(f"/api/jobs/{first}").json()["state"] == "cancelled"

    third = studio.ask("scan", data=known["large.csv"], secret=["vote"])
    studio.wait(third, lambda job: job["state"] == "running" and job["progress"] is not None)
    studio.stop(signal.SIGKILL)
    with lock_job(jobs / third, patience=30) as held:
        assert held, "the process of a job outlives its server"
    end = time.monotonic() + 10
    while processes(jobs / third) and time.monotonic() < end:
        time.sleep(0.1)
    assert not processes(jobs / third)
    assert not (jobs / third / "out").exists()
    studio.start()
    assert studio.job(third)["state"] == "interrupted"
    stream = studio.client.get(f"/api/jobs/{third}/events")
    assert json.loads(stream.text.split("data: ", 1)[1].split("\n")[0])["state"] == "interrupted"
    code, _ = studio.stop()
    assert code == 0
