"""The page of a leaderboard: the average over topics, then each topic, in one order."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from freshstack_dspy.measures.measure import parse_measure
from freshstack_dspy.pages.page import Cell, Page, Span, Table, Text, interval, percent
from freshstack_dspy.records import DEPENDS, DRY_RUN

if TYPE_CHECKING:
    from freshstack_dspy.collection.leaderboard import EntryResult, Mean, Results, TopicResult
    from freshstack_dspy.measures.measure import Cutoff


def leaderboard_page(results: "Results") -> Page:
    """Give the page of a leaderboard."""
    makers = sorted({topic.labels for topic in results.collections.values()})
    sections = [*_average(results), *(_topic(results, topic) for topic in results.collections)]
    notes = (
        f"labels by {', '.join(makers)}; 95 % bootstrap intervals over queries",
        "unjudged: the share of the top that has no label, and counts as not relevant",
    )
    return Page(
        results.name,
        (*sections, *(Text(note, "note") for note in notes)),
        data=results,
        rows=Table(("topic", "entry", "type", "measure", "mean", "low", "high"), [*_rows(results)]),
    )


def _average(results: "Results") -> Iterator[Page]:
    if len(results.collections) < 2:
        return
    dry = [topic for topic, data in results.collections.items() if data.dry_run]
    ranked = results.ranked()
    title = f"{results.name}: mean over {len(results.collections)} topics"
    missing = (
        Text(f"{one.info.name}: no run for {', '.join(one.missing)}", "note")
        for one in ranked
        if one.missing
    )
    rows = [_row(results, one, one.average, {}) for one in ranked]
    yield Page(
        f"{DRY_RUN} ({', '.join(dry)}). {title}" if dry else title,
        (Table(("entry", *results.measures), rows, digits=3, ids=(0,)), *missing),
    )


def _topic(results: "Results", topic: str) -> Page:
    data = results.collections[topic]
    rows, notes, runs = [], [], list[str]()
    for entry in results.ranked():
        found = entry.topics.get(topic)
        note = "no run" if found is None else _odd(found)
        values = (None, {}) if found is None else (found.means, found.unjudged)
        rows.append(_row(results, entry, *values))
        if note:
            notes.append(Text(f"{entry.info.name}: {note}", "note"))
        if found is not None and found.undecided:
            line = f"{', '.join(found.undecided)}: the difference from the best run {DEPENDS}"
            notes.append(Text(f"{entry.info.name}: {line}", "warning"))
            runs.append(found.run)
    if runs:
        command = f"freshstack extend COLLECTION {' '.join(runs)} --config FILE"
        notes.append(Text(("to judge it: ", Span(command, "code"))))
    title = f"{topic}: {data.queries:,} queries, content hash {data.content_hash[:12]}"
    return Page(
        f"{DRY_RUN}. {title}" if data.dry_run else title,
        (Table(("entry", *results.measures), rows, digits=3, ids=(0,)), *notes),
    )


def _odd(found: "TopicResult") -> str:
    odd = {name: getattr(found, name) for name in ("absent", "empty", "unknown", "tied")}
    return ", ".join(f"{number} {name}" for name, number in odd.items() if number)


def _row(
    results: "Results",
    entry: "EntryResult",
    means: "dict[str, Mean] | None",
    unjudged: "Mapping[Cutoff, float | None]",
) -> tuple[Cell, ...]:
    cells: list[Cell] = []
    for name in results.measures:
        k = parse_measure(name).cutoff
        share = (f"unjudged {percent(unjudged[k])}",) if k is not None and k in unjudged else ()
        cells.append((interval(means[name] if means else None, ".3f"), *share))
    return ((entry.info.name, _type(entry)), *cells)


def _type(entry: "EntryResult") -> str:
    size = "" if entry.info.size == "-" else f"{entry.info.size}, "
    return f"{size}{entry.info.type}"


def _rows(results: "Results") -> Iterator[tuple[Cell, ...]]:
    for entry in results.ranked():
        found = {topic: of.means for topic, of in entry.topics.items()}
        for topic, means in {"": entry.average or {}, **found}.items():
            for name, mean in means.items():
                yield topic, entry.info.name, _type(entry), name, mean.value, mean.low, mean.high
