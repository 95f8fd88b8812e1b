"""Judging answers: the nuggets that they support, and how far citations support sentences."""

from collections.abc import Mapping, Sequence
from typing import Literal

from freshstack_dspy.formats.nuggetizer import assignment
from freshstack_dspy.programs.support_judge import as_chunk
from freshstack_dspy.recipes.judge import (
    ToJudge,
    grouped,
    judge,
)
from freshstack_dspy.recipes.session import Session
from freshstack_dspy.records import (
    Answer,
    AnsweringFailure,
    AssignedAnswer,
    AssignedNugget,
    Assignment,
    Chunk,
    JudgedAnswer,
    JudgedCitation,
    JudgedSentence,
    Judgment,
    Nugget,
    Query,
    Scale,
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
    """Judge which nuggets each answer supports, as if it were a chunk: one call, one vote."""
    scale = session.config.judge.graded
    pairs = [
        ToJudge(queries[one.topic_id], nuggets[one.topic_id], [as_chunk(one.run_id, one.text)])
        for one in answers
        if one.is_answered
    ]
    found = judge(session, session.recipe.support_judge, pairs, step="assignment", once=True)
    judged = {(one.chunk_id, one.nugget_id): one for one in found.judgments}
    assigned = [
        AssignedAnswer(
            query=queries[answer.topic_id].text,
            qid=answer.topic_id,
            answer_text=answer.text,
            response_length=answer.response_length,
            run_id=answer.run_id,
            nuggets=tuple(
                _assigned(one, answer, judged.get((answer.run_id, one.nugget_id)), scale)
                for one in nuggets[answer.topic_id]
            ),
            status=answer.status,
        )
        for answer in answers
    ]
    failures = [
        AnsweringFailure(**{**dict(failure), "chunk_ids": ()}, run_id=failure.chunk_ids[0])
        for failure in found.failures
    ]
    return assigned, failures


def _assigned(
    nugget: Nugget, answer: Answer, judged: Judgment | None, scale: Scale
) -> AssignedNugget:
    """A nugget with nuggetizer's word for its label, or what is known without the judge.

    An answer that says that there is none supports nothing. Of one that failed, or whose run
    retrieved nothing, every nugget is `failed`.
    """
    if judged is not None:
        label, reason, call_id = judged.label, judged.reason, judged.call_id
    elif answer.status == "ok":
        label, reason, call_id = 0, "there is no answer", None
    else:
        label, reason, call_id = None, f"the answer is {answer.status}", None
    return AssignedNugget(
        text=nugget.text,
        importance=nugget.importance or "vital",
        assignment=assignment(label, scale),
        nugget_id=nugget.nugget_id,
        rated=nugget.importance is not None,
        label=label,
        reason=reason,
        call_id=call_id,
        evidence=() if judged is None else judged.evidence,
    )


def judge_citations(
    session: Session,
    answers: Sequence[Answer],
    queries: Mapping[str, Query],
    chunks: Mapping[str, Mapping[str, Chunk]],
) -> tuple[list[JudgedAnswer], list[AnsweringFailure]]:
    """Judge how far each cited chunk supports its sentence, as if that were a nugget.

    The chunks of an answer that the same sentences cite are in one call. `chunks` has those of each
    query by id; a citation of another has no label.
    """
    answers = [one for one in answers if one.is_answered]
    pairs: list[ToJudge] = []
    runs: dict[str, str] = {}
    for one in answers:
        sentences = [
            Nugget(query_id=one.topic_id, nugget_id=id_, text=sentence.text, call_id=one.call_id)
            for id_, sentence in zip(_sentence_ids(one), one.answer, strict=True)
        ]
        runs |= {sentence.nugget_id: one.run_id for sentence in sentences}
        cited = {
            (nugget.nugget_id, one.references[number])
            for nugget, sentence in zip(sentences, one.answer, strict=True)
            for number in sentence.citations
        }
        of = chunks.get(one.topic_id, {})
        shown = [of[id_] for id_ in one.references if id_ in of]
        pairs += grouped(queries[one.topic_id], sentences, shown, cited)
    found = judge(session, session.recipe.support_judge, pairs, step="citation", once=True)
    judged = {(one.nugget_id, one.chunk_id): one for one in found.judgments}
    failures = {
        (runs[one.nugget_id], one.query_id, one.call_id): AnsweringFailure(
            query_id=one.query_id,
            step="citation",
            status=one.status,
            message=one.reason,
            call_id=one.call_id,
            run_id=runs[one.nugget_id],
        )
        for one in found.judgments
        if one.status != "ok"
    }
    scale = session.config.judge.graded
    return [_cited(one, judged, scale) for one in answers], [*failures.values()]


def _cited(
    answer: Answer, judged: Mapping[tuple[str, str], Judgment], scale: Scale
) -> JudgedAnswer:
    """An answer with the judgments of its citations, by sentence and chunk."""
    sentences = []
    for number, (id_, sentence) in enumerate(
        zip(_sentence_ids(answer), answer.answer, strict=True)
    ):
        citations = []
        for place, cited in enumerate(sentence.citations):
            reference = answer.references[cited]
            found = judged.get((id_, reference))  # None: without a text, or deferred
            citations.append(
                JudgedCitation(
                    citationID=place,
                    reference=reference,
                    support=_SUPPORT[assignment(found.label if found else None, scale)],
                    reason=found.reason if found else "not judged, for its text is not there",
                    call_id=found.call_id if found else None,
                    evidence=found.evidence if found else (),
                )
            )
        sentences.append(
            JudgedSentence(sentenceID=number, text=sentence.text, citations=tuple(citations))
        )
    return JudgedAnswer(
        topic_id=answer.topic_id,
        run_id=answer.run_id,
        references=answer.references,
        sentences=tuple(sentences),
    )


def _sentence_ids(answer: Answer) -> list[str]:
    return [f"{answer.run_id}/{answer.topic_id}/{place}" for place in range(len(answer.answer))]
