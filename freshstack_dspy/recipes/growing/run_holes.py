"""What the top of runs holds that a collection has not judged; nothing is asked.

A hole is a chunk in the top of a run that has no label for some nugget of its query.
"""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.collection.contents import nuggets_by_query
from freshstack_dspy.errors import CollectionError, ConfigError
from freshstack_dspy.measures.run import Run, read_run
from freshstack_dspy.records import RunRank

Unknown = Literal["refuse", "skip"]
DEPTH = 20
"""How many chunks of each ranking are looked at unless told otherwise."""


class UnknownChunk(NamedTuple):
    """A chunk that a run names for a query and that the corpus lacks."""

    query_id: str
    chunk_id: str


class LookedAt(NamedTuple):
    """What the top of one run holds, held against a collection."""

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


class Look(NamedTuple):
    """A collection, and runs held against it; nothing was asked."""

    path: Path
    """Its folder."""
    collection: Collection
    depth: int
    runs: tuple[LookedAt, ...]


def look(
    path: Path,
    runs: Sequence[Path],
    *,
    depth: int = DEPTH,
    unknown: Unknown = "refuse",
) -> Look:
    """Hold the top of runs against a collection; all queries with nuggets count.

    Also those that are not evaluated: a run may find the support that the pool had not, and a
    query that seemed unanswerable is then evaluated too.

    Args:
        path: Folder of the collection.
        runs: TREC run files.
        depth: How many chunks of each ranking are looked at.
        unknown: Whether a chunk that the corpus lacks stops it (`refuse`) or is passed over.

    Raises:
        CollectionError: The collection or a run cannot be read, two runs have one name, one holds no query of the
            collection, or names chunks that the corpus lacks.
        ConfigError: `depth` or `unknown` is not allowed.
    """
    if depth < 1:
        raise ConfigError(f"depth is {depth}; allowed: 1 or more")
    if unknown not in get_args(Unknown):
        raise ConfigError(f"unknown is {unknown!r}; allowed: {', '.join(get_args(Unknown))}")
    if not runs:
        raise ConfigError("no run is named; name one or more TREC run files")
    collection = Collection.load(path)
    with_nuggets = {nugget.query_id for nugget in collection.nuggets}
    looked = [_looked_at(collection, file, depth, with_nuggets) for file in runs]
    for file, one in zip(runs, looked, strict=True):
        if unknown == "refuse" and one.unknown:
            raise CollectionError(_unknown(file, one.unknown, collection, depth))
    _check_one_name_twice(collection, looked)
    return Look(path, collection, depth, tuple(looked))


def holes(look: Look) -> dict[str, list[str]]:
    """Give for every query the chunks of all runs' tops that lack a label, by chunk id."""
    nuggets = nuggets_by_query(look.collection.nuggets)
    labelled = labelled_pairs(look.collection)
    found: dict[str, set[str]] = {}
    for run in look.runs:
        for query_id, top in run.top.items():
            found.setdefault(query_id, set()).update(
                chunk_id
                for chunk_id in top
                if any((nugget.nugget_id, chunk_id) not in labelled for nugget in nuggets[query_id])
            )
    return {query_id: sorted(ids) for query_id, ids in sorted(found.items()) if ids}


def labelled_pairs(collection: Collection) -> set[tuple[str, str]]:
    """Nugget and chunk id of each judgment that has a label."""
    return {
        (judgment.nugget_id, judgment.chunk_id)
        for judgment in collection.judgments
        if judgment.label is not None
    }


def _looked_at(collection: Collection, path: Path, depth: int, with_nuggets: set[str]) -> LookedAt:
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
    return LookedAt(
        name=run.name,
        sha256=_sha256(path),
        top=top,
        foreign=tuple(sorted(run.rankings.keys() - with_nuggets)),
        absent=tuple(sorted(with_nuggets - run.rankings.keys())),
        unknown=tuple(unknown),
        run=run,
    )


def _unknown(
    path: Path, unknown: Sequence[UnknownChunk], collection: Collection, depth: int
) -> str:
    query_id, chunk_id = unknown[0]
    return (
        f"{path}: {len(unknown)} chunks in its top {depth} are not in the corpus of "
        f"{collection.name}, as {chunk_id!r} for query {query_id!r}; retrieve from the corpus of "
        "this collection, or pass them over with --unknown skip"
    )


def _check_one_name_twice(collection: Collection, runs: Sequence[LookedAt]) -> None:
    """Refuse two runs of one name: nobody could tell which of them found a chunk."""
    known = {one.run: one.sha256 for one in collection.manifest.extensions}
    for run in runs:
        if known.setdefault(run.name, run.sha256) != run.sha256:
            raise CollectionError(
                f"run {run.name!r} stands for two different files; give one of them another name "
                "in the last field of its lines"
            )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
