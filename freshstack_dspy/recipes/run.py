"""One run of a build: every step of the recipe for all queries, a step at a time."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from freshstack_dspy.collection import Collection, Contents, call_ids_of, write_collection
from freshstack_dspy.config import BuildConfig
from freshstack_dspy.errors import DeferredError, FatalModelError
from freshstack_dspy.index import HybridIndex, Models
from freshstack_dspy.lm.batch.deferred import write_requests
from freshstack_dspy.lm.batch.jobs import JobFolder
from freshstack_dspy.lm.connect import DoorLM
from freshstack_dspy.lm.replies.read_only import ReadOnlyStore
from freshstack_dspy.recipes.estimate import estimate
from freshstack_dspy.recipes.freshstack import FreshStack, JudgedBatch, batches
from freshstack_dspy.recipes.indexing import cut_corpora, index_corpora
from freshstack_dspy.recipes.pooling import pool, technique_texts
from freshstack_dspy.recipes.progress import Progress
from freshstack_dspy.recipes.provenance import provenance
from freshstack_dspy.recipes.questions import read_questions
from freshstack_dspy.recipes.slices import slice_queries
from freshstack_dspy.recipes.steps import Steps
from freshstack_dspy.recipes.unchanged import fingerprints
from freshstack_dspy.records import (
    Candidate,
    Expansion,
    ExpansionKind,
    Failure,
    Nugget,
    Query,
)


class Run:
    """One run of the recipe: every step, for all queries."""

    def __init__(
        self,
        config: BuildConfig,
        lm: DoorLM,
        models: Models,
        progress: Progress,
        store: ReadOnlyStore | None,
        requests_file: Path | None,
    ) -> None:
        self._config = config
        self._lm = lm
        self._models = models
        self._progress = progress
        self._store = store
        self._named = f" --requests {requests_file}" if requests_file else ""
        self._requests_file = requests_file or (
            config.cache.path.parent / "requests" / f"{config.name}.jsonl"
        )
        self._recipe = FreshStack(config)
        self._steps = Steps(_asking_steps(config), lm, self._progress)

    def collection(self, inputs: Mapping[str, str]) -> Collection:
        """Run all steps, and write what comes of them.

        Args:
            inputs: Their fingerprints, as `fingerprint_inputs` gave them.
        """
        reading = read_questions(self._config, self._progress)
        queries = reading.queries
        corpus = cut_corpora(self._config, self._progress)
        expected = estimate(self._config, self._recipe, queries, corpus.chunks)
        index = index_corpora(
            self._config,
            corpus,
            embedders=self._models.embedders,
            reranker=self._models.reranker,
            progress=self._progress,
        )
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
            licences=tuple(corpus.licences),
        )
        used = self._lm.door.used_replies()
        told = provenance(
            self._config,
            self._recipe,
            self._lm.ledger,
            estimate=expected,
            fingerprints=fingerprints(self._config, inputs, used),
            reasked=used.keys() - call_ids_of(contents),
        )
        return write_collection(
            self._config.out, contents, corpus.chunks, told, rejected=reading.rejected
        )

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
        candidates = pool(index, texts, self._config.pool, self._config.fusion)
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
        chunks = index.chunks_by_id(candidate.chunk_id for candidate in candidates)
        tasks = [
            (query, nuggets_of[query.query_id], batch)
            for query in queries
            if query.query_id in pooled
            for batch in batches(
                [chunks[candidate.chunk_id] for candidate in pooled[query.query_id]],
                self._config.judge.batch,
            )
        ]
        return self._steps.each("support", lambda task: self._recipe.judgments_of(*task), tasks)

    def _stop_if_deferred(self) -> None:
        if self._lm.door.mode != "defer" or self._store is None or not self._lm.door.deferred:
            return
        underway = {key for job in JobFolder.of(self._config).pending() for key in job.keys}
        if underway >= self._lm.door.deferred:
            raise DeferredError(
                f"all {len(self._lm.door.deferred)} requests are in batches under way; wait for "
                "them with: freshstack requests status CONFIG --wait"
            )
        written = write_requests(
            self._store, self._requests_file, self._lm.door.deferred - underway
        )
        raise DeferredError(
            f"{written} requests were written to {self._requests_file}; send them with: freshstack "
            f"requests submit CONFIG{self._named}, or have them answered elsewhere and import the replies with: "
            "freshstack requests import REPLIES CONFIG; then build again"
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


def _by_query(records: Sequence[Any]) -> Mapping[str, list[Any]]:
    groups: dict[str, list[Any]] = {}
    for record in records:
        groups.setdefault(record.query_id, []).append(record)
    return groups
