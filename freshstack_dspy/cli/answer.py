"""`freshstack answer`: the retriever through the answer (LLM-retEval)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from freshstack_dspy.cli.build import plan_asking
from freshstack_dspy.cli.options import (
    CollectionArgument,
    ModeOption,
    PlanOption,
    ReplaceOption,
    RunsArgument,
    check_out,
    judging,
)
from freshstack_dspy.cli.printing import Table, counted, cut, say, say_wrapped, show
from freshstack_dspy.cli.score import show_scores

if TYPE_CHECKING:
    from freshstack_dspy.answering.cases import FoundAndAgrees
    from freshstack_dspy.answering.metrics import AnsweringAccount, AnswerMetrics
    from freshstack_dspy.answering.reteval import Answering
    from freshstack_dspy.cli.printing import Cell
    from freshstack_dspy.records import FailureCase

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
            "rouge_l, embedding (by the first [[embedder]]), or one of an installed package; the score from which on they agree. "
            "Repeatable: the first decides. By default yes_no, and what needs no model.",
        ),
    ] = None,
    replace: ReplaceOption = False,
    mode: ModeOption = "live",
    plan: PlanOption = False,
) -> None:
    """Answer from runs and from gold chunks; say how often both agree."""
    from freshstack_dspy.collection.collection import Collection
    from freshstack_dspy.measures.run import read_run

    check_out(out, replace=replace, folder=True)
    depths = k or [10]
    comparers = _comparers(comparer or ["yes_no", "exact_match", "token_f1", "rouge_l"])
    loaded = Collection.load(collection)
    read = [read_run(path) for path in runs]
    how: dict[str, Any] = {"k": depths, "gold_answers": gold_answers, "comparers": comparers}
    if plan:
        comparers.pop("embedding", None)  # there are no answers yet that could be embedded
        from freshstack_dspy.answering.reteval import answer_from_runs

        plan_asking(config, loaded, lambda session: answer_from_runs(session, loaded, read, **how))
        return
    with judging(config, mode, out=out, searching="embedding" in comparers) as session:
        from freshstack_dspy.answering.metrics import (
            answer_metrics,
            answering_account,
            write_answers,
        )
        from freshstack_dspy.answering.reteval import answer_from_runs

        found = answer_from_runs(session, loaded, read, **how)
        account = answering_account(session, loaded, found, **how)
    metrics = answer_metrics(found, account, loaded, read)
    write_answers(out, found, account, metrics.cases)
    _show(out, found, account, metrics)
    raise typer.Exit(int(bool(found.failures)))


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


def _show(
    out: Path, found: "Answering", account: "AnsweringAccount", metrics: "AnswerMetrics"
) -> None:
    """Print how far the answers agree, what they hold, and what rankings say next to them."""
    from freshstack_dspy.lm.request import BASELINE

    depths = ", ".join(map(str, account.k))
    say(f"agreement with the answers from the gold chunks, top {depths} (LLM-retEval)")
    decides, *others = (f"{name} ≥ {least:g}" for name, least in account.comparers.items())
    say(f"agreement is by {decides}" + (f"; next to it {', '.join(others)}" if others else ""))
    show_scores(metrics.agreement, metrics.agreement.measures, ("agree", "disagree", "undecided"))
    say("")
    say("nuggets that the answers support; gold: the answers from the gold chunks")
    partly = account.scale.name != "binary"
    names = ["A_strict", "V_strict", "A"] if partly else ["A_strict", "V_strict"]
    measured = {"A_strict", *(name for one in metrics.nuggets.answers for name in one.values)}
    shown = [name for name in names if name in measured]
    show_scores(metrics.nuggets, shown, ("nuggets", "failed"), last=_GOLD)
    say("")
    if metrics.citations is not None:
        say("support of the sentences by the first chunk that each cites (TREC RAG)")
        names = ["weighted_precision_first", "weighted_recall_first"]
        show_scores(metrics.citations, names, ("uncited", "unlabelled"), last=_GOLD)
        say("")
    # Of several depths each run has its own cut-off, which its name says.
    measures = next(iter(metrics.rankings.values())).measures
    if len(account.k) > 1:
        measures = tuple(name.partition("@")[0] for name in measures)
    rows = []
    for run in (*metrics.rankings, _GOLD):
        if (mean := metrics.coverage.get(run)) is not None:
            means = metrics.rankings[run].means.values() if run in metrics.rankings else ()
            rows.append(
                [run, mean.value, mean.groups, *means, *[None] * (len(measures) - len(means))]
            )
    title = "answerable nuggets that the answers support, next to the rankings"
    show(Table(("run", "Cov(y)", "answers", *measures), rows, title))
    _show_relations(metrics.relations)
    _show_cases(metrics.cases, out)
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


def _show_relations(relations: "Mapping[str, FoundAndAgrees]") -> None:
    """Print recall next to whether the answers agree."""
    rows: list[list[Cell]] = []
    for run, each in relations.items():
        found = (each.found_agree, each.found_disagree)
        missed = (each.missed_agree, each.missed_disagree)
        correlations = (each.phi.value, each.spearman.value, each.refined.value)
        rows.append([run, each.measure, each.queries, *found, *missed, *correlations])
    header = (
        *("run", "measure", "queries", "above,\nagrees", "above,\nnot", "below,\nagrees"),
        *("below,\nnot", "phi", "Spearman\nall", "Spearman\nrefined"),
    )
    print()
    title = "queries by the ranking measure and by whether the answer agrees"
    show(Table(header, rows, title, keys=2))
    say_wrapped("above: the measure's value is above 0; below: it is 0")
    say_wrapped("above, not: look for distracting chunks (case C of the paper), or model errors")
    say_wrapped("below, agrees: look for unjudged chunks (cases A, B), or what the model knows")
    say_wrapped("refined: without the queries on which recall seems to fail (cases A, B and C)")
    for run, each in relations.items():
        for ids, what in (
            (each.without_value, f"a value of {each.measure}"),
            (each.without_verdict, "a verdict"),
        ):
            if ids:
                number = counted(len(ids), "query", "queries")
                say_wrapped(f"{cut(run)}: {number} without {what}, left out, as {cut(ids[0])}")
        if each.phi.reason is not None:
            say_wrapped(f"{cut(run)}: no phi for {each.measure}: {each.phi.reason}")


def _show_cases(cases: "Sequence[FailureCase]", out: Path) -> None:
    """Print an example of every case of failure."""
    from freshstack_dspy.answering.cases import CASES

    for case, what in CASES.items():
        if of := [one for one in cases if one.case == case]:
            say_wrapped(f"case {case} ({len(of)}): {what}")
            texts = of[0].question, of[0].gold_answer, of[0].answer
            for name, text in zip(("question", "gold", of[0].run_id), texts, strict=True):
                say(f"  {name}: {cut(' '.join(text.split()) or '–', 100)}")
    if cases:
        say(f"all {len(cases)} with their nuggets: {out / 'cases.jsonl'}; read them to be sure")
