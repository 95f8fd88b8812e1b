"""`freshstack answer`: the retriever through the answer (LLM-retEval)."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from freshstack_dspy.cli.options import (
    CollectionArgument,
    ModeOption,
    ReplaceOption,
    RunsArgument,
    SlicesOption,
    check_out,
)

if TYPE_CHECKING:
    from freshstack_dspy.recipes.answers import AnsweringAccount, AnswerMetrics
    from freshstack_dspy.recipes.reteval import Answering

_GOLD = "gold"


def answer(
    collection: CollectionArgument,
    runs: RunsArgument,
    config: Annotated[
        Path,
        typer.Option(help="TOML file; its [model] answers and compares, its [judge] judges."),
    ],
    out: Annotated[Path, typer.Option(help="Folder of the answers and their judgments.")],
    k: Annotated[
        int, typer.Option("--k", min=1, help="Chunks that an answer is written from.")
    ] = 10,
    gold_answers: Annotated[
        int,
        typer.Option(
            min=1,
            max=15,
            help="Answers from the gold chunks, of which one has to agree; several are drawn at "
            "temperature 0.5.",
        ),
    ] = 1,
    slices: SlicesOption = "supported",
    replace: ReplaceOption = False,
    mode: ModeOption = "live",
) -> None:
    """Answer from runs and from gold chunks; say how often both agree."""
    from freshstack_dspy.cli.options import judging
    from freshstack_dspy.collection.collection import Collection
    from freshstack_dspy.collection.slices import slices_of
    from freshstack_dspy.config import load_judging
    from freshstack_dspy.measures.run import read_run

    check_out(out, replace=replace)
    settings = load_judging(config)
    loaded = Collection.load(collection)
    chosen = slices_of(slices)
    read = [read_run(path) for path in runs]
    with judging(settings, mode) as session:
        from freshstack_dspy.recipes.answers import (
            answer_metrics,
            answering_account,
            write_answers,
        )
        from freshstack_dspy.recipes.reteval import answer_from_runs

        found = answer_from_runs(
            session, loaded, read, k=k, slices=chosen, gold_answers=gold_answers
        )
        account = answering_account(
            session, loaded, found, k=k, gold_answers=gold_answers, slices=chosen
        )
    metrics = answer_metrics(found, loaded, read, k=k, scale=account.scale, slices=chosen)
    write_answers(out, found, account)
    _show(out, found, account, metrics)


def _show(
    out: Path, found: "Answering", account: "AnsweringAccount", metrics: "AnswerMetrics"
) -> None:
    """Print how far the answers agree, what they hold, and what rankings say next to them."""
    from freshstack_dspy.cli.printing import Table, counted, say, show
    from freshstack_dspy.cli.score import show_relations, show_scores
    from freshstack_dspy.lm.request import BASELINE

    say(f"agreement with the answers from the gold chunks, top {account.k} (LLM-retEval)")
    show_scores(metrics.agreement, ["agreement"], ("agree", "disagree", "undecided"))
    if account.without_gold:
        number = counted(len(account.without_gold), "query", "queries")
        say(f"{number} without gold chunks, left out: {_listed(account.without_gold)}")
    say("")
    say("nuggets that the answers support; gold: the answers from the gold chunks")
    names = ["A_strict", "V_strict", *(["A"] if account.scale.name != "binary" else [])]
    measured = {name for one in metrics.nuggets.answers for name in one.values}
    shown = [name for name in names if name in measured] or ["A_strict"]
    show_scores(metrics.nuggets, shown, ("nuggets", "failed"), last=_GOLD)
    say("")
    measures = next(iter(metrics.rankings.values())).measures
    rows = []
    for run, each in sorted(metrics.coverage.items(), key=lambda one: (one[0] == _GOLD, one[0])):
        means = metrics.rankings[run].means if run in metrics.rankings else {}
        rows.append([run, each.mean.value, each.answers, *(means.get(name) for name in measures)])
    title = "answerable nuggets that the answers support, next to the rankings"
    show(Table(("run", "Cov(y)", "answers", *measures), rows, title))
    show_relations(metrics.relations)
    model = f"{account.model}, a word counter" if account.model == BASELINE else account.model
    say(f"answered, compared and judged by {model}")
    _say_failures(out, found)


def _say_failures(out: Path, found: "Answering") -> None:
    from freshstack_dspy.cli.printing import counted, say

    omitted = [one for one in (*found.answers, *found.gold_answers) if one.omitted]
    if omitted:
        chunks = counted(sum(len(one.omitted) for one in omitted), "chunk")
        answers = counted(len(omitted), "answer")
        say(
            f"{chunks} of {answers} not shown to the generator, for there was no room in the "
            "model's window, or no text; see omitted in answers.jsonl and gold_answers.jsonl"
        )
    empty = sum(one.status == "ok" and not one.is_answered for one in found.answers)
    if empty:
        say(f"{counted(empty, 'context')} in which the generator found no answer")
    if found.failures:
        say(f"{counted(len(found.failures), 'failure')}; see {out / 'failures.jsonl'}")
    runs = counted(len({one.run_id for one in found.answers}), "run")
    say(f"{out}: {counted(len(found.answers), 'answer')} from {runs}")


def _listed(ids: Sequence[str], most: int = 10) -> str:
    more = f" and {len(ids) - most} more" if len(ids) > most else ""
    return ", ".join(ids[:most]) + more
