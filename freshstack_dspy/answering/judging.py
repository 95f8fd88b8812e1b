"""Judging answers: the nuggets that they support or contradict, and how far citations support them."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from freshstack_dspy.answering.comparing import RecordAndFailure, own_or
from freshstack_dspy.corpus.shown_chunks import as_chunk
from freshstack_dspy.errors import ReplyError
from freshstack_dspy.formats.nuggetizer import assignment
from freshstack_dspy.programs.answers import ContradictionFinder
from freshstack_dspy.recipes.judge import ToJudge, grouped, judge
from freshstack_dspy.recipes.session import Session
from freshstack_dspy.records import (
    Answer,
    AnsweringFailure,
    AnswerKind,
    AssignedAnswer,
    AssignedNugget,
    Assignment,
    CheckedAnswer,
    Chunk,
    JudgedAnswer,
    JudgedCitation,
    JudgedSentence,
    Nugget,
    Query,
)

_SUPPORT: dict[Assignment, Literal[-1, 0, 1, 2]] = {
    "support": 2,
    "partial_support": 1,
    "not_support": 0,
    "failed": -1,
}


def assign(
    session: Session,
    answers: Sequence[Answer],
    queries: Mapping[str, Query],
    nuggets: Mapping[str, Sequence[Nugget]],
) -> tuple[list[AssignedAnswer], list[AnsweringFailure]]:
    """Judge which nuggets each answer supports, as `[judge]` judges a chunk.

    An answer that says that there is none supports nothing. If the answer failed, or its run
    retrieved nothing, every nugget is `failed`.
    """
    pairs = [
        ToJudge(
            queries[answer.topic_id],
            nuggets[answer.topic_id],
            [as_chunk(answer.run_id, answer.text)],
        )
        for answer in answers
        if answer.is_answered
    ]
    judgments = judge(session, session.recipe.support_judge, pairs, step="assignment")
    by_pair = {
        (judgment.chunk_id, judgment.nugget_id): judgment for judgment in judgments.judgments
    }

    def assigned(answer: Answer, nugget: Nugget) -> AssignedNugget:
        """A nugget with nuggetizer's word for its label, or what is known without the judge."""
        judgment = by_pair.get((answer.run_id, nugget.nugget_id))
        if judgment is not None:
            label, reason = judgment.label, judgment.reason
        elif answer.status == "ok":
            label, reason = 0, "there is no answer"
        else:
            label, reason = None, f"the answer is {answer.status}"
        return AssignedNugget(
            text=nugget.text,
            importance=nugget.importance or "vital",
            assignment=assignment(label, session.config.judge.graded),
            nugget_id=nugget.nugget_id,
            rated=nugget.importance is not None,
            label=label,
            reason=reason,
            call_id=judgment and judgment.call_id,
            evidence=judgment.evidence if judgment else (),
        )

    answered = [
        AssignedAnswer(
            query=queries[answer.topic_id].text,
            qid=answer.topic_id,
            answer_text=answer.text,
            response_length=answer.response_length,
            run_id=answer.run_id,
            nuggets=tuple(assigned(answer, nugget) for nugget in nuggets[answer.topic_id]),
            status=answer.status,
        )
        for answer in answers
    ]
    failures = [
        AnsweringFailure(**{**dict(failure), "chunk_ids": ()}, run_id=failure.chunk_ids[0])
        for failure in judgments.failures
    ]
    return answered, failures


def judge_citations(
    session: Session,
    answers: Sequence[Answer],
    queries: Mapping[str, Query],
    chunks: Mapping[str, Mapping[str, Chunk]],
) -> tuple[list[JudgedAnswer], list[AnsweringFailure]]:
    """Judge how far each cited chunk supports its sentence, as if that were a nugget.

    The chunks of an answer that the same sentences cite are in one call. `chunks` has the chunks of
    each query by id; a citation of any other chunk has no label.
    """
    answers = [answer for answer in answers if answer.is_answered]
    pairs: list[ToJudge] = []
    runs: dict[str, str] = {}
    for answer in answers:
        sentences = [
            Nugget(
                query_id=answer.topic_id,
                nugget_id=_sentence_id(answer, place),
                text=sentence.text,
                call_id=answer.call_id,
            )
            for place, sentence in enumerate(answer.answer)
        ]
        runs |= {sentence.nugget_id: answer.run_id for sentence in sentences}
        cited = {
            (nugget.nugget_id, answer.references[number])
            for nugget, sentence in zip(sentences, answer.answer, strict=True)
            for number in sentence.citations
        }
        texts = chunks.get(answer.topic_id, {})
        shown = [texts[chunk_id] for chunk_id in answer.references if chunk_id in texts]
        pairs += grouped(queries[answer.topic_id], sentences, shown, cited)
    judgments = judge(session, session.recipe.support_judge, pairs, step="citation", once=True)
    by_pair = {
        (judgment.nugget_id, judgment.chunk_id): judgment for judgment in judgments.judgments
    }

    def judged(answer: Answer, sentence: int, citation: int) -> JudgedCitation:
        reference = answer.references[answer.answer[sentence].citations[citation]]
        judgment = by_pair.get((_sentence_id(answer, sentence), reference))
        label = judgment.label if judgment else None  # without a text, or deferred
        missing = answer.outside.get(reference, "not judged, for its text is not there")
        return JudgedCitation(
            citationID=citation,
            reference=reference,
            support=_SUPPORT[assignment(label, session.config.judge.graded)],
            reason=judgment.reason if judgment else missing,
            call_id=judgment and judgment.call_id,
            evidence=judgment.evidence if judgment else (),
        )

    labelled = [
        JudgedAnswer(
            topic_id=answer.topic_id,
            run_id=answer.run_id,
            references=tuple(id_ for id_ in answer.references if id_ not in answer.outside),
            sentences=tuple(
                JudgedSentence(
                    sentenceID=place,
                    text=sentence.text,
                    citations=tuple(
                        judged(answer, place, number) for number in range(len(sentence.citations))
                    ),
                )
                for place, sentence in enumerate(answer.answer)
            ),
        )
        for answer in answers
    ]
    failures = {
        (runs[judgment.nugget_id], judgment.query_id, judgment.call_id): AnsweringFailure(
            query_id=judgment.query_id,
            step="citation",
            status=judgment.status,
            message=judgment.reason,
            call_id=judgment.call_id,
            run_id=runs[judgment.nugget_id],
        )
        for judgment in judgments.judgments
        if judgment.status != "ok"
    }
    return labelled, [*failures.values()]


def contradiction_finder(session: Session) -> Any:
    """Give the user's own program, or ours."""
    return own_or(session, ContradictionFinder(), "contradiction_finder")


def check_answers(
    session: Session,
    answers: Sequence[Answer],
    queries: Mapping[str, Query],
    nuggets: Mapping[str, Sequence[Nugget]],
    copies: Mapping[str, str],
) -> tuple[list[CheckedAnswer], list[AnsweringFailure]]:
    """Find what answers contradict, and tell which of them are none.

    Args:
        session: Its `[judge]` is asked once for each answer with a text.
        answers: The answers.
        queries: By id.
        nuggets: By query.
        copies: By the text of an answer, the id of the passage that it is copied from.
    """
    finder = contradiction_finder(session)

    def check(answer: Answer) -> RecordAndFailure:
        known = nuggets[answer.topic_id]
        checked = CheckedAnswer(
            run_id=answer.run_id,
            query_id=answer.topic_id,
            kind="failed",
            nuggets=len(known),
            contradictions=None,
            copied_from=copies.get(answer.text) if answer.is_answered else None,
        )
        if answer.status == "not_retrieved":
            return RecordAndFailure(checked.model_copy(update={"kind": answer.status}))
        if not answer.is_answered:
            kind: AnswerKind = "empty" if answer.status == "ok" else "failed"
            return RecordAndFailure(checked.model_copy(update={"kind": kind}))
        kind = "copied" if checked.copied_from else "undecided"
        try:
            reply = finder(queries[answer.topic_id], known, answer.text)
        except ReplyError as error:
            said = {"status": error.status, "reason": str(error), "call_id": error.call_id}
            failed = checked.model_copy(update={"kind": kind, **said})
            return RecordAndFailure(failed, AnsweringFailure.of(answer, "contradiction", error))
        if kind == "undecided":
            kind = "declined" if reply.declines else "answer"
        found = {"contradictions": reply.contradictions, "call_id": reply.get("call_id")}
        return RecordAndFailure(checked.model_copy(update={"kind": kind, **found}))

    outcomes = session.each("contradiction", check, answers)
    failures = [outcome.failure for outcome in outcomes if outcome.failure is not None]
    return [outcome.record for outcome in outcomes], failures


def _sentence_id(answer: Answer, place: int) -> str:
    return f"{answer.run_id}/{answer.topic_id}/{place}"
