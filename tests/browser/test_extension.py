"""The extension in a real browser, on a local page: it underlines where that was allowed, and
nowhere else.
"""

import http.server
import json
import shutil
import threading
import time

import pytest

from lowtide.browser.page import manifest, write_extension

PAGE = b"""<!DOCTYPE html><meta charset=utf-8><title>A site</title>
<textarea rows=4 cols=60></textarea><div contenteditable=true style="height:5em">edit</div>"""


@pytest.fixture(scope="module")
def site():
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(PAGE)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_port
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def folder(tmp_path_factory, draw):
    return write_extension(draw(ngrams=2, seed=1), tmp_path_factory.mktemp("extension") / "made")


def drawn(page):
    """The words and lines that are drawn in closed shadow roots, which the site itself cannot
    see.
    """
    session = page.context.new_cdp_session(page)
    found = []

    def walk(node):
        attributes = node.get("attributes") or []
        if node["nodeName"] == "MARK" or any(value.startswith("line") for value in attributes):
            found.append("".join(child.get("nodeValue", "") for child in node.get("children", [])))
        for child in [*node.get("children", []), *node.get("shadowRoots", [])]:
            walk(child)

    walk(session.send("DOM.getDocument", {"depth": -1, "pierce": True})["root"])
    session.detach()
    return found


def typed(page, selector, text):
    page.click(selector)
    page.keyboard.type(text)
    for _ in range(60):
        if drawn(page):
            break
        page.wait_for_timeout(100)
    return drawn(page)


def await_scripts(context):
    """Until the extension has its script for the site that was allowed: pages that are open before
    do not get it.
    """
    worker = context.service_workers[0]
    for _ in range(100):
        if worker.evaluate(
            "async () => (await chrome.scripting.getRegisteredContentScripts()).length"
        ):
            return
        time.sleep(0.1)
    raise AssertionError("no script was registered")


def test_it_asks_for_no_site_beforehand(folder):
    read = json.loads((folder / "manifest.json").read_text())
    assert read == manifest()
    assert "host_permissions" not in read
    assert "content_scripts" not in read
    assert "web_accessible_resources" not in read
    assert set(read["permissions"]) == {"activeTab", "scripting", "storage"}


def test_it_underlines_on_the_site_that_was_allowed_and_on_no_other(
    folder, site, playwright, launching, tmp_path
):
    """No headless browser shows its question about a site: the copy has the answer that the user
    would give.
    """
    browser, flags = launching
    copy = tmp_path / "allowed"
    shutil.copytree(folder, copy)
    allowed = {**manifest(), "host_permissions": ["http://127.0.0.1/*"]}
    (copy / "manifest.json").write_text(json.dumps(allowed))
    context = playwright.chromium.launch_persistent_context(
        str(tmp_path / "profile"),
        executable_path=browser,
        args=[*flags, f"--load-extension={copy}", f"--disable-extensions-except={copy}"],
        ignore_default_args=["--disable-extensions"],
    )
    try:
        if not context.service_workers:
            context.wait_for_event("serviceworker", timeout=20_000)
        await_scripts(context)
        page = context.new_page()
        requests = []
        page.goto(f"http://127.0.0.1:{site}/")
        page.on("request", lambda request: requests.append(request.url))
        text = "women climate church union border tax school act income"
        assert {"climate", "women"} & set(typed(page, "textarea", text))
        assert page.evaluate("document.querySelector('textarea').value") == text
        assert page.evaluate("[...document.querySelectorAll('*')].every((one) => !one.shadowRoot)")
        assert (
            typed(page, "div[contenteditable]", " women climate church union border tax school")
            != []
        )
        assert requests == []
        page.goto(f"http://localhost:{site}/")
        page.click("textarea")
        page.keyboard.type(text)
        page.wait_for_timeout(1000)
        assert drawn(page) == []
    finally:
        context.close()
