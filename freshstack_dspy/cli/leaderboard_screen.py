"""The tables of a leaderboard on a screen: the average over topics, then each topic."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from freshstack_dspy.cli.leaderboard_tables import remarks
from freshstack_dspy.cli.lines import counted, say_wrapped
from freshstack_dspy.cli.means_tables import MeansRow, MeansSection, show_means
from freshstack_dspy.collection.leaderboard import LEVEL, NO_SIZE, RESAMPLES, Results

if TYPE_CHECKING:
    from freshstack_dspy.collection.leaderboard import EntryInfo, EntryResult, Figure
    from freshstack_dspy.measures.statistics import Interval

_WITHOUT_ENDS = "there are too few queries, or all of them have the same value"


def show_results(results: Results) -> None:
    """Print the tables; entries stand in the order of the average in all of them."""
    topics = list(results.collections)
    if len(topics) > 1:
        _show_average(results)
    for place, topic in enumerate(topics):
        if place or len(topics) > 1:
            print()
        _show_topic(results, topic)


def _show_average(results: Results) -> None:
    topics = ", ".join(results.collections)
    say_wrapped(f"{results.name}, of the topics {topics}")
    rows = []
    for entry in results.ranked():
        note = f"no run for {', '.join(entry.missing)}" if entry.missing else ""
        rows.append(_row(results, entry, note, entry.average, {}))
    title = f"mean over {len(results.collections)} topics"
    show_means(title, "entry", results.measures, [MeansSection("", rows)])


def _show_topic(results: Results, topic: str) -> None:
    data = results.collections[topic]
    rows = []
    for entry in results.ranked():
        found = entry.topics.get(topic)
        if found is None:
            rows.append(_row(results, entry, "no run", None, {}))
        else:
            rows.append(_row(results, entry, remarks(found), found.figures, found.unjudged))
    queries = counted(data.queries, "query", "queries")
    title = f"{topic}: {queries}, content {data.content_hash[:12]}"
    show_means(title, "entry", results.measures, [MeansSection("", rows)])
    if data.without_relevant:
        without = counted(data.without_relevant, "query", "queries")
        say_wrapped(f"{without} without a relevant chunk: 0 in most measures, for every run")


def _row(
    results: Results,
    entry: "EntryResult",
    remark: str,
    figures: "Mapping[str, Figure] | None",
    unjudged: Mapping[int, float | None],
) -> MeansRow:
    means = {name: _interval(figures[name] if figures else None) for name in results.measures}
    note = ", ".join(each for each in (_kind(entry.info), remark) if each)
    return MeansRow(entry.info.name, note, means, unjudged)


def _kind(info: "EntryInfo") -> str:
    return info.type if info.size == NO_SIZE else f"{info.size}, {info.type}"


def _interval(figure: "Figure | None") -> "Interval":
    from freshstack_dspy.measures.statistics import Interval

    without = figure is not None and figure.low is None
    return Interval(
        value=figure.value if figure else None,
        low=figure.low if figure else None,
        high=figure.high if figure else None,
        level=LEVEL,
        groups=0,
        resamples=RESAMPLES,
        undefined=0,
        reason=_WITHOUT_ENDS if without else None,
    )
