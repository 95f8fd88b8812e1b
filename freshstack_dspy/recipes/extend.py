"""Extend a collection: the unjudged chunks of runs are judged, as its own pool was."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, Unpack

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.collection.contamination import overlap
from freshstack_dspy.collection.contents import RECORD_FILES, Contents, nuggets_by_query
from freshstack_dspy.collection.manifest import Extension, Provenance
from freshstack_dspy.collection.slices import slice_queries
from freshstack_dspy.collection.writing import call_ids_of, write_collection
from freshstack_dspy.config import BuildConfig, load_judging
from freshstack_dspy.errors import CollectionError, ConfigError
from freshstack_dspy.measures.run import read_run
from freshstack_dspy.recipes.provenance import added
from freshstack_dspy.recipes.session import (
    Session,
    SessionOptions,
    Silence,
    check_writable,
    open_session,
    report,
)
from freshstack_dspy.records import Candidate, Contamination, Failure, Judgment, RunRank, Scale

if TYPE_CHECKING:
    from freshstack_dspy.recipes.judge import ToJudge

UnknownIds = Literal["error", "drop"]
DEPTH = 20
"""How many chunks of each ranking are judged by default."""
_IDS_SHOWN = 10


class RunTop(NamedTuple):
    """The top of one run, for the queries of a collection that have nuggets."""

    name: str
    """The run's own name: the last field of its lines."""
    sha256: str
    """Of its file."""
    top: Mapping[str, Mapping[str, RunRank]]
    """By query id and chunk id, the chunks of the corpus in the top, with their ranks."""
    notes: tuple[str, ...]
    """What of it could not be taken in."""


class Extended(NamedTuple):
    """The collection with what runs brought."""

    collection: Collection
    """As it is on disk."""
    before: Collection
    runs: tuple[RunTop, ...]
    judged: Mapping[str, int]
    """By run, how many (nugget, chunk) pairs got a label for it; those of an earlier run are its."""
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
    unknown_ids: UnknownIds = "error",
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
        unknown_ids: Whether a chunk that the corpus lacks is an error, or dropped.
        out: Another folder to write to; by default that of the collection.
        options: Mode, progress, provider and the like; see `SessionOptions`.

    Returns:
        The collection; where nothing is new and `out` is not another folder, nothing is written.

    Raises:
        BudgetError: The budget is used up; what was answered is recorded.
        DeferredError: In mode `defer`, requests were written down.
        ConfigError: The judge's scale is not that of the collection, or `out` exists.
        CollectionError: The collection or a run cannot be read, or the folder cannot be written.
    """
    if not isinstance(config, BuildConfig):
        config = load_judging(config)
    folder = Path(collection)
    before = Collection.load(folder)
    tops = read_tops(before, [*map(Path, runs)], k, unknown_ids)
    check_scale(before, config.judge.graded)
    if out is not None and out.resolve() == folder.resolve():
        out = None
    if out is not None and out.exists():
        raise ConfigError(f"{out} exists; name a folder that does not")
    check_writable(out or folder)
    progress = options.get("progress") or Silence()
    for run in tops:
        for note in run.notes:
            report(progress, f"run {run.name}", note)
    with open_session(config, searching=False, **options) as session:
        return _extended(session, before, tops, k, folder, out)


def check_scale(collection: Collection, scale: Scale) -> None:
    """Check that labels of two scales are not mixed.

    Raises:
        ConfigError: Names both, and what to write.
    """
    theirs = collection.manifest.scale
    if scale != theirs:
        raise ConfigError(
            f"[judge] is on scale {scale.name!r} with threshold {scale.threshold}, and the labels "
            f"of {collection.name} are on scale {theirs.name!r} with threshold "
            f"{theirs.threshold}; write under [judge]: "
            f'scale = "{theirs.name}" and threshold = {theirs.threshold}'
        )


def read_tops(
    collection: Collection, runs: Sequence[Path], depth: int, unknown_ids: UnknownIds = "error"
) -> tuple[RunTop, ...]:
    """Read the top of runs, for every query with nuggets.

    Raises:
        CollectionError: A run cannot be read, two files have one run name, a run holds no query of
            the collection, or names chunks that the corpus lacks.
        ConfigError: There is no run.
    """
    if not runs:
        raise ConfigError("no run is named; name one or more TREC run files")
    known = {one.run: one.sha256 for one in collection.manifest.extensions}
    tops = tuple(_top(collection, file, depth, unknown_ids) for file in runs)
    for one in tops:
        if known.setdefault(one.name, one.sha256) != one.sha256:
            raise CollectionError(
                f"run {one.name!r} is the name of two different files; give one of them another "
                "name in the last field of its lines"
            )
    return tops


def _top(collection: Collection, path: Path, depth: int, unknown_ids: UnknownIds) -> RunTop:
    run = read_run(path)
    wanted = {nugget.query_id for nugget in collection.nuggets}
    top: dict[str, dict[str, RunRank]] = {}
    unknown: list[str] = []
    for query_id in sorted(wanted & run.rankings.keys()):
        top[query_id] = {}
        for rank, (chunk_id, _) in enumerate(run.rankings[query_id][:depth], 1):
            if chunk_id in collection.corpus.rows:
                top[query_id][chunk_id] = RunRank(run=run.name, rank=rank)
            else:
                unknown.append(f"{chunk_id} for {query_id}")
    if not top:
        raise CollectionError(
            f"{path}: none of its {len(run.rankings)} queries (as {min(run.rankings)!r}) is one of "
            f"{collection.name} with nuggets (as {min(wanted, default=None)!r}); name a run over "
            "its queries"
        )
    if unknown and unknown_ids == "error":
        raise CollectionError(
            f"{path}: {len(unknown)} chunks in its top {depth} are not in the corpus of "
            f"{collection.name}, as {unknown[0]}; retrieve from the corpus of this collection, or "
            "go on without them, in Python with unknown_ids='drop'"
        )
    left_out = {
        "queries that are not in the collection or have no nuggets": sorted(
            run.rankings.keys() - wanted
        ),
        "queries for which it has nothing": sorted(wanted - run.rankings.keys()),
        "chunks dropped, not in the corpus": unknown,
    }
    notes = (f"{len(ids)} {what}: {_listed(ids)}" for what, ids in left_out.items() if ids)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return RunTop(run.name, digest, top, tuple(notes))


def _extended(
    session: Session,
    before: Collection,
    runs: Sequence[RunTop],
    depth: int,
    folder: Path,
    out: Path | None,
) -> Extended:
    from freshstack_dspy.recipes.freshstack import FreshStack
    from freshstack_dspy.recipes.judge import judge
    from freshstack_dspy.recipes.known import Known

    judged = judge(session, FreshStack(session.config), _pairs(before, runs), Known(before))
    session.stop_if_deferred()

    labelled = {(one.nugget_id, one.chunk_id) for one in before.judgments if one.label is not None}
    new = [one for one in judged.judgments if (one.nugget_id, one.chunk_id) not in labelled]
    contents = _contents(before, runs, new, judged.failures)
    counts = _newly_labelled(runs, new)
    old = before.manifest
    extensions = _extensions(old.extensions, runs, depth, counts, session.config.model.name)
    failed = sum(one.label is None for one in new)
    changed = extensions != old.extensions or any(
        getattr(contents, file.name) != getattr(before, file.name) for file in RECORD_FILES
    )
    if not changed and out is None:
        return Extended(before, before, tuple(runs), counts, failed, changed=False)
    reasked = {*old.reasked, *(session.used().keys() - call_ids_of(contents))}
    update = {
        "extensions": extensions,
        "ledger": added(old.ledger, session.lm.ledger.steps()),
        "fingerprints": {},  # a build would make another collection
        "reasked": tuple(sorted(reasked)),
    }
    provenance = Provenance(
        **{name: getattr(old, name) for name in Provenance.model_fields}
    ).model_copy(update=update)
    rejected = old.counts.rejected
    written = write_collection(
        out or folder, contents, before.chunks(), provenance, rejected=rejected
    )
    return Extended(written, before, tuple(runs), counts, failed, changed=True)


def _pairs(collection: Collection, runs: Sequence[RunTop]) -> list["ToJudge"]:
    """All nuggets of each query against all chunks in the top of any run."""
    from freshstack_dspy.recipes.judge import ToJudge

    nuggets = nuggets_by_query(collection.nuggets)
    wanted = {
        query.query_id: sorted({id_ for run in runs for id_ in run.top.get(query.query_id, ())})
        for query in collection.queries
    }
    chunks = {id_: collection.chunk(id_) for id_ in set().union(*wanted.values())}
    return [
        ToJudge(query, nuggets[query.query_id], [chunks[id_] for id_ in ids])
        for query in collection.queries
        if (ids := wanted[query.query_id])
    ]


def _contents(
    before: Collection,
    runs: Sequence[RunTop],
    new: Sequence[Judgment],
    failures: Iterable[Failure],
) -> Contents:
    """The records of the collection with what is new; the same where nothing is."""
    asked = {(one.nugget_id, one.chunk_id) for one in new}
    judgments = [
        *(one for one in before.judgments if (one.nugget_id, one.chunk_id) not in asked),
        *new,
    ]
    threshold = before.manifest.scale.threshold
    records = {
        **before.records(),
        "pool": tuple(_candidates(before.pool, runs)),
        "judgments": tuple(judgments),
        "contamination": tuple(_contamination(before, new)),
        "failures": (*_still_failed(before.failures, new), *failures),
        "slices": tuple(slice_queries(before.queries, before.nuggets, judgments, threshold)),
    }
    return Contents(**records, threshold=threshold)


def _candidates(pool: Iterable[Candidate], runs: Sequence[RunTop]) -> list[Candidate]:
    """Those of the pool and those that runs bring, each with the runs that found it."""
    found = {(one.query_id, one.chunk_id): one for one in pool}
    for run in runs:
        for query_id, top in run.top.items():
            for chunk_id, rank in top.items():
                one = found.get((query_id, chunk_id)) or Candidate(
                    query_id=query_id, chunk_id=chunk_id, origin="run", runs=(rank,)
                )
                runs_now = dict.fromkeys((*one.runs, rank))
                found[query_id, chunk_id] = one.model_copy(update={"runs": tuple(runs_now)})
    return list(found.values())


def _still_failed(failures: Iterable[Failure], asked: Iterable[Judgment]) -> list[Failure]:
    """The failures, without the chunks that were asked about again."""
    again = {(one.query_id, one.chunk_id) for one in asked}
    left = []
    for failure in failures:
        ids = tuple(id_ for id_ in failure.chunk_ids if (failure.query_id, id_) not in again)
        if failure.step != "support" or ids == failure.chunk_ids:
            left.append(failure)
        elif ids:
            left.append(failure.model_copy(update={"chunk_ids": ids}))
    return left


def _contamination(collection: Collection, new: Iterable[Judgment]) -> list[Contamination]:
    """What is known of queries, with their overlap with the chunks that support them now."""
    settings = collection.manifest.config.get("contamination")
    ngram = settings.get("ngram") if isinstance(settings, dict) else None
    if not isinstance(ngram, int):
        return list(collection.contamination)
    threshold = collection.manifest.scale.threshold
    gold: dict[str, set[str]] = {}
    for judgment in new:
        if judgment.label is not None and judgment.label >= threshold:
            gold.setdefault(judgment.query_id, set()).add(judgment.chunk_id)
    texts = {query.query_id: query.text for query in collection.queries}
    records = []
    for record in collection.contamination:
        passages = [collection.chunk(id_).passage for id_ in gold.get(record.query_id, ())]
        shares = [record.gold_overlap, overlap(texts[record.query_id], passages, ngram)]
        largest = max((share for share in shares if share is not None), default=None)
        records.append(record.model_copy(update={"gold_overlap": largest}))
    return records


def _newly_labelled(runs: Sequence[RunTop], new: Iterable[Judgment]) -> dict[str, int]:
    """By run, how many pairs got a label for it, each counted for the first run that holds it."""
    counts = dict.fromkeys((run.name for run in runs), 0)
    for one in new:
        if one.label is not None:
            holders = (run.name for run in runs if one.chunk_id in run.top.get(one.query_id, ()))
            counts[next(holders)] += 1
    return counts


def _extensions(
    before: Sequence[Extension],
    runs: Sequence[RunTop],
    depth: int,
    new: Mapping[str, int],
    model: str,
) -> tuple[Extension, ...]:
    """The extensions of the manifest with these runs; later labels are added to a run's entry."""
    extensions = list(before)
    for run in runs:
        now = Extension(run=run.name, sha256=run.sha256, depth=depth, judged=0, model=model)
        unlabelled = [one.model_copy(update={"judged": 0}) for one in extensions]
        if now in unlabelled:
            row = unlabelled.index(now)
            judged = extensions[row].judged + new[run.name]
            extensions[row] = now.model_copy(update={"judged": judged})
        elif new[run.name] or not any(
            one.sha256 == now.sha256 and one.depth >= depth for one in extensions
        ):
            extensions.append(now.model_copy(update={"judged": new[run.name]}))
    return tuple(extensions)


def _listed(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - _IDS_SHOWN} more" if len(ids) > _IDS_SHOWN else ""
    return ", ".join(ids[:_IDS_SHOWN]) + more
