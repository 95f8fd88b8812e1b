"""Extend a collection: the unjudged chunks of runs are judged, as its own pool was."""

import hashlib
from collections.abc import Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Unpack

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.collection.contamination import Knowledge
from freshstack_dspy.collection.contents import nuggets_by_query
from freshstack_dspy.collection.counts import some_of
from freshstack_dspy.collection.manifest import Extension
from freshstack_dspy.collection.writing import call_ids_of, write_collection
from freshstack_dspy.config import BuildConfig, ContaminationConfig, load_judging
from freshstack_dspy.errors import CollectionError, ConfigError
from freshstack_dspy.measures.run import read_run
from freshstack_dspy.recipes.provenance import added
from freshstack_dspy.recipes.session import (
    Session,
    SessionOptions,
    check_writable,
    open_session,
    report,
)
from freshstack_dspy.records import (
    Candidate,
    Chunk,
    Contamination,
    Failure,
    Judgment,
    Nugget,
    RunRank,
)

DEPTH = 20
"""How many chunks of each ranking are judged by default."""


class RunTop(NamedTuple):
    """The top of one run, for the queries of a collection that have nuggets."""

    name: str
    """The run's own name: the last field of its lines."""
    sha256: str
    """Of its file."""
    top: Mapping[tuple[str, str], RunRank]
    """By query id and chunk id, the ranks of the chunks in the top."""
    notes: tuple[str, ...]
    """What of it could not be taken in."""


class Extended(NamedTuple):
    """The collection with what runs brought."""

    collection: Collection
    """As it is on disk."""
    before: Collection
    judged: Mapping[str, int]
    """By run, how many (nugget, chunk) pairs of its top got a label; runs may share some."""
    failed: int
    """How many pairs were asked about and have no label."""
    changed: bool
    """Whether anything was written."""


def extend(
    collection: Path | str,
    runs: Sequence[Path | str],
    config: BuildConfig | Path | str,
    *,
    k: int = DEPTH,
    out: Path | None = None,
    **options: Unpack[SessionOptions],
) -> Extended:
    """Judge the unjudged chunks in the top of runs, and write the collection with them.

    All queries with nuggets are looked at: a run may find the support that the pool had not.

    Args:
        collection: Its folder.
        runs: TREC run files over its queries.
        config: A configuration, or its TOML file; its `[model]` and `[judge]` judge.
        k: How many chunks of each ranking are judged.
        out: Another folder to write to; by default that of the collection.
        options: Mode, progress, provider and the like; see `SessionOptions`.

    Returns:
        The collection; where nothing is new and `out` is not another folder, nothing is written.

    Raises:
        BudgetError: The budget is used up; what was answered is recorded.
        DeferredError: In mode `defer`, requests were written down.
        ConfigError: No run is named, the judge's scale is not that of the collection, or `out`
            exists.
        CollectionError: The collection or a run cannot be read, a run names chunks that the corpus
            lacks, or the folder cannot be written.
        FatalModelError: Not one pair has a label.
    """
    config = config if isinstance(config, BuildConfig) else load_judging(config)
    folder = Path(collection)
    before = Collection.load(folder)
    if not runs:
        raise ConfigError("no run is named; name one or more TREC run files")
    tops = tuple(_top(before, Path(file), k) for file in runs)
    _check(before, config, tops)
    if out is not None and out.resolve() != folder.resolve():
        if out.exists():
            raise ConfigError(f"{out} exists; name a folder that does not")
        folder = out
    check_writable(folder)
    with open_session(config, searching=False, **options) as session:
        for run in tops:
            for note in run.notes:
                report(session.progress, f"run {run.name}", note)
        return _extended(session, before, tops, k, folder)


def _check(collection: Collection, config: BuildConfig, runs: Iterable[RunTop]) -> None:
    """Check that no name is that of two runs, and that labels of two scales are not mixed."""
    files = {one.run: one.sha256 for one in collection.manifest.extensions}
    for run in runs:
        if files.setdefault(run.name, run.sha256) != run.sha256:
            raise CollectionError(
                f"run {run.name!r} is the name of two different files; give one of them another "
                "name in the last field of its lines"
            )
    ours, theirs = config.judge.graded, collection.manifest.scale
    if ours != theirs:
        raise ConfigError(
            f"[judge] is on scale {ours.name!r} with threshold {ours.threshold}, and the labels of "
            f"{collection.name} are not; write under [judge]: "
            f'scale = "{theirs.name}" and threshold = {theirs.threshold}'
        )


def _top(collection: Collection, path: Path, depth: int) -> RunTop:
    run = read_run(path)
    wanted = set(collection.query_ids("all"))
    found = sorted(wanted & run.rankings.keys())
    if not found:
        raise CollectionError(
            f"{path}: none of its {len(run.rankings)} queries (as {min(run.rankings)!r}) is one of "
            f"{collection.name} with nuggets (as {min(wanted, default=None)!r}); name a run over "
            "its queries"
        )
    top = {
        (query_id, chunk_id): RunRank(run=run.name, rank=rank)
        for query_id in found
        for rank, (chunk_id, _) in enumerate(run.rankings[query_id][:depth], 1)
    }
    unknown = [chunk_id for _, chunk_id in top if chunk_id not in collection.corpus.rows]
    if unknown:
        raise CollectionError(
            f"{path}: {len(unknown)} chunks in its top {depth} are not in the corpus of "
            f"{collection.name}, as {unknown[0]}; retrieve from the corpus of this collection"
        )
    left_out = {
        "queries that are not in the collection or have no nuggets": run.rankings.keys() - wanted,
        "queries for which it has nothing": wanted - run.rankings.keys(),
    }
    notes = (f"{len(ids)} {what}: {some_of(ids)}" for what, ids in left_out.items() if ids)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return RunTop(run.name, digest, top, tuple(notes))


def _extended(
    session: Session, before: Collection, runs: tuple[RunTop, ...], depth: int, folder: Path
) -> Extended:
    from freshstack_dspy.calibration.agreement import measured_trust
    from freshstack_dspy.recipes.freshstack import FreshStack, judge_pool
    from freshstack_dspy.recipes.judge import with_judgments
    from freshstack_dspy.recipes.known import Known

    old, chunks = before.manifest, list(before.chunks())
    pool = _with_runs(before.pool, runs)
    judgments = {(one.nugget_id, one.chunk_id): one for one in before.judgments}
    labelled = {pair for pair, one in judgments.items() if one.label is not None}
    judged = judge_pool(
        session,
        FreshStack(session.config),
        before.queries,
        before.nuggets,
        _to_judge(pool, runs, before.nuggets, labelled),
        chunks,
        Known(before),
    )
    session.stop_if_deferred()

    new = [one for one in judged.judgments if (one.nugget_id, one.chunk_id) not in labelled]
    judgments |= {(one.nugget_id, one.chunk_id): one for one in new}
    contents = with_judgments(
        before,
        list(judgments.values()),
        [*_still_failed(before.failures, new), *judged.failures],
        old.scale,
        pool=tuple(pool),
        contamination=_contamination(before, judgments.values(), chunks),
    )
    places = [(one.query_id, one.chunk_id) for one in new if one.label is not None]
    counts = {run.name: sum(place in run.top for place in places) for run in runs}
    extensions = _extensions(old.extensions, runs, depth, counts, session.config.model.name)
    failed = sum(one.label is None for one in new)
    is_same = extensions == old.extensions and contents.records() == before.records()
    if is_same and folder.exists():
        return Extended(before, before, counts, failed, changed=False)
    described = old.model_copy(
        update={
            "extensions": extensions,
            "ledger": added(old.ledger, session.lm.ledger.steps()),
            "trust": measured_trust(contents, old.scale, old.name, session.config.trust),
            "fingerprints": {},  # a build would make another collection
            "reasked": tuple(sorted({*old.reasked, *session.used()} - call_ids_of(contents))),
        }
    )
    written = write_collection(folder, contents, chunks, described, rejected=old.counts.rejected)
    return Extended(written, before, counts, failed, changed=True)


def _with_runs(pool: Iterable[Candidate], runs: Sequence[RunTop]) -> list[Candidate]:
    """The candidates of the pool and those that runs bring, each with the runs that found it."""
    found = {(one.query_id, one.chunk_id): one for one in pool}
    for run in runs:
        for place, rank in run.top.items():
            if one := found.get(place):
                ranks = dict.fromkeys((*one.runs, rank))
                found[place] = one.model_copy(update={"runs": tuple(ranks)})
            else:
                query_id, chunk_id = place
                found[place] = Candidate(
                    query_id=query_id, chunk_id=chunk_id, origin="run", runs=(rank,)
                )
    return list(found.values())


def _to_judge(
    pool: Iterable[Candidate],
    runs: Iterable[RunTop],
    nuggets: Iterable[Nugget],
    labelled: Container[tuple[str, str]],
) -> list[Candidate]:
    """Those of the runs, and those judged in full: a chunk of a run may say the same as they do."""
    in_runs = {place for run in runs for place in run.top}
    ids = {
        query_id: [one.nugget_id for one in of]
        for query_id, of in nuggets_by_query(nuggets).items()
    }
    return [
        one
        for one in pool
        if (one.query_id, one.chunk_id) in in_runs
        or all((nugget_id, one.chunk_id) in labelled for nugget_id in ids.get(one.query_id, ()))
    ]


def _still_failed(failures: Iterable[Failure], asked: Iterable[Judgment]) -> list[Failure]:
    """The failures, without the chunks that were asked about again."""
    again = {(one.query_id, one.chunk_id) for one in asked}
    left = []
    for failure in failures:
        ids = tuple(id_ for id_ in failure.chunk_ids if (failure.query_id, id_) not in again)
        if failure.step != "support" or ids:
            left.append(failure.model_copy(update={"chunk_ids": ids}))
    return left


def _contamination(
    before: Collection, judgments: Iterable[Judgment], chunks: Sequence[Chunk]
) -> tuple[Contamination, ...]:
    """What was known of queries, with their overlap with the chunks that support them now."""
    from freshstack_dspy.recipes.contamination import contamination_of

    if not before.contamination:
        return ()
    settings = ContaminationConfig.model_validate(before.manifest.config.get("contamination", {}))
    knowledge = {
        one.query_id: Knowledge(one.known_nuggets, one.call_id)
        for one in before.contamination
        if one.known_nuggets is not None
    }
    return contamination_of(
        settings,
        before.threshold,
        before.queries,
        before.nuggets,
        judgments,
        chunks,
        knowledge,
    )


def _extensions(
    before: Sequence[Extension],
    runs: Sequence[RunTop],
    depth: int,
    judged: Mapping[str, int],
    model: str,
) -> tuple[Extension, ...]:
    """The extensions of the manifest with these runs; later labels are added to a run's entry."""
    entries = {(one.run, one.sha256, one.depth, one.model): one for one in before}
    for run in runs:
        key = (run.name, run.sha256, depth, model)
        earlier = entries[key].judged if key in entries else 0
        entries[key] = Extension(
            run=run.name,
            sha256=run.sha256,
            depth=depth,
            judged=earlier + judged[run.name],
            model=model,
        )
    return tuple(entries.values())
