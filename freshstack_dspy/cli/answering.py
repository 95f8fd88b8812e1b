"""`freshstack answer`, `contexts` and `score`: the retriever through the answers written from it."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import freshstack_dspy as fs
from freshstack_dspy.cli.command import (
    Asking,
    AtLeastOne,
    FromZero,
    Measures,
    Outcome,
    asking,
    check_out,
    command,
    judging,
)
from freshstack_dspy.pages.page import Page
from freshstack_dspy.pages.shown import Shown
from freshstack_dspy.progress import ProgressBars

if TYPE_CHECKING:
    from freshstack_dspy.recipes.session import Session

_COUNTED = {
    "assignments": ("nuggets", "failed", "missing"),
    "citations": ("uncited", "unlabelled", "outside"),
    "agreement": ("agree", "disagree", "undecided"),
    "checks": ("contradicting", "copied", "declined", "empty", "failed"),
    "leaderboard": (),
}


@command
def answer(
    collection: Path,
    runs: list[Path] | None = None,
    *,
    answers: list[Path] | None = None,
    config: Path,
    out: Path,
    k: Annotated[list[int] | None, typer.Option("--k", min=1)] = None,
    chunks_per_call: AtLeastOne | None = None,
    gold_answers: Annotated[int | None, typer.Option(min=0, max=15)] = None,
    gold_per_call: AtLeastOne | None = None,
    comparer: Annotated[list[str] | None, typer.Option(metavar="NAME[=THRESHOLD]")] = None,
    combine: Literal["first", "any", "majority", "all"] = "first",
    limit: FromZero = 10,
    replace: bool = False,
    how: Asking,
    plan: bool = False,
) -> Outcome | Shown:
    """Judge answers: those of your own systems, and those that a model writes from runs.

    Args:
        runs: Run files, in TREC's format, or of searches with chunk ids.
        answers: A file with the answers of a system: query_id, text, and perhaps citations and
            contexts; JSON Lines, JSON, CSV, Parquet, or in TREC RAG's format. Repeatable.
        config: TOML file; its [generator] answers, its [gold_generator] from gold chunks, its
            [judge] compares and judges.
        out: Folder of the answers and their judgments.
        k: Chunks that an answer is written from, by default 10; repeatable.
        chunks_per_call: Chunks that are shown in one call, by default all; the answer is the
            sentences of all calls.
        gold_answers: Answers from the gold chunks, of which one has to agree; several are drawn at
            temperature 0.5. By default 1, and 0 without runs.
        gold_per_call: Gold answers that the model compares an answer with in one call, by default
            all.
        comparer: What compares answers: yes_no or graded (the model), exact_match, token_f1, or
            one of an installed package; the score from which on they agree. Repeatable; by default
            yes_no, and what needs no model.
        combine: Which comparers an answer has to agree by: the first, any, more than half, or all.
        limit: How many answers of your systems are listed, the worst first.
    """
    from freshstack_dspy.measures.searches import read_chunk_run

    check_out(out, replace=replace, folder=True)
    comparers = _comparers(comparer or ["yes_no", "exact_match", "token_f1"])
    loaded = fs.Collection.load(collection)
    read = [read_chunk_run(path) for path in runs or ()]
    if not runs and not answers:
        raise typer.BadParameter("name run files, or a file of answers with --answers")
    rules: dict[str, Any] = {
        "k": k or [10],
        "gold_answers": int(bool(runs)) if gold_answers is None else gold_answers,
        "comparers": comparers,
        "combine": combine,
        "chunks_per_call": chunks_per_call,
        "gold_per_call": gold_per_call,
    }

    def answered(session: "Session") -> Any:
        from freshstack_dspy.answering.own_answers import NO_ANSWERS, own_answers
        from freshstack_dspy.answering.reteval import answer_from_runs

        own = own_answers(loaded, answers) if answers else NO_ANSWERS
        return answer_from_runs(session, loaded, read, own=own, **rules)

    if plan:
        return _plan(config, loaded, answered)
    with asking(how) as (options, _):
        metrics = fs.answer(
            loaded,
            read,
            config=config,
            answers=answers,
            out=out,
            replace=replace,
            **rules,
            **options,
        )
    return Outcome(metrics.page(out, limit), code=int(bool(metrics.answering.failures)))


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
                f"--comparer {each}: allowed: {', '.join(known)}, each with or without a threshold, "
                "such as token_f1=0.6"
            ) from None
    return comparers


def _plan(config: Path, collection: "fs.Collection", ask: "Callable[[Session], object]") -> Shown:
    """Plan what a function would ask for that asks about the queries of a collection."""
    from freshstack_dspy.config import load_judging
    from freshstack_dspy.recipes.plan import plan_asking

    settings, queries = load_judging(config), len(collection.qrels().nuggets)
    with ProgressBars() as bars:
        return plan_asking(settings, ask, name=collection.name, queries=queries, progress=bars)


@command
def contexts(
    collection: Path,
    runs: list[Path],
    *,
    config: Path | None = None,
    measure: Measures = None,
    k: AtLeastOne | None = None,
    tokens: AtLeastOne | None = None,
    threshold: AtLeastOne | None = None,
    samples: Annotated[int | None, typer.Option(min=3)] = None,
    of: AtLeastOne = 50,
    seed: int = 0,
    out: Path | None = None,
    replace: bool = False,
    how: Asking,
    plan: bool = False,
) -> Outcome | Shown:
    """Measure contexts and the reports from them, next to the bounds of CRUX.

    Args:
        runs: Run files, in TREC's format, or of searches with chunk ids.
        config: TOML file; its [generator] writes a report from each context, its [judge] rates it.
            Without one no model is asked.
        measure: What contexts are measured by, e.g. Recall@10; may be repeated. By default StRecall
            (Cov(Z)), alpha_nDCG and Density.
        k: Chunks of a context. By default as many as the oracle context has, or 10 of --samples.
        tokens: Or the most tokens that its chunks have.
        threshold: The lowest grade with which a chunk or report answers (η), by default that of the
            collection and of [judge].
        samples: Draw this many contexts from each run at random, and correlate their measures with
            those of the reports.
        of: With --samples: how many chunks of the top are drawn from.
        seed: The seed of --samples.
    """
    from freshstack_dspy.files import encode_records, write_file
    from freshstack_dspy.measures.searches import read_chunk_run

    check_out(out, replace=replace)
    if k is not None and tokens is not None:
        raise typer.BadParameter("a context has --k chunks or --tokens tokens, not both")
    if samples is not None and (config is None or tokens is not None):
        raise typer.BadParameter("--samples needs --config, and --k in place of --tokens")
    loaded = fs.Collection.load(collection)
    read = [read_chunk_run(path) for path in runs]

    def evaluated(session: "Session | None") -> Any:
        from freshstack_dspy.answering.contexts import (
            CRUX_MEASURES,
            Sampling,
            evaluate_contexts,
        )

        return evaluate_contexts(
            session,
            loaded,
            read,
            measures=measure or CRUX_MEASURES,
            k=k,
            tokens=tokens,
            sampling=Sampling(samples, of, seed) if samples else None,
            threshold=threshold,
        )

    if plan and config is None:
        raise typer.BadParameter("without --config nothing is asked, so there is no plan")
    if plan and config is not None:
        return _plan(config, loaded, evaluated)
    asked = judging(config, how, out, ("generator", "judge")) if config else nullcontext()
    with asked as session:
        table = evaluated(session)
    if out is not None:
        write_file(out, encode_records(table.reports))
    unrated = any(report.coverage is None for report in table.reports)
    return Outcome(table, code=int(unrated))


@command
def score(
    kind: Literal["assignments", "citations", "agreement", "checks", "leaderboard"],
    files: list[Path],
    *,
    by: Literal["run", "answer"] = "run",
    leaderboard: Path | None = None,
    compare: bool = False,
) -> Page:
    """Score answers and citations, from the labels of judges or people.

    Args:
        kind: assignments: nugget recall, from assignments as nuggetizer writes them. citations:
            citation support, from labels as the TREC RAG track has them. agreement: agreement with
            answers from gold chunks (LLM-retEval), from run_id, query_id, agrees, reason. checks:
            the share of the nuggets that answers contradict, from checks.jsonl.
            leaderboard: the values of TREC Auto-Judge, as lines `run topic measure value`.
        files: JSON Lines, JSON or Parquet; leaderboards are text.
        by: A row for each run, or each answer.
        leaderboard: Also write the values as TREC Auto-Judge has them.
        compare: Compare every two runs instead, with tests.
    """
    from freshstack_dspy.answering import judged_answers
    from freshstack_dspy.answering import scores as scoring
    from freshstack_dspy.files import write_file
    from freshstack_dspy.views.scores import scores_page

    check_out(leaderboard)
    shown: Sequence[str] = ()
    if kind == "assignments":
        scores = scoring.score_assignments(judged_answers.read_assignments(files))
    elif kind == "citations":
        scores = scoring.score_citations(judged_answers.read_citations(files))
        shown = [name for name in scores.measures if name.endswith("_first")]
    elif kind == "agreement":
        scores = scoring.score_agreement(judged_answers.read_agreement(files))
    elif kind == "checks":
        scores = scoring.score_checks(judged_answers.read_checks(files))
    else:
        scores = scoring.score_values(judged_answers.read_leaderboard(files))
    if leaderboard is not None:
        lines = (
            f"{run}\t{topic}\t{name}\t{value}\n"
            for run, topic, values in scoring.leaderboard_rows(scores)
            for name, value in values.items()
        )
        write_file(leaderboard, "".join(lines))
    if compare:
        return scores.compare().page()
    return scores_page(scores, shown, _COUNTED[kind], by=by)
