"""What `freshstack plan` prints, and how an estimate turned out."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.table import Table

from freshstack_dspy.cli.lines import say
from freshstack_dspy.cli.tables import show

if TYPE_CHECKING:
    from freshstack_dspy.collection.estimates import EstimateError
    from freshstack_dspy.recipes.planning.planned import Plan, Planned, PlannedCap


def plan_table(plan: "Plan") -> None:
    """Print a plan: one row for each step, their sum, and what the budget says to it."""
    table = Table()
    table.add_column("step")
    for column in (
        "requests",
        "recorded",
        "input tokens",
        "output tokens",
        "live",
        "batch",
        "at worst",
    ):
        table.add_column(column, justify="right")
    table.add_column("requests are")
    for step in plan.steps:
        table.add_row(step.step, *_cells(step), "exact" if step.exact else "estimated")
    table.add_section()
    table.add_row("total", *_cells(plan.total), "")
    show(f"{plan.name}: {plan.queries:,} questions for {plan.model}", table)
    say(
        "tokens and dollars are those of the requests that are not recorded; output is estimated; "
        f"at worst every reply has {plan.longest_reply:,} tokens ([model] max_tokens)"
    )
    say(
        "tokens are counted with OpenAI's cl100k_base; a provider's own count differs by some "
        "percent, and re-asks and reasoning come on top"
    )
    if any(step.step == "synthesis" and not step.exact for step in plan.steps):
        say(
            "the questions are yet to be made, and how many of them are refused shows only then: all "
            "is estimated, and exact once every reply that makes them is recorded"
        )
    elif not all(step.exact for step in plan.steps):
        say(
            "support is estimated from a sample of the corpus, in measured builds within a third; it is "
            "exact once the replies of the steps before it are recorded"
        )
    if plan.total.cost is None:
        say(
            f"nobody says what {plan.model} costs: set [prices] input = … and output = …, in US "
            "dollars per million tokens"
        )
    for each in plan.embeddings:
        say(
            f"[[embedder]] {each.name}: {each.texts:,} texts in {each.requests:,} requests, "
            f"{each.tokens:,} tokens, {_money(each.dollars)}; {each.recorded:,} recorded"
        )
    for cap in plan.budget:
        say(_verdict(cap))


def error_table(errors: "Sequence[EstimateError]") -> None:
    """Print how an estimate turned out, for every step."""
    table = Table()
    table.add_column("step")
    for column in (
        "requests planned",
        "made",
        "error",
        "tokens planned",
        "used",
        "error",
        "planned",
        "paid",
    ):
        table.add_column(column, justify="right")
    for step in errors:
        table.add_row(
            step.step,
            f"{step.requests:,}",
            f"{step.made:,}",
            _percent(step.requests_off),
            f"{step.tokens:,}",
            f"{step.used:,}",
            _percent(step.tokens_off),
            _money(step.cost),
            _money(step.paid),
        )
    show("planned, and used (recorded replies included)", table)


def _cells(planned: "Planned") -> tuple[str, ...]:
    return (
        f"{planned.requests:,}",
        f"{planned.recorded:,}",
        f"{planned.input_tokens:,}",
        f"{planned.output_tokens:,}",
        _money(planned.cost),
        "–" if planned.batch_cost is None else _money(planned.batch_cost),
        _money(planned.worst_cost),
    )


def _verdict(cap: "PlannedCap") -> str:
    amount = _money if cap.cap == "dollars" else "{:,.0f}".format
    said = f"[budget] {cap.cap}: {amount(cap.spent)} of {amount(cap.limit)} spent; "
    if cap.expected is None or cap.worst is None:
        return f"{said}what the plan takes is unknown"
    said += f"the plan takes {amount(cap.expected)}, with what is reserved at worst {amount(cap.worst)}: "
    if cap.expected > cap.left:
        return f"{said}too much; a build stops at the cap, and goes on once it is raised"
    if cap.worst > cap.left:
        return f"{said}enough by the estimate, and not at worst"
    return f"{said}enough"


def _money(amount: float | None) -> str:
    if amount is None:
        return "unknown"
    return f"${amount:,.2f}" if amount >= 1 else f"${amount:.4f}"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:+.1%}"
