"""Answer a question from a context or from memory, split it into parts, and compare answers."""

from collections.abc import Sequence
from typing import Any, get_args

from freshstack_dspy.corpus.shown_chunks import ChunkPart, parts_of
from freshstack_dspy.lm.typed import Prediction, Program
from freshstack_dspy.programs.support_judge import as_nuggets, numbered_nuggets, passage_inputs
from freshstack_dspy.records import (
    Answer,
    Chunk,
    CitedSentence,
    Contradiction,
    Expansion,
    Nugget,
    Query,
    as_query,
)
from freshstack_dspy.signatures.answers import (
    AgreementGrade,
    AnswerClosedBook,
    AnswerQuestion,
    CompareAnswers,
    DecomposeQuestion,
    FindContradictions,
    GradeAgreement,
    ReferenceAnswer,
)
from freshstack_dspy.signatures.question import ShownQuestion


class GeneratedAnswer(Prediction):
    """An answer from a context."""

    answer: Answer
    """Its references are the chunks. It has no sentences where they do not answer the question."""


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
        chunks: Sequence[Chunk | ChunkPart | str],
        *,
        run_id: str = "context",
        sample: int = 1,
        temperature: float | None = None,
    ) -> GeneratedAnswer:
        """Answer.

        Args:
            query: What is asked; its own answer is not shown.
            chunks: The context, in the order in which it is shown. Without any nothing is asked,
                and the status of the answer is `not_retrieved`.
            run_id: Whose context it is.
            sample: Which of several answers from the same context; every one is asked anew.
            temperature: None: that of the model's configuration.
        """
        query, passages = as_query(query), parts_of(chunks)
        sentences: tuple[CitedSentence, ...] = ()
        call_id = None
        if passages:
            # The first sample is the plain request: asking once asks for nothing else.
            config: dict[str, Any] = {"rollout_id": sample} if sample > 1 else {}
            if temperature is not None:
                config["temperature"] = temperature
            reply = self.ask(**passage_inputs(query, passages), config=config)
            call_id = reply.call_id
            sentences = tuple(
                CitedSentence(
                    text=sentence.text.strip(),
                    citations=tuple(number - 1 for number in sentence.citations),
                )
                for sentence in reply.sentences
            )
        answer = Answer(
            run_id=run_id,
            topic_id=query.query_id,
            topic=query.text,
            references=tuple(passage.chunk_id for passage in passages),
            response_length=sum(len(sentence.text.split()) for sentence in sentences),
            answer=sentences,
            sample=sample,
            status="ok" if passages else "not_retrieved",
            call_id=call_id,
        )
        return GeneratedAnswer(answer=answer)


class AnswerComparison(Prediction):
    """Whether an answer agrees with reference answers."""

    agrees: bool
    """From yes, or grade 2, on."""
    score: int
    """The grade, or 1 for yes and 0 for no."""
    reason: str
    call_id: str


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
    ) -> AnswerComparison:
        """Compare; the query's own answer is not shown."""
        reply = self.ask(
            question=ShownQuestion.of(as_query(query)),
            references=[
                ReferenceAnswer(number=n, text=text) for n, text in enumerate(references, 1)
            ],
            answer=answer,
        )
        grades: tuple[str, ...] = get_args(AgreementGrade) if self.graded else ("no", "yes")
        score = grades.index(reply.grade if self.graded else reply.agrees)
        return AnswerComparison(
            agrees=score >= (2 if self.graded else 1),
            score=score,
            reason=reply.reason,
            call_id=reply.call_id,
        )


class Contradictions(Prediction):
    """What an answer contradicts."""

    contradictions: tuple[Contradiction, ...]
    declines: bool
    """Whether it says that it does not answer."""
    call_id: str


class ContradictionFinder(Program):
    """From a question, its nuggets and an answer to the nuggets that the answer contradicts."""

    def __init__(self) -> None:
        super().__init__(FindContradictions)

    def forward(
        self, query: Query | str, nuggets: Sequence[Nugget | str], answer: str
    ) -> Contradictions:
        """Find them; the query's own answer is not shown."""
        query = as_query(query)
        listed = as_nuggets(query, nuggets)
        reply = self.ask(
            question=ShownQuestion.of(query), nuggets=numbered_nuggets(listed), answer=answer
        )
        return Contradictions(
            contradictions=tuple(
                Contradiction(
                    nugget_id=listed[each.nugget - 1].nugget_id,
                    nugget=listed[each.nugget - 1].text,
                    quote=each.quote,
                    reason=each.reason,
                )
                for each in sorted(reply.contradicted, key=lambda each: each.nugget)
            ),
            declines=reply.declines,
            call_id=reply.call_id,
        )


class Expanded(Prediction):
    """What a question is searched for with."""

    expansion: Expansion


class QuestionDecomposer(Program):
    """From a question, without its answer, to at most `limit` sub-questions (FreshStack §3.4)."""

    def __init__(self, limit: int = 5) -> None:
        super().__init__(DecomposeQuestion)
        self.limit = limit

    def forward(self, query: Query | str) -> Expanded:
        """Return an expansion whose texts are the sub-questions."""
        query = as_query(query)
        reply = self.ask(question=ShownQuestion.of(query), limit=self.limit)
        return Expanded(
            expansion=Expansion(
                query_id=query.query_id,
                kind="sub_questions",
                texts=tuple(reply.sub_questions),
                call_id=reply.call_id,
            )
        )


class ClosedBookAnswerer(Program):
    """From a question to a hypothetical answer (FreshStack §3.4; HyDE, arXiv 2212.10496)."""

    def __init__(self) -> None:
        super().__init__(AnswerClosedBook)

    def forward(self, query: Query | str) -> Expanded:
        """Return an expansion whose one text is the answer."""
        query = as_query(query)
        reply = self.ask(question=ShownQuestion.of(query))
        return Expanded(
            expansion=Expansion(
                query_id=query.query_id,
                kind="closed_book_answer",
                texts=(reply.answer,),
                call_id=reply.call_id,
            )
        )
