"""What a ranking measure says of a run, beside what its answers say."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from freshstack_dspy.cli.lines import counted, say
from freshstack_dspy.cli.score_tables import cell
from freshstack_dspy.cli.tables import show

if TYPE_CHECKING:
    from freshstack_dspy.measures.answers import FoundAndAgrees, Scores


def compare_rankings(
    scores: "Scores",
    collection: Path,
    rankings: list[Path],
    measures: list[str],
    found_from: float | None,
) -> "dict[str, list[FoundAndAgrees]]":
    """Compare each run's verdicts with the measures of its ranking, by the run's name.

    Args:
        scores: Of the agreement.
        collection: The folder of the collection.
        rankings: Run files. Where there is one, and verdicts of one run, they belong together.
        measures: Names of measures; those of FreshStack where there are none.
        found_from: The value from which on a measure says found; None: above 0.

    Raises:
        CollectionError: A ranking is of no run that has verdicts, or two are of one.
    """
    from freshstack_dspy.collection import Collection
    from freshstack_dspy.errors import CollectionError
    from freshstack_dspy.measures import FRESHSTACK_MEASURES, evaluate, read_run
    from freshstack_dspy.measures.answers import found_and_agrees

    qrels = Collection.load(collection).qrels()
    names = [run.run for run in scores.runs]
    relations: dict[str, list[FoundAndAgrees]] = {}
    for path in rankings:
        run = read_run(path)
        # One of each belong together, whatever they are called.
        name = names[0] if len(names) == len(rankings) == 1 else run.name
        if name not in names or name in relations:
            raise CollectionError(
                f"{path}: run {run.name!r} "
                + ("was given already" if name in relations else "has no verdicts")
                + f"; the verdicts are of {', '.join(map(repr, names))}"
            )
        evaluation = evaluate(qrels, run, measures or FRESHSTACK_MEASURES, undefined="skip")
        verdicts = {
            answer.query_id: _verdict(answer.counts)
            for answer in scores.answers
            if answer.run == name
        }
        relations[name] = [
            found_and_agrees(evaluation.values(each), verdicts, measure=each, found_from=found_from)
            for each in evaluation.measures
        ]
    return relations


def _verdict(counts: dict[str, int]) -> bool | None:
    return None if counts["undecided"] else bool(counts["agree"])


def relation_table(relations: "Mapping[str, Sequence[FoundAndAgrees]]") -> None:
    """Print what a ranking measure says beside what the answers say."""
    table = Table()
    for name in ("run", "measure"):
        table.add_column(name)
    for name in (
        "queries",
        "found, agrees",
        "found, not",
        "missed, agrees",
        "missed, not",
        "phi",
        "point-biserial",
        "tau b",
        "Spearman",
    ):
        table.add_column(name, justify="right")
    for run, each in ((run, each) for run, of_run in relations.items() for each in of_run):
        cells = (each.found_agree, each.found_disagree, each.missed_agree, each.missed_disagree)
        figures = (each.phi, each.point_biserial, each.tau_b, each.spearman)
        table.add_row(
            run,
            each.measure,
            f"{each.queries:,}",
            *(f"{number:,}" for number in cells),
            *(cell(figure.value) for figure in figures),
        )
    show("what the measure finds, and whether the answer agrees", table)
    say("found, not: look for distracting chunks (case C of the paper), or errors of the models")
    say("missed, agrees: look for chunks that nobody judged (cases A, B), or what the model knows")
    for run, of_run in relations.items():
        for each in of_run:
            for ids, what in (
                (each.without_value, f"no {each.measure}"),
                (each.without_verdict, "no verdict"),
            ):
                if ids:
                    number = counted(len(ids), "query", "queries")
                    say(f"{run}: {number} with {what}, left out, as {ids[0]!r}")
            for name, figure in (("phi", each.phi), ("other correlation", each.tau_b)):
                if figure.reason is not None:
                    say(f"{run}: no {name} for {each.measure}: {figure.reason}")
