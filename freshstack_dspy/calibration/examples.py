"""From people's labels to the examples that DSPy's optimizers take."""

import hashlib
from collections.abc import Mapping, Sequence
from statistics import mode
from typing import Any, NamedTuple

import dspy

from freshstack_dspy.calibration.agreement import binary
from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.collection.near_duplicates import alike_pairs, clusters
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.lm.baseline.support import support
from freshstack_dspy.records import HumanLabel, Scale
from freshstack_dspy.signatures.checks import ShownQuestion
from freshstack_dspy.signatures.judge_support import (
    ChunkSupport,
    ChunkVerdict,
    NumberedChunk,
    NumberedNugget,
)

_NEARLY_THE_SAME = 0.8
"""From which similarity on two questions count as one: Jaccard of their terms."""
_REASON = {True: "A person found these nuggets in the chunk.", False: "A person found none in it."}


SUPPORT = Scale()


class LabelledExample(NamedTuple):
    """One call of the judge with the verdicts that people gave."""

    query_id: str
    example: dspy.Example


class Split(NamedTuple):
    """Examples divided by query: no query is on both sides."""

    train: list[LabelledExample]
    test: list[LabelledExample]


def judge_examples(
    labels: Sequence[HumanLabel], collection: Collection | None, batch: int, scale: Scale = SUPPORT
) -> list[LabelledExample]:
    """Make one example for each batch of chunks of a query that have labels for the same nuggets.

    Where several people labelled a pair, the majority counts; a tie is left out. On the scale
    support a person's yes is full support, and the words that the judge is to quote, which people
    do not mark, are the chunk's sentence that is nearest to the nugget.

    Args:
        labels: With their texts, or with ids of the collection.
        collection: Where texts are looked up first.
        batch: Most chunks in one example.
        scale: Of the judge: `binary` or `support`.

    Raises:
        CollectionError: A text is neither in the labels nor in the collection, or two labels
            give the same thing different texts.
    """
    texts = _texts(labels, collection)
    by_query: dict[str, dict[str, dict[str, int]]] = {}
    for (query_id, nugget_id, chunk_id), label in _majorities(labels, scale).items():
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
                example = _example(query_id, nugget_ids, some, texts, scale)
                examples.append(LabelledExample(query_id, example))
    return examples


def split_by_query(examples: Sequence[LabelledExample], test_share: float, seed: int) -> Split:
    """Divide examples by query, by a hash of seed and id, the same on every machine.

    Queries that ask nearly the same are on one side, or the test would be on what was trained.

    Raises:
        CollectionError: There are fewer than two queries that differ.
    """
    questions = {example.query_id: example.example.question.text for example in examples}
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


def _texts(
    labels: Sequence[HumanLabel], collection: Collection | None
) -> dict[tuple[str, ...], Any]:
    """The texts of labels: the collection's, or else their own; of a chunk path, text and headings.

    By ("question", query_id), ("nugget", query_id, nugget_id) and ("chunk", chunk_id).
    """
    texts: dict[tuple[str, ...], Any] = {}
    needed: set[tuple[str, ...]] = set()
    for label in labels:
        shown = None if label.chunk is None else (label.chunk_id, label.chunk, ())
        asked = None if label.question is None else ShownQuestion(body=label.question)
        own: dict[tuple[str, ...], Any] = {
            ("question", label.query_id): asked,
            ("nugget", label.query_id, label.nugget_id): label.nugget,
            ("chunk", label.chunk_id): shown,
        }
        needed |= own.keys()
        for key, text in own.items():
            if text is not None and texts.setdefault(key, text) != text:
                raise CollectionError(
                    f"two labels give {key[0]} {key[-1]!r} different texts; one id is one {key[0]}"
                )
    if collection is not None:
        texts |= {("question", one.query_id): ShownQuestion.of(one) for one in collection.queries}
        texts |= {("nugget", one.query_id, one.nugget_id): one.text for one in collection.nuggets}
        texts |= {
            ("chunk", one.chunk_id): (f"{one.source}/{one.path}", one.passage, one.headings)
            for one in collection.chunks()
            if ("chunk", one.chunk_id) in needed
        }
    for what, *_, identity in sorted(needed - texts.keys()):
        if collection is not None:
            raise CollectionError(
                f"{collection.name}: the collection has no {what} {identity!r}, which labels "
                "name: take these labels out, or name the collection that they are of"
            )
        raise CollectionError(
            f"the labels do not carry the text of {what} {identity!r}: give each label its "
            f"{what!r}, or name the collection with --collection"
        )
    return texts


def _example(
    query_id: str,
    nugget_ids: Sequence[str],
    chunks: Mapping[str, Mapping[str, int]],
    texts: Mapping[tuple[str, ...], Any],
    scale: Scale,
) -> dspy.Example:
    question = texts["question", query_id]
    statements = [texts["nugget", query_id, nugget_id] for nugget_id in nugget_ids]
    shown: list[NumberedChunk] = []
    verdicts: list[ChunkVerdict | ChunkSupport] = []
    for number, (chunk_id, labels) in enumerate(chunks.items(), 1):
        path, text, headings = texts["chunk", chunk_id]
        shown.append(NumberedChunk(number=number, path=path, headings=headings, text=text))
        grades = {place: labels[nugget] for place, nugget in enumerate(nugget_ids, 1)}
        supported = [place for place, grade in grades.items() if grade]
        said: dict[str, Any] = {"chunk": number, "reason": _REASON[bool(supported)]}
        if scale.name == "binary":
            verdicts.append(ChunkVerdict(**said, supported=supported))
            continue
        nearest = support(question.text, statements, [text])[0].nearest
        quoted = [
            {"nugget": place, "grade": grades[place], "quotes": [nearest[place - 1]]}
            for place in supported
        ]
        verdicts.append(ChunkSupport.model_validate({**said, "supported": quoted}))
    return dspy.Example(
        question=question,
        nuggets=[
            NumberedNugget(number=number, text=text) for number, text in enumerate(statements, 1)
        ],
        chunks=shown,
        verdicts=verdicts,
    ).with_inputs("question", "nuggets", "chunks")


def _majorities(labels: Sequence[HumanLabel], scale: Scale) -> dict[tuple[str, str, str], int]:
    """The label of each pair as the judge of a scale gives it; of those in the majority, the mode."""
    full = 2 if all(label.label <= 1 for label in labels) else 1  # yes and no: yes is full support
    votes: dict[tuple[str, str, str], list[int]] = {}
    for label in labels:
        pair = (label.query_id, label.nugget_id, label.chunk_id)
        votes.setdefault(pair, []).append(label.label * full)
    grades: dict[tuple[str, str, str], int] = {}
    for pair, given in votes.items():
        supporting = sum(binary(label, scale.threshold) for label in given)
        if 2 * supporting != len(given):
            wins = int(2 * supporting > len(given))
            grade = mode(sorted(one for one in given if binary(one, scale.threshold) == wins))
            grades[pair] = wins if scale.name == "binary" else grade
    return grades
