"""`freshstack score`: answers, their citations and nuggets, from the labels of judges or people."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from freshstack_dspy.cli.options import FormatOption, JsonOption

if TYPE_CHECKING:
    from freshstack_dspy.cli.printing import Cell, Table, TableFormat
    from freshstack_dspy.measures.answers import FoundAndAgrees, Scores
    from freshstack_dspy.measures.statistics import Estimate

Kind = Literal["assignments", "citations", "agreement", "nuggets"]
By = Literal["run", "answer"]
_REASONS = 5
"""How many reasons for missing values are listed."""
_COUNTED = {
    "assignments": ("nuggets", "failed", "missing"),
    "citations": ("uncited", "unlabelled", "outside"),
    "agreement": ("agree", "disagree", "undecided"),
    "nuggets": ("nuggets", "hallucinated", "redundant", "additional", "unanswered"),
}


def score(
    kind: Annotated[
        Kind,
        typer.Argument(
            help="assignments: nugget recall, from assignments as nuggetizer writes them. "
            "citations: citation support, from labels as the TREC RAG track has them. agreement: "
            "agreement with answers from gold chunks (LLM-retEval), from run_id, query_id, agrees, "
            "reason. nuggets: quality of nuggets (FreshStack), from annotator, query_id, nuggets, "
            "additional."
        ),
    ],
    files: Annotated[list[Path], typer.Argument(help="JSON Lines, JSON or Parquet.")],
    conventions: Annotated[
        Literal["ours", "nuggetizer", "ragdoll"],
        typer.Option(
            help="What counts where labels are missing. ours: it is left out, and named. "
            "nuggetizer: nuggets without an assignment count 0, and each answer has its own. "
            "ragdoll: answers without citations count 0."
        ),
    ] = "ours",
    by: Annotated[By, typer.Option(help="A row for each run, or each answer.")] = "run",
    collection: Annotated[
        Path | None,
        typer.Option(help="With agreement: compare it with rankings on this collection."),
    ] = None,
    run: Annotated[
        list[Path] | None,
        typer.Option(help="With --collection: run file of the answers; may be repeated."),
    ] = None,
    measure: Annotated[
        list[str] | None,
        typer.Option("--measure", "-m", help="With --collection: as Recall@50; may be repeated."),
    ] = None,
    form: FormatOption = None,
    as_json: JsonOption = False,
) -> None:
    """Score answers, citations and nuggets, from the labels of judges or people."""
    from freshstack_dspy.cli.printing import show_json
    from freshstack_dspy.collection.answers import (
        read_agreement,
        read_assignments,
        read_citations,
        read_nugget_verdicts,
    )
    from freshstack_dspy.errors import ConfigError
    from freshstack_dspy.measures import answers as scoring

    if (collection is None) != (not run) or (collection and kind != "agreement"):
        raise ConfigError("--collection and --run go together, and with agreement: give both")
    relations: dict[str, list[FoundAndAgrees]] = {}
    pooled = {}
    measures: Sequence[str] = ()
    if kind == "assignments":
        assigned = read_assignments(files, rated_only=conventions != "nuggetizer")
        scores = scoring.score_assignments(assigned, conventions=conventions)
    elif kind == "citations":
        scores = scoring.score_citations(read_citations(files), conventions=conventions)
        measures = [name for name in scores.measures if name.endswith("_first")]
    elif kind == "agreement":
        scores = scoring.score_agreement(read_agreement(files))
        if collection is not None:
            relations = _relations(scores, collection, run or [], measure)
    else:
        read = read_nugget_verdicts(files)
        scores = scoring.score_nuggets(read)
        pooled = {
            one.run: scoring.nugget_quality([of for of in read if of.annotator == one.run])
            for one in scores.runs
        }
    if as_json:
        show_json({**dict(scores), "relations": relations, "pooled": pooled})
        return
    show_scores(
        scores,
        measures or scores.measures,
        _COUNTED[kind],
        by=by,
        form=form,
        run="annotator" if kind == "nuggets" else "run",
    )
    if form is None:
        _say_pooled(pooled)
        if relations:
            show_relations(relations)


def _say_pooled(pooled: "Mapping[str, Mapping[str, Estimate]]") -> None:
    from freshstack_dspy.cli.printing import cut, say_wrapped

    for annotator, found in pooled.items():
        values = ", ".join(
            f"{name} {f'– ({of.reason})' if of.value is None else f'{of.value:.4f}'}"
            for name, of in found.items()
        )
        say_wrapped(f"{cut(annotator)}, each nugget the same weight: {values}")


def show_scores(
    scores: "Scores",
    measures: Sequence[str],
    counts: Sequence[str],
    *,
    by: By = "run",
    form: "TableFormat | None" = None,
    run: str = "run",
    last: str | None = None,
) -> None:
    """Print scores and what was missing in them; `run` says what a run is, `last` is below all."""
    from freshstack_dspy.cli.printing import say_wrapped, show

    show(_score_table(scores, measures, counts, by, run, last, spread=form == "csv"), form)
    if form is None:
        for line in _missing(scores, measures, annotators=run == "annotator"):
            say_wrapped(line)


def _score_table(
    scores: "Scores",
    measures: Sequence[str],
    counts: Sequence[str],
    by: By,
    run: str,
    last: str | None,
    *,
    spread: bool,
) -> "Table":
    """Make the table; `spread` puts the ends of intervals into columns of their own."""
    from freshstack_dspy.cli.printing import Table, counted

    rows: list[list[Cell]] = []
    if by == "answer":
        header = [run, "query_id", *measures, *counts]
        for answer in scores.answers:
            numbers = [answer.counts.get(name, 0) for name in counts]
            rows.append([answer.run, answer.query_id, *map(answer.values.get, measures), *numbers])
    else:
        ends = ("", "_low", "_high") if spread else ("",)
        header = [run, "answers", *(f"{name}{end}" for name in measures for end in ends)]
        header += [*counts, "absent"]
        for one in sorted(scores.runs, key=lambda each: (each.run == last, each.run)):
            cells: list[Cell] = []
            for name in measures:
                mean = one.means[name]
                if spread:
                    cells += [mean.value, mean.low, mean.high]
                else:
                    value = "–" if mean.value is None else f"{mean.value:.4f}"
                    low, high = mean.low, mean.high
                    cells.append(value if low is None else f"{value}\n{low:.3f}–{high:.3f}")
            numbers = [one.counts.get(name, 0) for name in counts]
            rows.append([one.run, one.answers, *cells, *numbers, len(one.absent)])
    runs = counted(len(scores.runs), run)
    queries = {one.query_id for one in scores.answers}.union(*(one.absent for one in scores.runs))
    number = counted(len(queries), "query", "queries")
    title = f"{runs}, {number}; each query the same weight"
    if by == "run" and not spread:
        title += "; with 95% bootstrap intervals"
    return Table(header, rows, title, keys=2 if by == "answer" else 1)


def _missing(scores: "Scores", measures: Sequence[str], *, annotators: bool) -> list[str]:
    """Say what was missing, how it counts, and why there is no value."""
    from freshstack_dspy.cli.printing import cut

    total: Counter[str] = Counter()
    for run in scores.runs:
        total.update(run.counts)
    absent = "they count 0" if scores.conventions == "nuggetizer" else "they do not count"
    lines = []
    for number, what in (
        (total["failed"] + total["missing"], f"nuggets without an assignment: {absent}"),
        (total["outside"], "citations outside of the references: they support nothing"),
        (total["undecided"], "answers without a verdict: they do not count"),
        (total["unrated"], "nuggets without importance: they count in A and A_strict only"),
        *((total[name], name) for name in sorted(total) if name.startswith("undecided: ")),
    ):
        if number:
            lines.append(f"{number:,} {what}")
    pairs = [(run.run, query) for run in scores.runs for query in run.absent]
    if pairs and not annotators:  # annotators need not read the same queries
        lines.append(
            f"absent, of queries that other runs answer or that nothing was retrieved for: "
            f"{len(pairs):,}; they do not count, as of {pairs[0][0]!r} to query {pairs[0][1]!r}"
        )
    reasons: dict[str, list[str]] = {}
    for answer in scores.answers:
        for name in measures:
            if (reason := answer.without.get(name)) is not None:
                reasons.setdefault(cut(reason, 200), []).append(f"{name} of {answer.run}")
    common = sorted(reasons.items(), key=lambda each: -len(each[1]))
    lines += [f"no value, {len(of):,} times, as {of[0]}: {why}" for why, of in common[:_REASONS]]
    if len(common) > _REASONS:
        lines.append(f"and {len(common) - _REASONS:,} more reasons; --json has them all")
    whys = {run.means[name].reason for run in scores.runs for name in measures} - {None}
    return [*lines, *(f"no interval: {why}" for why in sorted(map(str, whys)))]


def _relations(
    scores: "Scores", collection: Path, runs: Sequence[Path], measures: Sequence[str] | None
) -> "dict[str, list[FoundAndAgrees]]":
    """Compare each run's verdicts with the measures of its ranking, by the run's name."""
    from freshstack_dspy.collection.collection import Collection
    from freshstack_dspy.errors import CollectionError
    from freshstack_dspy.measures.answers import found_and_agrees, verdicts_of
    from freshstack_dspy.measures.evaluation import FRESHSTACK_MEASURES, evaluate
    from freshstack_dspy.measures.run import read_run

    qrels = Collection.load(collection).qrels()
    names = [run.run for run in scores.runs]
    relations = {}
    for path in runs:
        run = read_run(path)
        # One of each belong together, whatever their names.
        name = names[0] if len(names) == len(runs) == 1 else run.name
        if name not in names:
            raise CollectionError(
                f"{path}: run {run.name!r} has no verdicts; they are of {', '.join(names)}"
            )
        evaluation = evaluate(qrels, run, measures or FRESHSTACK_MEASURES)
        relations[name] = [
            found_and_agrees(
                evaluation.values(each, only_defined=True),
                verdicts_of(scores, name),
                measure=each,
            )
            for each in evaluation.measures
        ]
    return relations


def show_relations(relations: "Mapping[str, Sequence[FoundAndAgrees]]") -> None:
    """Print ranking measures next to whether the answers agree."""
    from freshstack_dspy.cli.printing import Table, counted, cut, say_wrapped, show

    rows: list[list[Cell]] = []
    for run, of_run in relations.items():
        for each in of_run:
            found = (each.found_agree, each.found_disagree)
            missed = (each.missed_agree, each.missed_disagree)
            estimates = (each.phi, each.point_biserial, each.tau_b, each.spearman)
            correlations = [estimate.value for estimate in estimates]
            rows.append([run, each.measure, each.queries, *found, *missed, *correlations])
    header = (
        *("run", "measure", "queries", "above,\nagrees", "above,\nnot", "below,\nagrees"),
        *("below,\nnot", "phi", "point\nbiserial", "tau b", "Spearman"),
    )
    title = "queries by the ranking measure and by whether the answer agrees"
    show(Table(header, rows, title, keys=2))
    say_wrapped("above: the measure's value is above 0; below: it is 0")
    say_wrapped("above, not: look for distracting chunks (case C of the paper), or model errors")
    say_wrapped("below, agrees: look for unjudged chunks (cases A, B), or what the model knows")
    for run, of_run in relations.items():
        for each in of_run:
            for ids, what in (
                (each.without_value, f"a value of {each.measure}"),
                (each.without_verdict, "a verdict"),
            ):
                if ids:
                    number = counted(len(ids), "query", "queries")
                    say_wrapped(f"{cut(run)}: {number} without {what}, left out, as {cut(ids[0])}")
            if each.phi.reason is not None:
                say_wrapped(f"{cut(run)}: no correlation for {each.measure}: {each.phi.reason}")
