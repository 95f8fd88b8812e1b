"""The FreshStack recipe for one query, as a DSPy module (arXiv 2504.13128 §3).

`forward` runs all steps for one query, so an optimizer can compile a step or the whole;
`build.py` runs the same steps for many queries, a step at a time.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import dspy

from freshstack_dspy.config import BuildConfig
from freshstack_dspy.errors import ConfigError, ReplyError
from freshstack_dspy.index.hybrid import HybridIndex
from freshstack_dspy.programs.closed_book_answerer import ClosedBookAnswerer
from freshstack_dspy.programs.importance_rater import ImportanceRater
from freshstack_dspy.programs.nuggetizer import Nuggetizer
from freshstack_dspy.programs.query_synthesizer import QuerySynthesizer
from freshstack_dspy.programs.question_decomposer import QuestionDecomposer
from freshstack_dspy.programs.saved import load_program
from freshstack_dspy.programs.support_judge import SupportJudge, failure_of, unjudged, whole
from freshstack_dspy.recipes.judging.judge_calls import JudgeCall, ToJudge, even, judge_calls
from freshstack_dspy.recipes.judging.voting import JudgedBatch, merged
from freshstack_dspy.recipes.pooling import pool, technique_texts
from freshstack_dspy.records import Chunk, Expansion, Failure, Nugget, Query


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
        batches = [self._judged(call) for call in calls]
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

    def judgments_of(
        self, query: Query, nuggets: Sequence[Nugget], chunks: Sequence[Chunk]
    ) -> JudgedBatch:
        """The judgments of one batch of chunks, in one call."""
        return self.judged(JudgeCall(query, nuggets, [whole(chunk) for chunk in chunks]))

    def judged(self, call: JudgeCall) -> JudgedBatch:
        """What comes of one call of the judge; what failed has no labels."""
        try:
            return self._judged(call)
        except ReplyError as error:
            chunks = [passage.chunk for passage in call.passages]
            failed = tuple(
                judgment
                for chunk in chunks
                for judgment in unjudged(call.query, call.nuggets, chunk, error)
            )
            return JudgedBatch(failed, failure_of(call.query, call.step, error, chunks), call)

    def _judged(self, call: JudgeCall) -> JudgedBatch:
        if call.unfit is not None:
            raise ReplyError(call.unfit, status="failed", call_id=None)
        said: Any = self.support_judge(
            query=call.query,
            nuggets=call.nuggets,
            chunks=call.passages,
            vote=call.vote,
            step=call.step,
        )
        return JudgedBatch(said.judgments, said.failure, call)


def batches(chunks: Sequence[Chunk], size: int) -> list[Sequence[Chunk]]:
    """Cut chunks, in the order of their ids, into the fewest even batches of at most `size`."""
    ordered = sorted(chunks, key=lambda chunk: chunk.chunk_id)
    return even(ordered, -(-len(ordered) // size))
