"""The page of a comparison: the means of the runs, their differences, and what they show."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from freshstack_dspy.measures.evaluation_page import (
    Groups,
    group_page,
    judging_command,
    mean_parts,
    title_of,
)
from freshstack_dspy.measures.measure import parse_measure
from freshstack_dspy.pages.page import (
    Cell,
    Page,
    Table,
    Text,
    Value,
    counted,
    cut,
    interval,
    p_value,
)
from freshstack_dspy.records import DEPENDS, DRY_RUN

if TYPE_CHECKING:
    from freshstack_dspy.measures.compare import Comparison, RunDifference

_COMPARED = ("pair", "difference", "p\nadjusted", "+/=/−\nd", "detectable", "found")


def comparison_page(
    comparison: "Comparison",
    limit: int = 0,
    paths: Mapping[str, Path] | None = None,
    groups: Groups | None = None,
) -> Page:
    """Give the page of a comparison.

    Args:
        comparison: Of runs.
        limit: Also list so many queries of each difference, the largest.
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
    for measure in comparison.measures:
        rows = [_row(each, letters) for each in comparison.differences if each.measure == measure]
        columns = (0, 1, 3) if comparison.dry_run else range(len(_COMPARED))
        cells = [[row[at] for at in columns] for row in rows]
        parts.append(Table([_COMPARED[at] for at in columns], cells, f"{dry}{measure}"))
    parts += (Text(line, "note") for line in _notes(comparison, letters))
    parts += _agreements(comparison)
    parts += (_largest(comparison, each, limit) for each in comparison.differences if limit)
    parts += _by_group(comparison, groups or {})
    listed = comparison.to_rows()
    return Page(
        title_of(first),
        tuple(parts),
        data={**first.about.identity, "comparison": comparison}
        | ({"groups": groups} if groups else {}),
        rows=Table(tuple(listed[0]), [tuple(row.values()) for row in listed], keys=3),
    )


def _row(each: "RunDifference", letters: Mapping[str, str]) -> tuple[Cell, ...]:
    run = letters[each.run]
    return (
        f"{run} − {letters[each.against]}",
        interval(each.interval, "+.4f", "+.3f"),
        (p_value(each.significance.p_value), p_value(each.adjusted_p)),
        (f"{each.wins}/{each.ties}/{each.losses}", Value(each.effect_size, form="+.2f")),
        Value(each.detectable),
        _found(each, run),
    )


def _found(each: "RunDifference", run: str) -> Cell:
    if each.verdict == DEPENDS:
        return "depends on", "what is unjudged"
    return f"{run} {each.verdict}" if each.verdict in ("higher", "lower") else each.verdict


def _notes(comparison: "Comparison", letters: Mapping[str, str]) -> Iterator[str]:
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


def _exceptions(comparison: "Comparison", letters: Mapping[str, str]) -> Iterator[str]:
    """Say what the tables cannot: what was left out, and why there is no value."""
    found: dict[str, list[str]] = {}
    for each in comparison.differences:
        name = f"{each.measure} {letters[each.run]} − {letters[each.against]}"
        if each.left_out:
            queries = counted(each.left_out, "query", "queries")
            line = f"{queries} left out, with a value in only one run"
            found.setdefault(line, []).append(name)
        if each.detectable is None and each.verdict in {"untested", "not found"}:
            found.setdefault(each.conclusion, []).append(name)
    for reason, names in found.items():
        yield f"{reason}: {', '.join(names)}"
    errors = [each.significance.standard_error or 0.0 for each in comparison.differences]
    if largest := max(errors, default=0.0):
        yield f"standard error of p, as permutations were sampled: up to {largest:.2g}"


def unjudged_parts(comparison: "Comparison", paths: Mapping[str, Path]) -> Iterator[Text]:
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


def _agreements(comparison: "Comparison") -> Iterator[Table | Text]:
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


def _by_group(comparison: "Comparison", groups: Groups) -> Iterator[Page]:
    pairs = comparison.by_pair() if groups else {}
    for place in range(len(next(iter(groups.values()), ()))):
        page = group_page(pairs, {name: of[place] for name, of in groups.items()}, "--json")
        tested = Text("no difference within a group is tested", "note")
        yield replace(page, title=f"difference in {page.title}", parts=(*page.parts, tested))


def _largest(comparison: "Comparison", each: "RunDifference", limit: int) -> Page:
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
