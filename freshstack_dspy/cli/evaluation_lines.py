"""What is said below a table of means: whose rules, and what was missing."""

from typing import TYPE_CHECKING

from freshstack_dspy.cli.lines import counted, cut, percent, say_wrapped

if TYPE_CHECKING:
    from freshstack_dspy.measures.conventions import Conventions
    from freshstack_dspy.measures.evaluation import Evaluation

FEW_QUERIES = 30
"""Of fewer, a bootstrap interval of their mean is too narrow (Hesterberg 2015)."""
_MOST = 0.5
"""From this share of the top on, most of it is unjudged."""
_COUNTS = {"zero": "counts as 0", "skip": "left out"}


def say_conventions(evaluation: "Evaluation") -> None:
    """Say what counts as not relevant, and whose rules were followed, where they are not ours."""
    from freshstack_dspy.measures.conventions import OUR_CONVENTIONS

    if evaluation.holes:
        say_wrapped(
            "unjudged: the share of the top k that has no label, and counts as not relevant"
        )
    if evaluation.conventions != OUR_CONVENTIONS:
        say_wrapped(f"ties and what is missing as in {evaluation.conventions}")
    if evaluation.beyond:
        say_wrapped(
            f"{evaluation.conventions} does not have, or rounds otherwise, {', '.join(evaluation.beyond)}: computed by "
            "its rules"
        )


def say_missing(name: str, evaluation: "Evaluation") -> None:
    """Say which queries of a run had nothing to be measured, and what they count."""
    from freshstack_dspy.measures.conventions import conventions_named

    rules = conventions_named(evaluation.conventions)
    without = "counts as 0" if evaluation.undefined == "zero" else "left out where undefined"
    for ids, said in (
        (evaluation.absent, f"absent ({_COUNTS[rules.absent]})"),
        (evaluation.empty, f"empty ({_COUNTS[rules.empty]})"),
        (evaluation.without_relevant, f"without relevant ({without})"),
        (evaluation.unknown, "not measured (passed over)"),
        (evaluation.tied, f"all of one score (in the order of {_order(rules)})"),
        (
            evaluation.partly_tied,
            f"with equal scores{_top(evaluation)} (in the order of {_order(rules)})",
        ),
    ):
        if ids:
            say_wrapped(f"{name}: {_queries(len(ids))} {said}, as {cut(ids[0])}")
    for measure, ids in evaluation.without_value.items():
        if others := [query for query in ids if query not in set(evaluation.without_relevant)]:
            say_wrapped(
                f"{name}: {_queries(len(others))} without a value of {measure} "
                f"({_COUNTS[evaluation.undefined]}), as {cut(others[0])}"
            )
    deepest = evaluation.holes[-1] if evaluation.holes else None
    if deepest is not None and (failed := sum(deepest.failed.values())):
        say_wrapped(f"{name}: {counted(failed, 'failed judgment')} in the top {deepest.k}")
    _say_sparse(name, evaluation)


def _say_sparse(name: str, evaluation: "Evaluation") -> None:
    """Say where the means tell little of a run, as hardly any of its results has a label."""
    if not evaluation.holes:
        return
    shallowest, deepest = evaluation.holes[0], evaluation.holes[-1]
    if deepest.mean_unjudged == 1:
        say_wrapped(
            f"{name}: nothing of the top {deepest.k} is judged; is it a run of this collection?"
        )
    elif (share := shallowest.mean_unjudged) is not None and share > _MOST:
        say_wrapped(
            f"{name}: {percent(round(share, 3))} of the top {shallowest.k} is unjudged and counts "
            "as not relevant: the means say more of the judgments than of the run; --bounds of "
            "`evaluate` says how far they could move"
        )


def _top(evaluation: "Evaluation") -> str:
    from freshstack_dspy.measures.measure import parse_measure

    cutoffs = [parse_measure(name).k for name in evaluation.measures]
    known = [k for k in cutoffs if k is not None]
    return f" in the top {max(known)}" if len(known) == len(cutoffs) else ""


def _order(rules: "Conventions") -> str:
    """What puts chunks of one score in order."""
    if rules.order.by == "rank":
        return "their ranks"
    return "the file" if rules.order.ties == "listed" else "the ids"


def _queries(number: int) -> str:
    return counted(number, "query", "queries")
