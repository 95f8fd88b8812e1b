"""`evaluate` and `compare` of the package's top level: the judgments may be a collection's folder.

The measures know nothing of collections, so the folder is loaded here.
"""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

from freshstack_dspy.measures import compare as compare_runs
from freshstack_dspy.measures import evaluate as evaluate_run

F = TypeVar("F", bound=Callable[..., Any])


def _of_folders(function: F) -> F:
    """Load the first argument where it is the folder of a collection."""

    @wraps(function)
    def of_folders(qrels: Any, *args: Any, **options: Any) -> Any:
        from freshstack_dspy.collection.collection import Collection

        if isinstance(qrels, str | Path) and Path(qrels).is_dir():
            qrels = Collection.load(Path(qrels))
        return function(qrels, *args, **options)

    return cast("F", of_folders)


evaluate = _of_folders(evaluate_run)
compare = _of_folders(compare_runs)
