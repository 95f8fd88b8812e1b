"""TREC: topics, qrels, qrels by subtopic, and a corpus as Anserini reads it."""

import re
from typing import Any

from freshstack_dspy.errors import SourceError
from freshstack_dspy.files import read_lines
from freshstack_dspy.formats.format import Format
from freshstack_dspy.formats.imported import JUDGMENTS_FILE, Imported, shown
from freshstack_dspy.formats.selection import (
    GRADES,
    Files,
    Selection,
    changed_ids,
    chunk_metadata,
    judgment_rows,
    query_rows,
    topic_lines,
    word,
)
from freshstack_dspy.records import Nugget
from freshstack_dspy.rows import Row, importance_of

_HOW_TO_LOAD = f"""\
    ir_measures diversity_qrels.txt path/to/run.txt 'alpha_nDCG@10'
    ir_measures qrels.txt path/to/run.txt 'nDCG@10 R@50'

{GRADES} The second column of `diversity_qrels.txt` is the number of a nugget in `nuggets.jsonl`.
`judgments.jsonl` has the labels and their evidence, under our own ids.
Ids are words of visible ASCII (a space is `!20`); `ids.json` maps those back that had to change."""


def _write(selection: Selection) -> Files:
    queries = {query.query_id: word(query.query_id) for query in selection.queries}
    chunks = {chunk_id: word(chunk_id) for chunk_id in selection.collection.corpus.ids}
    nuggets: list[dict[str, Any]] = []
    subtopics: list[str] = []
    for query_id, own in selection.nuggets.items():
        for number, nugget in enumerate(own, start=1):
            row = nugget.model_dump(include={"nugget_id", "text", "importance"})
            nuggets.append({"id": queries[query_id], "subtopic": number, **row})
            labels = selection.support[nugget.nugget_id].items()
            subtopics += [f"{queries[query_id]} {number} {chunks[id_]} {n}" for id_, n in labels]
    yield "topics.tsv", topic_lines(selection, queries)
    yield "topics.jsonl", query_rows(selection, queries, "id")
    yield "nuggets.jsonl", nuggets
    yield (
        "corpus.jsonl",
        (
            {
                "id": chunks[chunk.chunk_id],
                "contents": chunk.titled,
                "metadata": {"title": chunk.title, **chunk_metadata(chunk)},
            }
            for chunk in selection.collection.chunks()
        ),
    )
    yield "qrels.txt", (f"{queries[q]} 0 {chunks[c]} {grade}" for q, c, grade in selection.grades())
    yield "diversity_qrels.txt", subtopics
    yield JUDGMENTS_FILE, judgment_rows(selection)
    yield from changed_ids(queries=queries.items(), chunks=chunks.items())


def _read(imported: Imported) -> None:
    """Read topics, and nuggets with their subtopics, which a document supports (1) or not (0).

    A label below 0 is a judgment without a label, as in BEIR. For an export of ours the labels are
    those that it had.
    """
    whole = imported.take_judgments()
    for row in imported.rows(imported.part("topics", "*topics*.jsonl")):
        imported.add_query(row, row.id("id"), text=row.text("text"))
    nuggets: dict[tuple[str, str], Nugget] = {}
    for row in imported.rows(imported.part("nuggets", "*nuggets*.jsonl")):
        query_id = imported.ours("queries", row.id("id"))
        if query_id not in imported.queries:
            raise SourceError(f"{row.place}: there is no topic {shown(query_id)}")
        text, importance = row.text("text"), importance_of(row)
        nugget = imported.add_nugget(
            row, query_id, row.id("nugget_id"), text, importance=importance
        )
        nuggets[row.id("id"), row.id("subtopic")] = nugget
    if not whole:
        file = imported.part("qrels by subtopic", "*diversity*qrels*.txt", "*diversity*.qrels")
        imported.files.append(file)
        for number, line in read_lines(file):
            place, words = f"{file}:{number}", line.decode("utf-8", "replace").split()
            if not words:
                continue
            if len(words) != 4 or not re.fullmatch("-?[0-9]{1,9}", words[3]):
                raise SourceError(f"{place}: not a line `topic subtopic document label`")
            topic, subtopic, document, label = words
            if (topic, subtopic) not in nuggets:
                raise SourceError(f"{place}: topic {shown(topic)} has no nugget {subtopic}")
            imported.once(Row(place, {}), "judgment", topic, subtopic, document)
            nugget = nuggets[topic, subtopic]
            if int(label) < 0:
                imported.judge(nugget, document, None, "failed", f"label {label}")
            else:
                imported.judge(nugget, document, int(int(label) > 0))
    imported.find_corpus("the corpus", "corpus*")


TREC = Format(
    name="trec",
    how_to_load=_HOW_TO_LOAD,
    write=_write,
    read=_read,
    cannot_hold=("answers", "pool"),
)
