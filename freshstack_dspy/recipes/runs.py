"""The top of runs, compared with what a collection has judged; nothing is asked."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.errors import CollectionError, ConfigError
from freshstack_dspy.measures.run import Run, read_run
from freshstack_dspy.records import RunRank

UnknownIds = Literal["error", "drop"]
DEPTH = 20
"""How many chunks of each ranking are looked at by default."""


class UnknownChunk(NamedTuple):
    """A chunk that a run names for a query and that the corpus lacks."""

    query_id: str
    chunk_id: str


class RunTop(NamedTuple):
    """The top of one run, for the queries of a collection that have nuggets."""

    name: str
    """The run's own name: the last field of its lines."""
    sha256: str
    """Of its file."""
    top: Mapping[str, Mapping[str, RunRank]]
    """By query id and chunk id, the chunks of the corpus in the top, with their ranks."""
    foreign: tuple[str, ...]
    """Queries of the run that the collection lacks, or that have no nuggets; by id."""
    absent: tuple[str, ...]
    """Queries of the collection with nuggets for which the run holds nothing; by id."""
    unknown: tuple[UnknownChunk, ...]
    """By query id, then rank."""
    run: Run
    """As it was read."""


class RunTops(NamedTuple):
    """A collection, and the top of runs over its queries."""

    path: Path
    """Its folder."""
    collection: Collection
    depth: int
    runs: tuple[RunTop, ...]


def read_tops(
    path: Path, runs: Sequence[Path], *, depth: int = DEPTH, unknown_ids: UnknownIds = "error"
) -> RunTops:
    """Read the top of runs, for every query with nuggets.

    Also for those that are not evaluated: a run may find the support that the pool had not.

    Args:
        path: Folder of the collection.
        runs: TREC run files.
        depth: How many chunks of each ranking are looked at.
        unknown_ids: Whether a chunk that the corpus lacks is an error, or dropped.

    Raises:
        CollectionError: The collection or a run cannot be read, two files have one run name, a run
            holds no query of the collection, or names chunks that the corpus lacks.
        ConfigError: There is no run.
    """
    if not runs:
        raise ConfigError("no run is named; name one or more TREC run files")
    collection = Collection.load(path)
    with_nuggets = {nugget.query_id for nugget in collection.nuggets}
    tops = tuple(_top(collection, file, depth, with_nuggets) for file in runs)
    known = {one.run: one.sha256 for one in collection.manifest.extensions}
    for file, one in zip(runs, tops, strict=True):
        if unknown_ids == "error" and one.unknown:
            query_id, chunk_id = one.unknown[0]
            raise CollectionError(
                f"{file}: {len(one.unknown)} chunks in its top {depth} are not in the corpus of "
                f"{collection.name}, as {chunk_id!r} for query {query_id!r}; retrieve from the "
                "corpus of this collection, or go on without them with --unknown-ids drop"
            )
        if known.setdefault(one.name, one.sha256) != one.sha256:
            raise CollectionError(
                f"run {one.name!r} is the name of two different files; give one of them another "
                "name in the last field of its lines"
            )
    return RunTops(path, collection, depth, tops)


def _top(collection: Collection, path: Path, depth: int, with_nuggets: set[str]) -> RunTop:
    run = read_run(path)
    top: dict[str, dict[str, RunRank]] = {}
    unknown = []
    for query_id, ranking in sorted(run.rankings.items()):
        if query_id not in with_nuggets:
            continue
        known = top.setdefault(query_id, {})
        for rank, (chunk_id, _) in enumerate(ranking[:depth], 1):
            if chunk_id in collection.corpus.rows:
                known[chunk_id] = RunRank(run=run.name, rank=rank)
            else:
                unknown.append(UnknownChunk(query_id, chunk_id))
    if not top:
        ours = min(with_nuggets, default=None)
        raise CollectionError(
            f"{path}: none of its {len(run.rankings)} queries (as {min(run.rankings)!r}) is one of "
            f"{collection.name} with nuggets (as {ours!r}); name a run over its queries"
        )
    return RunTop(
        name=run.name,
        sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        top=top,
        foreign=tuple(sorted(run.rankings.keys() - with_nuggets)),
        absent=tuple(sorted(with_nuggets - run.rankings.keys())),
        unknown=tuple(unknown),
        run=run,
    )
