"""The judge against people, on pairs that can be counted by hand."""

import dataclasses
from pathlib import Path

import pytest

from freshstack_dspy import Collection, HumanLabel, agree
from freshstack_dspy.calibration.agreement import AgreementReport, agree_on_answers, nugget_ratings
from freshstack_dspy.collection.collection import write_collection
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.files import encode_records
from freshstack_dspy.records import (
    Agreement,
    AnswerLabel,
    ListedNugget,
    NuggetLabel,
    NuggetList,
    Scale,
)
from freshstack_dspy.stored.contents import Contents
from tests.collection.small import CHUNKS, CONTENTS, PROVENANCE, A, B, D, judgment, write_small

from .people import label

# Of the judged pairs, the judge says 1 of (12_0, A), (12_0, B), (12_1, B), (123_0, A),
# and 0 of (12_1, A), (123_0, B), (5_0, A); (123_0, D) failed.
LABELS = (
    label("12", "12_0", A, 1),
    label("12", "12_0", B, 0),
    label("12", "12_1", A, 0),
    label("12", "12_1", B, 2),
    label("123", "123_0", A, 1),
    label("123", "123_0", B, 0),
    label("123", "123_0", D, 1),
    label("5", "5_0", B, 1),
)


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    return write_small(tmp_path_factory.mktemp("small") / "collection")


@pytest.fixture(scope="module")
def report(collection: Collection) -> AgreementReport:
    return agree(collection, LABELS)


def values(report: AgreementReport, who: str = "judge") -> dict[str, float | None]:
    found = {name: getattr(one, who) for name, one in report.metrics.items()}
    return {name: one.value for name, one in found.items() if one is not None}


def test_the_metrics_by_hand(report: AgreementReport) -> None:
    """A failed and an unjudged pair are counted, and in no metric."""
    assert report.confusion.labels == (0, 1)
    assert report.confusion.counts == ((2, 0), (1, 3))
    assert (report.pairs, report.labels) == (6, 6)
    # By chance they agree on (4·3 + 2·3) / 36 = 1/2.
    assert values(report) == pytest.approx(
        {
            "kappa": (5 / 6 - 1 / 2) / (1 - 1 / 2),
            "share agreed": 5 / 6,
            "precision of support": 3 / 4,
            "recall of support": 1,
            "precision of no support": 1,
            "recall of no support": 2 / 3,
        }
    )
    assert report.metrics["kappa"].judge is not None
    assert report.metrics["kappa"].judge.groups == 2, "intervals are over queries"
    assert (report.failed, report.unjudged) == ((("123", "123_0", D),), (("5", "5_0", B),))


def test_two_annotators_give_a_ceiling_and_share_a_pair(collection: Collection) -> None:
    """Bob says as Ada, but of (12_0, B): exact match 3/4, by chance 8/16 → κ 1/2.

    Of the eight labels five are 1: α 1 - 7 · 1/15, and for Fleiss by chance 34/64. The judge is
    right on three pairs, and on (12_0, B) by one of two labels.
    """
    pairs = (("12_0", A), ("12_0", B), ("12_1", A), ("12_1", B))
    ada, bob = (1, 0, 0, 1), (1, 1, 0, 1)
    labels = [
        label("12", nugget_id, chunk_id, value, who)
        for who, values in (("ada", ada), ("bob", bob))
        for (nugget_id, chunk_id), value in zip(pairs, values, strict=True)
    ]

    report = agree(collection, labels)

    assert report.annotators == ("ada", "bob")
    assert values(report, "people")["kappa"] == pytest.approx(1 / 2)
    assert values(report, "people")["Krippendorff's alpha"] == pytest.approx(1 - 7 / 15)
    assert values(report, "people")["Fleiss' kappa"] == pytest.approx(1 - (1 / 4) / (1 - 34 / 64))
    assert (report.pairs, report.shared, report.labels) == (4, 4, 8)
    assert values(report)["share agreed"] == pytest.approx(3.5 / 4)


def test_a_pair_counts_for_those_that_it_was_sampled_from(collection: Collection) -> None:
    """Of the four pairs with label 1 two were labelled, of those with 0 all three: weights 2 and 1."""
    sampled = {
        "label 1": (("12", "12_0", A, 1), ("123", "123_0", A, 0)),
        "label 0": (("12", "12_1", A, 0), ("123", "123_0", B, 0), ("5", "5_0", A, 0)),
    }
    labels = [
        label(*of).model_copy(update={"stratum": stratum, "probability": 0.5})
        for stratum, several in sampled.items()
        for of in several
    ]

    report = agree(collection, labels)

    assert report.weighted
    assert values(report)["share agreed"] == pytest.approx((2 + 3) / 7)
    assert values(report)["recall of no support"] == pytest.approx(3 / 5)
    assert report.confusion.counts == ((3, 0), (1, 1)), "labels, as they were given"


def test_slices_and_disagreements(collection: Collection, report: AgreementReport) -> None:
    (wrong,) = report.disagreements

    assert (wrong.item, wrong.judge, wrong.person) == (("12", "12_0", B), 1, 0)
    assert wrong.nugget == next(n.text for n in CONTENTS.nuggets if n.nugget_id == "12_0")
    assert wrong.question == next(q.title for q in CONTENTS.queries if q.query_id == "12")
    assert wrong.passage == collection.chunk(B).text
    for by in ("kind", "length", "duplicate", "position", "slice"):
        sliced = agree(collection, LABELS, by=by)
        assert sum(part.pairs for part in sliced.slices) in (0, 6), by
    bob = [one.model_copy(update={"annotator": "bob"}) for one in LABELS[:2]]
    by_annotator = agree(collection, [*LABELS[2:], *bob], by="annotator")
    assert [(part.name, part.pairs) for part in by_annotator.slices] == [("ada", 4), ("bob", 2)]
    with pytest.raises(CollectionError, match="not by 'colour'"):
        agree(collection, LABELS, by="colour")


def test_answerability_is_yes_or_no(collection: Collection) -> None:
    labels = [one.model_copy(update={"kind": "answerability"}) for one in LABELS[:3]]

    assert agree(collection, labels).kind == "answerability"
    with pytest.raises(CollectionError, match="labels of answerability are 0 and 1"):
        agree(collection, [LABELS[3].model_copy(update={"kind": "answerability"})])


def test_evidence_overlaps_by_hand(tmp_path: Path) -> None:
    """Ten bytes and ten bytes, five of them in both: F1 1/2; and none in both: 0."""
    marked = tuple(
        one.model_copy(update={"evidence": ((0, 10),)} if one.label else {})
        for one in CONTENTS.judgments
    )
    contents = dataclasses.replace(CONTENTS, judgments=marked)
    made = write_collection(tmp_path / "marked", contents, CHUNKS, PROVENANCE)
    spans = {("12_0", A): ((5, 15),), ("12_1", B): ((20, 30),), ("12_0", B): ()}
    labels = [
        label("12", nugget, chunk, 1).model_copy(update={"evidence": evidence})
        for (nugget, chunk), evidence in spans.items()
    ]

    found = values(agree(made, labels))

    assert found["evidence: spans overlap"] == 1 / 2
    assert found["evidence: F1 of bytes"] == pytest.approx(1 / 4)


def test_the_quality_of_nuggets_by_hand(collection: Collection) -> None:
    def quality(nugget: str, who: str, **said: bool) -> NuggetLabel:
        return NuggetLabel(query_id="12", nugget_id=nugget, annotator=who, **said)

    first = {"precise": True, "grounded": True, "vital": False}
    labels = [
        quality("12_0", "ada", **first),
        quality("12_0", "bob", **{**first, "precise": False}),
        quality("12_1", "ada", **first),
        quality("99_9", "ada", **first),
    ]
    kept = [ListedNugget(nugget_id="12_0", text="as it was"), ListedNugget(text="new")]
    listed = NuggetList(query_id="12", annotator="ada", nuggets=tuple(kept))

    found = nugget_ratings(collection, labels, [listed])

    shares = {name: one.value for name, one in found.shares.items()}
    assert shares == {"precise": 0.75, "grounded": 1, "vital": 0, "recall": 0.5}
    assert (found.nuggets, found.labels, found.left_out) == (2, 3, 1)
    by_place = [(each.place, each.nuggets, each.imprecise) for each in found.by_place]
    assert by_place == [("first", 1, 0.5), ("last", 1, 0.0)]


def test_answers_are_compared_with_those_of_a_folder(tmp_path: Path) -> None:
    verdicts = [
        Agreement(run_id="r", query_id=query, agrees=agrees, status="ok", reason="", call_id=None)
        for query, agrees in (("1", True), ("2", True), ("3", False))
    ]
    (tmp_path / "agreement.jsonl").write_bytes(encode_records(verdicts))
    labels = [
        AnswerLabel(run_id="r", query_id=query, agrees=agrees, annotator="ada", stratum=stratum)
        for query, agrees, stratum in (("1", True, "agrees"), ("3", True, "disagrees"))
    ]

    found = agree_on_answers(tmp_path, labels)

    assert (found.kind, found.pairs, found.weighted) == ("answer", 2, True)
    assert values(found)["share agreed"] == pytest.approx(2 / 3), "one of two, one of one"


def test_the_same_labels_give_the_same_report(
    collection: Collection, report: AgreementReport
) -> None:
    assert agree(collection, tuple(reversed(LABELS))) == report
    assert AgreementReport.model_validate_json(report.model_dump_json()) == report


@pytest.mark.parametrize(
    "labels",
    [
        [],
        [label("12", "12_0", "elsewhere", 1)],
        [label("13", "12_0", A, 1)],
        [label("123", "123_0", D, 1)],
    ],
)
def test_labels_of_nothing_that_was_judged_are_refused(
    collection: Collection, labels: list[HumanLabel]
) -> None:
    with pytest.raises(CollectionError, match="pair with a label of 'small'"):
        agree(collection, labels)


# --- a graded collection: people and judge are read by its threshold


GRADES = (
    label("12", "12_0", A, 2),
    label("12", "12_0", B, 1),
    label("12", "12_1", A, 1),
    label("12", "12_1", B, 0),
)


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    """12_0 has grade 3 in A and 1 in B, 12_1 has 2 in A and 0 in B; support begins at 2."""
    scale = Scale(name="graded_3", threshold=2)
    contents: Contents = dataclasses.replace(
        CONTENTS,
        judgments=(
            judgment("12_0", A, 3),
            judgment("12_0", B, 1),
            judgment("12_1", A, 2),
            judgment("12_1", B, 0),
        ),
        threshold=2,
    )
    provenance = PROVENANCE.model_copy(update={"scale": scale})
    folder = tmp_path_factory.mktemp("graded") / "collection"
    return write_collection(folder, contents, CHUNKS, provenance)


def test_labels_of_another_scale_are_refused(graded: Collection) -> None:
    with pytest.raises(CollectionError, match=r"a label is 5 .*, and the scale graded_3"):
        agree(graded, [label("12", "12_0", A, 5)])
    with pytest.raises(CollectionError, match="if 1 means support, write 2 or more"):
        agree(graded, [label("12", "12_0", A, 1), label("12", "12_0", B, 0)])


def test_the_grades_themselves_by_hand(graded: Collection) -> None:
    """The judge's 3, 1, 2, 0 against 2, 1, 1, 0: 1 + 1 apart, by chance 18/4 and 32/4 squared."""
    found = values(agree(graded, GRADES))

    assert found["share agreed"] == 3 / 4, "support from 2 on"
    assert found["same grade"] == 2 / 4
    assert found["kappa of grades"] == pytest.approx((2 / 4 - 4 / 16) / (1 - 4 / 16))
    assert found["linear kappa of grades"] == pytest.approx(1 - 2 * 4 / 18)
    assert found["quadratic kappa of grades"] == pytest.approx(1 - 2 * 4 / 32)
    assert (found["kappa from 1 on"], found["kappa from 3 on"]) == (1.0, 0.0)
    assert (found["precision of grade 2"], found["recall of grade 1"]) == (0, 1 / 2)


def test_several_annotators_among_themselves(graded: Collection) -> None:
    """Ada and bob, of four pairs: grades (2, 3), (1, 1), (1, 2), (0, 0).

    Grades 0 to 3 occur 2, 3, 2 and 1 times; the middles of their ranks are 1, 3.5, 6 and 7.5.
    """
    bob = [
        label(each.query_id, each.nugget_id, each.chunk_id, value, "bob")
        for each, value in zip(GRADES, (3, 1, 2, 0), strict=True)
    ]

    found = values(agree(graded, [*GRADES, *bob]), "people")

    assert found["nominal alpha of grades"] == pytest.approx(1 - 7 * 2 / 23)
    assert found["ordinal alpha of grades"] == pytest.approx(1 - 7 * (1.5**2 + 2.5**2) / 312)
    assert found["interval alpha of grades"] == pytest.approx(1 - 7 * 2 / 60)
