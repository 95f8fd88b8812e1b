"""Contamination: which nuggets a model knows without the corpus, asked of the judge of the build."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from freshstack_dspy.collection.contamination import Knowledge, contamination
from freshstack_dspy.config import BuildConfig
from freshstack_dspy.recipes.freshstack import FreshStack
from freshstack_dspy.recipes.judging.judge_calls import JudgeCall, ToJudge, judge_calls
from freshstack_dspy.recipes.judging.voting import merged
from freshstack_dspy.recipes.session import Session
from freshstack_dspy.records import (
    Chunk,
    Contamination,
    Expansion,
    Failure,
    Judgment,
    Nugget,
    Query,
)


class ToScore(NamedTuple):
    """The closed-book answer of a query, and the nuggets that it is held against."""

    query: Query
    nuggets: Sequence[Nugget]
    answer: Expansion


class Scored(NamedTuple):
    """What came of it: what is known of each query, by its id, and what failed."""

    knowledge: Mapping[str, Knowledge]
    failures: tuple[Failure, ...]


def to_score(
    config: BuildConfig,
    queries: Sequence[Query],
    nuggets: Iterable[Nugget],
    expansions: Iterable[Expansion],
) -> list[ToScore]:
    """List what is asked: one call for each query that has nuggets and a closed-book answer.

    Args:
        config: Of the build; `contamination.score` may say that nothing is asked.
        queries: All of them.
        nuggets: Of all queries.
        expansions: Of all queries, of any kind.
    """
    if not config.contamination.score:
        return []
    nuggets_of: dict[str, list[Nugget]] = {}
    for nugget in nuggets:
        nuggets_of.setdefault(nugget.query_id, []).append(nugget)
    answers = {one.query_id: one for one in expansions if one.kind == "closed_book_answer"}
    return [
        ToScore(query, nuggets_of[query.query_id], answers[query.query_id])
        for query in queries
        if query.query_id in nuggets_of and query.query_id in answers
    ]


def score_calls(
    config: BuildConfig, recipe: FreshStack, asked: Sequence[ToScore]
) -> list[JudgeCall]:
    """List the calls that judge closed-book answers, each as if it were a chunk, and once.

    It is one call for each answer, with all nuggets, whatever shape and votes `[judge]` says; only
    an answer that does not fit into the model's window takes several.

    Args:
        config: Of the build.
        recipe: With the judge.
        asked: As `to_score` lists it.

    Raises:
        ConfigError: The longest reply leaves no room for a prompt.
    """
    once = config.judge.model_copy(update={"shape": "batch", "votes": 1, "shuffle": None})
    pairs = [ToJudge(one.query, one.nuggets, [_as_chunk(one.answer)]) for one in asked]
    return judge_calls(
        config.model_copy(update={"judge": once}),
        recipe.support_judge,
        pairs,
        step="contamination",
    )


def score(
    config: BuildConfig, recipe: FreshStack, session: Session, asked: Sequence[ToScore]
) -> Scored:
    """Have closed-book answers judged, in the step `contamination`.

    Args:
        config: Of the build.
        recipe: With the judge.
        session: Asks, with progress and account.
        asked: As `to_score` lists it; of an empty list nobody hears.

    Returns:
        Knowledge of each query whose answer has a label for every nugget. A failure names no
        chunk, for the answer is none of the corpus.

    Raises:
        BudgetError: The budget is used up.
        ConfigError: The longest reply leaves no room for a prompt.
    """
    if not asked:
        return Scored({}, ())
    batches = session.each("contamination", recipe.judged, score_calls(config, recipe, asked))
    judged: dict[str, list[Judgment]] = {}
    for judgment in merged(batches, 1):
        judged.setdefault(judgment.query_id, []).append(judgment)
    threshold = config.judge.graded.threshold
    return Scored(
        knowledge={
            query_id: Knowledge.of(judgments, threshold)
            for query_id, judgments in judged.items()
            if all(judgment.label is not None for judgment in judgments)
        },
        failures=tuple(
            batch.failure.model_copy(update={"chunk_ids": ()})
            for batch in batches
            if batch.failure is not None
        ),
    )


def contamination_of(
    config: BuildConfig,
    queries: Sequence[Query],
    nuggets: Sequence[Nugget],
    judgments: Iterable[Judgment],
    chunks: Iterable[Chunk],
    knowledge: Mapping[str, Knowledge],
) -> tuple[Contamination, ...]:
    """Say of every query with nuggets how far it can be known without the corpus.

    Args:
        config: Of the build.
        queries: All of them.
        nuggets: Of all queries.
        judgments: Of all nuggets.
        chunks: All that were judged, or more.
        knowledge: By query, what its closed-book answer holds, where that was judged.
    """
    threshold = config.judge.graded.threshold
    supporting: dict[str, set[str]] = {}
    for judgment in judgments:
        if judgment.label is not None and judgment.label >= threshold:
            supporting.setdefault(judgment.query_id, set()).add(judgment.chunk_id)
    gold_ids = set().union(*supporting.values())
    text_of = {chunk.chunk_id: chunk.passage for chunk in chunks if chunk.chunk_id in gold_ids}
    gold = {
        query_id: [text_of[chunk_id] for chunk_id in sorted(ids)]
        for query_id, ids in supporting.items()
    }
    return tuple(contamination(queries, nuggets, gold, knowledge, config.contamination))


def _as_chunk(answer: Expansion) -> Chunk:
    """The answer as the judge is shown it."""
    text = "\n".join(answer.texts)
    return Chunk(
        chunk_id="closed-book answer",
        source="model",
        path="closed-book answer",
        start_byte=0,
        end_byte=max(1, len(text.encode())),
        text=text,
        tokens=0,
    )
