"""The record of a question that a model gave no valid answer to."""

from collections.abc import Sequence
from freshstack_dspy.errors import ReplyError
from freshstack_dspy.records import Chunk
from freshstack_dspy.records import Failure
from freshstack_dspy.records import Query
from freshstack_dspy.records import Step

def failure_of(query: Query, step: Step, error: ReplyError, chunks: Sequence[Chunk] = ()) -> Failure:
    """What is listed and counted of a question that failed.

    Args:
        query: Whose question it was.
        step: What was asked.
        error: How it failed.
        chunks: Those that were to be judged.
    """
    return Failure(
        query_id=query.query_id,
        step=step,
        status=error.status,
        message=str(error),
        chunk_ids=tuple(chunk.chunk_id for chunk in chunks),
        call_id=error.call_id,
    )
