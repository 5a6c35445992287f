"""Requests made from the OpenAPI schema, good ones and bad ones: the service never faults."""

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode

EXAMPLES = 8
# A stream of all jobs never ends; what a demo makes is tested elsewhere.
LEFT_OUT = {("get", "/api/events")}


@pytest.fixture(scope="module")
def schema(studio):
    return schemathesis.openapi.from_dict(studio.client.get("/api/openapi.json").json())


def test_no_request_makes_the_service_fault(studio, schema):
    """Every second request is about a file that is there; no such request names its columns, so
    that no job starts.
    """
    identity = studio.file("fuzz.csv", b"first column,second column\n" + b"1,0\n2,1\n" * 20)
    statuses = set()
    seen = set()

    def ask(case):
        if isinstance(case.body, dict) and "data" in case.body and len(seen) % 2:
            case.body["data"] = identity
        headers = {"Authorization": f"Bearer {studio.token}"}
        answer = case.call(base_url=studio.address, headers=headers, timeout=60)
        case.validate_response(answer, checks=(not_a_server_error,))
        statuses.add(answer.status_code)
        seen.add((case.method, case.path, len(seen)))

    bounded = settings(
        max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )
    asked = 0
    for result in schema.get_all_operations():
        operation = result.ok()
        if (operation.method.lower(), operation.path) in LEFT_OUT:
            continue
        modes = (
            [GenerationMode.POSITIVE, GenerationMode.NEGATIVE]
            if operation.body
            else [GenerationMode.POSITIVE]
        )
        for mode in modes:
            bounded(given(case=operation.as_strategy(generation_mode=mode))(ask))()
        asked += 1
    assert asked >= 18
    assert {200, 404, 422} <= statuses
    assert not [
        job
        for job in studio.client.get("/api/jobs").json()
        if job["request"].get("data") == identity
    ]


def test_the_schema_names_every_route_of_the_contract(studio):
    paths = studio.client.get("/api/openapi.json").json()["paths"]
    wanted = {
        "/health",
        "/api/project",
        "/api/files",
        "/api/files/{file}",
        "/api/demos/{demo}",
        "/api/warn",
        "/api/jobs",
    }
    wanted |= {
        "/api/scan",
        "/api/plan",
        "/api/release",
        "/api/audit",
        "/api/jobs/{job}",
        "/api/jobs/{job}/resume",
    }
    wanted |= {
        f"/api/jobs/{{job}}/{name}"
        for name in ("events", "result", "view", "files", "script", "review")
    }
    assert wanted <= set(paths)
