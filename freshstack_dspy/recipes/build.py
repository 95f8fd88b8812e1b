"""Build a judged collection: every step of the recipe, for all queries, a step at a time.

A build is a pure function of its configuration, its inputs and the replies. It keeps no state of
its own: kill it at any moment and run it again, and only what was in flight is asked again.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import dspy

from freshstack_dspy.collection import Collection, Contents, refuse_foreign, write_collection
from freshstack_dspy.config import MODES, BuildConfig, Mode
from freshstack_dspy.errors import ConfigError, DeferredError, FatalModelError, SourceError
from freshstack_dspy.index import HybridIndex
from freshstack_dspy.lm.budget import Account
from freshstack_dspy.lm.bundle import read_bundle, write_bundle
from freshstack_dspy.lm.connect import DoorLM, connect
from freshstack_dspy.lm.deferred import write_requests
from freshstack_dspy.lm.door import open_store
from freshstack_dspy.lm.events import Listener
from freshstack_dspy.lm.providers import Provider
from freshstack_dspy.lm.reply import Reply
from freshstack_dspy.lm.store import ReplyStore
from freshstack_dspy.recipes.corpus import cut_corpus
from freshstack_dspy.recipes.freshstack import FreshStack, JudgedBatch, batches
from freshstack_dspy.recipes.pooling import pool, technique_texts
from freshstack_dspy.recipes.progress import Progress, Silence
from freshstack_dspy.recipes.provenance import provenance
from freshstack_dspy.recipes.slices import slice_queries
from freshstack_dspy.recipes.steps import Steps
from freshstack_dspy.records import (
    Candidate,
    Chunk,
    Expansion,
    ExpansionKind,
    Failure,
    Nugget,
    Query,
)
from freshstack_dspy.sources import read_queries

_INDEX_STAGES = 4
"""`terms`, `bm25`, `lsa` and `table`; an index that is only opened reports none."""


def build(
    config: BuildConfig,
    *,
    mode: Mode = "live",
    progress: Progress | None = None,
    requests_file: Path | None = None,
    replies_file: Path | None = None,
    provider: Provider | None = None,
    on_call: Listener | None = None,
) -> Collection:
    """Build the collection that a configuration describes, and write it to its folder.

    Args:
        config: As `load_config` reads it.
        mode: `live`, `replay`, `defer` or `refresh`; see `lm/door.py`.
        progress: Whom to tell how it goes.
        requests_file: Where `defer` writes the missing requests; by default beside the store.
        replies_file: Where to write the replies that this build used, as a bundle.
        provider: What answers, in place of the one that the model's name chooses.
        on_call: Told of every request to the model, by many threads; `EventLog` writes them down.

    Returns:
        The collection, as it stands on disk.

    Raises:
        BudgetError: The budget is used up; what was answered is recorded, and a larger one goes on.
        DeferredError: In mode `defer`, requests were written down; answer and import them.
        FreshstackError: Anything else that stops a build, in one line; see `errors.py`.
    """
    if mode not in MODES:
        raise ConfigError(f"unknown mode {mode!r}; allowed: {', '.join(MODES)}")
    with contextlib.ExitStack() as opened:
        store = open_store(config.cache.path, mode)
        if store is not None:
            opened.callback(store.close)
        lm = connect(
            config.model,
            mode=mode,
            store=store,
            recorded=_bundles(config),
            provider=provider,
            account=Account(config.name, config.budget, config.prices),
            on_call=on_call,
        )
        opened.callback(lm.door.close)
        with dspy.context(lm=lm, disable_history=True):
            collection = _Build(config, lm, progress or Silence(), store, requests_file).run()
        if replies_file is not None:
            write_bundle(lm.door.used(), replies_file)
        return collection


class _Build:
    """One run of the recipe."""

    def __init__(
        self,
        config: BuildConfig,
        lm: DoorLM,
        progress: Progress,
        store: ReplyStore | None,
        requests_file: Path | None,
    ) -> None:
        self._config = config
        self._lm = lm
        self._progress = progress
        self._store = store
        self._requests_file = requests_file or (
            config.cache.path.parent / "requests" / f"{config.name}.jsonl"
        )
        self._recipe = FreshStack(config)
        self._steps = Steps(_asking_steps(config), lm, self._progress)

    def run(self) -> Collection:
        refuse_foreign(self._config.out)  # before anything is paid for
        reading = read_queries(self._config.queries)
        queries = reading.queries
        if not queries:
            left_out = "; ".join(f"{number} {why}" for why, number in reading.rejected.items())
            raise SourceError(
                f"{self._config.queries.path}: no question is left ({left_out or 'it holds none'}); "
                "widen the filters of [queries], or name another file"
            )
        corpus = cut_corpus(self._config, self._progress)
        index = self._index(corpus.chunks)
        nuggets = self._steps.each("nuggets", self._recipe.nuggets_of, queries)
        _refuse_only_failures(nuggets)
        sub_questions = self._expand("sub_questions", self._recipe.sub_questions_of, queries)
        answers = self._expand("closed_book_answer", self._recipe.closed_book_answer_of, queries)
        self._stop_if_deferred()
        replies = [*nuggets, *sub_questions, *answers]
        all_nuggets = [one for each in nuggets if not isinstance(each, Failure) for one in each]
        expansions = [reply for reply in replies if isinstance(reply, Expansion)]
        candidates = self._pool(index, queries, all_nuggets, expansions)
        judged = self._judge(index, queries, all_nuggets, candidates)
        self._stop_if_deferred()
        failures = [reply for reply in replies if isinstance(reply, Failure)]
        failures += [batch.failure for batch in judged if batch.failure is not None]
        judgments = [judgment for batch in judged for judgment in batch.judgments]
        contents = Contents(
            queries=tuple(queries),
            nuggets=tuple(all_nuggets),
            expansions=tuple(expansions),
            pool=tuple(candidates),
            judgments=tuple(judgments),
            failures=tuple(failures),
            slices=tuple(slice_queries(queries, all_nuggets, judgments)),
            skipped=tuple(corpus.skipped),
        )
        return write_collection(
            self._config.out,
            contents,
            corpus.chunks,
            provenance(self._config, self._recipe, self._lm.ledger),
            rejected=reading.rejected,
        )

    def _index(self, chunks: Sequence[Chunk]) -> HybridIndex:
        self._progress.start("index", _INDEX_STAGES)
        ended: set[str] = set()

        def report(stage: str, fraction: float) -> None:
            if fraction >= 1 and stage not in ended:
                ended.add(stage)
                self._progress.advance("index")

        index = HybridIndex.build_or_open(
            self._config.index.path,
            chunks,
            dimensions=self._config.index.dimensions,
            progress=report,
        )
        self._progress.finish("index", f"{len(chunks):,} chunks")
        return index

    def _expand(
        self,
        kind: ExpansionKind,
        function: Callable[[Query], Expansion | Failure],
        queries: Sequence[Query],
    ) -> list[Expansion | Failure]:
        """Ask for an expansion of every question, if its technique is one that pools."""
        if kind not in self._config.pool.techniques:
            return []
        return self._steps.each(kind, function, queries)

    def _pool(
        self,
        index: HybridIndex,
        queries: Sequence[Query],
        nuggets: Sequence[Nugget],
        expansions: Sequence[Expansion],
    ) -> list[Candidate]:
        """Pool for every query that has nuggets to be judged."""
        self._progress.start("pool", 1)
        nuggets_of, expansions_of = _by_query(nuggets), _by_query(expansions)
        texts = {
            query.query_id: technique_texts(
                query, nuggets_of[query.query_id], expansions_of.get(query.query_id, [])
            )
            for query in queries
            if query.query_id in nuggets_of
        }
        candidates = pool(index, texts, self._config.pool)
        self._progress.advance("pool")
        self._progress.finish("pool", f"{len(candidates)} chunks for {len(texts)} queries")
        return candidates

    def _judge(
        self,
        index: HybridIndex,
        queries: Sequence[Query],
        nuggets: Sequence[Nugget],
        candidates: Sequence[Candidate],
    ) -> list[JudgedBatch]:
        """Judge all pooled chunks in batches; failed batches become judgments without labels."""
        nuggets_of, pooled = _by_query(nuggets), _by_query(candidates)
        tasks = [
            (query, nuggets_of[query.query_id], batch)
            for query in queries
            if query.query_id in pooled
            for batch in batches(
                [index.chunk(candidate.chunk_id) for candidate in pooled[query.query_id]],
                self._config.judge.batch,
            )
        ]
        return self._steps.each("support", lambda task: self._recipe.judgments_of(*task), tasks)

    def _stop_if_deferred(self) -> None:
        if self._lm.door.mode != "defer" or self._store is None or not self._lm.door.deferred:
            return
        written = write_requests(self._store, self._requests_file, self._lm.door.deferred)
        raise DeferredError(
            f"{written} requests were written to {self._requests_file}; answer them, then import "
            "the replies with: freshstack requests import REPLIES CONFIG, and build again"
        )


def _asking_steps(config: BuildConfig) -> list[str]:
    """The steps that ask a model, in their order."""
    expansions = [kind for kind in get_args(ExpansionKind) if kind in config.pool.techniques]
    return ["nuggets", *expansions, "support"]


def _refuse_only_failures(nuggets: Sequence[Any]) -> None:
    """Stop where no answer could be nuggetized: it is no reason to replace a collection."""
    if nuggets and all(isinstance(each, Failure) for each in nuggets):
        raise FatalModelError(
            f"no nuggets came of any of the {len(nuggets)} answers, so nothing was written; "
            f"the first: {nuggets[0].message}"
        )


def _bundles(config: BuildConfig) -> dict[str, Reply]:
    recorded: dict[str, Reply] = {}
    for path in config.cache.bundles:
        recorded.update(read_bundle(path))
    return recorded


def _by_query(records: Sequence[Any]) -> Mapping[str, list[Any]]:
    groups: dict[str, list[Any]] = {}
    for record in records:
        groups.setdefault(record.query_id, []).append(record)
    return groups
