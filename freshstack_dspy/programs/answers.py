"""Answer a question from the chunks of a context, with citations; compare answers."""

from collections.abc import Sequence
from typing import Any, get_args

import dspy

from freshstack_dspy.lm.typed import Program
from freshstack_dspy.programs.support_judge import numbered, whole
from freshstack_dspy.records import Answer, Chunk, CitedSentence, Query, as_query
from freshstack_dspy.signatures.answers import (
    AgreementGrade,
    AnswerQuestion,
    AnswerSentence,
    CompareAnswers,
    GradeAgreement,
    ReferenceAnswer,
)
from freshstack_dspy.signatures.checks import ShownQuestion


class AnswerGenerator(Program):
    """From a question and a context to an answer whose sentences cite the context (RAG).

    It is the generator M of LLM-retEval, A = M(q, {r}) for all r of a context (Alinejad, Kumar and
    Vahdat, arXiv 2406.06458, §2.1), given all of them at once.
    """

    def __init__(self) -> None:
        super().__init__(AnswerQuestion)

    def forward(
        self,
        query: Query | str,
        chunks: Sequence[Chunk],
        *,
        run_id: str = "context",
        sample: int = 1,
        temperature: float | None = None,
    ) -> dspy.Prediction:
        """Answer.

        Args:
            query: What is asked; its own answer is not shown.
            chunks: The context, in the order in which it is shown.
            run_id: Whose context it is.
            sample: Of several answers from the same context which; every one is asked anew.
            temperature: None: that of the model's configuration.

        Returns:
            A prediction with `answer`, an `Answer` whose references are the chunks. It has no
            sentences where they do not answer the question. Without chunks nothing is asked, and
            its status is `not_retrieved`.
        """
        query = as_query(query)
        sentences: Sequence[AnswerSentence] = ()
        call_id = None
        if chunks:
            # The first sample is the plain request: asking once asks for nothing else.
            config: dict[str, Any] = {"rollout_id": sample} if sample > 1 else {}
            if temperature is not None:
                config["temperature"] = temperature
            reply = self.ask(**generator_inputs(query, chunks), config=config)
            sentences, call_id = reply.sentences, reply.call_id
        answer = Answer(
            run_id=run_id,
            topic_id=query.query_id,
            topic=query.text,
            references=tuple(chunk.chunk_id for chunk in chunks),
            response_length=sum(len(sentence.text.split()) for sentence in sentences),
            answer=tuple(
                CitedSentence(
                    text=sentence.text.strip(),
                    citations=tuple(number - 1 for number in sentence.citations),
                )
                for sentence in sentences
            ),
            sample=sample,
            status="ok" if chunks else "not_retrieved",
            call_id=call_id,
        )
        return dspy.Prediction(answer=answer)


def generator_inputs(query: Query, chunks: Sequence[Chunk]) -> dict[str, Any]:
    """The question that a generator is asked: numbers are those of the places, from 1."""
    return {
        "question": ShownQuestion.of(query),
        "passages": numbered([whole(chunk) for chunk in chunks]),
    }


class AnswerComparer(Program):
    """From a question, its reference answers and another answer to yes or no, or to a grade.

    LLM-retEval's third step (Alinejad, Kumar and Vahdat, arXiv 2406.06458, §2.2): all references in
    one call, and agreeing with any of them is enough.

    The paper's question (Appendix A, Figure 3) asks whether all information of a reference is in
    the prediction; it was written for answers of five tokens. For answers of several sentences ours
    asks whether what answers the question is the same, and for a reason. Where nuances matter, the
    paper recommends grades (§2.2).
    """

    def __init__(self, *, graded: bool = False) -> None:
        """Make a comparer; `graded`: with a grade from 0, none, to 3, full, in place of yes or no."""
        super().__init__(GradeAgreement if graded else CompareAnswers)
        self.graded = graded

    def forward(
        self, query: Query | str, references: Sequence[str], answer: str
    ) -> dspy.Prediction:
        """Compare; the query's own answer is not shown.

        Returns:
            A prediction with `agrees`, True or False, `score` (a grade, or 1 for yes and 0 for no),
            `reason` and `call_id`. From grade 2 on an answer agrees.
        """
        query, numbered_from_1 = as_query(query), enumerate(references, 1)
        reply = self.ask(
            question=ShownQuestion.of(query),
            references=[ReferenceAnswer(number=n, text=text) for n, text in numbered_from_1],
            answer=answer,
        )
        grades: tuple[str, ...] = get_args(AgreementGrade) if self.graded else ("no", "yes")
        score = grades.index(reply.grade if self.graded else reply.agrees)
        return dspy.Prediction(
            agrees=score >= (2 if self.graded else 1),
            score=score,
            reason=reply.reason,
            call_id=reply.call_id,
        )
