"""Runs of agents, which search several times for a question: JSON Lines, one for each search.

{"query_id": "1001", "step": 1, "search": "install the reader", "results": ["docs/a.md_0_90"]}

A result is the id of a chunk, or a passage: an object with its text, or with path, start and end.
"""

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from freshstack_dspy.errors import CollectionError, SourceError
from freshstack_dspy.files import json_value
from freshstack_dspy.measures.qrels import Spans
from freshstack_dspy.measures.run import UNPLACED, PassageRun, Run, is_searches, read_run
from freshstack_dspy.measures.spans import Hit, Place, Unit
from freshstack_dspy.rows import Row, read_rows

_NUMBER = re.compile(r"\d{1,20}")
_RESULTS = "ids of chunks, or objects with text, or with path, start and end"
_DOLLARS = "US dollars, a number from 0"
_COSTS = ("gen_ai.usage.cost", "llm.cost.total")
"""The attributes for the dollars of a call: of Langfuse and ours, and of OpenInference."""


class Search(NamedTuple):
    """One search of an agent."""

    text: str
    documents: tuple[str, ...]
    """The ids of the chunks or passages that the agent was shown, in order; empty if there were no
    results."""
    cost: float | None = None
    """In US dollars, including the model calls that led to the search."""


@dataclass(frozen=True)
class SearchRun:
    """The searches of an agent."""

    name: str
    searches: Mapping[str, tuple[Search, ...]]
    """By query id, in the order of their steps."""
    places: Mapping[str, Place] = field(default_factory=dict)
    """The places of documents that were given as passages, by id."""
    unplaced: Mapping[str, str] = field(default_factory=dict)
    """The texts of passages that are not in the corpus, by id."""

    @property
    def has_passages(self) -> bool:
        """Whether results include passages, not only ids of chunks."""
        return bool(self.places or self.unplaced)

    def shown(self, query_id: str, steps: int | None = None) -> tuple[str, ...]:
        """List the documents that the first steps of a query showed, each at its first showing."""
        searches = self.searches.get(query_id, ())[:steps]
        return tuple(dict.fromkeys(id_ for search in searches for id_ in search.documents))

    def at(self, step: int) -> "SearchRun":
        """Give only the searches at one step."""
        searches = {
            query: query_searches[step - 1 : step]
            for query, query_searches in self.searches.items()
        }
        return replace(self, searches=searches)

    def by_id(self) -> Run:
        """Give the run of all document ids, in the order in which they were shown."""
        scores = {
            query_id: {id_: float(-rank) for rank, id_ in enumerate(self.shown(query_id), start=1)}
            for query_id in self.searches
        }
        return Run.from_scores(scores, name=self.name)

    def union(self) -> Run | PassageRun:
        """Give the run of everything that was shown; passages are given by their places."""
        run = self.by_id()
        if not self.has_passages:
            return run
        placed, unplaced = {}, {}
        for query_id, scores in run.scores.items():
            placed[query_id] = {
                self.places[id_]: scores[id_] for id_ in scores if id_ in self.places
            }
            unplaced[query_id] = [scores[id_] for id_ in scores if id_ in self.unplaced]
        return PassageRun(self.name, placed, unplaced)


_RawSearch = tuple[str, tuple[Hit, ...], float | None]
"""A search as its file has it: text, results and cost."""


def read_searches(path: Path | str, spans: Spans | None = None) -> SearchRun:
    """Read the searches of an agent; searches without a `step` are in the order of the lines.

    Args:
        path: JSON Lines of searches, or of OpenTelemetry spans.
        spans: Where passages are in the files of a collection; if None, results must be chunk ids.

    Raises:
        SourceError: With file and line: a line is not a search, or a step is there twice. Also if
            no retriever's span is in a trace that names its query.
        CollectionError: A result is a passage, and `spans` is None.
    """
    path = Path(path)
    by_query: dict[str, dict[int, _RawSearch]] = {}
    traced: list[_Traced] = []
    for row in read_rows(path):
        if row.has("resourceSpans"):
            traced += _traced(row)
            continue
        steps = by_query.setdefault(row.id("query_id"), {})
        step = row.number("step", max(steps, default=0) + 1)
        if step in steps:
            raise row.fault("step", "a number that no other search of the query has")
        results = tuple(_hit(row, result) for result in row.list("results"))
        cost = _dollars(row, "cost", row.values.get("cost"))
        steps[step] = row.text("search", default=""), results, cost
    if traced:
        by_query = _searches_of(traced, path)
    hits = dict.fromkeys(
        hit for steps in by_query.values() for _, results, _ in steps.values() for hit in results
    )
    name = re.sub(r"(\.searches)?\.(jsonl?|ndjson)(\.gz)?$", "", path.name)
    ids = {hit: hit.chunk_id for hit in hits if hit.chunk_id is not None}
    places: dict[str, Place] = {}
    unplaced: dict[str, str] = {}
    if spans is not None and any(hit.text is not None or hit.path is not None for hit in hits):
        for hit in hits:
            if (place := spans.find(hit)) is None:
                ids[hit] = f"{UNPLACED}{len(unplaced) + 1}"
                unplaced[ids[hit]] = hit.text or ""
            else:
                ids[hit] = spans.passage_id(place)
                places[ids[hit]] = place
    elif len(ids) < len(hits):
        raise CollectionError(
            f"run {name!r:.200} has passages, which are measured on a collection, whose files "
            "tell where its evidence is; here results are the ids of chunks"
        )
    searches = {
        query_id: tuple(
            Search(text, tuple(ids[hit] for hit in results), cost)
            for _, (text, results, cost) in sorted(steps.items())
        )
        for query_id, steps in by_query.items()
    }
    return SearchRun(name, searches, places, unplaced)


def read_chunk_run(path: Path | str) -> Run:
    """Read a run of chunks from a file in TREC's format, or everything that searches showed."""
    return read_searches(path).by_id() if is_searches(path) else read_run(path)


def _hit(row: Row, result: Any) -> Hit:
    """Read a result of a search; it has no score, because only the order counts."""
    if isinstance(result, str):
        return Hit(0.0, chunk_id=result)
    if not isinstance(result, dict):
        raise row.fault("results", _RESULTS)
    fields = Row(row.place, result)
    start, end = (
        fields.number(name, 0) if result.get(name) is not None else None
        for name in ("start", "end")
    )
    chunk_id, path, text = fields.optional("id"), fields.optional("path"), fields.optional("text")
    if chunk_id is None and text is None and None in (path, start, end):
        raise row.fault("results", _RESULTS)
    unit: Unit = "chars" if result.get("unit") == "chars" else "bytes"
    if result.get("unit", unit) != unit:
        raise fields.fault("unit", "bytes or chars")
    return Hit(0.0, chunk_id, fields.optional("source"), path, text, start, end, unit)


def _dollars(row: Row, name: str, cost: Any) -> float | None:
    if cost is None:
        return None
    if not isinstance(cost, int | float) or not 0 <= cost < math.inf:
        raise row.fault(name, _DOLLARS)
    return float(cost)


# Spans


class _Traced(NamedTuple):
    """A span of a trace."""

    trace: str
    start: int
    id: str
    parent: str
    attributes: dict[str, Any]
    cost: float | None

    @property
    def is_retrieval(self) -> bool:
        kinds = map(self.attributes.get, ("gen_ai.operation.name", "openinference.span.kind"))
        return any(kind in ("retrieval", "RETRIEVER") for kind in kinds)


def _traced(row: Row) -> Iterator[_Traced]:
    for resource in row.inners("resourceSpans"):
        for scope in _inners(resource, "scopeSpans"):
            for span in _inners(scope, "spans"):
                attributes, start = _attributes(span, "attributes"), span.id("startTimeUnixNano")
                if not _NUMBER.fullmatch(start):
                    raise span.fault("startTimeUnixNano", "a whole number of nanoseconds")
                parent = span.text("parentSpanId", default="")
                cost = _cost_of(Row(span.place, attributes))
                ids = span.id("traceId"), int(start), span.id("spanId"), parent
                yield _Traced(*ids, attributes, cost)


def _inners(row: Row, name: str) -> Iterable[Row]:
    """Give the objects of a list, which may be missing if it is empty."""
    return () if row.values.get(name) is None else row.inners(name)


def _attributes(row: Row, name: str) -> dict[str, Any]:
    return {pair.text("key"): _plain(pair.inner("value")) for pair in _inners(row, name)}


def _plain(value: Row) -> Any:
    """Unwrap a value from the object that names its type."""
    for kind, inner in value.values.items():
        if kind == "arrayValue":
            return [_plain(each) for each in _inners(value.inner(kind), "values")]
        return _attributes(value.inner(kind), "values") if kind == "kvlistValue" else inner
    return None


def _cost_of(attributes: Row) -> float | None:
    name = next((name for name in _COSTS if attributes.has(name)), None)
    if name is None:
        return None
    try:  # whole numbers are texts
        return _dollars(attributes, name, float(attributes.values[name]))
    except (TypeError, ValueError):
        raise attributes.fault(name, _DOLLARS) from None


def _searches_of(spans: Sequence[_Traced], path: Path) -> dict[str, dict[int, _RawSearch]]:
    """Give the retrievers' spans by query, in order of start, with what was paid since the last.

    If a span with a cost contains another with a cost, only the inner one counts, because the outer
    cost includes it.
    """
    by_id = {(span.trace, span.id): span for span in spans}
    queries = {
        span.trace: str(span.attributes["query_id"])
        for span in spans
        if "query_id" in span.attributes
    }
    costs = {key: span.cost for key, span in by_id.items() if span.cost is not None}
    above: set[tuple[str, str]] = set()
    for trace, id_ in costs:
        parent = trace, by_id[trace, id_].parent
        while parent in by_id and parent not in above:
            above.add(parent)
            parent = trace, by_id[parent].parent
    paid: defaultdict[str, float] = defaultdict(float)
    searches: dict[str, dict[int, _RawSearch]] = {}
    for span in sorted(spans, key=lambda span: (span.start, span.trace)):
        if span.trace not in queries:
            continue
        if (key := (span.trace, span.id)) not in above:
            paid[span.trace] += costs.get(key, 0.0)
        if span.is_retrieval:
            steps = searches.setdefault(queries[span.trace], {})
            attributes, cost = span.attributes, paid.pop(span.trace) if costs else None
            text = (
                attributes.get("gen_ai.retrieval.query.text") or attributes.get("input.value") or ""
            )
            steps[len(steps) + 1] = str(text), _documents_of(span, path), cost
    if not searches:
        raise SourceError(
            f"{path}: no span of a retriever is in a trace of which a span has the attribute query_id"
        )
    return searches


def _documents_of(span: _Traced, path: Path) -> tuple[Hit, ...]:
    """Read the documents from a list, which may be JSON in a string, or numbered attributes."""
    attributes, where = span.attributes, f"{path}: a retriever's span of trace {span.trace}"
    name = "gen_ai.retrieval.documents"
    listed = attributes.get(name, [])
    documents = json_value(listed.encode(), where) if isinstance(listed, str) else listed
    rows = list(Row(where, {name: documents}).inners(name))
    parts = (key.split(".") for key in attributes if key.startswith("retrieval.documents."))
    for number in sorted({part[2] for part in parts if _NUMBER.fullmatch(part[2])}, key=int):
        document = f"retrieval.documents.{number}.document"
        rows.append(
            Row(where, {key: attributes.get(f"{document}.{key}") for key in ("id", "content")})
        )
    hits = []
    for row in rows:
        id_ = row.values.get("id")
        content = None if row.values.get("content") is None else row.text("content")
        if id_ is None and content is None:
            raise SourceError(
                f"{where} has a document without id and content; let its id be that of the chunk, "
                "or its content the text"
            )
        hits.append(Hit(0.0, chunk_id=None if id_ is None else str(id_), text=content))
    return tuple(hits)
