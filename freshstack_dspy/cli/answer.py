"""`freshstack answer`: the retriever through the answer (LLM-retEval)."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from freshstack_dspy.cli.asking import CacheOption, LogOption, ModeOption, RequestsOption, judging
from freshstack_dspy.cli.slices import SlicesOption, slices_of


def answer(
    collection: Annotated[Path, typer.Argument(help="Folder of a collection.")],
    runs: Annotated[list[Path], typer.Argument(help="TREC run files over its queries.")],
    config: Annotated[
        Path,
        typer.Option(
            help="TOML file; its [model] answers and compares, and its [judge], [budget] and "
            "[cache] are used."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder of the answers, and what was said of them.")],
    depth: Annotated[
        int, typer.Option(min=1, help="Chunks that an answer is written from, at most.")
    ] = 10,
    gold_answers: Annotated[
        int,
        typer.Option(
            min=1,
            max=15,
            help="Answers from the gold chunks, of which one has to agree; several are drawn at "
            "temperature 0.5.",
        ),
    ] = 1,
    slices: SlicesOption = "evaluated",
    absent: Annotated[
        Literal["skip", "zero"],
        typer.Option(
            help="What a query counts for which a run holds nothing of the corpus. skip: it is "
            "left out, and counted. zero: no agreement, and no nugget. What is written is the same."
        ),
    ] = "skip",
    unknown: Annotated[
        Literal["refuse", "skip"],
        typer.Option(help="What becomes of chunks that the corpus lacks."),
    ] = "refuse",
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace the answers of other inputs in --out.")
    ] = False,
    mode: ModeOption = "live",
    requests: RequestsOption = None,
    cache: CacheOption = None,
    log: LogOption = None,
) -> None:
    """Answer from each run's top and from the gold chunks; say how often both agree."""
    from freshstack_dspy.cli.answer_tables import say_answers, say_looked_at
    from freshstack_dspy.cli.outputs import check_around, check_collection, check_inputs
    from freshstack_dspy.config import load_judging, with_bundles
    from freshstack_dspy.recipes.growing.run_holes import look

    settings = with_bundles(load_judging(config), cache or ())
    read = (config, *runs, *settings.cache.bundles, settings.cache.path)
    for output in (out, requests, log):
        check_inputs(output, *read)
        check_collection(output, collection)
    check_around(out, collection, requests, log, *read)
    looked = look(collection, runs, depth=depth, unknown=unknown)
    chosen = slices_of(slices, looked.collection)
    say_looked_at(looked)
    with judging(settings, config, mode, requests, log) as asking:
        from freshstack_dspy.recipes.answering.answering import answer_from_runs
        from freshstack_dspy.recipes.answering.figures import figures
        from freshstack_dspy.recipes.answering.writing import (
            account,
            answering_inputs,
            check_standing,
            write_answering,
        )

        inputs = answering_inputs(
            looked, asking.config, slices=chosen, gold_answers=gold_answers, unknown=unknown
        )
        check_standing(out, inputs, replace=replace)
        found = answer_from_runs(looked, asking, slices=chosen, gold_answers=gold_answers)
        told = account(inputs, looked, asking, found)
    figures_ = figures(found, looked, slices=chosen, scale=told.scale, absent=absent)
    write_answering(out, found, told, replace=replace)
    say_answers(out, found, told, figures_)
