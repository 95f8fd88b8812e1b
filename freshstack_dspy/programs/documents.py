"""What is made from documents: passages, queries, and reports with their sub-questions."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from freshstack_dspy.corpus.shown_chunks import ChunkPart, parts_of
from freshstack_dspy.lm.typed import Prediction, Program
from freshstack_dspy.programs.nuggetizer import nugget_of
from freshstack_dspy.programs.support_judge import passage_inputs
from freshstack_dspy.records import Chunk, Nugget, Query
from freshstack_dspy.signatures.documents import (
    DecontextualizePassages,
    SeedPassage,
    SynthesizedQuery,
    SynthesizeQueries,
    WriteReport,
    WriteReportRequest,
    WriteSubQuestions,
)

_LONGEST_TITLE = 300


class StandalonePassages(Prediction):
    """What a document says, in passages that can be read by themselves."""

    passages: list[str]
    call_id: str


class PassageDecontextualizer(Program):
    """From a document to at most `limit` standalone passages (CRUX §3.2)."""

    def __init__(self, limit: int = 3) -> None:
        super().__init__(DecontextualizePassages)
        self.limit = limit

    def forward(self, document: str, title: str = "") -> StandalonePassages:
        """Decontextualize."""
        reply = self.ask(title=title, document=document, limit=self.limit)
        return StandalonePassages(passages=reply.passages, call_id=reply.call_id)


class SynthesizedQueries(Prediction):
    """Queries made from chunks."""

    queries: tuple[Query, ...]
    """In the order of the reply, each of origin `synthetic`. An id depends on the seeds and on the
    question."""
    call_id: str


class QuerySynthesizer(Program):
    """From one chunk, or several related ones, to at most `limit` queries that they answer."""

    def __init__(self, limit: int = 3) -> None:
        super().__init__(SynthesizeQueries)
        self.limit = limit

    def forward(
        self, chunks: Sequence[Chunk | ChunkPart | str], style_examples: Sequence[str] = ()
    ) -> SynthesizedQueries:
        """Synthesize.

        Args:
            chunks: The seeds; of several, each question needs more than one.
            style_examples: Questions whose style and length to follow.
        """
        passages = parts_of(chunks)
        reply = self.ask(
            passages=[
                SeedPassage(path=passage.path, headings=passage.chunk.headings, text=passage.text)
                for passage in passages
            ],
            style_examples=list(style_examples),
            limit=self.limit,
        )
        seeds = tuple(passage.chunk_id for passage in passages)
        queries = tuple(
            _query(query, seeds, number, reply.call_id)
            for number, query in enumerate(reply.queries)
        )
        return SynthesizedQueries(queries=queries, call_id=reply.call_id)


def _query(reply: SynthesizedQuery, seeds: tuple[str, ...], number: int, call_id: str) -> Query:
    """A question of one line is a title; the first line of a longer one is its title."""
    question, answer = reply.question.strip(), reply.answer.strip()
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


# Reports, as in CRUX


class WrittenRequest(Prediction):
    """A query with the request that its answer, a report, was written for."""

    query: Query


class RequestWriter(Program):
    """From a report to an open-ended query (CRUX §3.2)."""

    def __init__(self) -> None:
        super().__init__(WriteReportRequest)

    def forward(self, query: Query) -> WrittenRequest:
        """Write the request of a query's answer."""
        reply = self.ask(report=query.answer)
        update = {"body": reply.request.strip(), "origin": "synthetic", "call_id": reply.call_id}
        return WrittenRequest(query=query.model_copy(update=update))


class SubQuestions(Prediction):
    """The sub-questions of a report."""

    nuggets: tuple[Nugget, ...]
    """Their texts are questions."""


class SubQuestionWriter(Program):
    """From a report to exactly `count` sub-questions, no two alike (CRUX §3.2)."""

    def __init__(self, count: int = 10) -> None:
        super().__init__(WriteSubQuestions)
        self.count = count

    def forward(self, query: Query) -> SubQuestions:
        """Write the sub-questions of a query's answer."""
        reply = self.ask(report=query.answer, count=self.count)
        return SubQuestions(nuggets=sub_questions_of(query, reply.questions, reply.call_id))


def sub_questions_of(query: Query, texts: Sequence[str], call_id: str | None) -> tuple[Nugget, ...]:
    """Make the nuggets of a report from the texts of its sub-questions."""
    return tuple(nugget_of(query, number, text, call_id) for number, text in enumerate(texts))


class WrittenReport(Prediction):
    """A report."""

    report: str
    call_id: str


class ReportWriter(Program):
    """From a request and a context to a report y = G(x, Z) (CRUX, equation 1)."""

    def __init__(self) -> None:
        super().__init__(WriteReport)

    def forward(self, query: Query, chunks: Sequence[Chunk | ChunkPart | str]) -> WrittenReport:
        """Write; without chunks it is direct prompting.

        The report may have as many words as the query's own report, and at least 50.
        """
        reply = self.ask(**writer_inputs(query, chunks))
        return WrittenReport(report=reply.report, call_id=reply.call_id)


def writer_inputs(query: Query, chunks: Sequence[Chunk | ChunkPart | str]) -> dict[str, Any]:
    """What a report is asked for with."""
    inputs = passage_inputs(query, chunks)
    words = max(50, len(query.answer.split()))
    return {"request": inputs.pop("question"), **inputs, "words": words}
