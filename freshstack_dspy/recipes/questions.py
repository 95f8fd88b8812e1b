"""The questions of a build, read or made: some must be left."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from freshstack_dspy.config import BuildConfig
from freshstack_dspy.errors import SourceError
from freshstack_dspy.questions.reading import QueryReading, read_queries
from freshstack_dspy.recipes.session import Progress, report
from freshstack_dspy.records import Chunk, Query

if TYPE_CHECKING:
    from freshstack_dspy.recipes.freshstack import FreshStack
    from freshstack_dspy.recipes.pooling import Searches
    from freshstack_dspy.recipes.session import Session

Item = TypeVar("Item")


def read_questions(config: BuildConfig, progress: Progress) -> QueryReading:
    """Read the questions of a configuration.

    Raises:
        SourceError: They cannot be read, or none is left.
    """
    progress.start("questions", 1)
    reading = read_queries(config.queries)
    if not reading.queries:
        left_out = "; ".join(f"{number} {why}" for why, number in reading.rejected.items())
        raise SourceError(
            f"{config.queries.location}: no question is left ({left_out or 'it holds none'}); widen "
            "the filters of [queries], or name another file"
        )
    progress.advance("questions")
    rejected = sum(reading.rejected.values())
    progress.finish("questions", f"{len(reading.queries):,}; {rejected:,} left out")
    return reading


def make_questions(
    session: "Session", recipe: "FreshStack", searches: "Searches", *, exactly: bool = True
) -> QueryReading:
    """Make the questions of a configuration whose source is `synthetic`, in the step `synthesis`.

    Raises:
        BudgetError: The budget is used up.
        DeferredError: In mode `defer`, replies are missing; the requests of this wave that could
            be made were written down.
        FatalModelError: No seed gave a question.
        SourceError: The corpus gives too few questions, and `exactly` so many are wanted.
    """
    from freshstack_dspy.recipes.synthesis import Synthesis

    reading = Synthesis(session, recipe, searches).run(exactly=exactly)
    left_out = "; ".join(f"{number:,} {why}" for why, number in reading.rejected.items())
    note = f"{len(reading.queries):,} synthetic; refused: {left_out or 'none'}"
    report(session.progress, "questions", note)
    return reading


def known_seeds(queries: Sequence[Query], chunks: Sequence[Chunk]) -> tuple[Query, ...]:
    """Take those seeds out of queries that are read which this corpus does not have.

    Such a query was made from other documents, or from an earlier state of these.
    """
    known = {chunk.chunk_id for chunk in chunks}
    return tuple(
        query
        if known.issuperset(query.seed_chunk_ids)
        else query.model_copy(
            update={"seed_chunk_ids": tuple(id_ for id_ in query.seed_chunk_ids if id_ in known)}
        )
        for query in queries
    )


def spread(items: Sequence[Item], most: int) -> Sequence[Item]:
    """Take every n-th item, so that there are at most so many."""
    every = -(-len(items) // most) or 1
    return items[(every - 1) // 2 :: every]
