"""The page of evaluated runs: means, intervals, what is unjudged, and what was missing."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from freshstack_dspy.measures.conventions import conventions_named
from freshstack_dspy.measures.measure import Cutoff, parse_measure
from freshstack_dspy.measures.statistics import Interval
from freshstack_dspy.pages.page import (
    Cell,
    Page,
    Span,
    Table,
    Text,
    counted,
    cut,
    interval,
    percent,
)
from freshstack_dspy.records import DRY_RUN

if TYPE_CHECKING:
    from freshstack_dspy.measures.evaluation import Evaluation, PassageNotes
    from freshstack_dspy.measures.groups import GroupedEvaluation
    from freshstack_dspy.measures.qrels import About

FEW_QUERIES = 30
"""Of fewer, a bootstrap interval of their mean is too narrow (Hesterberg 2015)."""
_EXTENDED = 20
"""How many results of each ranking `extend` judges by default."""

Groups = Mapping[str, Sequence["GroupedEvaluation"]]
"""By run; of each run the same groupings."""


def evaluation_page(
    runs: Mapping[str, "Evaluation"],
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


def title_of(evaluation: "Evaluation") -> str:
    """Say on what was measured: the title of a page."""
    about, dry = evaluation.about, f"{DRY_RUN}. " if evaluation.dry_run else ""
    return f"{dry}{about.name}: {_queries(about.measured)}{about.choice}"


def mean_parts(
    runs: Mapping[str, "Evaluation"], paths: Mapping[str, Path]
) -> Iterator[Table | Text]:
    """Give a table with a row for each run, and what has to be known to read it."""
    rows: list[tuple[Cell, ...]] = []
    for name, run in runs.items():
        placed = () if run.passages is None else (f"{percent(run.passages.placed_share)} placed",)
        rows.append(((name, *placed), *mean_cells(run.intervals, unjudged_shares(run))))
    first = next(iter(runs.values()))
    yield Table(("run", *first.measures), rows, ids=(0,))
    for line in _notes(runs):
        yield Text(line, "note")
    for name, run in runs.items():
        for line in _missing(run):
            yield Text(f"{name}: {line}", "note")
    yield from _mostly_unjudged(runs, paths)
    for line in first.about.origin:
        yield Text(line, "note")


def mean_cells(
    means: Mapping[str, Interval], unjudged: Mapping[Cutoff, float | None]
) -> Iterator[Cell]:
    """Give means as cells: the value, its interval, and which share of its top is unjudged."""
    for name, mean in means.items():
        k = parse_measure(name).cutoff if unjudged else None
        share = (f"unjudged {percent(unjudged[k])}",) if k in unjudged and k is not None else ()
        yield (interval(mean), *share)


def unjudged_shares(evaluation: "Evaluation") -> dict[Cutoff, float | None]:
    """Give the mean share of the top that has no label, by cut-off."""
    return {of.k: of.mean for of in evaluation.unjudged}


def _notes(runs: Mapping[str, "Evaluation"]) -> Iterator[str]:
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


def _missing(evaluation: "Evaluation") -> Iterator[str]:
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


def judging_command(
    about: "About", paths: Sequence[Path], cutoffs: Iterable[Cutoff | None]
) -> Span:
    """Give the command that judges the tops of runs down to the deepest cut-off."""
    deepest = max((k for k in cutoffs if isinstance(k, int)), default=0)
    depth = f" --k {deepest}" if deepest > _EXTENDED else ""
    files = " ".join(map(str, paths)) or "RUN …"
    folder = about.path or "COLLECTION"
    return Span(f"freshstack extend {folder} {files} --config FILE{depth}", "code")


def _mostly_unjudged(runs: Mapping[str, "Evaluation"], paths: Mapping[str, Path]) -> Iterator[Text]:
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


def _next(first: "Evaluation", paths: Mapping[str, Path]) -> Iterator[Text]:
    """Say what to type next, where the files are known."""
    if first.about.path and paths:
        command = f"freshstack analyze {first.about.path} {next(iter(paths.values()))}"
        yield Text(("which questions fail, and why: ", Span(command, "code")))


def _passage_notes(notes: "PassageNotes") -> Iterator[str]:
    found = counted(notes.passages, "passage")
    if notes.unplaced:
        found += f", {counted(notes.unplaced, 'result')} without a place, which support nothing"
    if notes.repeated:
        found += f", {notes.repeated:,} at the place of another (the better score counts)"
    yield f"{found}; one supports a nugget if it holds {notes.covered:.0%} of its evidence"
    if notes.without_evidence:
        yield (
            f"{notes.without_evidence:,} of {counted(notes.labels, 'label')} of support have no "
            "evidence and count by their whole chunk"
        )


def listed(ids: Sequence[str]) -> str:
    """Name the first few of some ids."""
    return ", ".join(cut(each, 30) for each in ids[:3]) + (", …" if len(ids) > 3 else "")


def _queries(number: int) -> str:
    return counted(number, "query", "queries")


# By group


def group_page(
    runs: Mapping[str, "Evaluation"],
    grouped: Mapping[str, "GroupedEvaluation"],
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
    remarks = (Text(line, "note") for line in _remarks(groups, how))
    return Page(f"{dry}{first.about.name}, by {groups.by}: {groups.rule}", (table, *remarks))


def _remarks(of: "GroupedEvaluation", how: str) -> Iterator[str]:
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


def _rows(runs: Mapping[str, "Evaluation"], groups: Groups) -> Table:
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
