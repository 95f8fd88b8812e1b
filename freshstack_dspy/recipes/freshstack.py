"""The FreshStack recipe for one query, as a DSPy module (arXiv 2504.13128 §3).

`forward` runs all steps for one query, so an optimizer can compile a step or the whole;
`build.py` runs the same steps for many queries, a step at a time.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import dspy

from freshstack_dspy.config import BuildConfig
from freshstack_dspy.errors import ReplyError
from freshstack_dspy.index import HybridIndex
from freshstack_dspy.programs import (
    ClosedBookAnswerer,
    Nuggetizer,
    QuestionDecomposer,
    SupportJudge,
)
from freshstack_dspy.programs.failed import failure_of
from freshstack_dspy.programs.saved import load_program
from freshstack_dspy.programs.support_judge import unjudged
from freshstack_dspy.recipes.pooling import pool, technique_texts
from freshstack_dspy.records import Chunk, Expansion, Failure, Judgment, Nugget, Query


class JudgedBatch(NamedTuple):
    """The judgments of one batch; those that failed have no labels."""

    judgments: tuple[Judgment, ...]
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
        self.support_judge = SupportJudge()
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
        judgments = [
            judgment
            for batch in batches(chunks, self.config.judge.batch)
            for judgment in self.support_judge(query=query, nuggets=nuggets, chunks=batch).judgments
        ]
        return dspy.Prediction(
            nuggets=nuggets, expansions=expansions, pool=candidates, judgments=tuple(judgments)
        )

    def nuggets_of(self, query: Query) -> tuple[Nugget, ...] | Failure:
        """The nuggets of a query, or why there are none."""
        try:
            nuggets: tuple[Nugget, ...] = self.nuggetizer(query=query).nuggets
        except ReplyError as error:
            return failure_of(query, "nuggets", error)
        return nuggets

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
        """The judgments of one batch of chunks."""
        try:
            judged = self.support_judge(query=query, nuggets=nuggets, chunks=chunks)
        except ReplyError as error:
            failed = tuple(
                judgment for chunk in chunks for judgment in unjudged(query, nuggets, chunk, error)
            )
            return JudgedBatch(failed, failure_of(query, "support", error, chunks))
        return JudgedBatch(judged.judgments, judged.failure)


def batches(chunks: Sequence[Chunk], size: int) -> list[Sequence[Chunk]]:
    """Cut chunks into the fewest batches of at most `size`, as even as can be.

    In the order of their ids: the prompts then depend on which chunks were pooled and not on
    their ranks, in which the last digit of a score can make a difference.
    """
    ordered = sorted(chunks, key=lambda chunk: chunk.chunk_id)
    count = -(-len(ordered) // size)
    bounds = [len(ordered) * number // count for number in range(count + 1)] if count else [0]
    return [ordered[start:end] for start, end in pairwise(bounds)]
