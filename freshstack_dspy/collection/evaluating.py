"""`evaluate` and `compare` of the package's top level: they also take folders and retrievers.

The measures know nothing of collections, so the folder is loaded, and searched for, here.
"""

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.measures import compare as compare_runs
from freshstack_dspy.measures import evaluate as evaluate_run
from freshstack_dspy.measures.run import PassageRun, Run

P = ParamSpec("P")
T = TypeVar("T")


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
    if not isinstance(qrels, Collection):
        raise CollectionError(
            f"{type(given).__name__} is no run, and a retriever needs a collection to search for "
            "its queries: give the collection in place of its qrels"
        )
    return qrels.retrieve(given)


def _of_collections(
    function: Callable[Concatenate[Any, Any, P], T],
) -> Callable[Concatenate[Any, Any, P], T]:
    """Load the first argument where it is the folder of a collection; search with retrievers."""

    @wraps(function)
    def of_collections(qrels: Any, *args: Any, **options: Any) -> T:
        if isinstance(qrels, str | Path) and Path(qrels).is_dir():
            qrels = Collection.load(Path(qrels))
        given = signature(function).bind(qrels, *args, **options)
        _, runs = list(given.arguments)[:2]
        given.arguments[runs] = runs_of(qrels, given.arguments[runs])
        return function(*given.args, **given.kwargs)

    return cast("Callable[Concatenate[Any, Any, P], T]", of_collections)


evaluate = _of_collections(evaluate_run)
compare = _of_collections(compare_runs)
