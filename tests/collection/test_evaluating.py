"""`evaluate` and `compare` with the folder of a collection."""

from pathlib import Path
from typing import Any, cast

from freshstack_dspy.collection import evaluating
from freshstack_dspy.measures.compare import compare
from freshstack_dspy.measures.evaluation import evaluate
from tests.collection.small import write_small


def test_the_judgments_may_be_the_folder_of_a_collection(tmp_path: Path) -> None:
    """It raised a CollectionError that asked for `Collection.load`."""
    collection = write_small(tmp_path / "small")
    qrels = collection.qrels()
    run = {query: {min(qrels.judged(query).chunks): 1.0} for query in qrels.nuggets}

    for folder in (tmp_path / "small", str(tmp_path / "small")):
        assert evaluating.evaluate(folder, run) == evaluate(collection, run)
    assert cast("Any", evaluating.evaluate)(qrels=collection, run=run) == evaluate(collection, run)
    assert evaluating.compare(tmp_path / "small", [run, run]) == compare(collection, [run, run])
