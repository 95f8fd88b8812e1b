"""A sample of judgments: strata, probabilities, and what a larger one keeps."""

import dataclasses
from collections import Counter
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy import Collection, FreshstackError, HumanLabel, Judgment, sample
from freshstack_dspy.calibration.labels import pair_of
from freshstack_dspy.calibration.sampling import (
    WHOLE_QUERIES,
    allocated,
    draw,
    read_tasks,
    strata,
    weights,
)
from freshstack_dspy.files import encode_records
from freshstack_dspy.records import Agreement, Answer, CitedSentence, LabelTask, Vote
from tests.collection.small import A, B, judgment, write_small

from .people import label


def voted(*labels: tuple[int, int, int]) -> tuple[Vote, ...]:
    """Votes of vote, part and label."""
    return tuple(
        Vote(vote=vote, part=part, label=given, status="ok", reason="", call_id=None)
        for vote, part, given in labels
    )


def changed(judgment: Judgment, **fields: object) -> Judgment:
    return judgment.model_copy(update=fields)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    return write_small(tmp_path_factory.mktemp("small") / "collection")


def test_the_stratum_is_the_label_and_whether_the_judge_is_unsure(small: Collection) -> None:
    """Parts of one vote may differ; failed pairs are in none; without quotes none is missed."""
    first, second, third, fourth, *others = small.judgments
    assert set(strata(small).values()) == {"label 0", "label 1"}
    unsure = dataclasses.replace(
        small,
        judgments=(
            changed(first, evidence=((0, 2),), votes=voted((1, 1, 0), (1, 2, 1), (2, 1, 1))),
            changed(second, evidence=((0, 2),), votes=voted((1, 1, 0), (2, 1, 1), (3, 1, 1))),
            third,
            fourth,
            *others,
        ),
    )
    other = dataclasses.replace(small, judgments=(changed(first, label=0), *small.judgments[1:]))

    found = strata(unsure, against=other)

    assert found == {
        ("12", "12_0", A): "label 1, judges differ",
        ("12", "12_0", B): "label 1, unsure",
        ("12", "12_1", A): "label 0",
        ("12", "12_1", B): "label 1, unsure",
        ("123", "123_0", A): "label 1, unsure",
        ("123", "123_0", B): "label 0",
        ("5", "5_0", A): "label 0",
    }
    assert strata(unsure)["12", "12_0", A] == "label 1"


def sampled(query: str, nugget: str, chunk: str, stratum: str, probability: float) -> HumanLabel:
    update = {"stratum": stratum, "probability": probability}
    return label(query, nugget, chunk, 1).model_copy(update=update)


def test_a_labelled_pair_counts_for_those_of_its_stratum(small: Collection) -> None:
    found = strata(small)  # three pairs of label 0, four of label 1
    one = sampled("12", "12_0", A, "label 1", 0.25)
    two = sampled("12", "12_0", B, "label 1", 0.5)

    assert weights([one, two, label("5", "5_0", A, 1)], found, pair_of) == {
        ("12", "12_0", A): 2,
        ("12", "12_0", B): 2,
        ("5", "5_0", A): 1,
    }
    rejudged = dict.fromkeys(found, "label 0")
    assert set(weights([one, two], rejudged, pair_of).values()) == {2}, "1 / .5"
    whole = sampled("5", "5_0", A, WHOLE_QUERIES, 1 / 3)
    assert weights([whole], found, pair_of) == {("5", "5_0", A): 3}


SIZES = {"label 0": 900, "label 1": 90, "label 1, unsure": 30, "label 2": 3}


def test_every_stratum_has_its_floor_and_unsure_ones_more() -> None:
    found = allocated(SIZES, 120, unsure={"label 1, unsure"})

    assert found["label 2"] == 3
    # 30 : 9.5 : 11, the roots of the sizes and twice that of the unsure one
    assert (found["label 0"], found["label 1"], found["label 1, unsure"]) == (70, 22, 25)
    assert allocated(SIZES, 5000) == SIZES
    halves = allocated({"a, by chance with a comma": 50, "b": 50}, 40)
    assert set(halves.values()) == {20}


@given(
    st.dictionaries(st.sampled_from(["a", "b", "c, unsure", "d"]), st.integers(1, 60), min_size=1),
    st.integers(1, 200),
)
def test_a_larger_limit_draws_one_more(sizes: dict[str, int], limit: int) -> None:
    smaller, larger = allocated(sizes, limit), allocated(sizes, limit + 1)

    assert smaller.total() == min(limit, sum(sizes.values()))
    assert smaller <= larger
    assert all(larger[name] <= size for name, size in sizes.items())


@pytest.fixture(scope="module")
def many(small: Collection) -> Collection:
    """Thirty queries of two nuggets and four chunks; every fifth pair is supported."""
    ids = [(f"{q}", f"{q}_{n}", f"c{c}") for q in range(30) for n in range(2) for c in range(4)]
    judgments = tuple(
        judgment(nugget, chunk, int(place % 5 == 0)) for place, (_, nugget, chunk) in enumerate(ids)
    )
    return dataclasses.replace(small, judgments=judgments)


def pairs(tasks: Iterable[LabelTask]) -> list[tuple[str | None, ...]]:
    return [(task.query_id, task.nugget_id, task.chunk_id) for task in tasks]


def test_a_sample_is_added_to_and_keeps_what_was_drawn(many: Collection, tmp_path: Path) -> None:
    """Tasks of a query and nugget are together; the others of the file stay too."""
    out = tmp_path / "tasks.jsonl"
    sample(many, out, "nuggets", 2)
    first = sample(many, out, limit=30)
    header, before = read_tasks(out, many)
    second = sample(many, out, limit=60)
    _, after = read_tasks(out, many)

    assert (first.kept, second.kept, len(second.tasks)) == (0, 30, 60)
    assert set(pairs(before)) < set(pairs(after))
    assert [task.kind for task in after[:3]] == ["nuggets", "nuggets", "support"]
    assert after[2:] == second.tasks == draw(many, limit=60).tasks
    drawn = Counter((task.stratum, task.probability) for task in second.tasks)
    assert second.strata == {"label 0": (192, 40), "label 1": (48, 20)}
    assert drawn == {("label 0", 40 / 192): 40, ("label 1", 20 / 48): 20}
    groups = [key for key, _ in groupby(second.tasks, lambda one: (one.query_id, one.nugget_id))]
    assert len(groups) == len(set(groups))
    assert sample(many, out, limit=10).kept == 60, "a smaller one takes nothing away"
    assert header.content == many.manifest.content_hash


def test_each_pair_is_drawn_with_its_probability(many: Collection) -> None:
    times: Counter[tuple[str | None, ...]] = Counter()
    for seed in range(100):
        times.update(pairs(draw(many, limit=48, seed=seed).tasks))

    found = strata(many)
    chance = {task.stratum: task.probability for task in draw(many, limit=48).tasks}
    for name, probability in chance.items():
        counts = [times[pair] / 100 for pair, of in found.items() if of == name]
        assert fmean(counts) == pytest.approx(probability)
        assert max(abs(count - probability) for count in counts) < 0.2, "four standard deviations"


def test_whole_queries_are_drawn_with_all_their_pairs(many: Collection, tmp_path: Path) -> None:
    out = tmp_path / "tasks.jsonl"
    first = sample(many, out, limit=3, purpose="runs")

    assert {task.stratum for task in first.tasks} == {WHOLE_QUERIES}
    assert {task.probability for task in first.tasks} == {3 / 30}
    assert set(Counter(task.query_id for task in first.tasks).values()) == {8}
    assert sample(many, out, limit=4, purpose="runs").kept == 24


def test_a_file_of_another_sample_stays_as_it_is(many: Collection, tmp_path: Path) -> None:
    out = tmp_path / "tasks.jsonl"
    sample(many, out, limit=5)
    before = out.read_bytes()
    manifest = many.manifest.model_copy(update={"content_hash": "f" * 64})
    edited = dataclasses.replace(many, manifest=manifest)

    for said, collection, options in (
        ("drawn with seed 0; take that", many, {"limit": 9, "seed": 1}),
        ("drawn in another way", many, {"limit": 9, "purpose": "runs"}),
        ("and 'small' has content ffffffffffff; draw from", edited, {}),
    ):
        with pytest.raises(FreshstackError, match=said):
            sample(collection, out, **options)
    assert out.read_bytes() == before


@pytest.mark.parametrize(
    "lines",
    [
        b'{"query_id":"1","nugget_id":"1_0","chunk_id":"c","label":1,"annotator":"ada"}\n',
        b"",
        b"query_id,label\n",
        b'{"collection":"small","content":"0"}\n{"kind":"colour","query_id":"1"}\n',
        b'{"schema_version":7,"collection":"small","content":"0"}\n',
    ],
)
def test_a_sample_is_not_added_to_what_is_no_tasks_file(
    many: Collection, tmp_path: Path, lines: bytes
) -> None:
    out = tmp_path / "old.jsonl"
    out.write_bytes(lines)

    with pytest.raises(FreshstackError, match=r"old\.jsonl") as caught:
        sample(many, out, limit=5)
    assert str(caught.value).isprintable(), "one line"
    assert out.read_bytes() == lines


def test_what_cannot_be_drawn_is_said(many: Collection, tmp_path: Path) -> None:
    with pytest.raises(FreshstackError, match="those of kind 'nuggets' not"):
        draw(many, "nuggets", purpose="runs")
    with pytest.raises(FreshstackError, match="needs answers: the folder"):
        sample(many, tmp_path / "other.jsonl", "answer")
    with pytest.raises(FreshstackError, match="'small' has nothing of kind 'support' to label"):
        draw(dataclasses.replace(many, judgments=()))


def test_answers_are_drawn_with_their_texts(many: Collection, tmp_path: Path) -> None:
    def answer(run: str, query: str, text: str, number: int = 1) -> Answer:
        return Answer(
            run_id=run, topic_id=query, topic="How?", references=(), response_length=1,
            answer=(CitedSentence(text=text, citations=()),), sample=number, status="ok",
            call_id=None,
        )  # fmt: skip

    def compared(query: str, agrees: bool | None) -> Agreement:
        status: Any = "no_gold_answer" if agrees is None else "ok"
        return Agreement(
            run_id="bm25", query_id=query, agrees=agrees, status=status, reason="", call_id=None
        )

    records: dict[str, list[Any]] = {
        "answers": [answer("bm25", "12", "Twice."), answer("bm25", "5", "Once.")],
        "gold_answers": [answer("gold", "12", "Two."), answer("gold", "12", "2.", 2)],
        "agreement": [compared("12", agrees=True), compared("5", agrees=None)],
    }
    for name, lines in records.items():
        (tmp_path / f"{name}.jsonl").write_bytes(encode_records(lines))

    [task] = draw(many, "answer", answers=tmp_path).tasks

    assert (task.query_id, task.run_id, task.stratum) == ("12", "bm25", "agrees")
    assert (task.answer, task.gold_answer) == ("Twice.", "Two.\n\n– or –\n\n2.")
