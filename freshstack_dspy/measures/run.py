"""A run: the results of one retriever for each query, and its TREC file.

A line of the file is `query_id Q0 chunk_id rank score run_name`, one per retrieved chunk.
Chunk ids may hold spaces, so a line is taken apart from both ends.
"""

import math
import operator
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from freshstack_dspy.errors import CollectionError, SourceError
from freshstack_dspy.files import json_value, read_lines, write_file
from freshstack_dspy.measures.spans import Place
from freshstack_dspy.records import ScoredChunk, ranked_ids, scored_chunks

_ID = operator.itemgetter(0)
_LINE = "a line is: query_id Q0 chunk_id rank score run_name"


class Rankings(Mapping[str, tuple[ScoredChunk, ...]]):
    """Rankings by query id, each built from its ids and scores on access."""

    def __init__(
        self, ids: Mapping[str, tuple[str, ...]], scores: Mapping[str, dict[str, float]]
    ) -> None:
        self.ids, self.scores = ids, scores

    def __getitem__(self, query_id: str) -> tuple[ScoredChunk, ...]:
        return tuple(scored_chunks(self.scores[query_id], self.ids[query_id]))

    def __contains__(self, query_id: object) -> bool:
        return query_id in self.ids

    def __iter__(self) -> Iterator[str]:
        return iter(self.ids)

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return repr(dict(self))


class Run(Mapping[str, Mapping[str, float]]):
    """The rankings of one retriever, in this program's order: score descending, then id ascending.

    It is a mapping too, from the query id to the score of each chunk id, the best first.

    Args:
        name: What the retriever is called; the last field of a TREC line. `@nuggets` at its end
            says what was searched with, as `retrieve` writes it.
        rankings: By query id, the scored chunks or the score of each chunk id; an empty ranking is
            a query without results.

    Raises:
        CollectionError: A chunk is twice in a ranking, or a score is not a finite number.
    """

    def __init__(
        self,
        name: str,
        rankings: Mapping[str, Sequence[ScoredChunk]] | Mapping[str, Mapping[str, float]],
    ) -> None:
        self.name = name
        self.scores = {query: _scores(query, ranking) for query, ranking in rankings.items()}
        """The score of each chunk id by query id; this run's own."""
        self.ids = {query: tuple(ranked_ids(scores)) for query, scores in self.scores.items()}
        """The chunk ids by query id, the best first."""

    @property
    def rankings(self) -> Mapping[str, tuple[ScoredChunk, ...]]:
        """The scored chunks by query id, the best first."""
        return Rankings(self.ids, self.scores)

    def __repr__(self) -> str:
        chunks = sum(map(len, self.ids.values()))
        return f"Run({self.name!r}, {len(self):,} queries, {chunks:,} chunks)"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Run):
            return NotImplemented
        return (self.name, self.scores) == (other.name, other.scores)

    __hash__ = None  # type: ignore[assignment]

    def __getitem__(self, query_id: str) -> dict[str, float]:
        return dict(self.rankings[query_id])

    def __contains__(self, query_id: object) -> bool:
        return query_id in self.ids

    def __iter__(self) -> Iterator[str]:
        return iter(self.ids)

    def __len__(self) -> int:
        return len(self.ids)

    @classmethod
    def from_scores(cls, scores: Mapping[str, Mapping[str, float]], *, name: str = "run") -> Self:
        """Make a run from query id -> chunk id -> score, the form of BEIR, pytrec_eval and ranx.

        A query without chunks is kept, with an empty ranking.
        """
        return cls(name, scores)

    def without(self, query_ids: Iterable[str]) -> Self:
        """Leave queries out; one that is not there is passed over."""
        left_out = set(query_ids)
        scores = {
            query: chunk_scores
            for query, chunk_scores in self.scores.items()
            if query not in left_out
        }
        return self.from_scores(scores, name=self.name)

    def of_chunks(self, chunk_ids: Iterable[str]) -> Self:
        """Keep only these chunks."""
        wanted = frozenset(chunk_ids)
        scores = {
            query: {chunk: score for chunk, score in chunk_scores.items() if chunk in wanted}
            for query, chunk_scores in self.scores.items()
        }
        return self.from_scores(scores, name=self.name)


UNPLACED = "unplaced#"
"""The beginning of the id of a result whose place in the files is not known."""


@dataclass(frozen=True)
class PassageRun:
    """The results of a retriever with its own chunks, each passage with its place in a file."""

    name: str
    passages: Mapping[str, Mapping[Place, float]]
    """Query id -> place -> score."""
    unplaced: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """By query, the scores of the results whose place is not known. They keep
    their ranks, and support nothing."""
    repeated: int = 0
    """How many results repeat the place of another result of their query; the better score counts."""

    @property
    def placed_share(self) -> float:
        """The share of the results whose place is known; 1 where there are no results."""
        placed = sum(map(len, self.passages.values())) + self.repeated
        return placed / total if (total := placed + sum(map(len, self.unplaced.values()))) else 1.0

    def without(self, query_ids: Iterable[str]) -> Self:
        """Leave queries out; one that is not there is passed over."""
        left_out = set(query_ids)
        passages = {
            query: places for query, places in self.passages.items() if query not in left_out
        }
        unplaced = {
            query: scores for query, scores in self.unplaced.items() if query not in left_out
        }
        return replace(self, passages=passages, unplaced=unplaced)


RunSource = Run | PassageRun | Path | str | Mapping[str, Mapping[str, float]]
"""A run, a file in TREC's format or of passages, or {query: {chunk: score}}."""


def is_passages(path: Path | str) -> bool:
    """Tell whether a file holds passages (JSON Lines) rather than a run in TREC's format."""
    try:
        with Path(path).open("rb") as file:
            return next(filter(bytes.strip, file), b"").lstrip(b"\xef\xbb\xbf \t").startswith(b"{")
    except OSError:
        return False  # whoever reads the run says why


def is_searches(path: Path | str) -> bool:
    """Tell whether a file has searches, rather than passages or TREC lines."""
    try:
        first = json_value(
            next((line for _, line in read_lines(Path(path)) if line.strip()), b""), ""
        )
    except SourceError:
        return False
    return isinstance(first, dict) and bool(first.keys() & {"results", "resourceSpans"})


def to_run(source: RunSource, name: str = "run") -> Run | PassageRun:
    """Give a run in any of these forms except a file of passages; a dictionary has no name."""
    if isinstance(source, Run | PassageRun):
        return source
    if isinstance(source, str | Path):
        return read_run(source)
    return Run.from_scores(source, name=name)


def _scores(
    query_id: str, ranking: Sequence[ScoredChunk] | Mapping[str, float]
) -> dict[str, float]:
    """Give the score of each chunk."""
    scores = dict(ranking)
    if len(scores) < len(ranking):
        chunk_id, _ = Counter(map(_ID, ranking)).most_common(1)[0]
        raise CollectionError(f"query {query_id!r}: chunk {chunk_id!r} is twice in the ranking")
    if operator.countOf(map(type, scores.values()), float) < len(scores):  # numpy's, or integers
        scores = {chunk_id: float(score) for chunk_id, score in scores.items()}
    # A sum of finite numbers may overflow; a sum with any other number is never finite.
    if not (math.isfinite(sum(scores.values())) or all(map(math.isfinite, scores.values()))):
        chunk_id, score = next(item for item in scores.items() if not math.isfinite(item[1]))
        raise CollectionError(
            f"query {query_id!r}: the score of chunk {chunk_id!r} is {score!r}; "
            "scores are finite numbers"
        )
    return scores


def read_run(path: Path | str) -> Run:
    """Read a run in TREC format.

    The scores decide the order, not the rank column.

    Args:
        path: A UTF-8 text file; fields are separated by spaces or tabs, and only the chunk id
            may hold spaces.

    Raises:
        CollectionError: With file and line: a line cannot be understood, a score is not a finite
            number, a chunk is twice in a query, or two runs share the file.
    """
    scores: dict[str, dict[str, float]] = {}
    ranking: dict[str, float] = {}
    before = run_name = ""
    for number, line in text_lines(path, "run"):
        try:
            query_id, _, chunk_id, rank, written, name = _fields(line)
            score = float(written)
            if not math.isfinite(score + int(rank)):
                raise ValueError  # noqa: TRY301 - as what is no number
        except ValueError:
            fault = f"{line.strip()[:200]!r} {_fault(line)}"
            raise CollectionError(f"{path}:{number}: {fault}") from None
        if name != run_name and run_name:
            raise CollectionError(
                f"{path}:{number}: run name {name!r} after {run_name!r}; a file holds one run: "
                "split it"
            )
        if query_id != before:
            before, ranking = query_id, scores.setdefault(query_id, {})
        if chunk_id in ranking:
            raise CollectionError(
                f"{path}:{number}: chunk {chunk_id!r} is twice in query {query_id!r}"
            )
        ranking[chunk_id] = score
        run_name = name
    if not scores:
        raise CollectionError(f"{path}: the run is empty; {_LINE}")
    return Run.from_scores(scores, name=run_name)


def text_lines(path: Path | str, what: str) -> Iterator[tuple[int, str]]:
    """Give the non-blank lines of a UTF-8 file with their numbers, or raise a CollectionError."""
    try:
        with Path(path).open(encoding="utf-8-sig", newline="\n") as file:
            yield from ((number, line) for number, line in enumerate(file, 1) if line.strip())
    except UnicodeDecodeError:
        raise CollectionError(f"{path}: the {what} is not UTF-8; save it as UTF-8") from None
    except (FileNotFoundError, IsADirectoryError):
        folder = f"a folder; name the files in it, such as {path}/*"
        raise CollectionError(
            f"{path}: {folder if Path(path).is_dir() else 'no such file'}"
        ) from None
    except OSError as error:
        raise CollectionError(f"{path}: the {what} cannot be read: {error.strerror}") from None


def _fields(line: str) -> list[str]:
    """Take a line apart from both ends; a ValueError if it has too few fields."""
    fields = line.split()
    if len(fields) != 6:  # the id of the chunk has spaces
        *ends, tail = line.split(None, 2)
        fields = [*ends, *tail.rsplit(None, 3)]
    return fields


def _fault(line: str) -> str:
    """Say what is wrong with a line that cannot be taken apart."""
    if line.lstrip().startswith("{"):
        return "is a passage; only evaluate, compare, extend and leaderboards take those"
    *_, score, _ = ["", "", *line.split()]
    if score.strip("+-").lower() in ("nan", "inf", "infinity"):
        return f"has the score {score}, and a score is a finite number"
    return f"is no line of a run; {_LINE}, the name in one word"


def write_run(run: Run, path: Path | str) -> None:
    """Write a run in TREC format, ranks from 1, scores so that they read back unchanged.

    A query without results has no line, so it is absent when the file is read back.

    Raises:
        CollectionError: The name or an id cannot be in a line, or the run has no results.
    """
    for word in (run.name, *run.rankings):
        if word.split() != [word]:
            raise CollectionError(f"{word!r} cannot be in a TREC run, where it is one word")
    for chunk_id in {chunk.chunk_id for ranking in run.rankings.values() for chunk in ranking}:
        if chunk_id != chunk_id.strip() or not chunk_id or set(chunk_id) & set("\t\r\n"):
            raise CollectionError(
                f"chunk id {chunk_id!r} cannot be in a TREC run: spaces inside it are allowed, "
                "but not at its ends, and no tab or line break"
            )
    if not any(run.rankings.values()):
        raise CollectionError(f"run {run.name!r} has no results, so there is nothing to write")
    lines = (
        f"{query_id} Q0 {chunk_id} {rank} {score!r} {run.name}\n"
        for query_id, ranking in run.rankings.items()
        for rank, (chunk_id, score) in enumerate(ranking, start=1)
    )
    write_file(path, "".join(lines))
