"""What is shown of evaluated runs, and of their comparison: means, differences, what is unjudged."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from freshstack_dspy.measures.compare import Comparison, RunDifference
from freshstack_dspy.measures.conventions import conventions_named
from freshstack_dspy.measures.evaluation import Evaluation, PassageNotes
from freshstack_dspy.measures.groups import GroupedEvaluation
from freshstack_dspy.measures.measure import Cutoff, parse_measure
from freshstack_dspy.measures.qrels import About
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
    names_by,
    notes,
    p_value,
    percent,
)
from freshstack_dspy.pages.shown import page_of
from freshstack_dspy.records import DEPENDS, DRY_RUN

FEW_QUERIES = 30
"""With fewer queries a bootstrap interval of their mean is too narrow (Hesterberg 2015)."""
_EXTENDED = 20
"""How many results of each ranking `extend` judges by default."""

Groups = Mapping[str, Sequence[GroupedEvaluation]]
"""By run; of each run the same groupings."""


@page_of.register
def _(evaluation: Evaluation) -> Page:
    return evaluation_page({evaluation.run: evaluation})


def evaluation_page(
    runs: Mapping[str, Evaluation],
    groups: Groups | None = None,
    paths: Mapping[str, Path] | None = None,
) -> Page:
    """Give the page of runs that were evaluated on the same judgments, by name.

    Args:
        runs: By name.
        groups: Their means by group.
        paths: The files of the runs, for what to type next.
    """
    first = next(iter(runs.values()))
    by_group = [
        group_page(runs, {name: of[place] for name, of in groups.items()})
        for place in range(len(next(iter(groups.values()))))
    ] if groups else []  # fmt: skip
    found = [
        {
            "file": name,
            **run.model_dump(),
            "intervals": run.intervals,
            "groups": (groups or {}).get(name, ()),
        }
        for name, run in runs.items()
    ]
    return Page(
        title_of(first),
        (*mean_parts(runs, paths or {}), *by_group, *_next(first, paths or {})),
        data={**first.about.identity, "evaluations": found},
        rows=_rows(runs, groups or {}),
    )


def title_of(evaluation: Evaluation) -> str:
    """Say on what was measured: the title of a page."""
    about, dry = evaluation.about, f"{DRY_RUN}. " if evaluation.dry_run else ""
    return f"{dry}{about.name}: {_queries(about.measured)}{about.choice}"


def mean_parts(runs: Mapping[str, Evaluation], paths: Mapping[str, Path]) -> Iterator[Table | Text]:
    """Give a table with a row for each run, and what has to be known to read it."""
    rows: list[tuple[Cell, ...]] = []
    for name, run in runs.items():
        placed = () if run.passages is None else (f"{percent(run.passages.placed_share)} placed",)
        rows.append(((name, *placed), *mean_cells(run.intervals, unjudged_shares(run))))
    first = next(iter(runs.values()))
    yield Table(("run", *first.measures), rows, ids=(0,))
    yield from notes(*_about(runs))
    yield from notes(*(f"{name}: {line}" for name, run in runs.items() for line in _missing(run)))
    yield from _mostly_unjudged(runs, paths)
    yield from notes(*first.about.origin)


def mean_cells(
    means: Mapping[str, Interval], unjudged: Mapping[Cutoff, float | None]
) -> Iterator[Cell]:
    """Give means as cells: the value, its interval, and which share of its top is unjudged."""
    for name, mean in means.items():
        k = parse_measure(name).cutoff if unjudged else None
        share = (f"unjudged {percent(unjudged[k])}",) if k in unjudged and k is not None else ()
        yield (interval(mean), *share)


def unjudged_shares(evaluation: Evaluation) -> dict[Cutoff, float | None]:
    """Give the mean share of the top that has no label, by cut-off."""
    return {of.k: of.mean for of in evaluation.unjudged}


def _about(runs: Mapping[str, Evaluation]) -> Iterator[str]:
    first = next(iter(runs.values()))
    found = [mean for run in runs.values() for mean in run.intervals.values()]
    if any(mean.low is not None for mean in found):
        yield "in brackets: the 95% bootstrap interval of the mean, over queries"
    for reason in sorted({mean.reason for mean in found if mean.reason}):
        yield f"no interval: {reason}"
    if first.about.measured < FEW_QUERIES:
        few = "is" if first.about.measured == 1 else "are"
        yield (
            f"{_queries(first.about.measured)} {few} few: intervals of fewer than {FEW_QUERIES} "
            "are too narrow"
        )
    if first.unjudged:
        of_passages = ", of passages in bytes" if any(run.passages for run in runs.values()) else ""
        yield (
            "unjudged: the share of the top k that has no label, and counts as not relevant"
            f"{of_passages}"
        )
    if first.conventions != "ours":
        yield f"ties, rounding and what is missing as in {first.conventions}"


def _missing(evaluation: Evaluation) -> Iterator[str]:
    """Say which queries of a run could not be measured, and what they count."""
    rules = conventions_named(evaluation.conventions)
    counts = {"zero": "counts as 0", "skip": "left out"}
    relevant = set(evaluation.without_relevant)
    unknown = [query for query in evaluation.unknown if query not in evaluation.about.query_ids]
    for ids, what in (
        (evaluation.absent, f"absent from the run ({counts[rules.absent]})"),
        (evaluation.empty, f"without results ({counts[rules.empty]})"),
        (evaluation.without_relevant, "without a relevant chunk (counts as 0)"),
        (unknown, "of the run not in the judgments (passed over)"),
        (evaluation.tied, "all of whose results have one score"),
        *(
            ([query for query in of if query not in relevant], f"without a value of {measure}")
            for measure, of in evaluation.without_value.items()
        ),
    ):
        if ids:
            yield f"{_queries(len(ids))} {what}: {listed(ids)}"
    if evaluation.passages is not None:
        yield from _passage_notes(evaluation.passages)
    if evaluation.unknown_chunks:
        yield f"{counted(evaluation.unknown_chunks, 'result')} dropped, not in the corpus"
    looked = [of.k for of in evaluation.unjudged if isinstance(of.k, int)]
    if looked and 0 < evaluation.most_results < max(looked):
        yield (
            f"at most {counted(evaluation.most_results, 'result')} for a query, and a measure "
            f"looks at {max(looked)}"
        )
    if evaluation.unjudged:
        deepest = evaluation.unjudged[-1]
        if failed := sum(deepest.failed.values()):
            yield f"{counted(failed, 'failed judgment')} in the top {deepest.k}"


def judging_command(about: About, paths: Sequence[Path], cutoffs: Iterable[Cutoff | None]) -> Span:
    """Give the command that judges the tops of runs down to the deepest cut-off."""
    deepest = max((k for k in cutoffs if isinstance(k, int)), default=0)
    depth = f" --k {deepest}" if deepest > _EXTENDED else ""
    files = " ".join(map(str, paths)) or "RUN …"
    folder = about.path or "COLLECTION"
    return Span(f"freshstack extend {folder} {files} --config FILE{depth}", "code")


def _mostly_unjudged(runs: Mapping[str, Evaluation], paths: Mapping[str, Path]) -> Iterator[Text]:
    """Name the runs of which too little is judged, together where it is the same tops."""
    about = next(iter(runs.values())).about
    for cutoffs in dict.fromkeys(run.mostly_unjudged for run in runs.values()):
        names = [name for name, run in runs.items() if run.mostly_unjudged == cutoffs]
        if not cutoffs:
            continue
        *others, last = map(str, cutoffs)
        tops = f"{', '.join(others)} and {last}" if others else last
        line = (
            f"{', '.join(map(cut, names))}: most of the top {tops} is unjudged: these means depend "
            "on the judgments more than on the run"
        )
        files = [paths[name] for name in names if name in paths]
        typed = (
            (
                "; to judge it, by a [model] that can be asked: ",
                judging_command(about, files, cutoffs),
            )
            if about.path and files
            else ()
        )
        yield Text((line, *typed))


def _next(first: Evaluation, paths: Mapping[str, Path]) -> Iterator[Text]:
    """Say what to type next, where the files are known."""
    if first.about.path and paths:
        command = f"freshstack analyze {first.about.path} {next(iter(paths.values()))}"
        yield Text(("which questions fail, and why: ", Span(command, "code")))


def _passage_notes(passages: PassageNotes) -> Iterator[str]:
    found = counted(passages.passages, "passage")
    if passages.unplaced:
        found += f", {counted(passages.unplaced, 'result')} without a place, which support nothing"
    if passages.repeated:
        found += f", {passages.repeated:,} at the place of another (the better score counts)"
    yield f"{found}; one supports a nugget if it holds {passages.covered:.0%} of its evidence"
    if passages.without_evidence:
        yield (
            f"{passages.without_evidence:,} of {counted(passages.labels, 'label')} of support have no "
            "evidence and count by their whole chunk"
        )


def listed(ids: Sequence[str]) -> str:
    """Name the first few of some ids."""
    return ", ".join(cut(each, 30) for each in ids[:3]) + (", …" if len(ids) > 3 else "")


def _queries(number: int) -> str:
    return counted(number, "query", "queries")


# By group


def group_page(
    runs: Mapping[str, Evaluation],
    grouped: Mapping[str, GroupedEvaluation],
    how: str = "",
) -> Page:
    """Give a row for each group and run, and for both averages; `how` all groups are listed."""
    groups = next(iter(grouped.values()))
    first = next(iter(runs.values()))
    rows: list[tuple[Cell, ...]] = []

    def add(label: str, queries: int, run: str, *values: Any) -> None:
        names = (run,) if len(runs) > 1 else ()
        rows.append(((label, _queries(queries)), *names, *mean_cells(*values)))

    for number, group in enumerate(groups.groups):
        for name, of in grouped.items():
            own = of.groups[number]
            add(group.group, group.queries, name, own.means, own.unjudged)
    queries = len(first.per_query)
    total = len(groups.groups) + groups.unlisted
    for name, of in grouped.items():
        label = f"macro-average of {total} groups"
        add(label, queries - len(groups.ungrouped), name, of.macro, {})
    for name, run in runs.items():
        add("all queries", queries, name, run.intervals, unjudged_shares(run))
    keys = (groups.by, *(["run"] if len(runs) > 1 else []))
    dry = f"{DRY_RUN}. " if first.dry_run else ""
    table = Table((*keys, *first.measures), rows, keys=len(keys), ids=range(1, len(keys)))
    title = f"{dry}{first.about.name}, by {groups.by}: {groups.rule}"
    return Page(title, (table, *notes(*_remarks(groups, how))))


def _remarks(of: GroupedEvaluation, how: str) -> Iterator[str]:
    total = len(of.groups) + of.unlisted
    few = sum(each.queries < FEW_QUERIES for each in of.groups)
    limit = f"freshstack evaluate … --limit {total}"
    if of.unlisted:
        yield f"the {len(of.groups)} largest of {total} groups; all: {how or limit}"
    if few:
        number = counted(few, "group")
        yield f"{number} of fewer than {FEW_QUERIES} queries: their intervals are too narrow"
    if of.ungrouped:
        number = _queries(len(of.ungrouped))
        yield f"{number} in no group, and not in the macro-average: {listed(of.ungrouped)}"


# CSV

_COLUMNS = (
    *("file", "run", "by", "group", "average", "queries", "measure", "mean", "low", "high"),
    *("unjudged_at_k", "absent", "empty", "placed"),
)


def _rows(runs: Mapping[str, Evaluation], groups: Groups) -> Table:
    """Make one row for each mean: of all queries, of each group, and of all groups."""
    rows: list[tuple[Cell, ...]] = []

    def add(
        head: Sequence[Cell],
        found: Mapping[str, Interval],
        unjudged: Mapping[Cutoff, float | None],
        *missing: int,
    ) -> None:
        placed = None if run.passages is None else run.passages.placed_share
        for measure, mean in found.items():
            share = unjudged.get(parse_measure(measure).cutoff or 0)
            rows.append((*head, measure, mean.value, mean.low, mean.high, share, *missing, placed))

    for name, run in runs.items():
        queries = len(run.per_query)
        head = (name, run.run, "", "", "micro", queries)
        add(head, run.intervals, unjudged_shares(run), len(run.absent), len(run.empty))
        for grouped in groups.get(name, ()):
            for each in grouped.groups:
                head = (name, run.run, grouped.by, each.group, "micro", each.queries)
                add(head, each.means, each.unjudged, each.absent, each.empty)
            number = queries - len(grouped.ungrouped)
            add((name, run.run, grouped.by, "", "macro", number), grouped.macro, {}, 0, 0)
    return Table(_COLUMNS, rows)


# Comparison


@page_of.register
def comparison_page(
    comparison: Comparison,
    limit: int = 0,
    paths: Mapping[str, Path] | None = None,
    groups: Groups | None = None,
) -> Page:
    """Give the page of a comparison.

    Args:
        comparison: Of runs.
        limit: Also list this many queries of each difference, the largest.
        paths: The files of the runs, for what to type next.
        groups: The mean differences by group, of `comparison.by_pair`.
    """
    runs = comparison.evaluations
    letters = {
        run: chr(ord("A") + place) if place < 26 else f"R{place + 1}"
        for place, run in enumerate(runs)
    }
    lettered = {f"{letters[name]} {name}": of for name, of in runs.items()}
    first = next(iter(runs.values()))
    parts: list[Text | Table | Page] = [
        *unjudged_parts(comparison, paths or {}),
        *mean_parts(
            lettered,
            {f"{letters[name]} {name}": path for name, path in (paths or {}).items()},
        ),
    ]
    dry = f"{DRY_RUN}. " if comparison.dry_run else ""
    columns = _difference_columns(letters)
    if comparison.dry_run:
        columns = {name: columns[name] for name in ("pair", "difference", "+/=/−\nd")}
    for measure in comparison.measures:
        differences = [each for each in comparison.differences if each.measure == measure]
        parts.append(Table.of(differences, columns, f"{dry}{measure}"))
    parts += notes(*_read_as(comparison, letters))
    parts += _agreements(comparison)
    parts += (_largest(comparison, each, limit) for each in comparison.differences if limit)
    parts += _by_group(comparison, groups or {})
    rows = Table.of_dicts(comparison.to_rows())
    return Page(
        title_of(first),
        tuple(parts),
        data={**first.about.identity, "comparison": comparison}
        | ({"groups": groups} if groups else {}),
        rows=rows and replace(rows, keys=3),
    )


def _difference_columns(letters: Mapping[str, str]) -> dict[str, Any]:
    return {
        "pair": lambda each: f"{letters[each.run]} − {letters[each.against]}",
        "difference": lambda each: interval(each.interval, "+.4f", "+.3f"),
        "p\nadjusted": lambda each: (
            p_value(each.significance.p_value),
            p_value(each.adjusted_p),
        ),
        "+/=/−\nd": lambda each: (
            f"{each.wins}/{each.ties}/{each.losses}",
            Value(each.effect_size, form="+.2f"),
        ),
        "detectable": lambda each: Value(each.detectable),
        "found": lambda each: _found(each, letters[each.run]),
    }


def _found(each: RunDifference, run: str) -> Cell:
    if each.verdict == DEPENDS:
        return "depends on", "what is unjudged"
    return f"{run} {each.verdict}" if each.verdict in ("higher", "lower") else each.verdict


def _read_as(comparison: Comparison, letters: Mapping[str, str]) -> Iterator[str]:
    yield (
        "difference: the first run of the pair minus the second; below 0 the second is better. "
        "+/=/−: queries on which the first is better, equal, worse; below them the effect size d: "
        "mean difference over its standard deviation."
    )
    if comparison.dry_run:
        yield f"{DRY_RUN}. So no run is called better. 95% bootstrap intervals over queries."
        return
    yield (
        "p of the paired permutation test, two-sided, adjusted by Holm over "
        f"{counted(comparison.tests, 'test')}; 95% bootstrap intervals over queries. Not found "
        "does not mean equal."
    )
    yield "detectable: the smallest true difference that so many queries show four times in five."
    yield from _exceptions(comparison, letters)


def _exceptions(comparison: Comparison, letters: Mapping[str, str]) -> Iterator[str]:
    """Say what the tables cannot: what was left out, and why there is no value."""
    reasons = list[tuple[str, str]]()
    for each in comparison.differences:
        name = f"{each.measure} {letters[each.run]} − {letters[each.against]}"
        if each.left_out:
            queries = counted(each.left_out, "query", "queries")
            reasons.append((f"{queries} left out, with a value in only one run", name))
        if each.detectable is None and each.verdict in {"untested", "not found"}:
            reasons.append((each.conclusion, name))
    for reason, names in names_by(reasons).items():
        yield f"{reason}: {', '.join(names)}"
    errors = [each.significance.standard_error or 0.0 for each in comparison.differences]
    if largest := max(errors, default=0.0):
        yield f"standard error of p, as permutations were sampled: up to {largest:.2g}"


def unjudged_parts(comparison: Comparison, paths: Mapping[str, Path]) -> Iterator[Text]:
    """Name the differences that depend on what is unjudged, and what has it judged."""
    depends = [each for each in comparison.differences if each.verdict == DEPENDS]
    for each in depends:
        pair = f"{each.run} − {each.against}"
        yield Text(f"{pair} in {each.measure} {each.conclusion}", "warning")
    if depends:
        names = {name for of in depends for name in (of.against, of.run)}
        files = [path for name, path in paths.items() if name in names]
        cutoffs = [parse_measure(each.measure).k for each in depends]
        about = next(iter(comparison.evaluations.values())).about
        yield Text(("to judge it: ", judging_command(about, files, cutoffs)))


def _agreements(comparison: Comparison) -> Iterator[Table | Text]:
    if not comparison.agreements:
        return
    rows: list[tuple[Cell, ...]] = []
    for each in comparison.agreements:
        found = (each.kendall, each.spearman, each.within_queries)
        rows.append((f"{each.first}, {each.second}", *(of.value for of in found)))
    title = f"how alike the measures order the {len(comparison.runs)} runs"
    yield Table(("measures", "tau", "rho", "in queries"), rows, title, 3)
    yield Text(
        "Kendall's tau-b and Spearman's rho of the means; in queries: the mean of tau-b within "
        "each query; –: undefined, as runs are tied. Of few runs, any can be chance.",
        "note",
    )


def _by_group(comparison: Comparison, groups: Groups) -> Iterator[Page]:
    pairs = comparison.by_pair() if groups else {}
    for place in range(len(next(iter(groups.values()), ()))):
        page = group_page(pairs, {name: of[place] for name, of in groups.items()}, "--json")
        tested = Text("no difference within a group is tested", "note")
        yield replace(page, title=f"difference in {page.title}", parts=(*page.parts, tested))


def _largest(comparison: Comparison, each: RunDifference, limit: int) -> Page:
    """List the queries with the largest differences, whichever way."""
    ordered = sorted(each.per_query.items(), key=lambda item: (-abs(item[1]), item[0]))
    largest = [query for query, difference in ordered if difference][:limit]
    title = f"{each.measure}, {each.run} − {each.against}: the largest differences"
    if not largest:
        return Page(f"{title}: none, the two have the same value on all queries")
    runs = comparison.evaluations
    values, against = (runs[run].values(each.measure) for run in (each.run, each.against))
    texts = runs[each.run].questions
    rows = [
        (query, each.per_query[query], values[query], against[query], cut(texts.get(query, ""), 34))
        for query in largest
    ]
    header = ("query", "difference", "run", "against", "text")
    return Page(title, (Table(header, rows),))
