"""The FreshStack recipe (arXiv 2504.13128 §3).

`judged_collection` runs its steps for many queries, a step at a time; `FreshStack` runs them for
one query, as a DSPy module that an optimizer can compile.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, product
from typing import Any

import dspy

from freshstack_dspy.collection.contents import Contents, nuggets_by_query
from freshstack_dspy.collection.slices import slice_queries
from freshstack_dspy.config import BuildConfig
from freshstack_dspy.errors import FatalModelError, ReplyError
from freshstack_dspy.index.hybrid import HybridIndex
from freshstack_dspy.programs.documents import QuerySynthesizer
from freshstack_dspy.programs.expansion import ClosedBookAnswerer, QuestionDecomposer
from freshstack_dspy.programs.nuggetizer import Nuggetizer
from freshstack_dspy.programs.saved import load_program
from freshstack_dspy.programs.support_judge import SupportJudge, failure_of, unjudged
from freshstack_dspy.recipes.contamination import closed_book_knowledge, contamination_of
from freshstack_dspy.recipes.corpus import CutCorpora
from freshstack_dspy.recipes.edited import edited_nuggets
from freshstack_dspy.recipes.judge import (
    Duplicate,
    JudgeCall,
    Judged,
    JudgedBatch,
    ToJudge,
    judge,
    judge_calls,
    merged,
    shared,
    shares,
)
from freshstack_dspy.recipes.known import NOTHING, Known
from freshstack_dspy.recipes.pooling import Searches, pool, technique_texts, with_seeds
from freshstack_dspy.recipes.session import Session, report
from freshstack_dspy.records import (
    Candidate,
    Chunk,
    Expansion,
    ExpansionKind,
    Failure,
    Judgment,
    Nugget,
    Query,
    Step,
)


def judged_collection(
    session: Session,
    recipe: "FreshStack",
    queries: Sequence[Query],
    searches: Searches,
    known: Known = NOTHING,
) -> Contents:
    """Make the records of a collection: nuggets and expansions, pools, and their judgments.

    Raises:
        BudgetError: The budget is used up; what was answered is recorded.
        DeferredError: In mode `defer`, requests were written down.
        FatalModelError: Not one answer has nuggets, or not one pair a label.
    """
    nuggets, failures = nuggetize(session, recipe, queries, known)
    expansions, not_expanded = expand(session, recipe, queries, known)
    session.stop_if_deferred()

    pooled = pool_queries(session, queries, nuggets, expansions, searches)
    candidates = known.candidates(queries, pooled, searches.chunks)
    made = judged_contents(
        session, recipe, queries, nuggets, expansions, candidates, searches, known
    )
    return replace(made, failures=(*failures, *not_expanded, *made.failures))


def judged_contents(
    session: Session,
    recipe: "FreshStack",
    queries: Sequence[Query],
    nuggets: Sequence[Nugget],
    expansions: Sequence[Expansion],
    candidates: Sequence[Candidate],
    corpus: Searches | CutCorpora,
    known: Known,
) -> Contents:
    """Judge the candidates, and put all records together."""
    judged = judge_pool(session, recipe, queries, nuggets, candidates, corpus.chunks, known)
    knowledge, not_scored = closed_book_knowledge(
        session, recipe, queries, nuggets, expansions, known
    )
    session.stop_if_deferred()

    config = session.config
    threshold = config.judge.graded.threshold
    return Contents(
        queries=tuple(queries),
        nuggets=tuple(nuggets),
        expansions=tuple(expansions),
        pool=tuple(candidates),
        judgments=judged.judgments,
        contamination=contamination_of(
            config.contamination,
            threshold,
            queries,
            nuggets,
            judged.judgments,
            corpus.chunks,
            knowledge,
        ),
        failures=(*judged.failures, *not_scored),
        slices=tuple(slice_queries(queries, nuggets, judged.judgments, threshold, candidates)),
        skipped=tuple(corpus.skipped),
        licences=tuple(corpus.licences),
    )


def nuggetize(
    session: Session, recipe: "FreshStack", queries: Sequence[Query], known: Known
) -> tuple[list[Nugget], list[Failure]]:
    """Cut every accepted answer into nuggets (§3.3)."""
    edited = edited_nuggets(session.config.nuggets.edited, queries, {})
    reused = {one.query_id: edited.get(one.query_id, known.nuggets(one)) for one in queries}
    missing = [one for one in queries if not reused[one.query_id] and one.query_id not in edited]
    asked = [{"query": query} for query in missing]
    made, failures = ask(session, "nuggets", recipe.nuggetizer, asked)
    nuggets = list(chain(*reused.values(), *(one.nuggets for one in made)))
    if (made or failures) and all(nugget.doubtful for nugget in nuggets):
        why = failures[0].message if failures else "there were none"
        raise FatalModelError(
            f"no nuggets came of any of the {len(asked)} answers, so nothing was written; "
            f"the first: {why}"
        )
    misquoted = [
        one
        for query in queries
        for one in known.failures(query, "nuggets")
        if reused[query.query_id]
    ]
    return nuggets, [*misquoted, *failures]


def expand(
    session: Session, recipe: "FreshStack", queries: Sequence[Query], known: Known
) -> tuple[list[Expansion], list[Failure]]:
    """Ask for the sub-questions and the closed-book answers of questions (§3.4)."""
    expansions: list[Expansion] = []
    failures: list[Failure] = []
    for kind, program in recipe.expanders.items():
        reused = {query.query_id: known.expansion(query, kind) for query in queries}
        asked = [{"query": query} for query in queries if reused[query.query_id] is None]
        made, failed = ask(session, kind, program, asked)
        expansions += [one for one in reused.values() if one is not None]
        expansions += [one.expansion for one in made]
        failures += failed
    return expansions, failures


def pool_queries(
    session: Session,
    queries: Sequence[Query],
    nuggets: Sequence[Nugget],
    expansions: Sequence[Expansion],
    searches: Searches,
) -> list[Candidate]:
    """Pool chunks for every query that has nuggets (§3.4)."""
    nuggets_of, expansions_of = nuggets_by_query(nuggets), by_query(expansions)
    texts = {
        query.query_id: technique_texts(
            query, nuggets_of[query.query_id], expansions_of.get(query.query_id, [])
        )
        for query in queries
        if query.query_id in nuggets_of
    }
    candidates = with_seeds(queries, searches.pool(texts))
    report(session.progress, "pool", f"{len(candidates)} chunks for {len(texts)} queries")
    return candidates


def judge_pool(
    session: Session,
    recipe: "FreshStack",
    queries: Sequence[Query],
    nuggets: Sequence[Nugget],
    candidates: Sequence[Candidate],
    chunks: Sequence[Chunk],
    known: Known,
) -> Judged:
    """Judge each pooled chunk against each nugget of its query (§3.5)."""
    nuggets_of, pooled = nuggets_by_query(nuggets), by_query(candidates)
    chunk_of = {chunk.chunk_id: chunk for chunk in chunks}
    pairs = [
        ToJudge(
            query,
            nuggets_of[query.query_id],
            [chunk_of[one.chunk_id] for one in pooled.get(query.query_id, ())],
        )
        for query in queries
        if query.query_id in nuggets_of
    ]
    judged = judge(session, recipe, pairs, known)
    wanted = sum(len(pair.nuggets) * len(pair.chunks) for pair in pairs)
    if judged.failures and wanted == sum(one.label is None for one in judged.judgments):
        raise FatalModelError(
            f"no label came of any of the {wanted} pairs of nugget and chunk, so nothing was "
            f"written; the first: {judged.failures[0].message}"
        )
    return judged


def ask(
    session: Session, step: Step, program: dspy.Module, questions: Sequence[Mapping[str, Any]]
) -> tuple[list[Any], list[Failure]]:
    """Run a program on the inputs of each question; one without a valid reply is a failure."""

    def answer(inputs: Mapping[str, Any]) -> Any:
        try:
            return program(**inputs)
        except ReplyError as error:
            return failure_of(inputs["query"], step, error)

    replies = session.each(step, answer, questions)
    made = [one for one in replies if not isinstance(one, Failure)]
    failures = [one if isinstance(one, Failure) else one.get("failure") for one in replies]
    return made, [one for one in failures if one is not None]


def by_query(records: Sequence[Any]) -> dict[str, list[Any]]:
    """Group records by their query."""
    groups: dict[str, list[Any]] = {}
    for record in records:
        groups.setdefault(record.query_id, []).append(record)
    return groups


class FreshStack(dspy.Module):
    """Nuggets, expansions, pool and support judgments of a query."""

    def __init__(self, config: BuildConfig) -> None:
        """Make the steps, from the optimized programs that the configuration names."""
        super().__init__()
        self.config = config
        self.nuggetizer = Nuggetizer(config.nuggets.limit)
        self.question_decomposer = QuestionDecomposer(config.sub_questions.limit)
        self.closed_book_answerer = ClosedBookAnswerer()
        self.support_judge = SupportJudge(config.judge.scale)
        self.query_synthesizer = (
            QuerySynthesizer(config.queries.per_seed) if config.queries.is_synthetic else None
        )
        for name, path in config.programs:
            if path is not None and hasattr(self, name):  # a build has no comparer
                load_program(getattr(self, name), path)

    @property
    def expanders(self) -> dict[ExpansionKind, dspy.Module]:
        """The programs whose texts are searched with, as `[pool] techniques` wants them."""
        programs: dict[ExpansionKind, dspy.Module] = {
            "sub_questions": self.question_decomposer,
            "closed_book_answer": self.closed_book_answerer,
        }
        techniques = self.config.pool.techniques
        return {kind: program for kind, program in programs.items() if kind in techniques}

    def forward(self, query: Query, index: HybridIndex) -> dspy.Prediction:
        """Run every step for one query.

        Returns:
            A prediction with `nuggets`, `expansions`, `pool` and `judgments`, tuples of records;
            judgments that failed have no label.

        Raises:
            ReplyError: The model gave no valid answer in one of the steps before judging.
        """
        nuggets = self.nuggetizer(query=query).nuggets
        expansions = tuple(program(query=query).expansion for program in self.expanders.values())
        texts = {query.query_id: technique_texts(query, nuggets, expansions)}
        candidates = tuple(pool(index, texts, self.config.pool, self.config.fusion))
        chunks = list(index.chunks_by_id(candidate.chunk_id for candidate in candidates).values())
        return dspy.Prediction(
            nuggets=nuggets,
            expansions=expansions,
            pool=candidates,
            judgments=self.judged_pairs(query, nuggets, chunks),
        )

    def judged_pairs(
        self, query: Query, nuggets: Sequence[Nugget], chunks: Sequence[Chunk]
    ) -> tuple[Judgment, ...]:
        """The judgments of all pairs of a query; those that failed have no label."""
        wanted = [nugget for nugget in nuggets if not nugget.doubtful]
        same = shares(self.config.judge, ToJudge(query, wanted, chunks))
        judged = ToJudge(query, wanted, [one for one in chunks if one.chunk_id not in same])
        calls = judge_calls(self.config, self.support_judge, [judged])
        judgments = merged([self.judged(call) for call in calls], self.config.judge.votes)
        duplicates = [
            Duplicate(nugget, chunk, same[chunk.chunk_id])
            for nugget, chunk in product(wanted, chunks)
            if chunk.chunk_id in same
        ]
        return (*judgments, *shared(judgments, duplicates))

    def judged(self, call: JudgeCall) -> JudgedBatch:
        """The judgments of one call; what failed has no labels."""
        try:
            if call.unfit is not None:
                raise ReplyError(call.unfit, status="failed", call_id=None)  # noqa: TRY301
            reply: Any = self.support_judge(
                query=call.query,
                nuggets=call.nuggets,
                chunks=call.passages,
                vote=call.vote,
                step=call.step,
            )
        except ReplyError as error:
            chunks = [passage.chunk for passage in call.passages]
            failed = (unjudged(call.query, call.nuggets, chunk, error) for chunk in chunks)
            failure = failure_of(call.query, call.step, error, chunks)
            return JudgedBatch(tuple(chain(*failed)), failure, call)
        return JudgedBatch(reply.judgments, reply.failure, call)
