"""From everything that was said of a pair, by vote and part, to its one judgment."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from freshstack_dspy.recipes.judging.judge_calls import JudgeCall
from freshstack_dspy.records import Failure, Judgment, Vote


class JudgedBatch(NamedTuple):
    """What came of one call; judgments that failed have no labels."""

    judgments: tuple[Judgment, ...]
    """For each passage of the call, in its order, each nugget."""
    failure: Failure | None
    call: JudgeCall


class _Pair(NamedTuple):
    query_id: str
    nugget_id: str
    chunk_id: str


class _Said(NamedTuple):
    vote: Vote
    parts: int


def merged(batches: Iterable[JudgedBatch], votes: int) -> tuple[Judgment, ...]:
    """Merge what calls said into one judgment for every pair.

    A vote on a chunk in parts is the highest label of its parts, and has none if one of them
    failed. The label is the one that most votes give, the lower one of a tie. Where not even a
    majority of all votes has a label, the judgment has none, and the status of the first vote that
    failed. A pair of which votes or parts are neither labelled nor failed was put off, and is left
    out.

    Args:
        batches: What came of each call.
        votes: How many votes every pair has.
    """
    said: dict[_Pair, list[_Said]] = {}
    for batch in batches:
        passages = [passage for passage in batch.call.passages for _ in batch.call.nuggets]
        for passage, judgment in zip(passages, batch.judgments, strict=True):
            pair = _Pair(judgment.query_id, judgment.nugget_id, judgment.chunk_id)
            said.setdefault(pair, []).append(
                _Said(
                    Vote(
                        vote=batch.call.vote,
                        part=passage.part,
                        label=judgment.label,
                        status=judgment.status,
                        reason=judgment.reason,
                        call_id=judgment.call_id,
                    ),
                    passage.parts,
                )
            )
    judgments = (_judgment(pair, each, votes) for pair, each in said.items())
    return tuple(judgment for judgment in judgments if judgment is not None)


def _judgment(pair: _Pair, said: list[_Said], votes: int) -> Judgment | None:
    said = sorted(said, key=lambda one: (one.vote.vote, one.vote.part))
    by_vote: dict[int, list[_Said]] = {}
    for one in said:
        by_vote.setdefault(one.vote.vote, []).append(one)
    whole = [vote for group in by_vote.values() if (vote := _of_parts(group)) is not None]
    decisive = _decisive(whole, votes)
    if decisive is None:
        return None
    return Judgment(
        **pair._asdict(),
        label=decisive.label,
        status=decisive.status,
        reason=decisive.reason,
        call_id=decisive.call_id,
        parts=max(one.parts for one in said),
        votes=tuple(one.vote for one in said) if len(said) > 1 else (),
    )


def _of_parts(group: Sequence[_Said]) -> Vote | None:
    """The part that a vote goes by: the first that failed, or the first with the highest label."""
    parts = [one.vote for one in group]
    failed = next((part for part in parts if part.label is None), None)
    if failed is not None:
        return failed
    if len(parts) < group[0].parts:
        return None
    return max(parts, key=lambda part: (part.label or 0, -part.part))


def _decisive(whole: Sequence[Vote], votes: int) -> Vote | None:
    """The first vote for the label that wins, or the first that failed where there is no majority."""
    valid = [vote for vote in whole if vote.label is not None]
    if 2 * len(valid) <= votes:
        return next((vote for vote in whole if vote.label is None), None)
    counts = Counter(vote.label for vote in valid)
    label = min(counts, key=lambda label: (-counts[label], label or 0))
    return next(vote for vote in valid if vote.label == label)
