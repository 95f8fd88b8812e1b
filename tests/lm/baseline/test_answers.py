"""Answers by extraction, and answers compared by their words."""

from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy.lm.baseline.answers import SENTENCES, answer, compare
from freshstack_dspy.lm.baseline.replies import reply
from freshstack_dspy.lm.typed import answer_model, validating_against
from freshstack_dspy.signatures.answer_question import AnswerQuestion

PASSAGES = {
    1: "# Care\n\nGrease protects the bearing in winter. The cover is blue.",
    2: "The lighthouse was built in 1901. Its lens weighs two tons.",
    3: "Grease protects the bearing in winter.\n\nRust comes from salt water.",
}
TEXTS = st.text(st.characters(codec="utf-8"), max_size=120)


def test_what_the_question_asks_is_extracted_with_every_passage_that_has_it() -> None:
    found = answer("How do I keep the bearing from rust in winter?", PASSAGES)

    assert {"text": "Grease protects the bearing in winter.", "citations": [1, 3]} in found
    assert all(2 not in one["citations"] for one in found)


def test_passages_of_something_else_answer_nothing() -> None:
    outputs = reply(
        "AnswerQuestion",
        {
            "question": "How do I tune a violin?",
            "passages": [{"number": 1, "path": "a.md", "text": PASSAGES[2]}],
        },
    )

    assert outputs == {"answerable": False, "sentences": []}


@given(TEXTS, st.lists(TEXTS, max_size=4))
def test_every_answer_is_valid_and_always_the_same(question: str, texts: list[str]) -> None:
    inputs = {
        "question": question,
        "passages": [{"number": n, "path": "a", "text": text} for n, text in enumerate(texts, 1)],
    }
    outputs = reply("AnswerQuestion", inputs)

    with validating_against(inputs):
        answer_model(AnswerQuestion).model_validate(outputs, context=inputs)
    assert len(outputs["sentences"]) <= SENTENCES
    assert reply("AnswerQuestion", inputs) == outputs


def test_an_answer_that_repeats_a_reference_agrees() -> None:
    references = {1: "August 1901", 2: "the Canadian Pacific Railway"}
    question = "When was the lighthouse built?"

    assert compare(question, references, "It was built in August 1901.")["agrees"] == "yes"
    assert compare(question, references, "By the Canadian Pacific Railway")["agrees"] == "yes"
    assert compare(question, references, "In 1902.")["agrees"] == "no"
