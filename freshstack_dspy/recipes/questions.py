"""The questions of a build, read or made: some must be left."""

from collections.abc import Mapping, Sequence, Set

from freshstack_dspy.config import BuildConfig, QueriesConfig
from freshstack_dspy.errors import SourceError
from freshstack_dspy.index.hybrid import HybridIndex
from freshstack_dspy.languages import language_of
from freshstack_dspy.progress import Progress
from freshstack_dspy.questions.reading import QueryReading, read_queries
from freshstack_dspy.questions.selection import corpus_overlap
from freshstack_dspy.records import Query

LITTLE_OVERLAP = 0.7
"""Questions with a smaller share of their rare terms in the corpus are named; benchmarks/LOG.md has
how many of them the corpus could not answer, and how many others."""
_NAMED = 10


def sampled(queries: Sequence[Query], most: int | None) -> Sequence[Query]:
    """At most `most` of the queries, evenly spread; None: all."""
    every = -(-len(queries) // most) or 1 if most else 1
    return queries[(every - 1) // 2 :: every]


def read_questions(
    queries: QueriesConfig, progress: Progress, *, answered: bool = True
) -> QueryReading:
    """Read the questions, with `answered` only those with an accepted answer.

    Where `min_corpus_overlap` is set, `limit` does not hold yet: `check_overlap` keeps so many.

    Raises:
        SourceError: They cannot be read, or none is left.
    """
    progress.start("questions", 1)
    unlimited = {"limit": None} if queries.min_corpus_overlap is not None else {}
    reading = read_queries(queries.model_copy(update=unlimited), answered=answered)
    if not reading.queries:
        left_out = "; ".join(f"{number} {why}" for why, number in reading.rejected.items())
        raise SourceError(
            f"{queries.place}: no question is left ({left_out or 'it holds none'}); widen "
            "the filters of [queries], or name another file"
        )
    progress.advance("questions")
    rejected = sum(reading.rejected.values())
    kept = ", ".join(dict.fromkeys(name for query in reading.queries for name in query.fields))
    note = f"{len(reading.queries):,}; {rejected:,} left out"
    progress.finish("questions", note + (f"; other columns kept: {kept}" if kept else ""))
    return reading


def check_overlap(
    queries: QueriesConfig, reading: QueryReading, index: HybridIndex, progress: Progress
) -> tuple[QueryReading, dict[str, float]]:
    """Name the questions that use words that the corpus lacks, before anything is asked.

    Returns:
        The questions without those below `min_corpus_overlap`; and by id the share of rare terms
        that the corpus has of each that is left and below `LITTLE_OVERLAP`, the lowest first.

    Raises:
        SourceError: No question is left.
    """
    progress.start("overlap", len(reading.queries))
    shares = {}
    for query in reading.queries:
        shares[query.query_id] = corpus_overlap(
            query, index.frequency, len(index), index.manifest.languages
        )
        progress.advance("overlap")
    least = queries.min_corpus_overlap
    too_far = 0
    if least is not None:
        near = [query for query in reading.queries if shares[query.query_id] >= least]
        if not near:
            raise SourceError(
                f"all {len(shares):,} questions have less in common with the corpus than "
                f"min_corpus_overlap = {least}; the most is {max(shares.values()):.2f}"
            )
        kept = tuple(near[: queries.limit])
        too_far = len(reading.queries) - len(near)
        left_out = {
            "below min_corpus_overlap": too_far,
            "beyond limit": len(near) - len(kept),
        }
        rejected = reading.rejected | {why: number for why, number in left_out.items() if number}
        reading = QueryReading(kept, dict(sorted(rejected.items())))
    ids = [query.query_id for query in reading.queries if shares[query.query_id] < LITTLE_OVERLAP]
    little = {query_id: shares[query_id] for query_id in sorted(ids, key=shares.__getitem__)}
    note = overlap_note(little, len(reading.queries))
    if least is not None:
        note = f"{too_far:,} questions left out; {note}"
    progress.finish("overlap", note)
    return reading, little


def overlap_note(little: Mapping[str, float], queries: int) -> str:
    """Say which questions use words that the corpus lacks."""
    note = f"{len(little):,} of {queries:,} questions use words that the corpus lacks"
    named = ", ".join(list(little)[:_NAMED]) + ", …" * (len(little) > _NAMED)
    return f"{note}: {named}" if little else note


def known_seeds(queries: Sequence[Query], known: Set[str]) -> tuple[Query, ...]:
    """Take those seeds out of queries that are read which this corpus does not have.

    Such a query was made from other documents, or from an earlier state of these.
    """
    return tuple(
        query
        if all(id_ in known for id_ in query.seed_chunk_ids)
        else query.model_copy(
            update={"seed_chunk_ids": tuple(id_ for id_ in query.seed_chunk_ids if id_ in known)}
        )
        for query in queries
    )


def in_languages(config: BuildConfig, queries: Sequence[Query]) -> tuple[Query, ...]:
    """Say of each query which of the configuration's languages it is in, where it does not itself."""
    own = config.queries.language
    return tuple(
        query
        if query.language or not config.languages
        else query.model_copy(update={"language": own or language_of(query.text, config.languages)})
        for query in queries
    )
