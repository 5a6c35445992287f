"""The verbs on image folders: real files in, real files out, attacked for real."""

import csv
import json
import os
import shutil
import signal
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from lowtide import LowtideError, Plan, release
from lowtide.cli.main import app
from lowtide.images import networks
from lowtide.images.dataset import open_dataset, open_images
from lowtide.images.options import ImageOptions
from lowtide.images.writing import ImageWriter

SIDE = 24
COUNT = 200


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
        labels = {
            "smile": "yes" if smile else "no",
            "hat": int(hat),
            "Smile": 1 - smile,
            "note": f"Anna {k} laughs",
        }
        rows.append({"file_name": f"{k:03}.{suffix}", **labels})
    with (folder / "metadata.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return folder


@pytest.fixture(scope="module", autouse=True)
def short_training():
    """Checking networks take 40 steps in place of 200: the smile is in their edges, which need no
    network.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(networks, "_FEWEST_STEPS", 40)
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
    options = (
        "--patch",
        4,
        "--attacker-accuracy",
        0.65,
        "--report",
        place / "plan.html",
        "--keep",
        "hat",
    )
    done = run("plan", folder, "--secret", "smile", *options, "--out", place / "plan.lowtide")
    assert done.exit_code == 0, done.output
    return place / "plan.lowtide", done


@pytest.fixture(scope="module")
def released(place, folder, planned):
    done = run("release", folder, "--plan", planned[0], "--out", place / "shared")
    assert done.exit_code == 0, done.output
    return place / "shared"


def test_images_that_the_system_ends_leave_no_folder(place, folder, planned, monkeypatch):
    before = sorted(place.iterdir())
    write = ImageWriter.write

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
    report = place / "scan.html"
    as_json = place / "scan.json"
    options = (
        "--patch",
        6,
        "--steps",
        40,
        "--json",
        as_json,
        "--report",
        report,
        "--figures",
        place / "figures",
    )
    done = run("scan", folder, "--secret", "smile", *options)
    assert done.exit_code == 0, done.output
    found = json.loads(as_json.read_text())
    share = np.array(found["order_free_nats"]).reshape(4, 4)
    assert set(np.argsort(share.ravel())[-2:]) == {
        13,
        14,
    }  # the bar lies in the middle of the last row
    assert share[3].sum() > 0.6 * np.abs(share).sum()
    assert found["information_nats"]["low"] > 0.2
    page = report.read_text()
    assert "http" not in page.replace("http://www.w3.org", "")
    assert (place / "figures" / "map.png").is_file()


def test_the_plan_hides_the_mouth_and_little_else(planned):
    hidden = [
        line
        for line in planned[1].output.splitlines()
        if set(line.strip()) <= {"#", "·"} and line.strip()
    ]
    cells = np.array([[line[2 * j] == "#" for j in range(6)] for line in hidden])
    assert cells.shape == (6, 6)
    assert cells[4:, 2:4].any()
    assert not cells[0].all()


def test_shown_patches_are_pixel_exact_and_the_secret_is_not_in_the_release(folder, released):
    before = pixels_of(folder)
    after = pixels_of(released)
    same = (before == after).all(axis=(0, 3))
    assert same.any()
    assert not same[-6:-2, 6:18].all()
    assert not same.all()
    assert (released.parent / "shared.card.json").is_file()
    assert (released.parent / "shared.card.md").is_file()


def test_labels_are_released_only_on_request_and_the_card_says_so(planned, released):
    labels = (released / "metadata.csv").read_text()
    assert labels.splitlines()[0] == "file_name,hat"
    assert "Anna" not in labels
    assert "released on your word, judged by nobody: hat" in planned[1].output
    page = (released.parent / "shared.card.md").read_text()
    assert "Released on your word, judged by nobody: hat." in page
    assert "Not judged, and therefore blank or left out (2): Smile, note." in page


def test_a_label_that_repeats_the_secret_cannot_be_kept(planned, folder, tmp_path):
    assert "Smile: tells smile in nearly every row, so it is a copy of it" in " ".join(
        planned[1].output.split()
    )
    done = run("plan", folder, "--secret", "smile", "--keep", "Smile", "--out", tmp_path / "plan")
    assert done.exit_code == 2
    assert "keep names Smile, which tells smile in nearly every row" in " ".join(
        done.output.split()
    )


def test_a_release_with_a_copy_of_the_secret_among_its_labels_is_refused(folder, tmp_path):
    copied = tmp_path / "copied"
    shutil.copytree(folder, copied)
    with (folder / "metadata.csv").open() as file:
        rows = [f"{row['file_name']},{row['Smile']}\n" for row in csv.DictReader(file)]
    (copied / "metadata.csv").write_text("".join(["file_name,cheer\n", *rows]))
    done = run("audit", copied, "--reference", folder, "--secret", "smile")
    assert done.exit_code == 2
    assert "cheer of the release tells 'smile' of nearly every image" in " ".join(
        done.output.split()
    )


def test_file_names_that_reveal_the_secret_are_noted_at_release(place, folder, planned):
    named = place / "told"
    named.mkdir()
    with (folder / "metadata.csv").open() as file:
        rows = sorted(csv.DictReader(file), key=lambda row: row["smile"])
    lines = ["file_name,smile,hat"]
    for number, row in enumerate(rows):
        (named / f"{number:03}.png").write_bytes((folder / row["file_name"]).read_bytes())
        lines.append(f"{number:03}.png,{row['smile']},{row['hat']}")
    (named / "metadata.csv").write_text("\n".join(lines) + "\n")
    done = run("release", named, "--plan", planned[0], "--out", place / "told_shared")
    assert done.exit_code == 0, done.output
    assert "names of the images tell the secret" in " ".join(done.output.split())
    quiet = run("release", folder, "--plan", planned[0], "--out", place / "untold_shared")
    assert "tell the secret" not in quiet.output


def test_an_audit_reads_the_smile_in_the_clean_images_and_hardly_in_the_release(
    place, folder, released
):
    report = place / "audit.html"
    as_json = place / "audit.json"
    options = (
        "--reference",
        folder,
        "--secret",
        "smile",
        "--utility",
        "hat",
        "--json",
        as_json,
        "--report",
        report,
    )
    who = ("--attacker", "edges")
    undecided = run("audit", released, *options[:4], *who, "--fail-above", "0.3")
    assert undecided.exit_code == 1
    assert "Released on your word, judged by nobody: hat." in " ".join(undecided.output.split())
    who = (*who, "--accept", "hat")
    done = run(
        "audit", released, *options, *who, "--plan", place / "plan.lowtide", "--fail-above", "0.3"
    )
    assert done.exit_code == 0, done.output
    found = json.loads(as_json.read_text())
    attacks = {
        (one["trained_on"], one["target"], one["attacker"]): one["accuracy"]["value"]
        for one in found["attacks"]
    }
    clean = max(
        value
        for (learnt, target, _), value in attacks.items()
        if (learnt, target) == ("clean", "clean")
    )
    left = max(
        value
        for (learnt, target, _), value in attacks.items()
        if (learnt, target) == ("release", "release")
    )
    assert clean > 0.95
    assert left < 0.75
    assert 0 < found["change"]["share"] < 1
    assert max(one["auc"]["value"] for one in found["utility"]["release"]) > 0.9
    assert done.output.count("pixels changed") == 1


def test_a_release_that_keeps_the_secret_is_refused(folder):
    done = run("audit", folder, "--reference", folder, "--secret", "smile")
    assert done.exit_code == 2
    assert "still holds the secret 'smile'" in done.output


@pytest.fixture(scope="module")
def by_class(place, folder):
    """The same images in the folders `yes` and `no`."""
    classes = place / "classes"
    with (folder / "metadata.csv").open() as file:
        for row in csv.DictReader(file):
            (classes / row["smile"]).mkdir(parents=True, exist_ok=True)
            (classes / row["smile"] / row["file_name"]).write_bytes(
                (folder / row["file_name"]).read_bytes()
            )
    return classes


def test_folders_named_after_the_secret_are_renamed_and_paired_again(place, by_class):
    plan = place / "classes.lowtide"
    shared = place / "classes_shared"
    names = place / "names.csv"
    made = run("plan", by_class, "--secret", "label", "--kept", 0.5, "--patch", 8, "--out", plan)
    assert made.exit_code == 0, made.output
    refused = run("release", by_class, "--plan", plan, "--out", shared)
    assert refused.exit_code == 2
    assert not shared.exists()
    done = run("release", by_class, "--plan", plan, "--out", shared, "--mapping", names)
    assert done.exit_code == 0, done.output
    assert not (shared / "yes").exists()
    assert "yes/" in names.read_text()


def keeping(planned, *labels):
    """The plan of the fixture as if these labels had been kept."""
    made = Plan.load(planned[0])
    return replace(made, layout={**made.layout, "kept": list(labels)})


def test_folders_of_a_plan_for_another_label_are_not_released(planned, by_class, tmp_path):
    """`yes` and `no` are the smile, whether or not a column says so."""
    made = keeping(planned)
    with pytest.raises(
        LowtideError, match="the names of their folders are labels that the plan does not keep"
    ):
        release(by_class, made, tmp_path / "shared", progress=False)
    release(by_class, made, tmp_path / "shared", mapping=tmp_path / "names.csv", progress=False)
    assert {path.parent for path in (tmp_path / "shared").rglob("*.png")} == {tmp_path / "shared"}
    kept = release(by_class, keeping(planned, "label"), tmp_path / "kept", progress=False)
    assert {path.parent.name for path in kept.data.rglob("*.png")} == {"yes", "no"}


def test_folders_beside_metadata_are_a_label(by_class, folder, tmp_path):
    with (folder / "metadata.csv").open() as file:
        rows = [
            f"{row['smile']}/{row['file_name']},{row['smile']}\n" for row in csv.DictReader(file)
        ]
    shutil.copytree(by_class, tmp_path / "both")
    (tmp_path / "both" / "metadata.csv").write_text("".join(["file_name,smile\n", *rows]))
    data = open_dataset(tmp_path / "both", "smile", ImageOptions(), progress=False)
    assert data.unjudged == ("folder",)
    assert data.source.copies == ("folder",)


@pytest.mark.filterwarnings("ignore::lowtide.errors.LowtideNote")
@pytest.mark.parametrize("layout", ["metadata", "npz"])
def test_no_layout_releases_labels_that_are_not_kept(layout, planned, folder, tmp_path):
    source = tmp_path / "source"
    shared = tmp_path / "shared"
    if layout == "npz":
        source = tmp_path / "source.npz"
        shared = tmp_path / "shared.npz"
        np.savez(
            source,
            images=pixels_of(folder),
            Smiling=np.arange(COUNT) % 2,
            note=["Anna laughs"] * COUNT,
        )
    else:
        shutil.copytree(folder, source, ignore=shutil.ignore_patterns("*.csv"))
        lines = [f"{k:03}.png,{k % 2},0.375\n" for k in range(COUNT)]
        (source / "metadata.csv").write_text(
            "".join(["file_name,Smiling,Mouth_Slightly_Open\n", *lines])
        )
    release(source, keeping(planned), shared, progress=False)
    again = open_images(shared, progress=False)
    assert len(again) == COUNT
    assert again.columns == ()
    files = [shared] if layout == "npz" else [path for path in shared.iterdir() if path.is_file()]
    for word in (b"Smiling", b"Mouth", b"Anna", b"0.375"):
        assert not any(word in path.read_bytes() for path in files)


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
    done = run("plan", folder, "--secret", "smile", "--keep", "cap", "--out", tmp_path / "plan")
    assert done.exit_code == 2
    assert "numbers of patches or boxes" in done.output
