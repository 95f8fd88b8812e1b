"""From labels to examples: majorities, ties, batches, texts, and the split by query."""

from dataclasses import replace
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import dspy
import pytest
from dspy.lm15 import Message
from hypothesis import given, settings
from hypothesis import strategies as st

import freshstack_dspy as fs
from freshstack_dspy import Collection, HumanLabel
from freshstack_dspy.calibration.examples import LabelledExample, judge_examples, split_by_query
from freshstack_dspy.errors import CollectionError, ConfigError
from freshstack_dspy.files import encode_records
from freshstack_dspy.records import AnswerLabel, ListedNugget, NuggetList, Scale
from freshstack_dspy.signatures.judge_support import verdicts_on
from tests.collection.small import A, write_small

from .people import FACTS, Pupil, label, synthetic_labels

label_of = label


def with_texts(one: HumanLabel, **texts: str) -> HumanLabel:
    given = {"question": "How?", "nugget": f"fact {one.nugget_id}", "chunk": f"text {one.chunk_id}"}
    return one.model_copy(update=given | texts)


def said(example: LabelledExample) -> Any:
    """What people said, as the records of the judge's signature."""
    people = dict(example.people)
    people["verdicts"] = verdicts_on(example.scale.name).validate_python(people["verdicts"])
    return SimpleNamespace(**people)


def verdicts(example: LabelledExample) -> dict[str, set[str]]:
    """By the text of each chunk, the texts of the nuggets that it supports."""
    content = said(example)
    nuggets = {nugget["number"]: nugget["text"] for nugget in content.nuggets}
    chunks = {chunk["number"]: chunk["text"] for chunk in content.chunks}
    return {
        chunks[verdict.chunk]: {nuggets[number] for number in nuggets if verdict.label_of(number)}
        for verdict in content.verdicts
    }


def test_an_example_is_a_call_of_the_judge_with_what_people_said() -> None:
    (example,) = judge_examples(synthetic_labels(1), None)

    assert example.query.query_id == "q0"
    assert example.people["question"] == {"body": "What is new in version 0?"}
    assert [nugget["text"] for nugget in example.people["nuggets"]] == list(FACTS)
    assert [chunk["path"] for chunk in example.people["chunks"]] == ["c0a", "c0b", "c0c"]
    assert list(verdicts(example).values()) == [{FACTS[0]}, {FACTS[1]}, set()]
    assert example.inputs().keys() == ["query", "nuggets", "chunks"]


def test_the_majority_counts_and_a_tie_is_left_out() -> None:
    votes = {"a": (1, 1, 0), "b": (0, 1, 0), "c": (1, 0), "d": (2,), "e": (1, 0, 1, 0)}
    labels = [
        with_texts(label("1", "n", chunk_id, value, f"annotator {number}"))
        for chunk_id, values in votes.items()
        for number, value in enumerate(values)
    ]

    (example,) = judge_examples(labels, None, batch=9)

    assert verdicts(example) == {"text a": {"fact n"}, "text b": set(), "text d": {"fact n"}}


@pytest.mark.parametrize(
    ("values", "scale", "label"),
    [
        ((1,), Scale(), 2),  # yes and no: yes is full support
        ((1, 2, 2), Scale(), 2),
        ((1, 1, 2), Scale(), 1),
        ((1, 2), Scale(), 1),
        ((0, 0, 2), Scale(), 0),
        ((1, 1, 2), Scale(threshold=2), 1),
        ((1, 2, 2), Scale(name="binary"), 1),
    ],
)
def test_what_people_said_is_what_the_judge_of_a_scale_says(
    values: tuple[int, ...], scale: Scale, label: int
) -> None:
    given = [
        with_texts(
            label_of("1", "n", "a", value, f"annotator {number}"), chunk="No. It is a fact n."
        )
        for number, value in enumerate(values)
    ]

    (example,) = judge_examples(given, None, scale, batch=9)

    (verdict,) = said(example).verdicts
    assert verdict.label_of(1) == label
    quotes = ["No. It is a fact n."] if label and scale.name == "support" else []
    assert verdict.quotes_of(1) == quotes


def test_chunks_go_together_that_were_labelled_for_the_same_nuggets() -> None:
    """The judge answers for every pair, so every pair of an example must have a label."""
    pairs = [("n1", "a"), ("n2", "a"), ("n1", "b"), ("n2", "b"), ("n1", "c")]
    labels = [with_texts(label("1", nugget_id, chunk_id, 1)) for nugget_id, chunk_id in pairs]

    found = [
        ([nugget.text for nugget in one.nuggets], [c["path"] for c in one.people["chunks"]])
        for one in judge_examples(labels, None, batch=9)
    ]

    assert found == [(["fact n1", "fact n2"], ["a", "b"]), (["fact n1"], ["c"])]


def test_a_text_that_is_missing_or_is_two_is_a_fault() -> None:
    one = with_texts(label("1", "n", "a", 1))
    other = with_texts(label("1", "n", "a", 1, "bob"), nugget="something else")
    with pytest.raises(CollectionError, match="two labels give nugget 'n' different texts"):
        judge_examples([one, other], None)
    missing = one.model_copy(update={"chunk": None})
    with pytest.raises(CollectionError, match="text of chunk 'a': give each label its 'chunk'"):
        judge_examples([missing], None)


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    return write_small(tmp_path_factory.mktemp("small") / "collection")


def test_the_collections_texts_go_before_the_labels_and_what_people_marked_is_quoted(
    collection: Collection,
) -> None:
    """The judge of a build sees them, with their paths; the labels' may be cut or tidied."""
    given = [label("12", "12_0", A, 1).model_copy(update={"evidence": ((0, 3),)})]
    given += [with_texts(label("12", "12_1", A, 1))]

    (example,) = judge_examples(given, collection)

    assert example.people["question"] == {
        "title": "How?", "body": "It fails.", "asked": "2026-01-02", "tags": ["api"],
    }  # fmt: skip
    assert [chunk["path"] for chunk in example.people["chunks"]] == ["docs/x"]
    assert verdicts(example) == {"alpha": {"fact 12_0", "fact 12_1"}}
    (verdict,) = said(example).verdicts
    assert [verdict.quotes_of(number) for number in (1, 2)] == [["alp"], ["alpha"]]


@settings(deadline=None, max_examples=30)
@given(st.integers(3, 12), st.randoms())
def test_a_split_is_by_query_never_empty_and_the_same_however_the_labels_stand(
    queries: int, chance: Random
) -> None:
    examples = judge_examples(synthetic_labels(queries), None, batch=2)
    shuffled = list(examples)
    chance.shuffle(shuffled)

    split, again = split_by_query(examples), split_by_query(shuffled)
    train, dev, test = sides = [{one.query.query_id for one in part} for part in split]

    assert all(sides)
    assert len(train | dev | test) == len(train) + len(dev) + len(test) == queries
    assert (len(test), len(dev)) == (max(1, round(queries * 0.4)), max(1, round(queries * 0.2)))
    assert sorted([*split.train, *split.dev, *split.test], key=examples.index) == examples
    assert [{one.query.query_id for one in part} for part in again] == sides


def test_questions_that_ask_nearly_the_same_are_on_one_side() -> None:
    """Else the test would be on what was trained; such two alone cannot be split."""
    asked = {
        "1": "How do I index a BAM file with samtools on a cluster?",
        "2": "How do I index a BAM file with samtools on the cluster",
        "3": "Why is the dial stuck?",
        "4": "Which aligner takes the longest reads?",
    }
    for prefix in "abcde":  # other ids, another order
        labels = [
            with_texts(label(prefix + query_id, f"n{query_id}", "a", 1), question=question)
            for query_id, question in asked.items()
        ]
        split = split_by_query(judge_examples(labels, None, batch=2))
        sides = [{one.query.query_id for one in part} for part in split]

        assert all(sides)
        assert any({f"{prefix}1", f"{prefix}2"} <= side for side in sides)
    with pytest.raises(CollectionError, match="do not ask nearly the same"):
        split_by_query(judge_examples(labels[:3], None, batch=2))


def test_labels_are_examples_for_any_optimizer_of_dspy(tmp_path: Path) -> None:
    """Public names alone: from a file of labels to a judge that DSPy compiled and measured."""
    (tmp_path / "labels.jsonl").write_bytes(encode_records(synthetic_labels(8)))
    train, dev, test = fs.examples(tmp_path / "labels.jsonl")

    assert [len(part) for part in (train, dev, test)] == [3, 2, 3]
    asked = [{one.query.query_id for one in part} for part in (train, dev, test)]
    assert len(set[str]().union(*asked)) == 8
    assert test[0].inputs().keys() == ["query", "nuggets", "chunks"]

    class Writer(Pupil):
        """Writes an instruction as DSPy's GEPA asks for it."""

        def complete(self, request: Any) -> Any:
            response = super().complete(request)
            if "new_instruction" not in str(response.message.text):
                return response
            text = Message.assistant('{"new_instruction": "Be careful."}')
            return replace(response, message=text)

    lm = fs.connect(fs.ModelConfig(name="openai/x"), store=tmp_path / "store", provider=Writer())
    judge = fs.SupportJudge()
    with dspy.context(lm=lm):
        evaluate = dspy.Evaluate(devset=test, metric=fs.agreement, display_progress=False)
        before = evaluate(judge).score
        optimizer = dspy.GEPA(metric=fs.agreement, reflection_lm=lm, max_metric_calls=30)
        tuned = optimizer.compile(judge, trainset=train, valset=dev)
        after = evaluate(tuned).score
        wrong = fs.agreement(test[0], judge(**test[0].inputs()))

    assert before == pytest.approx(100 * 4 / 6, abs=0.01)
    assert after == 100
    assert wrong.score == 4 / 6
    assert "a person's label is 2, and the answer's 0" in wrong.feedback
    assert fs.agreement(test[0], None).score == 0


def test_examples_of_compared_answers_and_of_lists_of_nuggets() -> None:
    answers = [
        AnswerLabel(
            query_id=str(n),
            annotator="ada",
            run_id="a",
            agrees=False,
            question=f"What of {n * 7}?",
            answer="A dial.",
            gold_answer="A bell.",
        )
        for n in range(4)
    ]
    example = fs.examples(answers).train[0]
    assert example.inputs().keys() == ["query", "references", "answer"]
    answer = dspy.Prediction(agrees=True, reason="so it seems")
    assert fs.agreement(example, answer).score == 0

    collection = fs.Collection.of(
        queries=[
            {"query_id": str(n), "title": f"What of {n * 7}?", "body": "", "answer": "It rings."}
            for n in range(4)
        ],
        nuggets=[{"nugget_id": "0_0", "query_id": "0", "text": "It rings."}],
        judgments=[{"nugget_id": "0_0", "chunk_id": "a", "label": 1}],
        chunks=[{"id": "a", "text": "It rings."}],
    )
    lists = [
        NuggetList(query_id=str(n), annotator="ada", nuggets=(ListedNugget(text="It rings."),))
        for n in range(4)
    ]
    example = fs.examples(lists, collection).train[0]
    found = fs.Nugget(nugget_id="0_0", query_id="0", text="It rings.", call_id=None)
    assert fs.agreement(example, dspy.Prediction(nuggets=(found,))).score == 1
    assert "Missing" in fs.agreement(example, dspy.Prediction(nuggets=())).feedback
    with pytest.raises(ConfigError, match="name it"):
        fs.examples(lists)
