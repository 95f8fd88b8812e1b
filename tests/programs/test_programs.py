"""Each program alone: what it asks, and the records that it makes of the answer."""

import dspy
import pytest

from freshstack_dspy.errors import ReplyError
from freshstack_dspy.programs.closed_book_answerer import ClosedBookAnswerer
from freshstack_dspy.programs.nuggetizer import Nuggetizer
from freshstack_dspy.programs.passage_decontextualizer import PassageDecontextualizer
from freshstack_dspy.programs.query_synthesizer import QuerySynthesizer
from freshstack_dspy.programs.question_decomposer import QuestionDecomposer
from freshstack_dspy.programs.support_judge import SupportJudge
from freshstack_dspy.records import Chunk, Expansion, Judgment, Nugget

from .conftest import Answering
from .scripted import QUERY


def chunk(path: str, text: str = "text") -> Chunk:
    return Chunk(
        chunk_id=f"xylo/{path}_0_4",
        source="xylo",
        path=path,
        start_byte=0,
        end_byte=4,
        text=text,
        tokens=1,
    )


def said(text: str, quote: str = "") -> dict[str, str]:
    return {"quote": quote, "text": text}


def nugget(number: int) -> Nugget:
    return Nugget(nugget_id=f"n{number}", query_id="q7", text=f"fact {number}", call_id="c")


def test_the_nuggetizer_makes_numbered_nuggets_in_the_models_order(answering: Answering) -> None:
    model = answering(NuggetizeAnswer={"nuggets": [said(" second "), said("first", "`width`")]})
    nuggets = Nuggetizer(limit=4)(QUERY).nuggets

    assert model.inputs == [
        {"question": "Widths? How are they read?", "answer": "Use `width`.", "limit": 4}
    ]
    assert [(made.nugget_id, made.query_id, made.text, made.answer_span) for made in nuggets] == [
        ("q7_0", "q7", "second", None),
        ("q7_1", "q7", "first", (4, 11)),
    ]
    assert [len(made.call_id) for made in nuggets] == [64, 64]


def test_the_decomposer_sees_the_question_only(answering: Answering) -> None:
    model = answering(DecomposeQuestion={"sub_questions": ["one?", "two?"]})
    expansion = QuestionDecomposer(limit=2)(QUERY).expansion

    assert model.inputs == [{"question": "Widths? How are they read?", "limit": 2}]
    assert expansion == Expansion(
        query_id="q7", kind="sub_questions", texts=("one?", "two?"), call_id=expansion.call_id
    )


def test_the_closed_book_answerer_sees_the_question_only(answering: Answering) -> None:
    model = answering(AnswerClosedBook={"answer": "Call `width`."})
    expansion = ClosedBookAnswerer()(QUERY).expansion

    assert model.inputs == [{"question": "Widths? How are they read?"}]
    assert expansion == Expansion(
        query_id="q7",
        kind="closed_book_answer",
        texts=("Call `width`.",),
        call_id=expansion.call_id,
    )


def test_the_decontextualizer_gives_passages(answering: Answering) -> None:
    model = answering(DecontextualizePassages={"passages": ["one", "two"]})
    prediction = PassageDecontextualizer(limit=2)("A document.", title="a.md")

    assert model.inputs == [{"title": "a.md", "document": "A document.", "limit": 2}]
    assert (prediction.passages, len(prediction.call_id)) == (["one", "two"], 64)


def test_the_synthesizer_gives_questions_with_answers(answering: Answering) -> None:
    model = answering(SynthesizeQueries={"queries": [{"question": "q?", "answer": "a"}]})
    prediction = QuerySynthesizer(limit=1)(
        [chunk("a.py", "one"), chunk("b.py", "two")], style_examples=("Why?",)
    )

    assert model.inputs == [
        {
            "passages": [
                {"path": "xylo/a.py", "text": "one"},
                {"path": "xylo/b.py", "text": "two"},
            ],
            "style_examples": ["Why?"],
            "limit": 1,
        }
    ]
    (query,) = prediction.queries
    assert (query.text, query.answer, query.origin) == ("q?", "a", "synthetic")
    assert query.seed_chunk_ids == ("xylo/a.py_0_4", "xylo/b.py_0_4")
    assert (query.call_id, len(query.call_id)) == (prediction.call_id, 64)


@pytest.mark.parametrize(
    ("program", "answer"),
    [
        (Nuggetizer(limit=1), {"NuggetizeAnswer": {"nuggets": [said("a"), said("b")]}}),
        (QuestionDecomposer(limit=1), {"DecomposeQuestion": {"sub_questions": ["a", "b"]}}),
    ],
)
def test_more_than_the_limit_is_no_answer(
    answering: Answering, program: dspy.Module, answer: dict[str, object]
) -> None:
    answering(**answer)

    with pytest.raises(ReplyError, match=r"at most 1 .* are allowed, and there are 2"):
        program(QUERY)


def test_the_judge_labels_every_pair_by_the_chunks_own_verdict(answering: Answering) -> None:
    """The verdicts come in another order than the chunks were given in."""
    model = answering(
        JudgeSupport={
            "verdicts": [
                {"chunk": 2, "reason": "says 1 and 3", "supported": [3, 1]},
                {"chunk": 1, "reason": "says nothing", "supported": []},
            ]
        }
    )
    chunks = [chunk("a.py", "def f(): ..."), chunk("b.md", "# b")]
    judgments = SupportJudge()(QUERY, [nugget(5), nugget(6), nugget(7)], chunks).judgments
    (call_id,) = {made.call_id for made in judgments}

    assert model.inputs == [
        {
            "question": "Widths? How are they read?",
            "nuggets": [
                {"number": 1, "text": "fact 5"},
                {"number": 2, "text": "fact 6"},
                {"number": 3, "text": "fact 7"},
            ],
            "chunks": [
                {"number": 1, "path": "xylo/a.py", "text": "def f(): ..."},
                {"number": 2, "path": "xylo/b.md", "text": "# b"},
            ],
        }
    ]
    assert judgments == tuple(
        Judgment(
            query_id="q7",
            nugget_id=f"n{number}",
            chunk_id=chunk_id,
            label=label,
            status="ok",
            reason=reason,
            call_id=call_id,
        )
        for chunk_id, reason, labels in (
            ("xylo/a.py_0_4", "says nothing", (0, 0, 0)),
            ("xylo/b.md_0_4", "says 1 and 3", (1, 0, 1)),
        )
        for number, label in zip((5, 6, 7), labels, strict=True)
    )
