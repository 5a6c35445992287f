"""Release cards: they validate, survive the disk, say what is vacuous, and hold nothing they should
not.
"""

import copy
import json
import math
from dataclasses import asdict, replace

import jsonschema
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lowtide.attack.panel import AttackReport
from lowtide.auditing.verdict import give_verdict
from lowtide.disclose.card import Feature, ReleaseCard, schema
from lowtide.disclose.certificate import certify_fixed, certify_paper, certify_sequential
from lowtide.disclose.membership import membership
from lowtide.disclose.review import Decision
from lowtide.disclose.standing import Bound, Standing
from lowtide.errors import LowtideError, LowtideNote
from lowtide.interface import Attack, Estimate, RowOrder

VALIDATOR = jsonschema.Draft202012Validator(schema())
HIDDEN = np.array([[True, False], [False, False], [True, True], [True, False]])
TERM = membership(HIDDEN, [0, 0, 1, 1], ratios=[0.0, 0.5], epsilon=0.1, classes=2)
CERTIFICATES = {
    "all hidden": certify_fixed(
        0.2, [0.5, 0.5], ratios=[0.3, 0.0], hidden=[True, True], responses=[(0.1, 3)]
    ),
    "redacted": certify_fixed(0.2, [0.5, 0.5], ratios=[0.0, 0.0], hidden=[True, True]),
    "half vacuous": certify_fixed(1.0, [0.5, 0.5], ratios=[0.3, 0.3], hidden=[True, True]),
    "raw part": certify_fixed(0.2, [0.5, 0.5], ratios=[0.3, 0.0], hidden=[True, False]),
    "nothing hidden": certify_fixed(0.2, [0.5, 0.5], ratios=[0.3, 0.0], hidden=[False, False]),
    "sequential": certify_sequential(0.1, [0.5, 0.5], features=2, membership=TERM),
    "running": certify_sequential(0.3, [0.5, 0.5], features=2, running=True),
    "paper": certify_paper(0.2, [0.5, 0.5], radii=[1.0, 1.0], scale=3.0),
}
SHARES = {
    "all hidden": (1, 1),
    "redacted": (1, 1),
    "half vacuous": (1, 1),
    "raw part": (1, 0),
    "nothing hidden": (0, 0),
}
every_certificate = pytest.mark.parametrize("name", CERTIFICATES)


def attack(information, *, trained_on="release", target="release", auc=0.7, attacker="trees"):
    interval = Estimate(information, information - 0.01, information + 0.01, 500)
    return Attack(
        attacker,
        trained_on,
        target,
        Estimate(0.6, 0.55, 0.65, 500),
        Estimate(auc, 0.6, 0.8, 500),
        interval,
    )


def card(name="all hidden", **changes):
    shares = SHARES.get(name, (0.75, 0.25))
    values = {
        "mechanism": "gaussian",
        "certificate": CERTIFICATES[name],
        "features": tuple(Feature(f"x{j}", float(share)) for j, share in enumerate(shares)),
        "rows": 1000,
        "classes": 2,
        "largest_class": 0.5,
        "changed": 0.5,
        "leakage": Estimate(0.05, 0.02, 0.08, 400),
        "attacks": (attack(0.03), attack(0.01, trained_on="clean")),
        "parameters": {
            "budget": 0.1,
            "lam": (2.0, math.inf),
            "hide": ["x0"],
            "seen": np.int64(3),
            "note": None,
        },
        "data_sha256": "0f" * 32,
        "created": "2026-01-31T12:00:00Z",
    }
    return ReleaseCard(**(values | changes))


class TestJson:
    def test_the_card_schema_is_valid(self):
        jsonschema.Draft202012Validator.check_schema(schema())

    @every_certificate
    def test_every_card_validates_and_comes_back(self, name, tmp_path):
        original = card(name)
        VALIDATOR.validate(original.to_json())
        assert ReleaseCard.from_json(json.loads(json.dumps(original.to_json()))) == original
        original.save(tmp_path / "card.json")
        assert ReleaseCard.load(tmp_path / "card.json") == original
        assert [path.name for path in tmp_path.iterdir()] == ["card.json"], (
            "no partial file stays behind"
        )

    def test_a_card_without_estimate_attacks_or_hash(self):
        bare = card(leakage=None, attacks=(), data_sha256=None, parameters={})
        VALIDATOR.validate(bare.to_json())
        assert ReleaseCard.from_json(bare.to_json()) == bare

    def test_is_written_now_with_this_software_by_default(self):
        values = card()
        fresh = ReleaseCard(
            mechanism="redaction",
            certificate=values.certificate,
            features=values.features,
            rows=1,
            classes=2,
            largest_class=0.5,
            changed=1.0,
        )
        assert fresh.created > "2026"
        assert fresh.versions["numpy"] == np.__version__
        assert set(fresh.versions) == {"lowtide", "python", "numpy", "torch", "scikit-learn"}

    def test_counts_in_nats_and_bits(self):
        leakage = card(leakage=Estimate(math.log(2), 0.0, 1.0, 10)).to_json()["leakage"]
        assert leakage["nats"]["value"] == pytest.approx(math.log(2))
        assert leakage["bits"]["value"] == pytest.approx(1.0)

    def test_a_card_holds_no_class_shares(self):
        """What was hidden in each class would show how the rows of a small class were treated."""
        assert set(card("sequential").to_json()["certificate"]["membership"]) == {
            "epsilon",
            "forward",
            "reverse",
            "hidden",
        }


numbers = st.floats(-1e6, 1e6)
estimates = st.builds(Estimate, numbers, numbers, numbers, st.integers(0, 10**9))
attacks = st.builds(
    Attack,
    st.text(),
    st.sampled_from(["release", "clean", "nothing"]),
    st.sampled_from(["release", "clean"]),
    estimates,
    estimates,
    estimates,
)
options = st.dictionaries(
    st.sampled_from(["budget", "lam", "delta", "keep"]), st.one_of(numbers, st.text(), st.none())
)


@st.composite
def cards(draw):
    """Cards of any policy, prior, noise and ε."""
    epsilon = draw(st.floats(0, 5))
    rarest = draw(st.floats(0.01, 0.5))
    prior = [rarest, 1 - rarest]
    m = draw(st.integers(1, 4))
    policy = draw(st.sampled_from(["fixed", "sequential", "running", "paper"]))
    hidden = np.array(draw(st.lists(st.booleans(), min_size=m, max_size=m)))
    ratios = draw(st.lists(st.floats(0, 60), min_size=m, max_size=m))
    if policy == "fixed":
        certificate = certify_fixed(epsilon, prior, ratios=ratios, hidden=hidden)
        shares = hidden.astype(float)
    elif policy == "paper":
        certificate = certify_paper(epsilon, prior, radii=ratios, scale=1.0)
        shares = np.full(m, 0.5)
    else:
        flags = np.array(
            draw(st.lists(st.lists(st.booleans(), min_size=m, max_size=m), min_size=2, max_size=8))
        )
        term = membership(
            flags, np.arange(len(flags)) % 2, ratios=ratios, epsilon=epsilon, classes=2
        )
        certificate = certify_sequential(
            epsilon, prior, features=m, membership=term, running=policy == "running"
        )
        shares = flags.mean(axis=0)
    return ReleaseCard(
        mechanism=draw(st.text(min_size=1)),
        certificate=certificate,
        features=tuple(Feature(draw(st.text()), float(share)) for share in shares),
        rows=draw(st.integers(1, 10**9)),
        classes=2,
        largest_class=1 - rarest,
        changed=draw(st.floats(0, 1)),
        leakage=draw(st.none() | estimates),
        attacks=tuple(draw(st.lists(attacks, max_size=3))),
        parameters=draw(options),
    )


@settings(max_examples=40)
@given(cards())
def test_any_card_round_trips_and_says_vacuous_exactly_when_it_is(original):
    VALIDATOR.validate(original.to_json())
    assert (
        ReleaseCard.from_json(json.loads(json.dumps(original.to_json(), allow_nan=False)))
        == original
    )
    whole = original.certificate.whole
    quiet = ReleaseCard(**(vars(original) | {"mechanism": "m", "attacks": (), "parameters": {}}))
    assert ("vacuous" in quiet.text()) == (whole.forward_vacuous or whole.reverse_vacuous)
    assert ("paper's claim" in quiet.text()) == (original.certificate.claim is not None)


class TestAttacks:
    def test_the_strongest_is_the_best_retrained_one_in_each_figure(self):
        others = (attack(9.0, trained_on="clean", auc=0.99), attack(9.0, target="clean", auc=0.98))
        best = attack(0.04, auc=0.6, attacker="network")
        ranks = attack(0.03, auc=0.9, attacker="trees")
        found = card(attacks=(*others, ranks, best)).strongest
        assert found.attacker == "network (accuracy and information), trees (AUC)"
        assert (found.auc.value, found.information.value) == (0.9, 0.04)
        assert card(attacks=(*others, best)).strongest == best
        assert card(attacks=others).strongest is None

    @pytest.mark.parametrize(
        ("low", "value", "trusted"),
        [(0.05, 0.3, True), (0.08 + 1e-10, 0.3, True), (0.081, 0.3, False)],
    )
    def test_contradict_the_estimate_with_their_whole_interval_only(self, low, value, trusted):
        """The estimate is 0.05 [0.02, 0.08]."""
        found = replace(attack(value), information=Estimate(value, low, 0.5, 500))
        assert card(attacks=(attack(0.01), found)).trusted == trusted
        assert card(attacks=(replace(found, target="clean"),)).trusted, "clean data may tell more"
        assert card(attacks=(found,), leakage=None).trusted

    @pytest.mark.parametrize("low", [-0.01, 0.0, 0.02, 0.0200001, 0.1])
    def test_a_card_and_a_verdict_agree(self, low):
        estimate = Estimate(0.01, 0.0, 0.02, 500)
        found = Estimate(max(low, 0.05), low, 0.5, 500)
        guess = attack(0.0, trained_on="nothing")
        strong = replace(attack(0.0, attacker="trees"), information=found)
        report = AttackReport(
            guess=guess,
            retrained=(strong,),
            clean=(),
            fixed=(),
            fixed_missing=None,
            answers={"trees": np.full((1, 2), 0.5)},
            codes=np.zeros(1, dtype=int),
            prior=np.array([0.5, 0.5]),
            rows=np.zeros(1, dtype=int),
        )
        assert (
            card(attacks=(guess, strong), leakage=estimate).trusted
            == give_verdict(report, estimate).trusted
        )


class TestRefusals:
    @pytest.mark.parametrize(
        "name",
        [
            "key",
            "Key",
            "encryption_key",
            "keyfile",
            "apiKeys",
            "seed",
            "random_state",
            "password",
            "salt",
            "a\nkey",
        ],
    )
    def test_keys_and_seeds_do_not_go_on_a_card(self, name):
        with pytest.raises(LowtideError, match="does not go on a card") as error:
            card(parameters={name: "deadbeef"})
        assert "deadbeef" not in str(error.value)
        assert card(parameters={"keep": 0.5, "hide": ["age"]}).parameters["keep"] == 0.5

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"rows": 0}, r"\$\.rows of the card breaks the rule minimum: 1"),
            ({"rows": 10.0}, r"\$\.rows of the card breaks the rule type: integer"),
            ({"classes": 1}, r"\$\.classes of the card breaks the rule minimum: 2"),
            ({"changed": 1.5}, r"\$\.changed of the card breaks the rule maximum: 1"),
            (
                {"largest_class": math.nan},
                r"\$\.largest_class of the card breaks the rule type: number",
            ),
            ({"mechanism": ""}, r"\$\.mechanism of the card breaks the rule minLength"),
            (
                {"created": "yesterday"},
                r"\$\.created of the card breaks the rule pattern: When, in UTC",
            ),
            ({"created": "2026-13-31T12:00:00Z"}, "created must be a time in UTC"),
            ({"data_sha256": "abc"}, r"\$\.data_sha256 of the card breaks the rule pattern"),
            (
                {"data_sha256": "a" * 64 + "\n"},
                r"\$\.data_sha256 of the card breaks the rule maxLength: 64",
            ),
            (
                {"parameters": {"data": {"age": 3}}},
                r"\$\.parameters\.data of the card breaks the rule type",
            ),
            (
                {"parameters": {"delta": math.nan}},
                r"\$\.parameters\.delta of the card breaks the rule type",
            ),
            (
                {"parameters": {"lam": [1, [2]]}},
                r"\$\.parameters\.lam\[1\] of the card breaks the rule type",
            ),
            ({"parameters": {1: 2}}, r"\$\.parameters of the card breaks the rule type: object"),
            (
                {"leakage": Estimate(math.inf, 0.0, 1.0, 3)},
                r"\$\.leakage\.\w+\.value of the card breaks the rule type",
            ),
            ({"features": (Feature("x", 0.5), Feature("y", 1.0))}, "for everybody or for nobody"),
            ({"features": (Feature("x", 0.0), Feature("y", 1.0))}, "without raw features"),
        ],
    )
    def test_impossible_cards_are_refused(self, changes, message):
        with pytest.raises(LowtideError, match=message):
            card(**changes)

    @pytest.mark.parametrize(
        "spot", ["created", "data_sha256", "mechanism", "rows", "attacks", "certificate"]
    )
    def test_messages_never_quote_a_value(self, spot):
        for value in (
            "Mrs Doe, 1970",
            ["Mrs Doe, 1970"],
            {"Mrs Doe, 1970": 1},
            {"x": {"Mrs Doe, 1970": [1]}},
        ):
            altered = card().to_json() | {spot: value}
            if VALIDATOR.is_valid(altered):
                continue
            with pytest.raises(LowtideError) as error:
                ReleaseCard.from_json(altered)
            assert "Doe" not in str(error.value)
            assert (error.value.__cause__, error.value.__context__) == (None, None), (
                "tracebacks print those, too"
            )

    def test_files_that_are_not_cards_are_refused(self, tmp_path):
        path = tmp_path / "card.json"
        with pytest.raises(LowtideError, match="cannot read"):
            ReleaseCard.load(path)
        card().save(path)
        whole = path.read_text()
        for content, message in (
            (whole[: len(whole) // 2], "is not JSON"),
            ("[" * 100_000, "more than 64 levels of brackets"),
            ("[]", "this is not a release card"),
            ('{"format": "lowtide-density"}', "this is not a release card"),
            (
                whole.replace('"schema_version": 3', '"schema_version": 4'),
                "schema version is 4, this Lowtide reads 2 and 3",
            ),
            (
                whole.replace('"rows": 1000', '"rows": NaN'),
                r"\$\.rows of the card breaks the rule type: integer",
            ),
            (
                whole.replace('"changed": 0.5', f'"changed": {10**400}'),
                r"\$\.changed of the card breaks the rule",
            ),
            (whole.replace('"rows": 1000,', ""), r"\$ of the card breaks the rule required: rows"),
            (whole.replace('"note": null', f'"note": {"[" * 900}{"]" * 900}'), "card.json"),
        ):
            path.write_text(content)
            with pytest.raises(LowtideError, match=message) as error:
                ReleaseCard.load(path)
            assert "card.json" in str(error.value)
        path.write_bytes(b"\xff\xfe\x00")
        with pytest.raises(LowtideError, match="is not JSON"):
            ReleaseCard.load(path)

    def test_a_missing_folder_is_refused(self, tmp_path):
        with pytest.raises(LowtideError, match="choose a folder"):
            card().save(tmp_path / "nowhere" / "card.json")


def places(value, path=()):
    """Every place in a nested JSON value."""
    yield path
    children = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for name, child in children:
        yield from places(child, (*path, name))


def put(value, path, new):
    """A copy with one place replaced."""
    result = copy.deepcopy(value)
    inner = result
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = new
    return result


WRITTEN = {name: card(name).to_json() for name in CERTIFICATES}
SPOTS = {name: [path for path in places(written) if path] for name, written in WRITTEN.items()}


@settings(max_examples=150)
@given(
    st.sampled_from(list(CERTIFICATES)),
    st.integers(0, 10**6),
    st.sampled_from([None, True, -1, 7, 0.5, 2.5, "", "text", [], {}, [None], {"extra": 1}]),
)
def test_reads_nothing_that_the_schema_refuses(name, where, new):
    """Replace any place by anything: what jsonschema refuses, `from_json` refuses with an error of
    ours.
    """
    original = WRITTEN[name]
    spots = SPOTS[name]
    altered = put(original, spots[where % len(spots)], new)
    assume(not VALIDATOR.is_valid(altered))
    with pytest.raises(LowtideError):
        ReleaseCard.from_json(altered)


@every_certificate
def test_reads_no_entry_that_the_schema_does_not_know(name):
    original = card(name).to_json()
    refused = 0
    for path in places(original):
        altered = copy.deepcopy(original)
        inner = altered
        for step in path:
            inner = inner[step]
        if not isinstance(inner, dict):
            continue
        inner["raw_values"] = [1, 2, 3]
        if not VALIDATOR.is_valid(altered):
            refused += 1
            with pytest.raises(
                LowtideError, match=r"breaks the rule (additionalProperties|type)$|the rule type: "
            ):
                ReleaseCard.from_json(altered)
    assert refused > 5


def test_a_card_of_the_policy_paper_is_refused_with_the_remedy(tmp_path):
    plain = card("paper").to_json()
    plain["certificate"]["policy"] = "paper"
    (tmp_path / "card.json").write_text(json.dumps(plain))
    with pytest.raises(
        LowtideError, match=r"no longer known; plan and release again with .*--past raw"
    ):
        ReleaseCard.load(tmp_path / "card.json")


def test_a_card_without_digest_loads_with_a_note_and_never_gets_one(tmp_path):
    """Cards of version 2 have none: to write one anew would vouch for what nobody checked."""
    plain = card().to_json()
    del plain["digest"]
    (tmp_path / "card.json").write_text(json.dumps({**plain, "schema_version": 2}))
    with pytest.warns(LowtideNote, match="an edit would go unnoticed"):
        old = ReleaseCard.load(tmp_path / "card.json")
    assert old == replace(card(), sealed=False)
    assert old.to_json() == {**plain, "schema_version": 2}
    assert "This card has no digest" in old.text()
    with pytest.raises(LowtideError, match="release again, and review its card"):
        old.reviewed(Decision("approve", "Ada", "2026-01-31"))
    with pytest.raises(LowtideError, match="breaks the rule required: digest"):
        ReleaseCard.from_json(plain)


@pytest.mark.parametrize(
    "entry",
    sorted(card("sequential", plan_sha256="1e" * 32).to_json().keys() - {"format", "divergence"}),
)
def test_an_edit_of_any_entry_is_noticed(entry):
    plain = json.loads(json.dumps(card("sequential", plan_sha256="1e" * 32).to_json()))
    edits = {
        "schema_version": 4,
        "versions": {**plain["versions"], "numpy": "1"},
        "created": "2026-02-01T12:00:00Z",
        "mechanism": "redact",
        "parameters": {},
        "features": plain["features"][::-1],
        "certificate": {**plain["certificate"], "statements": []},
        "data_sha256": "1e" * 32,
        "plan_sha256": None,
        "attacks": [],
        "leakage": None,
        "order": {"told": None, "tells": True, "shuffled": None},
        "unjudged": {"released": ["name"], "withheld": [], "blank": 0, "beyond": 0},
        "standing": asdict(Standing(0.1, "nats", "kept", 0.05, 0.0, 400, None)),
        "bound": asdict(Bound(3, 100, 0.05, 0.1, 0.6, 0.1, 0.2, 0.2)),
        "digest": "0" * 64,
    }
    edited = {
        **plain,
        entry: edits.get(entry, 7 if entry == "rows" else 3 if entry == "classes" else 0.75),
    }
    assert edited != plain
    with pytest.raises(LowtideError, match=r"does not match its digest|schema version"):
        ReleaseCard.from_json(edited)


def test_a_signature_is_of_the_card_as_it_is():
    key = b"k" * 32
    other = b"o" * 32
    signed = card().signed(key)
    assert ReleaseCard.from_json(json.loads(json.dumps(signed.to_json()))) == signed
    assert signed.is_signed_with(key)
    assert not signed.is_signed_with(other)
    assert not card().is_signed_with(key)
    assert not replace(signed, attacks=()).is_signed_with(key)
    assert signed.reviewed(Decision("approve", "Ada", "2026-01-31")).is_signed_with(key), (
        "decisions come later"
    )


TOLD = Estimate(0.4, 0.3, 0.5, 200)


@pytest.mark.parametrize("order", [None, RowOrder(None, False, False), RowOrder(TOLD, True, None)])
def test_the_order_of_rows_is_read_back(order):
    assert ReleaseCard.from_json(card(order=order).to_json()).order == order
    plain = replace(card(order=order), sealed=False).to_json()
    del plain["order"]  # as on older cards
    assert ReleaseCard.from_json(plain).order is None


def test_the_page_warns_of_an_order_that_tells_unless_the_rows_were_shuffled():
    said = {
        shuffled: card(order=RowOrder(TOLD, True, shuffled)).text()
        for shuffled in (None, False, True)
    }
    told = "The order of the reference rows tells the secret (0.4000 [0.3000, 0.5000] nats)"
    assert f"{told}: release them in random order." in said[None]
    assert f"{told}, and the release keeps it." in said[False]
    assert told not in said[True]
    assert "The rows are in random order." in said[True]
