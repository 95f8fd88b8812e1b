"""What is shown of collections: cards, differences, new cuts, analyses, searches, leaderboards."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from freshstack_dspy.collection.analyze import (
    KINDS,
    NEXT,
    Analysis,
    AnalyzedNugget,
    Kind,
    QueryAnalysis,
    Result,
)
from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.collection.diff import Difference, JudgmentChange, NuggetChange, QueryChange
from freshstack_dspy.collection.leaderboard import EntryResult, Results, TopicResult
from freshstack_dspy.collection.steps import Steps
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.measures.measure import Cutoff
from freshstack_dspy.measures.statistics import Interval
from freshstack_dspy.pages.page import (
    Cell,
    Page,
    Span,
    Table,
    Text,
    Value,
    counted,
    cut,
    items,
    marked,
    names_by,
    notes,
    percent,
)
from freshstack_dspy.pages.shown import page_of
from freshstack_dspy.records import (
    DEPENDS,
    DRY_RUN,
    Technique,
)
from freshstack_dspy.stored.card import card_page
from freshstack_dspy.views.measures import headroom_parts, mean_cells, redundancy_table

_LONGEST = 160
_TECHNIQUES: dict[Technique, str] = {
    "question": "the question",
    "sub_questions": "sub-questions",
    "closed_book_answer": "the closed-book answer",
}
_GROUPS = 5
"""How many groups of a kind are shown, those that miss most."""
_TOP = 5
"""How many results of a query are shown in a list of queries."""
_AROUND, _WORDS = 300, 200
"""How many characters are shown around evidence, and of a quote."""


@page_of.register
def collection_page(collection: Collection, *, authors: bool = True) -> Page:
    """Give its data card: sources, counts, limits and attribution."""
    return card_page(collection, collection.corpus, collection.manifest, authors=authors)


# What differs


@page_of.register
def difference_page(difference: Difference, title: str = "what differs", limit: int = 5) -> Page:
    """Give what differs, with the first changes of each kind."""
    slices = Counter(
        f"{change.slice_before} → {change.slice_after}"
        for change in difference.changes
        if change.kind == "query" and change.slice_before and change.slice_after
        if change.slice_before != change.slice_after
    )
    moved = ", ".join(f"{number:,} {move}" for move, number in sorted(slices.items()))
    changes = names_by(
        (what, cut(line, _LONGEST))
        for change in sorted(difference.changes, key=_support)
        if (what := _what_changed(change)) and (line := _changed(change, difference))
    )
    lists = (
        Page(f"{what}: {len(lines):,}", tuple(items(lines, limit)))
        for what, lines in changes.items()
    )
    return Page(
        title,
        (
            tallies_table(difference.tallies),
            *([Text(f"slices of queries: {moved}")] if moved else []),
            *lists,
        ),
        data=difference,
    )


def tallies_table(tallies: Mapping[str, Any], kept: str = "same", title: str = "") -> Table:
    """Give how many records of each kind are as before, came, went and changed."""
    columns: dict[str, Any] = {
        "": lambda row: row[0],
        kept: lambda row: row[1].kept,
        "added": lambda row: row[1].added,
        "dropped": lambda row: row[1].dropped,
        "changed": lambda row: row[1].changed,
    }
    return Table.of(tallies.items(), columns, title)


def _support(change: QueryChange | NuggetChange | JudgmentChange) -> int:
    """Order changes: labels come last, those of most support first."""
    if change.kind != "judgment":
        return -1_000
    return -max(side.label or 0 for side in (change.before, change.after) if side is not None)


def _what_changed(change: QueryChange | NuggetChange | JudgmentChange) -> str:
    if change.kind == "judgment":
        if change.change == "evidence":
            return "same label, other evidence"
        if change.change == "followed":
            return "labels that followed their evidence"
        return f"labels {change.move}" if change.move else ""
    what = {"query": "queries", "nugget": "nuggets"}[change.kind]
    return "" if change.change == "resliced" else f"{what} {change.change}"


def _changed(change: QueryChange | NuggetChange | JudgmentChange, difference: Difference) -> str:
    if change.kind == "query":
        return f"{change.query_id}: {difference.questions[change.query_id]}"
    if change.kind == "nugget":
        nugget = change.after or change.before
        assert nugget is not None
        moves = "; ".join(
            f"{getattr(change.before, name)} → {getattr(nugget, name)}" for name in change.fields
        )
        return f"{nugget.nugget_id}: {moves or nugget.text}"
    judgment = change.after or change.before
    assert judgment is not None
    sides = (change.before, change.after)
    if change.change == "evidence":  # where it is in the file, in bytes
        spans = [side.evidence if side else () for side in sides]
        ends = [" ".join(f"{start}–{end}" for start, end in each) or "none" for each in spans]
    elif change.change == "followed":
        ends = [side.chunk_id for side in sides[:1] if side]
    else:
        ends = ["–" if side is None or side.label is None else str(side.label) for side in sides]
    return (
        f"{' → '.join(ends)}  {judgment.nugget_id} in {judgment.chunk_id}: "
        f"{difference.texts[judgment.nugget_id]}"
    )


# What a run misses


@page_of.register
def analysis_page(analysis: Analysis, query_id: str | None = None) -> Page:
    """Give what is shown of it, or of one listed query with the evidence in its chunks."""
    dry = f"{DRY_RUN}. " if analysis.dry_run else ""
    cells = Table.of_dicts(analysis.to_rows())
    if query_id is not None:
        query = next((each for each in analysis.queries if each.query_id == query_id), None)
        if query is None:
            raise CollectionError(
                f"query {query_id!r} is not listed; analyze it with query_id={query_id!r}"
            )
        parts = tuple(_query(analysis, query, whole=True))
        return Page(f"{dry}{analysis.run}, query {query_id}", parts, analysis, cells)
    than = f", against {analysis.against}" if analysis.against else ""
    queries = (
        Page(
            f"{query.query_id}: {cut(query.question, 70)}",
            tuple(_query(analysis, query)),
            anchor=query.query_id,
        )
        for query in analysis.worst
    )
    return Page(
        f"{dry}{analysis.collection}: what {analysis.run} misses{than}, by {analysis.measure}",
        (
            Text(_summary(analysis)),
            *_kinds(analysis),
            *redundancy_table({analysis.run: analysis.top}, "top"),
            *_groups(analysis),
            *_worst(analysis),
            *queries,
        ),
        analysis,
        cells,
    )


def _summary(analysis: Analysis) -> str:
    than = ""
    if analysis.against_mean is not None:
        difference = analysis.mean - analysis.against_mean
        than = f", {analysis.against_mean:.4f} of {analysis.against} ({difference:+.4f})"
    return (
        f"mean {analysis.mean:.4f}{than} on {counted(analysis.measured, 'query', 'queries')}; of "
        f"{counted(analysis.nuggets, 'nugget')} of {counted(analysis.total, 'query', 'queries')}, "
        f"the top has {analysis.nuggets - analysis.missed:,} and misses {analysis.missed:,}"
    )


def _kinds(analysis: Analysis) -> Iterator[Table | Text]:
    if not analysis.kinds:
        return
    columns: dict[str, Any] = {"missed": lambda each: _spaced(each.kind), "nuggets": "nuggets"}
    if analysis.against:
        columns[f"found by\n{cut(analysis.against, 20)}"] = "lost"
    yield Table.of(analysis.kinds, columns | {"queries": lambda each: len(each.queries)})
    for each in analysis.kinds:
        by = ", ".join(
            f"{number} by {_TECHNIQUES[name]}" for name, number in each.techniques.items() if number
        )
        parts = (
            f": {KINDS[each.kind]}.",
            "" if analysis.dry_run else f" Next: {NEXT[each.kind]}.",
            f" In as deep a top the pool's retrievers had {by}." if by else "",
            f" Queries: {', '.join(each.queries[:10])}{', …' if len(each.queries) > 10 else ''}",
        )
        yield Text((Span(_spaced(each.kind), "strong"), *parts), "item")
    if any(each.kind == "not_in_corpus" for each in analysis.kinds):
        yield Text("What the corpus lacks is missed here, and counts in no score.", "note")


def _groups(analysis: Analysis) -> Iterator[Table]:
    """Tables of the groups that miss most."""
    for by in dict.fromkeys(group.by for group in analysis.groups):
        groups = [each for each in analysis.groups if each.by == by and each.kinds]
        columns: dict[str, Any] = {
            by: "group",
            "queries": "queries",
            "nuggets": "nuggets",
            "missed": lambda group: sum(group.kinds.values()),
            "why": lambda group: _lines(group.kinds),
        }
        some = f", the {_GROUPS} of {len(groups)} that miss most" if len(groups) > _GROUPS else ""
        if groups:
            yield Table.of(groups[:_GROUPS], columns, f"by {by}{some}")


def _worst(analysis: Analysis) -> Iterator[Table]:
    columns: dict[str, Any] = {
        "query": lambda query: (
            Span(query.query_id, href=f"#{query.query_id}"),
            cut(query.question, 30),
        ),
        "score": "score",
    }
    if analysis.against:
        columns["change"] = lambda query: Value(query.difference, form="+.4f")
    columns |= {
        "found": lambda query: f"{len(query.found)} of {len(query.nuggets)}",
        "missed": lambda query: _lines(query.kinds),
    }
    if analysis.worst:
        title = f"the worst {len(analysis.worst):,} of {analysis.total:,}"
        yield Table.of(analysis.worst, columns, title)


def _query(
    analysis: Analysis, query: QueryAnalysis, *, whole: bool = False
) -> Iterator[Text | Table]:
    if whole:
        yield Text(query.question, "excerpt")
    score = "not measured, as the corpus supports none of its nuggets"
    if query.score is not None:
        score = f"{analysis.measure} {query.score:.4f}"
    if query.difference is not None:
        score += f", {query.against:.4f} of {analysis.against} ({query.difference:+.4f})"
    found = f"{len(query.found)} of {counted(len(query.nuggets), 'nugget')} found"
    yield Text(f"{score}; {found}; {counted(query.results, 'result')}")
    for nugget in (*query.missed, *query.found):
        yield from _missed(analysis, nugget, whole=whole)
    columns: dict[str, Any] = {
        "rank": "rank",
        "result": lambda result: (result.document, cut(result.opening, 50)),
        "supports": lambda result: _labels(result, query),
    }
    if query.top:
        shown = query.top if whole else query.top[:_TOP]
        yield Table.of(shown, columns, "on top", ids=(1, 2))


def _missed(analysis: Analysis, nugget: AnalyzedNugget, *, whole: bool) -> Iterator[Text]:
    places = [] if nugget.pieces is None else [str(nugget.pieces)]
    if nugget.rank is not None:
        places.append(f"{'whole at ' if places else ''}rank {nugget.rank}")
    if nugget.against_rank is not None:
        places.append(f"rank {nugget.against_rank} of {analysis.against}")
    kind = Span(_spaced(nugget.kind) if nugget.kind else "found", "strong")
    place = f", {'; '.join(places)}" if places else ""
    yield Text((Span(nugget.nugget_id, "code"), " ", kind, f"{place}: {nugget.text}"), "item")
    if nugget.kind is not None and nugget.techniques:
        ranks = ", ".join(f"{_TECHNIQUES[name]} {at}" for name, at in nugget.techniques.items())
        yield Text(f"ranks in the pool's lists: {ranks}", "item", 1)
    if (support := nugget.support) is None:
        return
    quotes: list[str | Span] = []
    for quote in () if whole else support.words:
        quotes += " “", Span(cut(quote, _WORDS), "mark"), "”"
    yield Text((Span(support.chunk_id, "code"), *quotes), "item", 1)
    if whole:
        yield Text(tuple(marked(support.text, support.evidence, _AROUND)), "excerpt", 1)


def _spaced(kind: Kind) -> str:
    return kind.replace("_", " ")


def _lines(kinds: Mapping[Kind, int]) -> str:
    return ",\n".join(f"{number:,} {_spaced(kind)}" for kind, number in kinds.items())


def _labels(result: Result, query: QueryAnalysis) -> str:
    if result.supports:
        return "\n".join(result.supports)
    if not result.labels:
        return "unjudged"
    judged = len(result.labels)
    return "none" if judged == len(query.nuggets) else f"none of {judged} judged"


# The searches of an agent


@page_of.register
def steps_page(steps: Steps, query_id: str | None = None) -> Page:
    """Give what each step adds, what is repeated, and what it takes; or the searches of a query.

    Raises:
        CollectionError: The query is not measured, or has no searches.
    """
    if query_id is not None:
        return _trajectory_page(steps, query_id)
    columns: dict[str, Any] = {
        "step": "step",
        "searches": "searches",
        "alone": lambda step: Value(step.alone, form=".3f"),
        "union": lambda step: Value(step.union, form=".3f"),
        "added": lambda step: Value(step.added, form="+.3f"),
        "shown before": lambda step: percent(step.repeated),
        "not judged": lambda step: percent(step.unjudged),
        "tokens": "tokens",
        "per 1,000 tokens": lambda step: Value(step.per_thousand, form=".2f"),
    }
    if any(step.per_dollar is not None for step in steps.steps):
        columns["per dollar"] = lambda step: Value(step.per_dollar, form=",.1f")
    empty = counted(sum(step.empty for step in steps.steps), "search", "searches")
    same = f"{sum(step.same for step in steps.steps):,} in the words of an earlier one"
    lines = [f"{empty} without a result, {same}"]
    if steps.placed_share is not None:
        placed = f"{steps.placed_share:.1%} of the results are in the files of the corpus"
        lines.append(f"{placed}; what is not there is not judged")
    about = (
        "union: the mean share of nuggets that the searches so far support, over all queries; "
        "alone: that of this search, over the queries that have it; per: nuggets that the searches "
        "so far support, for all that they took"
    )
    dry_run = f" ({DRY_RUN})" if steps.dry_run else ""
    return Page(
        f"{steps.run} on {steps.collection}: {counted(steps.queries, 'query', 'queries')}{dry_run}",
        (Table.of(steps.steps, columns), *map(Text, lines), *notes(about)),
        data=steps,
    )


def _trajectory_page(steps: Steps, query_id: str) -> Page:
    """Give the searches of a query: what each found, and what was then missing."""
    if query_id not in steps.trajectories:
        raise CollectionError(f"{steps.run} has no search for the query {query_id!r:.200}")
    parts = []
    for number, seen in enumerate(steps.trajectories[query_id], start=1):
        line = counted(seen.results, "result")
        if seen.repeated:
            line += f", {seen.repeated:,} of them shown before"
        if seen.unplaced:
            line += f", {seen.unplaced:,} of them not in the corpus"
        body = [Text((Span(cut(seen.search, _LONGEST), "strong"), f": {line}"))]
        body += [Text(f"found: {text}", "item") for text in seen.found or ("nothing new",)]
        body += [Text(f"missing: {text}", "item") for text in seen.missing or ("nothing",)]
        parts.append(Page(f"step {number}", tuple(body)))
    data = {"query_id": query_id, "searches": steps.trajectories[query_id]}
    return Page(f"{steps.run}: query {query_id}", tuple(parts), data=data)


# Leaderboards


@page_of.register
def leaderboard_page(results: Results) -> Page:
    """Give the page of a leaderboard."""
    makers = sorted({topic.labels for topic in results.collections.values()})
    sections = [
        *_average_page(results),
        *(_topic_page(results, topic) for topic in results.collections),
    ]
    about = [
        f"labels by {', '.join(makers)}; 95 % bootstrap intervals over queries",
        "unjudged: the share of the top that has no label, and counts as not relevant",
    ]
    by_weighting = names_by((data.weighted, topic) for topic, data in results.collections.items())
    for weighted, topics in by_weighting.items():
        if weighted:
            others = len(topics) < len(results.collections)
            about.append(f"{', '.join(topics)}: " * others + weighted)
    return Page(
        results.name,
        (*sections, *notes(*about)),
        data=results,
        rows=Table(
            ("topic", "entry", "type", "measure", "mean", "low", "high"), [*_values(results)]
        ),
    )


def _average_page(results: Results) -> Iterator[Page]:
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
    rows = [_entry(results, one, one.average, {}) for one in ranked]
    yield Page(
        f"{DRY_RUN} ({', '.join(dry)}). {title}" if dry else title,
        (Table(("entry", *results.measures), rows, digits=3, ids=(0,)), *missing),
    )


def _topic_page(results: Results, topic: str) -> Page:
    data = results.collections[topic]
    rows, remarks, runs = [], list[Text | Table](), list[str]()
    for entry in results.ranked():
        found = entry.topics.get(topic)
        note = "no run" if found is None else _odd(found)
        values = (None, {}) if found is None else (found.means, found.unjudged)
        rows.append(_entry(results, entry, *values))
        if note:
            remarks.append(Text(f"{entry.info.name}: {note}", "note"))
        if found is not None and found.undecided:
            line = f"{', '.join(found.undecided)}: the difference from the best run {DEPENDS}"
            remarks.append(Text(f"{entry.info.name}: {line}", "warning"))
            runs.append(found.run)
    if runs:
        command = f"freshstack extend COLLECTION {' '.join(runs)} --config FILE"
        remarks.append(Text(("to judge it: ", Span(command, "code"))))
    found_topics = (entry.topics.get(topic) for entry in results.ranked())
    above = [each for found in found_topics if found for each in found.headroom]
    remarks += headroom_parts(above, results.measures, data.queries)
    title = f"{topic}: {data.queries:,} queries, content hash {data.content_hash[:12]}"
    return Page(
        f"{DRY_RUN}. {title}" if data.dry_run else title,
        (Table(("entry", *results.measures), rows, digits=3, ids=(0,)), *remarks),
    )


def _odd(found: TopicResult) -> str:
    odd = {name: getattr(found, name) for name in ("absent", "empty", "unknown", "tied")}
    return ", ".join(f"{number} {name}" for name, number in odd.items() if number)


def _entry(
    results: Results,
    entry: EntryResult,
    means: dict[str, Interval] | None,
    unjudged: Mapping[Cutoff, float | None],
) -> tuple[Cell, ...]:
    none = [Value(None)] * len(results.measures)
    cells = mean_cells(means, unjudged, ".3f") if means else none
    return ((entry.info.name, _type(entry)), *cells)


def _type(entry: EntryResult) -> str:
    size = "" if entry.info.size == "-" else f"{entry.info.size}, "
    return f"{size}{entry.info.type}"


def _values(results: Results) -> Iterator[tuple[Cell, ...]]:
    for entry in results.ranked():
        found = {topic: of.means for topic, of in entry.topics.items()}
        for topic, means in {"": entry.average or {}, **found}.items():
            for name, mean in means.items():
                yield topic, entry.info.name, _type(entry), name, mean.value, mean.low, mean.high
