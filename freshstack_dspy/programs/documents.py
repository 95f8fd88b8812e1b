"""Passages that can be read by themselves, and queries with answers, made from documents."""

import hashlib
import json
from collections.abc import Sequence

import dspy

from freshstack_dspy.lm.typed import Program
from freshstack_dspy.records import Chunk, Query
from freshstack_dspy.signatures.documents import (
    DecontextualizePassages,
    SeedPassage,
    SynthesizedQuery,
    SynthesizeQueries,
)

_LONGEST_TITLE = 300


class PassageDecontextualizer(Program):
    """From a document to at most `limit` standalone passages (CRUX §3.2)."""

    def __init__(self, limit: int = 3) -> None:
        super().__init__(DecontextualizePassages)
        self.limit = limit

    def forward(self, document: str, title: str = "") -> dspy.Prediction:
        """Decontextualize.

        Returns:
            A prediction with `passages`, a list of str, and `call_id`.
        """
        return self.ask(title=title, document=document, limit=self.limit)


class QuerySynthesizer(Program):
    """From one chunk, or several related ones, to at most `limit` queries that they answer."""

    def __init__(self, limit: int = 3) -> None:
        super().__init__(SynthesizeQueries)
        self.limit = limit

    def forward(
        self, chunks: Sequence[Chunk], style_examples: Sequence[str] = ()
    ) -> dspy.Prediction:
        """Synthesize.

        Args:
            chunks: The seeds; of several, each question needs more than one.
            style_examples: Questions whose style and length to follow.

        Returns:
            A prediction with `queries`, a tuple of `Query` in the order of the reply, each of
            origin `synthetic`, and `call_id`. An id depends on the seeds and on the question.
        """
        reply = self.ask(
            passages=[
                SeedPassage(
                    path=f"{chunk.source}/{chunk.path}",
                    headings=chunk.headings,
                    text=chunk.passage,
                )
                for chunk in chunks
            ],
            style_examples=list(style_examples),
            limit=self.limit,
        )
        seeds = tuple(chunk.chunk_id for chunk in chunks)
        queries = tuple(
            _query(made, seeds, number, reply.call_id) for number, made in enumerate(reply.queries)
        )
        return dspy.Prediction(queries=queries, call_id=reply.call_id)


def _query(made: SynthesizedQuery, seeds: tuple[str, ...], number: int, call_id: str) -> Query:
    """A question of one line is a title; of a longer one that is its first line."""
    question, answer = made.question.strip(), made.answer.strip()
    title, _, body = question.partition("\n")
    if len(title) > _LONGEST_TITLE:
        title, body = "", question
    identity = json.dumps([seeds, number, question, answer], ensure_ascii=False)
    return Query(
        query_id=f"synthetic-{hashlib.sha256(identity.encode()).hexdigest()[:16]}",
        title=title.strip(),
        body=body.strip(),
        answer=answer,
        origin="synthetic",
        seed_chunk_ids=seeds,
        call_id=call_id,
    )
