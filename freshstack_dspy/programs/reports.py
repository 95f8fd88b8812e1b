"""From a report to its request and its sub-questions, and from a request to a report."""

from collections.abc import Sequence
from typing import Any

import dspy

from freshstack_dspy.lm.typed import Program
from freshstack_dspy.programs.support_judge import numbered, whole
from freshstack_dspy.records import Chunk, Nugget, Query
from freshstack_dspy.signatures.checks import ShownQuestion
from freshstack_dspy.signatures.reports import (
    WriteReport,
    WriteReportRequest,
    WriteSubQuestions,
)


class RequestWriter(Program):
    """From a report to an open-ended query (CRUX §3.2)."""

    def __init__(self) -> None:
        super().__init__(WriteReportRequest)

    def forward(self, query: Query) -> dspy.Prediction:
        """Return a prediction with `query`: the given one, with the request of its answer."""
        reply = self.ask(report=query.answer)
        update = {"body": reply.request.strip(), "origin": "synthetic", "call_id": reply.call_id}
        return dspy.Prediction(query=query.model_copy(update=update))


class SubQuestionWriter(Program):
    """From a report to exactly `count` sub-questions, no two alike (CRUX §3.2)."""

    def __init__(self, count: int = 10) -> None:
        super().__init__(WriteSubQuestions)
        self.count = count

    def forward(self, query: Query) -> dspy.Prediction:
        """Return a prediction with `nuggets`, a tuple of `Nugget` whose texts are questions."""
        reply = self.ask(report=query.answer, count=self.count)
        return dspy.Prediction(nuggets=sub_questions_of(query, reply.questions, reply.call_id))


def sub_questions_of(query: Query, texts: Sequence[str], call_id: str | None) -> tuple[Nugget, ...]:
    """Make the nuggets of a report from the texts of its sub-questions."""
    return tuple(
        Nugget(
            nugget_id=f"{query.query_id}_{number}",
            query_id=query.query_id,
            text=text.strip(),
            call_id=call_id,
        )
        for number, text in enumerate(texts)
    )


class ReportWriter(Program):
    """From a request and a context to a report y = G(x, Z) (CRUX, equation 1)."""

    def __init__(self) -> None:
        super().__init__(WriteReport)

    def forward(self, query: Query, chunks: Sequence[Chunk]) -> dspy.Prediction:
        """Return a prediction with `report`, a text, and `call_id`.

        It may have as many words as the query's own report, and at least 50; without chunks it is
        direct prompting.
        """
        return self.ask(**writer_inputs(query, chunks))


def writer_inputs(query: Query, chunks: Sequence[Chunk]) -> dict[str, Any]:
    """What a report is asked for with."""
    return {
        "request": ShownQuestion.of(query),
        "passages": numbered([whole(chunk) for chunk in chunks]),
        "words": max(50, len(query.answer.split())),
    }
