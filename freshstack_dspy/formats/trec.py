"""TREC: topics, qrels, qrels by subtopic, and a corpus as Anserini reads it."""

from typing import Any

from freshstack_dspy.formats.format import Format
from freshstack_dspy.formats.selection import (
    GRADES,
    Files,
    Selection,
    changed_ids,
    chunk_metadata,
    query_rows,
    topic_lines,
    word,
)

_HOW_TO_LOAD = f"""\
    ir_measures diversity_qrels.txt path/to/run.txt 'alpha_nDCG@10'
    ir_measures qrels.txt path/to/run.txt 'nDCG@10 R@50'

{GRADES} The second column of `diversity_qrels.txt` is the number of a nugget in `nuggets.jsonl`.
Ids are words of visible ASCII (a space is `!20`); `ids.json` maps those back that had to change."""


def _write(selection: Selection) -> Files:
    queries = {query.query_id: word(query.query_id) for query in selection.queries}
    chunks = {chunk_id: word(chunk_id) for chunk_id in selection.collection.corpus.rows}
    nuggets: list[dict[str, Any]] = []
    subtopics: list[str] = []
    for query_id, of_query in selection.nuggets.items():
        for number, nugget in enumerate(of_query, start=1):
            row = nugget.model_dump(include={"nugget_id", "text", "importance"})
            nuggets.append({"id": queries[query_id], "subtopic": number, **row})
            labels = selection.support[nugget.nugget_id].items()
            subtopics += [f"{queries[query_id]} {number} {chunks[id_]} {n}" for id_, n in labels]
    corpus = (
        {
            "id": chunks[chunk.chunk_id],
            "contents": chunk.titled,
            "metadata": {"title": chunk.title, **chunk_metadata(chunk)},
        }
        for chunk in selection.collection.chunks()
    )
    grades = (f"{queries[one]} 0 {chunks[id_]} {grade}" for one, id_, grade in selection.grades())
    yield "topics.tsv", topic_lines(selection, queries)
    yield "topics.jsonl", query_rows(selection, queries, "id")
    yield "nuggets.jsonl", nuggets
    yield "corpus.jsonl", corpus
    yield "qrels.txt", grades
    yield "diversity_qrels.txt", subtopics
    yield from changed_ids(queries=queries.items(), chunks=chunks.items())


TREC = Format(name="trec", how_to_load=_HOW_TO_LOAD, write=_write)
