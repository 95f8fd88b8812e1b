"""`freshstack answer`: the retriever through the answer (LLM-retEval)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from freshstack_dspy.cli.build import plan_asking
from freshstack_dspy.cli.command import Outcome, command
from freshstack_dspy.cli.options import (
    CollectionArgument,
    FailedOption,
    LogOption,
    ModeOption,
    PlanOption,
    ReplaceOption,
    RunsArgument,
    check_out,
    judging,
)
from freshstack_dspy.pages.shown import Shown


@command
def answer(
    collection: CollectionArgument,
    runs: RunsArgument,
    config: Annotated[
        Path,
        typer.Option(help="TOML file; its [generator] answers, its [judge] compares and judges."),
    ],
    out: Annotated[Path, typer.Option(help="Folder of the answers and their judgments.")],
    k: Annotated[
        list[int] | None,
        typer.Option(
            "--k", min=1, help="Chunks that an answer is written from, by default 10; repeatable."
        ),
    ] = None,
    gold_answers: Annotated[
        int,
        typer.Option(
            min=1,
            max=15,
            help="Answers from the gold chunks, of which one has to agree; several are drawn at "
            "temperature 0.5.",
        ),
    ] = 1,
    comparer: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[=THRESHOLD]",
            help="What compares answers: yes_no or graded (the model), exact_match, token_f1, "
            "or one of an installed package; the score from which on they agree. "
            "Repeatable: the first decides. By default yes_no, and what needs no model.",
        ),
    ] = None,
    replace: ReplaceOption = False,
    mode: ModeOption = "live",
    failed: FailedOption = False,
    log: LogOption = None,
    plan: PlanOption = False,
) -> Outcome | Shown:
    """Answer from runs and from gold chunks; say how often both agree."""
    from freshstack_dspy.collection.collection import Collection
    from freshstack_dspy.measures.searches import read_chunk_run

    check_out(out, replace=replace, folder=True)
    depths = k or [10]
    comparers = _comparers(comparer or ["yes_no", "exact_match", "token_f1"])
    loaded = Collection.load(collection)
    read = [read_chunk_run(path) for path in runs]
    how: dict[str, Any] = {"k": depths, "gold_answers": gold_answers, "comparers": comparers}
    if plan:
        from freshstack_dspy.answering.reteval import answer_from_runs

        return plan_asking(
            config, loaded, lambda session: answer_from_runs(session, loaded, read, **how)
        )
    with judging(config, mode, failed=failed, log=log, out=out) as session:
        from freshstack_dspy.answering.metrics import (
            answer_metrics,
            answering_account,
            write_answers,
        )
        from freshstack_dspy.answering.reteval import answer_from_runs

        answers = answer_from_runs(session, loaded, read, **how)
        account = answering_account(session, loaded, answers, **how)
    metrics = answer_metrics(answers, account, loaded, read)
    write_answers(out, answers, account, metrics.cases)
    return Outcome(metrics.page(out), code=int(bool(answers.failures)))


def _comparers(given: Sequence[str]) -> dict[str, float]:
    """Read comparers, each with its threshold."""
    from freshstack_dspy.answering.comparing import COMPARERS, comparer_names
    from freshstack_dspy.errors import ConfigError

    known, comparers = comparer_names(), {}
    for each in given:
        name, _, threshold = each.partition("=")
        try:
            default = COMPARERS.get(known[known.index(name)], 0.5)
            comparers[name] = float(threshold) if threshold else default
        except ValueError:
            raise ConfigError(
                f"--comparer {each}: give one of {', '.join(known)}, and perhaps its threshold, "
                "as token_f1=0.6"
            ) from None
    return comparers
