"""A run: what one retriever found for each query, and its TREC file.

A line of the file is `query_id Q0 chunk_id rank score run_name`, one per retrieved chunk.
Chunk ids may hold spaces, so a line is taken apart from both ends.
"""

import math
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Self, SupportsFloat

from freshstack_dspy.errors import CollectionError
from freshstack_dspy.measures.qrels import checked_keys
from freshstack_dspy.records import ScoredChunk, ranked

_LINE = "a line is: query_id Q0 chunk_id rank score run_name"
_SCORES = "{query: {chunk: score}}"
_BYTE_ORDER_MARK = "\ufeff"
_RANK = re.compile("[+-]?[0-9]{1,18}")
"""Within the integers of C."""
_GZIP = b"\x1f\x8b"
_NOT_IN_A_LINE = re.compile(f"[\t\n\r{_BYTE_ORDER_MARK}]")
_NOT_IN_UTF8 = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Run:
    """The rankings of one retriever.

    However the rankings are handed in, they are kept in the one order of this program: score
    descending, then id ascending. Other programs order by other rules, so what was handed in is
    remembered where it is in another order; two runs with the same scores are equal all the same.

    Attributes:
        name: What the retriever is called; the last field of a TREC line.
        rankings: The scored chunks by query id; an empty ranking is a query without results.
        listed: By query, the chunk ids as they were listed when they were handed in, where that is
            not the order of `rankings`.
        by_rank: By query, the chunk ids by the rank column of the file, where that is not as they
            were listed; none where a rank stands twice, as in files with 0 in every line.

    Raises:
        CollectionError: A chunk stands twice in a ranking, or a score is not a finite number.
    """

    name: str
    rankings: Mapping[str, tuple[ScoredChunk, ...]]
    listed: Mapping[str, tuple[str, ...]] = field(default_factory=dict, compare=False, repr=False)
    by_rank: Mapping[str, tuple[str, ...]] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        _check_plain(self.name, self.rankings)
        rankings = {query: _in_order(query, ranking) for query, ranking in self.rankings.items()}
        for remembered in (self.listed, self.by_rank):
            _check_other_chunks(remembered, rankings)
        listed = dict(self.listed)
        for query, ranking in self.rankings.items():
            if query not in listed and tuple(ranking) != rankings[query]:
                listed[query] = tuple(chunk_id for chunk_id, _ in ranking)
        object.__setattr__(self, "rankings", rankings)
        object.__setattr__(self, "listed", listed)

    @classmethod
    def from_scores(cls, scores: Mapping[str, Mapping[str, float]], *, name: str = "run") -> Self:
        """Make a run of scores, as BEIR, pytrec_eval and ranx hold them.

        Args:
            scores: Query id -> chunk id -> score; the higher the better. A query without chunks
                stays one, with an empty ranking.
            name: What the retriever is called.

        Raises:
            CollectionError: They are not such scores, or one is not a finite number.
        """
        rankings = {}
        for query in checked_keys("scores", scores, _SCORES):
            found = checked_keys(f"query {query!r}", scores[query], _SCORES)
            for chunk_id, score in found.items():
                if not isinstance(score, float) and not isinstance(score, SupportsFloat):
                    raise CollectionError(
                        f"query {query!r}: the score of chunk {chunk_id!r} is {score!r:.200}, and "
                        f"not a number; scores are {_SCORES}"
                    )
            rankings[query] = tuple(
                ScoredChunk(chunk_id, float(score)) for chunk_id, score in found.items()
            )
        return cls(name, rankings)

    def without(self, query_ids: Iterable[str]) -> Self:
        """Leave queries out; one that is not there is passed over."""
        left_out = set(query_ids)
        kept = [query for query in self.rankings if query not in left_out]
        return replace(
            self,
            rankings={query: self.rankings[query] for query in kept},
            listed={query: self.listed[query] for query in kept if query in self.listed},
            by_rank={query: self.by_rank[query] for query in kept if query in self.by_rank},
        )


def read_run(path: Path | str) -> Run:
    """Read a run in TREC format.

    The scores decide the order: the official `freshstack` package writes rank 0 in every line.
    The rank column is remembered for the conventions that go by it. Blank lines are passed over.

    Args:
        path: A UTF-8 text file; fields are separated by spaces or tabs, and only the chunk id
            may hold spaces, which are kept.

    Raises:
        CollectionError: With file and line, where a line cannot be understood, a score is not a
            finite number, a chunk stands twice for a query, or two runs share the file.
    """
    path = Path(path)
    lines = _Lines()
    try:
        with path.open("rb") as file:
            for number, raw in enumerate(file, start=1):
                try:
                    lines.take(raw)
                except ValueError as error:
                    raise CollectionError(f"{path}:{number}: {error}") from None
    except OSError as error:
        raise CollectionError(f"{path}: the run cannot be read: {error.strerror}") from None
    if lines.name is None:
        raise CollectionError(f"{path}: the run is empty; {_LINE}")
    return lines.run(lines.name)


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


class _Lines:
    """The lines of a file, taken apart from both ends."""

    def __init__(self) -> None:
        self.name: str | None = None
        self._scores: dict[str, dict[str, float]] = {}
        self._ranks: dict[str, array[int]] = {}

    def take(self, raw: bytes) -> None:
        """Take a line apart and note its score and its rank."""
        if raw.startswith(_GZIP):
            raise ValueError("the file is compressed; unpack it with gunzip")
        try:
            text = raw.decode("utf-8").removeprefix(_BYTE_ORDER_MARK).strip()
        except UnicodeDecodeError as error:
            where = f"byte 0x{raw[error.start]:02x} at byte {error.start + 1} of the line"
            raise ValueError(f"not UTF-8: {where}; save the file as UTF-8") from None
        if not text:
            return
        head = text.split(None, 2)
        tail = head[-1].rsplit(None, 3)
        if len(head) != 3 or len(tail) != 4:
            raise ValueError(f"{text[:200]!r} has too few fields; {_LINE}")
        query_id, (chunk_id, rank, score, name) = head[0], tail
        number = _rank(rank)
        if name != self.name and self.name is not None:
            raise ValueError(
                f"run name {name!r} after {self.name!r}; a file holds one run: split it"
            )
        if _NOT_IN_A_LINE.search(chunk_id):
            raise ValueError(
                f"chunk id {chunk_id[:200]!r} holds a tab, a line break or a byte order mark"
            )
        found = self._scores.setdefault(query_id, {})
        if chunk_id in found:
            raise ValueError(f"chunk {chunk_id!r} stands twice for query {query_id!r}; remove one")
        found[chunk_id] = _number(score)
        self._ranks.setdefault(query_id, array("q")).append(number)
        self.name = name

    def run(self, name: str) -> Run:
        """Make the run, letting each query's lines go: a run may hold millions."""
        rankings = {}
        by_rank = {}
        for query in list(self._scores):
            found, ranks = self._scores.pop(query), self._ranks.pop(query)
            rankings[query] = tuple(map(ScoredChunk._make, found.items()))
            if any(rank >= after for rank, after in pairwise(ranks)):
                by_rank[query] = _in_rank_order(list(found), ranks)
        return Run(name, rankings, by_rank=by_rank)


def _in_rank_order(listed: list[str], ranks: "array[int]") -> tuple[str, ...]:
    """Order chunks by their ranks; nothing where a rank stands twice."""
    if len(set(ranks)) < len(ranks):
        return ()
    return tuple(listed[place] for place in sorted(range(len(listed)), key=ranks.__getitem__))


def _rank(rank: str) -> int:
    if not _RANK.fullmatch(rank):
        raise ValueError(f"rank {rank[:50]!r} is not a whole number; {_LINE}, the name in one word")
    return int(rank)


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


def _check_plain(name: object, rankings: object) -> None:
    """Refuse scores where rankings belong."""
    plain = not isinstance(rankings, Mapping) or any(map(_is_plain, rankings.values()))
    if plain or not isinstance(name, str):
        raise CollectionError(
            "a run is Run(name, {query: (ScoredChunk(chunk_id, score), ...)}); of scores {query: "
            "{chunk: score}} Run.from_scores makes one, and read_run reads a TREC file"
        )


def _is_plain(ranking: object) -> bool:
    """Tell whether it is a dictionary, or ids without scores."""
    if isinstance(ranking, list | tuple):
        return bool(ranking) and isinstance(ranking[0], str)
    return isinstance(ranking, Mapping | str)


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


def _check_other_chunks(
    remembered: Mapping[str, tuple[str, ...]], rankings: Mapping[str, tuple[ScoredChunk, ...]]
) -> None:
    """Refuse an order that is not of the chunks of its query."""
    for query, order in remembered.items():
        if order and sorted(order) != sorted(chunk.chunk_id for chunk in rankings.get(query, ())):
            raise CollectionError(
                f"query {query!r}: the order remembered is not of the chunks of its ranking; "
                "make the run anew, or leave queries out with run.without"
            )


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
