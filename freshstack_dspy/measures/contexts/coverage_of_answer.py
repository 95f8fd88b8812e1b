"""Cov(y) and Den(y): a generated answer, rated against the questions as one passage is."""

from collections.abc import Mapping

from freshstack_dspy.errors import CollectionError
from freshstack_dspy.measures.contexts.density import check_weight, relative_density
from freshstack_dspy.measures.judged import Judged
from freshstack_dspy.records import Record


class AnswerCoverage(Record):
    """What of a query's answerable nuggets a generated answer tells.

    Attributes:
        coverage: Cov(y): the share of the answerable nuggets that the answer supports, what is not
            rated counting as not supported; None where no nugget is answerable.
        highest: What it would be if it supported all that are not rated.
        supported: The answerable nuggets that it supports.
        unsupported: Those that it does not.
        unrated: Those without a rating, as where the judge's reply was none.
        beyond: Nuggets that it supports and no judged chunk does: from the model's memory, or
            made up. They count for nothing.
    """

    coverage: float | None
    highest: float | None
    supported: tuple[str, ...]
    unsupported: tuple[str, ...]
    unrated: tuple[str, ...]
    beyond: tuple[str, ...]


def answer_coverage(ratings: Mapping[str, int | None], judged: Judged) -> AnswerCoverage:
    """Compute Cov(y), the coverage of a context, of a generated answer y.

    Source: Ju et al., Controlled Retrieval-augmented Context Evaluation for Long-form RAG, arXiv
    2506.20051, §3.3, eq. 3.

    Args:
        ratings: Nugget id -> how far the answer supports it, on the judge's scale; None, or left
            out, where there is no rating.
        judged: The judgments of the query's chunks, which say what is answerable; its `rel` is
            the threshold for the answer too.

    Raises:
        CollectionError: A nugget is not one of the query's, or a rating is below 0: CRUX writes
            failures so, and here they are None.
    """
    _check(ratings, judged)
    lists: dict[str, list[str]] = {"supported": [], "unsupported": [], "unrated": [], "beyond": []}
    for place, nugget in enumerate(judged.labels):
        rating = ratings.get(nugget)
        answered = rating is not None and rating >= judged.rel
        if place not in judged.answerable:
            if answered:
                lists["beyond"].append(nugget)
        elif rating is None:
            lists["unrated"].append(nugget)
        else:
            lists["supported" if answered else "unsupported"].append(nugget)
    found = {name: tuple(nuggets) for name, nuggets in lists.items()}
    of = len(judged.answerable)
    told, open_ = len(found["supported"]), len(found["unrated"])
    return AnswerCoverage(
        coverage=told / of if of else None, highest=(told + open_) / of if of else None, **found
    )


def answer_density(
    ratings: Mapping[str, int | None], tokens: int, judged: Judged, *, w: float = 0.5
) -> float | None:
    """Compute Den(y), the density of a generated answer y, as `density` of a context.

    Source: As `density`; Table 1 gives it for answers.

    Args:
        ratings: As in `answer_coverage`.
        tokens: The length of the answer, counted as the lengths of the chunks are.
        judged: The judgments of the query, with the tokens of its chunks.
        w: As in `density`.

    Returns:
        The value, or None where no nugget is answerable.

    Raises:
        ValueError: w is not in its range, or there are fewer than 0 tokens.
        CollectionError: As `answer_coverage` and `density`.
    """
    check_weight(w)
    if tokens < 0:
        raise ValueError(f"an answer has 0 tokens or more, not {tokens!r}")
    supported = answer_coverage(ratings, judged).supported
    return relative_density(len(supported), tokens, judged, w) if judged.answerable else None


def _check(ratings: Mapping[str, int | None], judged: Judged) -> None:
    if strangers := sorted(ratings.keys() - judged.labels.keys()):
        raise CollectionError(
            f"nugget {strangers[0]!r} is rated and is not one of the query's "
            f"({len(strangers)} such)"
        )
    for nugget, rating in ratings.items():
        if rating is not None and rating < 0:
            raise CollectionError(
                f"the rating of nugget {nugget!r} is {rating!r}; allowed: 0 or more, and None "
                "where there is none"
            )
