"""The statistics of a collection, in the columns of the FreshStack paper's Table 3."""

import re
from collections.abc import Callable, Iterable
from statistics import fmean

from freshstack_dspy.collection.contents import Contents
from freshstack_dspy.records import Query, Record, SliceName

_BLOCK = re.compile(
    r"^ {0,3}(?:```|~~~)"  # a fence
    r"|(?:\A|\n[ \t]*\n)(?: {4}|\t)[ \t]*\S",  # an indented block
    re.MULTILINE,
)
_TICKS = re.compile(r"`+")


class Statistics(Record):
    """The statistics of some queries of a collection; a mean over nothing is None."""

    queries: int
    chunks: int
    """Chunks of the corpus."""
    sources: int
    """Repositories or folders of the corpus."""
    nuggets_per_query: float | None
    query_words: float | None
    """Mean length of title and body, in words between white space."""
    answer_words: float | None
    queries_with_code: float | None
    """Share of queries with a code block or code span in the Markdown, 0 to 1."""
    answers_with_code: float | None
    relevant_per_nugget: float | None
    """Mean number of chunks that support a nugget."""
    relevant_per_query: float | None
    """Mean number of chunks that support any nugget of a query."""


def collection_statistics(
    contents: Contents, slices: tuple[SliceName, ...], *, chunks: int, sources: int
) -> Statistics:
    """Describe the queries of some slices.

    Args:
        contents: The records of the collection.
        slices: Whose queries; those without nuggets are left out, as from every evaluation.
        chunks: How many chunks the corpus has.
        sources: How many sources they come from.
    """
    qrels = contents.qrels_of(slices).official()
    queries = [query for query in contents.queries if query.query_id in qrels.query_to_nuggets]

    def mean(measure: Callable[[Query], float]) -> float | None:
        return _mean(measure(query) for query in queries)

    return Statistics(
        queries=len(queries),
        chunks=chunks,
        sources=sources,
        nuggets_per_query=_mean(map(len, qrels.query_to_nuggets.values())),
        query_words=mean(lambda query: len(query.text.split())),
        answer_words=mean(lambda query: len(query.answer.split())),
        queries_with_code=mean(lambda query: holds_code(query.body)),
        answers_with_code=mean(lambda query: holds_code(query.answer)),
        relevant_per_nugget=_mean(sum(labels.values()) for labels in qrels.qrels_nuggets.values()),
        relevant_per_query=_mean(
            sum(count > 0 for count in counts.values()) for counts in qrels.qrels_query.values()
        ),
    )


def holds_code(markdown: str) -> bool:
    """Tell whether Markdown has a code block or a code span."""
    return _BLOCK.search(markdown) is not None or any(map(_holds_span, markdown.split("\n")))


def _holds_span(line: str) -> bool:
    """Tell whether two runs of backticks are of one length: what stands between them is code."""
    lengths = set()
    for run in _TICKS.finditer(line):
        length = run.end() - run.start()
        if length in lengths:
            return True
        lengths.add(length)
    return False


def _mean(values: Iterable[float]) -> float | None:
    found = list(values)
    return fmean(found) if found else None
