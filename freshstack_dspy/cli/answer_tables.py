"""What `freshstack answer` prints."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from freshstack_dspy.cli.lines import counted, say
from freshstack_dspy.cli.score_relations import compare_rankings, relation_table
from freshstack_dspy.cli.score_tables import View, cell, print_scores
from freshstack_dspy.cli.tables import show

if TYPE_CHECKING:
    from freshstack_dspy.measures import NuggetQrels
    from freshstack_dspy.recipes.answering.answering import Answering
    from freshstack_dspy.recipes.answering.writing import AnsweringAccount
    from freshstack_dspy.recipes.growing.run_holes import Look

_LISTED = 10
_FAMILIES = ("alpha_nDCG", "Coverage", "Recall")
"""The ranking measures beside the answers, cut off where the contexts are."""


def say_looked_at(looked: "Look") -> None:
    """Say what of the runs could not be taken in."""
    for run in looked.runs:
        if run.foreign:
            say(
                f"{run.name}: {counted(len(run.foreign), 'query', 'queries')} not in the "
                f"collection or without nuggets: {_listed(run.foreign)}"
            )
        if run.unknown:
            ids = [f"{one.chunk_id} for {one.query_id}" for one in run.unknown]
            say(f"{run.name}: {len(ids)} chunks passed over, not in the corpus: {_listed(ids)}")


def say_answers(
    out: Path,
    found: "Answering",
    told: "AnsweringAccount",
    looked: "Look",
    runs: Sequence[Path],
) -> None:
    """Print how far the answers agree, what they hold, and what rankings say beside."""
    from freshstack_dspy.collection.answers import read_agreement, read_assignments
    from freshstack_dspy.measures.answers import AGREEMENT, score_agreement, score_assignments
    from freshstack_dspy.recipes.answering import writing

    agreed = score_agreement(read_agreement([out / writing.AGREEMENT]))
    say(
        f"agreement with the answers from the gold chunks, top {told.depth}, by {told.model} "
        "(LLM-retEval)"
    )
    print_scores(agreed, View([AGREEMENT], ("agree", "disagree", "undecided")))
    if told.without_gold:
        say(
            f"{counted(len(told.without_gold), 'query', 'queries')} without gold chunks, in no "
            f"figure of agreement: {_listed(told.without_gold)}"
        )
    say("")
    say("nuggets that the answers hold; gold: the answers from the gold chunks")
    files = [out / writing.ASSIGNMENTS, out / writing.GOLD_ASSIGNMENTS]
    held = score_assignments(read_assignments(files))
    shown = [
        name for name in _shown(told) if any(run.means[name].value is not None for run in held.runs)
    ]
    print_scores(held, View(shown, ("nuggets", "failed")))
    say("")
    qrels = looked.collection.qrels(told.slices)
    _beside(found, told, qrels, runs)
    say("")
    if told.slices == looked.collection.manifest.evaluated_slices:
        recall = [f"Recall@{told.depth}"]
        relation_table(compare_rankings(agreed, looked.path, list(runs), recall, None))
    _say_failed(out, found)


def _shown(told: "AnsweringAccount") -> list[str]:
    """Strict measures, and lenient ones where a judge can say `partial_support`."""
    names = ["A_strict", "V_strict"]
    return [*names, "A"] if told.scale.name != "binary" else names


def _beside(
    found: "Answering", told: "AnsweringAccount", qrels: "NuggetQrels", runs: Sequence[Path]
) -> None:
    """Print Cov(y) of the answers beside the measures of the rankings."""
    from freshstack_dspy.measures import evaluate, read_run
    from freshstack_dspy.measures.statistics import mean_interval
    from freshstack_dspy.recipes.answering.coverage import answer_coverages

    measures = [f"{name}@{told.depth}" for name in _FAMILIES]
    told_of = answer_coverages((*found.assignments, *found.gold_assignments), qrels, told.scale)
    table = Table()
    table.add_column("run")
    for name in ("Cov(y)", "95 % interval", "answers", *measures):
        table.add_column(name, justify="right")
    means = {run.name: evaluate(qrels, run, measures).means for run in map(read_run, sorted(runs))}
    for run_id, values in told_of.items():
        interval = mean_interval(values)
        ends = "–" if interval.low is None else f"{interval.low:.3f} – {interval.high:.3f}"
        rank = means.get(run_id, {})
        table.add_row(
            run_id,
            cell(interval.value),
            ends,
            f"{len(values):,}",
            *(cell(rank.get(name)) for name in measures),
        )
    show("answerable nuggets that the answers hold, beside the rankings", table)


def _say_failed(out: Path, found: "Answering") -> None:
    omitted = [one for one in found.answers if one.omitted]
    if omitted:
        chunks = sum(len(one.omitted) for one in omitted)
        say(
            f"{counted(chunks, 'chunk')} not shown to the generator, of "
            f"{counted(len(omitted), 'answer')}: no room in the model's window, or no text; see "
            f"omitted in {out / 'answers.jsonl'}"
        )
    silent = sum(one.status == "ok" and not one.is_answered for one in found.answers)
    if silent:
        say(f"{counted(silent, 'context')} in which the generator found no answer")
    if found.failures:
        say(
            f"{counted(len(found.failures), 'failure')}; see {out / 'failures.jsonl'}, and answer "
            "again to retry"
        )
    say(f"{out}: {counted(len(found.answers), 'answer')} from {counted(_runs(found), 'run')}")


def _runs(found: "Answering") -> int:
    return len({one.run_id for one in found.answers})


def _listed(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - _LISTED} more" if len(ids) > _LISTED else ""
    return ", ".join(ids[:_LISTED]) + more
