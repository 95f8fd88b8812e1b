"""One run of a build: every step of the recipe for all queries, a step at a time."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from freshstack_dspy.collection.contents import Contents
from freshstack_dspy.collection.manifest import Provenance
from freshstack_dspy.collection.slices import slice_queries
from freshstack_dspy.collection.writing import call_ids_of
from freshstack_dspy.index.hybrid import HybridIndex
from freshstack_dspy.questions.reading import QueryReading
from freshstack_dspy.recipes.contamination import Scored, contamination_of, score, to_score
from freshstack_dspy.recipes.corpus import CutCorpora, cut_corpora, index_corpora
from freshstack_dspy.recipes.freshstack import FreshStack, Nuggetized
from freshstack_dspy.recipes.growing.standing import Carried, Standing
from freshstack_dspy.recipes.growing.unjudged import unjudged
from freshstack_dspy.recipes.judging.judging import Judged, judge, judge_alone
from freshstack_dspy.recipes.only_failures import check_no_labels, check_no_nuggets
from freshstack_dspy.recipes.planning.estimate import estimate
from freshstack_dspy.recipes.pooling import pool, technique_texts
from freshstack_dspy.recipes.provenance import provenance
from freshstack_dspy.recipes.questions import make_questions, of_this_corpus, read_questions
from freshstack_dspy.recipes.rating import Rated, rate
from freshstack_dspy.recipes.session import Session
from freshstack_dspy.recipes.synthesis.seeds import with_seeds
from freshstack_dspy.recipes.unchanged import fingerprints
from freshstack_dspy.records import (
    Candidate,
    Chunk,
    Expansion,
    ExpansionKind,
    Failure,
    Nugget,
    Query,
)


class _FirstRound(NamedTuple):
    nuggets: list[Nugget]
    expansions: list[Expansion]
    failures: list[Failure]


class _SecondRound(NamedTuple):
    candidates: list[Candidate]
    judged: Judged
    scored: Scored
    rated: Rated


class Made(NamedTuple):
    """A collection that is not written yet."""

    contents: Contents
    chunks: list[Chunk]
    provenance: Provenance
    rejected: Mapping[str, int]


class Run:
    """One run of the recipe: every step, for all queries."""

    def __init__(self, session: Session, standing: Standing | None = None) -> None:
        """Prepare.

        Args:
            session: Whom it asks, for which configuration.
            standing: What need not be asked; by default nothing stands.
        """
        self._asking = session
        self._standing = standing or Standing()
        self._config = session.config
        self._lm = session.lm
        self._models = session.models
        self._progress = session.progress
        self.recipe = FreshStack(session.config)
        self._steps = session

    def made(self, inputs: Mapping[str, str]) -> Made:
        """Run all steps.

        Args:
            inputs: Their fingerprints, as `fingerprint_inputs` gave them.
        """
        synthetic = self._config.queries.is_synthetic
        reading = None if synthetic else read_questions(self._config, self._progress)
        corpus = cut_corpora(self._config, self._progress)
        index = index_corpora(
            self._config,
            corpus,
            models=self._models,
            progress=self._progress,
        )
        reading = self._questions(reading, index, corpus)
        queries = reading.queries
        expected = None
        if self._standing.is_empty:
            expected = estimate(self._config, self.recipe, queries, corpus.chunks)
        first = self._first_round(queries)
        self._asking.stop_if_deferred()
        second = self._second_round(index, queries, first, corpus.chunks)
        self._asking.stop_if_deferred()
        contents = self._contents(queries, corpus, first, second)
        used = self._lm.client.used_replies()
        told = provenance(
            self._config,
            self.recipe,
            self._lm.ledger,
            estimate=expected,
            fingerprints=fingerprints(self._config, inputs, used),
            reasked=used.keys() - call_ids_of(contents),
        )
        return Made(contents, corpus.chunks, told, reading.rejected)

    def _questions(
        self, reading: QueryReading | None, index: HybridIndex, corpus: CutCorpora
    ) -> QueryReading:
        """The questions that were read, or those that are made."""
        if reading is None:
            return make_questions(self._asking, self.recipe, index, corpus)
        queries = of_this_corpus(reading.queries, corpus.chunks, self._progress)
        return reading._replace(queries=queries)

    def _contents(
        self,
        queries: Sequence[Query],
        corpus: CutCorpora,
        first: _FirstRound,
        second: _SecondRound,
    ) -> Contents:
        """The records of a collection, from all that was asked."""
        return Contents(
            queries=tuple(queries),
            nuggets=second.rated.nuggets,
            expansions=tuple(first.expansions),
            pool=tuple(second.candidates),
            judgments=second.judged.judgments,
            single_judgments=second.judged.single_judgments,
            contamination=contamination_of(
                self._config,
                queries,
                first.nuggets,
                second.judged.judgments,
                corpus.chunks,
                second.scored.knowledge,
            ),
            failures=(
                *first.failures,
                *second.judged.failures,
                *second.scored.failures,
                *second.rated.failures,
            ),
            slices=tuple(
                slice_queries(
                    queries,
                    first.nuggets,
                    second.judged.judgments,
                    self._config.judge.graded.threshold,
                )
            ),
            skipped=tuple(corpus.skipped),
            licences=tuple(corpus.licences),
        )

    def _first_round(self, queries: Sequence[Query]) -> _FirstRound:
        """What is asked of the questions and answers alone."""
        nuggets = self._each("nuggets", self._nuggets_that_stand, self.recipe.nuggets_of, queries)
        check_no_nuggets(nuggets)
        sub_questions = self._expand("sub_questions", self.recipe.sub_questions_of, queries)
        answers = self._expand("closed_book_answer", self.recipe.closed_book_answer_of, queries)
        replies = [*sub_questions, *answers]
        failures = [each.failure for each in nuggets if each.failure is not None]
        return _FirstRound(
            nuggets=[one for each in nuggets for one in each.nuggets],
            expansions=[reply for reply in replies if isinstance(reply, Expansion)],
            failures=failures + [reply for reply in replies if isinstance(reply, Failure)],
        )

    def _second_round(
        self,
        index: HybridIndex,
        queries: Sequence[Query],
        first: _FirstRound,
        chunks: Sequence[Chunk],
    ) -> _SecondRound:
        """What is asked once there are nuggets and expansions."""
        pooled = self._pool(index, queries, first.nuggets, first.expansions)
        carried = self._standing.carried(queries, first.nuggets, pooled, chunks)
        judged = self._judge(index, queries, first.nuggets, carried)
        asked = to_score(self._config, queries, first.nuggets, first.expansions)
        known = {
            one.query.query_id: knowledge
            for one in asked
            if (knowledge := self._standing.knowledge_of(one.query)) is not None
        }
        to_ask = [one for one in asked if one.query.query_id not in known]
        scored = score(self._config, self.recipe, self._steps, to_ask)
        scored = scored._replace(knowledge={**known, **scored.knowledge})
        # Last, so that a budget that runs out does so where the fewest measures need it.
        rated = rate(self.recipe, self._steps, queries, first.nuggets)
        return _SecondRound(carried.candidates, judged, scored, rated)

    def _nuggets_that_stand(self, query: Query) -> Nuggetized | None:
        nuggets = self._standing.nuggets_of(query)
        return Nuggetized(tuple(nuggets), None) if nuggets else None

    def _expand(
        self,
        kind: ExpansionKind,
        function: Callable[[Query], Expansion | Failure],
        queries: Sequence[Query],
    ) -> list[Expansion | Failure]:
        """Ask for an expansion of every question, if its technique is one that pools."""
        if kind not in self._config.pool.techniques:
            return []
        return self._each(
            kind, lambda query: self._standing.expansion_of(query, kind), function, queries
        )

    def _each(
        self,
        name: str,
        standing: Callable[[Query], Any],
        function: Callable[[Query], Any],
        queries: Sequence[Query],
    ) -> list[Any]:
        """Give for every query what stands, and ask for the rest."""
        stands = [standing(query) for query in queries]
        to_ask = [query for query, known in zip(queries, stands, strict=True) if not known]
        return [*filter(None, stands), *self._steps.each(name, function, to_ask)]

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
        candidates = with_seeds(queries, pool(index, texts, self._config.pool, self._config.fusion))
        self._progress.advance("pool")
        self._progress.finish("pool", f"{len(candidates)} chunks for {len(texts)} queries")
        return candidates

    def _judge(
        self,
        index: HybridIndex,
        queries: Sequence[Query],
        nuggets: Sequence[Nugget],
        carried: Carried,
    ) -> Judged:
        """Judge what does not stand; what failed becomes judgments without labels."""
        nuggets_of, pooled = _by_query(nuggets), _by_query(carried.candidates)
        chunks = index.chunks_by_id(candidate.chunk_id for candidate in carried.candidates)
        to_judge = {
            query_id: [chunks[candidate.chunk_id] for candidate in candidates_]
            for query_id, candidates_ in pooled.items()
        }
        stand = {(judgment.nugget_id, judgment.chunk_id) for judgment in carried.judgments}
        asked = unjudged(queries, nuggets_of, to_judge, stand)
        judged = judge(self._config, self.recipe, self._steps, asked)
        if not carried.judgments:
            check_no_labels(asked, judged)
        everything = unjudged(queries, nuggets_of, to_judge, frozenset())
        alone = judge_alone(
            self._config,
            self.recipe,
            self._steps,
            everything,
            asked,
            carried.singles,
            carried.alone,
        )
        return Judged(
            (*carried.judgments, *judged.judgments),
            (*judged.failures, *alone.failures),
            alone.judgments,
        )


def _by_query(records: Sequence[Any]) -> Mapping[str, list[Any]]:
    groups: dict[str, list[Any]] = {}
    for record in records:
        groups.setdefault(record.query_id, []).append(record)
    return groups
