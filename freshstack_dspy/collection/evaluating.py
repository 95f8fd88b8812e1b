"""`evaluate` and `compare` of the package's top level: they also take folders and retrievers.

The measures know nothing of collections, so the folder is loaded, and searched for, here.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

from freshstack_dspy.errors import CollectionError, SourceError, argument
from freshstack_dspy.formats.imported import read_description
from freshstack_dspy.measures import compare as comparing
from freshstack_dspy.measures import evaluation as evaluating
from freshstack_dspy.measures.compare import Comparison
from freshstack_dspy.measures.evaluation import (
    FRESHSTACK_MEASURES,
    Evaluation,
    Rules,
)
from freshstack_dspy.measures.measure import MeasureSource
from freshstack_dspy.measures.qrels import NuggetQrels, QrelsSource, read_qrels
from freshstack_dspy.measures.run import PassageRun, Run
from freshstack_dspy.records import MATTERS
from freshstack_dspy.stored.contents import NuggetsName, Slices
from freshstack_dspy.stored.folder import StoredCollection
from freshstack_dspy.stored.manifest import is_baseline


def runs_of(qrels: Any, runs: Any) -> Any:
    """Give a run, or several; retrievers are replaced by runs of what they find."""
    if isinstance(runs, Run | PassageRun | str | Path):
        return runs
    if isinstance(runs, Mapping):  # of runs, or of the scores of one
        return {
            name: run if isinstance(run, Mapping) else runs_of(qrels, run)
            for name, run in runs.items()
        }
    if isinstance(runs, list | tuple):
        return [run if isinstance(run, Mapping) else runs_of(qrels, run) for run in runs]
    if not isinstance(qrels, StoredCollection):
        raise CollectionError(
            f"{type(runs).__name__} is no run, and a retriever needs a collection to search for "
            "its queries: give the collection in place of its qrels"
        )
    from freshstack_dspy.collection.retrieve import retrieve

    return retrieve(qrels, runs)


def evaluate(
    qrels: QrelsSource,
    run: Any,
    measures: MeasureSource | Sequence[MeasureSource] = FRESHSTACK_MEASURES,
    *,
    slices: Slices = None,
    nuggets: NuggetsName = "supported",
    **rules: Unpack[Rules],
) -> Evaluation:
    """Evaluate a run on judgments.

    Every measure sees one order, score descending and then id ascending, every query of the
    judgments counts, and nothing is rounded.

    Args:
        qrels: A collection, its folder or its `qrels()`; a file of qrels; {query: {document:
            grade}}; or {query: {nugget: {document: label}}}.
        run: A run; a file in TREC's format or of passages; {query: {chunk: score}}; or, with a
            collection, a retriever, which searches it, as in `retrieve`.
        measures: Names of measures, such as `Coverage@20`, or one; objects of ir_measures; or functions
            of your own of (ranking, judgments of the query). Duplicates are measured once.
        slices: For a collection, which queries, as in `Collection.qrels`.
        nuggets: For a collection, which of their nuggets, as in `Collection.qrels`.
        **rules: See `Rules`.

    Raises:
        ConfigError: `covered` is not such a share; a measure or the conventions are unknown, or no
            measure is named.
        CollectionError: The judgments or the run cannot be read; no query has judgments, or none
            of those of the run; chunk ids are not in the corpus; or passages, or measures in bytes
            or tokens, come without a collection.
    """
    source = _source(qrels)
    run = runs_of(source, run)
    return evaluating.evaluate(_chosen(source, slices, nuggets), run, measures, **rules)


def compare(
    qrels: QrelsSource,
    runs: Any,
    measures: MeasureSource | Sequence[MeasureSource] = FRESHSTACK_MEASURES,
    *,
    baseline: str | None = None,
    matters: float = MATTERS,
    slices: Slices = None,
    nuggets: NuggetsName = "supported",
    **rules: Unpack[Rules],
) -> Comparison:
    """Evaluate runs and compare them, every pair or each with a baseline.

    Args:
        qrels: As for `evaluate`, like all that is not said here.
        runs: Two or more, as a list or by name.
        measures: By name.
        baseline: The name of a run.
        matters: The smallest difference of means that matters to the decisions, above 0.
        slices: For a collection.
        nuggets: For a collection.
        **rules: See `Rules`.

    Raises:
        FreshstackError: As `evaluate`; also where there are fewer than two runs, or none has the
            baseline's name.
    """
    source = _source(qrels)
    runs = runs_of(source, runs)
    chosen = _chosen(source, slices, nuggets)
    return comparing.compare(chosen, runs, measures, baseline=baseline, matters=matters, **rules)


def qrels_of_file(path: Path) -> NuggetQrels:
    """Read a file of qrels; in our exports, they are a dry run if no model made the labels.

    Raises:
        CollectionError: It cannot be read, or holds none.
    """
    qrels = read_qrels(path)
    for folder in path.absolute().parents[:2]:  # BEIR has it in a folder of the export
        with suppress(SourceError):  # of another program
            if export := read_description(folder):
                return replace(qrels, dry_run=is_baseline(export.origin().get("model", "")))
    return qrels


def _source(qrels: QrelsSource) -> QrelsSource:
    if not isinstance(qrels, str | Path):
        return qrels
    path = Path(qrels)
    return StoredCollection.load(path) if path.is_dir() else qrels_of_file(path)


def _chosen(qrels: QrelsSource, slices: Slices, nuggets: NuggetsName) -> QrelsSource:
    if isinstance(qrels, StoredCollection):
        return qrels.qrels(slices, nuggets)
    if slices is not None or nuggets != "supported":
        raise CollectionError("slices and nuggets are chosen of a collection; these are qrels")
    return qrels


def without_contaminated(
    collection: StoredCollection, qrels: NuggetQrels, share: float
) -> tuple[NuggetQrels, tuple[str, ...]]:
    """Leave out queries if a model knows this share of their nuggets by itself; give their ids.

    Raises:
        CollectionError: The collection does not say what a model knows, or no query is left.
    """
    contaminated = set(collection.contaminated(share))
    excluded = tuple(query for query in qrels.nuggets if query in contaminated)
    qrels = qrels.without(excluded)
    if not qrels.nuggets:
        raise CollectionError(
            f"all {len(excluded)} queries are contaminated; raise {argument('exclude_contaminated', share)}"
        )
    without = f", without {len(excluded)} contaminated" if excluded else ""
    about = qrels.about.model_copy(update={"choice": qrels.about.choice + without})
    return replace(qrels, about=about), excluded
