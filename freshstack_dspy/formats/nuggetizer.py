"""castorini/nuggetizer v0.0.6: nuggets, and their assignments to passages."""

from collections import defaultdict
from typing import Any

from freshstack_dspy.errors import SourceError
from freshstack_dspy.formats.format import Format
from freshstack_dspy.formats.imported import Imported, chunk_of, shown
from freshstack_dspy.formats.selection import Files, Selection, query_metadata
from freshstack_dspy.records import SCALES, Assignment, Candidate, Nugget, Scale
from freshstack_dspy.rows import Row, importance_of

_HOW_TO_LOAD = """\
    nuggetizer metrics --input-file assignments.jsonl --output-file metrics.jsonl

A judgment that failed is `failed`, which nuggetizer counts as no support. Chunks that were not
pooled or judged are left out. Nuggets that were not rated are `vital`, with `"rated": false`."""


def _write(selection: Selection) -> Files:
    scale = selection.collection.manifest.scale
    pool: defaultdict[str, list[Candidate]] = defaultdict(list)
    for candidate in selection.of_queries(selection.collection.pool):
        pool[candidate.query_id].append(candidate)
    pooled = {candidate.chunk_id for candidates in pool.values() for candidate in candidates}
    chunks = selection.collection.corpus.chunks(pooled.union(*selection.labels.values()))
    inputs, nuggets, assigned = [], [], []
    for query in selection.queries:
        query_id, text = query.query_id, query.text
        ranked = sorted(pool[query_id], key=_best_rank)
        candidates = [
            {
                "docid": candidate.chunk_id,
                "score": 1 / place,
                "doc": {"segment": chunks[candidate.chunk_id].titled},
            }
            for place, candidate in enumerate(ranked, start=1)
        ]
        inputs.append({"query": {"qid": query_id, "text": text}, "candidates": candidates})
        own: dict[str, dict[str, Any]] = {
            nugget.nugget_id: {
                "text": nugget.text,
                "importance": nugget.importance or "vital",
                "rated": nugget.importance is not None,
                "nugget_id": nugget.nugget_id,
            }
            for nugget in selection.nuggets[query_id]
        }
        row = {"query": text, "qid": query_id, "nuggets": list(own.values())}
        nuggets.append({**row, "metadata": query_metadata(query)})
        for chunk_id, labels in selection.by_chunk(query_id).items():
            words = [
                {**own[nugget_id], "assignment": assignment(label, scale)}
                for nugget_id, label in labels.items()
            ]
            passage = {"candidate_text": chunks[chunk_id].titled, "docid": chunk_id}
            assigned.append({"text": text, "qid": query_id, **passage, "nuggets": words})
    yield "input.jsonl", inputs
    yield "nuggets.jsonl", nuggets
    yield "assignments.jsonl", assigned


def assignment(label: int | None, scale: Scale) -> Assignment:
    """Give nuggetizer's word for a label; None is a judgment that failed."""
    if label is None:
        return "failed"
    if label >= (SCALES["support"].highest if scale.name == "support" else scale.threshold):
        return "support"
    return "partial_support" if label else "not_support"


def _best_rank(candidate: Candidate) -> tuple[float, str]:
    """Order by the best rank of a fused list or run, those without one last, then by id."""
    ranks = [fused.rank for fused in candidate.pooled_by]
    ranks += [run.rank for run in candidate.runs]
    return min(ranks, default=float("inf")), candidate.chunk_id


_ASSIGNED = {"support": 2, "partial_support": 1, "not_support": 0}


def _read(imported: Imported) -> None:
    """Read nuggets and their assignments to passages.

    Nuggets have no ids there: they are called `{qid}_{n}`, n from 0 in the order of the list, and
    an assignment names one by its text.
    """
    default = Scale(name="support", threshold=2)
    exported = imported.export.scale if imported.export else default
    imported.use_scale(exported if exported.name == "support" else default)
    assignments, nuggets = imported.path, None
    if assignments.is_dir():
        assignments = imported.part("assignments", "*assign*.jsonl", "*assign*.jsonl.gz")
        nuggets = imported.optional_part("nuggets", "*nuggets*.jsonl", "*nuggets*.jsonl.gz")
    by_query: dict[str, dict[str, Nugget]] = {}
    for row in imported.rows(nuggets) if nuggets else ():
        by_query[row.id("qid")] = _own_nuggets(imported, row, row.text("query", "text"))
    texts: dict[str, str] = {}
    for row in imported.rows(assignments):
        query_id, chunk_id = row.id("qid"), row.id("docid")
        if query_id not in by_query and nuggets is not None:
            imported.unknown_queries[query_id] += 1
            continue
        if query_id not in by_query:
            by_query[query_id] = _own_nuggets(imported, row, row.text("text", "query"))
        imported.once(row, "assignment of", query_id, chunk_id)
        if row.has("candidate_text"):
            text = row.text("candidate_text")
            if texts.setdefault(chunk_id, text) != text:
                raise SourceError(f"{row.place}: {shown(chunk_id)} has another text than before")
        for assigned in row.inners("nuggets"):
            _take_assignment(imported, assigned, by_query[query_id], chunk_id)
    imported.find_corpus("the corpus", "corpus*")
    if imported.documents is None:
        imported.documents = [
            chunk_of(None, id_, imported.source, text) for id_, text in texts.items()
        ]


def _own_nuggets(imported: Imported, row: Row, query: str) -> dict[str, Nugget]:
    """Take a query and its nuggets; gives them by id, or text where they have none."""
    query_id = imported.add_query(row, row.id("qid"), text=query).query_id
    own: dict[str, Nugget] = {}
    for number, inner in enumerate(row.inners("nuggets")):
        text, id_ = inner.text("text"), inner.optional("nugget_id")
        if (id_ or text) in own:
            raise SourceError(f"{row.place}: nugget {shown(id_ or text)} is there twice; keep one")
        if inner.values.get("importance") == "failed" and inner.values.get("rated", True):
            message = f"importance 'failed' of {shown(text)}"
            imported.fail(query_id, "nuggets", "failed", message)
        own[id_ or text] = imported.add_nugget(
            inner, query_id, id_ or f"{query_id}_{number}", text, importance=importance_of(inner)
        )
    return own


def _take_assignment(
    imported: Imported, row: Row, nuggets: dict[str, Nugget], chunk_id: str
) -> None:
    key, assigned = row.optional("nugget_id") or row.text("text"), row.text("assignment")
    if key not in nuggets:
        raise SourceError(f"{row.place}: the query has no nugget {shown(key)}")
    if assigned == "failed":
        imported.judge(nuggets[key], chunk_id, None, "failed", "assignment 'failed'")
    elif assigned in _ASSIGNED:
        reason = row.text("reasoning", default="")
        imported.judge(nuggets[key], chunk_id, _ASSIGNED[assigned], reason=reason)
    else:
        raise row.fault("assignment", f"{', '.join(_ASSIGNED)} or failed")


NUGGETIZER = Format(
    name="nuggetizer",
    how_to_load=_HOW_TO_LOAD,
    write=_write,
    read=_read,
    pooled_chunks_only=True,
    cannot_hold=("answers", "labels", "evidence", "chunks", "pool"),
)
