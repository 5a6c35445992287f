"""A card is held against its file: rows, columns, and that what it calls hidden shows nothing."""

import warnings
from dataclasses import replace

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from lowtide import verify
from lowtide.disclose.card import Feature
from lowtide.disclose.review import Approval, Decision
from lowtide.disclose.standing import Unjudged
from lowtide.errors import LowtideError
from lowtide.hashes import sha256_of
from lowtide.table_files.verifying import broken_claims, why_refused

COLUMNS = {
    "age": [30, 41, 52],
    "town": ["hidden"] * 3,
    "income": pa.nulls(3, pa.float64()),
    "person": [""] * 3,
}


def write(path, **changes):
    table = pa.table({**COLUMNS, **changes})
    (pq.write_table if path.suffix == ".parquet" else pacsv.write_csv)(table, path)
    return path


@pytest.fixture
def card_for(make_card):
    """The card that goes with `COLUMNS`, in a file."""

    def made(path, **changes):
        features = (Feature("age", 0.0), Feature("town", 1.0), Feature("income", 1.0))
        values = {"rows": 3, "features": features, "unjudged": Unjudged(withheld=("person",))}
        return make_card(
            data_sha256=changes.pop("data_sha256", sha256_of(path)), **values | changes
        )

    return made


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_a_card_that_is_right_is_not_contradicted(card_for, tmp_path, suffix):
    path = write(tmp_path / f"shared{suffix}")
    assert broken_claims(card_for(path), path) == []
    assert why_refused(card_for(path), path) is None
    assert verify(card_for(path), path)


@pytest.mark.parametrize(
    ("columns", "card", "said"),
    [
        ({}, {"rows": 4}, "the card is about 4 rows, and the file has 3"),
        ({"town": ["Turku", "Oulu", "Oulu"]}, {}, "hidden that show more than one value: town"),
        ({"person": ["a", "b", "c"]}, {}, "hidden that show more than one value: person"),
        ({"vote": ["L", "R", "L"]}, {}, "the file shows columns that the card does not name: vote"),
        (
            {"tags": [["a"], ["b"], None]},
            {},
            "the file shows columns that the card does not name: tags",
        ),
        (
            {},
            {"unjudged": Unjudged(released=("photo",))},
            "the card names columns that the file lacks: photo",
        ),
        (
            {},
            {"features": (Feature("age", 0.0), Feature("city", 1.0), Feature("income", 1.0))},
            "the card names columns that the file lacks: city",
        ),
    ],
)
def test_what_the_file_contradicts_is_named_without_a_value(
    card_for, tmp_path, columns, card, said
):
    path = write(tmp_path / "shared.parquet", **columns)
    found = why_refused(card_for(path, **card), path)
    assert found.startswith("is not what the card says: ")
    assert said in found
    assert "Turku" not in found
    assert not verify(card_for(path, **card), path)


def test_hidden_columns_may_show_values_where_they_are_filled_in(card_for, tmp_path):
    path = write(tmp_path / "shared.parquet", income=[1.0, 2.0, 3.0])
    assert broken_claims(card_for(path), path) != []
    assert broken_claims(card_for(path, parameters={"fill": "redraw"}), path) == []


def test_a_card_that_names_words_is_not_read_as_one_of_columns(card_for, tmp_path):
    path = write(tmp_path / "shared.csv")
    words = card_for(
        path, features=(Feature("3 listed terms", 1.0), Feature("all other words", 0.0))
    )
    assert broken_claims(words, path) == []


def test_folders_and_other_files_are_compared_by_their_hash_alone(card_for, tmp_path):
    folder = tmp_path / "faces"
    folder.mkdir()
    (folder / "1.png").write_bytes(b"png")
    path = write(tmp_path / "shared.csv")
    assert why_refused(card_for(path, data_sha256=sha256_of(folder)), folder) is None
    (folder / "2.png").write_bytes(b"png")
    assert "is not the release" in why_refused(card_for(path), folder)


def test_another_version_of_lowtide_is_noted(card_for, tmp_path):
    path = write(tmp_path / "shared.csv")
    card = card_for(path)
    older = replace(card, versions={**card.versions, "lowtide": "0.0.1"})
    with pytest.warns(UserWarning, match=r"written by Lowtide 0.0.1, and this is"):
        assert why_refused(older, path) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert why_refused(card, path) is None


def test_edits_expiry_rejection_and_missing_approvals_are_told_apart(card_for, tmp_path):
    path = write(tmp_path / "shared.csv")
    approved = card_for(path).reviewed(Decision("approve", "Ada", "2020-01-01"))
    assert why_refused(approved, path, approval=Approval(("Ada",), 1)) is None
    assert "may not be shared: approvals needed" in why_refused(
        approved, path, approval=Approval(("Grace",), 1)
    )
    rejected = approved.reviewed(Decision("reject", "Grace", "2020-01-02"))
    assert "Grace rejected this release" in why_refused(rejected, path)
    expired = approved.reviewed(Decision("approve", "Ada", "2020-01-02", expires="2020-06-01"))
    with pytest.raises(LowtideError, match="expired"):
        why_refused(expired, path)
    with pytest.raises(LowtideError, match="edited after the decision of Ada"):
        verify(replace(approved, changed=0.4), path)
