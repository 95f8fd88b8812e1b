"""The questions of a build, read or made: some must be left."""

from collections.abc import Sequence

from freshstack_dspy.config import BuildConfig
from freshstack_dspy.errors import SourceError, file_named
from freshstack_dspy.questions.reading import QueryReading, read_queries
from freshstack_dspy.recipes.session import Progress
from freshstack_dspy.records import Chunk, Query


def read_questions(config: BuildConfig, progress: Progress) -> QueryReading:
    """Read the questions of a configuration.

    Raises:
        SourceError: They cannot be read, or none is left.
    """
    progress.start("questions", 1)
    with file_named(config.file):
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
