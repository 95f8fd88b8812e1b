"""Extending a collection: the holes of runs are judged, as its own pool was."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.collection.contamination import overlap
from freshstack_dspy.collection.contents import RECORD_FILES, Contents, nuggets_by_query
from freshstack_dspy.collection.manifest import Extension, Provenance
from freshstack_dspy.collection.slices import slice_queries
from freshstack_dspy.collection.writing import call_ids_of, write_collection
from freshstack_dspy.errors import ConfigError
from freshstack_dspy.lm.usage import StepLedger
from freshstack_dspy.recipes.growing.run_holes import Look, LookedAt, holes, labelled_pairs
from freshstack_dspy.records import Candidate, Contamination, Failure, Judgment, RunRank, Scale

if TYPE_CHECKING:
    from freshstack_dspy.recipes.judging.judging import Judged
    from freshstack_dspy.recipes.session import Session


class Extended(NamedTuple):
    """What came of extending."""

    collection: Collection
    """As it stands on disk."""
    judged: Mapping[str, int]
    """By run, how many (nugget, chunk) pairs got a label for it; those of an earlier run are its."""
    failed: int
    """How many pairs were asked about and have no label."""
    changed: bool
    """Whether anything was written."""


def check_scale(look: Look, scale: Scale) -> None:
    """Refuse to mix labels of two scales.

    Raises:
        ConfigError: Names both, and what to write.
    """
    theirs = look.collection.manifest.scale
    if scale != theirs:
        raise ConfigError(
            f"[judge] is on scale {scale.name!r} with threshold {scale.threshold}, and the labels "
            f"of {look.collection.name} are on scale {theirs.name!r} with threshold "
            f"{theirs.threshold}; write under [judge]: "
            f'scale = "{theirs.name}" and threshold = {theirs.threshold}'
        )


def extend(look: Look, session: "Session", out: Path | None = None) -> Extended:
    """Judge the holes of runs, and write the collection with them.

    Args:
        look: The collection, and its holes.
        session: Whom to ask; its `[judge]` says how.
        out: A folder to write to; by default that of the collection itself.

    Returns:
        The collection; where nothing is new and `out` is not another folder, nothing is written.

    Raises:
        BudgetError: The budget is used up; what was answered is recorded.
        DeferredError: In mode `defer`, requests were written down.
        ConfigError: The judge's scale is not that of the collection.
        CollectionError: The collection cannot be written; what stood still stands.
    """
    check_scale(look, session.config.judge.graded)
    in_place = check_standing(look, out)
    judged = _judge(look, session)
    collection = look.collection
    contents = _contents(look, judged)
    new = _newly_labelled(look, judged.judgments)
    extensions = _extensions(look, new, session.config.model.name)
    failed = sum(judgment.label is None for judgment in judged.judgments)
    is_new = extensions != collection.manifest.extensions or any(
        getattr(contents, file.name) != getattr(collection, file.name) for file in RECORD_FILES
    )
    if in_place and not is_new:
        return Extended(collection, new, failed, changed=False)
    used = set(session.lm.client.used_replies())
    told = collection.manifest.model_dump(include=set(Provenance.model_fields))
    provenance = Provenance.model_validate(
        {
            **told,
            "extensions": extensions,
            "ledger": added(collection.manifest.ledger, session.lm.ledger.steps()),
            "fingerprints": {},  # a build would make another collection
            "reasked": sorted({*collection.manifest.reasked, *(used - call_ids_of(contents))}),
        }
    )
    written = write_collection(
        out or look.path,
        contents,
        collection.chunks(),
        provenance,
        rejected=collection.manifest.counts.rejected,
    )
    return Extended(written, new, failed, changed=True)


def check_standing(look: Look, out: Path | None) -> bool:
    """Refuse to write over another collection; tell whether it is written in its own place.

    Raises:
        ConfigError: Something stands there.
    """
    if out is None or out.resolve() == look.path.resolve():
        return True
    if out.exists():
        raise ConfigError(
            f"{out} stands already; name a folder that does not, or extend what stands there: "
            f"freshstack extend {out} RUN"
        )
    return False


def added(before: Mapping[str, StepLedger], now: Mapping[str, StepLedger]) -> dict[str, StepLedger]:
    """Add up the accounts of two pieces of work, step by step."""
    sums = {}
    for name in sorted({*before, *now}):
        one, other = before.get(name, StepLedger()), now.get(name, StepLedger())
        sums[name] = StepLedger.model_validate(
            {
                field: getattr(one, field) + getattr(other, field)
                for field in StepLedger.model_fields
            }
        )
    return sums


def _judge(look: Look, session: "Session") -> "Judged":
    from freshstack_dspy.recipes.freshstack import FreshStack
    from freshstack_dspy.recipes.growing.unjudged import unjudged
    from freshstack_dspy.recipes.judging.judging import judge

    collection = look.collection
    chunks = {
        query_id: [collection.chunk(chunk_id) for chunk_id in ids]
        for query_id, ids in holes(look).items()
    }
    pairs = unjudged(
        collection.queries,
        nuggets_by_query(collection.nuggets),
        chunks,
        labelled_pairs(collection),
    )
    judged = judge(session.config, FreshStack(session.config), session, pairs)
    session.stop_if_deferred()
    return judged


def _contents(look: Look, judged: "Judged") -> Contents:
    """The records of the collection with what is new; the same where nothing is."""
    collection = look.collection
    asked = {(one.nugget_id, one.chunk_id) for one in judged.judgments}
    judgments = [
        *(one for one in collection.judgments if (one.nugget_id, one.chunk_id) not in asked),
        *judged.judgments,
    ]
    failures = [*_left(collection.failures, judged.judgments), *judged.failures]
    threshold = collection.manifest.scale.threshold
    slices = slice_queries(collection.queries, collection.nuggets, judgments, threshold)
    return Contents(
        queries=collection.queries,
        nuggets=collection.nuggets,
        expansions=collection.expansions,
        pool=tuple(_candidates(collection.pool, look.runs)),
        judgments=tuple(judgments),
        single_judgments=collection.single_judgments,
        contamination=tuple(_contamination(collection, judged.judgments)),
        failures=tuple(failures),
        slices=tuple(slices),
        skipped=collection.skipped,
        licences=collection.licences,
        threshold=threshold,
    )


def _candidates(pool: Iterable[Candidate], runs: Sequence[LookedAt]) -> list[Candidate]:
    """Those that stand and those that runs bring, each with the runs that found it."""
    found = {(one.query_id, one.chunk_id): one for one in pool}
    for run in runs:
        for query_id, top in run.top.items():
            for chunk_id, rank in top.items():
                standing = found.get((query_id, chunk_id))
                if standing is None:
                    found[query_id, chunk_id] = Candidate(
                        query_id=query_id, chunk_id=chunk_id, origin="run", runs=(rank,)
                    )
                elif rank not in standing.runs:
                    ranks: tuple[RunRank, ...] = (*standing.runs, rank)
                    found[query_id, chunk_id] = standing.model_copy(update={"runs": ranks})
    return list(found.values())


def _left(failures: Iterable[Failure], asked: Iterable[Judgment]) -> list[Failure]:
    """The failures whose chunks were not all asked about again."""
    again = {(one.query_id, one.chunk_id) for one in asked}
    left = []
    for failure in failures:
        ids = tuple(
            chunk_id for chunk_id in failure.chunk_ids if (failure.query_id, chunk_id) not in again
        )
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


def _newly_labelled(look: Look, judgments: Iterable[Judgment]) -> dict[str, int]:
    """By run, how many pairs got a label for it, each counted for the first run that holds it."""
    counts = {run.name: 0 for run in look.runs}
    for judgment in judgments:
        if judgment.label is not None:
            holders = (
                run.name
                for run in look.runs
                if judgment.chunk_id in run.top.get(judgment.query_id, ())
            )
            counts[next(holders)] += 1
    return counts


def _extensions(look: Look, new: Mapping[str, int], model: str) -> tuple[Extension, ...]:
    """The extensions of the manifest with these runs; what is judged later is added to its entry."""
    extensions = list(look.collection.manifest.extensions)
    for run in look.runs:
        now = Extension(
            run=run.name, sha256=run.sha256, depth=look.depth, judged=new[run.name], model=model
        )
        unnumbered = {"judged"}
        for row, standing in enumerate(extensions):
            if standing.model_dump(exclude=unnumbered) == now.model_dump(exclude=unnumbered):
                judged = standing.judged + now.judged
                extensions[row] = standing.model_copy(update={"judged": judged})
                break
        else:
            if now.judged or not _covered(extensions, now):
                extensions.append(now)
    return tuple(extensions)


def _covered(extensions: Iterable[Extension], now: Extension) -> bool:
    """Whether this run was looked at as deep before, by whatever model."""
    return any(one.sha256 == now.sha256 and one.depth >= now.depth for one in extensions)
