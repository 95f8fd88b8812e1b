"""Retrievers of one's own in the pool: asked or read, their results placed, recorded, and counted.

A retriever is known by its name and its identity: the hash of a run file; the attribute `version` of
an object, or else the hash of the source that it was made by. What it found for a text is recorded by
both, so that a build that is run again goes on where it stopped, and asks again where either changed.
"""

import functools
import hashlib
import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import JsonValue
from pydantic_core import from_json

from freshstack_dspy.collection.retrieve import OwnSearch, check_ids, check_placed, own_retriever
from freshstack_dspy.errors import CollectionError, ConfigError
from freshstack_dspy.lm.request import SearchRequest, sha256_of, text_hash
from freshstack_dspy.lm.store import Recorded
from freshstack_dspy.lm.workers import map_in_order
from freshstack_dspy.measures.run import is_passages, read_run
from freshstack_dspy.measures.spans import Hit
from freshstack_dspy.progress import NoProgress, Progress
from freshstack_dspy.records import Chunk, ScoredChunk, ranked
from freshstack_dspy.registry import source_of
from freshstack_dspy.stored.passages import Files, read_passages

Text = tuple[str, str]
"""A query id and a text that is searched for."""


@dataclass(frozen=True)
class Records:
    """Where what retrievers of one's own find is recorded, and who is notified."""

    corpus: str = ""
    """The digest of its chunks."""
    earlier: Callable[[SearchRequest], JsonValue | None] = lambda _: None
    keep: Callable[[SearchRequest, JsonValue], None] = lambda *_: None
    progress: Progress = field(default_factory=NoProgress)

    def request(self, retriever: "OwnRetriever", depth: int, text: Text) -> SearchRequest:
        """The search of one text by one retriever."""
        settings: dict[str, JsonValue] = {
            "own": {retriever.name: retriever.identity},
            "depth": depth,
        }
        return SearchRequest(corpus=self.corpus, settings=settings, texts=sha256_of([text[1]]))


class Placing:
    """Places hits in the chunks of a corpus; a passage stands for the chunks that it shares bytes with."""

    def __init__(self, chunk_ids: Set[str], chunks: Callable[[], Iterable[Chunk]]) -> None:
        self._chunk_ids, self._chunks = chunk_ids, chunks

    @cached_property
    def _files(self) -> Files:
        return Files(self._chunks())

    def check_ids(self, name: str, hits: Sequence[Hit]) -> None:
        """Check that no result is the id of a chunk of another version of the corpus."""
        check_ids(name, hits, self._chunk_ids)

    def place(self, hits: Sequence[Hit], depth: int) -> tuple[list[ScoredChunk], list[Hit]]:
        """Give the best chunks, each with the score of its best hit, and the hits without a place."""
        scores: dict[str, float] = {}
        lost = []
        for hit in hits:
            if not (chunk_ids := self._at(hit)):
                lost.append(hit)
            for chunk_id in chunk_ids:
                scores[chunk_id] = max(hit.score, scores.get(chunk_id, hit.score))
        return ranked(scores, depth), lost

    def _at(self, hit: Hit) -> Sequence[str]:
        if hit.chunk_id is not None and hit.chunk_id in self._chunk_ids:
            return (hit.chunk_id,)
        if hit.path is None and hit.text is None:
            return ()
        place = self._files.find(hit)
        return () if place is None else self._files.chunks_at(place)

    def why(self, hit: Hit) -> str:
        """Say why a hit has no place."""
        return self._files.why_unplaced(hit)


@dataclass
class OwnRetriever:
    """A retriever of one's own that is open."""

    name: str
    identity: str
    source: OwnSearch | Mapping[str, list[Hit]]
    """What is asked; or the hits of a run file by query id, which counts for the technique `question`
    alone, and of which nothing is recorded."""
    workers: int = 1
    answers: list[Any] = field(default_factory=list)
    """What it returned for each text of its last search, as it is recorded."""
    checked: bool = False

    @property
    def is_run(self) -> bool:
        """Whether it is a run file."""
        return not isinstance(self.source, OwnSearch)

    def search(
        self, texts: Sequence[Text], depth: int, placing: Placing, records: Records
    ) -> list[list[ScoredChunk]]:
        """Search for texts, in one thread unless the retriever has an attribute `concurrency`.

        Raises:
            CollectionError: It raises, or returns what it may not; what it found so far is recorded.
        """
        self.answers = []

        def search(text: Text) -> list[ScoredChunk]:
            request = records.request(self, depth, text)
            value: Any = None if self.is_run else records.earlier(request)
            if value is None or not value["chunks"]:  # its index may have been mended since
                value = self._asked(
                    text, depth, placing, f"after {len(self.answers)} of {len(texts)}"
                )
                if not self.is_run:
                    records.keep(request, value)
            self.answers.append(value)
            records.progress.advance("retrievers")
            return _ranking(value)

        records.progress.start("retrievers", len(texts))
        if self.workers == 1:  # of this thread: it may have been made for no other, as by SQLite
            rankings = [*map(search, texts)]
        else:
            rankings = map_in_order(search, texts, workers=self.workers)
        records.progress.finish("retrievers", self.note)
        return rankings

    def recorded_before(
        self, texts: Sequence[Text], depth: int, records: Records
    ) -> list[list[ScoredChunk]] | None:
        """What it found for texts before; None where it has to be asked for one of them."""
        values = [records.earlier(records.request(self, depth, text)) for text in texts]
        return None if None in values else [_ranking(value) for value in values]

    def _asked(self, text: Text, depth: int, placing: Placing, done: str) -> Any:
        where = f"at query {text[0]!r}, {done}"
        source = self.source
        hits = (
            source(text[1], where)
            if isinstance(source, OwnSearch)
            else source.get(text[0], [])[:depth]
        )
        if wrong := [hit for hit in hits if not math.isfinite(hit.score)]:
            raise CollectionError(
                f"{self.name} returned the score {wrong[0].score}, {where}; scores must be finite"
            )
        placing.check_ids(self.name, hits)
        chunks, lost = placing.place(hits, depth)
        value: dict[str, Any] = {"chunks": [[*each] for each in chunks], "results": len(hits)}
        return value | ({"lost": len(lost), "why": placing.why(lost[0])} if lost else {})

    def _sum(self, what: Literal["results", "lost"]) -> int:
        return sum(value.get(what, 0) for value in self.answers)

    @property
    def note(self) -> str:
        """How much it found."""
        empty = sum(not value["results"] for value in self.answers)
        note = f"{self.name}: {self._sum('results'):,} results for {len(self.answers):,} texts"
        return note + (f", none for {empty:,}" if empty else "")

    def check(self) -> None:
        """Warn of results outside the corpus, once; nothing where it has not searched yet.

        Raises:
            CollectionError: All are, or there are none.
        """
        if self.checked or not self.answers:
            return
        self.checked = True
        if not self._sum("results"):
            hint = ""
            if not isinstance(self.source, OwnSearch):
                hint = f"; its queries are {', '.join(map(repr, sorted(self.source)[:3]))}, …"
            raise CollectionError(
                f"{self.name} returned nothing for any of {len(self.answers)} texts{hint}"
            )
        why = next((value["why"] for value in self.answers if value.get("lost")), "")
        check_placed(self.name, self._sum("lost"), self._sum("results"), why)
        if isinstance(self.source, OwnSearch):
            self.source.warn_if_reversed()


def open_retriever(name: str, source: Any, depth: int, folder: Path) -> OwnRetriever:
    """Open a retriever: read a run file, or import an object by its name, found in `folder` too.

    Raises:
        CollectionError: The file cannot be read, or the object is no retriever.
        ConfigError: There is no such module or object.
    """
    if isinstance(source, Path):
        return OwnRetriever(name, *_read(source))
    module = None
    if isinstance(source, str):
        module = source.partition(":")[0]
        source = own_retriever(source, "pool.retrievers:", folder)
    return OwnRetriever(
        name,
        identity_of(source, module),
        OwnSearch(source, depth, name),
        workers=getattr(source, "concurrency", 1),
    )


def _read(path: Path) -> tuple[str, Mapping[str, list[Hit]]]:
    """Read a run of chunks or passages, with the hash of the file; the best hits first."""
    if is_passages(path):
        hits = read_passages(path)
    else:
        run = read_run(path).scores
        hits = {
            query_id: [Hit(score, chunk_id=chunk_id) for chunk_id, score in scores.items()]
            for query_id, scores in run.items()
        }
    identity = hashlib.sha256(path.read_bytes()).hexdigest()
    return identity, {id_: sorted(each, key=lambda hit: -hit.score) for id_, each in hits.items()}


def identity_of(retriever: Any, module: str | None = None) -> str:
    """What distinguishes a retriever: its `version`, or else a hash of the source that made it.

    `module` is the one it was imported from.
    """
    version = getattr(retriever, "version", None)
    if version is not None and not callable(version):
        return str(version)
    if isinstance(retriever, functools.partial):
        settings = [repr(retriever.args), repr(sorted(retriever.keywords.items()))]
        return sha256_of([identity_of(retriever.func, module), *settings])[:16]
    kind = retriever if inspect.isroutine(retriever) else type(retriever)
    return text_hash(f"{kind.__module__}:{kind.__qualname__} {source_of(kind, module)}")[:16]


def _ranking(value: Any) -> list[ScoredChunk]:
    return [ScoredChunk(chunk_id, score) for chunk_id, score in value["chunks"]]


def recorded_identities(
    recorded: Recorded, corpus: str, sources: Mapping[str, Any], folder: Path
) -> dict[str, str]:
    """The identities of one's own retrievers, by name, whose pools are recorded for a corpus.

    A run file that is there counts as it is. Nothing is imported unless several versions are
    recorded.

    Raises:
        CollectionError: None is recorded.
        ConfigError: Several are, and what is there does not tell which it is.
    """
    known = {
        name: _read(source)[0]
        for name, source in sources.items()
        if isinstance(source, Path) and source.exists()
    }
    if len(known) == len(sources):
        return known
    versions: list[dict[str, str]] = []
    for _, data in recorded.lines(b'"own":{'):
        request = from_json(data).get("request", {})
        settings = request.get("settings", {})
        own = settings.get("own")
        of_pool = request.get("corpus") == corpus and "pool" in settings and isinstance(own, dict)
        if of_pool and own.keys() == sources.keys() and own not in versions:
            versions.append(own)
    fitting = [own for own in versions if known.items() <= own.items()]
    if len(fitting) > 1:
        for name, source in sources.items():
            if name not in known and not isinstance(source, Path):
                with suppress(ConfigError):  # it is not installed
                    known[name] = open_retriever(name, source, 1, folder).identity
        fitting = [own for own in fitting if known.items() <= own.items()]
    if len(fitting) == 1:
        return fitting[0]
    names = ", ".join(sources)
    if fitting:
        raise ConfigError(
            f"the replies hold pools by {len(fitting)} versions of {names}, and nothing says which "
            "one is meant; export the replies of the collection that you mean, with: freshstack replies "
            "export CONFIG, and replay from that bundle with another cache.path"
        )
    raise_if_not_recorded(sources)
    return known


def raise_if_not_recorded(sources: Mapping[str, Any]) -> None:
    """Raise a CollectionError where a replay lacks a pool, unless run files can be read for it."""
    if missing := [
        name
        for name, source in sources.items()
        if not isinstance(source, Path) or not source.exists()
    ]:
        raise CollectionError(
            f"no pool by {', '.join(missing)} is recorded for these questions, this corpus and these "
            "settings, and a replay does not search with retrievers of your own; build it in mode "
            "live, where they are installed"
        )
