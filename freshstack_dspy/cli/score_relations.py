"""What a ranking measure says of a run, beside what its answers say."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from freshstack_dspy.cli.fitted_tables import Column, show_fitted
from freshstack_dspy.cli.lines import counted, say
from freshstack_dspy.cli.score_tables import cell

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
    from freshstack_dspy.collection.collection import Collection
    from freshstack_dspy.errors import CollectionError
    from freshstack_dspy.measures.answers import found_and_agrees, verdicts_of
    from freshstack_dspy.measures.evaluation import FRESHSTACK_MEASURES, evaluate
    from freshstack_dspy.measures.run import read_run

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
        verdicts = verdicts_of(scores, name)
        relations[name] = [
            found_and_agrees(evaluation.values(each), verdicts, measure=each, found_from=found_from)
            for each in evaluation.measures
        ]
    return relations


def relation_table(relations: "Mapping[str, Sequence[FoundAndAgrees]]") -> None:
    """Print what a ranking measure says beside what the answers say."""
    rows = [(run, each) for run, of_run in relations.items() for each in of_run]
    cells = {
        "queries": [each.queries for _, each in rows],
        "above, agrees": [each.found_agree for _, each in rows],
        "above, not": [each.found_disagree for _, each in rows],
        "below, agrees": [each.missed_agree for _, each in rows],
        "below, not": [each.missed_disagree for _, each in rows],
    }
    figures = {
        "phi": [each.phi for _, each in rows],
        "point biserial": [each.point_biserial for _, each in rows],
        "tau b": [each.tau_b for _, each in rows],
        "Spearman": [each.spearman for _, each in rows],
    }
    show_fitted(
        "queries by the ranking measure and by whether the answer agrees",
        [
            Column("run", [run for run, _ in rows], is_text=True),
            Column("measure", [each.measure for _, each in rows], is_text=True),
        ],
        [Column(name, [f"{one:,}" for one in numbers]) for name, numbers in cells.items()],
        [Column(name, [cell(one.value) for one in found]) for name, found in figures.items()],
    )
    least = rows[0][1].found_from if rows else 0
    say(f"above: the measure's value is {f'{least:g} or more' if least else 'above 0'}; below: not")
    say("above, not: look for distracting chunks (case C of the paper), or errors of the models")
    say("below, agrees: look for chunks that nobody judged (cases A, B), or what the model knows")
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
