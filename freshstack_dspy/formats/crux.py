"""CRUX (Ju et al., arXiv 2506.20051): topics, ratings, three qrels and passages."""

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from freshstack_dspy.errors import SourceError
from freshstack_dspy.formats.format import Format
from freshstack_dspy.formats.imported import Imported, shown
from freshstack_dspy.formats.selection import (
    Files,
    Ids,
    Selection,
    changed_ids,
    query_metadata,
    topic_lines,
    word,
)
from freshstack_dspy.records import SCALES, Chunk, Nugget, Scale, Status
from freshstack_dspy.rows import Row

_HOW_TO_LOAD = """\
Give this folder to `evaluation/llm_prejudge` of CRUX as `--dataset_dir`, and the number in the name
of the folder `ranking_…` as `--threshold`. It takes topics of 10 or 15 questions alone and stops at
others: measure these with `freshstack evaluate` on the collection, or ir_measures on the qrels.
A rating of -2 means that a judgment failed, -1 that it was never asked for. In
`test_qrels_oracle_context_pr.txt`, 3 is a required passage, 2 a partly redundant and 1 a redundant
one. `ids.json` names the chunks of the passages; where scores are equal, passages that no pool has,
`!corpus:…`, can come in another order than their chunks."""


_REST = "!corpus"
"""No topic is called so: in a word, two digits follow every `!`."""


def _write(selection: Selection) -> Files:
    from freshstack_dspy.measures.density import REQUIRED, required_subset

    threshold = selection.collection.threshold
    chunks = {chunk.chunk_id: chunk for chunk in selection.collection.chunks()}
    topics = {q.query_id: word(q.query_id).replace(":", "!3A") for q in selection.queries}
    passages: dict[str, str] = {}  # passage id -> chunk id
    judgements: list[dict[str, Any]] = []
    subtopics: list[str] = []
    contexts: list[str] = []
    documents: list[str] = []
    for query_id, topic in topics.items():
        judged = selection.by_chunk(query_id)
        nuggets = [nugget.nugget_id for nugget in selection.nuggets[query_id]]
        ids = _passage_ids(topic, (chunks[chunk_id] for chunk_id in judged))
        passages.update(zip(ids, judged, strict=True))
        for id_, (chunk_id, labels) in zip(ids, judged.items(), strict=True):
            rating = [labels.get(nugget, -1) for nugget in nuggets]
            rating = [-2 if label is None else label for label in rating]
            judgements.append({"example_id": topic, "pid": id_, "rating": rating})
            subtopics += [
                f"{topic} {number} {id_} {selection.support[nugget][chunk_id]}"
                for number, nugget in enumerate(nuggets, start=1)
                if chunk_id in selection.support[nugget]
            ]
        ratings = [[labels.get(nugget) for nugget in nuggets] for labels in judged.values()]
        labelled = required_subset(ratings, threshold)
        if required := [ids[place] for place, label in labelled.items() if label == REQUIRED]:
            contexts += [f"{topic} 0 {ids[place]} {n}" for place, n in labelled.items()]
            whole = dict.fromkeys(id_.partition("#")[0] for id_ in required)
            documents += [f"{topic} 0 {document} 1" for document in whole]
    pooled = set(passages.values())
    rest = [chunk for id_, chunk in chunks.items() if id_ not in pooled]
    unpooled = (chunk.chunk_id for chunk in rest)
    passages.update(zip(_passage_ids(_REST, rest), unpooled, strict=True))

    ranking = f"ranking_{threshold}"
    yield f"{ranking}/test_topics.tsv", topic_lines(selection, topics)
    yield f"{ranking}/test_topics.jsonl", _topic_rows(selection, topics)
    yield f"{ranking}/test_judgements.jsonl", judgements
    yield f"{ranking}/test_div_qrels_pr.txt", subtopics
    yield f"{ranking}/test_qrels_oracle_context_pr.txt", contexts
    yield f"{ranking}/test_qrels_oracle_adhoc_dr.txt", documents
    texts = ({"id": id_, "contents": chunks[chunk].titled} for id_, chunk in passages.items())
    yield "passages/test_psgs.jsonl", texts
    chunk_ids = ((chunk, passage) for passage, chunk in passages.items())
    yield from changed_ids(queries=topics.items(), chunks=chunk_ids)


def _passage_ids(topic: str, chunks: Iterable[Chunk]) -> list[str]:
    """Give CRUX's ids, `{topic}:{document}#{passage}`: files and chunks are numbered through.

    CRUX's tools take the topic of a passage to be what is before the first `:`. Numbers are of equal
    width, so that ids sort as those of the chunks do, by which equal scores and gains are ordered.
    """
    chunks = list(chunks)
    files: dict[tuple[str, str], int] = {}
    for chunk in chunks:
        files.setdefault((chunk.source, chunk.path), len(files))
    wide, wider = len(str(len(files) - 1)), len(str(len(chunks) - 1))
    return [
        f"{topic}:{files[chunk.source, chunk.path]:0{wide}}#{number:0{wider}}"
        for number, chunk in enumerate(chunks)
    ]


def _topic_rows(selection: Selection, ids: Ids) -> Iterator[dict[str, Any]]:
    for query in selection.queries:
        nuggets = selection.nuggets[query.query_id]
        yield {
            "example_id": ids[query.query_id],
            "topic": query.text,
            "questions": [nugget.text for nugget in nuggets],
            "report": query.answer,
            "nugget_ids": [nugget.nugget_id for nugget in nuggets],
            "metadata": query_metadata(query),
        }


_TOPIC_IDS = ("example_id", "id", "topic_id")
_TOPICS = ("ranking_*/*topics*.jsonl", "*topics*.jsonl")
_QUESTIONS = ("*subquestions*.jsonl",)
_RATINGS = ("ranking_*/*judg*.jsonl", "*judg*.jsonl", "*ratings*.jsonl")
_SHARD = re.compile(r"\.(\d{1,6})-\d{1,6}\.jsonl$")
_FAILED: dict[int | None, Status] = {-1: "unparsed", -2: "failed", None: "failed"}
"""What CRUX writes where a reply had no rating, and where there was no reply. In exports of ours -1 is
a pair that was never judged."""


def _read(imported: Imported) -> None:
    """Read topics, whose questions become nuggets `{topic}_{n}`, and ratings from 0 to 5."""
    default = Scale(name="graded_5", threshold=SCALES["graded_5"].threshold)
    imported.use_scale(imported.export.scale if imported.export else default)
    topics = _read_topics(imported)
    for row in _ratings(imported):
        topic, passage = row.id(*_TOPIC_IDS), row.id("pid", "docid")
        imported.once(row, "rating of", topic, passage)
        query_id, ratings = imported.ours("queries", topic), row.list("rating", "ratings")
        if query_id not in topics:
            imported.unknown_queries[query_id] += 1
            continue
        if len(ratings) != len(topics[query_id]):
            wanted = f"{len(topics[query_id])} questions"
            raise SourceError(f"{row.place}: {len(ratings)} ratings for {wanted}")
        for nugget, value in zip(topics[query_id], ratings, strict=True):
            rating = _rating(row, value, SCALES[imported.scale.name].highest)
            if nugget is None or (rating == -1 and imported.export is not None):
                continue  # its question is missing, as a failure records, or it was not judged
            if rating in _FAILED:
                imported.judge(nugget, passage, None, _FAILED[rating], f"rating {value!r}")
            else:
                imported.judge(nugget, passage, rating)
    imported.find_corpus("the passages", "passages/*", "*passages*", "corpus*")


def _rating(row: Row, value: Any, highest: int) -> int | None:
    rating = value
    if isinstance(value, str) and re.fullmatch("-[12]|[0-5]", value):
        rating = int(value)
    if rating is None or (type(rating) is int and -2 <= rating <= highest):
        return rating
    raise SourceError(
        f"{row.place}: a rating is {shown(str(value))}; allowed: 0 to {highest}, -1 "
        "where none was in the reply, -2 where there was no reply"
    )


def _read_topics(imported: Imported) -> dict[str, list[Nugget | None]]:
    """Give the nuggets of each topic by its questions; None where a question is missing."""
    requests: dict[str, str] = {}
    file = imported.part("topics", *_TOPICS, *_QUESTIONS)
    if "subquestions" in file.name:
        request = imported.optional_part("requests", "*request*.jsonl")
        for row in imported.rows(request) if request else ():
            requests[row.id(*_TOPIC_IDS)] = row.text("request", "topic")
    topics: dict[str, list[Nugget | None]] = {}
    for row in imported.rows(file):
        own, ids = row.id(*_TOPIC_IDS), row.texts("nugget_ids")
        text = row.text("topic", "request", default=requests.get(own, ""))
        answer = row.text("report", "summary", default="")
        query_id = imported.add_query(row, own, text=text, answer=answer).query_id
        questions = row.list("questions", "subquestions")
        if ids and len(ids) != len(questions):
            raise row.fault("nugget_ids", "one id for each question")
        ids = ids or tuple(f"{query_id}_{place + 1}" for place in range(len(questions)))
        topics[query_id] = [
            _nugget(imported, row, query_id, nugget_id, question)
            for nugget_id, question in zip(ids, questions, strict=True)
        ]
    return topics


def _nugget(
    imported: Imported, row: Row, query_id: str, nugget_id: str, question: Any
) -> Nugget | None:
    if question is not None and not isinstance(question, str):
        raise row.fault(row.name("questions", "subquestions"), "a list of texts")
    text = (question or "").strip()
    if text and text != "NA":  # what the published data have where a reply held no question
        return imported.add_nugget(row, query_id, nugget_id, text)
    imported.fail(query_id, "nuggets", "unparsed", f"question {nugget_id!r} is {question!r}")
    return None


def _ratings(imported: Imported) -> Iterator[Row]:
    """Give the ratings of all questions of a topic in one passage, row by row."""
    files = imported.parts(*_RATINGS)  # CRUX may write them in shards
    if not files:
        raise SourceError(f"{imported.path}: has no ratings; looked for {', '.join(_RATINGS)}")
    shards = {int(match[1]) for file in files if (match := _SHARD.search(file.name))}
    if missing := sorted({*range(max(shards, default=0))} - shards):
        raise SourceError(f"{imported.path}: the ratings of shard {missing[0]} are missing")
    return chain.from_iterable(map(imported.rows, files))


CRUX = Format(
    name="crux",
    how_to_load=_HOW_TO_LOAD,
    write=_write,
    read=_read,
    cannot_hold=("importance", "evidence", "chunks", "pool"),
)
