"""The files of CRUX: nuggets are its questions, labels its ratings, chunks its passages.

    out/ranking_{threshold}/test_topics.tsv                       topic, its text in one line
    out/ranking_{threshold}/test_topics.jsonl                     topic with questions and report
    out/ranking_{threshold}/test_judgements.jsonl                 the ratings of each passage
    out/ranking_{threshold}/test_div_qrels_pr.txt                 topic question passage 0|1
    out/ranking_{threshold}/test_qrels_oracle_context_pr.txt      topic 0 passage 3|2|1
    out/ranking_{threshold}/test_qrels_oracle_adhoc_dr.txt        topic 0 document 1
    out/passages/test_psgs.jsonl                                  {"id", "contents"}

Its tools take the topic of a passage to be what stands before the first `:` of the passage id,
`{topic}:{document}#{passage}`. So a chunk stands once for each topic that it was judged for, and a
chunk that was judged for none under the topic `!corpus`. `ids.json` maps passages to chunks.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from freshstack_dspy.collection.exports.beir import query_metadata
from freshstack_dspy.collection.exports.layout import (
    Names,
    Selection,
    word,
    write_about,
    write_json_lines,
    write_lines,
    write_readme,
)
from freshstack_dspy.collection.exports.trec import one_line
from freshstack_dspy.collection.layouts import (
    CRUX_CONTEXT_QRELS,
    CRUX_DIVERSITY_QRELS,
    CRUX_DOCUMENT_QRELS,
    CRUX_JUDGEMENTS,
    CRUX_NO_RATING,
    CRUX_PASSAGES,
    CRUX_RANKING,
    CRUX_TOPICS,
    CRUX_TOPICS_JSON,
)
from freshstack_dspy.measures.contexts import required_subset
from freshstack_dspy.records import Chunk, Query

_REST = "!corpus"
"""No topic is called so: in a word, two digits follow every `!`."""
_HOW_TO_LOAD = """
The names are those that `evaluation/llm_prejudge` of CRUX reads below its `--dataset_dir`, with
`--threshold` as the folder `ranking_…` says.
A rating of -1 stands where a judgment failed or was never asked for.
In `test_qrels_oracle_context_pr.txt`, 3 is a required passage, 2 a partly redundant and 1 a
redundant one; a topic none of whose questions is answered has no line there, nor has a passage
that is redundant or not as a missing rating would say.
A chunk stands once for each topic that it was judged for, and once under `!corpus` if for none, so
that there are more passages than chunks where topics share chunks; `ids.json` names their chunks.
"""


class _Passage(NamedTuple):
    pid: str
    chunk_id: str
    ratings: list[int | None]
    """One for each nugget of the query."""

    @property
    def document(self) -> str:
        return self.pid.partition("#")[0]


class _Topic(NamedTuple):
    query: Query
    name: str
    passages: list[_Passage]


def write_crux(folder: Path, selection: Selection) -> None:
    """Write topics, ratings, the three qrels and the passages, and what they are."""
    chunks = {chunk.chunk_id: chunk for chunk in selection.chunks()}
    topics = [_topic(query, selection, chunks) for query in selection.queries]
    rest = _rest(topics, chunks)
    threshold = selection.collection.threshold
    ranking = folder / CRUX_RANKING.format(threshold=threshold)
    write_lines(
        ranking / CRUX_TOPICS, (f"{topic.name}\t{one_line(topic.query.text)}" for topic in topics)
    )
    write_json_lines(ranking / CRUX_TOPICS_JSON, (_topic_row(each, selection) for each in topics))
    write_json_lines(ranking / CRUX_JUDGEMENTS, _judgements(topics))
    write_lines(ranking / CRUX_DIVERSITY_QRELS, _diversity_qrels(topics, threshold))
    _write_oracle_qrels(ranking, topics, threshold)
    passages = [(one.pid, one.chunk_id) for topic in topics for one in topic.passages] + rest
    write_json_lines(
        folder / CRUX_PASSAGES,
        ({"id": pid, "contents": chunks[chunk_id].titled} for pid, chunk_id in passages),
    )
    write_readme(folder, selection, f"{_how_many(passages, chunks)}\n{_HOW_TO_LOAD}")
    names = Names({topic.query.query_id: topic.name for topic in topics}, {})
    write_about(folder, selection, "crux", {**names.changed(), "chunks": dict(passages)})


def _how_many(passages: Sequence[object], chunks: Mapping[str, Chunk]) -> str:
    return f"There are {len(passages):,} passages of {len(chunks):,} chunks."


def _topic(query: Query, selection: Selection, chunks: Mapping[str, Chunk]) -> _Topic:
    """Name the judged chunks of a query, numbered through, and their documents by their files."""
    # A topic ends at the first colon of a passage id.
    name = word(query.query_id).replace(":", "!3A")
    nuggets = selection.nuggets[query.query_id]
    labels = selection.labels(query.query_id)
    pids = _passage_ids(name, [chunks[chunk_id] for chunk_id in labels])
    passages = [
        _Passage(pid, chunk_id, [found.get(nugget.nugget_id) for nugget in nuggets])
        for pid, (chunk_id, found) in zip(pids, labels.items(), strict=True)
    ]
    return _Topic(query, name, passages)


def _rest(topics: Sequence[_Topic], chunks: Mapping[str, Chunk]) -> list[tuple[str, str]]:
    """Name the chunks that were judged for no topic: passage id and chunk id."""
    judged = {passage.chunk_id for topic in topics for passage in topic.passages}
    rest = [chunk for chunk in chunks.values() if chunk.chunk_id not in judged]
    pids = _passage_ids(_REST, rest)
    return [(pid, chunk.chunk_id) for pid, chunk in zip(pids, rest, strict=True)]


def _passage_ids(topic: str, chunks: Iterable[Chunk]) -> list[str]:
    files: dict[tuple[str, str], int] = {}
    return [
        f"{topic}:{files.setdefault((chunk.source, chunk.path), len(files))}#{number}"
        for number, chunk in enumerate(chunks)
    ]


def _topic_row(topic: _Topic, selection: Selection) -> dict[str, Any]:
    nuggets = selection.nuggets[topic.query.query_id]
    return {
        "example_id": topic.name,
        "topic": topic.query.text,
        "questions": [nugget.text for nugget in nuggets],
        "report": topic.query.answer,
        "nugget_ids": [nugget.nugget_id for nugget in nuggets],
        "metadata": query_metadata(topic.query),
    }


def _judgements(topics: Sequence[_Topic]) -> Iterator[dict[str, Any]]:
    for topic in topics:
        for passage in topic.passages:
            ratings = [CRUX_NO_RATING if each is None else each for each in passage.ratings]
            yield {"example_id": topic.name, "pid": passage.pid, "rating": ratings}


def _diversity_qrels(topics: Sequence[_Topic], threshold: int) -> Iterator[str]:
    for topic in topics:
        for passage in topic.passages:
            for number, rating in enumerate(passage.ratings, start=1):
                if rating is not None:
                    yield f"{topic.name} {number} {passage.pid} {int(rating >= threshold)}"


def _write_oracle_qrels(ranking: Path, topics: Sequence[_Topic], threshold: int) -> None:
    contexts, documents = [], []
    for topic in topics:
        subset = required_subset([passage.ratings for passage in topic.passages], threshold)
        if not subset.required:
            continue
        contexts += [
            f"{topic.name} 0 {topic.passages[place].pid} {label}"
            for place, label in subset.labels.items()
        ]
        required = (topic.passages[place].document for place in subset.required)
        documents += [f"{topic.name} 0 {document} 1" for document in dict.fromkeys(required)]
    write_lines(ranking / CRUX_CONTEXT_QRELS, contexts)
    write_lines(ranking / CRUX_DOCUMENT_QRELS, documents)
