"""What is shown of collections: cards, differences, analyses, searches, leaderboards."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from freshstack_dspy.collection.analysis import (
    KINDS,
    NEXT,
    Analysis,
    AnalyzedNugget,
    Kind,
    QueryAnalysis,
    Result,
)
from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.collection.diff import Difference, JudgmentChange, NuggetChange
from freshstack_dspy.collection.leaderboard import EntryResult, Results, TopicResult
from freshstack_dspy.collection.steps import Steps
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.measures.measure import Cutoff, parse_measure
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
    interval,
    items,
    marked,
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
    return Page(
        title,
        (
            tallies_table(difference.tallies),
            *([Text(f"slices of queries: {moved}")] if moved else []),
            *(
                Page(
                    f"{name}: {len(lines):,}",
                    tuple(items([cut(line, _LONGEST) for line in lines], limit)),
                )
                for name, lines in _changes(difference)
                if lines
            ),
        ),
        data=difference,
    )


def tallies_table(tallies: Mapping[str, Any], kept: str = "same", title: str = "") -> Table:
    """Give how many records of each kind are as before, came, went and changed."""
    columns = {
        "": lambda tally: tally[0],
        kept: lambda tally: tally[1].kept,
        "added": lambda tally: tally[1].added,
        "dropped": lambda tally: tally[1].dropped,
        "changed": lambda tally: tally[1].changed,
    }
    return Table.of(tallies.items(), columns, title)


def _changes(difference: Difference) -> Iterator[tuple[str, list[str]]]:
    queries = [change for change in difference.changes if change.kind == "query"]
    nuggets = [change for change in difference.changes if change.kind == "nugget"]
    labels = [change for change in difference.changes if change.kind == "judgment"]
    for kind in ("added", "dropped", "edited"):
        ids = [change.query_id for change in queries if change.change == kind]
        yield f"queries {kind}", [f"{id_}: {difference.questions[id_]}" for id_ in ids]
    for kind in ("added", "dropped", "changed"):
        yield (
            f"nuggets {kind}",
            [_changed_nugget(change) for change in nuggets if change.change == kind],
        )
    for move in ("up", "down", "new", "gone"):
        yield (
            f"labels {move}",
            [_changed_label(change, difference) for change in labels if change.move == move],
        )
    elsewhere = [
        _changed_label(change, difference) for change in labels if change.change == "evidence"
    ]
    yield "same label, other evidence", elsewhere


def _changed_nugget(change: NuggetChange) -> str:
    nugget = change.after or change.before
    assert nugget is not None
    if not change.fields:
        return f"{nugget.nugget_id}: {nugget.text}"
    moves = (f"{getattr(change.before, name)} → {getattr(nugget, name)}" for name in change.fields)
    return f"{nugget.nugget_id}: {'; '.join(moves)}"


def _changed_label(change: JudgmentChange, difference: Difference) -> str:
    judgment = change.after or change.before
    assert judgment is not None
    sides = (change.before, change.after)
    if change.change == "evidence":  # where it is in the file, in bytes
        spans = [side.evidence if side else () for side in sides]
        ends = [" ".join(f"{start}–{end}" for start, end in each) or "none" for each in spans]
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
    cells = Table.of_dicts(analysis.to_rows())
    if query_id is not None:
        query = next((each for each in analysis.queries if each.query_id == query_id), None)
        if query is None:
            raise CollectionError(
                f"query {query_id!r} is not listed; analyze it with query_id={query_id!r}"
            )
        title = f"{_dry(analysis)}{analysis.run}, query {query_id}"
        return Page(title, tuple(_query(analysis, query, whole=True)), analysis, cells)
    than = f", against {analysis.against}" if analysis.against else ""
    return Page(
        f"{_dry(analysis)}{analysis.collection}: what {analysis.run} misses{than}, by {analysis.measure}",
        (
            Text(_summary(analysis)),
            *_kinds(analysis),
            *_groups(analysis),
            *_worst(analysis),
            *(
                Page(
                    f"{query.query_id}: {cut(query.question, 70)}",
                    tuple(_query(analysis, query)),
                    anchor=query.query_id,
                )
                for query in analysis.worst
            ),
        ),
        analysis,
        cells,
    )


def _dry(analysis: Analysis) -> str:
    return f"{DRY_RUN}. " if analysis.dry_run else ""


def _summary(analysis: Analysis) -> str:
    than = ""
    if analysis.against_mean is not None:
        difference = analysis.mean - analysis.against_mean
        than = f", {analysis.against_mean:.4f} of {analysis.against} ({difference:+.4f})"
    queries = counted(analysis.measured, "query", "queries")
    return (
        f"mean {analysis.mean:.4f}{than} on {queries}; of {counted(analysis.nuggets, 'nugget')} of "
        f"{counted(analysis.total, 'query', 'queries')}, the top has {analysis.nuggets - analysis.missed:,} and misses {analysis.missed:,}"
    )


def _kinds(analysis: Analysis) -> Iterator[Table | Text]:
    if not analysis.kinds:
        return
    other = (f"found by\n{cut(analysis.against, 20)}",) if analysis.against else ()
    rows: list[tuple[Cell, ...]] = [
        (_spaced(of.kind), of.nuggets, *([of.lost] if other else []), len(of.queries))
        for of in analysis.kinds
    ]
    yield Table(("missed", "nuggets", *other, "queries"), rows)
    for of in analysis.kinds:
        found = ", ".join(
            f"{number} by {_TECHNIQUES[name]}" for name, number in of.techniques.items() if number
        )
        parts = (
            f": {KINDS[of.kind]}.",
            "" if analysis.dry_run else f" Next: {NEXT[of.kind]}.",
            f" In as deep a top the pool's retrievers had {found}." if found else "",
            f" Queries: {', '.join(of.queries[:10])}{', …' if len(of.queries) > 10 else ''}",
        )
        yield Text((Span(_spaced(of.kind), "strong"), *parts), "item")
    if any(of.kind == "not_in_corpus" for of in analysis.kinds):
        yield Text("What the corpus lacks is missed here, and counts in no score.", "note")


def _groups(analysis: Analysis) -> Iterator[Table]:
    """Tables of the groups that miss most."""
    for by in dict.fromkeys(of.by for of in analysis.groups):
        groups = [of for of in analysis.groups if of.by == by and of.kinds]
        rows = [
            (of.group, of.queries, of.nuggets, sum(of.kinds.values()), _lines(of.kinds))
            for of in groups[:_GROUPS]
        ]
        if rows:
            most = (
                f", the {_GROUPS} of {len(groups)} that miss most" if len(groups) > _GROUPS else ""
            )
            yield Table((by, "queries", "nuggets", "missed", "why"), rows, f"by {by}{most}")


def _worst(analysis: Analysis) -> Iterator[Table]:
    if not analysis.worst:
        return
    rows: list[tuple[Cell, ...]] = [
        (
            (Span(query.query_id, href=f"#{query.query_id}"), cut(query.question, 30)),
            query.score,
            *([Value(query.difference, form="+.4f")] if analysis.against else []),
            f"{len(query.found)} of {len(query.nuggets)}",
            _lines(query.kinds),
        )
        for query in analysis.worst
    ]
    header = ("query", "score", *(["change"] if analysis.against else []), "found", "missed")
    yield Table(header, rows, f"the worst {len(rows):,} of {analysis.total:,}")


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
    shown = query.top if whole else query.top[:_TOP]
    rows: list[tuple[Cell, ...]] = [
        (one.rank, (one.document, cut(one.opening, 50)), _labels(one, query)) for one in shown
    ]
    if rows:
        yield Table(("rank", "result", "supports"), rows, "on top", ids=(1, 2))


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
        found = ", ".join(f"{_TECHNIQUES[name]} {at}" for name, at in nugget.techniques.items())
        yield Text(f"ranks in the pool's lists: {found}", "item", 1)
    if (support := nugget.support) is None:
        return
    if whole:
        yield Text(Span(support.chunk_id, "code"), "item", 1)
        yield Text(tuple(marked(support.text, support.evidence, _AROUND)), "excerpt", 1)
    else:
        quotes = [
            piece for one in support.words for piece in (" “", Span(cut(one, _WORDS), "mark"), "”")
        ]
        yield Text((Span(support.chunk_id, "code"), *quotes), "item", 1)


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
    about = (
        f"labels by {', '.join(makers)}; 95 % bootstrap intervals over queries",
        "unjudged: the share of the top that has no label, and counts as not relevant",
    )
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
    rows, remarks, runs = [], [], list[str]()
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
    cells: list[Cell] = []
    for name in results.measures:
        k = parse_measure(name).cutoff
        share = (f"unjudged {percent(unjudged[k])}",) if k is not None and k in unjudged else ()
        cells.append((interval(means[name] if means else None, ".3f"), *share))
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
