"""Runs of agents, which search several times for a question: JSON Lines, one for each search.

{"query_id": "1001", "step": 1, "search": "install the reader", "results": ["docs/a.md_0_90"]}
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from freshstack_dspy.errors import SourceError
from freshstack_dspy.measures.run import Run
from freshstack_dspy.rows import Row, read_rows


class Search(NamedTuple):
    """One search of an agent."""

    text: str
    chunk_ids: tuple[str, ...]
    """What it was shown, in this order; nothing where the search was empty."""


@dataclass(frozen=True)
class SearchRun:
    """The searches of an agent."""

    name: str
    searches: Mapping[str, tuple[Search, ...]]
    """By query id, in the order of their steps."""

    def shown(self, query_id: str, steps: int | None = None) -> tuple[str, ...]:
        """List what the first steps of a query showed, each chunk where it was shown first."""
        searches = self.searches.get(query_id, ())[:steps]
        return tuple(dict.fromkeys(id_ for search in searches for id_ in search.chunk_ids))

    def union(self) -> Run:
        """Give the run of all that was shown, in the order in which it was shown."""
        scores = {
            query_id: {id_: float(-rank) for rank, id_ in enumerate(self.shown(query_id), start=1)}
            for query_id in self.searches
        }
        return Run.from_scores(scores, name=self.name)


def is_searches(path: Path | str) -> bool:
    """Tell whether a file has searches, and no passages or TREC lines."""
    try:
        with Path(path).open("rb") as file:
            first = json.loads(next(filter(bytes.strip, file), b""))
    except (OSError, ValueError):
        return False
    return isinstance(first, dict) and bool(first.keys() & {"results", "resourceSpans"})


def read_searches(path: Path | str) -> SearchRun:
    """Read the searches of an agent; those without a `step` are in the order of the lines.

    Raises:
        SourceError: With file and line, where a line is no search or a step is there twice; or no
            retriever's span is in a trace that names its query.
    """
    path = Path(path)
    found: dict[str, dict[int, Search]] = {}
    spans: list[dict[str, Any]] = []
    for row in read_rows(path):
        if row.has("resourceSpans"):
            spans += _spans(row)
            continue
        steps = found.setdefault(row.id("query_id"), {})
        step = row.number("step", max(steps, default=0) + 1)
        if step in steps:
            raise row.fault("step", "a number that no other search of the query has")
        steps[step] = Search(row.text("search", default=""), row.texts("results"))
    if spans:
        found = _searches_of(spans, path)
    searches = {
        query_id: tuple(search for _, search in sorted(steps.items()))
        for query_id, steps in found.items()
    }
    return SearchRun(path.name.split(".")[0], searches)


# Spans


def _spans(row: Row) -> Iterator[dict[str, Any]]:
    """Give the trace, start and attributes of each span."""
    for resource in row.inners("resourceSpans"):
        for scope in resource.inners("scopeSpans"):
            for span in scope.inners("spans"):
                trace, start = span.id("traceId"), int(span.id("startTimeUnixNano"))
                yield {"trace": trace, "start": start, **_attributes(span.list("attributes"))}


def _attributes(pairs: Iterable[Any]) -> dict[str, Any]:
    return {pair["key"]: _plain(pair["value"]) for pair in pairs}


def _plain(value: dict[str, Any]) -> Any:
    """Take a value out of what names its type."""
    for kind, inner in value.items():
        if kind == "arrayValue":
            return [_plain(one) for one in inner.get("values", ())]
        return _attributes(inner.get("values", ())) if kind == "kvlistValue" else inner
    return None


def _searches_of(spans: Sequence[dict[str, Any]], path: Path) -> dict[str, dict[int, Search]]:
    queries = {span["trace"]: str(span["query_id"]) for span in spans if "query_id" in span}
    found: dict[str, dict[int, Search]] = {}
    for span in sorted(spans, key=lambda span: (span["start"], span["trace"])):
        kinds = span.get("gen_ai.operation.name"), span.get("openinference.span.kind")
        if span["trace"] in queries and ("retrieval" in kinds or "RETRIEVER" in kinds):
            steps = found.setdefault(queries[span["trace"]], {})
            steps[len(steps) + 1] = Search(_text_of(span), _documents_of(span, path))
    if not found:
        raise SourceError(
            f"{path}: no span of a retriever is in a trace of which a span has the attribute query_id"
        )
    return found


def _text_of(span: dict[str, Any]) -> str:
    return str(span.get("gen_ai.retrieval.query.text") or span.get("input.value") or "")


def _documents_of(span: dict[str, Any], path: Path) -> tuple[str, ...]:
    """The ids of documents: of a list, which may be JSON in a text, or of numbered attributes."""
    given = span.get("gen_ai.retrieval.documents", [])
    documents = json.loads(given) if isinstance(given, str) else given
    ids = [document.get("id") for document in documents]
    numbers = {key.split(".")[2] for key in span if key.startswith("retrieval.documents.")}
    ids += [span.get(f"retrieval.documents.{one}.document.id") for one in sorted(numbers, key=int)]
    if None in ids:
        raise SourceError(
            f"{path}: a retriever's span of trace {span['trace']} has a document without an id; "
            "let its id be that of the chunk"
        )
    return tuple(map(str, ids))
