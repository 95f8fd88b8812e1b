"""What is shown of evaluated runs, and of their comparison: means, differences, what is unjudged."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from freshstack_dspy.measures.compare import (
    Comparison,
    Headroom,
    RunDifference,
    apart,
    best_of,
    headroom,
)
from freshstack_dspy.measures.decision import Decision
from freshstack_dspy.measures.density import CHUNK_KINDS, ChunkKind
from freshstack_dspy.measures.evaluation import Evaluation, Grouped, PassageNotes, Values
from freshstack_dspy.measures.measure import Cutoff, cutoff_of
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
from freshstack_dspy.records import DEPENDS, DRY_RUN, technique_of

FEW_QUERIES = 30
"""With fewer queries a bootstrap interval of their mean is too narrow (Hesterberg 2015)."""
_EXTENDED = 20
"""How many results of each ranking `extend` judges by default."""

Groups = Mapping[str, Sequence[Grouped]]
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
        groups: Their values by group.
        paths: The files of the runs, for what to type next.
    """
    first, groups, paths = next(iter(runs.values())), groups or {}, paths or {}
    ordinary, oracles = apart(runs)
    headrooms = headroom(ordinary, oracles)
    parts = [*_means(runs, paths, headrooms), *_group_pages(runs, groups)]
    if first.about.path and paths:
        command = f"freshstack analyze {first.about.path} {paths[next(iter(ordinary or oracles))]}"
        parts.append(Text(("which questions fail, and why: ", Span(command, "code"))))
    evaluations = [
        {"file": name, **run.model_dump(), "groups": groups.get(name, ())}
        for name, run in runs.items()
    ]
    data: dict[str, Any] = {**first.about.identity, "evaluations": evaluations}
    data |= {"oracles": [*oracles], "headroom": headrooms} if oracles else {}
    return Page(_title(first), tuple(parts), data=data, rows=_rows(runs, groups))


def _title(values: Values) -> str:
    about = values.about
    return f"{_dry(values)}{about.name}: {_queries(about.measured)}{about.choice}"


def _dry(values: Values) -> str:
    return f"{DRY_RUN}. " if values.dry_run else ""


def _queries(number: int) -> str:
    return counted(number, "query", "queries")


def _listed(ids: Sequence[str]) -> str:
    return ", ".join(cut(each, 30) for each in ids[:3]) + (", …" if len(ids) > 3 else "")


def _means(
    runs: Mapping[str, Values],
    paths: Mapping[str, Path],
    headrooms: Sequence[Headroom],
) -> Iterator[Table | Text]:
    """Give a table with a row for each run, oracles last, and what has to be known to read it."""
    first = next(iter(runs.values()))
    ordinary, oracles = apart(runs)
    evaluations = {name: run for name, run in runs.items() if isinstance(run, Evaluation)}
    rows: list[tuple[Cell, ...]] = []
    for name, run in {**ordinary, **oracles}.items():
        passages = evaluations[name].passages if name in evaluations else None
        below = [] if passages is None else [f"{percent(passages.placed_share)} placed"]
        below += [f"oracle: {technique_of(run.run)}"] * run.is_oracle
        rows.append(((name, *below), *mean_cells(run.intervals, run.unjudged_shares)))
    yield Table(("run", *first.measures), rows, ids=(0,))
    yield from notes(*_about(runs))
    yield from headroom_parts(headrooms, first.measures, first.about.measured)
    for name, run in evaluations.items():
        yield from notes(*(f"{name}: {line}" for line in _missing(run)))
    yield from _mostly_unjudged(evaluations, paths)
    yield from notes(*first.about.origin)


def headroom_parts(
    headrooms: Sequence[Headroom], measures: Sequence[str], measured: int
) -> Iterator[Table | Text]:
    """Give a table of how much better the best oracles are, with a row for each run."""
    if not headrooms:
        return
    cells: dict[str, list[Cell]] = {}
    for each in headrooms:
        cells.setdefault(each.run, []).append(interval(each.interval, "+.4f"))
    rows = [(run, *of_run) for run, of_run in cells.items()]
    yield Table(("headroom of", *measures), rows, ids=(0,))
    fewer = min(each.queries for each in headrooms)
    number = f" ({fewer:,} of {_queries(measured)})" * (fewer < measured)
    best = names_by(dict.fromkeys((cut(each.oracle), each.measure) for each in headrooms))
    named = "; ".join(f"{oracle} in {', '.join(of)}" for oracle, of in best.items())
    yield from notes(
        f"headroom: the best oracle ({named}) minus the run, on the same queries{number}. An oracle "
        "was searched with the answer or its nuggets: reachable with the answer known, and not ranked."
    )


def mean_cells(
    means: Mapping[str, Interval], unjudged: Mapping[Cutoff, float | None], form: str = ".4f"
) -> Iterator[Cell]:
    """Give means as cells: the value, its interval, and which share of its top is unjudged."""
    for name, mean in means.items():
        k = cutoff_of(name)
        share = (f"unjudged {percent(unjudged[k])}",) if k in unjudged and k is not None else ()
        yield (interval(mean, form), *share)


def _about(runs: Mapping[str, Values]) -> Iterator[str]:
    first = next(iter(runs.values()))
    means = [mean for run in runs.values() for mean in run.intervals.values()]
    if any(mean.low is not None for mean in means):
        yield "in brackets: the 95% bootstrap interval of the mean, over queries"
    for reason in sorted({mean.reason for mean in means if mean.reason}):
        yield f"no interval: {reason}"
    if (number := first.about.measured) < FEW_QUERIES:
        are = "is" if number == 1 else "are"
        yield f"{_queries(number)} {are} few: intervals of fewer than {FEW_QUERIES} are too narrow"
    if first.unjudged_shares:
        passages = any(run.passages for run in runs.values() if isinstance(run, Evaluation))
        yield (
            "unjudged: the share of the top k that has no label, and counts as not relevant"
            f"{', of passages in bytes' if passages else ''}"
        )
    if isinstance(first, Evaluation) and first.only_relevant:
        yield "only relevant chunks are listed, and every other counts as not relevant"


def _missing(evaluation: Evaluation) -> Iterator[str]:
    """Say which queries of a run could not be measured, and how they count."""
    name = evaluation.conventions
    if name != "ours":
        yield f"ties and what is missing as in {name}"
    absent = "counts as 0" if name == "ours" else "left out"
    empty = "left out" if name == "ndeval" else "counts as 0"
    query_ids, without = evaluation.about.query_ids, set(evaluation.without_relevant)
    missing = {
        f"absent from the run ({absent})": evaluation.absent,
        f"without results ({empty})": evaluation.empty,
        "without a relevant chunk (counts as 0)": evaluation.without_relevant,
        "of the run not in the judgments (passed over)": sorted({*evaluation.unknown} - query_ids),
        "all of whose results have one score": evaluation.tied,
    }
    for measure, queries in evaluation.without_value.items():
        missing[f"without a value of {measure}"] = [q for q in queries if q not in without]
    for what, ids in missing.items():
        if ids:
            yield f"{_queries(len(ids))} {what}: {_listed(ids)}"
    if evaluation.passages is not None:
        yield from _passage_notes(evaluation.passages)
    if evaluation.unknown_chunks:
        yield f"{counted(evaluation.unknown_chunks, 'result')} dropped, not in the corpus"
    cutoffs = map(cutoff_of, evaluation.measures)
    looked = max((k for k in cutoffs if isinstance(k, int)), default=0)
    if 0 < evaluation.most_results < looked:
        results = counted(evaluation.most_results, "result")
        yield f"at most {results} for a query, and a measure looks at {looked}"
    if evaluation.unjudged:
        deepest = evaluation.unjudged[-1]
        if failed := sum(deepest.failed.values()):
            yield f"{counted(failed, 'failed judgment')} in the top {deepest.k}"


def judging_command(about: About, paths: Sequence[Path], cutoffs: Iterable[Cutoff | None]) -> Span:
    """Give the command that judges the tops of runs down to the deepest cut-off."""
    deepest = max((k for k in cutoffs if isinstance(k, int)), default=0)
    depth = f" --k {deepest}" if deepest > _EXTENDED else ""
    files, defer = " ".join(map(str, paths)) or "RUN …", " --mode defer" * about.by_hand
    folder = about.path or "COLLECTION"
    return Span(f"freshstack extend {folder} {files} --config FILE{depth}{defer}", "code")


def _mostly_unjudged(runs: Mapping[str, Evaluation], paths: Mapping[str, Path]) -> Iterator[Text]:
    """Name the runs of which too little is judged; runs with the same cut-offs share a line."""
    for cutoffs in dict.fromkeys(run.mostly_unjudged for run in runs.values()):
        if not cutoffs:
            continue
        names = [name for name, run in runs.items() if run.mostly_unjudged == cutoffs]
        files, about = [paths[name] for name in names if name in paths], runs[names[0]].about
        line = (
            f"{', '.join(map(cut, names))}: most of the top {', '.join(map(str, cutoffs))} is "
            "unjudged: these means depend on the judgments more than on the run"
        )
        typed: tuple[str | Span, ...] = ()
        if about.path and files:
            command = judging_command(about, files, cutoffs)
            typed = ("; to judge it, by a [model] that can be asked: ", command)
        yield Text((line, *typed))


def _passage_notes(passages: PassageNotes) -> Iterator[str]:
    line = counted(passages.passages, "passage")
    if passages.unplaced:
        line += f", {counted(passages.unplaced, 'result')} without a place, which support nothing"
    if passages.repeated:
        line += f", {passages.repeated:,} at the place of another (the better score counts)"
    yield f"{line}; one supports a nugget if it holds {passages.covered:.0%} of its evidence"
    if passages.without_evidence:
        yield (
            f"{passages.without_evidence:,} of {counted(passages.labels, 'label')} of support have no "
            "evidence and count by their whole chunk"
        )


# By group


class _Group(NamedTuple):
    """The means of a run on the queries of a group, or on average."""

    run: str
    label: str
    average: str
    queries: int
    means: Mapping[str, Interval]
    unjudged: Mapping[Cutoff, float | None] = {}


def _groups(grouped: Mapping[str, Grouped], measured: int) -> Iterator[_Group]:
    """Give each group by run, followed by the macro-averages."""
    first = next(iter(grouped.values()))
    for group in first.groups:
        for name, run_groups in grouped.items():
            own = run_groups.groups[group]
            yield _Group(name, group, "micro", len(own.per_query), own.intervals)
    for name, run_groups in grouped.items():
        yield _Group(name, "", "macro", measured - len(first.ungrouped), run_groups.macro)


def _groupings(groups: Groups) -> Iterator[dict[str, Grouped]]:
    for place in range(len(next(iter(groups.values()), ()))):
        yield {name: by_grouping[place] for name, by_grouping in groups.items()}


def _group_pages(runs: Mapping[str, Values], groups: Groups, how: str = "") -> Iterator[Page]:
    return (group_page(runs, grouped, how) for grouped in _groupings(groups))


def group_page(runs: Mapping[str, Values], grouped: Mapping[str, Grouped], how: str = "") -> Page:
    """Give a row for each group and run and for both averages; `how`: the command for all groups."""
    first, groups = next(iter(runs.values())), next(iter(grouped.values()))
    number, total = len(first.per_query), len(groups.groups) + groups.unlisted
    averages = (
        _Group(name, "all queries", "micro", number, run.intervals, run.unjudged_shares)
        for name, run in runs.items()
    )
    several = len(runs) > 1
    rows = [
        (
            (each.label or f"macro-average of {total} groups", _queries(each.queries)),
            *[each.run] * several,
            *mean_cells(each.means, each.unjudged),
        )
        for each in (*_groups(grouped, number), *averages)
    ]
    keys = (groups.by, *["run"] * several)
    table = Table((*keys, *first.measures), rows, keys=len(keys), ids=range(1, len(keys)))
    remarks = []
    if groups.unlisted:
        how = how or f"freshstack evaluate … --limit {total}"
        remarks.append(f"the {len(groups.groups)} largest of {total} groups; all: {how}")
    if few := sum(len(group.per_query) < FEW_QUERIES for group in groups.groups.values()):
        small = f"{counted(few, 'group')} of fewer than {FEW_QUERIES} queries"
        remarks.append(f"{small}: their intervals are too narrow")
    if groups.ungrouped:
        out = f"{_queries(len(groups.ungrouped))} in no group, and not in the macro-average"
        remarks.append(f"{out}: {_listed(groups.ungrouped)}")
    title = f"{_dry(first)}{first.about.name}, by {groups.by}: {groups.rule}"
    return Page(title, (table, *notes(*remarks)))


def _rows(runs: Mapping[str, Evaluation], groups: Groups) -> Table:
    """Make a CSV row for each mean: over all queries, over each group, and over all groups."""
    header = ("file", "run", "by", "group", "average", "queries", "measure", "mean", "low", "high")
    number = len(next(iter(runs.values())).per_query)
    listed = [
        ("", _Group(name, "", "micro", len(run.per_query), run.intervals, run.unjudged_shares))
        for name, run in runs.items()
    ]
    for grouped in _groupings(groups):
        by = next(iter(grouped.values())).by
        listed += ((by, each) for each in _groups(grouped, number))
    rows = [
        (
            *(each.run, runs[each.run].run, by, each.label, each.average, each.queries, measure),
            *(mean.value, mean.low, mean.high),
            each.unjudged.get(cutoff_of(measure) or 0),
        )
        for by, each in listed
        for measure, mean in each.means.items()
    ]
    return Table((*header, "unjudged_at_k"), rows)


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
        comparison: The comparison of the runs.
        limit: Also list this many queries of each difference, the largest.
        paths: The files of the runs, for what to type next.
        groups: The mean differences by group, of `comparison.by_pair`.
    """
    runs, paths, groups = comparison.evaluations, paths or {}, groups or {}
    letters = {
        run: chr(ord("A") + place) if place < 26 else f"R{place + 1}"
        for place, run in enumerate(comparison.runs)
    }
    first = next(iter(runs.values()))
    lettered = {name: f"{letters[name]} {name}" if name in letters else name for name in runs}
    parts: list[Text | Table | Page] = [
        *decision_parts(comparison),
        *unjudged_parts(comparison, paths),
        *_means(
            {lettered[name]: run for name, run in runs.items()},
            {lettered[name]: path for name, path in paths.items()},
            comparison.headroom,
        ),
    ]
    columns = _difference_columns(letters)
    if comparison.dry_run:
        columns = {name: columns[name] for name in ("pair", "difference", "+/=/−\nd")}
    for measure in comparison.measures:
        differences = [each for each in comparison.differences if each.measure == measure]
        parts.append(Table.of(differences, columns, f"{_dry(first)}{measure}"))
    parts += notes(*_read_as(comparison, letters))
    parts += _agreements(comparison)
    parts += (_largest(comparison, each, limit) for each in comparison.differences if limit)
    tested = Text("no difference within a group is tested", "note")
    for page in _group_pages(comparison.by_pair(), groups, "--json"):
        title = f"difference in {page.title}"
        parts.append(replace(page, title=title, parts=(*page.parts, tested)))
    data = {**first.about.identity, "comparison": comparison}
    rows = Table.of_dicts(comparison.to_rows())
    return Page(
        _title(first),
        tuple(parts),
        data=data | ({"groups": groups} if groups else {}),
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
    yield "detectable: the smallest true difference that this many queries show four times in five."
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


def decision_parts(comparison: Comparison, *, judging: bool = False) -> Iterator[Text]:
    """Give the decisions: against the baseline, or of the run with the highest mean against others.

    `judging`: also what judges the unjudged, where `unjudged_parts` does not follow.
    """
    ordinary, _ = apart(comparison.evaluations)
    middle = comparison.baseline or best_of(ordinary)
    shown = [each for each in comparison.decisions if middle in (each.run, each.against)]
    by_command: dict[str, dict[str, Decision]] = {}
    for each in shown:
        by_command.setdefault(each.command, {}).setdefault(each.why, each)
    for command, (first, *others) in ((key, by.values()) for key, by in by_command.items()):
        for each in (first, *others):
            headline = each.headline[:1].upper() + each.headline[1:]
            yield Text((Span(headline, "strong"), f": {each.why}."), "decision")
        if command and (judging or first.blocked != "unjudged"):
            few = first.outcome == "cannot tell yet" or first.blocked == "few questions"
            how = "to decide it, add questions, and type: " if few else "to decide it: "
            yield Text((how, Span(command, "code")))


def unjudged_parts(comparison: Comparison, paths: Mapping[str, Path]) -> Iterator[Text]:
    """Name the differences that depend on unjudged chunks, and the command that judges them."""
    depends = [each for each in comparison.differences if each.verdict == DEPENDS]
    for each in depends:
        pair = f"{each.run} − {each.against}"
        yield Text(f"{pair} in {each.measure} {each.conclusion}", "warning")
    blocked = [each for each in comparison.decisions if each.blocked == "unjudged"]
    pairs: list[RunDifference | Decision] = [*depends, *blocked]
    if pairs:
        names = {name for each in pairs for name in (each.against, each.run)}
        files = [path for name, path in paths.items() if name in names]
        cutoffs = [cutoff_of(each.measure) for each in pairs]
        about = next(iter(comparison.evaluations.values())).about
        yield Text(("to judge it: ", judging_command(about, files, cutoffs)))


def _agreements(comparison: Comparison) -> Iterator[Table | Text]:
    if not comparison.agreements:
        return
    columns: dict[str, Any] = {
        "measures": lambda each: f"{each.first}, {each.second}",
        "tau": lambda each: each.kendall.value,
        "rho": lambda each: each.spearman.value,
        "in queries": lambda each: each.within_queries.value,
    }
    title = f"how alike the measures order the {len(comparison.runs)} runs"
    yield Table.of(comparison.agreements, columns, title, digits=3)
    yield Text(
        "Kendall's tau-b and Spearman's rho of the means; in queries: the mean of tau-b within "
        "each query; –: undefined, as runs are tied. With few runs, any value can be chance.",
        "note",
    )


def _largest(comparison: Comparison, each: RunDifference, limit: int) -> Page:
    """List the queries with the largest differences, whichever way."""
    ordered = sorted(each.per_query.items(), key=lambda item: (-abs(item[1]), item[0]))
    largest = [query for query, difference in ordered if difference][:limit]
    title = f"{each.measure}, {each.run} − {each.against}: the largest differences"
    if not largest:
        return Page(f"{title}: none, the two have the same value on all queries")
    run, other = (comparison.evaluations[name] for name in (each.run, each.against))
    values, against = run.values(each.measure), other.values(each.measure)
    rows = [
        (
            *(query, each.per_query[query], values[query], against[query]),
            cut(run.questions.get(query, ""), 34),
        )
        for query in largest
    ]
    header = ("query", "difference", "run", "against", "text")
    return Page(title, (Table(header, rows),))


def redundancy_table(shares: Mapping[str, Mapping[ChunkKind, float]], of: str) -> Iterator[Table]:
    """Give a table of how much is required and how much redundant, with a row for each name."""

    def share_of(kind: ChunkKind) -> Callable[[str], Value]:
        return lambda name: percent(shares[name].get(kind))

    columns: dict[str, Any] = {of: str}
    columns |= {header.replace(" ", "\n"): share_of(kind) for kind, header in CHUNK_KINDS.items()}
    if any(shares.values()):
        yield Table.of(shares, columns, "what the chunks are for coverage (CRUX)", ids=(0,))
