"""What one query's context is worth, and what in it is redundant."""

from collections.abc import Sequence

from freshstack_dspy.errors import CollectionError
from freshstack_dspy.measures.contexts.density import density
from freshstack_dspy.measures.contexts.required_subset import required_chunks
from freshstack_dspy.measures.qrels import NuggetQrels
from freshstack_dspy.measures.retrieval.alpha_ndcg import alpha_ndcg
from freshstack_dspy.measures.retrieval.coverage import coverage
from freshstack_dspy.measures.retrieval.cutoff import top
from freshstack_dspy.measures.run import Run
from freshstack_dspy.records import Record


class ContextScores(Record):
    """What the top k chunks of one ranking are worth as a context.

    Attributes:
        query_id: The query.
        chunks: How many chunks the context has: k, or fewer where the ranking is shorter.
        coverage: Cov(Z), of the answerable nuggets; None where there are none, as the next two.
        ranked_coverage: alpha-nDCG@k.
        density: Den(Z); None also where it was not asked for.
        covered: The nuggets that a chunk of the context supports.
        uncovered: Those that only chunks outside it support.
        unanswerable: Those that no judged chunk supports.
        supporting: How many of its chunks support any nugget.
        required: How many of them are of the required subset.
        of_required: How many chunks the required subset has.
        partly_redundant: How many chunks of the context are partly redundant beside that subset.
        redundant: How many are redundant beside it. As in CRUX, a chunk that supports nothing is
            one of these two as well: redundant, if the subset has a higher label on every nugget.
        undetermined: How many are one of these two, and a missing label would tell which.
        unjudged: How many have no label for this query.
        failed: How many judgments (nugget, chunk) of its chunks failed: they have no label, and
            no measure takes them for one.
    """

    query_id: str
    chunks: int
    coverage: float | None
    ranked_coverage: float | None
    density: float | None
    covered: tuple[str, ...]
    uncovered: tuple[str, ...]
    unanswerable: tuple[str, ...]
    supporting: int
    required: int
    of_required: int
    partly_redundant: int
    redundant: int
    undetermined: int
    unjudged: int
    failed: int


def evaluate_context(
    qrels: NuggetQrels,
    query_id: str,
    context: Sequence[str],
    *,
    k: int | None = None,
    rel: int | None = None,
    w: float | None = 0.5,
) -> ContextScores:
    """Say what one query's context is worth, as CRUX measures it.

    Source: Ju et al., Controlled Retrieval-augmented Context Evaluation for Long-form RAG, arXiv
    2506.20051, §3.2 and §3.3.

    Args:
        qrels: The judgments.
        query_id: A query of these.
        context: Chunk ids in their order, each once.
        k: How many of them are looked at; None: all.
        rel: The lowest label that counts as support; None: the threshold of the judgments.
        w: The exponent of density; None: no density, and no length is looked up.

    Raises:
        CollectionError: There is no such query, or as in `density`.
        ValueError: k or rel is below 1, w is not in its range, or a chunk stands twice.
    """
    if query_id not in qrels.nuggets:
        raise CollectionError(f"query {query_id!r} is not in the collection, or has no nuggets")
    if len(set(context)) != len(context):
        raise ValueError("a chunk stands twice in the context")
    judged = qrels.judged(query_id, rel)
    chunks = top(context, k)
    found = {place for chunk in chunks for place in judged.supported.get(chunk, ())}
    nuggets = qrels.nuggets[query_id]
    subset = required_chunks(judged)
    within = set(chunks)
    return ContextScores(
        query_id=query_id,
        chunks=len(chunks),
        coverage=coverage(chunks, judged, of="answerable"),
        ranked_coverage=alpha_ndcg(chunks, judged, k),
        density=None if w is None else density(chunks, judged, w=w),
        covered=tuple(nuggets[place] for place in sorted(found)),
        uncovered=tuple(nuggets[place] for place in sorted(judged.answerable - found)),
        unanswerable=tuple(
            nugget for place, nugget in enumerate(nuggets) if place not in judged.answerable
        ),
        supporting=len(within & judged.supported.keys()),
        required=len(within.intersection(subset.required)),
        of_required=len(subset.required),
        partly_redundant=len(within.intersection(subset.partly_redundant)),
        redundant=len(within.intersection(subset.redundant)),
        undetermined=len(within.intersection(subset.undetermined)),
        unjudged=len(within - judged.chunks),
        failed=sum(len(within & qrels.failed[nugget]) for nugget in nuggets),
    )


def evaluate_contexts(
    qrels: NuggetQrels,
    run: Run,
    k: int,
    *,
    rel: int | None = None,
    w: float | None = 0.5,
) -> tuple[ContextScores, ...]:
    """Say what the top k of each query's ranking are worth as a context, by query.

    A query that is not in the run has an empty context.

    Args:
        qrels: The judgments; queries that are only in the run are passed over.
        run: The rankings.
        k: How many chunks are looked at.
        rel: As in `evaluate_context`.
        w: As in `evaluate_context`.

    Raises:
        CollectionError: As `evaluate_context`.
        ValueError: As `evaluate_context`.
    """
    return tuple(
        evaluate_context(
            qrels,
            query,
            [chunk.chunk_id for chunk in run.rankings.get(query, ())],
            k=k,
            rel=rel,
            w=w,
        )
        for query in qrels.nuggets
    )
