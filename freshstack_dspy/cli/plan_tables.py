"""What `freshstack plan` prints, and how an estimate turned out."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.table import Table

from freshstack_dspy.cli.lines import counted, say
from freshstack_dspy.cli.tables import show

if TYPE_CHECKING:
    from freshstack_dspy.collection.manifest import EstimateError
    from freshstack_dspy.recipes.planning.planned import Plan, Planned, PlannedCap


def plan_table(plan: "Plan") -> None:
    """Print a plan: one row for each step and their sum, and what the budget says to it."""
    asked = _by_step(
        ("requests", "recorded", "input tokens", "output tokens"),
        [(step.step, *_requests(step)) for step in plan.steps],
        ("total", *_requests(plan.total)),
    )
    show(f"{plan.name}: {plan.queries:,} questions for {plan.model}", asked)
    # Two tables, for one would be wider than a screen of 80 columns.
    paid = _by_step(
        ("requests are", "live", "batch", "at worst"),
        [
            (step.step, "exact" if step.exact else "estimated", *_dollars(step))
            for step in plan.steps
        ],
        ("total", "", *_dollars(plan.total)),
    )
    show("what those that are not recorded cost", paid)
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
    _say_unfit(plan)
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


def _say_unfit(plan: "Plan") -> None:
    for step in plan.steps:
        if step.unfit:
            say(
                f"{step.step}: {counted(step.unfit, 'question leaves', 'questions leave')} no room "
                "for a chunk in the model's window, and a build counts what is not asked as "
                "failed: see [model] context and max_tokens, and [judge] shape"
            )


def error_table(errors: "Sequence[EstimateError]") -> None:
    """Print how an estimate turned out, for every step."""
    asked, tokens = Table(), Table()
    for table, columns in (
        (asked, ("requests", "made", "error", "dollars", "paid")),
        (tokens, ("tokens", "used", "error")),
    ):
        table.add_column("step")
        for column in columns:
            table.add_column(column, justify="right")
    for step in errors:
        asked.add_row(
            step.step,
            f"{step.requests:,}",
            f"{step.made:,}",
            _percent(step.requests_off),
            _money(step.cost),
            _money(step.paid),
        )
        tokens.add_row(step.step, f"{step.tokens:,}", f"{step.used:,}", _percent(step.tokens_off))
    show("requests and dollars: planned, and used (recorded replies included)", asked)
    show("tokens: planned, and used (recorded replies included)", tokens)


def _by_step(columns: Sequence[str], steps: Sequence[Sequence[str]], total: Sequence[str]) -> Table:
    """One row for each step, and one for their sum."""
    table = Table()
    table.add_column("step")
    for column in columns:
        table.add_column(column, justify="right")
    for cells in steps:
        table.add_row(*cells)
    table.add_section()
    table.add_row(*total)
    return table


def _requests(planned: "Planned") -> Sequence[str]:
    return (
        f"{planned.requests:,}",
        f"{planned.recorded:,}",
        f"{planned.input_tokens:,}",
        f"{planned.output_tokens:,}",
    )


def _dollars(planned: "Planned") -> Sequence[str]:
    return (
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
