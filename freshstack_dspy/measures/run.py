"""A run: what one retriever found for each query, and its TREC file.

A line of the file is `query_id Q0 chunk_id rank score run_name`, one per retrieved chunk.
Chunk ids may hold spaces, so a line is taken apart from both ends.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from freshstack_dspy.errors import CollectionError
from freshstack_dspy.records import ScoredChunk, ranked

_LINE = "a line is: query_id Q0 chunk_id rank score run_name"
_BYTE_ORDER_MARK = "\ufeff"
_GZIP = b"\x1f\x8b"
_NOT_IN_A_LINE = re.compile(f"[\t\n\r{_BYTE_ORDER_MARK}]")
_NOT_IN_UTF8 = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Run:
    """The rankings of one retriever.

    However the rankings are handed in, they are kept in the one order of this program: score
    descending, then id ascending.

    Attributes:
        name: What the retriever is called; the last field of a TREC line.
        rankings: The scored chunks by query id; an empty ranking is a query without results.

    Raises:
        CollectionError: A chunk stands twice in a ranking, or a score is not a finite number.
    """

    name: str
    rankings: Mapping[str, tuple[ScoredChunk, ...]]

    def __post_init__(self) -> None:
        rankings = {query: _in_order(query, ranking) for query, ranking in self.rankings.items()}
        object.__setattr__(self, "rankings", rankings)


def read_run(path: Path | str) -> Run:
    """Read a run in TREC format.

    The scores decide the order and the rank column is only checked to be a number: the official
    `freshstack` package writes 0 in all of them. Blank lines are passed over.

    Args:
        path: A UTF-8 text file; fields are separated by spaces or tabs, and only the chunk id
            may hold spaces, which are kept.

    Raises:
        CollectionError: With file and line, where a line cannot be understood, a score is not a
            finite number, a chunk stands twice for a query, or two runs share the file.
    """
    path = Path(path)
    scores: dict[str, dict[str, float]] = {}
    name: str | None = None
    try:
        with path.open("rb") as file:
            for number, raw in enumerate(file, start=1):
                try:
                    name = _take(raw, name, scores)
                except ValueError as error:
                    raise CollectionError(f"{path}:{number}: {error}") from None
    except OSError as error:
        raise CollectionError(f"{path}: the run cannot be read: {error.strerror}") from None
    if name is None:
        raise CollectionError(f"{path}: the run is empty; {_LINE}")
    # Each query's scores are let go as its ranking is made: a run may hold millions.
    return Run(name, {query: _entries(scores.pop(query)) for query in list(scores)})


def write_run(run: Run, path: Path | str) -> None:
    """Write a run in TREC format, ranks from 1, scores so that they read back unchanged.

    A query without results has no line, so it is absent when the file is read back.

    Raises:
        CollectionError: An id or the name cannot stand in a line, the run has no results at
            all, or the file cannot be written.
    """
    _check_word("run name", run.name)
    for query_id, ranking in run.rankings.items():
        _check_word("query id", query_id)
        for chunk_id, _ in ranking:
            _check_chunk_id(chunk_id)
    if not any(run.rankings.values()):
        raise CollectionError(f"run {run.name!r} has no results, so there is nothing to write")
    try:
        with Path(path).open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(_lines(run))
    except OSError as error:
        raise CollectionError(f"{path}: the run cannot be written: {error.strerror}") from None


def _lines(run: Run) -> Iterator[str]:
    for query_id, ranking in run.rankings.items():
        for rank, (chunk_id, score) in enumerate(ranking, start=1):
            yield f"{query_id} Q0 {chunk_id} {rank} {score!r} {run.name}\n"


def _take(raw: bytes, name: str | None, scores: dict[str, dict[str, float]]) -> str | None:
    """Take a line apart from both ends and note its score; give the run's name so far."""
    if raw.startswith(_GZIP):
        raise ValueError("the file is compressed; unpack it with gunzip")
    text = raw.decode("utf-8").removeprefix(_BYTE_ORDER_MARK).strip()
    if not text:
        return name
    head = text.split(None, 2)
    tail = head[-1].rsplit(None, 3)
    if len(head) != 3 or len(tail) != 4:
        raise ValueError(f"{text[:200]!r} has too few fields; {_LINE}")
    query_id, (chunk_id, rank, score, line_name) = head[0], tail
    if not rank.lstrip("+-").isdecimal():
        raise ValueError(f"rank {rank[:50]!r} is not a whole number; {_LINE}, the name in one word")
    if line_name != name and name is not None:
        raise ValueError(f"run name {line_name!r} after {name!r}; a file holds one run: split it")
    if _NOT_IN_A_LINE.search(chunk_id):
        raise ValueError(
            f"chunk id {chunk_id[:200]!r} holds a tab, a line break or a byte order mark"
        )
    found = scores.setdefault(query_id, {})
    if chunk_id in found:
        raise ValueError(f"chunk {chunk_id!r} stands twice for query {query_id!r}; remove one")
    found[chunk_id] = _number(score)
    return line_name


def _number(score: str) -> float:
    """Read a score as C programs write it: of what Python takes beside, it has no meaning here."""
    try:
        number = float(score) if score.isascii() and "_" not in score else math.nan
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(
            f"score {score[:50]!r} is not a finite number; {_LINE}, the name in one word"
        )
    return number


def _entries(found: dict[str, float]) -> tuple[ScoredChunk, ...]:
    return tuple(map(ScoredChunk._make, found.items()))


def _in_order(query_id: str, ranking: tuple[ScoredChunk, ...]) -> tuple[ScoredChunk, ...]:
    scores = {chunk_id: float(score) for chunk_id, score in ranking}
    if len(scores) != len(ranking):
        raise CollectionError(f"query {query_id!r}: a chunk stands twice in the ranking")
    for chunk_id, score in scores.items():
        if not math.isfinite(score):
            raise CollectionError(
                f"query {query_id!r}: the score of chunk {chunk_id!r} is {score!r}; "
                "scores are finite numbers"
            )
    return tuple(ranked(scores))


def _check_word(what: str, word: str) -> None:
    if word.split() != [word] or _BYTE_ORDER_MARK in word or _NOT_IN_UTF8.search(word):
        raise CollectionError(
            f"{what} {word!r} cannot stand in a TREC run; it is one word of Unicode text"
        )


def _check_chunk_id(chunk_id: str) -> None:
    if not chunk_id or chunk_id != chunk_id.strip() or _NOT_IN_A_LINE.search(chunk_id):
        raise CollectionError(
            f"chunk id {chunk_id!r} cannot stand in a TREC run; spaces inside it are allowed, but "
            "not at its ends, and no tab, line break or byte order mark"
        )
    if _NOT_IN_UTF8.search(chunk_id):
        raise CollectionError(f"chunk id {chunk_id!r} cannot be written as UTF-8")
