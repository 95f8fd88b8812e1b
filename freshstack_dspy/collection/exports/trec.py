"""The files of TREC's tools: topics, qrels, qrels by subtopic, corpus.

    out/topics.tsv             query, its text in one line
    out/topics.jsonl           the same with the text as it is and its origin
    out/qrels.txt              query 0 chunk grade: how many of the query's nuggets it supports
    out/diversity_qrels.txt    query subtopic chunk 0|1, a subtopic being a nugget's number
    out/nuggets.jsonl          which nugget each subtopic is
    out/corpus.jsonl           {"id", "contents", "metadata"}, as Anserini and Pyserini read it

Lines are cut at white space, so an id is called by its word: the same, unless it holds anything
but visible ASCII. Words sort as ids do, so ties by id fall as they do in our own measures.
"""

from collections.abc import Iterator
from pathlib import Path

from freshstack_dspy.collection.exports.beir import GRADES, query_metadata
from freshstack_dspy.collection.exports.freshstack import chunk_metadata
from freshstack_dspy.collection.exports.layout import (
    Names,
    Selection,
    word,
    write_about,
    write_json_lines,
    write_lines,
    write_readme,
)
from freshstack_dspy.collection.layouts import (
    TREC_CORPUS,
    TREC_DIVERSITY_QRELS,
    TREC_NUGGETS,
    TREC_QRELS,
    TREC_TOPICS,
    TREC_TOPICS_JSON,
)

_HOW_TO_LOAD = f"""
```sh
ir_measures {TREC_DIVERSITY_QRELS} path/to/run.txt 'alpha_nDCG@10'
ir_measures {TREC_QRELS} path/to/run.txt 'nDCG@10 R@50'
```

{GRADES} In `{TREC_DIVERSITY_QRELS}` the second column is the number of a nugget within its query,
as `{TREC_NUGGETS}` names them; a pair whose judgment failed is left out.
Topics stand in one line each in `{TREC_TOPICS}`, and as they are in `{TREC_TOPICS_JSON}`, where
`metadata.origin` marks what is synthetic.
An id that is no word of visible ASCII is called by one that is (a space is `!20`); `ids.json`
then maps it back.
"""


def write_trec(folder: Path, selection: Selection) -> None:
    """Write topics, both qrels and the corpus, and what they are."""
    names = Names(
        queries={query.query_id: word(query.query_id) for query in selection.queries},
        chunks={chunk_id: word(chunk_id) for chunk_id in selection.collection.corpus.rows},
    )
    _write_topics(folder, selection, names)
    write_lines(folder / TREC_QRELS, _qrels(selection, names))
    write_lines(folder / TREC_DIVERSITY_QRELS, diversity_qrels(selection, names))
    write_json_lines(
        folder / TREC_CORPUS,
        (
            {
                "id": names.chunks[chunk.chunk_id],
                "contents": chunk.titled,
                "metadata": {"title": chunk.title, **chunk_metadata(chunk)},
            }
            for chunk in selection.chunks()
        ),
    )
    write_readme(folder, selection, _HOW_TO_LOAD)
    write_about(folder, selection, "trec", names.changed())


def one_line(text: str) -> str:
    """Give a text as one line, its white space made single spaces."""
    return " ".join(text.split())


def _write_topics(folder: Path, selection: Selection, names: Names) -> None:
    write_lines(
        folder / TREC_TOPICS,
        (f"{names.queries[query.query_id]}\t{one_line(query.text)}" for query in selection.queries),
    )
    write_json_lines(
        folder / TREC_TOPICS_JSON,
        (
            {
                "id": names.queries[query.query_id],
                "text": query.text,
                "metadata": query_metadata(query),
            }
            for query in selection.queries
        ),
    )
    write_json_lines(
        folder / TREC_NUGGETS,
        (
            {
                "id": names.queries[query.query_id],
                "subtopic": number,
                "nugget_id": nugget.nugget_id,
                "text": nugget.text,
                "importance": nugget.importance,
            }
            for query in selection.queries
            for number, nugget in enumerate(selection.nuggets[query.query_id], start=1)
        ),
    )


def _qrels(selection: Selection, names: Names) -> Iterator[str]:
    for query in selection.queries:
        for chunk_id, grade in selection.grades(query.query_id).items():
            yield f"{names.queries[query.query_id]} 0 {names.chunks[chunk_id]} {grade}"


def diversity_qrels(selection: Selection, names: Names) -> Iterator[str]:
    """Give the lines of the qrels by subtopic: `query subtopic chunk 0|1`, subtopics from 1."""
    for query in selection.queries:
        for number, nugget in enumerate(selection.nuggets[query.query_id], start=1):
            for chunk_id, label in selection.support[nugget.nugget_id].items():
                name = names.queries[query.query_id]
                yield f"{name} {number} {names.chunks[chunk_id]} {label}"
