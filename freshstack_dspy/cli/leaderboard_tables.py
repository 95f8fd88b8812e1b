"""The tables of a leaderboard: one for each topic and one of the average, or one row a figure."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from freshstack_dspy.cli.table_formats import Cell, PlainTable
from freshstack_dspy.collection.leaderboard import Results

if TYPE_CHECKING:
    from freshstack_dspy.collection.leaderboard import EntryResult, Figure, TopicResult

_LONG = (
    "entry", "size", "type", "date", "link", "topic", "measure", "value", "low", "high", "k",
    "unjudged", "absent", "empty", "unknown", "tied", "run", "sha256",
)  # fmt: skip
_MISSING = "–"
_DIGITS = 3


def wide_tables(results: Results) -> list[PlainTable]:
    """Make the tables that people read: the average over topics, then each topic.

    Entries stand in the order of the average in all of them. Of one topic there is no average.
    """
    topics = [_topic_table(results, topic) for topic in results.collections]
    return [_average_table(results), *topics] if len(topics) > 1 else topics


def long_table(results: Results) -> PlainTable:
    """Make a table with one row for each entry, topic and measure, and for the average."""
    rows: list[tuple[Cell, ...]] = []
    for entry in results.ranked():
        rows += _long_rows(results, entry)
    return PlainTable(_LONG, tuple(rows))


def _average_table(results: Results) -> PlainTable:
    rows = []
    for entry in results.ranked():
        info = entry.info
        if entry.average is None:
            figures = [_MISSING] * len(results.measures)
        else:
            figures = [_figure(entry.average[measure]) for measure in results.measures]
        rows.append((info.name, info.size, info.type, *figures, ", ".join(entry.missing)))
    topics = ", ".join(results.collections)
    return PlainTable(
        ("entry", "size", "type", *results.measures, "no run for"),
        tuple(rows),
        caption=f"{results.name}: mean over {len(results.collections)} topics ({topics}); "
        "95 % intervals",
        digits=_DIGITS,
    )


def _topic_table(results: Results, topic: str) -> PlainTable:
    data = results.collections[topic]
    cutoffs = sorted(
        {k for entry in results.entries for of in entry.topics.values() for k in of.unjudged}
    )
    rows = []
    for entry in results.ranked():
        found = entry.topics.get(topic)
        # Shares stay numbers, so that their columns are flush right.
        cells: list[Cell] = [None] * (len(results.measures) + len(cutoffs) + 1)
        if found is not None:
            cells = [_figure(found.figures[measure]) for measure in results.measures]
            cells += [found.unjudged[k] for k in cutoffs]
            cells.append(remarks(found) or "all")
        rows.append((entry.info.name, entry.info.size, entry.info.type, *cells))
    caption = f"{topic}: {data.queries} queries, content {data.content_hash[:12]}; 95 % intervals"
    if data.without_relevant:
        caption += f"; {data.without_relevant} queries without a relevant chunk count 0"
    unjudged = (f"unjudged@{k}" for k in cutoffs)
    header = ("entry", "size", "type", *results.measures, *unjudged, "queries")
    return PlainTable(header, tuple(rows), caption=caption, digits=_DIGITS)


def _figure(figure: "Figure") -> str:
    if figure.low is None or figure.high is None:
        return f"{figure.value:.3f}"
    return f"{figure.value:.3f} [{figure.low:.3f}, {figure.high:.3f}]"


def remarks(found: "TopicResult") -> str:
    """Say what is odd about the queries of a run; empty where nothing is."""
    counts = {
        "absent": found.absent,
        "empty": found.empty,
        "unknown": found.unknown,
        "tied": found.tied,
    }
    return ", ".join(f"{number} {what}" for what, number in counts.items() if number)


def _long_rows(results: Results, entry: "EntryResult") -> Iterator[tuple[Cell, ...]]:
    from freshstack_dspy.collection.leaderboard import NO_SIZE
    from freshstack_dspy.measures.measure import parse_measure

    info = entry.info
    size = None if info.size == NO_SIZE else info.size
    head = (info.name, size, info.type, info.date, info.link)
    for topic in results.collections:
        found = entry.topics.get(topic)
        for measure in results.measures:
            if found is None:
                yield (*head, topic, measure, *(None,) * (len(_LONG) - 7))
                continue
            figure = found.figures[measure]
            k = parse_measure(measure).k
            unjudged = None if k is None else found.unjudged[k]
            queries = (found.absent, found.empty, found.unknown, found.tied)
            of_run = (*queries, found.run, found.sha256)
            values = (figure.value, figure.low, figure.high, k, unjudged)
            yield (*head, topic, measure, *values, *of_run)
    for measure, average in (entry.average or {}).items():
        ends = (average.low, average.high)
        yield (*head, "average", measure, average.value, *ends, *(None,) * (len(_LONG) - 10))
