"""Which questions may be trained on: none that is measured, nor any that gives one of these away."""

import hashlib
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from freshstack_dspy.errors import CollectionError, ConfigError
from freshstack_dspy.measures.run import Run, read_run
from freshstack_dspy.records import Chunk
from freshstack_dspy.stored.folder import StoredCollection
from freshstack_dspy.stored.near_duplicates import alike_questions, clusters
from freshstack_dspy.stored.record_files import rows
from freshstack_dspy.text import ALIKE

DEV_SHARE = 0.1
_AT_ONCE = 10_000
"""Chunks in memory."""
Marks = dict[str, set[str]]
"""What each question may share with others: its evidence, and that it asks nearly the same."""
Measured = Run | StoredCollection | Path | str
"""What is measured: a run or its file, a collection or its folder, or the folder of a leaderboard."""


class Shared(NamedTuple):
    """What a question shares with one that is held out."""

    what: str
    query_id: str
    """The query that is held out."""


class Sides(NamedTuple):
    """Questions by side; those of different sides share no mark."""

    train: tuple[str, ...]
    dev: tuple[str, ...]
    test: tuple[str, ...]
    left_out: dict[str, Shared]
    """The questions that are on no side."""
    apart: dict[str, set[str]]
    """The marks that no passage of train, or of dev, may have."""


def split_questions(
    collection: StoredCollection, own: Iterable[str], measured: Iterable[Measured], share: float
) -> Sides:
    """Divide questions into train, dev and test, the same on every machine.

    Questions that share a mark, with each other or by way of others, are on one side. Where so many
    hang together that this holds out less than half of what is to be, questions are cut out of the
    rest, and those that share a mark with them are left out. No question is cut out for dev.

    Args:
        collection: That of the questions.
        own: The questions to divide, by id.
        measured: What is measured; where something is, its questions are the test.
        share: Else how much of the questions is.

    Raises:
        CollectionError: What is measured cannot be read, or a run has none of these questions.
        ConfigError: A leaderboard names no collections.
    """
    marks, held = _marks(collection, measured)
    order = sorted(own, key=lambda id_: hashlib.sha256(id_.encode()).hexdigest())
    if not held and share > 0:
        count = max(1, round(share * len(order)))
        held = _whole_groups(order, marks, count)
        if 2 * len(held) < count:
            _cut_out(order, marks, held, count)
    left_out = _sharing(order, marks, held)
    rest = [id_ for id_ in order if id_ not in held and id_ not in left_out]
    dev = _whole_groups(rest, marks, round(DEV_SHARE * len(rest)))
    tested = {mark for id_ in held for mark in marks[id_]}
    return Sides(
        train=tuple(sorted(id_ for id_ in rest if id_ not in dev)),
        dev=tuple(sorted(dev)),
        test=tuple(sorted(id_ for id_ in order if id_ in held)),
        left_out=left_out,
        apart={"train": tested.union(*(marks[id_] for id_ in dev)), "dev": tested},
    )


# Marks


def marks_of(chunk: Chunk) -> set[str]:
    """The marks of evidence: its document, and its text, which other documents may hold too."""
    marks, text = {f"the document {chunk.source}/{chunk.path}"}, " ".join(chunk.text.split())
    if text:
        marks.add(f"the text {hashlib.sha256(text.encode()).hexdigest()[:16]}")
    return marks


def _marks(collection: StoredCollection, measured: Iterable[Measured]) -> tuple[Marks, set[str]]:
    """Mark the questions of a collection, and those measured elsewhere; and say which are measured."""
    queries = {one.query_id: one for one in collection.queries}
    held, others = _measured(measured, queries.keys())
    marks = {query_id: set[str]() for query_id in queries}
    _mark_evidence(collection, {query_id: query_id for query_id in queries}, marks)
    for number, other in enumerate(others, start=1):
        names = {one.query_id: f"{one.query_id} of {other.name}#{number}" for one in other.queries}
        queries |= {names[one.query_id]: one for one in other.queries}
        marks |= {name: set[str]() for name in names.values()}
        held |= marks.keys() & names.values()
        _mark_evidence(other, names, marks)
    for pair in alike_questions(queries, ALIKE):
        for id_ in pair:
            marks[id_].add(f"nearly the same question ({' and '.join(pair)})")
    return marks, held


def _mark_evidence(collection: StoredCollection, names: Mapping[str, str], marks: Marks) -> None:
    """Mark each question by the chunks that support its nuggets."""
    found: dict[str, list[str]] = {}
    for query_id, chunk_id, label in rows(collection.judgments, "query_id", "chunk_id", "label"):
        if label is not None and label >= collection.threshold:
            found.setdefault(chunk_id, []).append(names[query_id])
    chunk_ids = sorted(found)
    for start in range(0, len(chunk_ids), _AT_ONCE):
        for chunk_id, chunk in collection.corpus.chunks(
            chunk_ids[start : start + _AT_ONCE]
        ).items():
            for name in found[chunk_id]:
                marks[name] |= marks_of(chunk)


def _measured(
    sources: Iterable[Measured], own: AbstractSet[str]
) -> tuple[set[str], list[StoredCollection]]:
    """Give which of our questions runs have, and the collections that are measured besides."""
    ids: set[str] = set()
    others: list[StoredCollection] = []
    for source in sources:
        if isinstance(source, StoredCollection):
            others.append(source)
        elif not isinstance(source, Run) and Path(source).is_dir():
            others += map(StoredCollection.load, _collections(Path(source)))
        else:
            run = source if isinstance(source, Run) else read_run(source)
            if own.isdisjoint(run):
                raise CollectionError(f"the run {run.name} has no question of this collection")
            ids |= own & run.keys()
    return ids, others


def _collections(folder: Path) -> list[Path]:
    """The collections of a leaderboard's topics; of another folder itself."""
    board = folder / "leaderboard.toml"
    if not board.is_file():
        return [folder]
    try:
        topics = tomllib.loads(board.read_text("utf-8"))["collections"].values()
        return [folder / topic["path"] for topic in topics]
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise ConfigError(f"{board}: names no collections of topics: {error!r}") from None


# Sides


def _whole_groups(order: Sequence[str], marks: Marks, count: int) -> set[str]:
    """Take groups of questions that hang together, as far as they bring us nearer to a count."""
    pairs = (pair for ids in _holders(order, marks).values() for pair in pairwise(ids))
    taken: set[str] = set()
    for group in clusters(order, pairs):
        if abs(len(taken) + len(group) - count) < abs(len(taken) - count):
            taken.update(group)
    return taken


def _cut_out(order: Sequence[str], marks: Marks, taken: set[str], count: int) -> None:
    """Take the question that costs the fewest others, until there are so many."""
    holders = _holders(order, marks)
    around = {id_: {other for mark in marks[id_] for other in holders[mark]} for id_ in order}
    lost: set[str] = set()
    while len(taken) < count and len(taken) + len(lost) < len(order):
        free = (id_ for id_ in order if id_ not in taken)
        best = min(free, key=lambda id_: len(({id_} | around[id_]) - taken - lost))
        taken.add(best)
        lost = (lost | around[best]) - taken


def _holders(order: Iterable[str], marks: Marks) -> dict[str, list[str]]:
    """The questions that have each mark."""
    found: dict[str, list[str]] = {}
    for id_ in order:
        for mark in marks[id_]:
            found.setdefault(mark, []).append(id_)
    return found


def _sharing(order: Iterable[str], marks: Marks, held: AbstractSet[str]) -> dict[str, Shared]:
    """The other questions that share something with those held out."""
    owners = {mark: id_ for id_ in sorted(held) for mark in marks[id_]}
    shared = {id_: sorted(marks[id_] & owners.keys()) for id_ in order if id_ not in held}
    return {id_: Shared(found[0], owners[found[0]]) for id_, found in shared.items() if found}
