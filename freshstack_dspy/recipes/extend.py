"""Extend a collection: the unjudged chunks of runs are judged, as its own pool was."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Unpack

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.collection.contamination import overlap
from freshstack_dspy.collection.contents import RECORD_FILES, Contents, nuggets_by_query
from freshstack_dspy.collection.manifest import Extension, Provenance
from freshstack_dspy.collection.slices import slice_queries
from freshstack_dspy.collection.writing import call_ids_of, write_collection
from freshstack_dspy.config import BuildConfig, load_judging
from freshstack_dspy.errors import ConfigError
from freshstack_dspy.lm.engine import check_model
from freshstack_dspy.recipes.provenance import added
from freshstack_dspy.recipes.runs import DEPTH, RunTop, RunTops, UnknownIds, read_tops
from freshstack_dspy.recipes.session import (
    Session,
    SessionOptions,
    Silence,
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
    Scale,
)

if TYPE_CHECKING:
    from freshstack_dspy.recipes.judge import ToJudge


class Extended(NamedTuple):
    """The collection with what runs brought."""

    collection: Collection
    """As it is on disk."""
    tops: RunTops
    """The runs, and the collection as it was."""
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
    tops = read_tops(Path(collection), [*map(Path, runs)], depth=k, unknown_ids=unknown_ids)
    check_scale(tops.collection, config.judge.graded)
    if out is not None and out.resolve() == tops.path.resolve():
        out = None
    if out is not None and out.exists():
        raise ConfigError(f"{out} exists; name a folder that does not")
    check_writable(out or tops.path)
    progress = options.get("progress") or Silence()
    for run in tops.runs:
        for note in _notes(run):
            report(progress, f"run {run.name}", note)
    if options.get("provider") is None and options.get("mode", "live") in ("live", "rerecord"):
        check_model(config.model)
    with open_session(config, searching=False, **options) as session:
        return _extended(session, tops, out)


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


def _extended(session: Session, tops: RunTops, out: Path | None) -> Extended:
    from freshstack_dspy.recipes.freshstack import FreshStack
    from freshstack_dspy.recipes.judge import judge
    from freshstack_dspy.recipes.known import Known

    collection, manifest = tops.collection, tops.collection.manifest
    recipe = FreshStack(session.config)
    judged = judge(session, recipe, _pairs(tops), Known(collection))
    session.stop_if_deferred()

    labelled = {
        (one.nugget_id, one.chunk_id) for one in collection.judgments if one.label is not None
    }
    new = [one for one in judged.judgments if (one.nugget_id, one.chunk_id) not in labelled]
    contents = _contents(tops, new, judged.failures)
    counts = _newly_labelled(tops, new)
    extensions = _extensions(tops, counts, session.config.model.name)
    failed = sum(one.label is None for one in new)
    changed = extensions != manifest.extensions or any(
        getattr(contents, file.name) != getattr(collection, file.name) for file in RECORD_FILES
    )
    if not changed and out is None:
        return Extended(collection, tops, counts, failed, changed=False)
    provenance = Provenance.model_validate(
        {
            **manifest.model_dump(include=set(Provenance.model_fields)),
            "extensions": extensions,
            "ledger": added(manifest.ledger, session.lm.ledger.steps()),
            "fingerprints": {},  # a build would make another collection
            "reasked": sorted(
                {*manifest.reasked, *(session.used().keys() - call_ids_of(contents))}
            ),
        }
    )
    written = write_collection(
        out or tops.path,
        contents,
        collection.chunks(),
        provenance,
        rejected=manifest.counts.rejected,
    )
    return Extended(written, tops, counts, failed, changed=True)


def _pairs(tops: RunTops) -> list["ToJudge"]:
    """All nuggets of each query against all chunks in the top of any run."""
    from freshstack_dspy.recipes.judge import ToJudge

    collection = tops.collection
    nuggets = nuggets_by_query(collection.nuggets)
    chunks: dict[str, Chunk] = {}
    pairs = []
    for query in collection.queries:
        ids = sorted({id_ for run in tops.runs for id_ in run.top.get(query.query_id, ())})
        for chunk_id in ids:
            if chunk_id not in chunks:
                chunks[chunk_id] = collection.chunk(chunk_id)
        if ids:
            pairs.append(ToJudge(query, nuggets[query.query_id], [chunks[id_] for id_ in ids]))
    return pairs


def _contents(tops: RunTops, new: Sequence[Judgment], failures: Iterable[Failure]) -> Contents:
    """The records of the collection with what is new; the same where nothing is."""
    collection = tops.collection
    asked = {(one.nugget_id, one.chunk_id) for one in new}
    judgments = [
        *(one for one in collection.judgments if (one.nugget_id, one.chunk_id) not in asked),
        *new,
    ]
    threshold = collection.manifest.scale.threshold
    return Contents(
        queries=collection.queries,
        nuggets=collection.nuggets,
        expansions=collection.expansions,
        pool=tuple(_candidates(collection.pool, tops.runs)),
        judgments=tuple(judgments),
        contamination=tuple(_contamination(collection, new)),
        failures=(*_still_failed(collection.failures, new), *failures),
        slices=tuple(slice_queries(collection.queries, collection.nuggets, judgments, threshold)),
        skipped=collection.skipped,
        licences=collection.licences,
        threshold=threshold,
    )


def _candidates(pool: Iterable[Candidate], runs: Sequence[RunTop]) -> list[Candidate]:
    """Those of the pool and those that runs bring, each with the runs that found it."""
    found = {(one.query_id, one.chunk_id): one for one in pool}
    for run in runs:
        for query_id, top in run.top.items():
            for chunk_id, rank in top.items():
                pooled = found.get((query_id, chunk_id))
                if pooled is None:
                    found[query_id, chunk_id] = Candidate(
                        query_id=query_id, chunk_id=chunk_id, origin="run", runs=(rank,)
                    )
                elif rank not in pooled.runs:
                    runs_now = (*pooled.runs, rank)
                    found[query_id, chunk_id] = pooled.model_copy(update={"runs": runs_now})
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


def _newly_labelled(tops: RunTops, new: Iterable[Judgment]) -> dict[str, int]:
    """By run, how many pairs got a label for it, each counted for the first run that holds it."""
    counts = {run.name: 0 for run in tops.runs}
    for judgment in new:
        if judgment.label is not None:
            holders = (
                run.name
                for run in tops.runs
                if judgment.chunk_id in run.top.get(judgment.query_id, ())
            )
            counts[next(holders)] += 1
    return counts


def _extensions(tops: RunTops, new: Mapping[str, int], model: str) -> tuple[Extension, ...]:
    """The extensions of the manifest with these runs; later labels are added to a run's entry."""
    extensions = list(tops.collection.manifest.extensions)
    for run in tops.runs:
        now = Extension(
            run=run.name, sha256=run.sha256, depth=tops.depth, judged=new[run.name], model=model
        )
        same = next(
            (
                row
                for row, one in enumerate(extensions)
                if one.model_copy(update={"judged": now.judged}) == now
            ),
            None,
        )
        if same is not None:
            judged = extensions[same].judged + now.judged
            extensions[same] = extensions[same].model_copy(update={"judged": judged})
        elif now.judged or not any(
            one.sha256 == now.sha256 and one.depth >= now.depth for one in extensions
        ):
            extensions.append(now)
    return tuple(extensions)


def _notes(run: RunTop) -> Iterable[str]:
    """What of a run could not be taken in."""
    if run.foreign:
        yield (
            f"{len(run.foreign)} of its queries are not in the collection or have no nuggets: "
            f"{listed(run.foreign)}"
        )
    if run.absent:
        yield f"nothing for {len(run.absent)} queries: {listed(run.absent)}"
    if run.unknown:
        ids = [f"{one.chunk_id} for {one.query_id}" for one in run.unknown]
        yield f"{len(ids)} chunks dropped, not in the corpus: {listed(ids)}"


def listed(ids: Sequence[str], most: int = 10) -> str:
    """Name ids, and how many more there are."""
    more = f" and {len(ids) - most} more" if len(ids) > most else ""
    return ", ".join(ids[:most]) + more
