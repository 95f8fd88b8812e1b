"""`freshstack score`: answers, their citations and nuggets, from the labels of judges or people."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from freshstack_dspy.cli.options import FormatOption, JsonOption, check_out
from freshstack_dspy.cli.printing import Table, counted, cut, say_wrapped, show, show_json

if TYPE_CHECKING:
    from freshstack_dspy.answering.scores import Scores
    from freshstack_dspy.cli.printing import Cell, PageFormat

Kind = Literal["assignments", "citations", "agreement", "nuggets", "leaderboard"]
By = Literal["run", "answer"]
_REASONS = 5
"""How many reasons for missing values are listed."""
_COUNTED = {
    "assignments": ("nuggets", "failed", "missing"),
    "citations": ("uncited", "unlabelled", "outside"),
    "agreement": ("agree", "disagree", "undecided"),
    "nuggets": ("nuggets", "hallucinated", "redundant", "additional", "unanswered"),
    "leaderboard": (),
}


def score(
    kind: Annotated[
        Kind,
        typer.Argument(
            help="assignments: nugget recall, from assignments as nuggetizer writes them. "
            "citations: citation support, from labels as the TREC RAG track has them. agreement: "
            "agreement with answers from gold chunks (LLM-retEval), from run_id, query_id, agrees, "
            "reason. nuggets: quality of nuggets (FreshStack), from annotator, query_id, nuggets, "
            "additional. leaderboard: the values of TREC Auto-Judge, as lines `run topic measure value`."
        ),
    ],
    files: Annotated[
        list[Path], typer.Argument(help="JSON Lines, JSON or Parquet; leaderboards are text.")
    ],
    by: Annotated[By, typer.Option(help="A row for each run, or each answer.")] = "run",
    leaderboard: Annotated[
        Path | None, typer.Option(help="Also write the values as TREC Auto-Judge has them.")
    ] = None,
    form: FormatOption = None,
    as_json: JsonOption = False,
) -> None:
    """Score answers, citations and nuggets, from the labels of judges or people."""
    from freshstack_dspy.answering import reading
    from freshstack_dspy.answering import scores as scoring
    from freshstack_dspy.files import write_file

    check_out(leaderboard)
    pooled = {}
    shown: Sequence[str] | None = None
    if kind == "assignments":
        scores = scoring.score_assignments(reading.read_assignments(files))
    elif kind == "citations":
        scores = scoring.score_citations(reading.read_citations(files))
        shown = [name for name in scores.measures if name.endswith("_first")]
    elif kind == "agreement":
        scores = scoring.score_agreement(reading.read_agreement(files))
    elif kind == "leaderboard":
        scores = scoring.score_values(reading.read_leaderboard(files))
    else:
        read = reading.read_nugget_verdicts(files)
        scores = scoring.score_nuggets(read)
        pooled = {
            one.run: scoring.nugget_quality([of for of in read if of.annotator == one.run])
            for one in scores.runs
        }
    if leaderboard is not None:
        rows = scoring.leaderboard_rows(scores)
        lines = (f"{one}\t{of}\t{name}\t{n}\n" for one, of, own in rows for name, n in own.items())
        write_file(leaderboard, "".join(lines))
    if as_json:
        show_json({**dict(scores), "pooled": pooled})
        return
    run = "annotator" if kind == "nuggets" else "run"
    show_scores(scores, shown or scores.measures, _COUNTED[kind], by=by, form=form, run=run)
    for annotator, found in pooled.items() if form is None else ():
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
    form: "PageFormat | None" = None,
    run: str = "run",
    last: str | None = None,
) -> None:
    """Print scores and what was missing in them; `run` says what a run is, `last` is below all."""
    if by == "answer":
        header = [run, "query_id", *measures, *counts]
        rows: list[list[Cell]] = [
            [
                *(answer.run, answer.query_id),
                *map(answer.values.get, measures),
                *(answer.counts.get(name, 0) for name in counts),
            ]
            for answer in scores.answers
        ]
    else:
        header, rows = _run_rows(scores, measures, counts, last, spread=form == "csv")
        header.insert(0, run)
    queries = {one.query_id for one in scores.answers}.union(*(one.absent for one in scores.runs))
    number = counted(len(queries), "query", "queries")
    title = f"{counted(len(scores.runs), run)}, {number}; each query the same weight"
    if by == "run":
        title += "; with 95% bootstrap intervals"
    show(Table(header, rows, title, keys=2 if by == "answer" else 1), form)
    if form is None:
        for line in _missing(scores, measures, annotators=run == "annotator"):
            say_wrapped(line)


def _run_rows(
    scores: "Scores",
    measures: Sequence[str],
    counts: Sequence[str],
    last: str | None,
    *,
    spread: bool,
) -> "tuple[list[str], list[list[Cell]]]":
    """Give header and rows; `spread` puts the ends of intervals into columns of their own."""
    ends = ("", "_low", "_high") if spread else ("",)
    header = ["answers", *(f"{name}{end}" for name in measures for end in ends)]
    rows = []
    for one in sorted(scores.runs, key=lambda each: (each.run == last, by_depth(each.run))):
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
    return [*header, *counts, "absent"], rows


def by_depth(run: str) -> tuple[str, int]:
    """Order NAME@5 before NAME@10."""
    name, _, depth = run.rpartition("@")
    return (name, int(depth)) if depth.isdecimal() else (run, 0)


def _missing(scores: "Scores", measures: Sequence[str], *, annotators: bool) -> list[str]:
    """Say what was missing, how it counts, and why there is no value."""
    total: Counter[str] = Counter()
    for run in scores.runs:
        total.update(run.counts)
    lines = []
    for number, what in (
        (total["failed"] + total["missing"], "nuggets without an assignment: they do not count"),
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
