"""LLM-retEval: the retriever through the answer (Alinejad, Kumar and Vahdat, arXiv 2406.06458).

A retriever is right about a query if the answer that a generator writes from what it found agrees
with the answer that the same generator writes from the gold chunks, those that support the nuggets
of the query. Each answer is also judged by the nuggets that it supports.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import dspy

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.collection.contents import nuggets_by_query
from freshstack_dspy.collection.exports import assignment
from freshstack_dspy.errors import CollectionError, FatalModelError, ReplyError
from freshstack_dspy.measures.contexts import required_subset
from freshstack_dspy.measures.qrels import Judged
from freshstack_dspy.measures.run import Run
from freshstack_dspy.programs.answers import AnswerComparer, AnswerGenerator, generator_inputs
from freshstack_dspy.programs.support_judge import whole
from freshstack_dspy.recipes.freshstack import FreshStack
from freshstack_dspy.recipes.judge import ToJudge, Window, judge
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


class Answered(NamedTuple):
    """The answer from a context; with a failure it has no sentences."""

    answer: Answer
    failure: AnsweringFailure | None = None


class Comparison(NamedTuple):
    """An answer from a run's context, and those from the gold context."""

    query: Query
    answer: Answer
    gold: Sequence[Answer]

    @property
    def references(self) -> list[str]:
        """The texts of the gold answers that there are."""
        return [one.text for one in self.gold if one.is_answered]

    @property
    def failed(self) -> Answer | None:
        """The first gold answer that failed."""
        return next((one for one in self.gold if one.status != "ok"), None)


class Compared(NamedTuple):
    """Whether answers agree; with a failure it is not known."""

    agreement: Agreement
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


class LLMRetEval(dspy.Module):
    """The same generator answers from two contexts, and a comparer says whether they agree."""

    def __init__(self) -> None:
        super().__init__()
        self.answer_generator = AnswerGenerator()
        self.answer_comparer = AnswerComparer()

    def forward(
        self, query: Query, retrieved: Sequence[Chunk], gold: Sequence[Chunk], run_id: str = "run"
    ) -> dspy.Prediction:
        """Run every step for one query; the model's window is not looked at.

        Returns:
            A prediction with `answer` and `gold_answer` (`Answer`) and `agreement` (`Agreement`).

        Raises:
            ReplyError: The model gave no valid answer in one of the steps.
        """
        answer = self.answer_generator(query=query, chunks=retrieved, run_id=run_id).answer
        gold_answer = self.answer_generator(query=query, chunks=gold, run_id=GOLD).answer
        asked = Comparison(query, answer, [gold_answer])
        found = known_agreement(asked) or self._agreement(asked)
        return dspy.Prediction(answer=answer, gold_answer=gold_answer, agreement=found)

    def answered(self, context: Context) -> Answered:
        """The answer from a context, or the record that there is none."""
        try:
            _check_shown(context)
            answer: Answer = self.answer_generator(
                query=context.query,
                chunks=context.chunks,
                run_id=context.run_id,
                sample=context.sample,
                temperature=context.temperature,
            ).answer
        except ReplyError as error:
            step: Step = "gold_answer" if context.run_id == GOLD else "answer"
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
            return Answered(answer, _failure(answer, step, error))
        return Answered(answer.model_copy(update={"omitted": context.omitted}))

    def compared(self, asked: Comparison) -> Compared:
        """Whether an answer agrees with a gold one, or the record that it is not known."""
        try:
            return Compared(known_agreement(asked) or self._agreement(asked))
        except ReplyError as error:
            agreement = _agreement(asked, str(error), status=error.status, call_id=error.call_id)
            return Compared(agreement, _failure(asked.answer, "comparison", error))

    def _agreement(self, asked: Comparison) -> Agreement:
        reply = self.answer_comparer(
            query=asked.query, references=asked.references, answer=asked.answer.text
        )
        if asked.failed is not None and not reply.agrees:
            reason = "it agrees with no gold answer, and one of them failed"
            return _agreement(asked, reason, status=asked.failed.status, call_id=reply.call_id)
        return _agreement(asked, reply.reason, agrees=reply.agrees, call_id=reply.call_id)


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
    recipe = LLMRetEval()
    found = session.each("gold_answer", recipe.answered, golds)
    found += session.each("answer", recipe.answered, contexts)
    session.stop_if_deferred()
    _check_any_answer(found)
    gold_records = [one.answer for one in found[: len(golds)]]
    answers = [one.answer for one in found[len(golds) :]]

    firsts = [one for one in gold_records if one.sample == 1]
    nuggets = nuggets_by_query(one for one in collection.nuggets if one.nugget_id in qrels.labels)
    assigned, unassigned = _assign(session, [*firsts, *answers], queries, nuggets)
    of_query: dict[str, list[Answer]] = {}
    for one in gold_records:
        of_query.setdefault(one.topic_id, []).append(one)
    comparisons = [
        Comparison(queries[one.topic_id], one, of_query[one.topic_id]) for one in answers
    ]
    compared = session.each("comparison", recipe.compared, comparisons)
    session.stop_if_deferred()
    return Answering(
        answers=tuple(answers),
        gold_answers=tuple(gold_records),
        agreements=tuple(one.agreement for one in compared),
        assignments=tuple(assigned[len(firsts) :]),
        gold_assignments=tuple(assigned[: len(firsts)]),
        failures=(*_failures(found), *unassigned, *_failures(compared)),
    )


def gold_chunks(judged: Judged, k: int) -> list[str]:
    """List the chunks that support a query's nuggets: those first that it takes to answer it.

    First the required subset (CRUX), in the order in which it is chosen; then the others that
    support a nugget, those that support more before those that support fewer, ties by id.
    """
    candidates = sorted(judged.supported, key=lambda id_: (-len(judged.supported[id_]), id_))
    ratings = [[labels.get(id_) for labels in judged.labels.values()] for id_ in candidates]
    required = required_subset(ratings, judged.rel).required
    others = [place for place in range(len(candidates)) if place not in required]
    return [candidates[place] for place in (*required, *others)][:k]


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
            room = window.room_beside(generator_inputs(query, []))
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


def known_agreement(asked: Comparison) -> Agreement | None:
    """What is known of two answers without a comparer; None where it has to be asked."""
    answer, failed = asked.answer, asked.failed
    status, agrees, reason = "ok", None, ""
    if answer.status not in ("ok", "not_retrieved"):
        status, reason = answer.status, "the answer from the retrieved context failed"
    elif not asked.references and failed is not None:
        status, reason = failed.status, "the answer from the gold context failed"
    elif not asked.references:
        status = "no_gold_answer"
        reason = "the generator found no answer in the gold context"
    elif answer.status == "not_retrieved":
        status, reason = "not_retrieved", "the run has nothing for the query, so nothing was asked"
    elif not answer.is_answered:
        agrees, reason = False, "the generator found no answer in the retrieved context"
    elif answer.text in asked.references:
        agrees, reason = True, "the same text"
    return _agreement(asked, reason, agrees=agrees, status=status) if reason else None


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
        ToJudge(queries[one.topic_id], nuggets[one.topic_id], [_as_chunk(one)])
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


def _agreement(
    asked: Comparison,
    reason: str,
    *,
    agrees: bool | None = None,
    status: Any = "ok",
    call_id: str | None = None,
) -> Agreement:
    return Agreement(
        run_id=asked.answer.run_id,
        query_id=asked.query.query_id,
        agrees=agrees,
        status=status,
        reason=reason,
        call_id=call_id,
        answer_call_id=asked.answer.call_id,
        gold_call_ids=tuple(gold.call_id for gold in asked.gold if gold.call_id is not None),
    )


def _as_chunk(answer: Answer) -> Chunk:
    """The answer as the judge is shown it: equal answers of two runs are the same request."""
    return Chunk(
        chunk_id=answer.run_id,  # not shown to the judge
        source="model",
        path="answer",
        start_byte=0,
        end_byte=max(1, len(answer.text.encode())),
        text=answer.text,
        tokens=0,
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


def _failures(found: Sequence[Answered] | Sequence[Compared]) -> list[AnsweringFailure]:
    return [one.failure for one in found if one.failure is not None]


def _check_any_answer(found: Sequence[Answered]) -> None:
    failures = _failures(found)
    asked = [one for one in found if one.answer.status != "not_retrieved"]
    if failures and len(failures) == len(asked):
        raise FatalModelError(
            f"none of the {len(asked)} answers came, so nothing was written; the first: "
            f"{failures[0].message}"
        )


def _check_shown(context: Context) -> None:
    """Raise a `ReplyError` where there are chunks, and none of them can be shown."""
    if context.omitted and not context.chunks:
        raise ReplyError(
            f"none of the {len(context.omitted)} chunks of the context can be shown: they have no "
            "text (freshstack import … --corpus PATH), or do not fit into the model's window "
            "([model] context, max_tokens)",
            status="failed",
            call_id=None,
        )
