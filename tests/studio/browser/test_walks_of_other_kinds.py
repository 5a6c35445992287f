"""The whole way through the studio in Chromium: on images, and on texts by keyboard only."""

import pytest

QUICK = 40  # training steps: enough to walk through, not to believe


@pytest.fixture(scope="module")
def studio(open_studio, tmp_path_factory, data):
    """A studio whose project holds some posts."""
    project = tmp_path_factory.mktemp("walks")
    (project / "posts.csv").write_bytes(data.posts())
    return open_studio(project)


def take_in(page, name, content):
    page.locator("input[type=file]").set_input_files(
        {"name": name, "mimeType": "", "buffer": content}
    )
    page.get_by_role("heading", name="What is what?").wait_for()


def be_quick(page):
    page.get_by_text("Settings").click()
    page.get_by_label("Training steps").fill(str(QUICK))


def test_the_walk_on_images(studio, open_tab, check_steps, data):
    with open_tab(studio) as page:
        take_in(page, "faces.zip", data.faces())
        assert page.locator(".thumbs img").count() == 12
        page.get_by_label("Role of label", exact=True).select_option("secret")
        be_quick(page)
        page.get_by_label("Patch size, pixels").fill("4")
        page.get_by_role("button", name="Look for what leaks").click()
        slider = page.get_by_role("slider", name="Size of the patches")
        slider.wait_for()
        fine = page.locator(".population img").get_attribute("alt")
        assert "4×4 pixels" in fine
        slider.press("ArrowRight")
        assert "8 × 8" in page.locator(".said").inner_text()
        assert "8×8 pixels" in page.locator(".population img").get_attribute("alt")
        page.get_by_role("link", name="Choose what to change").click()
        page.get_by_role("button", name="Measure the trade-off").click()
        page.get_by_role("link", name="Release with this plan").wait_for()
        pairs = page.locator(".pairs img")
        assert pairs.count() == 8
        changed = pairs.nth(0).get_attribute("src") != pairs.nth(1).get_attribute("src")
        assert changed  # the addresses themselves are too long to read
        slider = page.get_by_role("slider", name="Drag along the trade-off")
        slider.press("Home")
        if page.get_by_text("This is the plan below.").is_visible():  # which is shown beside it
            slider.press("ArrowRight")
        assert page.locator(".cover").first.locator("rect").count() > 0
        slider.press("End")
        assert (
            page.locator(".cover").first.locator("rect").count() == 0
        )  # nothing is hidden at the useful end
        page.get_by_role("link", name="Release with this plan").click()
        page.get_by_role("button", name="Write the release").click()
        page.get_by_role("link", name="Attack this release").click()
        page.get_by_label("How thoroughly").select_option("quick")
        page.get_by_role("button", name="Attack the release").click()
        page.get_by_role("heading", name="Who is exposed").wait_for()
        assert "An attacker guesses the label right" in page.locator("main").inner_text()
        address = page.url.partition("#")[2]
    check_steps(studio, address, (390, "light"), (1280, "dark"))


def reach(page, name, *, most=150):
    """Press Tab until the focus stands on a control of this name."""
    for _ in range(most):
        page.keyboard.press("Tab")
        here = page.evaluate(
            "(e => !e.matches('a, button, input, select, summary') ? '' :"
            " [e.getAttribute('aria-label'), e.labels && e.labels[0] && e.labels[0].textContent,"
            " e.textContent].find(Boolean) || '')(document.activeElement)"
        )
        if name in here:
            return
    raise AssertionError(f"{name} cannot be reached with the Tab key")


def press(page, name, key="Enter"):
    reach(page, name)
    page.keyboard.press(key)


def test_the_walk_on_texts_by_keyboard_only(studio, open_tab, check_steps):
    with open_tab(studio) as page:
        page.get_by_role("heading", name="Which data do you want to share?").wait_for()
        press(page, "posts.csv")
        page.get_by_role("heading", name="What is what?").wait_for()
        roles = page.locator(".columns select").evaluate_all("all => all.map(one => one.value)")
        assert roles == ["text", "group", "secret"]  # as suggested
        press(page, "Settings")
        reach(page, "Training steps")
        page.keyboard.type(str(QUICK))
        press(page, "Look for what leaks")
        page.locator("mark").first.wait_for()
        assert page.locator("mark").count() > 3
        press(page, "Choose what to change")
        press(page, "Measure the trade-off")
        page.get_by_role("link", name="Release with this plan").wait_for()
        reach(page, "Drag along")
        told = page.locator(".consequence").inner_text()
        page.keyboard.press("End")
        assert page.locator(".consequence").inner_text() != told
        assert page.locator(".quotes del").count() > 0
        press(page, "Release with this plan")
        press(page, "Write the release")
        page.get_by_role("link", name="Attack this release").wait_for()
        press(page, "Attack this release")
        page.get_by_label("How thoroughly").wait_for()
        reach(page, "How thoroughly")
        page.keyboard.press("End")
        press(page, "Attack the release")
        page.get_by_role("heading", name="Who is exposed").wait_for()
        assert "An attacker guesses the home right" in page.locator("main").inner_text()
        address = page.url.partition("#")[2]
        page.get_by_role("link", name="Write", exact=True).press("Enter")
        page.get_by_role("heading", name="What should not be told?").wait_for()
        press(page, "home, from posts.csv")
        write_without_a_request(page)
    check_steps(studio, address, (390, "dark"), (1280, "light"))
    with open_tab(studio) as page:  # the next day, by the address that is printed
        page.get_by_role("link", name="posts.csv: home").click()
        page.get_by_role("heading", name="Who is exposed").wait_for()
        assert page.url.partition("#")[2].count("=") >= 8


def write_without_a_request(page):
    """On the page that warns as one types: words are underlined, and nobody is asked."""
    field = page.get_by_label("Your text")
    field.wait_for()
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    field.press_sequentially("we think the harbour is late, more gulls today")
    page.locator(".lt-mirror mark").first.wait_for()
    assert "harbour" in page.locator(".lt-mirror mark").all_inner_texts()
    assert "A reader would believe coast" in page.locator(".lt-verdict").inner_text()
    page.wait_for_function("() => document.getElementById('check').dataset.wrong === '0'")
    assert asked == []
    page.get_by_role("link", name="Back to the studio").click()
    page.get_by_role("heading", name="What should not be told?").wait_for()
