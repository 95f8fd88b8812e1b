"""Questions without answers: nuggets from what retrieval finds, as TREC RAG's AutoNuggetizer.

Source: Pradeep et al., The Great Nugget Recall (arXiv 2504.15068). Grades of relevance are those of
UMBRELA (arXiv 2406.06519). Such nuggets cannot hold what no retriever of the pool found.
"""

from collections.abc import Sequence, Set
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, ClassVar, NamedTuple

from freshstack_dspy.config import BuildConfig
from freshstack_dspy.corpus.shown_chunks import ChunkPart, whole
from freshstack_dspy.errors import FatalModelError, ReplyError, TooLongError
from freshstack_dspy.programs.nuggetizer import with_near_duplicates
from freshstack_dspy.programs.support_judge import failure_of, passage_inputs
from freshstack_dspy.programs.without_answers import (
    ImportanceRater,
    NuggetUpdater,
    RelevanceGrader,
    update_inputs,
)
from freshstack_dspy.progress import report
from freshstack_dspy.recipes.flow import Stages, Work, by_query
from freshstack_dspy.recipes.freshstack import (
    FreshStack,
    contaminate,
    expand,
    judge_pool,
    pool_for,
)
from freshstack_dspy.recipes.judge import LEAST_ROOM, Window, even, packed
from freshstack_dspy.recipes.known import NOTHING, edited_nuggets
from freshstack_dspy.recipes.pooling import asked_by_block, blocks
from freshstack_dspy.records import (
    RELEVANT,
    Candidate,
    Failure,
    Importance,
    Nugget,
    Query,
    Relevance,
)
from freshstack_dspy.stored.contents import Contents

WINDOW = 10
"""Most relevant passages that one step of creating nuggets is shown, and most nuggets that one
call rates (TREC RAG 2024)."""
CREATED = 30
"""Most nuggets of the list while it is made; `[nuggets] limit` of them are kept."""
_NUGGET_TOKENS = 40
"""Tokens of room that are left for each nugget of the list."""


def pool_questions(work: Work, made: Contents) -> Contents:
    """Pool chunks for every question: there are no nuggets yet to search with."""
    return pool_for(work, made, made.queries)


class ToRead(NamedTuple):
    """Passages of one query that one call is shown."""

    query: Query
    passages: Sequence[ChunkPart]


class Graded(NamedTuple):
    """The grades of a call, in the order of its passages; None where none came."""

    asked: ToRead
    grades: Sequence[Relevance | None]
    failure: Failure | None


def grade(work: Work, made: Contents) -> Contents:
    """Grade how relevant each pooled chunk is; of a chunk in parts the highest grade counts.

    What a run brought to a question whose nuggets are known is not asked about.
    """
    grades: dict[tuple[str, str], Relevance] = {}
    failures: list[Failure] = []
    planned = (_to_grade(work, made, block) for block in blocks(made.queries))
    graded_by, number = work.recipe.graded, len(made.queries)
    for graded, before in asked_by_block(work.session, "relevance", graded_by, planned, number):
        grades |= before | _grades(graded)
        failures += [one.failure for one in graded if one.failure is not None]
    if failures and not grades:
        work.session.stop_if_deferred()
        raise FatalModelError(
            "no passage could be graded for relevance, so nothing was written; the first failure: "
            f"{failures[0].message}; {work.session.how_to_ask_again}"
        )
    candidates = tuple(
        one.model_copy(update={"relevance": grades.get((one.query_id, one.chunk_id))})
        for one in made.pool
    )
    number = sum(map(is_relevant, candidates))
    report(work.session.progress, "relevant", f"{number:,} of {len(candidates):,} passages")
    return replace(made, pool=candidates, failures=(*made.failures, *failures))


def _to_grade(
    work: Work, made: Contents, queries: Sequence[Query]
) -> tuple[list[ToRead], dict[tuple[str, str], Relevance]]:
    """The calls for some queries, and the grades that are known."""
    ids = {query.query_id for query in queries}
    pooled = by_query(one for one in made.pool if one.query_id in ids)
    chunks = work.chunks(made, (one.chunk_id for one in chain(*pooled.values())))
    calls: list[ToRead] = []
    grades: dict[tuple[str, str], Relevance] = {}
    for query in queries:
        asked = []
        for one in sorted(pooled.get(query.query_id, ()), key=lambda one: one.chunk_id):
            chunk = chunks[one.chunk_id]
            if (before := work.known.relevance(query, chunk)) is not None:
                grades[query.query_id, one.chunk_id] = before
            elif one.origin not in ("run", "reused") or not work.known.nuggets(query):
                asked.append(whole(chunk))
        calls += work.recipe.windows(query, asked, work.config.judge.batch)
    return calls, grades


def _grades(graded: Sequence[Graded]) -> dict[tuple[str, str], Relevance]:
    """The grade of each passage, by the ids of query and chunk; none where a part of it failed."""
    found: dict[tuple[str, str], list[Relevance | None]] = {}
    for one in graded:
        for passage, grade in zip(one.asked.passages, one.grades, strict=True):
            found.setdefault((one.asked.query.query_id, passage.chunk.chunk_id), []).append(grade)
    return {
        key: max(filter(None, grades), key=lambda one: one.grade)
        for key, grades in found.items()
        if None not in grades
    }


def nuggets_of(work: Work, made: Contents) -> Contents:
    """Make the nuggets of every query with a relevant passage, rate them, and keep the best.

    Those of the edited file, and of unchanged questions of what is known, are taken as they are.
    """
    recipe, session, known = work.recipe, work.session, work.known
    edited = work.config.nuggets.edited
    existing: Set[str] = frozenset()
    if edited is not None or known is not NOTHING:  # what they name may be in no pool
        existing = work.corpus.chunk_ids
    reused = edited_nuggets(edited, made.queries, existing)
    for query in made.queries:
        if query.query_id not in reused and (before := known.nuggets(query)):
            reused[query.query_id] = tuple(
                one.model_copy(
                    update={"chunk_ids": tuple(id_ for id_ in one.chunk_ids if id_ in existing)}
                )
                for one in before
            )
    ordered: list[Any] = list(filter(is_relevant, made.pool))
    ordered.sort(key=lambda one: (-one.relevance.grade, one.chunk_id))
    relevant = by_query(one for one in ordered if one.query_id not in reused)
    asked = [one for one in made.queries if one.query_id in relevant]
    created: list[NuggetsInProgress] = []
    with session.asking("nuggets", len(asked)) as ask:
        for block in blocks(asked):
            pooled = [relevant[query.query_id] for query in block]
            chunks = work.chunks(made, (one.chunk_id for one in chain(*pooled)))
            shown = [[whole(chunks[one.chunk_id]) for one in of_query] for of_query in pooled]
            created += ask(recipe.created, list(map(ToRead, block, shown)))
    session.stop_if_deferred()
    calls = [(one.query, some) for one in created for some in _tens(one.nuggets)]
    rated = session.each("importance", recipe.rated, calls)
    session.stop_if_deferred()
    kept = list(map(recipe.kept, by_query(chain(*(one.nuggets for one in rated))).values()))
    failures = list(chain(*(one.failures for one in (*created, *rated))))
    if asked and not any(kept) and failures:
        raise FatalModelError(
            f"none of the {len(asked)} questions has a nugget from its relevant passages, so "
            f"nothing was written; the first failure: {failures[0].message}; {session.how_to_ask_again}"
        )
    nuggets = tuple(chain(*reused.values(), *kept))
    return replace(made, nuggets=nuggets, failures=(*made.failures, *failures))


def is_relevant(candidate: Candidate) -> bool:
    """Whether nuggets are made from a candidate."""
    return candidate.relevance is not None and candidate.relevance.grade >= RELEVANT


class NuggetsInProgress(NamedTuple):
    """The nuggets of a query in the making."""

    query: Query
    nuggets: tuple[Nugget, ...]
    failures: tuple[Failure, ...]

    @property
    def failure(self) -> Failure | None:
        """The first; the account counts one for each query."""
        return next(iter(self.failures), None)


class WithoutAnswers(FreshStack):
    """Pool, grades, nuggets and support judgments of queries that have no answer."""

    stages: ClassVar[Stages] = (
        (expand,),
        (pool_questions,),
        (grade,),
        (nuggets_of,),
        (judge_pool, contaminate),
    )
    needs_answers: ClassVar[bool] = False

    def __init__(self, config: BuildConfig) -> None:
        """Make the steps; expanders and judge may be optimized programs."""
        super().__init__(config)
        del self.nuggetizer  # there is no answer to cut
        self.relevance_grader = RelevanceGrader()
        self.nugget_updater = NuggetUpdater(max(CREATED, config.nuggets.limit))
        self.importance_rater = ImportanceRater()

    def windows(self, query: Query, passages: Sequence[ChunkPart], size: int) -> list[ToRead]:
        """Pack passages into calls of the grader."""
        window = Window(self.config.model_of("judge"), self.relevance_grader)
        frame = passage_inputs(query, [])
        room, each = window.room_next_to(frame), window.reply_for_one(frame)
        if room is not None:
            room = max(room, LEAST_ROOM)
        return [ToRead(query, part) for part in packed(window, passages, size, room, each=each)]

    def graded(self, asked: ToRead) -> Graded:
        """The grades of one call; where it failed there are none."""
        query, passages = asked
        fail = partial(failure_of, query, "relevance")
        try:
            reply: Any = self.relevance_grader(query=query, passages=passages)
        except ReplyError as error:
            failure = fail(error, [one.chunk for one in passages])
            return Graded(asked, [None] * len(passages), failure)
        left_out = [
            one.chunk for one, grade in zip(passages, reply.grades, strict=True) if grade is None
        ]
        return Graded(asked, reply.grades, fail(reply.error, left_out) if reply.error else None)

    def created(self, asked: ToRead) -> NuggetsInProgress:
        """The list of nuggets after all windows; one that failed leaves it as it was before."""
        query, passages = asked
        nuggets: tuple[Nugget, ...] = ()
        failures: list[Failure] = []
        updater = self.nugget_updater
        window = Window(self.config.model_of("nuggets"), updater)
        room = window.room_next_to(update_inputs(query, [], [], updater.limit))
        if room is not None:
            room = max(room - _NUGGET_TOKENS * updater.limit, LEAST_ROOM)
        left = list(packed(window, passages, WINDOW, room))
        while left:
            shown = left.pop(0)
            try:
                reply: Any = updater(query=query, nuggets=nuggets, passages=shown)
                nuggets = reply.nuggets
            except ReplyError as error:
                if isinstance(error, TooLongError) and len(shown) > 1:
                    left[:0] = even(shown, 2)
                    continue
                failures.append(failure_of(query, "nuggets", error, [one.chunk for one in shown]))
        return NuggetsInProgress(query, nuggets, tuple(failures))

    def rated(self, asked: tuple[Query, Sequence[Nugget]]) -> NuggetsInProgress:
        """The nuggets of one call with their importance, which is None where no rating came."""
        query, nuggets = asked
        importances: Sequence[Importance | None] = [None] * len(nuggets)
        error: ReplyError | None
        try:
            reply: Any = self.importance_rater(query=query, nuggets=nuggets)
            importances, error = reply.importances, reply.error
        except ReplyError as failed:
            error = failed
        failures = () if error is None else (failure_of(query, "importance", error),)
        pairs = zip(nuggets, importances, strict=True)
        rated = (one.model_copy(update={"importance": importance}) for one, importance in pairs)
        return NuggetsInProgress(query, tuple(rated), failures)

    def kept(self, nuggets: Sequence[Nugget]) -> tuple[Nugget, ...]:
        """Merge near-duplicates, and keep the first `[nuggets] limit`, vital ones first."""
        merged: dict[str, Nugget] = {}
        first_of: dict[str | None, str] = {}
        for one in with_near_duplicates(nuggets):
            first_of[one.nugget_id] = first_of.get(one.duplicate_of, one.nugget_id)
            first = merged.get(first_of[one.nugget_id], one)
            vital = "vital" in (first.importance, one.importance)
            update = {
                "chunk_ids": tuple(sorted({*first.chunk_ids, *one.chunk_ids})),
                "importance": "vital" if vital else first.importance,
                "duplicate_of": None,
            }
            merged[first.nugget_id] = first.model_copy(update=update)
        ordered = sorted(merged.values(), key=lambda one: one.importance == "okay")
        return tuple(
            one.model_copy(update={"nugget_id": f"{one.query_id}_{number}"})
            for number, one in enumerate(ordered[: self.config.nuggets.limit])
        )


def _tens(nuggets: Sequence[Nugget]) -> list[Sequence[Nugget]]:
    """Nuggets in the calls that rate them."""
    return even(nuggets, -(-len(nuggets) // WINDOW))
