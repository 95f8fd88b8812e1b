"""`freshstack score`: answers, their citations and nuggets, from the labels of judges or people."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from freshstack_dspy.cli.command import command
from freshstack_dspy.cli.options import check_out
from freshstack_dspy.pages.page import Page

Kind = Literal["assignments", "citations", "agreement", "nuggets", "leaderboard"]
By = Literal["run", "answer"]
_COUNTED = {
    "assignments": ("nuggets", "failed", "missing"),
    "citations": ("uncited", "unlabelled", "outside"),
    "agreement": ("agree", "disagree", "undecided"),
    "nuggets": ("nuggets", "hallucinated", "redundant", "additional", "unanswered"),
    "leaderboard": (),
}


@command
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
    compare: Annotated[
        bool, typer.Option("--compare", help="Compare every two runs instead, with tests.")
    ] = False,
) -> Page:
    """Score answers, citations and nuggets, from the labels of judges or people."""
    from freshstack_dspy.answering import reading
    from freshstack_dspy.answering import scores as scoring
    from freshstack_dspy.answering.scores_page import scores_page
    from freshstack_dspy.files import write_file

    check_out(leaderboard)
    pooled = {}
    shown: Sequence[str] = ()
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
    if compare:
        return scores.compare().page()
    run = "annotator" if kind == "nuggets" else "run"
    return scores_page(scores, shown, _COUNTED[kind], by=by, run=run, pooled=pooled)
