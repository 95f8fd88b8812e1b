"""What `freshstack answer` prints."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from freshstack_dspy.cli.fitted_tables import Column, show_fitted
from freshstack_dspy.cli.lines import counted, say
from freshstack_dspy.cli.score_relations import relation_table
from freshstack_dspy.cli.score_tables import View, cell, ends, print_scores

if TYPE_CHECKING:
    from freshstack_dspy.recipes.answering.answering import Answering
    from freshstack_dspy.recipes.answering.figures import Figures
    from freshstack_dspy.recipes.answering.writing import AnsweringAccount
    from freshstack_dspy.recipes.growing.run_holes import Look

_LISTED = 10
_GOLD = "gold"


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
    out: Path, found: "Answering", told: "AnsweringAccount", figures: "Figures"
) -> None:
    """Print how far the answers agree, what they hold, and what rankings say beside."""
    from freshstack_dspy.lm.request import BASELINE
    from freshstack_dspy.measures.answers import AGREEMENT

    say(f"agreement with the answers from the gold chunks, top {told.depth} (LLM-retEval)")
    say(f"by {told.model}")
    if told.model == BASELINE:
        say(f"a dry run: {BASELINE} picks sentences and compares words, and judges nothing")
    shown = ("agree", "disagree", "undecided")
    print_scores(figures.agreement, View([AGREEMENT], shown, counts_are_all=True))
    if told.without_gold:
        say(
            f"{counted(len(told.without_gold), 'query', 'queries')} without gold chunks, in no "
            f"figure of agreement: {_listed(told.without_gold)}"
        )
    say("")
    say("nuggets that the answers hold; gold: the answers from the gold chunks")
    held = figures.held
    measured = {name for answer in held.answers for name in answer.values}
    measures = [name for name in _shown(told) if name in measured]
    print_scores(held, View(measures or ["A_strict"], ("nuggets", "failed"), last=_GOLD))
    say("")
    _beside(figures)
    say("")
    relation_table(figures.relations)
    say_failed(out, found)


def _shown(told: "AnsweringAccount") -> list[str]:
    """Strict measures, and lenient ones where a judge can say `partial_support`."""
    names = ["A_strict", "V_strict"]
    return [*names, "A"] if told.scale.name != "binary" else names


def _beside(figures: "Figures") -> None:
    """Print Cov(y) of the answers beside the measures of the rankings."""
    rows = sorted(figures.coverage.items(), key=lambda each: (each[0] == _GOLD, each[0]))
    measures = next(iter(figures.rankings.values())).measures
    means = {run: evaluation.means for run, evaluation in figures.rankings.items()}
    show_fitted(
        "answerable nuggets that the answers hold, beside the rankings",
        [Column("run", [run for run, _ in rows], is_text=True)],
        [
            Column("Cov(y)", [cell(each.mean.value) for _, each in rows]),
            Column("95 % interval", [ends(each.mean) for _, each in rows]),
            Column("answers", [f"{each.answers:,}" for _, each in rows]),
        ],
        [
            Column(name.replace("_", " "), [cell(means.get(run, {}).get(name)) for run, _ in rows])
            for name in measures
        ],
    )


def say_failed(out: Path, found: "Answering") -> None:
    """Say what was not shown, not answered, or failed."""
    omitted = [one for one in (*found.answers, *found.gold_answers) if one.omitted]
    if omitted:
        chunks = sum(len(one.omitted) for one in omitted)
        gold = sum(one.run_id == _GOLD for one in omitted)
        say(
            f"{counted(chunks, 'chunk')} not shown to the generator, of "
            f"{counted(len(omitted), 'answer')} ({gold:,} of them gold): no room in the model's "
            f"window, or no text; see omitted in {out / 'answers.jsonl'} and gold_answers.jsonl"
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
