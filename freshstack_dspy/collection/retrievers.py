"""Retrievers of your own: how they are called, and what they return, as `Hit`s.

A retriever is a function from a text to results, or an object of LangChain, LlamaIndex, Haystack
or PyTerrier. These are recognised by their methods: none of them is imported here.
"""

import inspect
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from freshstack_dspy.errors import CollectionError
from freshstack_dspy.measures.spans import Hit
from freshstack_dspy.progress import NoProgress, Progress
from freshstack_dspy.records import Query
from freshstack_dspy.registry import imported

_KINDS = (
    "a list of chunk ids, of (id, score), of dictionaries with path and text or start and end, "
    "or of documents of LangChain, LlamaIndex or Haystack"
)
_PATHS = ("path", "file_path", "source", "filename", "file_name")
"""Under which names the metadata of a document hold the path of its file."""
_IDS = ("chunk_id", "id", "docno")


def run_retriever(
    retriever: Any,
    queries: Sequence[Query],
    depth: int,
    progress: Progress | None = None,
) -> dict[str, list[Hit]]:
    """Search for the text of each query, one after the other; give the best hits by query id.

    Raises:
        CollectionError: It is no retriever, raises, returns other things, or nothing for any query.
    """
    progress = progress or NoProgress()
    search, name = _search_of(retriever, depth), name_of(retriever)
    found: dict[str, list[Hit]] = {}
    rises = []
    progress.start("search", len(queries))
    for done, query in enumerate(queries):
        where = f"at query {query.query_id!r}, after {done} of {len(queries)}"
        try:
            results = search(query.text)
            if isinstance(results, Iterator):
                results = list(results)
        except Exception as error:  # a retriever may raise anything
            fault = f"{type(error).__name__}: {error}".removesuffix(": ")
            raise CollectionError(f"{name} raised {fault}, {where}") from error
        try:
            hits = hits_of(results)
        except CollectionError as error:
            raise CollectionError(f"{name} returned {error}, {where}") from None
        rises += [second.score - first.score for first, second in pairwise(hits)]
        found[query.query_id] = sorted(hits, key=lambda hit: -hit.score)[:depth]
        progress.advance("search")
    progress.finish("search", f"{len(queries):,} queries")
    if not any(found.values()):
        raise CollectionError(f"{name} returned nothing for any of {len(queries)} queries")
    if rises and min(rises) >= 0 < max(rises):
        warnings.warn(
            f"the results of {name} come with the lowest score first, and the highest counts as "
            "the best: where scores are distances, return them negated, or without scores",
            stacklevel=2,
        )
    return found


def own_retriever(name: str, what: str, folder: Path) -> Any:
    """Import a retriever; what can be called without arguments is called, and gives it.

    Raises:
        ConfigError: There is no such module or object; `what` names it.
    """
    found = imported(name, what, folder)
    try:
        inspect.signature(found).bind()
    except (TypeError, ValueError):  # no function, or it needs the text
        return found
    return found()


def name_of(retriever: Any) -> str:
    """What a retriever is called: its own name, or that of its class."""
    return str(getattr(retriever, "__name__", type(retriever).__name__))


def _search_of(retriever: Any, depth: int) -> Callable[[str], Any]:
    """Give the function from a text to results that a retriever has, with its number of results."""
    if isinstance(retriever, type):
        raise CollectionError(f"{name_of(retriever)} is a class; give an object of it")
    if hasattr(retriever, "transform") and hasattr(retriever, "search"):  # PyTerrier
        return partial(retriever.search)
    if hasattr(retriever, "invoke"):  # LangChain
        settings = getattr(retriever, "search_kwargs", None)  # of a vector store's retriever
        k = {} if settings is None or "k" in settings else {"k": depth}
        return partial(retriever.invoke, **k)
    if hasattr(retriever, "retrieve"):  # LlamaIndex
        return partial(retriever.retrieve)
    if hasattr(retriever, "run"):  # Haystack
        run = partial(retriever.run, **_number_of_results(retriever.run, depth))
        return lambda text: run(query=text)["documents"]
    if callable(retriever):
        return partial(retriever, **_number_of_results(retriever, depth))
    hint = "; did you mean its .as_retriever()?" if hasattr(retriever, "as_retriever") else ""
    raise CollectionError(
        f"{name_of(retriever)} is no retriever{hint}; give a function from a text to results, or "
        "a retriever of LangChain, LlamaIndex, Haystack or PyTerrier"
    )


def _number_of_results(function: Callable[..., Any], depth: int) -> dict[str, int]:
    try:
        names = inspect.signature(function).parameters
    except (TypeError, ValueError):  # written in C
        return {}
    return next(({name: depth} for name in ("k", "top_k") if name in names), {})


def hits_of(results: Any) -> list[Hit]:
    """Take results of any known kind; where one has no score, their order counts.

    Raises:
        CollectionError: They are of another kind; it says of which.
    """
    if hasattr(results, "itertuples"):  # a frame of pandas
        results = results.to_dict("records")
    if isinstance(results, str | bytes | Mapping) or not isinstance(results, Iterable):
        raise CollectionError(f"{_named(results)}, and not {_KINDS}")
    hits = [_hit(result) for result in results]
    if any(math.isnan(hit.score) for hit in hits):
        return [hit._replace(score=-float(rank)) for rank, hit in enumerate(hits, 1)]
    return hits


def _hit(result: Any) -> Hit:
    """Take one result; its score is NaN where it has none."""
    if isinstance(result, tuple | list) and len(result) == 2 and isinstance(result[1], Real):
        return _hit(result[0])._replace(score=_score(result[1]))
    if isinstance(result, str):
        return Hit(math.nan, chunk_id=result)
    return _of_mapping(result) if isinstance(result, Mapping) else _of_document(result)


def _of_mapping(result: Mapping[Any, Any]) -> Hit:
    chunk_id, path = _first(result, _IDS), _first(result, ("path", "file_path"))
    text = _first(result, ("text",))
    if chunk_id is None and path is None and text is None:
        names = ", ".join(map(str, result)) or "nothing"
        raise CollectionError(f"a dictionary with {names}, without path, text or chunk_id")
    if (unit := result.get("unit", "chars")) not in ("chars", "bytes"):
        raise CollectionError(f"unit {unit!r}; it is 'chars' or 'bytes'")
    source = result.get("source")
    start, end = _offset(result.get("start")), _offset(result.get("end"))
    return Hit(_score(result.get("score")), chunk_id, source, path, text, start, end, unit)


def _of_document(result: Any) -> Hit:
    if hasattr(result, "page_content"):  # LangChain
        text, metadata, start = result.page_content, result.metadata, "start_index"
    elif hasattr(result, "node"):  # LlamaIndex
        node = result.node
        text, start = node.get_content(), "start_char_idx"
        metadata = {start: getattr(node, start, None), "id": node.node_id, **node.metadata}
    elif hasattr(result, "content") and hasattr(result, "meta"):  # Haystack
        text, metadata, start = result.content, result.meta, "split_idx_start"
    else:
        raise CollectionError(f"a list of {type(result).__name__}, and not {_KINDS}")
    return Hit(
        _score(getattr(result, "score", None)),
        chunk_id=_first({"id": getattr(result, "id", None), **metadata}, _IDS),
        path=_first(metadata, _PATHS),
        text=text,
        start=_offset(metadata.get(start)),
    )


def _first(values: Mapping[str, Any], names: Iterable[str]) -> str | None:
    """The first that is there, as text: ids of other systems are often numbers."""
    return next((str(values[name]) for name in names if values.get(name) is not None), None)


def _offset(value: Any) -> int | None:
    """An offset, if it is one: unknown ones are None, -1, or NaN in a frame."""
    return int(value) if isinstance(value, Integral) and int(value) >= 0 else None


def _score(value: Any) -> float:
    if value is None:
        return math.nan
    if not isinstance(value, Real):
        raise CollectionError(f"the score {value!r}, which is no number")
    return float(value)


def _named(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
