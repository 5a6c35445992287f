"""How a release is joined to its reference, and what is refused: messages count rows and never
quote a value.
"""

import numpy as np
import pandas as pd
import pytest

from lowtide import audit
from lowtide.errors import LowtideError, LowtideNote
from lowtide.table_files.formats import as_arrow
from lowtide.tables.matching import join

SECRETIVE = 987_654


@pytest.fixture
def reference():
    rng = np.random.default_rng(0)
    n = 120
    return pd.DataFrame(
        {
            "person": np.arange(n) + SECRETIVE,
            "age": rng.integers(20, 60, n),
            "postcode": rng.integers(0, 5, n),
            "vote": np.where(rng.random(n) < 0.5, "yes", "no"),
        }
    )


def joined(release, reference):
    return join(as_arrow(release), as_arrow(reference), "person")


def test_ids_of_another_type_are_joined(reference):
    release = reference[["person", "age"]].sample(frac=1, random_state=1)
    for kind in (str, float):
        found = joined(release.assign(person=release.person.astype(kind)), reference)
        assert found.shown["age"].to_pylist() == reference.age.tolist()
        assert np.array_equal(found.numbers, np.arange(120))
        assert np.array_equal(release.age.to_numpy()[found.places], reference.age.to_numpy())


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            lambda table: table.assign(person=table.person // 2),
            "120 rows and 60 different ids: 60 repeat one",
        ),
        (
            lambda table: table.assign(person=table.person + 500),
            "no id of the release is in the reference",
        ),
        (
            lambda table: table.assign(person=table.person + 5),
            "5 of the 120 ids of the release are not in the reference",
        ),
        (
            lambda table: table.assign(person=table.person.where(table.index > 2)),
            "3 rows of the release have no id",
        ),
        (
            lambda table: table.rename(columns={"person": "persons"}),
            "the release has no column 'person'; did you mean",
        ),
    ],
    ids=["repeated", "no overlap", "unmatched", "missing", "renamed"],
)
def test_ids_that_do_not_join_are_counted_and_not_quoted(reference, spoil, message):
    with pytest.raises(LowtideError, match=message) as error:
        joined(spoil(reference[["person", "age"]]), reference)
    assert str(SECRETIVE)[:4] not in str(error.value)


def test_ids_that_repeat_in_the_reference_are_refused(reference):
    with pytest.raises(LowtideError, match="the reference has 120 rows and 60 different ids"):
        joined(
            reference[["person", "age"]], reference.assign(person=SECRETIVE + np.arange(120) // 2)
        )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"synthetic": True}, "the release has no column 'vote'"),
        ({"synthetic": True, "id": "person"}, "--id is about the rows of the reference"),
        ({"rows": "others"}, "rows must be"),
        ({"release_secret": "ballot"}, "add --synthetic or --rows other"),
        ({"known": ("vote",)}, "--known names the secret"),
        ({"known": ("agee",)}, "did you mean 'age'"),
        ({"id": "person", "order": "order.csv"}, "give one of them"),
        ({"renamed": ("age",)}, "must read NEW=OLD"),
        ({"renamed": ("age=postcode",)}, "has a column 'postcode' already"),
        ({"groups_of": "person"}, "makes 120 groups"),
    ],
)
def test_contradictions_and_unknown_names_are_refused(reference, options, message):
    with pytest.raises(LowtideError, match=message):
        audit(reference[["age", "postcode"]], reference, "vote", progress=False, **options)


def test_columns_of_other_rows_that_the_reference_lacks_are_refused_with_a_suggestion(reference):
    made = reference[["postcode", "vote"]].rename(columns={"postcode": "post_code"})
    with pytest.raises(LowtideError, match=r"say --column 'post_code=postcode'"):
        audit(made, reference, "vote", synthetic=True, progress=False)


def test_a_renamed_column_of_the_same_rows_is_suggested(reference):
    release = reference[["person", "postcode"]].rename(columns={"postcode": "post_code"})
    with pytest.warns(LowtideNote, match="post_code=postcode"):
        audit(
            release,
            reference,
            "vote",
            id="person",
            attackers=["logistic regression"],
            progress=False,
        )


def test_labelled_rows_must_have_the_columns_of_the_release_and_every_class(reference):
    shown = reference[["age", "postcode"]]
    with pytest.raises(LowtideError, match="the file of --train has no column 'postcode'"):
        audit(shown, reference, "vote", train=reference[["age", "vote"]], progress=False)
    with pytest.raises(LowtideError, match="no row of 1 of the 2 classes"):
        audit(shown, reference, "vote", train=reference[reference.vote == "yes"], progress=False)
