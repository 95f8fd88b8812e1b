"""`evaluate` and `compare` of the package's top level: they also take folders and retrievers.

The measures know nothing of collections, so the folder is loaded, and searched for, here.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack

import freshstack_dspy.measures as measures_
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.measures.compare import Comparison
from freshstack_dspy.measures.conventions import Conventions
from freshstack_dspy.measures.evaluation import FRESHSTACK_MEASURES, Evaluation, UnknownIds
from freshstack_dspy.measures.measure import MeasureSource
from freshstack_dspy.measures.qrels import QrelsSource
from freshstack_dspy.measures.run import PassageRun, Run
from freshstack_dspy.stored.contents import NuggetsName
from freshstack_dspy.stored.folder import StoredCollection
from freshstack_dspy.stored.slices import Slices


def runs_of(qrels: Any, given: Any) -> Any:
    """Give a run, or several, with what retrievers find in place of these."""
    if isinstance(given, Run | PassageRun | str | Path):
        return given
    if isinstance(given, Mapping):  # of runs, or of the scores of one
        return {
            name: of if isinstance(of, Mapping) else runs_of(qrels, of)
            for name, of in given.items()
        }
    if isinstance(given, list | tuple):
        return [of if isinstance(of, Mapping) else runs_of(qrels, of) for of in given]
    if not isinstance(qrels, StoredCollection):
        raise CollectionError(
            f"{type(given).__name__} is no run, and a retriever needs a collection to search for "
            "its queries: give the collection in place of its qrels"
        )
    from freshstack_dspy.collection.retrieve import retrieve

    return retrieve(qrels, given)


class Rules(TypedDict, total=False):
    """Further arguments of both, as those of `freshstack_dspy.measures` say."""

    conventions: str | Conventions
    unknown_ids: UnknownIds
    covered: float


def evaluate(
    qrels: QrelsSource,
    run: Any,
    measures: MeasureSource | Sequence[MeasureSource] = FRESHSTACK_MEASURES,
    *,
    slices: Slices = None,
    nuggets: NuggetsName = "supported",
    **rules: Unpack[Rules],
) -> Evaluation:
    """Evaluate a run on judgments, as `freshstack_dspy.measures.evaluate` does.

    Args:
        qrels: As there; or the folder of a collection.
        run: As there; or a retriever, which searches the collection.
        measures: As there.
        slices: Of a collection, which queries, as in `Collection.qrels`.
        nuggets: Of a collection, which nuggets of these, as there.
        **rules: As there.
    """
    source = _source(qrels)
    run = runs_of(source, run)
    return measures_.evaluate(_chosen(source, slices, nuggets), run, measures, **rules)


def compare(
    qrels: QrelsSource,
    runs: Any,
    measures: MeasureSource | Sequence[MeasureSource] = FRESHSTACK_MEASURES,
    *,
    baseline: str | None = None,
    slices: Slices = None,
    nuggets: NuggetsName = "supported",
    **rules: Unpack[Rules],
) -> Comparison:
    """Compare runs, as `freshstack_dspy.measures.compare` does; what is given is as in `evaluate`."""
    source = _source(qrels)
    runs = runs_of(source, runs)
    chosen = _chosen(source, slices, nuggets)
    return measures_.compare(chosen, runs, measures, baseline=baseline, **rules)


def _source(qrels: QrelsSource) -> QrelsSource:
    if isinstance(qrels, str | Path) and Path(qrels).is_dir():
        return StoredCollection.load(Path(qrels))
    return qrels


def _chosen(qrels: QrelsSource, slices: Slices, nuggets: NuggetsName) -> QrelsSource:
    if isinstance(qrels, StoredCollection):
        return qrels.qrels(slices, nuggets)
    if slices is not None or nuggets != "supported":
        raise CollectionError("slices and nuggets are chosen of a collection; these are qrels")
    return qrels
