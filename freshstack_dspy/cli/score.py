"""`freshstack score`: answers and their citations, from the labels of judges or people."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from freshstack_dspy.cli.command import command
from freshstack_dspy.cli.options import check_out
from freshstack_dspy.pages.page import Page

Kind = Literal["assignments", "citations", "agreement", "leaderboard"]
By = Literal["run", "answer"]
_COUNTED = {
    "assignments": ("nuggets", "failed", "missing"),
    "citations": ("uncited", "unlabelled", "outside"),
    "agreement": ("agree", "disagree", "undecided"),
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
            "reason. leaderboard: the values of TREC Auto-Judge, as lines `run topic measure value`."
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
    """Score answers and citations, from the labels of judges or people."""
    from freshstack_dspy.answering import reading
    from freshstack_dspy.answering import scores as scoring
    from freshstack_dspy.files import write_file
    from freshstack_dspy.views.scores import scores_page

    check_out(leaderboard)
    shown: Sequence[str] = ()
    if kind == "assignments":
        scores = scoring.score_assignments(reading.read_assignments(files))
    elif kind == "citations":
        scores = scoring.score_citations(reading.read_citations(files))
        shown = [name for name in scores.measures if name.endswith("_first")]
    elif kind == "agreement":
        scores = scoring.score_agreement(reading.read_agreement(files))
    else:
        scores = scoring.score_values(reading.read_leaderboard(files))
    if leaderboard is not None:
        rows = scoring.leaderboard_rows(scores)
        lines = (f"{one}\t{of}\t{name}\t{n}\n" for one, of, own in rows for name, n in own.items())
        write_file(leaderboard, "".join(lines))
    if compare:
        return scores.compare().page()
    return scores_page(scores, shown, _COUNTED[kind], by=by)
