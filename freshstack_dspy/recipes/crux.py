"""The CRUX recipe (arXiv 2506.20051 §3.2): retrieval contexts for long-form answers.

A report is the human-written summary y* of a group of documents. From the documents come the
relevant passages P*, from the report its request x and the sub-questions Q; each sub-question is
graded in each relevant passage. Sub-questions are the collection's nuggets, relevant passages its
pool, so that everything that works on a collection works on this one.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, islice
from typing import ClassVar, NamedTuple

import dspy

from freshstack_dspy.config import BuildConfig
from freshstack_dspy.corpus.chunks import chunk_file
from freshstack_dspy.corpus.parquet import ChunkFile
from freshstack_dspy.errors import FatalModelError, ReplyError
from freshstack_dspy.lm.tokens import count_tokens
from freshstack_dspy.programs.documents import (
    PassageDecontextualizer,
    RequestWriter,
    SubQuestionWriter,
    sub_questions_of,
)
from freshstack_dspy.programs.support_judge import failure_of
from freshstack_dspy.progress import report
from freshstack_dspy.questions.report_groups import read_groups
from freshstack_dspy.recipes.flow import Stages, Work, ask
from freshstack_dspy.recipes.freshstack import (
    FreshStack,
    contaminate,
    expand,
    judge_pool,
    nuggets_in,
    sampled,
    with_inputs,
)
from freshstack_dspy.recipes.pieces import PIECE_TOKENS
from freshstack_dspy.recipes.pooling import Searches
from freshstack_dspy.records import (
    Candidate,
    Chunk,
    ExpansionKind,
    Failure,
    Query,
    SkippedFile,
)
from freshstack_dspy.signatures.documents import words_not_in
from freshstack_dspy.stored.contents import Contents


class _Piece(NamedTuple):
    """A piece of a document that passages are written from."""

    chunk: Chunk
    title: str
    url: str | None
    query: Query | None = None
    """The one that its document is relevant for; None in a distractor."""

    def failure(self, error: ReplyError) -> Failure | SkippedFile:
        """List that it gave no passage."""
        if self.query is not None:
            return failure_of(self.query, "passages", error)
        source, path = self.chunk.source, self.chunk.path
        reason = f"no passage of {self.chunk.chunk_id}: {error}"
        return SkippedFile(source=source, path=path, kind="unreadable", reason=reason)


class _Written(NamedTuple):
    """What a piece gave."""

    query: Query | None
    records: list[Chunk | Failure | SkippedFile]
    failure: Failure | SkippedFile | None = None
    """Why it gave nothing."""


def decontextualize(work: Work, made: Contents) -> Contents:
    """Write the passages of every document, long ones in pieces (§3.2): the pool of its query.

    With `[crux] distractors = "passages"` those of the corpora are written too, of each chunk, and
    searched in its place.

    A passage that says what its piece does not is sent back; if it still does, it is left out and
    listed as a failure, for a question that it answers could be answered by no document.
    """
    assert work.groups is not None
    pieces = [
        _Piece(piece, document.title or query.title, document.url, query)
        for query in made.queries
        for document in work.groups.documents[query.query_id]
        for piece in chunk_file(document.file, PIECE_TOKENS)
    ]
    if work.config.crux.distractors == "passages":
        pieces += _distractors(work, made)

    def write(piece: _Piece) -> _Written:
        title = " > ".join(filter(None, (piece.title, *piece.chunk.headings)))
        try:
            reply = work.recipe.passage_decontextualizer(document=piece.chunk.text, title=title)
        except ReplyError as error:
            failure = piece.failure(error)
            return _Written(piece.query, [failure], failure)
        written: list[Chunk | Failure | SkippedFile] = []
        for number, text in enumerate(reply.passages, 1):
            update = {
                "chunk_id": f"{piece.chunk.chunk_id}#{number}",
                "text": text,
                "tokens": count_tokens(text),
                "headings": (),
                "url": piece.url,
            }
            passage = piece.chunk.model_copy(update=update)
            if invented := words_not_in(piece.chunk.text, title, text):
                what = f"{passage.chunk_id} says what its document does not: {', '.join(invented)}"
                wrong = ReplyError(what, status="failed", call_id=reply.call_id)
                written.append(piece.failure(wrong))
            else:
                written.append(passage)
        return _Written(piece.query, written)

    passages: list[Chunk] = []
    pool: list[Candidate] = []
    failures, skipped = [*made.failures], [*made.skipped]
    replies = work.session.each("passages", write, pieces)
    for query, record in ((reply.query, record) for reply in replies for record in reply.records):
        if isinstance(record, Failure):
            failures.append(record)
        elif isinstance(record, SkippedFile):
            skipped.append(record)
        else:
            passages.append(record)
            if query is not None:
                pool.append(
                    Candidate(query_id=query.query_id, chunk_id=record.chunk_id, origin="document")
                )
    return replace(
        made,
        passages=tuple(passages),
        pool=tuple(pool),
        failures=tuple(failures),
        skipped=tuple(skipped),
    )


def _distractors(work: Work, made: Contents) -> Iterator[_Piece]:
    """Give the chunks of the corpora, and take them out of what is searched.

    A plan looks at some of the queries, and at as large a share of the chunks.
    """
    cut = work.corpus.corpus
    work.corpus = Searches(work.session, cut._replace(chunks=ChunkFile.holding([])))
    share = len(made.queries) / len(work.reading.queries)
    for chunk in islice(cut.chunks, math.ceil(share * len(cut.chunks))):
        yield _Piece(chunk, chunk.path, chunk.url)


def write_sub_questions(work: Work, made: Contents) -> Contents:
    """Write the sub-questions of each report (§3.2), exactly as many as are wanted.

    Those that a report comes with are taken as they are.
    """
    assert work.groups is not None
    known = work.groups.questions
    inputs = [{"query": query} for query in made.queries if query.query_id not in known]
    writer = work.recipe.sub_question_writer
    new, failures = ask(work.session, "nuggets", writer, inputs, nuggets_in)
    ours = [sub_questions_of(query, known.get(query.query_id, ()), None) for query in made.queries]
    nuggets = tuple(chain(*ours, *new))
    return replace(made, nuggets=nuggets, failures=(*made.failures, *failures))


def write_requests(work: Work, made: Contents) -> Contents:
    """Write the open-ended query that each report answers (§3.2), where it comes without one.

    A query whose request failed has none, and is left out with its report.
    """
    inputs = [{"query": query} for query in made.queries if not query.text]
    writer = work.recipe.request_writer
    new, failures = ask(work.session, "request", writer, inputs, lambda _, reply, __: reply.query)
    by_id = {query.query_id: query for query in new}
    requested = (by_id.get(query.query_id, query) for query in made.queries)
    queries = tuple(query for query in requested if query.text)
    return replace(made, queries=queries, failures=(*made.failures, *failures))


def pool_relevant(work: Work, made: Contents) -> Contents:
    """Keep the relevant passages of the queries that have a request and sub-questions."""
    for records, what in ((made.passages, "passages"), (made.nuggets, "sub-questions")):
        if not records:
            why = "nothing failed; choose other documents or a larger model"
            if made.failures:
                first = made.failures[0].message
                why = f"the first failure: {first}; {work.session.how_to_ask_again}"
            raise FatalModelError(f"no group has {what}, so nothing was written; {why}")
    requested = {query.query_id for query in made.queries}
    nuggets = tuple(nugget for nugget in made.nuggets if nugget.query_id in requested)
    asked = {nugget.query_id for nugget in nuggets}
    pool = tuple(candidate for candidate in made.pool if candidate.query_id in asked)
    note = f"{len(pool)} relevant passages of {len(asked)} reports"
    report(work.session.progress, "pool", note)
    return replace(made, nuggets=nuggets, pool=pool)


class Crux(FreshStack):
    """Passages, request, sub-questions and graded answerability."""

    stages: ClassVar[Stages] = (
        (decontextualize, write_sub_questions, write_requests, expand),
        (pool_relevant,),
        (judge_pool, contaminate),
    )
    made_anew: ClassVar[str] = "passages and sub-questions of reports"

    def __init__(self, config: BuildConfig) -> None:
        super().__init__(config)
        del self.nuggetizer, self.question_decomposer
        self.passage_decontextualizer = PassageDecontextualizer(config.crux.passages)
        self.request_writer = RequestWriter()
        self.sub_question_writer = SubQuestionWriter(config.crux.sub_questions)

    @property
    def expanders(self) -> dict[ExpansionKind, dspy.Module]:
        """The closed-book answer, by which it is known what the model answers without a context."""
        score = self.config.contamination.score
        return {"closed_book_answer": self.closed_book_answerer} if score else {}

    def begin(self, work: Work, made: Contents) -> Contents:
        """Read the reports with their documents; the corpora are documents next to theirs."""
        work.groups = groups = read_groups(work.config)
        work.reading = groups.reading
        documents = sum(map(len, groups.documents.values()))
        note = f"{len(groups.reading.queries):,} reports of {documents:,} documents"
        report(work.session.progress, "questions", note)
        queries = sampled(groups.reading.queries, work.most)
        return with_inputs(work, made, queries)
