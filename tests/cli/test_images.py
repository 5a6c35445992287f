"""The verbs on image folders: real files in, real files out, attacked for real."""

import csv
import json
import os
import signal

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from lowtide.cli.main import app
from lowtide.images import attackers
from lowtide.images.writing import ImageWriter

SIDE, COUNT = 24, 200


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def faces(folder, *, suffix="png", seed=0, sizes=None):
    """Grey noise; a bright bar below is the smile, one above the hat."""
    rng = np.random.default_rng([seed, 901])
    folder.mkdir(parents=True)
    rows = []
    for k in range(COUNT):
        smile, hat = rng.integers(0, 2, 2)
        side = SIDE if sizes is None else sizes[k % len(sizes)]
        pixels = rng.integers(60, 120, (side, side, 3)).astype(np.uint8)
        pixels[-6:-2, 6:18] += np.uint8(70 * smile)
        pixels[1:4, 6:18] += np.uint8(70 * hat)
        Image.fromarray(pixels).save(folder / f"{k:03}.{suffix}")
        rows.append({"file_name": f"{k:03}.{suffix}", "smile": "yes" if smile else "no", "hat": int(hat)})
    with (folder / "metadata.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["file_name", "smile", "hat"])
        writer.writeheader()
        writer.writerows(rows)
    return folder


@pytest.fixture(scope="module", autouse=True)
def short_training():
    """Checking networks take 40 steps in place of 200: the smile is in their edges, which need no network."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attackers, "_FEWEST_STEPS", 40)
        yield


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("images")


@pytest.fixture(scope="module")
def folder(place):
    return faces(place / "faces")


@pytest.fixture(scope="module")
def planned(place, folder):
    """Takes more than 10 s: a network attacks every plan that is tried."""
    options = ("--patch", 4, "--attacker-accuracy", 0.65, "--report", place / "plan.html")
    done = run("plan", folder, "--secret", "smile", *options, "--out", place / "plan.lowtide")
    assert done.exit_code == 0, done.output
    return place / "plan.lowtide", done


@pytest.fixture(scope="module")
def released(place, folder, planned):
    done = run("release", folder, "--plan", planned[0], "--out", place / "shared")
    assert done.exit_code == 0, done.output
    return place / "shared"


def test_images_that_the_system_ends_leave_no_folder(place, folder, planned, monkeypatch):
    before, write = sorted(place.iterdir()), ImageWriter.write

    def ended(writer, index, pixels):
        write(writer, index, pixels)
        assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(ImageWriter, "write", ended)
    names = ("--rename", "--mapping", place / "names of nothing.csv")
    done = run("release", folder, "--plan", planned[0], "--out", place / "ended", *names)
    assert done.exit_code == 143
    assert sorted(place.iterdir()) == before


def pixels_of(folder):
    return np.stack([np.asarray(Image.open(folder / f"{k:03}.png")) for k in range(COUNT)])


def test_a_scan_finds_the_mouth(place, folder):
    report, leakage = place / "scan.html", place / "scan.json"
    options = ("--patch", 6, "--steps", 40, "--json", leakage, "--report", report, "--figures", place / "figures")
    done = run("scan", folder, "--secret", "smile", *options)
    assert done.exit_code == 0, done.output
    found = json.loads(leakage.read_text())
    share = np.array(found["order_free_nats"]).reshape(4, 4)
    assert set(np.argsort(share.ravel())[-2:]) == {13, 14}  # the bar lies in the middle of the last row
    assert share[3].sum() > 0.6 * np.abs(share).sum()
    assert found["information_nats"]["low"] > 0.2
    page = report.read_text()
    assert "http" not in page.replace("http://www.w3.org", "")
    assert (place / "figures" / "map.png").is_file()


def test_the_plan_hides_the_mouth_and_little_else(planned):
    hidden = [line for line in planned[1].output.splitlines() if set(line.strip()) <= {"#", "·"} and line.strip()]
    cells = np.array([[line[2 * j] == "#" for j in range(6)] for line in hidden])
    assert cells.shape == (6, 6)
    assert cells[4:, 2:4].any()
    assert not cells[0].all()


def test_shown_patches_are_pixel_exact_and_the_secret_is_not_in_the_release(folder, released):
    before, after = pixels_of(folder), pixels_of(released)
    same = (before == after).all(axis=(0, 3))
    assert same.any()
    assert not same[-6:-2, 6:18].all()
    assert not same.all()
    header = (released / "metadata.csv").read_text().splitlines()[0]
    assert header == "file_name,hat"
    assert (released.parent / "shared.card.json").is_file()
    assert (released.parent / "shared.card.md").is_file()


def test_file_names_that_reveal_the_secret_are_noted_at_release(place, folder, planned):
    leakage = place / "told"
    leakage.mkdir()
    with (folder / "metadata.csv").open() as file:
        rows = sorted(csv.DictReader(file), key=lambda row: row["smile"])
    lines = ["file_name,smile"]
    for number, row in enumerate(rows):
        (leakage / f"{number:03}.png").write_bytes((folder / row["file_name"]).read_bytes())
        lines.append(f"{number:03}.png,{row['smile']}")
    (leakage / "metadata.csv").write_text("\n".join(lines) + "\n")
    done = run("release", leakage, "--plan", planned[0], "--out", place / "told_shared")
    assert done.exit_code == 0, done.output
    assert "names of the images tell the secret" in " ".join(done.output.split())
    quiet = run("release", folder, "--plan", planned[0], "--out", place / "untold_shared")
    assert "tell the secret" not in quiet.output


def test_an_audit_reads_the_smile_in_the_clean_images_and_hardly_in_the_release(place, folder, released):
    report, leakage = place / "audit.html", place / "audit.json"
    options = ("--reference", folder, "--secret", "smile", "--utility", "hat", "--json", leakage, "--report", report)
    who = ("--attacker", "edges")
    done = run("audit", released, *options, *who, "--plan", place / "plan.lowtide", "--fail-above", "0.3")
    assert done.exit_code == 0, done.output
    found = json.loads(leakage.read_text())
    attacks = {
        (one["trained_on"], one["target"], one["attacker"]): one["accuracy"]["value"] for one in found["attacks"]
    }
    clean = max(value for (learnt, target, _), value in attacks.items() if (learnt, target) == ("clean", "clean"))
    left = max(value for (learnt, target, _), value in attacks.items() if (learnt, target) == ("release", "release"))
    assert clean > 0.95
    assert left < 0.75
    assert 0 < found["change"]["share"] < 1
    assert max(one["auc"]["value"] for one in found["utility"]["release"]) > 0.9
    assert done.output.count("pixels changed") == 1


def test_a_release_that_keeps_the_secret_is_refused(folder):
    done = run("audit", folder, "--reference", folder, "--secret", "smile")
    assert done.exit_code == 2
    assert "still holds the secret 'smile'" in done.output


def test_folders_named_after_the_secret_are_renamed_and_paired_again(place, folder, planned):
    by_class = place / "classes"
    with (folder / "metadata.csv").open() as file:
        for row in csv.DictReader(file):
            (by_class / row["smile"]).mkdir(parents=True, exist_ok=True)
            (by_class / row["smile"] / row["file_name"]).write_bytes((folder / row["file_name"]).read_bytes())
    plan, shared, names = place / "classes.lowtide", place / "classes_shared", place / "names.csv"
    made = run("plan", by_class, "--secret", "label", "--kept", 0.5, "--patch", 8, "--out", plan)
    assert made.exit_code == 0, made.output
    refused = run("release", by_class, "--plan", plan, "--out", shared)
    assert refused.exit_code == 2
    assert not shared.exists()
    done = run("release", by_class, "--plan", plan, "--out", shared, "--mapping", names)
    assert done.exit_code == 0, done.output
    assert not (shared / "yes").exists()
    assert "yes/" in names.read_text()


BAD = {
    "a patch too large": (("--patch", 99), "larger than the image"),
    "a wrong name": (("--secret", "smil"), "smile"),
    "a strange size": (("--resize", "big"), "WIDTHxHEIGHT"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_options_end_in_one_line(folder, case):
    options, message = BAD[case]
    secret = () if "--secret" in options else ("--secret", "smile")
    done = run("scan", folder, *secret, *options)
    assert done.exit_code == 2
    assert message in done.output
    assert "Traceback" not in done.output


def test_mixed_sizes_are_named_and_can_be_resized(tmp_path):
    mixed = faces(tmp_path / "mixed", sizes=(24, 30), seed=3)
    done = run("scan", mixed, "--secret", "smile", "--patch", 6)
    assert done.exit_code == 2
    assert "24×24" in done.output
    assert "--resize" in done.output


def test_a_column_name_is_refused_where_patches_are_expected(folder, tmp_path):
    done = run("plan", folder, "--secret", "smile", "--keep", "hat", "--out", tmp_path / "plan")
    assert done.exit_code == 2
    assert "numbers of patches or boxes" in done.output
