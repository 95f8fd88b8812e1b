"""What is said below a table of means: whose rules, and what was missing."""

from typing import TYPE_CHECKING

from freshstack_dspy.cli.lines import counted, say, say_wrapped

if TYPE_CHECKING:
    from freshstack_dspy.measures import Evaluation
    from freshstack_dspy.measures.conventions import Conventions

_COUNTS = {"zero": "counts as 0", "skip": "left out"}


def say_conventions(evaluation: "Evaluation") -> None:
    """Say whose rules were followed, where they are not ours."""
    from freshstack_dspy.measures.conventions import OUR_CONVENTIONS

    if evaluation.conventions != OUR_CONVENTIONS:
        say(f"ties and what is missing as in {evaluation.conventions}")
    if evaluation.beyond:
        say_wrapped(
            f"{evaluation.conventions} does not have {', '.join(evaluation.beyond)}: computed by "
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
        (evaluation.unknown, "unknown (passed over)"),
        (evaluation.tied, f"all of one score (in the order of {_order(rules)})"),
    ):
        if ids:
            say(f"{name}: {_queries(len(ids))} {said}, as {ids[0]}")
    for measure, ids in evaluation.without_value.items():
        if others := [query for query in ids if query not in set(evaluation.without_relevant)]:
            say(
                f"{name}: {_queries(len(others))} without a value of {measure} "
                f"({_COUNTS[evaluation.undefined]}), as {others[0]}"
            )
    deepest = evaluation.holes[-1] if evaluation.holes else None
    if deepest is not None and (failed := sum(deepest.failed.values())):
        say(f"{name}: {counted(failed, 'failed judgment')} in the top {deepest.k}")


def _order(rules: "Conventions") -> str:
    """What puts chunks of one score in order."""
    if rules.order.by == "rank":
        return "their ranks"
    return "the file" if rules.order.ties == "listed" else "the ids"


def _queries(number: int) -> str:
    return counted(number, "query", "queries")
