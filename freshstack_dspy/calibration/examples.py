"""From people's labels to the examples that DSPy's optimizers take."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

import dspy

from freshstack_dspy.calibration.agreement import binary
from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.collection.near_duplicates import alike_pairs, clusters
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.records import HumanLabel
from freshstack_dspy.signatures.judge_support import ChunkVerdict, NumberedChunk, NumberedNugget

Key = TypeVar("Key")
Text = TypeVar("Text")

_NEARLY_THE_SAME = 0.8
"""From which similarity on two questions count as one: Jaccard of their terms."""
_REASON = {True: "A person found these nuggets in the chunk.", False: "A person found none in it."}


class LabelledExample(NamedTuple):
    """One call of the judge with the verdicts that people gave."""

    query_id: str
    example: dspy.Example


class Split(NamedTuple):
    """Examples divided by query: no query is on both sides."""

    train: list[LabelledExample]
    test: list[LabelledExample]


def judge_examples(
    labels: Sequence[HumanLabel], collection: Collection | None, batch: int
) -> list[LabelledExample]:
    """Make one example for each batch of chunks of a query that have labels for the same nuggets.

    Where several people labelled a pair, the majority counts; a tie is left out.

    Args:
        labels: With their texts, or with ids of the collection.
        collection: Where texts are looked up first.
        batch: Most chunks in one example.

    Raises:
        CollectionError: A text is neither in the labels nor in the collection, or two labels
            give the same thing different texts.
    """
    texts = _Texts(labels, collection)
    by_query: dict[str, dict[str, dict[str, int]]] = {}
    for (query_id, nugget_id, chunk_id), label in _majorities(labels).items():
        chunks = by_query.setdefault(query_id, {})
        chunks.setdefault(chunk_id, {})[nugget_id] = label
    examples = []
    for query_id, chunks in sorted(by_query.items()):
        groups: dict[tuple[str, ...], list[str]] = {}
        for chunk_id, of_chunk in sorted(chunks.items()):
            groups.setdefault(tuple(sorted(of_chunk)), []).append(chunk_id)
        for nugget_ids, chunk_ids in groups.items():
            for start in range(0, len(chunk_ids), batch):
                some = {chunk_id: chunks[chunk_id] for chunk_id in chunk_ids[start : start + batch]}
                examples.append(
                    LabelledExample(query_id, _example(query_id, nugget_ids, some, texts))
                )
    return examples


def split_by_query(examples: Sequence[LabelledExample], test_share: float, seed: int) -> Split:
    """Divide examples by query, by a hash of seed and id, the same on every machine.

    Queries that ask nearly the same are on one side, or the test would be on what was trained.

    Raises:
        CollectionError: There are fewer than two queries that differ.
    """
    questions = {example.query_id: str(example.example.question) for example in examples}
    queries = sorted(
        questions,
        key=lambda query_id: hashlib.sha256(f"{seed}\n{query_id}".encode()).hexdigest(),
    )
    groups = clusters(queries, alike_pairs(questions, _NEARLY_THE_SAME))
    if len(groups) < 2:
        same = " that do not ask nearly the same" if len(queries) > 1 else ""
        raise CollectionError(
            f"labels of at least two queries{same} are needed, for train and test; "
            f"here is {len(groups)}"
        )
    tested = _tested(groups, min(max(1, round(len(queries) * test_share)), len(queries) - 1))
    return Split(
        train=[example for example in examples if example.query_id not in tested],
        test=[example for example in examples if example.query_id in tested],
    )


def _tested(groups: Sequence[Sequence[str]], count: int) -> set[str]:
    """Take groups, in their order, that bring the number of queries nearer to a count; not all."""
    tested: set[str] = set()
    left = sum(map(len, groups))
    for group in groups:
        nearer = abs(len(tested) + len(group) - count) <= abs(len(tested) - count)
        if nearer and len(group) < left:
            tested.update(group)
            left -= len(group)
    smallest: Sequence[str] = min(groups, key=len)
    return tested or set(smallest)


class _Texts:
    """The texts of queries, nuggets and chunks: a collection's, or else the labels' own."""

    def __init__(self, labels: Sequence[HumanLabel], collection: Collection | None) -> None:
        self._questions: dict[str, str] = {}
        self._nuggets: dict[tuple[str, str], str] = {}
        self._chunks: dict[str, NumberedChunk] = {}
        for label in labels:
            _keep_one(self._questions, label.query_id, label.question, "question")
            _keep_one(self._nuggets, (label.query_id, label.nugget_id), label.nugget, "nugget")
            if label.chunk is not None:
                shown = NumberedChunk(number=0, path=label.chunk_id, text=label.chunk)
                _keep_one(self._chunks, label.chunk_id, shown, "chunk")
        self._collection = collection
        if collection is not None:
            self._questions |= {query.query_id: query.text for query in collection.queries}
            self._nuggets |= {
                (nugget.query_id, nugget.nugget_id): nugget.text for nugget in collection.nuggets
            }
            wanted = {label.chunk_id for label in labels}
            self._chunks |= {
                chunk.chunk_id: NumberedChunk(
                    number=0, path=f"{chunk.source}/{chunk.path}", text=chunk.passage
                )
                for chunk in collection.chunks()
                if chunk.chunk_id in wanted
            }

    def question(self, query_id: str) -> str:
        return self._found(self._questions, query_id, "question", query_id)

    def nugget(self, number: int, query_id: str, nugget_id: str) -> NumberedNugget:
        text = self._found(self._nuggets, (query_id, nugget_id), "nugget", nugget_id)
        return NumberedNugget(number=number, text=text)

    def chunk(self, number: int, chunk_id: str) -> NumberedChunk:
        chunk = self._found(self._chunks, chunk_id, "chunk", chunk_id)
        return chunk.model_copy(update={"number": number})

    def _found(self, texts: Mapping[Key, Text], key: Key, what: str, identity: str) -> Text:
        if key in texts:
            return texts[key]
        if self._collection is not None:
            raise CollectionError(
                f"{self._collection.name}: the collection has no {what} {identity!r}, which labels "
                "name: take these labels out, or name the collection that they are of"
            )
        raise CollectionError(
            f"the labels do not carry the text of {what} {identity!r}: give each label its "
            f"{what!r}, or name the collection with --collection"
        )


def _keep_one(texts: dict[Key, Text], key: Key, text: Text | None, what: str) -> None:
    if text is not None and texts.setdefault(key, text) != text:
        raise CollectionError(
            f"two labels give {what} {key!r} different texts; one id is one {what}"
        )


def _example(
    query_id: str,
    nugget_ids: Sequence[str],
    chunks: Mapping[str, Mapping[str, int]],
    texts: _Texts,
) -> dspy.Example:
    verdicts = []
    for number, labels in enumerate(chunks.values(), 1):
        supported = [place for place, nugget in enumerate(nugget_ids, 1) if labels[nugget]]
        verdicts.append(
            ChunkVerdict(chunk=number, reason=_REASON[bool(supported)], supported=supported)
        )
    return dspy.Example(
        question=texts.question(query_id),
        nuggets=[
            texts.nugget(number, query_id, nugget_id)
            for number, nugget_id in enumerate(nugget_ids, 1)
        ],
        chunks=[texts.chunk(number, chunk_id) for number, chunk_id in enumerate(chunks, 1)],
        verdicts=verdicts,
    ).with_inputs("question", "nuggets", "chunks")


def _majorities(labels: Sequence[HumanLabel]) -> dict[tuple[str, str, str], int]:
    votes: dict[tuple[str, str, str], list[int]] = {}
    for label in labels:
        pair = (label.query_id, label.nugget_id, label.chunk_id)
        votes.setdefault(pair, []).append(binary(label.label))
    return {
        pair: int(sum(given) * 2 > len(given))
        for pair, given in votes.items()
        if sum(given) * 2 != len(given)
    }
