"""The FreshStack recipe (arXiv 2504.13128 §3).

`FreshStack` is the recipe for one query, as a DSPy module that an optimizer can compile;
`judged_collection` runs the same steps for many queries, a step at a time.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import dspy

from freshstack_dspy.collection.contents import Contents
from freshstack_dspy.collection.slices import slice_queries
from freshstack_dspy.config import BuildConfig
from freshstack_dspy.errors import ConfigError, FatalModelError, ReplyError
from freshstack_dspy.index.hybrid import HybridIndex
from freshstack_dspy.programs.expansion import ClosedBookAnswerer, QuestionDecomposer
from freshstack_dspy.programs.nuggetizer import ImportanceRater, Nuggetizer
from freshstack_dspy.programs.query_synthesizer import QuerySynthesizer
from freshstack_dspy.programs.saved import load_program
from freshstack_dspy.programs.support_judge import SupportJudge, failure_of, unjudged
from freshstack_dspy.recipes.contamination import contamination_of, score
from freshstack_dspy.recipes.judge import (
    JudgeCall,
    Judged,
    JudgedBatch,
    ToJudge,
    judge,
    judge_calls,
    merged,
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
    Nugget,
    Query,
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
    expansions, failed = expand(session, recipe, queries, known)
    failures += failed
    session.stop_if_deferred()

    pooled = pool_queries(session, queries, nuggets, expansions, searches)
    candidates = known.candidates(queries, pooled, searches.chunks)
    judged = judge_pool(session, recipe, queries, nuggets, candidates, searches.chunks, known)
    scored = score(session, recipe, queries, nuggets, expansions, known)
    # Last, so that a budget that runs out does so where the fewest measures need it.
    rated, unrated = rate(session, recipe, queries, nuggets)
    session.stop_if_deferred()

    threshold = session.config.judge.graded.threshold
    return Contents(
        queries=tuple(queries),
        nuggets=tuple(rated),
        expansions=tuple(expansions),
        pool=tuple(candidates),
        judgments=judged.judgments,
        contamination=contamination_of(
            session.config, queries, nuggets, judged.judgments, searches.chunks, scored.knowledge
        ),
        failures=(*failures, *judged.failures, *scored.failures, *unrated),
        slices=tuple(slice_queries(queries, nuggets, judged.judgments, threshold)),
        skipped=searches.skipped,
        licences=searches.licences,
    )


def nuggetize(
    session: Session, recipe: "FreshStack", queries: Sequence[Query], known: Known
) -> tuple[list[Nugget], list[Failure]]:
    """Cut every accepted answer into nuggets (§3.3)."""
    reused = {query.query_id: known.nuggets(query) for query in queries}
    asked = [query for query in queries if not reused[query.query_id]]
    replies = session.each("nuggets", recipe.nuggets_of, asked)
    nuggets = [one for found in reused.values() for one in found]
    nuggets += [one for reply in replies for one in reply.nuggets]
    failures = [reply.failure for reply in replies if reply.failure is not None]
    if replies and not nuggets:
        why = failures[0].message if failures else "there were none"
        raise FatalModelError(
            f"no nuggets came of any of the {len(replies)} answers, so nothing was written; "
            f"the first: {why}"
        )
    return nuggets, failures


def expand(
    session: Session, recipe: "FreshStack", queries: Sequence[Query], known: Known
) -> tuple[list[Expansion], list[Failure]]:
    """Ask for the sub-questions and the closed-book answers of questions (§3.4)."""
    steps: dict[ExpansionKind, Callable[[Query], Expansion | Failure]] = {
        "sub_questions": recipe.sub_questions_of,
        "closed_book_answer": recipe.closed_book_answer_of,
    }
    found: list[Expansion | Failure] = []
    for kind, function in steps.items():
        if kind in session.config.pool.techniques:
            reused = {query.query_id: known.expansion(query, kind) for query in queries}
            found += [one for one in reused.values() if one is not None]
            asked = [query for query in queries if reused[query.query_id] is None]
            found += session.each(kind, function, asked)
    return (
        [one for one in found if isinstance(one, Expansion)],
        [one for one in found if isinstance(one, Failure)],
    )


def pool_queries(
    session: Session,
    queries: Sequence[Query],
    nuggets: Sequence[Nugget],
    expansions: Sequence[Expansion],
    searches: Searches,
) -> list[Candidate]:
    """Pool chunks for every query that has nuggets (§3.4)."""
    nuggets_of, expansions_of = by_query(nuggets), by_query(expansions)
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
    nuggets_of, pooled = by_query(nuggets), by_query(candidates)
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
    unlabelled = sum(one.label is None for one in judged.judgments)
    if judged.failures and unlabelled == wanted:
        raise FatalModelError(
            f"no label came of any of the {wanted} pairs of nugget and chunk, so nothing was "
            f"written; the first: {judged.failures[0].message}"
        )
    return judged


def rate(
    session: Session, recipe: "FreshStack", queries: Sequence[Query], nuggets: Sequence[Nugget]
) -> tuple[list[Nugget], list[Failure]]:
    """Have nuggets rated vital or okay, where the configuration wants it."""
    if recipe.importance_rater is None:
        return list(nuggets), []
    nuggets_of = by_query(nuggets)
    asked = [
        (query, nuggets_of[query.query_id])
        for query in queries
        if any(one.importance is None for one in nuggets_of.get(query.query_id, ()))
    ]
    replies = session.each("importance", lambda one: recipe.importance_of(*one), asked)
    rated = {nugget.nugget_id: nugget for reply in replies for nugget in reply.nuggets}
    return (
        [rated.get(nugget.nugget_id, nugget) for nugget in nuggets],
        [reply.failure for reply in replies if reply.failure is not None],
    )


def by_query(records: Sequence[Any]) -> Mapping[str, list[Any]]:
    """Group records by their query."""
    groups: dict[str, list[Any]] = {}
    for record in records:
        groups.setdefault(record.query_id, []).append(record)
    return groups


class Nuggetized(NamedTuple):
    """The nuggets of a query as far as they came, and what failed of them."""

    nuggets: tuple[Nugget, ...]
    failure: Failure | None


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
        self.importance_rater = ImportanceRater() if config.nuggets.importance else None
        if config.programs.support_judge is not None and config.judge.scale != "binary":
            raise ConfigError(
                f"[programs] support_judge is a judge of the binary scale, and [judge] scale is "
                f"{config.judge.scale!r}: take one of the two out"
            )
        for name, path in config.programs:
            if path is not None:
                load_program(getattr(self, name), path)

    def forward(self, query: Query, index: HybridIndex) -> dspy.Prediction:
        """Run every step for one query.

        Returns:
            A prediction with `nuggets`, `expansions`, `pool` and `judgments`, tuples of records;
            judgments of chunks that the model left out have no label.

        Raises:
            ReplyError: The model gave no valid answer in one of the steps.
        """
        nuggets = self.nuggetizer(query=query).nuggets
        if self.importance_rater is not None:
            nuggets = self.importance_rater(query=query, nuggets=nuggets).nuggets
        expansions = tuple(
            program(query=query).expansion
            for kind, program in (
                ("sub_questions", self.question_decomposer),
                ("closed_book_answer", self.closed_book_answerer),
            )
            if kind in self.config.pool.techniques
        )
        texts = {query.query_id: technique_texts(query, nuggets, expansions)}
        candidates = tuple(pool(index, texts, self.config.pool, self.config.fusion))
        chunks = list(index.chunks_by_id(candidate.chunk_id for candidate in candidates).values())
        calls = judge_calls(self.config, self.support_judge, [ToJudge(query, nuggets, chunks)])
        batches = [self._judged_or_raise(call) for call in calls]
        return dspy.Prediction(
            nuggets=nuggets,
            expansions=expansions,
            pool=candidates,
            judgments=merged(batches, self.config.judge.votes),
        )

    def nuggets_of(self, query: Query) -> Nuggetized:
        """The nuggets of a query, or why there are none."""
        try:
            made = self.nuggetizer(query=query)
        except ReplyError as error:
            return Nuggetized((), failure_of(query, "nuggets", error))
        return Nuggetized(made.nuggets, made.failure)

    def importance_of(self, query: Query, nuggets: Sequence[Nugget]) -> Nuggetized:
        """The nuggets of a query with their importance; as they are if it could not be rated."""
        if self.importance_rater is None:
            return Nuggetized(tuple(nuggets), None)
        try:
            rated = self.importance_rater(query=query, nuggets=nuggets).nuggets
        except ReplyError as error:
            return Nuggetized(tuple(nuggets), failure_of(query, "importance", error))
        return Nuggetized(rated, None)

    def sub_questions_of(self, query: Query) -> Expansion | Failure:
        """The sub-questions of a query, or why there are none."""
        try:
            expansion: Expansion = self.question_decomposer(query=query).expansion
        except ReplyError as error:
            return failure_of(query, "sub_questions", error)
        return expansion

    def closed_book_answer_of(self, query: Query) -> Expansion | Failure:
        """The closed-book answer to a query, or why there is none."""
        try:
            expansion: Expansion = self.closed_book_answerer(query=query).expansion
        except ReplyError as error:
            return failure_of(query, "closed_book_answer", error)
        return expansion

    def judged(self, call: JudgeCall) -> JudgedBatch:
        """The judgments of one call; what failed has no labels."""
        try:
            return self._judged_or_raise(call)
        except ReplyError as error:
            chunks = [passage.chunk for passage in call.passages]
            failed = tuple(
                judgment
                for chunk in chunks
                for judgment in unjudged(call.query, call.nuggets, chunk, error)
            )
            return JudgedBatch(failed, failure_of(call.query, call.step, error, chunks), call)

    def _judged_or_raise(self, call: JudgeCall) -> JudgedBatch:
        if call.unfit is not None:
            raise ReplyError(call.unfit, status="failed", call_id=None)
        reply: Any = self.support_judge(
            query=call.query,
            nuggets=call.nuggets,
            chunks=call.passages,
            vote=call.vote,
            step=call.step,
        )
        return JudgedBatch(reply.judgments, reply.failure, call)
