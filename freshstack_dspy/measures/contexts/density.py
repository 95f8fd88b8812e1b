"""Density: how much a context answers for its length, measured against the required subset."""

from collections.abc import Iterable, Sequence

from freshstack_dspy.errors import CollectionError
from freshstack_dspy.measures.contexts.required_subset import required_only
from freshstack_dspy.measures.judged import Judged
from freshstack_dspy.measures.retrieval.cutoff import top


def density(
    ranking: Sequence[str], judged: Judged, k: int | None = None, *, w: float = 0.5
) -> float | None:
    """Compute Density@k of the context Z, the top k chunks of a ranking.

        ((covered(Z) / tokens(Z)) / (|A| / tokens(P**)))^w

    where A are the answerable nuggets, which some judged chunk supports, covered(Z) is how many of
    them a chunk of Z supports, and P** is the required subset of all judged chunks, which supports
    all of A (`required_chunks`). P** has density 1. A context that is shorter than P** for what it
    supports has more than 1: P** is chosen by what its chunks support, not by their length. An
    empty context supports nothing and has density 0.

    Source: Ju et al., Controlled Retrieval-augmented Context Evaluation for Long-form RAG, arXiv
    2506.20051, §3.3, eq. 5, with w = 0.5; its code has w = 1 by default.

    Args:
        ranking: Chunk ids, best first, each once.
        judged: The judgments of the query, with the tokens of its chunks.
        k: How many chunks are looked at; None: all.
        w: How much a denser context gains, above 0 and at most 1; below 1, ever less.

    Returns:
        The value, or None where no nugget is answerable; no length is then looked up.

    Raises:
        ValueError: k is below 1 or w not in its range.
        CollectionError: The length of a chunk of the context, or of the required subset, is not
            known, or none of them has any length. CRUX takes the mean length instead.
    """
    context = top(ranking, k)
    covered = {place for chunk in context for place in judged.supported.get(chunk, ())}
    check_weight(w)
    if not judged.answerable:
        return None
    if not context:
        return 0.0
    return relative_density(len(covered), tokens_of(context, judged), judged, w)


def check_weight(w: float) -> None:
    """Refuse an exponent outside the range that density has a meaning for."""
    if not 0 < w <= 1:
        raise ValueError(f"w is a number above 0 and at most 1, not {w!r}")


def relative_density(covered: int, tokens: int, judged: Judged, w: float) -> float:
    """Compute the density of a text that supports `covered` of the answerable nuggets.

    Args:
        covered: How many; there is at least one answerable nugget.
        tokens: Its length; 0 only if it covers none.
        judged: The judgments of the query, with the tokens of its chunks.
        w: The exponent.
    """
    required = tokens_of(required_only(judged), judged)
    if covered == 0:
        return 0.0
    if tokens == 0 or required == 0:
        what = "the text" if tokens == 0 else "the required subset of the judged chunks"
        raise CollectionError(f"{what} supports nuggets and has 0 tokens, so it has no density")
    return float((covered * required / (len(judged.answerable) * tokens)) ** w)


def tokens_of(chunks: Iterable[str], judged: Judged) -> int:
    """Add up the lengths of chunks.

    Raises:
        CollectionError: One is not known, or is no length.
    """
    lengths = {} if judged.tokens is None else judged.tokens
    total = 0
    for chunk in chunks:
        tokens = lengths.get(chunk)
        if tokens is None:
            raise CollectionError(
                f"the length of chunk {chunk!r} is not known, and Density takes no mean for it; "
                + (
                    "evaluate on a collection that has its text"
                    if chunk in judged.chunks
                    else "evaluate the run on the collection it was made for, or only what is "
                    "judged: Density(judged_only=True)"
                )
            )
        if tokens < 0:
            raise CollectionError(
                f"the length of chunk {chunk!r} is {tokens!r}; allowed: 0 or more"
            )
        total += tokens
    return total
