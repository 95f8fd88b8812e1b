"""Nuggets of a question without an answer: made from passages that are relevant to it.

The steps of TREC RAG's AutoNuggetizer; see `recipes/without_answers.py`.
"""

from collections.abc import Sequence
from typing import Any

import dspy

from freshstack_dspy.lm.reask import IncompleteReplyError
from freshstack_dspy.lm.typed import Program
from freshstack_dspy.programs.support_judge import ChunkPart, numbered, parts_of
from freshstack_dspy.records import Chunk, Nugget, Query, Relevance, as_query
from freshstack_dspy.signatures.checks import ShownQuestion
from freshstack_dspy.signatures.judge_support import NumberedNugget
from freshstack_dspy.signatures.without_answers import GradeRelevance, RateImportance, UpdateNuggets


class RelevanceGrader(Program):
    """From a question and several passages to the grade of each, 0 to 3 (UMBRELA)."""

    def __init__(self) -> None:
        super().__init__(GradeRelevance)

    def forward(
        self, query: Query | str, passages: Sequence[Chunk | ChunkPart | str]
    ) -> dspy.Prediction:
        """Grade.

        Args:
            query: What is asked; its answer is not shown.
            passages: Chunks, in the order in which they are shown; without any nothing is asked.

        Returns:
            A prediction with `grades`, a `Relevance` (grade, reason, `call_id`) for each passage,
            in the given order, or None where every reply left it out; `error` is then the
            `ReplyError` that says so, and else None.
        """
        if not passages:
            return dspy.Prediction(grades=[], error=None)
        error: IncompleteReplyError | None = None
        try:
            outputs: Any = self.ask(**passage_inputs(as_query(query), parts_of(passages)))
        except IncompleteReplyError as incomplete:
            outputs, error = incomplete.outputs, incomplete
        found = {
            one.passage: Relevance(grade=one.grade, reason=one.reason, call_id=call_id)
            for one, call_id in zip(outputs["grades"], outputs["call_ids"], strict=True)
        }
        grades = [found.get(number) for number in range(1, len(passages) + 1)]
        return dspy.Prediction(grades=grades, error=error)


class NuggetUpdater(Program):
    """From the nuggets so far and a window of passages to at most `limit` nuggets."""

    def __init__(self, limit: int = 30) -> None:
        super().__init__(UpdateNuggets)
        self.limit = limit

    def forward(
        self,
        query: Query | str,
        nuggets: Sequence[Nugget],
        passages: Sequence[Chunk | ChunkPart | str],
    ) -> dspy.Prediction:
        """Update.

        Args:
            query: What is asked.
            nuggets: Those so far; none at first.
            passages: The window of chunks, in the order in which they are shown.

        Returns:
            A prediction with `nuggets`, most important first. Each has the ids of the chunks that
            it comes from: of those listed that it takes up, and of the passages that state it.
        """
        query, shown = as_query(query), parts_of(passages)
        reply = self.ask(**update_inputs(query, nuggets, shown, self.limit))
        made = []
        for number, one in enumerate(reply.found):
            before = [chunk_id for n in one.nuggets for chunk_id in nuggets[n - 1].chunk_ids]
            here = [shown[n - 1].chunk.chunk_id for n in one.passages]
            made.append(
                Nugget(
                    nugget_id=f"{query.query_id}_{number}",
                    query_id=query.query_id,
                    text=one.text.strip(),
                    call_id=reply.call_id,
                    chunk_ids=tuple(sorted({*before, *here})),
                )
            )
        return dspy.Prediction(nuggets=tuple(made))


class ImportanceRater(Program):
    """From a question and nuggets to `importances`: `vital`, `okay`, or None where it is left out."""

    def __init__(self) -> None:
        super().__init__(RateImportance)

    def forward(self, query: Query | str, nuggets: Sequence[Nugget]) -> dspy.Prediction:
        """Rate; `error` is the `ReplyError` that says which were left out, or None.

        Args:
            query: What is asked.
            nuggets: Those of the query; without any nothing is asked.
        """
        if not nuggets:
            return dspy.Prediction(importances=[], error=None)
        error: IncompleteReplyError | None = None
        try:
            outputs: Any = self.ask(
                question=ShownQuestion.of(as_query(query)), nuggets=_numbered(nuggets)
            )
        except IncompleteReplyError as incomplete:
            outputs, error = incomplete.outputs, incomplete
        rated = {one.nugget: one.importance for one in outputs["ratings"]}
        importances = [rated.get(number) for number in range(1, len(nuggets) + 1)]
        return dspy.Prediction(importances=importances, error=error)


def passage_inputs(query: Query, passages: Sequence[ChunkPart]) -> dict[str, Any]:
    """A question and its passages, numbered from 1."""
    return {"question": ShownQuestion.of(query), "passages": numbered(passages)}


def update_inputs(
    query: Query, nuggets: Sequence[Nugget], passages: Sequence[ChunkPart], limit: int
) -> dict[str, Any]:
    """What one step of creating nuggets is asked."""
    return {**passage_inputs(query, passages), "nuggets": _numbered(nuggets), "limit": limit}


def _numbered(nuggets: Sequence[Nugget]) -> list[NumberedNugget]:
    return [NumberedNugget(number=n, text=one.text) for n, one in enumerate(nuggets, 1)]
