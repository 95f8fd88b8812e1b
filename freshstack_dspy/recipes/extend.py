"""Extend a collection: the unjudged chunks of runs are judged, as its own pool was.

Of a run of passages, which are cut otherwise, these are the chunks that share bytes with its top.
"""

import hashlib
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

from freshstack_dspy.collection.collection import Collection, write_collection
from freshstack_dspy.collection.contamination import Knowledge
from freshstack_dspy.collection.evaluating import runs_of
from freshstack_dspy.config import BuildConfig, ContaminationConfig, load_judging
from freshstack_dspy.errors import CollectionError, ConfigError, argument
from freshstack_dspy.files import existing_folder, only_writer
from freshstack_dspy.lm.request import sha256_of
from freshstack_dspy.lm.telemetry import span
from freshstack_dspy.measures.passage_labels import by_passage_id
from freshstack_dspy.measures.run import (
    UNPLACED,
    PassageRun,
    Run,
    RunSource,
    is_passages,
    to_run,
)
from freshstack_dspy.measures.searches import is_searches, read_searches
from freshstack_dspy.pages.page import counted, money
from freshstack_dspy.pages.shown import Shown
from freshstack_dspy.progress import Progress, report, showing
from freshstack_dspy.recipes.make import Made
from freshstack_dspy.recipes.make import run as run_verb
from freshstack_dspy.recipes.opening import SessionOptions, configured
from freshstack_dspy.recipes.provenance import added
from freshstack_dspy.recipes.session import Session
from freshstack_dspy.records import (
    Candidate,
    Contamination,
    Failure,
    Judgment,
    Nugget,
    RunRank,
)
from freshstack_dspy.stored.contents import Contents, nuggets_by_query
from freshstack_dspy.stored.counts import some_of
from freshstack_dspy.stored.manifest import (
    NO_MODEL,
    Extension,
    Manifest,
    read_manifest,
    with_models,
)
from freshstack_dspy.stored.passage_runs import CollectionSpans
from freshstack_dspy.stored.writing import call_ids_of

if TYPE_CHECKING:
    from freshstack_dspy.recipes.flow import Stages, Work
    from freshstack_dspy.recipes.plan import Plan

DEPTH = 20
"""How many results of each ranking are judged by default."""


class RunTop(NamedTuple):
    """The top of one run, for the queries of a collection that have nuggets."""

    name: str
    """The run's own name: the last field of its lines; of passages, the file's."""
    sha256: str
    """The hash of its file; of its top results where it has none."""
    top: Mapping[tuple[str, str], RunRank]
    """By query id and chunk id, the ranks of the chunks in the top; of several passages in one
    chunk, the best."""
    notes: tuple[str, ...]
    """What of it could not be taken in."""


@dataclass(frozen=True, repr=False)
class Extended(Shown):
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

    def __repr__(self) -> str:
        judged = ", ".join(f"{run} {counted(of, 'pair')}" for run, of in self.judged.items())
        return f"Extended({self.collection!r}: {judged if self.changed else 'nothing to add'})"


def extend(
    collection: Path | str,
    runs: Sequence[Any],
    config: BuildConfig | Path | str,
    *,
    k: int = DEPTH,
    out: Path | None = None,
    keep_labels: bool = False,
    **options: Unpack[SessionOptions],
) -> Extended:
    """Judge the unjudged chunks in the top of runs, and write the collection with them.

    All queries with nuggets are looked at: a run may find the support that the pool had not.
    What is to be asked and what it costs is reported before anything is sent.

    Args:
        collection: Its folder.
        runs: What `evaluate` takes: runs, their files in TREC's format, or retrievers. Of passages
            of any other cut, as JSON Lines too, the chunks that share bytes with them are judged.
        config: A configuration, or its TOML file; its `[model]` and `[judge]` judge.
        k: How many results of each ranking are judged.
        out: Another folder to write to; by default that of the collection.
        keep_labels: Whether labels are added to those that another model, prompt or program made.
        options: Mode, progress, provider and the like; see `SessionOptions`.

    Returns:
        The collection; where nothing is new and `out` is not another folder, nothing is written.

    Raises:
        BudgetError: The budget is used up; what was answered is recorded.
        DeferredError: In mode `defer`, requests were written down.
        ConfigError: No run is named, the judge or its scale is not that of the collection, or
            `out` exists.
        CollectionError: The collection or a run cannot be read, a run names chunks that the corpus
            lacks, or the folder cannot be written.
        FatalModelError: Not one pair has a label.
    """
    config = configured(config, options, load_judging)
    folder = Path(collection)
    read_manifest(existing_folder(folder))
    if out is not None and out.resolve() != folder.resolve():
        if out.exists():
            raise ConfigError(f"{out} exists; name a folder that does not")
        folder = out
    with span("extend", collection=folder.name), only_writer(folder, "freshstack extend"):
        before = Collection.load(collection)
        tops = _tops(before, runs, config, k)
        with showing(options.get("progress")) as progress:
            options["progress"] = progress
            for top in tops:
                for note in top.notes:
                    report(progress, f"run {top.name}", note)
            is_paid = (
                options.get("mode", "live") == "live"
                and (options.get("provider") or config.model_of("judge").provider) is None
            )
            if is_paid and (pairs := _unlabelled(before, tops)):
                report(progress, "to judge", _price(_plan(before, tops, config, progress), pairs))
            return run_verb(
                config,
                partial(_extended, before, tops, k, folder),
                before=before,
                stages=_stages(before, tops),
                check=None if keep_labels else partial(_check_judge, before.manifest),
                **options,
            )


def _check_judge(before: Manifest, session: Session) -> None:
    """Check that labels of two judges are not mixed; those of an import may be by anybody.

    Raises:
        ConfigError: Another model, prompt or program judges than before.
    """
    from freshstack_dspy.recipes.provenance import prompts_of

    judge = session.recipe.support_judge
    earlier = before.model if before.model != NO_MODEL else None
    if before.extensions and earlier is None:
        earlier = before.extensions[-1].model
    changes = []
    if earlier not in (None, session.judges):
        changes.append(f"model {earlier!r}, now {session.judges!r}")
    for name, prompt in prompts_of(judge.named_predictors()).items():
        if before.prompts.get(name, prompt) != prompt:
            changes.append(f"another prompt of {name}")
    now, then = session.identities.get("support_judge"), before.programs.get("support_judge")
    if not before.recipe.startswith("import:") and now != then:
        changes.append("another program support_judge")
    if changes:
        raise ConfigError(
            f"{before.name} was judged otherwise: {'; '.join(changes)}; old and new labels would "
            "not be comparable: go back to the old judge, add labels all the same with "
            f"{argument('keep_labels')}, or judge everything anew first: freshstack rejudge"
        )


def plan_extension(
    collection: Collection | Path | str,
    runs: Sequence[Any],
    config: BuildConfig | Path | str,
    *,
    k: int = DEPTH,
    progress: Progress | bool | None = None,
) -> "Plan":
    """Plan what `extend` would ask for and cost; nothing is sent. Arguments and errors are its own."""
    config = configured(config, read=load_judging)
    before = Collection.load(collection)
    return _plan(before, _tops(before, runs, config, k), config, progress)


def _plan(
    before: Collection,
    runs: Sequence[RunTop],
    config: BuildConfig,
    progress: Progress | bool | None,
) -> "Plan":
    from freshstack_dspy.recipes.plan import plan_of

    queries = {query_id for each in runs for query_id, _ in each.top}
    return run_verb(
        config,
        partial(plan_of, name=before.name, queries=len(queries)),
        before=before,
        stages=_stages(before, runs),
        dry=True,
        progress=progress,
    )


def _stages(before: Collection, runs: Sequence[RunTop]) -> "Stages":
    """Ask about the pairs of the runs that have no label."""
    from freshstack_dspy.recipes.freshstack import judge_pool

    pool = _with_runs(before.pool, runs)
    candidates = tuple(_to_judge(pool, runs, before.nuggets, _labelled(before)))

    def begin(_work: "Work", _contents: Contents) -> Contents:
        return Contents(queries=before.queries, nuggets=before.nuggets, pool=candidates)

    return ((begin, judge_pool),)


def _unlabelled(before: Collection, runs: Iterable[RunTop]) -> int:
    """How many pairs of nuggets and chunks in the tops of runs have no label."""
    labelled = _labelled(before)
    nuggets = nuggets_by_query(before.nuggets)
    return sum(
        (nugget.nugget_id, chunk_id) not in labelled
        for query_id, chunk_id in {place for run in runs for place in run.top}
        for nugget in nuggets[query_id]
    )


def _price(plan: "Plan", pairs: int) -> str:
    total = plan.total
    cost = "at a price that is not known" if total.cost is None else f"about {money(total.cost)}"
    return f"{pairs:,} pairs in {total.requests:,} requests, {total.recorded:,} recorded; {cost}"


def _tops(
    before: Collection, runs: Sequence[Any], config: BuildConfig, k: int
) -> tuple[RunTop, ...]:
    if not runs:
        raise ConfigError("no run is named; name one or more files of runs or passages")
    tops = tuple(_top(before, one, k) for one in runs_of(before, list(runs)))
    _check(before, config, tops)
    return tops


def _check(collection: Collection, config: BuildConfig, runs: Iterable[RunTop]) -> None:
    """Check that no name is that of two runs, and that labels of two scales are not mixed."""
    files = {one.run: one.sha256 for one in collection.manifest.extensions}
    for run in runs:
        if files.setdefault(run.name, run.sha256) != run.sha256:
            raise CollectionError(
                f"run {run.name!r} is the name of two different files; give one of them another "
                "name, in the last field of its lines, or of passages in that of the file"
            )
    ours, theirs = config.judge.graded, collection.manifest.scale
    if ours != theirs:
        raise ConfigError(
            f"[judge] is on scale {ours.name!r} with threshold {ours.threshold}, and the labels of "
            f"{collection.name} are not; write under [judge]: "
            f'scale = "{theirs.name}" and threshold = {theirs.threshold}'
        )


def _top(collection: Collection, source: RunSource, depth: int) -> RunTop:
    spans = CollectionSpans(collection.corpus, collection.judgments)
    file = Path(source) if isinstance(source, str | Path) else None
    if file and is_searches(file):
        run: Run | PassageRun = read_searches(file, spans).union()
    else:
        run = spans.read(file) if file and is_passages(file) else to_run(source)
    name, (ranked, notes) = run.name, _ranked(run, spans, depth)
    wanted = set(collection.query_ids("all"))
    if not wanted & ranked.keys():
        raise CollectionError(
            f"run {name}: none of its {len(ranked)} queries (as {min(ranked)!r}) is one of "
            f"{collection.name} with nuggets (as {min(wanted, default=None)!r}); name a run over "
            "its queries"
        )
    top: dict[tuple[str, str], RunRank] = {}
    for query_id in sorted(wanted & ranked.keys()):
        for rank, chunk_ids in enumerate(ranked[query_id], 1):
            for chunk_id in chunk_ids:
                top.setdefault((query_id, chunk_id), RunRank(run=name, rank=rank))
    unknown = [chunk_id for _, chunk_id in top if chunk_id not in collection.corpus.ids]
    if unknown:
        raise CollectionError(
            f"run {name}: {len(unknown)} chunks in its top {depth} are not in the corpus of "
            f"{collection.name}, as {unknown[0]}; retrieve from the corpus of this collection, or "
            "give the results as passages, with their places in its files"
        )
    left_out = {
        "queries that are not in the collection or have no nuggets": ranked.keys() - wanted,
        "queries for which it has nothing": wanted - ranked.keys(),
    }
    notes += [f"{len(ids)} {what}: {some_of(ids)}" for what, ids in left_out.items() if ids]
    if file is None:
        digest = sha256_of([[*place, rank.rank] for place, rank in top.items()])
    else:
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
    return RunTop(name, digest, top, tuple(notes))


class _Ranked(NamedTuple):
    """The tops of the rankings of a run: by query, the chunks at each rank."""

    chunks: Mapping[str, Sequence[Sequence[str]]]
    notes: list[str]


def _ranked(run: Run | PassageRun, spans: CollectionSpans, depth: int) -> _Ranked:
    """Take the top of a run; at the rank of a passage are the chunks that share bytes with it."""
    if isinstance(run, Run):
        tops = {query: of[:depth] for query, of in run.rankings.items()}
        return _Ranked({query: [(id_,) for id_, _ in of] for query, of in tops.items()}, [])
    found: dict[str, list[Sequence[str]]] = {}
    without: Counter[str] = Counter()
    for query, of in by_passage_id(run, spans).rankings.items():
        found[query] = [
            () if id_.startswith(UNPLACED) else spans.files.chunks_at(spans.place(id_))
            for id_, _ in of[:depth]
        ]
        without[query] += sum(not ids for ids in found[query])
    notes = []
    if ids := +without:
        where = f"in its top {depth} are at no known place of its files and stay unjudged"
        notes = [f"{without.total():,} results {where}; of queries {some_of(ids)}"]
    return _Ranked(found, notes)


def _extended(
    before: Collection, runs: Sequence[RunTop], depth: int, folder: Path, made: Made
) -> Extended:
    from freshstack_dspy.calibration.agreement import measured_trust
    from freshstack_dspy.recipes.judge import with_judgments

    old, session, judged = before.manifest, made.session, made.contents
    pool = _with_runs(before.pool, runs)
    judgments = {(one.nugget_id, one.chunk_id): one for one in before.judgments}
    labelled = _labelled(before)
    new = [one for one in judged.judgments if (one.nugget_id, one.chunk_id) not in labelled]
    judgments |= {(one.nugget_id, one.chunk_id): one for one in new}
    contents = with_judgments(
        before,
        list(judgments.values()),
        [*_still_failed(before.failures, new), *judged.failures],
        old.scale,
        pool=tuple(pool),
        contamination=_contamination(before, list(judgments.values())),
    )
    places = [(one.query_id, one.chunk_id) for one in new if one.label is not None]
    counts = {run.name: sum(place in run.top for place in places) for run in runs}
    extensions = _extensions(old.extensions, runs, depth, counts, session.judges)
    failed = sum(one.label is None for one in new)
    is_same = extensions == old.extensions and contents.records() == before.records()
    if is_same and folder.exists():
        return Extended(before, before, counts, failed, changed=False)
    described = old.model_copy(
        update={
            "extensions": extensions,
            "models": with_models(old, session.lm.ledger.models()),
            "ledger": added(old.ledger, session.lm.ledger.steps()),
            "trust": measured_trust(
                contents, before.corpus, old.scale, old.name, session.config.trust
            ),
            "fingerprints": {},  # a build would make another collection
            "reasked": tuple(sorted({*old.reasked, *session.used()} - call_ids_of(contents))),
        }
    )
    written = write_collection(
        folder, contents, before.corpus, described, rejected=old.counts.rejected
    )
    return Extended(written, before, counts, failed, changed=True)


def _labelled(collection: Collection) -> set[tuple[str, str]]:
    """The ids of the pairs of nugget and chunk that have a label."""
    return {(one.nugget_id, one.chunk_id) for one in collection.judgments if one.label is not None}


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


def _contamination(before: Collection, judgments: Sequence[Judgment]) -> tuple[Contamination, ...]:
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
        before.corpus.chunks,
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
