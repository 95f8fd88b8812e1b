"""Extend a collection: the unjudged chunks of runs are judged, as its own pool was.

If a run holds passages that are cut otherwise, the chunks that share bytes with its top are judged.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
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
from freshstack_dspy.measures.run import UNPLACED, Run, RunSource, is_passages, is_searches, to_run
from freshstack_dspy.measures.searches import read_searches
from freshstack_dspy.pages.page import counted, money
from freshstack_dspy.pages.shown import Shown
from freshstack_dspy.progress import Progress, report, showing
from freshstack_dspy.recipes.make import Made
from freshstack_dspy.recipes.make import run as run_verb
from freshstack_dspy.recipes.opening import SessionOptions, configured
from freshstack_dspy.recipes.provenance import added, made_otherwise
from freshstack_dspy.recipes.session import Session
from freshstack_dspy.records import Candidate, Contamination, Failure, Judgment, RunRank
from freshstack_dspy.stored.contents import Contents, nuggets_by_query, some_of
from freshstack_dspy.stored.manifest import Extension, read_manifest, with_models
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
        runs: What `evaluate` takes: runs, their files in TREC's format, or retrievers. If they
            hold passages cut otherwise (also as JSON Lines), the chunks that share bytes with them
            are judged.
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
    with (
        span("extend", collection=folder.name),
        only_writer(folder, "freshstack extend"),
        showing(options.get("progress")) as progress,
    ):
        work = _Extension(Collection.load(collection), runs, config, k)
        for top in work.tops:
            for note in top.notes:
                report(progress, f"run {top.name}", note)
        options["progress"] = progress
        is_paid = (
            options.get("mode", "live") == "live"
            and (options.get("provider") or config.model_of("judge").provider) is None
        )
        if is_paid and (pairs := work.unlabelled):
            total = work.plan(progress).total
            cost = "at a price that is not known"
            if total.cost is not None:
                cost = f"about {money(total.cost)}"
            requests = f"{total.requests:,} requests, {total.recorded:,} recorded"
            report(progress, "to judge", f"{pairs:,} pairs in {requests}; {cost}")
        check = None if keep_labels else work.check_judge
        finish = partial(work.written, folder)
        before = work.before
        return run_verb(config, finish, before=before, stages=work.stages, check=check, **options)


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
    return _Extension(Collection.load(collection), runs, config, k).plan(progress)


class _Extension:
    """The runs that a collection is extended by, and what they bring to it."""

    def __init__(
        self, before: Collection, runs: Sequence[Any], config: BuildConfig, depth: int
    ) -> None:
        """Read the runs, and check that no name is that of two, and that no two scales are mixed."""
        if not runs:
            raise ConfigError("no run is named; name one or more files of runs or passages")
        self.before, self.config, self.depth = before, config, depth
        self.tops = [_top(before, run, depth) for run in runs_of(before, list(runs))]
        files = {extension.run: extension.sha256 for extension in before.manifest.extensions}
        for top in self.tops:
            if files.setdefault(top.name, top.sha256) != top.sha256:
                raise CollectionError(
                    f"run {top.name!r} is the name of two different files; give one of them another "
                    "name, in the last field of its lines, or of passages in that of the file"
                )
        ours, theirs = config.judge.graded, before.manifest.scale
        if ours != theirs:
            raise ConfigError(
                f"[judge] is on scale {ours.name!r} with threshold {ours.threshold}, and the labels "
                f"of {before.name} are not; write under [judge]: "
                f'scale = "{theirs.name}" and threshold = {theirs.threshold}'
            )
        self.places = {place for top in self.tops for place in top.top}
        """The ids of the queries and chunks in the tops."""
        self.labelled = {
            _pair(judgment) for judgment in before.judgments if judgment.label is not None
        }

    @cached_property
    def nuggets(self) -> Mapping[str, Sequence[str]]:
        """The ids of each query's nuggets."""
        by_query = nuggets_by_query(self.before.nuggets)
        return {id_: [nugget.nugget_id for nugget in nuggets] for id_, nuggets in by_query.items()}

    @property
    def unlabelled(self) -> int:
        """How many pairs of nuggets and chunks in the tops have no label."""
        return sum(
            (nugget_id, chunk_id) not in self.labelled
            for query_id, chunk_id in self.places
            for nugget_id in self.nuggets[query_id]
        )

    @cached_property
    def pool(self) -> list[Candidate]:
        """The candidates of the pool and those that runs bring, each with the runs that found it."""
        pool = {
            (candidate.query_id, candidate.chunk_id): candidate for candidate in self.before.pool
        }
        for top in self.tops:
            for place, rank in top.top.items():
                query_id, chunk_id = place
                new = Candidate(query_id=query_id, chunk_id=chunk_id, origin="run")
                known = pool.get(place, new)
                ranks = tuple(dict.fromkeys((*known.runs, rank)))
                pool[place] = known.model_copy(update={"runs": ranks})
        return list(pool.values())

    @property
    def stages(self) -> "Stages":
        """Ask about the pairs of the runs that have no label.

        Those judged in full are shown to the judge's step too: a chunk of a run may say the same.
        """
        from freshstack_dspy.recipes.freshstack import judge_pool

        candidates = tuple(
            candidate
            for candidate in self.pool
            if (candidate.query_id, candidate.chunk_id) in self.places
            or all(
                (id_, candidate.chunk_id) in self.labelled
                for id_ in self.nuggets.get(candidate.query_id, ())
            )
        )
        before = self.before

        def begin(_work: "Work", _contents: Contents) -> Contents:
            return Contents(queries=before.queries, nuggets=before.nuggets, pool=candidates)

        return ((begin, judge_pool),)

    def plan(self, progress: Progress | bool | None) -> "Plan":
        """What would be asked, and its price."""
        from freshstack_dspy.recipes.plan import plan_of

        queries = len({query_id for query_id, _ in self.places})

        def finish(made: Made) -> "Plan":
            return plan_of(made.session, name=self.before.name, queries=queries)

        return run_verb(
            self.config,
            finish,
            before=self.before,
            stages=self.stages,
            dry=True,
            progress=progress,
        )

    def check_judge(self, session: Session) -> None:
        """Check that labels of two judges are not mixed; those of an import may be by anybody."""
        if changes := made_otherwise(self.before.manifest, session, only="judge"):
            raise ConfigError(
                f"{self.before.name} was judged differently: {'; '.join(changes)}; old and new labels "
                "would not be comparable: go back to the old judge, add labels anyway with "
                f"{argument('keep_labels')}, or judge everything anew first: freshstack rejudge"
            )

    def written(self, folder: Path, made: Made) -> Extended:
        """Write the collection with the new judgments, if anything is new."""
        from freshstack_dspy.calibration.agreement import measured_trust
        from freshstack_dspy.recipes.judge import with_judgments

        before, old, session = self.before, self.before.manifest, made.session
        new = [
            judgment for judgment in made.contents.judgments if _pair(judgment) not in self.labelled
        ]
        judgments = list(
            {_pair(judgment): judgment for judgment in (*before.judgments, *new)}.values()
        )
        contents = with_judgments(
            before,
            judgments,
            [*_still_failed(before.failures, new), *made.contents.failures],
            old.scale,
            pool=tuple(self.pool),
            contamination=_contamination(before, judgments),
        )
        places = [
            (judgment.query_id, judgment.chunk_id) for judgment in new if judgment.label is not None
        ]
        counts = {top.name: sum(place in top.top for place in places) for top in self.tops}
        extensions = self._extensions(counts, session.judges)
        failed = len(new) - len(places)
        is_same = extensions == old.extensions and contents.records() == before.records()
        if is_same and folder.exists():
            return Extended(before, before, counts, failed, changed=False)
        trust = measured_trust(contents, before.corpus, old.scale, old.name, session.config.trust)
        described = old.model_copy(
            update={
                "extensions": extensions,
                "models": with_models(old, session.lm.ledger.models()),
                "ledger": added(old.ledger, session.lm.ledger.steps()),
                "trust": trust,
                "reasked": tuple(sorted({*old.reasked, *session.used()} - call_ids_of(contents))),
            }
        )
        written = write_collection(
            folder, contents, before.corpus, described, rejected=old.counts.rejected
        )
        return Extended(written, before, counts, failed, changed=True)

    def _extensions(self, judged: Mapping[str, int], model: str) -> tuple[Extension, ...]:
        """The extensions of the manifest and these runs; later labels are added to a run's entry."""

        def key_of(entry: Extension) -> tuple[str, str, int, str]:
            return entry.run, entry.sha256, entry.depth, entry.model

        entries = {key_of(entry): entry for entry in self.before.manifest.extensions}
        for top in self.tops:
            new = Extension(
                run=top.name,
                sha256=top.sha256,
                depth=self.depth,
                judged=judged[top.name],
                model=model,
            )
            known = entries.get(key_of(new))
            total = new.judged + (known.judged if known else 0)
            entries[key_of(new)] = new.model_copy(update={"judged": total})
        return tuple(entries.values())


def _pair(judgment: Judgment) -> tuple[str, str]:
    return judgment.nugget_id, judgment.chunk_id


def _top(collection: Collection, source: RunSource, depth: int) -> RunTop:
    """Read a run; at the rank of a passage are the chunks that share bytes with it."""
    spans = collection.files
    file = Path(source) if isinstance(source, str | Path) else None
    if file and is_searches(file):
        run: Any = read_searches(file, spans).union()
    else:
        run = spans.read(file) if file and is_passages(file) else to_run(source)
    name, ranked = run.name, dict[str, list[Sequence[str]]]()
    in_chunks = isinstance(run, Run)
    for query_id, ranking in (run if in_chunks else by_passage_id(run, spans)).rankings.items():
        ranked[query_id] = [
            (id_,)
            if in_chunks
            else ()
            if id_.startswith(UNPLACED)
            else spans.chunks_at(spans.place(id_))
            for id_, _ in ranking[:depth]
        ]
    wanted = set(collection.query_ids("all"))
    if not wanted & ranked.keys():
        raise CollectionError(
            f"run {name}: none of its {len(ranked)} queries (such as {min(ranked)!r}) is a "
            f"query of {collection.name} with nuggets (such as {min(wanted, default=None)!r}); name a "
            "run of its queries"
        )
    top: dict[tuple[str, str], RunRank] = {}
    for query_id in sorted(wanted & ranked.keys()):
        for rank, chunk_ids in enumerate(ranked[query_id], 1):
            for chunk_id in chunk_ids:
                top.setdefault((query_id, chunk_id), RunRank(run=name, rank=rank))
    if unknown := [id_ for _, id_ in top if id_ not in collection.corpus.ids]:
        raise CollectionError(
            f"run {name}: {len(unknown)} chunks in its top {depth} are not in the corpus of "
            f"{collection.name}, such as {unknown[0]}; retrieve from the corpus of this collection, or "
            "give the results as passages, with their places in its files"
        )
    unplaced = [query_id for query_id, ranking in ranked.items() for ids in ranking if not ids]
    notes = []
    if unplaced:
        where = f"in its top {depth} are at no known place of its files and stay unjudged"
        notes = [f"{len(unplaced):,} results {where}; of queries {some_of({*unplaced})}"]
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


def _still_failed(failures: Iterable[Failure], asked: Iterable[Judgment]) -> list[Failure]:
    """The failures, without the chunks that were asked about again."""
    again = {(judgment.query_id, judgment.chunk_id) for judgment in asked}
    left = []
    for failure in failures:
        ids = tuple(id_ for id_ in failure.chunk_ids if (failure.query_id, id_) not in again)
        if failure.step != "support" or ids:
            left.append(failure.model_copy(update={"chunk_ids": ids}))
    return left


def _contamination(before: Collection, judgments: Sequence[Judgment]) -> tuple[Contamination, ...]:
    """What was known of queries, with their overlap with the chunks that support them now."""
    from freshstack_dspy.recipes.freshstack import contamination_of

    if not before.contamination:
        return ()
    settings = ContaminationConfig.model_validate(before.manifest.config.get("contamination", {}))
    knowledge = {
        scored.query_id: Knowledge(scored.known_nuggets, scored.call_id)
        for scored in before.contamination
        if scored.known_nuggets is not None
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
