"""The JSON Lines of castorini's nuggetizer.

    out/nuggets.jsonl        {"query", "qid", "nuggets"}: as `nuggetizer create` writes them
    out/assignments.jsonl    {"text", "qid", "candidate_text", "docid", "nuggets"}, of each judged
                             chunk: as `nuggetizer assign --input-kind retrieval` writes them
    out/input.jsonl          {"query", "candidates"}: what `nuggetizer create` reads, the chunks of
                             a query's pool, best rank first

Every nugget of nuggetizer has an importance, and it reads one without as `vital`; so a nugget
that was not rated is written as `vital`, with `"rated": false`.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from freshstack_dspy.collection.exports.beir import query_metadata
from freshstack_dspy.collection.exports.layout import (
    Selection,
    write_about,
    write_json_lines,
    write_readme,
)
from freshstack_dspy.collection.layouts import (
    NUGGETIZER_ASSIGNMENTS,
    NUGGETIZER_INPUT,
    NUGGETIZER_NUGGETS,
)
from freshstack_dspy.records import Assignment, Candidate, Nugget, Scale

_HOW_TO_LOAD = f"""
```sh
nuggetizer metrics --input-file {NUGGETIZER_ASSIGNMENTS} --output-file metrics.jsonl
```

A label of support is `support`, 0 is `not_support`, one between them `partial_support`; on the
scale `support`, 1 is `partial_support` whatever the threshold. A judgment that failed is `failed`,
which nuggetizer counts as no support; a nugget that was not judged for a chunk is left out.
Nuggets that were not rated are written as `vital`, as nuggetizer would read them, with
`"rated": false`.
"""


def write_nuggetizer(folder: Path, selection: Selection) -> None:
    """Write input, nuggets and assignments, and what they are."""
    chunks = {chunk.chunk_id: chunk.titled for chunk in selection.chunks()}
    write_json_lines(folder / NUGGETIZER_INPUT, _inputs(selection, chunks))
    write_json_lines(
        folder / NUGGETIZER_NUGGETS,
        (
            {
                "query": query.text,
                "qid": query.query_id,
                "nuggets": [_nugget(one) for one in selection.nuggets[query.query_id]],
                "metadata": query_metadata(query),
            }
            for query in selection.queries
        ),
    )
    write_json_lines(folder / NUGGETIZER_ASSIGNMENTS, _assignments(selection, chunks))
    write_readme(folder, selection, _HOW_TO_LOAD)
    write_about(folder, selection, "nuggetizer")


def assignment(label: int | None, scale: Scale) -> Assignment:
    """Give nuggetizer's word for a label, or for there being none.

    Args:
        label: On the scale, or None where the judgment failed.
        scale: With the threshold of support.
    """
    if label is None:
        return "failed"
    threshold = 2 if scale.name == "support" else scale.threshold
    if label >= threshold:
        return "support"
    return "partial_support" if label else "not_support"


def _nugget(nugget: Nugget) -> dict[str, Any]:
    return {
        "text": nugget.text,
        "importance": nugget.importance or "vital",
        "rated": nugget.importance is not None,
        "nugget_id": nugget.nugget_id,
    }


def _assignments(selection: Selection, chunks: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    scale = selection.collection.manifest.scale
    for query in selection.queries:
        nuggets = selection.nuggets[query.query_id]
        for chunk_id, labels in selection.labels(query.query_id).items():
            yield {
                "text": query.text,
                "qid": query.query_id,
                "candidate_text": chunks[chunk_id],
                "docid": chunk_id,
                "nuggets": [
                    {**_nugget(one), "assignment": assignment(labels[one.nugget_id], scale)}
                    for one in nuggets
                    if one.nugget_id in labels
                ],
            }


def _inputs(selection: Selection, chunks: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    for query in selection.queries:
        ranked = sorted(selection.pool[query.query_id], key=_rank)
        yield {
            "query": {"qid": query.query_id, "text": query.text},
            "candidates": [
                {
                    "docid": candidate.chunk_id,
                    "score": 1 / (1 + place),
                    "doc": {"segment": chunks[candidate.chunk_id]},
                }
                for place, candidate in enumerate(ranked)
            ],
        }


def _rank(candidate: Candidate) -> tuple[float, str]:
    """Order by the best rank of a fused list or run, those without one last, then by id."""
    pooled = [found.rank for found in candidate.pooled_by]
    ranks = pooled + [run.rank for run in candidate.runs]
    return min(ranks, default=float("inf")), candidate.chunk_id
