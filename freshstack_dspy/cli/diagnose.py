"""`freshstack diagnose`: what found what, and what the pool of a collection has missed."""

from pathlib import Path
from typing import Annotated

import typer

from freshstack_dspy.cli.slices import SlicesOption, slices_of


def diagnose(
    collection: Annotated[Path, typer.Argument(help="Folder of a collection.")],
    runs: Annotated[
        list[Path] | None, typer.Argument(metavar="[RUN]...", help="TREC run files.")
    ] = None,
    k: Annotated[int, typer.Option("--k", min=1, help="Of unjudged@k of the runs.")] = 10,
    slices: SlicesOption = "supported",
    as_json: Annotated[bool, typer.Option("--json", help="Everything as JSON.")] = False,
) -> None:
    """Say what each technique and retriever gave to the pool, and what it may lack.

    It reads the collection alone: no index, no model.
    """
    from freshstack_dspy.cli.diagnosis_tables import diagnosis_json, diagnosis_tables
    from freshstack_dspy.cli.printing import complain
    from freshstack_dspy.collection.collection import Collection
    from freshstack_dspy.collection.diagnose import diagnose as diagnose_pool
    from freshstack_dspy.collection.slices import left_out
    from freshstack_dspy.measures.evaluation import find_unjudged
    from freshstack_dspy.measures.run import read_run

    loaded = Collection.load(collection)
    chosen = slices_of(slices, loaded)
    diagnosis = diagnose_pool(loaded, chosen)
    qrels = loaded.qrels(chosen)
    if line := left_out(loaded, chosen):
        complain(f"diagnosed: {line}")
    unjudged = [(path.name, find_unjudged(qrels, read_run(path), k)) for path in runs or ()]
    (diagnosis_json if as_json else diagnosis_tables)(loaded, diagnosis, unjudged)
