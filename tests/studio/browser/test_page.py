"""The page of the studio where things are missing, wrong or stopped; no long job is needed for
that.
"""

import io
import zipfile
from concurrent.futures import ThreadPoolExecutor

import pytest


@pytest.fixture(scope="module")
def studio(open_studio, tmp_path_factory):
    return open_studio(tmp_path_factory.mktemp("page"))


@pytest.fixture(scope="module")
def survey(studio, data):
    return studio.file("survey.csv", data.table())


def test_nothing_is_there_yet_and_the_page_says_what_to_do(studio, open_tab):
    with open_tab(studio, address="#step=scan") as page:
        page.get_by_role("heading", name="Nothing has been scanned yet").wait_for()
        page.get_by_role("link", name="Open data").click()
        page.get_by_role("heading", name="Which data do you want to share?").wait_for()
        assert "Drop one above" in page.locator("main").inner_text()
        assert "token" not in page.url  # others may read the address


def test_a_file_that_cannot_be_read_is_refused_beside_the_field(studio, open_tab):
    with open_tab(studio, expected=("422",)) as page:
        page.locator("input[type=file]").set_input_files(
            {"name": "a.exe", "mimeType": "", "buffer": b"MZ"}
        )
        error = page.locator(".form-error")
        error.wait_for()
        assert error.inner_text()
        assert page.evaluate("document.activeElement.className").endswith("form-error")


def test_a_drop_is_taken_in(studio, open_tab):
    with open_tab(studio) as page:
        page.locator(".drop").wait_for()
        page.evaluate(
            "text => { const moved = new DataTransfer(); moved.items.add(new File([text],"
            " 'dropped.csv'));document.querySelector('.drop').dispatchEvent(new DragEvent('drop',"
            " {dataTransfer: moved})); }",
            "a,b\n1,x\n2,y\n3,x\n",
        )
        page.get_by_role("heading", name="dropped.csv").wait_for()


def test_without_a_secret_the_error_stands_at_the_columns(studio, open_tab, survey):
    with open_tab(studio, address=f"#data={survey}") as page:
        page.get_by_role("heading", name="What is what?").wait_for()
        for select in page.locator(".columns select").all():
            select.select_option("")
        page.get_by_role("button", name="Look for what leaks").click()
        assert (
            "Choose which column is the secret"
            in page.locator(".roles .error:visible").inner_text()
        )
        assert page.evaluate("document.activeElement.tagName") == "SELECT"


def test_a_role_that_one_column_can_have_moves(studio, open_tab, survey, data):
    with open_tab(studio, address=f"#data={survey}") as page:
        page.get_by_label("Role of age", exact=True).select_option("utility")
        page.get_by_label("Role of income", exact=True).select_option("utility")
        assert page.get_by_label("Role of age", exact=True).input_value() == ""
        assert page.get_by_label(f"Role of {data.hostile}", exact=True).count() == 1


def test_a_folder_of_texts_is_read_as_texts(studio, open_tab):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for number in range(40):
            archive.writestr(
                f"posts/{('left', 'right')[number % 2]}/{number}.txt", f"text number {number}"
            )
    texts = studio.file("posts.zip", packed.getvalue())
    with open_tab(studio, address=f"#data={texts}") as page:
        page.get_by_text("The first ten rows").click()
        assert page.locator("main thead").last.locator("th").all_inner_texts() == ["label", "text"]
        page.get_by_role("button", name="Look for what leaks").click()
        page.get_by_role("button", name="Cancel").click()
        page.get_by_role("heading", name="Cancelled").wait_for()
        assert studio.client.get("/api/jobs").json()[0]["kind"] == "texts"


def test_a_release_that_somebody_else_made_is_taken_in_and_audited(studio, open_tab, survey, data):
    with open_tab(studio, address=f"#step=audit&data={survey}&secret=vote") as page:
        page.get_by_role("button", name="Attack the release").click()
        assert (
            "Choose the release to attack"
            in page.locator("[data-field=release] .error:visible").inner_text()
        )
        theirs = data.table().replace(b"red", b"").replace(b"blue", b"")
        page.get_by_label("Or somebody else's").set_input_files(
            {"name": "theirs.csv", "mimeType": "", "buffer": theirs}
        )
        page.get_by_role("option", name="theirs.csv").wait_for(state="attached")
        page.get_by_role("button", name="Attack the release").click()
        page.get_by_role("button", name="Cancel").click()
        page.get_by_role("heading", name="Cancelled").wait_for()
        asked = studio.client.get("/api/jobs").json()[0]
        taken = {
            file["id"]: file["name"] for file in studio.client.get("/api/project").json()["files"]
        }
        assert (asked["verb"], taken[asked["request"]["release"]]) == ("audit", "theirs.csv")


def test_several_secrets_can_be_chosen(studio, open_tab, survey):
    with open_tab(studio, address=f"#data={survey}") as page:
        page.get_by_label("Role of vote", exact=True).select_option("secret")
        page.get_by_label("Role of income", exact=True).select_option("secret")
        page.get_by_role("button", name="Look for what leaks").click()
        page.get_by_role("button", name="Cancel").click()
        page.get_by_role("heading", name="Cancelled").wait_for()
        assert studio.client.get("/api/jobs").json()[0]["request"]["secret"] == ["income", "vote"]
        assert "income and vote" in page.locator("main").inner_text()


def test_settings_that_are_refused_are_shown_at_their_field(studio, open_tab, survey):
    with open_tab(studio, address=f"#data={survey}&secret=vote", expected=("422",)) as page:
        page.get_by_text("Settings").click()
        page.get_by_label("Training steps").fill("3")
        page.get_by_role("button", name="Look for what leaks").click()
        page.locator("[data-field=steps] .error:visible").wait_for()
        assert page.get_by_label("Training steps").get_attribute("aria-invalid") == "true"


def test_a_job_can_be_cancelled_and_started_again(studio, open_tab, survey):
    with open_tab(studio, address=f"#data={survey}&secret=vote") as page:
        page.get_by_role("button", name="Look for what leaks").click()
        page.get_by_role("button", name="Cancel").click()
        page.get_by_role("heading", name="Cancelled").wait_for()
        assert next(job["state"] for job in studio.client.get("/api/jobs").json()) == "cancelled"
        page.get_by_role("button", name="Start again").click()
        page.get_by_role("button", name="Cancel").click()
        page.get_by_role("heading", name="Cancelled").wait_for()


def test_a_job_that_fails_says_why(studio, open_tab):
    same = studio.file("same.csv", b"a,b\n" + b"1,x\n" * 30)
    with open_tab(studio, address=f"#data={same}&secret=b") as page:
        page.get_by_role("button", name="Look for what leaks").click()
        page.get_by_role("heading", name="This did not work").wait_for()
        assert "b" in page.locator(".job .error").first.inner_text()
        assert page.get_by_role("button", name="Start again").is_visible()


def test_a_stranger_without_the_token_sees_nothing(studio, chromium):
    context = chromium.new_context()
    answer = context.new_page().goto(studio.address)
    assert answer.status == 401
    context.close()


def test_charts_are_built_anew_without_anything_that_acts(studio, open_tab):
    hostile = (
        "<svg class='chart' onload='alert(1)'"
        " style='color:red'><title>t</title><script>alert(2)</script><a"
        " href='javascript:alert(3)'><text>x</text></a><rect fill='url(https://example.org/x)'"
        " width='3'/><foreignObject><p>p</p></foreignObject><text"
        " x='1'>&lt;script&gt;</text></svg><img src=x onerror=alert(4)>"
    )
    with open_tab(studio, expected=("Content Security Policy",)) as page:
        page.locator(".drop").wait_for()
        built = page.evaluate(
            "async markup => { const { drawing } = await import('/static/dom.js'); const made ="
            " drawing(markup);document.querySelector('main').append(...made); return made.map(one"
            " => one.outerHTML); }",
            hostile,
        )
        assert built == [
            '<svg class="chart"><title>t</title><rect width="3"></rect><text'
            ' x="1">&lt;script&gt;</text></svg>'
        ]


def test_motion_is_left_out_for_who_asks(studio, open_tab):
    with open_tab(studio, reduced_motion="reduce") as page:
        page.locator(".drop").wait_for()
        assert (
            page.locator(".drop").evaluate("one => getComputedStyle(one).transitionDuration")
            == "0s"
        )
    with open_tab(studio) as page:
        page.locator(".drop").wait_for()
        assert (
            page.locator(".drop").evaluate("one => getComputedStyle(one).transitionDuration")
            != "0s"
        )


def test_a_file_that_is_looked_at_twice_at_once_is_described_to_both(studio):
    fresh = studio.file("fresh.csv", b"a,b\n1,x\n2,y\n3,x\n")
    with ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(lambda _: studio.client.get(f"/api/files/{fresh}"), range(3)))
    assert [answer.status_code for answer in answers] == [200, 200, 200]
