"""LLM-retEval: the retriever through the answer (Alinejad, Kumar and Vahdat, arXiv 2406.06458).

A retriever is right about a query if the answer that a generator writes from what it found agrees
with the answer that the same generator writes from the gold chunks, those that support the nuggets
of the query. Each answer is also judged by the nuggets that it supports.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.collection.contents import nuggets_by_query
from freshstack_dspy.collection.exports import assignment
from freshstack_dspy.errors import CollectionError, FatalModelError, ReplyError
from freshstack_dspy.measures.contexts import REQUIRED, required_chunks
from freshstack_dspy.measures.qrels import Judged
from freshstack_dspy.measures.run import Run
from freshstack_dspy.programs.answers import AnswerComparer, AnswerGenerator, generator_inputs
from freshstack_dspy.programs.support_judge import whole
from freshstack_dspy.recipes.freshstack import FreshStack
from freshstack_dspy.recipes.judge import ToJudge, Window, as_chunk, judge
from freshstack_dspy.recipes.session import Session
from freshstack_dspy.records import (
    Agreement,
    Answer,
    AnsweringFailure,
    AssignedAnswer,
    AssignedNugget,
    Chunk,
    Judgment,
    Nugget,
    OmittedChunk,
    Query,
    Scale,
    Step,
)

GOLD = "gold"
"""The run id of answers from gold chunks."""
SAMPLED_TEMPERATURE = 0.5
"""Of several gold answers (§3.2: three); at 0 they would all be the same."""


class Context(NamedTuple):
    """What a generator answers a query from."""

    run_id: str
    query: Query
    chunks: Sequence[Chunk]
    omitted: tuple[OmittedChunk, ...] = ()
    sample: int = 1
    temperature: float | None = None


class Outcome(NamedTuple):
    """An answer or an agreement; with a failure it says nothing."""

    record: Any
    failure: AnsweringFailure | None = None


class Answering(NamedTuple):
    """Answers from runs and from gold chunks; records by run, then query, in the order of ids."""

    answers: tuple[Answer, ...]
    """One for each run and query."""
    gold_answers: tuple[Answer, ...]
    """For each query as many as were asked for."""
    agreements: tuple[Agreement, ...]
    """One for each run and query."""
    assignments: tuple[AssignedAnswer, ...]
    """The nuggets of each answer."""
    gold_assignments: tuple[AssignedAnswer, ...]
    """The nuggets of the first gold answer to each query."""
    failures: tuple[AnsweringFailure, ...]


def answer_from_runs(
    session: Session,
    collection: Collection,
    runs: Sequence[Run],
    *,
    k: int = 10,
    gold_answers: int = 1,
) -> Answering:
    """Answer every query with gold chunks from these and from the top of every run, and compare.

    Args:
        session: Its `[model]` answers and compares; its `[judge]` judges answers by nuggets.
        collection: With the queries, the gold chunks and the texts.
        runs: Over its queries and its corpus; each has a name of its own.
        k: How many chunks of a ranking, and of the gold ones, an answer is written from at most.
        gold_answers: How often the gold context is answered; several are drawn at
            `SAMPLED_TEMPERATURE`.

    Raises:
        BudgetError: The budget is used up; what was answered is recorded.
        DeferredError: In mode `defer`, requests were written down.
        ConfigError: Replies leave no room for a prompt.
        CollectionError: No query has a supported nugget, or a run cannot be used.
        FatalModelError: Not one answer came.
    """
    qrels = collection.qrels()
    by_id = {query.query_id: query for query in collection.queries}
    queries = {query_id: by_id[query_id] for query_id in sorted(qrels.nuggets)}
    gold = {query_id: gold_chunks(qrels.judged(query_id), k) for query_id in queries}
    tops = _tops(collection, runs, queries, k)

    golds = _contexts(session, collection, {GOLD: gold}, queries, samples=gold_answers)
    contexts = _contexts(session, collection, tops, queries)
    ask = partial(_answered, AnswerGenerator())
    found = session.each("gold_answer", ask, golds) + session.each("answer", ask, contexts)
    session.stop_if_deferred()
    failures = [one.failure for one in found if one.failure is not None]
    asked = sum(one.record.status != "not_retrieved" for one in found)
    if failures and len(failures) == asked:
        raise FatalModelError(
            f"none of the {asked} answers came, so nothing was written; the first: "
            f"{failures[0].message}"
        )
    gold_records = [one.record for one in found[: len(golds)]]
    answers = [one.record for one in found[len(golds) :]]

    firsts = [one for one in gold_records if one.sample == 1]
    nuggets = nuggets_by_query(one for one in collection.nuggets if one.nugget_id in qrels.labels)
    assigned, unassigned = _assign(session, [*firsts, *answers], queries, nuggets)
    of_query: dict[str, list[Answer]] = {}
    for one in gold_records:
        of_query.setdefault(one.topic_id, []).append(one)
    comparer = AnswerComparer()
    compared = session.each(
        "comparison",
        lambda one: _compared(comparer, queries[one.topic_id], of_query[one.topic_id], one),
        answers,
    )
    session.stop_if_deferred()
    failures += [*unassigned, *(one.failure for one in compared if one.failure is not None)]
    return Answering(
        answers=tuple(answers),
        gold_answers=tuple(gold_records),
        agreements=tuple(one.record for one in compared),
        assignments=tuple(assigned[len(firsts) :]),
        gold_assignments=tuple(assigned[: len(firsts)]),
        failures=tuple(failures),
    )


def gold_chunks(judged: Judged, k: int) -> list[str]:
    """List the chunks that support a query's nuggets: those first that it takes to answer it.

    First the required subset (CRUX), in the order in which it is chosen; then the others that
    support a nugget, those that support more before those that support fewer, ties by id.
    """
    candidates = sorted(judged.supported, key=lambda id_: (-len(judged.supported[id_]), id_))
    labels = required_chunks(judged, candidates)
    required = [chunk for chunk, label in labels.items() if label == REQUIRED]
    return [*required, *(chunk for chunk in candidates if chunk not in required)][:k]


def _contexts(
    session: Session,
    collection: Collection,
    tops: Mapping[str, Mapping[str, Sequence[str]]],
    queries: Mapping[str, Query],
    *,
    samples: int = 1,
) -> list[Context]:
    """Show as many chunks of each top as the model's window takes, each whole.

    A chunk that does not fit is passed over, and those below it that do are shown.
    """
    window = Window(session.config.model, AnswerGenerator().predict)
    wanted = {chunk_id for top in tops.values() for ids in top.values() for chunk_id in ids}
    chunks = {one.chunk_id: one for one in collection.chunks() if one.chunk_id in wanted}
    temperature = SAMPLED_TEMPERATURE if samples > 1 else None
    contexts = []
    for run_id, top in tops.items():
        for query_id, ids in top.items():
            query = queries[query_id]
            room = window.room_next_to(generator_inputs(query, []))
            left = math.inf if room is None else room
            shown: list[Chunk] = []
            omitted: list[OmittedChunk] = []
            for chunk in (chunks[chunk_id] for chunk_id in ids):
                size = 0 if room is None else window.size(whole(chunk))
                if not chunk.passage:
                    omitted.append(OmittedChunk(chunk_id=chunk.chunk_id, reason="no_text"))
                elif size > left:
                    omitted.append(OmittedChunk(chunk_id=chunk.chunk_id, reason="no_room"))
                else:
                    shown.append(chunk)
                    left -= size
            contexts += [
                Context(run_id, query, shown, tuple(omitted), sample, temperature)
                for sample in range(1, samples + 1)
            ]
    return contexts


def _answered(generator: AnswerGenerator, context: Context) -> Outcome:
    """The answer from a context, or the record that there is none."""
    try:
        if context.omitted and not context.chunks:
            raise ReplyError(  # noqa: TRY301
                f"none of the {len(context.omitted)} chunks of the context can be shown: they have "
                "no text (freshstack import … --corpus PATH), or do not fit into the model's "
                "window ([model] context, max_tokens)",
                status="failed",
                call_id=None,
            )
        answer = generator(
            query=context.query,
            chunks=context.chunks,
            run_id=context.run_id,
            sample=context.sample,
            temperature=context.temperature,
        ).answer
    except ReplyError as error:
        answer = Answer(
            run_id=context.run_id,
            topic_id=context.query.query_id,
            topic=context.query.text,
            references=tuple(chunk.chunk_id for chunk in context.chunks),
            response_length=0,
            answer=(),
            sample=context.sample,
            omitted=context.omitted,
            status=error.status,
            call_id=error.call_id,
        )
        step: Step = "gold_answer" if context.run_id == GOLD else "answer"
        return Outcome(answer, _failure(answer, step, error))
    return Outcome(answer.model_copy(update={"omitted": context.omitted}))


def _compared(
    comparer: AnswerComparer, query: Query, gold: Sequence[Answer], answer: Answer
) -> Outcome:
    """Whether an answer agrees with a gold one, asked only where it is not plain."""
    references = [one.text for one in gold if one.is_answered]
    failed = next((one for one in gold if one.status != "ok"), None)
    found, failure = _known(answer, references, failed), None
    if not found:
        try:
            reply = comparer(query=query, references=references, answer=answer.text)
            found = reply.toDict()
            if failed is not None and not reply.agrees:
                reason = "it agrees with no gold answer, and one of them failed"
                found |= {"agrees": None, "status": failed.status, "reason": reason}
        except ReplyError as error:
            found = {"status": error.status, "reason": str(error), "call_id": error.call_id}
            failure = _failure(answer, "comparison", error)
    agreement = Agreement(
        run_id=answer.run_id,
        query_id=query.query_id,
        answer_call_id=answer.call_id,
        gold_call_ids=tuple(one.call_id for one in gold if one.call_id is not None),
        **{"agrees": None, "status": "ok", "call_id": None, **found},
    )
    return Outcome(agreement, failure)


def _known(answer: Answer, references: Sequence[str], failed: Answer | None) -> dict[str, Any]:
    """What is known of an agreement without a comparer; nothing where it has to be asked."""
    if answer.status not in ("ok", "not_retrieved"):
        reason = "the answer from the retrieved context failed"
        return {"status": answer.status, "reason": reason}
    if not references and failed is not None:
        return {"status": failed.status, "reason": "the answer from the gold context failed"}
    if not references:
        reason = "the generator found no answer in the gold context"
        return {"status": "no_gold_answer", "reason": reason}
    if answer.status == "not_retrieved":
        reason = "the run has nothing for the query, so nothing was asked"
        return {"status": "not_retrieved", "reason": reason}
    if not answer.is_answered:
        reason = "the generator found no answer in the retrieved context"
        return {"agrees": False, "reason": reason}
    return {"agrees": True, "reason": "the same text"} if answer.text in references else {}


def _tops(
    collection: Collection, runs: Sequence[Run], queries: Mapping[str, Query], k: int
) -> dict[str, dict[str, list[str]]]:
    """Run name, query id -> ids of the chunks in its top, the best first; runs by name."""
    names = Counter([GOLD, *(run.name for run in runs)])
    if repeated := next((name for name, count in names.items() if count > 1), None):
        raise CollectionError(
            f"two runs are named {repeated!r} (answers from gold chunks are run {GOLD!r}); give "
            "each a name of its own, in the last field of its lines"
        )
    tops = {}
    for run in sorted(runs, key=lambda run: run.name):
        tops[run.name] = {
            query_id: [one.chunk_id for one in run.rankings.get(query_id, ())[:k]]
            for query_id in queries
        }
        if not any(tops[run.name].values()):
            raise CollectionError(
                f"run {run.name!r} holds nothing for any of the {len(queries)} queries; retrieve "
                f"for those of {collection.name} with: freshstack retrieve"
            )
    return tops


def _assign(
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
    found = judge(session, FreshStack(session.config), pairs, step="assignment", once=True)
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
    )


def _failure(answer: Answer, step: Step, error: ReplyError) -> AnsweringFailure:
    return AnsweringFailure(
        query_id=answer.topic_id,
        step=step,
        status=error.status,
        message=str(error),
        call_id=error.call_id,
        run_id=answer.run_id,
        sample=answer.sample,
    )
