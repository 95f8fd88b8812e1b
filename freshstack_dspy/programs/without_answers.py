"""Nuggets of a question without an answer: made from passages that are relevant to it.

The steps of TREC RAG's AutoNuggetizer; see `recipes/without_answers.py`.
"""

from collections.abc import Sequence
from typing import Any

from freshstack_dspy.corpus.shown_chunks import ChunkPart, parts_of
from freshstack_dspy.errors import ReplyError
from freshstack_dspy.lm.typed import Prediction, Program
from freshstack_dspy.programs.nuggetizer import nugget_of
from freshstack_dspy.programs.support_judge import as_nuggets, numbered_nuggets, passage_inputs
from freshstack_dspy.records import Chunk, Importance, Nugget, Query, Relevance, as_query
from freshstack_dspy.signatures.question import ShownQuestion
from freshstack_dspy.signatures.without_answers import GradeRelevance, RateImportance, UpdateNuggets


class Grades(Prediction):
    """How relevant passages are."""

    grades: list[Relevance | None]
    """The grade of each passage, in the given order; None if every reply left it out."""
    error: ReplyError | None
    """Says which were left out."""


class RelevanceGrader(Program):
    """From a question and several passages to the grade of each, 0 to 3 (UMBRELA)."""

    def __init__(self) -> None:
        super().__init__(GradeRelevance)

    def forward(self, query: Query | str, passages: Sequence[Chunk | ChunkPart | str]) -> Grades:
        """Grade.

        Args:
            query: What is asked; its answer is not shown.
            passages: Chunks, in the order in which they are shown; without any nothing is asked.
        """
        if not passages:
            return Grades(grades=[], error=None)
        answered, error = self.ask_each(**passage_inputs(query, passages))
        by_number = {
            number: Relevance(grade=item.grade, reason=item.reason, call_id=call_id)
            for number, (item, call_id) in answered.items()
        }
        return Grades(grades=[*map(by_number.get, range(1, len(passages) + 1))], error=error)


class UpdatedNuggets(Prediction):
    """The nuggets of a question as they are now."""

    nuggets: tuple[Nugget, ...]
    """Most important first. Each has the ids of the chunks that it comes from: those of the listed
    nuggets that it takes up, and the passages that state it."""


class NuggetUpdater(Program):
    """From the nuggets so far and a window of passages to at most `limit` nuggets."""

    def __init__(self, limit: int = 30) -> None:
        super().__init__(UpdateNuggets)
        self.limit = limit

    def forward(
        self,
        query: Query | str,
        nuggets: Sequence[Nugget | str],
        passages: Sequence[Chunk | ChunkPart | str],
    ) -> UpdatedNuggets:
        """Update.

        Args:
            query: What is asked.
            nuggets: Those so far; none at first.
            passages: The window of chunks, in the order in which they are shown.
        """
        query, shown = as_query(query), parts_of(passages)
        listed = as_nuggets(query, nuggets)
        reply = self.ask(**update_inputs(query, listed, shown, self.limit))
        nuggets_now = []
        for number, nugget in enumerate(reply.found):
            before = (listed[n - 1].chunk_ids for n in nugget.nuggets)
            here = {shown[n - 1].chunk_id for n in nugget.passages}
            chunk_ids = tuple(sorted(here.union(*before)))
            nuggets_now.append(
                nugget_of(query, number, nugget.text, reply.call_id, chunk_ids=chunk_ids)
            )
        return UpdatedNuggets(nuggets=tuple(nuggets_now))


class Importances(Prediction):
    """How much a good answer needs nuggets."""

    importances: list[Importance | None]
    """The importance of each nugget, in the given order; None if every reply left it out."""
    error: ReplyError | None
    """Says which were left out."""


class ImportanceRater(Program):
    """From a question and its nuggets to the importance of each."""

    def __init__(self) -> None:
        super().__init__(RateImportance)

    def forward(self, query: Query | str, nuggets: Sequence[Nugget | str]) -> Importances:
        """Rate; without nuggets nothing is asked."""
        if not nuggets:
            return Importances(importances=[], error=None)
        query = as_query(query)
        answered, error = self.ask_each(
            question=ShownQuestion.of(query), nuggets=numbered_nuggets(as_nuggets(query, nuggets))
        )
        rated: dict[int, Importance] = {
            number: item.importance for number, (item, _) in answered.items()
        }
        return Importances(importances=[*map(rated.get, range(1, len(nuggets) + 1))], error=error)


def update_inputs(
    query: Query, nuggets: Sequence[Nugget], passages: Sequence[ChunkPart], limit: int
) -> dict[str, Any]:
    """What one step of creating nuggets is asked."""
    listed = numbered_nuggets(nuggets)
    return {**passage_inputs(query, passages), "nuggets": listed, "limit": limit}
