"""What `freshstack compare` prints for people."""

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from freshstack_dspy.cli.compared import Compared
from freshstack_dspy.cli.evaluation_lines import FEW_QUERIES, say_conventions, say_missing
from freshstack_dspy.cli.lines import counted, cut, percent, say, say_wrapped, width
from freshstack_dspy.cli.means_tables import MeansRow, MeansSection, show_means
from freshstack_dspy.cli.tables import show

if TYPE_CHECKING:
    from freshstack_dspy.measures.compare import Comparison, RunDifference

_NOTHING = "–"
_SCREEN = 80
_BESIDE = 42
"""What a line of a query's differences takes beside the query."""
_FEW_RUNS = 10
_CORRECTIONS = {"holm": "Holm", "bonferroni": "Bonferroni", "bh": "Benjamini-Hochberg"}


def print_comparison(compared: Compared, queries: int) -> None:
    """Print the means, a table of differences for each measure, and the queries behind them.

    Args:
        compared: What was found.
        queries: How many queries are listed for each difference.
    """
    comparison = compared.comparison
    letters = {run: _letter(place) for place, run in enumerate(comparison.runs)}
    _print_means(compared, letters)
    for measure in comparison.measures:
        print()
        _print_differences(comparison, measure, letters)
    print()
    _say_how(comparison)
    _say_exceptions(comparison, letters)
    _print_agreements(comparison)
    if queries:
        for each in comparison.differences:
            _print_queries(compared, each, letters, queries)


def _letter(place: int) -> str:
    """A name short enough for a table: A to Z, then R27."""
    return chr(ord("A") + place) if place < 26 else f"R{place + 1}"


def _print_means(compared: Compared, letters: dict[str, str]) -> None:
    from freshstack_dspy.measures.statistics import mean_intervals

    comparison = compared.comparison
    rows = [
        MeansRow(
            f"{letters[run]} {run}",
            "baseline" if run == comparison.baseline else "",
            mean_intervals(evaluation, level=comparison.level, seed=comparison.seed),
            {holes.k: holes.mean_unjudged for holes in evaluation.holes},
        )
        for run, evaluation in compared.evaluations.items()
    ]
    left_out = ""
    if compared.contaminated_from is not None:
        left_out = (
            f", without {len(compared.left_out)} of which {percent(compared.contaminated_from)} of the "
            "nuggets or more are known"
        )
    title = f"{compared.judgments.title(compared.queries)}{left_out}"
    show_means(title, "run", comparison.measures, [MeansSection("", rows)])
    if compared.judgments.left_out:
        say_wrapped(f"measured on {compared.judgments.left_out}")
    say_conventions(next(iter(compared.evaluations.values())))
    for run, evaluation in compared.evaluations.items():
        say_missing(letters[run], evaluation)


def _print_differences(comparison: "Comparison", measure: str, letters: dict[str, str]) -> None:
    table = Table()
    table.add_column("pair")
    for head in ("difference\ninterval", "p\nadjusted", "+/=/−\nd", "detectable\nqueries"):
        table.add_column(Text(head), justify="right")
    table.add_column("found")
    for each in comparison.differences:
        if each.measure == measure:
            table.add_row(*map(Text, _cells(each, letters)))
    show(measure, table)


def _cells(each: "RunDifference", letters: dict[str, str]) -> tuple[str, ...]:
    mean = each.interval
    ends = _NOTHING
    if mean.low is not None and mean.high is not None:
        ends = f"[{mean.low:+.3f}, {mean.high:+.3f}]"
    effect = _NOTHING if each.effect_size is None else f"{each.effect_size:+.2f}"
    needed = _NOTHING if each.queries_needed is None else f"{each.queries_needed:,}"
    run = letters[each.run]
    found = {"higher": f"{run} higher", "lower": f"{run} lower"}.get(each.verdict, each.verdict)
    return (
        _pair(each, letters).replace(" − ", " − " if len(letters) <= 26 else " −\n"),
        f"{_NOTHING if mean.value is None else f'{mean.value:+.4f}'}\n{ends}",
        f"{_p(each.significance.p_value)}\n{_p(each.adjusted_p)}",
        f"{each.wins}/{each.ties}/{each.losses}\n{effect}",
        f"{_NOTHING if each.detectable is None else f'{each.detectable:.4f}'}\n{needed}",
        found,
    )


def _pair(each: "RunDifference", letters: dict[str, str]) -> str:
    return f"{letters[each.run]} − {letters[each.against]}"


def _p(value: float | None) -> str:
    if value is None:
        return _NOTHING
    return "<0.0001" if value < 0.0001 else f"{value:.4f}"


def _say_how(comparison: "Comparison") -> None:
    alpha = f"{round(1 - comparison.level, 12):g}"
    adjusted = "not adjusted"
    if comparison.correction != "none":
        name = _CORRECTIONS[comparison.correction]
        adjusted = f"adjusted by {name} over {counted(comparison.tests, 'test')}"
    say_wrapped(
        f"p of the paired {comparison.test} test, two-sided, {adjusted}; a difference is found "
        f"where that is {alpha} or less. Not found does not mean equal. Interval: "
        f"{percent(comparison.level)} bootstrap over queries, each for itself. d: mean difference over "
        "its standard deviation."
    )
    errors = [each.significance.standard_error for each in comparison.differences]
    if largest := max((error for error in errors if error is not None), default=0.0):
        say_wrapped(f"standard error of p, as permutations were sampled: up to {largest:.2g}")
    if any(each.detectable is not None for each in comparison.differences):
        say_wrapped(
            "detectable: the true difference that so many queries show four times in five. "
            "Below it, the queries that a true difference as large as the observed one needs."
        )


def _say_exceptions(comparison: "Comparison", letters: dict[str, str]) -> None:
    """Say what the tables cannot: what was left out, and why there is no figure."""
    said: dict[str, list[str]] = {}
    for each in comparison.differences:
        name = f"{each.measure} {_pair(each, letters)}"
        if each.left_out:
            left_out = counted(each.left_out, "query", "queries")
            reason = f"{left_out} left out, with a value in only one of the two"
            said.setdefault(reason, []).append(name)
        if each.detectable is None and each.verdict in {"untested", "not found"}:
            said.setdefault(each.conclusion, []).append(name)
    for reason, names in said.items():
        say_wrapped(f"{reason}: {', '.join(names)}")
    fewest = min((each.queries for each in comparison.differences), default=0)
    if fewest < FEW_QUERIES:
        say_wrapped(
            f"{counted(fewest, 'query is', 'queries are')} few: the intervals are too narrow; go "
            "by p"
        )


def _print_agreements(comparison: "Comparison") -> None:
    if not comparison.agreements:
        return
    table = Table()
    for column in ("measure", "and"):
        table.add_column(column)
    for column in ("tau", "tau-ap", "rho", "in queries"):
        table.add_column(column, justify="right")
    for each in comparison.agreements:
        figures = (each.kendall, each.top, each.spearman, each.within_queries)
        table.add_row(
            each.first,
            each.second,
            *(_NOTHING if of.value is None else f"{of.value:+.3f}" for of in figures),
        )
    print()
    show(f"how alike the measures order the {len(comparison.runs)} runs:", table)
    say_wrapped(
        "Kendall's tau-b, tau-ap and Spearman's rho of the means; in queries: the mean of tau-b "
        "within each query. –: undefined, as runs are tied."
    )
    if len(comparison.runs) < _FEW_RUNS:
        say_wrapped(f"{len(comparison.runs)} runs are few: any of these can come by chance.")


def _print_queries(
    compared: Compared, each: "RunDifference", letters: dict[str, str], number: int
) -> None:
    """Print the queries with the largest differences, whichever way."""
    ordered = sorted(each.per_query.items(), key=lambda item: (-abs(item[1]), item[0]))
    largest = [query for query, difference in ordered if difference][:number]
    print()
    name = f"{each.measure}, {_pair(each, letters)}"
    if not largest:
        say(f"{name}: the two have the same value on all queries")
        return
    values, against = (
        compared.evaluations[run].values(each.measure) for run in (each.run, each.against)
    )
    collection = compared.judgments.collection
    queries = () if collection is None else collection.queries
    texts = {query.query_id: query.title or query.body for query in queries}
    table = Table()
    for column in ("difference", letters[each.run], letters[each.against]):
        table.add_column(column, justify="right")
    table.add_column("query")
    room = max(_SCREEN, width()) - _BESIDE
    for query in largest:
        table.add_row(
            f"{each.per_query[query]:+.4f}",
            f"{values[query]:.4f}",
            f"{against[query]:.4f}",
            Text(cut(f"{query}  {texts.get(query, '')}".rstrip(), room)),
        )
    show(f"{name}: the largest differences", table)
