"""Answering from runs: what a generator makes of what each retriever found, and of the gold chunks.

LLM-retEval (Alinejad, Kumar and Vahdat, arXiv 2406.06458): a retriever is right about a query if
the answer from what it found agrees with the answer from what it should have found.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from freshstack_dspy.collection.contents import nuggets_by_query
from freshstack_dspy.config import ModelConfig
from freshstack_dspy.errors import CollectionError, ConfigError, FatalModelError
from freshstack_dspy.recipes.answering.assigning import assign
from freshstack_dspy.recipes.answering.comparing import ToCompare, settled, to_compare, verdict
from freshstack_dspy.recipes.answering.contexts import GOLD, Context, Packing, gold_chunks
from freshstack_dspy.recipes.answering.reteval import LLMRetEval
from freshstack_dspy.recipes.growing.run_holes import Look
from freshstack_dspy.recipes.session import Session
from freshstack_dspy.records import (
    Agreement,
    Answer,
    AnsweringFailure,
    AssignedAnswer,
    Query,
    SliceName,
)

STEPS = ("gold_answer", "answer", "assignment", "comparison")
MOST_GOLD_ANSWERS = 15
SAMPLED_TEMPERATURE = 0.5
"""Of several gold answers (LLM-retEval, §3.2: three); at 0 they would all be the same."""


class Answering(NamedTuple):
    """What came of it; every record by run, then query, in the order of the ids."""

    answers: tuple[Answer, ...]
    """One for each run and query."""
    gold_answers: tuple[Answer, ...]
    """Of each query with a gold context as many as were asked for."""
    agreements: tuple[Agreement, ...]
    """One for each run and query."""
    assignments: tuple[AssignedAnswer, ...]
    """Of each answer."""
    gold_assignments: tuple[AssignedAnswer, ...]
    """Of the first gold answer to each query: what the generator makes of ideal retrieval."""
    failures: tuple[AnsweringFailure, ...]
    without_gold: tuple[str, ...]
    """Ids of the queries of which no chunk supports a nugget."""


class _Contexts(NamedTuple):
    queries: dict[str, Query]
    """By id, ascending."""
    runs: list[Context]
    """By run, then query."""
    gold: list[Context]
    """By query; those without gold chunks are left out."""


class _Compared(NamedTuple):
    agreements: tuple[Agreement, ...]
    failures: tuple[AnsweringFailure, ...]


def answer_from_runs(
    looked: Look,
    session: Session,
    *,
    slices: Sequence[SliceName] | None = None,
    gold_answers: int = 1,
) -> Answering:
    """Answer every query from the top of every run and from its gold chunks, and compare.

    Args:
        looked: The collection with the top of each run, as `look` gives it.
        session: Whom to ask; its `[judge]` says how answers are held against nuggets.
        slices: Of which slices the queries are; None: those that evaluations use.
        gold_answers: How many times the gold context is answered; several are drawn at
            `SAMPLED_TEMPERATURE`.

    Raises:
        BudgetError: The budget is used up; what was answered is recorded.
        DeferredError: In mode `defer`, requests were written down.
        ConfigError: The number of gold answers is not allowed, or replies leave no room.
        CollectionError: There is no query, no chunk with a text, a run has the name `gold`, or a
            run has nothing of the corpus for any of the queries.
        FatalModelError: Not one answer came.
    """
    if not 1 <= gold_answers <= MOST_GOLD_ANSWERS:
        raise ConfigError(f"gold answers are 1 to {MOST_GOLD_ANSWERS}, not {gold_answers}")
    config, recipe = session.config, LLMRetEval()
    contexts = _contexts(looked, slices, config.model)
    samples = _sampled(contexts.gold, gold_answers)

    gold_found = session.each("gold_answer", recipe.answered, samples)
    found = session.each("answer", recipe.answered, contexts.runs)
    session.stop_if_deferred()
    _check_only_failures([*gold_found, *found])
    golds = [_recorded(*pair) for pair in zip(samples, gold_found, strict=True)]
    answers = [_recorded(*pair) for pair in zip(contexts.runs, found, strict=True)]

    firsts = [one for one in golds if one.sample == 1]
    nuggets = nuggets_by_query(looked.collection.nuggets)
    assigned = assign(config, session, [*firsts, *answers], contexts.queries, nuggets)
    compared = _compare(recipe, session, to_compare(config.model, answers, golds, contexts.queries))
    session.stop_if_deferred()
    with_gold = {one.query.query_id for one in contexts.gold}
    return Answering(
        answers=tuple(answers),
        gold_answers=tuple(golds),
        agreements=compared.agreements,
        assignments=assigned.answers[len(firsts) :],
        gold_assignments=assigned.answers[: len(firsts)],
        failures=(
            *_failures(gold_found),
            *_failures(found),
            *assigned.failures,
            *compared.failures,
        ),
        without_gold=tuple(one for one in contexts.queries if one not in with_gold),
    )


def _contexts(looked: Look, slices: Sequence[SliceName] | None, model: ModelConfig) -> _Contexts:
    collection, tops = looked.collection, _tops(looked)
    qrels = collection.qrels(slices)
    gold = {id_: gold_chunks(qrels.judged(id_), looked.depth) for id_ in sorted(qrels.nuggets)}
    if not gold:
        raise CollectionError(
            f"{collection.name}: no query with nuggets is in these slices; take others in with "
            "--slices all"
        )
    _check_nothing_retrieved(looked, tops, gold)
    by_id = {one.query_id: one for one in collection.queries}
    queries = {query_id: by_id[query_id] for query_id in gold}
    packing = Packing(collection, _wanted(tops, gold), model)
    return _Contexts(
        queries,
        [
            packing.context(run_id, query, top.get(query_id, ()))
            for run_id, top in tops.items()
            for query_id, query in queries.items()
        ],
        [packing.context(GOLD, queries[id_], chunks) for id_, chunks in gold.items() if chunks],
    )


def _compare(recipe: LLMRetEval, session: Session, asked: Sequence[ToCompare]) -> _Compared:
    """Say of every answer whether it agrees, and ask where that is not plain.

    Where a question was put off nothing is said: whoever asked stops.
    """
    known = [settled(one) for one in asked]
    open_ = [one for one, plain in zip(asked, known, strict=True) if plain is None]
    replies = session.each("comparison", recipe.compared, open_)
    if len(replies) < len(open_):
        return _Compared((), ())
    said = iter(zip(open_, replies, strict=True))
    return _Compared(tuple(plain or verdict(*next(said)) for plain in known), _failures(replies))


def _tops(looked: Look) -> dict[str, dict[str, list[str]]]:
    """Run, query id -> ids of the chunks in its top, the best first; runs by name."""
    names = [run.name for run in looked.runs]
    if GOLD in names:
        raise CollectionError(
            f"a run is named {GOLD!r}, as the answers from the gold chunks are; give it another "
            "name in the last field of its lines"
        )
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise CollectionError(f"run {repeated[0]!r} is named twice; name each run once")
    return {
        run.name: {query_id: list(top) for query_id, top in run.top.items()}
        for run in sorted(looked.runs, key=lambda run: run.name)
    }


def _check_nothing_retrieved(
    looked: Look, tops: Mapping[str, Mapping[str, Sequence[str]]], queries: Collection[str]
) -> None:
    """Refuse a run from which nobody would be asked anything."""
    for run_id, top in tops.items():
        if not any(top.get(query_id) for query_id in queries):
            raise CollectionError(
                f"run {run_id!r}: its top {looked.depth} holds no chunk of "
                f"{looked.collection.name} for any of the {len(queries)} queries to answer; "
                "retrieve from the corpus of this collection, or name other --slices"
            )


def _wanted(
    tops: Mapping[str, Mapping[str, Sequence[str]]], gold: Mapping[str, Sequence[str]]
) -> set[str]:
    """The ids of all chunks that are in a context."""
    found = {id_ for ids in gold.values() for id_ in ids}
    for top in tops.values():
        found.update(id_ for query_id, ids in top.items() if query_id in gold for id_ in ids)
    return found


def _sampled(contexts: Sequence[Context], samples: int) -> list[Context]:
    temperature = SAMPLED_TEMPERATURE if samples > 1 else None
    return [
        context._replace(sample=sample, temperature=temperature)
        for context in contexts
        for sample in range(1, samples + 1)
    ]


def _recorded(context: Context, found: Answer | AnsweringFailure) -> Answer:
    """The answer, or the record that there is none."""
    if isinstance(found, Answer):
        return found
    return Answer(
        run_id=context.run_id,
        topic_id=context.query.query_id,
        topic=context.query.text,
        references=tuple(chunk.chunk_id for chunk in context.chunks),
        response_length=0,
        answer=(),
        sample=context.sample,
        omitted=context.omitted,
        status=found.status,
        call_id=found.call_id,
    )


def _check_only_failures(found: Sequence[Answer | AnsweringFailure]) -> None:
    failures = _failures(found)
    asked = [one for one in found if not isinstance(one, Answer) or one.status != "not_retrieved"]
    if failures and len(failures) == len(asked):
        raise FatalModelError(
            f"none of the {len(asked)} answers came, so nothing was written; the first: "
            f"{failures[0].message}"
        )


def _failures(found: Sequence[object]) -> tuple[AnsweringFailure, ...]:
    return tuple(one for one in found if isinstance(one, AnsweringFailure))
