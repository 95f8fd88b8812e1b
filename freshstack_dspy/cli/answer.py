"""`freshstack answer`: the retriever through the answer (LLM-retEval)."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from freshstack_dspy.cli.options import (
    CollectionArgument,
    ModeOption,
    ReplaceOption,
    RunsArgument,
    check_out,
    judging,
)
from freshstack_dspy.cli.printing import Table, counted, say, show
from freshstack_dspy.cli.score import show_relations, show_scores

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
    replace: ReplaceOption = False,
    mode: ModeOption = "live",
) -> None:
    """Answer from runs and from gold chunks; say how often both agree."""
    from freshstack_dspy.collection.collection import Collection
    from freshstack_dspy.measures.run import read_run

    check_out(out, replace=replace)
    loaded = Collection.load(collection)
    read = [read_run(path) for path in runs]
    with judging(config, mode) as session:
        from freshstack_dspy.recipes.answers import (
            answer_metrics,
            answering_account,
            write_answers,
        )
        from freshstack_dspy.recipes.reteval import answer_from_runs

        found = answer_from_runs(session, loaded, read, k=k, gold_answers=gold_answers)
        account = answering_account(session, loaded, found, k=k, gold_answers=gold_answers)
    write_answers(out, found, account)
    _show(out, found, account, answer_metrics(found, account, loaded, read))


def _show(
    out: Path, found: "Answering", account: "AnsweringAccount", metrics: "AnswerMetrics"
) -> None:
    """Print how far the answers agree, what they hold, and what rankings say next to them."""
    from freshstack_dspy.lm.request import BASELINE

    say(f"agreement with the answers from the gold chunks, top {account.k} (LLM-retEval)")
    show_scores(metrics.agreement, ["agreement"], ("agree", "disagree", "undecided"))
    say("")
    say("nuggets that the answers support; gold: the answers from the gold chunks")
    partly = account.scale.name != "binary"
    names = ["A_strict", "V_strict", "A"] if partly else ["A_strict", "V_strict"]
    measured = {"A_strict", *(name for one in metrics.nuggets.answers for name in one.values)}
    shown = [name for name in names if name in measured]
    show_scores(metrics.nuggets, shown, ("nuggets", "failed"), last=_GOLD)
    say("")
    measures = next(iter(metrics.rankings.values())).measures
    rows = []
    for run, mean in sorted(metrics.coverage.items(), key=lambda one: (one[0] == _GOLD, one[0])):
        means = metrics.rankings[run].means if run in metrics.rankings else {}
        rows.append([run, mean.value, mean.groups, *map(means.get, measures)])
    title = "answerable nuggets that the answers support, next to the rankings"
    show(Table(("run", "Cov(y)", "answers", *measures), rows, title))
    show_relations(metrics.relations)
    model = f"{account.model}, a word counter" if account.model == BASELINE else account.model
    say(f"answered, compared and judged by {model}")
    if omitted := sum(len(one.omitted) for one in (*found.answers, *found.gold_answers)):
        say(
            f"{counted(omitted, 'chunk')} not shown to the generator, for there was no room in the "
            "model's window, or no text; see omitted in answers.jsonl and gold_answers.jsonl"
        )
    if empty := sum(one.status == "ok" and not one.is_answered for one in found.answers):
        say(f"{counted(empty, 'context')} in which the generator found no answer")
    if found.failures:
        say(f"{counted(len(found.failures), 'failure')}; see {out / 'failures.jsonl'}")
    say(f"{out}: {counted(len(found.answers), 'answer')} from {counted(len(account.runs), 'run')}")
