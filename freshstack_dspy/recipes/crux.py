"""The CRUX recipe (arXiv 2506.20051 §3.2): retrieval contexts for long-form answers.

A report is the human-written summary y* of a group of documents. From the documents come the
relevant passages P*, from the report its request x and the sub-questions Q; each sub-question is
graded in each relevant passage. Sub-questions are the collection's nuggets, relevant passages its
pool, so that everything that works on a collection works on this one.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

import dspy

from freshstack_dspy.collection.contents import Contents
from freshstack_dspy.config import BuildConfig
from freshstack_dspy.corpus.chunks import chunk_file
from freshstack_dspy.errors import FatalModelError, ReplyError
from freshstack_dspy.lm.tokens import count_tokens
from freshstack_dspy.programs.documents import PassageDecontextualizer
from freshstack_dspy.programs.reports import RequestWriter, SubQuestionWriter, sub_questions_of
from freshstack_dspy.programs.support_judge import failure_of
from freshstack_dspy.questions.groups import Groups
from freshstack_dspy.recipes.corpus import CutCorpora
from freshstack_dspy.recipes.freshstack import FreshStack, ask, expand, judged_contents
from freshstack_dspy.recipes.known import Known
from freshstack_dspy.recipes.session import Session, report
from freshstack_dspy.records import (
    Candidate,
    Chunk,
    ExpansionKind,
    Failure,
    Nugget,
    Query,
)
from freshstack_dspy.signatures.documents import words_not_in

PIECE_TOKENS = 1024
"""Tokens of the longest piece of a document that passages are written from."""


class Crux(FreshStack):
    """Passages, request, sub-questions and graded answerability."""

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


class Relevant(NamedTuple):
    """The relevant passages P* of groups."""

    passages: list[Chunk]
    of_query: dict[str, list[str]]
    """Ids of the passages, by query id."""
    failures: list[Failure]


def crux_collection(
    session: Session,
    recipe: Crux,
    queries: Sequence[Query],
    groups: Groups,
    others: CutCorpora,
    known: Known,
) -> tuple[Contents, list[Chunk]]:
    """Make the records of a collection and its chunks: passages of all groups, and `others`.

    Raises:
        BudgetError: The budget is used up; what was answered is recorded.
        DeferredError: In mode `defer`, requests were written down.
        FatalModelError: There are no passages or no sub-questions, or not one pair has a label.
    """
    relevant = decontextualize(session, recipe, queries, groups)
    nuggets, without = sub_questions(session, recipe, queries, groups)
    queries, not_requested = request_reports(session, recipe, queries)
    expansions, not_expanded = expand(session, recipe, queries, known)
    session.stop_if_deferred()
    failures = [*relevant.failures, *without, *not_requested, *not_expanded]
    for made, what in ((relevant.passages, "passages"), (nuggets, "sub-questions")):
        if not made:
            why = failures[0].message if failures else "there were none"
            raise FatalModelError(f"no {what} came of any group; the first failure: {why}")

    asked = {nugget.query_id for nugget in nuggets}
    pool = [
        Candidate(query_id=query.query_id, chunk_id=chunk_id, origin="document")
        for query in queries
        if query.query_id in asked
        for chunk_id in relevant.of_query.get(query.query_id, ())
    ]
    report(session.progress, "pool", f"{len(pool)} relevant passages of {len(asked)} reports")
    chunks = [*others.chunks, *relevant.passages]
    contents = judged_contents(
        session, recipe, queries, nuggets, expansions, pool, others._replace(chunks=chunks), known
    )
    return replace(contents, failures=(*failures, *contents.failures)), chunks


def decontextualize(
    session: Session, recipe: Crux, queries: Sequence[Query], groups: Groups
) -> Relevant:
    """Write the passages of every document, long ones in pieces (§3.2).

    A passage that says what its piece does not is sent back; if it still does, it is left out and
    listed as a failure, for a question that it answers could be answered by no document.
    """
    pieces = [
        (query, document, piece)
        for query in queries
        for document in groups.documents[query.query_id]
        for piece in chunk_file(document.file, PIECE_TOKENS)
    ]
    titles = [
        " > ".join(filter(None, (document.title or query.title, *piece.headings)))
        for query, document, piece in pieces
    ]

    def write(at: int) -> Any:
        query, _, piece = pieces[at]
        try:
            reply = recipe.passage_decontextualizer(document=piece.text, title=titles[at])
        except ReplyError as error:
            return failure_of(query, "passages", error)
        return dspy.Prediction(at=at, texts=reply.passages, call_id=reply.call_id)

    found = Relevant([], {}, [])
    for reply in session.each("passages", write, range(len(pieces))):
        if isinstance(reply, Failure):
            found.failures.append(reply)
            continue
        query, document, piece = pieces[reply.at]
        for number, text in enumerate(reply.texts, 1):
            update = {
                "chunk_id": f"{piece.chunk_id}#{number}",
                "text": text,
                "tokens": count_tokens(text),
                "headings": (),
                "url": document.url,
            }
            passage = piece.model_copy(update=update)
            if invented := words_not_in(piece.text, titles[reply.at], text):
                what = f"{passage.chunk_id} says what its document does not: {', '.join(invented)}"
                error = ReplyError(what, status="failed", call_id=reply.call_id)
                found.failures.append(failure_of(query, "passages", error))
                continue
            found.passages.append(passage)
            found.of_query.setdefault(query.query_id, []).append(passage.chunk_id)
    return found


def sub_questions(
    session: Session, recipe: Crux, queries: Sequence[Query], groups: Groups
) -> tuple[list[Nugget], list[Failure]]:
    """Write the sub-questions of each report (§3.2), exactly as many as are wanted.

    Those that a report comes with are taken as they are.
    """
    inputs = [{"query": query} for query in queries if query.query_id not in groups.questions]
    made, failures = ask(session, "nuggets", recipe.sub_question_writer, inputs)
    given = [
        sub_questions_of(query, groups.questions.get(query.query_id, ()), None) for query in queries
    ]
    return [*chain(*given, *(one.nuggets for one in made))], failures


def request_reports(
    session: Session, recipe: Crux, queries: Sequence[Query]
) -> tuple[list[Query], list[Failure]]:
    """Write the open-ended query that each report answers (§3.2), where it comes without one.

    A query whose request failed has none, and is left out with its report.
    """
    inputs = [{"query": query} for query in queries if not query.text]
    made, failures = ask(session, "request", recipe.request_writer, inputs)
    by_id = {one.query.query_id: one.query for one in made}
    requested = [by_id.get(query.query_id, query) for query in queries]
    return [query for query in requested if query.text], failures
