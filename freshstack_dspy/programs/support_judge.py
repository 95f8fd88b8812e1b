"""Judge how far each of several chunks supports each nugget of a query, together."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from freshstack_dspy.corpus.shown_chunks import ChunkPart, evidence, parts_of, whole
from freshstack_dspy.errors import ConfigError, ReplyError
from freshstack_dspy.lm.typed import Prediction, Program
from freshstack_dspy.records import (
    Chunk,
    Failure,
    Judgment,
    Nugget,
    Query,
    ScaleName,
    Spans,
    StepName,
    as_query,
)
from freshstack_dspy.signatures.judge_support import JUDGES, NumberedChunk, NumberedNugget
from freshstack_dspy.signatures.question import ShownQuestion


def as_nuggets(query: Query, nuggets: Sequence[Nugget | str]) -> list[Nugget]:
    """Nuggets of a query, plain texts too, which are numbered from 1."""
    return [
        Nugget(nugget_id=f"nugget {number}", query_id=query.query_id, text=nugget, call_id=None)
        if isinstance(nugget, str)
        else nugget
        for number, nugget in enumerate(nuggets, 1)
    ]


class SupportJudgments(Prediction):
    """What a judge says of a batch of chunks."""

    judgments: tuple[Judgment, ...]
    """For each chunk, in the given order, each nugget; without a label where every reply left the
    chunk out."""
    failure: Failure | None
    """Says which chunks have no labels."""


class SupportJudge(Program):
    """From a query, its nuggets and a batch of chunks to a judgment of every pair.

    One call costs n + k texts rather than the n x k of pairwise judging (FreshStack §3.5); chunks
    that a reply leaves out are asked about again by themselves. With one nugget or one chunk it is
    the same question, so that judging one by one differs from a batch in nothing else.
    """

    def __init__(self, scale: ScaleName = "support") -> None:
        """Make the judge of a scale; see `signatures/judge_support.py`."""
        if scale not in JUDGES:
            raise ConfigError(f"no scale {scale!r}; allowed: {', '.join(JUDGES)}")
        super().__init__(JUDGES[scale])
        self.scale = scale

    def forward(
        self,
        query: Query | str,
        nuggets: Sequence[Nugget | str],
        chunks: Sequence[Chunk | ChunkPart | str],
        *,
        vote: int = 1,
        step: StepName = "support",
    ) -> SupportJudgments:
        """Judge records, or plain texts, which are numbered from 1.

        Args:
            query: Whose nuggets they are.
            nuggets: All of them, or some; without any, or without chunks, nothing is asked.
            chunks: In the order in which they are shown.
            vote: Which of several votes; every one is asked anew, even in the same words.
            step: What a failure is listed under.
        """
        if not nuggets or not chunks:
            return SupportJudgments(judgments=(), failure=None)
        query = as_query(query)
        facts, passages = as_nuggets(query, nuggets), parts_of(chunks)
        # The first vote is the plain request: judging once asks for nothing else.
        config = {"rollout_id": vote} if vote > 1 else {}
        verdicts, error = self.ask_each(**judge_inputs(query, facts, passages), config=config)
        judgments: list[Judgment] = []
        left_out: list[Chunk] = []
        for number, passage in enumerate(passages, 1):
            if number in verdicts:
                judgments += _judged(query, facts, passage, *verdicts[number])
            elif error is not None:
                judgments += unjudged(query, facts, passage.chunk, error)
                left_out.append(passage.chunk)
        failure = None if error is None else failure_of(query, step, error, left_out)
        return SupportJudgments(judgments=tuple(judgments), failure=failure)


def _judged(
    query: Query, nuggets: Sequence[Nugget], passage: ChunkPart, verdict: Any, call_id: str
) -> list[Judgment]:
    return [
        Judgment(
            query_id=query.query_id,
            nugget_id=nugget.nugget_id,
            chunk_id=passage.chunk.chunk_id,
            label=verdict.label_of(number),
            status="ok",
            reason=verdict.reason,
            call_id=call_id,
            evidence=evidence(verdict.quotes_of(number), passage),
        )
        for number, nugget in enumerate(nuggets, 1)
    ]


def moved(judgment: Judgment, old: Chunk, new: Chunk) -> Judgment:
    """The judgment of a chunk as that of another that says the same: its evidence by its words."""
    if (old.chunk_id, old.text) == (new.chunk_id, new.text):
        return judgment

    def placed(spans: Spans) -> Spans:
        return evidence([old.text_at(*span) for span in spans], whole(new))

    votes = tuple(replace(vote, evidence=placed(vote.evidence)) for vote in judgment.votes)
    update = {"chunk_id": new.chunk_id, "evidence": placed(judgment.evidence), "votes": votes}
    return judgment.model_copy(update=update)


def judge_inputs(
    query: Query, nuggets: Sequence[Nugget], passages: Sequence[ChunkPart]
) -> dict[str, Any]:
    """What a judge is asked."""
    return {
        "question": ShownQuestion.of(query),
        "nuggets": numbered_nuggets(nuggets),
        "chunks": numbered(passages),
    }


def passage_inputs(
    query: Query | str, passages: Sequence[Chunk | ChunkPart | str]
) -> dict[str, Any]:
    """A question and its passages, as programs ask about them."""
    return {
        "question": ShownQuestion.of(as_query(query)),
        "passages": numbered(parts_of(passages)),
    }


def numbered_nuggets(nuggets: Sequence[Nugget]) -> list[NumberedNugget]:
    """Nuggets as a model sees them, numbered from 1."""
    return [
        NumberedNugget(number=number, text=nugget.text) for number, nugget in enumerate(nuggets, 1)
    ]


def numbered(passages: Sequence[ChunkPart]) -> list[NumberedChunk]:
    """Passages as a model sees them, numbered from 1."""
    return [
        NumberedChunk(
            number=number,
            path=passage.path,
            headings=passage.chunk.headings,
            text=passage.text,
        )
        for number, passage in enumerate(passages, 1)
    ]


def unjudged(
    query: Query, nuggets: Sequence[Nugget], chunk: Chunk, error: ReplyError
) -> list[Judgment]:
    """The judgments of a chunk without a valid verdict: they have no labels."""
    return [
        Judgment(
            query_id=query.query_id,
            nugget_id=nugget.nugget_id,
            chunk_id=chunk.chunk_id,
            label=None,
            status=error.status,
            reason=str(error),
            call_id=error.call_id,
        )
        for nugget in nuggets
    ]


def failure_of(
    query: Query, step: StepName, error: ReplyError, chunks: Sequence[Chunk] = ()
) -> Failure:
    """What is listed and counted of a question that failed; `chunks` were to be judged."""
    return Failure(
        query_id=query.query_id,
        step=step,
        status=error.status,
        message=str(error),
        chunk_ids=tuple(chunk.chunk_id for chunk in chunks),
        call_id=error.call_id,
    )
