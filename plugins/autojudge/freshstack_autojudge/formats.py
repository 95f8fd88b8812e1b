"""TREC Auto-Judge (autojudge-base 1.0.0): topics, nugget banks, qrels and documents."""

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from freshstack_autojudge.banks import (
    Bank,
    BankNugget,
    bank,
    by_text,
    claim,
    nugget_docs,
    ragtime_bank,
    read_bank,
    read_nugget_docs,
)
from freshstack_dspy import Format, read_qrels
from freshstack_dspy.errors import SourceError
from freshstack_dspy.formats.imported import Imported
from freshstack_dspy.formats.selection import (
    GRADES,
    Files,
    Selection,
    changed_ids,
    corpus_rows,
    query_metadata,
    word,
)
from freshstack_dspy.records import Chunk, Nugget, Spans, Status
from freshstack_dspy.rows import Row

_HOW_TO_LOAD = f"""\
    auto-judge run --workflow workflow.yml --rag-topics topics.jsonl --nugget-banks nuggets.jsonl
    auto-judge-evaluate qrel-evaluate --truth-qrels qrels.txt --predict-qrels theirs.qrels.txt

`nuggets.jsonl` has banks of format v3: a reference is a chunk that supports the claim, its offsets
are bytes of the chunk's text, and `metadata.labels` has the label of each judged chunk, null where
judging failed. `ragtime26.jsonl` and `nugget_docs` have the same nuggets.

{GRADES}"""


def _write(selection: Selection) -> Files:
    chunks = {chunk_id: word(chunk_id) for chunk_id in selection.collection.corpus.ids}
    ids = {one.query_id: _file_word(one.query_id) for one in selection.queries}
    of_chunk = {chunk.chunk_id: chunk for chunk in selection.collection.chunks()}
    texts = {chunks[chunk_id]: chunk.text for chunk_id, chunk in of_chunk.items()}
    spans: dict[str, dict[str, Spans]] = defaultdict(dict)
    for one in selection.collection.judgments:
        if one.evidence:
            chunk = of_chunk[one.chunk_id]
            spans[one.nugget_id][chunks[one.chunk_id]] = _in_text(chunk, one.evidence)
    topics, banks, ragtime, documents = [], [], [], {}
    for query in selection.queries:
        topic = ids[query.query_id]
        row = {"title": query.title, "problem_statement": query.body, "answer": query.answer}
        topics.append({"request_id": topic, **row, "metadata": query_metadata(query)})
        nuggets = by_text(
            [
                BankNugget(
                    nugget_id=one.nugget_id,
                    text=one.text,
                    importance=one.importance,
                    labels={chunks[c]: n for c, n in selection.labels[one.nugget_id].items()},
                    evidence=spans[one.nugget_id],
                )
                for one in selection.nuggets[query.query_id]
            ]
        )
        supporting = {
            key: [chunks[c] for c, n in selection.support[str(one.nugget_id)].items() if n]
            for key, one in nuggets.items()
        }
        claims = {key: claim(one, supporting[key], texts) for key, one in nuggets.items()}
        banks.append(bank(topic, query.title, claims))
        name = selection.collection.name
        ragtime.append(ragtime_bank(topic, name, query.text, supporting))
        documents[f"nugget_docs/nuggets_{topic}.json"] = nugget_docs(supporting)
    yield "topics.jsonl", topics
    yield "nuggets.jsonl", banks
    yield "ragtime26.jsonl", ragtime
    yield from documents.items()
    yield "qrels.txt", (f"{ids[q]} 0 {chunks[c]} {grade}" for q, c, grade in selection.grades())
    corpus = corpus_rows(selection, chunks)
    yield "corpus.jsonl", ({"id": row.pop("_id"), **row} for row in corpus)
    yield from changed_ids(queries=ids.items(), chunks=chunks.items())


def _file_word(id_: str) -> str:
    """Give an id as it is where a file can be called so, or else by a hash."""
    plain = re.fullmatch(r"[A-Za-z0-9._-]{1,100}", id_)
    return id_ if plain else f"~{hashlib.sha256(id_.encode()).hexdigest()[:32]}"


def _in_text(chunk: Chunk, spans: Spans) -> Spans:
    """Places in a chunk's file as places in its text in UTF-8."""
    return tuple(
        (
            len(chunk.text[: chunk.place_at(start)].encode()),
            len(chunk.text[: chunk.place_at(end)].encode()),
        )
        for start, end in spans
    )


_BANKS = (
    "*nuggets*.jsonl",
    "*nuggets*.jsonl.gz",
    "*bank*.jsonl",
    "nuggets_*.json",
    "*/nuggets_*.json",
)


def _read(found: Imported) -> None:
    """Read nugget banks of topics: a document that a nugget refers to supports it.

    A document that the qrels grade 0 supports none of its topic's nuggets. Of one that they grade
    higher, they do not tell which it supports.
    """
    files = found.parts(*_BANKS) if found.path.is_dir() else [found.path]
    topics = found.optional_part("topics", "*topics*.jsonl", "*requests*.jsonl")
    of_topic = {row.id("request_id"): row for row in (found.rows(topics) if topics else ())}
    nuggets: dict[str, list[tuple[Nugget, BankNugget]]] = {}
    for row, given in _banks(found, files):
        topic = of_topic.get(given.query_id, row)
        query_id = found.add_query(
            topic if topic is not row else Row(row.place, {}),
            given.query_id,
            title=topic.text("title", default=given.query),
            body="\n\n".join(
                filter(None, map(topic.optional, ("problem_statement", "background")))
            ),
            answer=topic.text("answer", default=""),
        ).query_id
        nuggets[query_id] = [
            (
                found.add_nugget(
                    row,
                    query_id,
                    one.nugget_id or f"{query_id}_{number}",
                    one.text,
                    importance=one.importance,
                ),
                one,
            )
            for number, one in enumerate(given.nuggets)
        ]
    found.find_corpus("the documents", "corpus*", "documents*")
    wanted = {document for of in nuggets.values() for _, one in of for document in one.evidence}
    chunks = {}
    if wanted and found.documents is not None:
        found.documents = list(found.documents)
        ours = {found.ours("chunks", document) for document in wanted}
        chunks = {one.chunk_id: one for one in found.documents if one.chunk_id in ours}
    found.use_scale_of(_labels(found, nuggets))
    unsupporting = _graded_zero(found)
    for query_id, of_query in nuggets.items():
        for nugget, one in of_query:
            labels = {**dict.fromkeys(unsupporting.get(query_id, ()), 0), **one.labels}
            for document, label in labels.items():
                chunk = chunks.get(found.ours("chunks", document))
                spans = one.evidence.get(document, ()) if chunk else ()
                status: Status = "ok" if label is not None else "failed"
                found.judge(nugget, document, label, status, evidence=_in_file(chunk, spans))


def _labels(
    found: Imported, nuggets: dict[str, list[tuple[Nugget, BankNugget]]]
) -> list[int | None]:
    labels = [n for of in nuggets.values() for _, one in of for n in one.labels.values()]
    for n in labels:
        if n is not None and (type(n) is not int or not 0 <= n <= 5):
            raise SourceError(f"{found.path}: label {n!r}; allowed: 0 to 5, or null")
    return labels


def _banks(found: Imported, files: Sequence[Path]) -> Iterator[tuple[Row, Bank]]:
    if not files:
        raise SourceError(
            f"{found.path}: has no nugget banks; looked for {', '.join(_BANKS)}; qrels without "
            "nuggets are imported with the format beir"
        )
    for file in files:
        for row in found.rows(file):
            if row.has("claim_bank") or row.has("nugget_bank") or row.has("qid"):
                yield row, read_bank(row)
            else:
                topic = file.name.removeprefix("nuggets_").removesuffix(".json")
                yield row, read_nugget_docs(row, topic)


def _graded_zero(found: Imported) -> dict[str, list[str]]:
    """Give the documents that the qrels grade 0, by query; of an export of ours all is known."""
    file = None if found.export else found.optional_part("qrels", "*qrels.txt", "*.qrels")
    if file is None:
        return {}
    found.files.append(file)
    qrels = read_qrels(file)
    return {
        found.ours("queries", query): [
            one for one, grade in qrels.labels[query].items() if not grade
        ]
        for query in qrels.nuggets
    }


def _in_file(chunk: Chunk | None, spans: Spans) -> Spans:
    """Places in a chunk's text in UTF-8 as places in its file."""
    if chunk is None:
        return ()
    data = chunk.text.encode()
    places = [[len(data[:place].decode("utf-8", "ignore")) for place in span] for span in spans]
    return tuple((chunk.byte_at(start), chunk.byte_at(end)) for start, end in places)


AUTOJUDGE = Format(
    name="autojudge",
    how_to_load=_HOW_TO_LOAD,
    write=_write,
    read=_read,
    cannot_hold=("pool",),
)
