"""Warnings at once: the same as the verb's, also for many clients, in memory that stays; and none
of it is kept.
"""

import importlib.util
import sqlite3
from pathlib import Path

import pytest

from lowtide.verbs import warn

CLIENTS = 20
SECONDS = 3.0
SPEC = importlib.util.spec_from_file_location(
    "bench_studio", Path(__file__).parents[2] / "benchmarks/bench_studio.py"
)


@pytest.fixture(scope="module")
def bench():
    module = importlib.util.module_from_spec(SPEC)
    SPEC.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def posts(bench, studio):
    """Posts that a model in the project's folder was fitted on."""
    return bench.make_model(studio.project, steps=40)


def ask(studio, **request):
    return studio.client.post("/api/warn", json={"model": "home.lowtide", **request})


def test_it_answers_as_the_verb_does(studio, posts):
    text = "walked by the harbour before work, gulls everywhere"
    expected = warn(text, studio.project / "home.lowtide").to_json()
    answer = ask(studio, text=text)
    assert answer.status_code == 200, answer.text
    assert answer.json() == expected
    assert expected["words"]
    assert "home.lowtide" in [
        model["id"] for model in studio.client.get("/api/project").json()["models"]
    ]


def test_bad_requests_are_refused_by_their_field_and_the_text_is_not_repeated(studio, posts):
    text = "nobody should read this"
    for request, field in [
        ({"model": "nothing"}, "model"),
        ({"model": "../../home.lowtide"}, "model"),
        ({"model": "/etc"}, "model"),
        ({"budget": "many"}, "budget"),
        ({"budget": "65%"}, "budget"),
        ({"budget": -1}, "budget"),
    ]:
        answer = ask(studio, **{"text": text, **request})
        assert answer.status_code == 422, answer.text
        assert answer.json()["field"] == field
        assert text not in answer.text


def test_texts_are_kept_nowhere(studio, posts):
    ask(studio, text="an unmistakable sentence about zanzibar")
    kept = [path for path in (studio.project / ".lowtide-studio").rglob("*") if path.is_file()]
    assert kept
    assert not [path for path in kept if b"zanzibar" in path.read_bytes()]
    with sqlite3.connect(studio.project / ".lowtide-studio" / "studio.sqlite") as database:
        assert "zanzibar" not in "\n".join(database.iterdump())
    database.close()


def test_many_clients_at_once_are_served_evenly_in_the_same_memory(bench, studio, posts, tmp_path):
    ask(studio, text=posts[0])
    bench.post = lambda _, text: ask(studio, text=text).raise_for_status()
    found = bench.load(studio.address, studio.process.pid, posts, clients=CLIENTS, seconds=SECONDS)
    assert found["errors"] == 0
    assert found["answers"] >= 2 * CLIENTS
    assert found["p99_per_median"] <= 10
    assert found["late_mb"] <= 1.1 * found["early_mb"] + 20
