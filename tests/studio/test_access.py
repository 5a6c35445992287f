"""Who may ask: the token, names in Host and Origin, and headers of every answer."""

import contextlib
import http.client
import os
import re
import signal
import subprocess
import sys

import httpx
import pytest

from lowtide.errors import LowtideError
from lowtide.studio.security import Access, host_name
from lowtide.studio.serving import Serving, bind, check_exposure


def ask(studio, path="/api/project", method="GET", **headers):
    """A request with just these headers; status, headers and body of the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", studio.port, timeout=30)
    with contextlib.closing(connection):
        return _asked(connection, method, path, headers)


def _asked(connection, method, path, headers):
    connection.putrequest(method, path, skip_host="Host" in headers)
    for name, value in {"Content-Length": "0", **headers}.items():
        connection.putheader(name.replace("_", "-"), value)
    connection.endheaders()
    answer = connection.getresponse()
    return (
        answer.status,
        {name.lower(): value for name, value in answer.getheaders()},
        answer.read().decode(),
    )


def bearer(studio):
    return {"Authorization": f"Bearer {studio.token}"}


def test_health_alone_needs_no_token(studio):
    assert ask(studio, "/health")[0] == 200
    for path in (
        "/",
        "/static/main.js",
        "/api/project",
        "/api/jobs",
        "/api/openapi.json",
        "/write",
    ):
        status, _, body = ask(studio, path)
        assert status == 401, path
        assert studio.token not in body


@pytest.mark.parametrize(
    "given",
    [
        "",
        "Bearer",
        "Bearer x",
        "Basic {}",
        "Bearer {}x",
        "Bearer " + "é" * 9,
        "Bearer {}, Bearer {}",
    ],
)
def test_a_wrong_token_is_refused(studio, given):
    value = given.format(studio.token, studio.token).encode("latin-1")
    assert ask(studio, Authorization=value)[0] == 401
    assert ask(studio, **bearer(studio))[0] == 200


def test_the_address_sets_a_cookie_that_scripts_and_other_sites_do_not_get(studio):
    status, headers, _ = ask(studio, f"/?token={studio.token}")
    assert status == 200
    cookie = headers["set-cookie"]
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))
    assert ask(studio, Cookie=cookie.split(";")[0])[0] == 200
    assert ask(studio, Cookie=cookie.split(";")[0].replace(studio.token, "x" * 20))[0] == 401
    assert ask(studio, "/?token=wrong")[0] == 401
    assert ask(studio, f"/?token={studio.token}&token=x")[0] == 401


def test_the_token_in_an_address_opens_the_page_and_nothing_else(studio):
    assert ask(studio, f"/api/project?token={studio.token}")[0] == 401
    assert ask(studio, f"/?token={studio.token}", method="POST")[0] == 401


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8642", "localhost.evil.example", "10.0.0.7", "", "a b"]
)
def test_dns_rebinding_is_refused_by_the_name_in_host(studio, host):
    assert ask(studio, "/health", Host=host)[0] in (400, 403)
    assert ask(studio, Host=host, **bearer(studio))[0] in (400, 403)


def test_names_of_this_machine_are_known(studio):
    for host in (
        f"localhost:{studio.port}",
        f"127.0.0.1:{studio.port}",
        f"[::1]:{studio.port}",
        "LOCALHOST",
    ):
        assert ask(studio, Host=host, **bearer(studio))[0] == 200
    assert host_name("[::1]:80") == "::1"
    assert host_name("[") is None


def test_posts_of_other_sites_are_refused_even_with_the_cookie(studio):
    cookie = {"Cookie": f"lowtide-{studio.port}={studio.token}"}
    ours = f"http://127.0.0.1:{studio.port}"
    path = "/api/jobs/0123456789abcdef/resume"
    for origin in (
        "https://evil.example",
        "null",
        f"http://127.0.0.1:{studio.port + 1}",
        "",
        "file://",
    ):
        assert ask(studio, path, "POST", Origin=origin, **cookie)[0] == 403, origin
    assert ask(studio, path, "POST", **cookie)[0] == 403
    assert ask(studio, path, "POST", Sec_Fetch_Site="cross-site", **cookie)[0] == 403
    assert ask(studio, path, "POST", Sec_Fetch_Site="same-site", **cookie)[0] == 403
    assert (
        ask(studio, path, "POST", Origin=ours, **cookie)[0] == 404
    )  # let in, and there is no such job


def test_other_sites_cannot_embed_what_the_api_gives(studio):
    cookie = {"Cookie": f"lowtide-{studio.port}={studio.token}"}
    assert ask(studio, Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="no-cors", **cookie)[0] == 403
    assert ask(studio, Sec_Fetch_Site="same-origin", Sec_Fetch_Mode="cors", **cookie)[0] == 200
    assert ask(studio, **cookie)[1]["cross-origin-resource-policy"] == "same-origin"


def test_every_answer_carries_the_headers_that_protect_it(studio):
    for path in (
        "/",
        "/api/project",
        "/api/jobs/nothing",
        "/static/nothing.js",
        "/static/../../store.py",
    ):
        for headers in (bearer(studio), {}):
            _, answered, _ = ask(studio, path, **headers)
            policy = answered["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert answered["x-content-type-options"] == "nosniff"
            assert answered["referrer-policy"] == "no-referrer"
            assert "server" not in answered


def test_what_is_typed_can_go_nowhere_by_the_policy_of_its_page(studio):
    policy = ask(studio, "/write", **bearer(studio))[1]["content-security-policy"]
    assert "connect-src 'none'" in policy


@pytest.mark.parametrize(
    "path", ["/static/../security.py", "/static/%2e%2e/security.py", "/static/..%2fsecurity.py"]
)
def test_static_files_stay_in_their_folder(studio, path):
    status, _, body = ask(studio, path, **bearer(studio))
    assert status == 404
    assert "Guard" not in body


def test_web_sockets_are_not_answered(studio):
    upgrade = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec_WebSocket_Version": "13"}
    try:
        status = ask(
            studio, "/api/events", Sec_WebSocket_Key="AAAAAAAAAAAAAAAAAAAAAA==", **upgrade
        )[0]
    except (http.client.HTTPException, OSError):
        return
    assert status in (400, 401, 403, 404, 426, 500)


def test_only_loopback_is_bound_unless_the_owner_says_otherwise_twice():
    token = "t" * 20
    for host in ("0.0.0.0", "::", "192.168.1.7", "example.org"):  # noqa: S104 - refused
        for given in ({}, {"token": token}, {"expose": True}):
            with pytest.raises(LowtideError, match="--expose and --token"):
                check_exposure(Serving(".", host, **given))
        check_exposure(Serving(".", host, token=token, expose=True))
    for host in ("127.0.0.1", "localhost", "::1", "127.9.9.9"):
        check_exposure(Serving(".", host))


@pytest.mark.parametrize(
    "token", ["short", "", "with space in the token", "ümlaut-in-the-token", "a;b" * 9]
)
def test_a_chosen_token_is_long_and_fits_a_cookie(token):
    with pytest.raises(LowtideError, match="--token must have"):
        check_exposure(Serving(".", token=token))


def test_an_exposed_studio_knows_its_names_and_addresses():
    access = Access("t" * 20, hosts=("studio.example.org",), addresses=True)
    assert access.knows_host("studio.example.org:443")
    assert access.knows_host("192.168.1.7:8642")
    assert not access.knows_host("evil.example")
    assert not Access("t" * 20).knows_host("192.168.1.7:8642")


def test_a_port_that_is_taken_is_refused_and_the_default_picks_another(tmp_path):
    with bind("127.0.0.1", None) as first, bind("127.0.0.1", None) as second:
        assert first.getsockname()[1] != second.getsockname()[1]
        taken = second.getsockname()[1]
        with pytest.raises(
            LowtideError,
            match=rf"cannot listen at 127\.0\.0\.1, port {taken}: .* give another --port",
        ):
            bind("127.0.0.1", taken)
    with pytest.raises(LowtideError, match="not a port"):
        bind("127.0.0.1", 99999)
    with bind("127.0.0.1", 0) as free:
        assert free.getsockname()[1] > 0


def test_without_the_extra_the_command_says_what_to_install(tmp_path):
    (tmp_path / "fastapi.py").write_text("raise ImportError('no fastapi here')")
    ran = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-m", "lowtide", "studio", str(tmp_path), "--no-browser"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PYTHONPATH": f"{tmp_path}:{':'.join(sys.path)}", "PATH": ""},
    )
    assert ran.returncode == 2
    assert re.search(
        r'error: the studio needs FastAPI and uvicorn.*pip install "lowtide\[studio\]"', ran.stderr
    )


def test_the_token_may_come_from_the_environment_where_no_list_of_processes_shows_it(tmp_path):
    command = [
        sys.executable,
        "-m",
        "lowtide",
        "studio",
        str(tmp_path),
        "--no-browser",
        "--port",
        "0",
    ]
    env = {**os.environ, "LOWTIDE_TOKEN": "from-the-environment-0123"}
    # Our own program.
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as studio:  # noqa: S603
        assert studio.stdout.readline().endswith("/?token=from-the-environment-0123\n")
        studio.send_signal(signal.SIGINT)
    without = {name: value for name, value in env.items() if name != "LOWTIDE_TOKEN"}
    exposed = [*command, "--host", "0.0.0.0", "--expose"]  # noqa: S104 - refused
    ran = subprocess.run(  # noqa: S603
        exposed, env=without, capture_output=True, text=True, check=False, timeout=60
    )
    assert (ran.returncode, "LOWTIDE_TOKEN" in ran.stderr) == (2, True)


def test_ctrl_c_ends_it_cleanly_also_while_a_page_listens(open_studio, tmp_path):
    opened = open_studio(tmp_path)
    with httpx.stream(
        "GET", f"{opened.address}/api/events", headers=bearer(opened), timeout=30
    ) as stream:
        assert stream.status_code == 200
        code, out = opened.stop()
    assert code == 0, out
    assert out.splitlines()[-1] == "the studio has ended; jobs that ran can be resumed"
    assert "Traceback" not in out
