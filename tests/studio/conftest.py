"""A real studio in a process of its own, and its client."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

TOKEN = "a-token-for-tests-only-0123"
ENDED = ("done", "failed", "cancelled", "interrupted")


class Studio:
    """A studio that runs; `client` carries the token."""

    def __init__(self, project, *arguments, token=TOKEN, env=None):
        self.project = Path(project)
        self.token = token
        self._command = [
            sys.executable,
            "-m",
            "lowtide",
            "studio",
            str(project),
            "--no-browser",
            "--port",
            "0",
        ]
        self._command += ["--token", token, *arguments]
        self._env = {**os.environ, "OMP_NUM_THREADS": "1", **(env or {})}
        self.start()

    def start(self):
        self.process = subprocess.Popen(  # noqa: S603 - our own program
            self._command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self._env,
        )
        line = self.process.stdout.readline()
        found = re.match(r"studio: (http://\S+:(\d+))/\?token=(\S+)", line)
        assert found, line + self.process.stdout.read()
        self.address = found[1]
        self.port = int(found[2])
        headers = {"Authorization": f"Bearer {self.token}"}
        self.client = httpx.Client(base_url=self.address, headers=headers, timeout=120)
        until = time.monotonic() + 60
        while time.monotonic() < until:
            try:
                self.client.get("/health")
                return
            except httpx.TransportError:
                time.sleep(0.1)
        raise AssertionError("the studio does not answer")

    def stop(self, number=signal.SIGINT):
        """End it by a signal; its exit code and what it printed."""
        self.client.close()
        self.process.send_signal(number)
        out, _ = self.process.communicate(timeout=60)
        return self.process.returncode, out

    def upload(self, name, content):
        return self.client.post("/api/files", files={"file": (name, content)})

    def file(self, name, content):
        """The id of a file that was taken in."""
        answer = self.upload(name, content)
        assert answer.status_code == 201, answer.text
        return answer.json()["id"]

    def ask(self, verb, **request):
        """Queue a job; its id."""
        answer = self.client.post(f"/api/{verb}", json=request)
        assert answer.status_code == 202, answer.text
        return answer.json()["id"]

    def job(self, identity):
        return self.client.get(f"/api/jobs/{identity}").json()

    def wait(self, identity, until=lambda job: job["state"] in ENDED, seconds=400):
        """A job, once it is as far."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            job = self.job(identity)
            if until(job):
                return job
            assert job["state"] not in ENDED, job
            time.sleep(0.1)
        raise AssertionError(f"the job is still {job}")


@pytest.fixture(scope="session")
def open_studio():
    """Open a studio in a folder; all of them are ended at the end."""
    opened = []

    def start(project, *arguments, **options):
        opened.append(Studio(project, *arguments, **options))
        return opened[-1]

    yield start
    for studio in opened:
        studio.client.close()
        if studio.process.poll() is None:
            studio.process.kill()
            studio.process.communicate(timeout=30)


@pytest.fixture(scope="session")
def studio(open_studio, tmp_path_factory):
    """A studio that most tests share."""
    return open_studio(tmp_path_factory.mktemp("project"))
