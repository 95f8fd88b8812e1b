"""Judging support: the calls of the judge, and their votes and parts as one judgment of each pair.

Calls are packed for the context window of the model.
"""

import functools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from freshstack_dspy.config import BuildConfig, JudgeConfig, ModelConfig
from freshstack_dspy.errors import ConfigError
from freshstack_dspy.lm.prices import longest_input_of
from freshstack_dspy.lm.request import BASELINE, canonical_json
from freshstack_dspy.lm.tokens import count_tokens
from freshstack_dspy.lm.typed import TypedAdapter, answer_schema
from freshstack_dspy.programs.support_judge import Passage, SupportJudge, judge_inputs, whole
from freshstack_dspy.recipes.known import NOTHING, Known
from freshstack_dspy.recipes.session import Session
from freshstack_dspy.records import Chunk, Failure, Judgment, Nugget, Query, Step, Vote
from freshstack_dspy.signatures.judge_support import NumberedChunk

if TYPE_CHECKING:
    from freshstack_dspy.recipes.freshstack import FreshStack

Item = TypeVar("Item")

MARGIN = 1.3
"""How many tokens of its own a model may make of one of cl100k_base's, with which we count.

Of 288 pieces of Python, Markdown and posts Anthropic's tokenizer made at most 1.29 times as many
(1.12 in the middle), OpenAI's o200k_base at most 1.08."""
LEAST_ROOM = 256
"""Tokens of cl100k_base. Where less is left for chunks, the question is taken not to fit."""

# The instructions and the schema of a step are in each of its prompts.
counted = functools.lru_cache(maxsize=32)(count_tokens)


class ToJudge(NamedTuple):
    """Nuggets of a query, and the chunks that each of them is to be judged against."""

    query: Query
    nuggets: Sequence[Nugget]
    chunks: Sequence[Chunk]


class JudgeCall(NamedTuple):
    """One call of the judge."""

    query: Query
    nuggets: Sequence[Nugget]
    passages: Sequence[Passage]
    vote: int = 1
    step: Step = "support"
    unfit: str | None = None
    """Why it cannot be made: not even its question fits into the model's window."""


class JudgedBatch(NamedTuple):
    """The result of one call; judgments that failed have no labels."""

    judgments: tuple[Judgment, ...]
    """For each passage of the call, in its order, each nugget."""
    failure: Failure | None
    call: JudgeCall


class Judged(NamedTuple):
    """A judgment for every pair, and what failed."""

    judgments: tuple[Judgment, ...]
    failures: tuple[Failure, ...]
    reused: int = 0
    """How many of the judgments were known."""


def judge(
    session: Session, recipe: "FreshStack", pairs: Sequence[ToJudge], known: Known = NOTHING
) -> Judged:
    """Judge every pair as `[judge]` says; only those that `known` lacks are asked for.

    Raises:
        BudgetError: The budget is used up.
        ConfigError: The longest reply leaves no room for a prompt.
    """
    reused: list[Judgment] = []
    asked: list[ToJudge] = []
    for query, nuggets, chunks in pairs:
        groups: dict[tuple[str, ...], ToJudge] = {}
        for chunk in chunks:
            found = {one.nugget_id: known.judgment(query, one, chunk) for one in nuggets}
            reused += [judgment for judgment in found.values() if judgment is not None]
            missing = [one for one in nuggets if found[one.nugget_id] is None]
            if missing:
                ids = tuple(one.nugget_id for one in missing)
                group = groups.setdefault(ids, ToJudge(query, missing, []))
                groups[ids] = group._replace(chunks=[*group.chunks, chunk])
        asked += groups.values()
    calls = judge_calls(session.config, recipe.support_judge, asked)
    batches = session.each("support", recipe.judged, calls)
    return Judged(
        (*reused, *merged(batches, session.config.judge.votes)),
        tuple(batch.failure for batch in batches if batch.failure is not None),
        len(reused),
    )


def judge_calls(
    config: BuildConfig, judge: SupportJudge, pairs: Sequence[ToJudge], *, step: Step = "support"
) -> list[JudgeCall]:
    """List the calls that judge every pair as `[judge]` says, packed for the model's window.

    Raises:
        ConfigError: The longest reply leaves no room for a prompt.
    """
    window = Window(config.model, judge.predict)
    return [
        call._replace(step=step)
        for pair in pairs
        if pair.nuggets and pair.chunks
        for vote in range(1, config.judge.votes + 1)
        for call in _calls(config.judge, window, pair, vote)
    ]


def once(config: BuildConfig) -> BuildConfig:
    """A configuration that judges each text in one call, once, whatever `[judge]` says."""
    update = {"shape": "batch", "votes": 1, "shuffle": None}
    return config.model_copy(update={"judge": config.judge.model_copy(update=update)})


def even(items: Sequence[Item], count: int) -> list[Sequence[Item]]:
    """Cut items into so many runs, as even as can be."""
    bounds = [len(items) * number // count for number in range(count + 1)] if count else [0]
    return [items[start:end] for start, end in pairwise(bounds)]


def in_order(judge: JudgeConfig, pair: ToJudge, vote: int = 1) -> list[Chunk]:
    """The chunks of a query in the order in which a vote shows them.

    By their ids: the prompts then depend on which chunks were pooled and not on their ranks, in
    which the last digit of a score can make a difference. Shuffled where a seed is given, and in
    every vote but the first.
    """
    ordered = sorted(pair.chunks, key=lambda chunk: chunk.chunk_id)
    if judge.shuffle is not None or vote > 1:
        seeded = Random(f"{judge.shuffle or 0}:{pair.query.query_id}:{vote}")  # noqa: S311 - no secret
        seeded.shuffle(ordered)
    return ordered


def _calls(judge: JudgeConfig, window: "Window", pair: ToJudge, vote: int) -> Iterator[JudgeCall]:
    most = {"batch": len(pair.nuggets), "windowed": judge.window, "pairwise": 1}[judge.shape]
    passages = [whole(chunk) for chunk in in_order(judge, pair, vote)]
    for nuggets in even(pair.nuggets, -(-len(pair.nuggets) // most)):
        room = window.room(pair.query, nuggets)
        if room is not None and room < LEAST_ROOM:
            if vote == 1:
                yield JudgeCall(pair.query, nuggets, passages, vote, unfit=_too_long(nuggets))
            continue
        size = judge.batch if judge.shape == "batch" else 1
        for batch in _packed(window, passages, size, room):
            yield JudgeCall(pair.query, nuggets, batch, vote)


def _packed(
    window: "Window", passages: Sequence[Passage], size: int, room: int | None
) -> list[Sequence[Passage]]:
    """Pack passages into the fewest even batches of at most `size` that fit.

    One that is too long for a call of its own is split, and each part has one.
    """
    if room is None:
        return even(passages, -(-len(passages) // size))
    fitting = [passage for passage in passages if window.size(passage) <= room]
    too_long = [passage for passage in passages if window.size(passage) > room]
    count = -(-len(fitting) // size)
    while any(sum(map(window.size, batch)) > room for batch in even(fitting, count)):
        count += 1
    parts = [[part] for passage in too_long for part in window.split(passage, room)]
    return [*even(fitting, count), *parts]


def _too_long(nuggets: Sequence[Nugget]) -> str:
    return (
        f"the question with {len(nuggets)} nuggets leaves no room for a chunk in the model's "
        "window: take a model with a larger one, say with [model] context what really fits, lower "
        "[model] max_tokens, or judge fewer nuggets in a call with [judge] shape = 'windowed'"
    )


class _Part(NamedTuple):
    vote: Vote
    parts: int


def merged(batches: Iterable[JudgedBatch], votes: int) -> tuple[Judgment, ...]:
    """Merge the results of calls into one judgment for every pair.

    A vote on a chunk in parts is the highest label of its parts, and has none if one of them
    failed. The label is the one that most votes give, the lower one of a tie. Where not even a
    majority of all votes has a label, the judgment has none, and the status of the first vote that
    failed. A pair of which votes or parts are deferred is left out.
    """
    found: dict[tuple[str, str, str], list[_Part]] = {}
    for batch in batches:
        passages = [passage for passage in batch.call.passages for _ in batch.call.nuggets]
        for passage, one in zip(passages, batch.judgments, strict=True):
            vote = Vote(
                vote=batch.call.vote,
                part=passage.part,
                label=one.label,
                status=one.status,
                reason=one.reason,
                call_id=one.call_id,
            )
            pair = (one.query_id, one.nugget_id, one.chunk_id)
            found.setdefault(pair, []).append(_Part(vote, passage.parts))
    judgments = (_judgment(pair, parts, votes) for pair, parts in found.items())
    return tuple(judgment for judgment in judgments if judgment is not None)


def _judgment(pair: tuple[str, str, str], parts: list[_Part], votes: int) -> Judgment | None:
    parts = sorted(parts, key=lambda one: (one.vote.vote, one.vote.part))
    by_vote: dict[int, list[_Part]] = {}
    for one in parts:
        by_vote.setdefault(one.vote.vote, []).append(one)
    complete = [vote for group in by_vote.values() if (vote := _of_parts(group)) is not None]
    decisive = _decisive(complete, votes)
    if decisive is None:
        return None
    query_id, nugget_id, chunk_id = pair
    return Judgment(
        query_id=query_id,
        nugget_id=nugget_id,
        chunk_id=chunk_id,
        label=decisive.label,
        status=decisive.status,
        reason=decisive.reason,
        call_id=decisive.call_id,
        parts=max(one.parts for one in parts),
        votes=tuple(one.vote for one in parts) if len(parts) > 1 else (),
    )


def _of_parts(group: Sequence[_Part]) -> Vote | None:
    """The part that decides a vote: the first that failed, or the first with the highest label."""
    parts = [one.vote for one in group]
    failed = next((part for part in parts if part.label is None), None)
    if failed is not None:
        return failed
    if len(parts) < group[0].parts:
        return None
    return max(parts, key=lambda part: (part.label or 0, -part.part))


def _decisive(votes_cast: Sequence[Vote], votes: int) -> Vote | None:
    """The first vote for the label that wins, or the first that failed without a majority."""
    valid = [vote for vote in votes_cast if vote.label is not None]
    if 2 * len(valid) <= votes:
        return next((vote for vote in votes_cast if vote.label is None), None)
    counts = Counter(vote.label for vote in valid)
    label = min(counts, key=lambda label: (-counts[label], label or 0))
    return next(vote for vote in valid if vote.label == label)


def context_of(model: ModelConfig) -> int | None:
    """Tokens of a request and its reply, or None where no limit is known.

    What the configuration says goes before what LiteLLM's table knows of the model's input; the
    baseline reads anything.
    """
    if model.context is not None or model.name == BASELINE:
        return model.context
    return longest_input_of(model.name)


def prompt_tokens(model: ModelConfig, predictor: Any, inputs: dict[str, Any]) -> int:
    """Count the prompt of a question, with its demonstrations and the schema of its reply."""
    messages = TypedAdapter().format(predictor.signature, predictor.demos, inputs)
    schema = (
        canonical_json(answer_schema(predictor.signature))
        if model.structured == "json_schema"
        else ""
    )
    return sum(counted(message["content"]) for message in messages) + counted(schema)


def passage_tokens(path: str, text: str) -> int:
    """Count a chunk, or a part of one, as it is shown in a judge's prompt."""
    numbered = NumberedChunk(number=10, path=path, text=text)  # any number of two digits
    return count_tokens(json.dumps([numbered.model_dump()], ensure_ascii=False, indent=1))


class Window:
    """What fits into one call of a judge, or of another program that is shown chunks."""

    def __init__(self, model: ModelConfig, predictor: Any) -> None:
        """Take the room that the replies of a `TypedPredict` leave, or raise a ConfigError."""
        self._model = model
        self._predictor = predictor
        self._sizes: dict[tuple[str, str], int] = {}
        context = context_of(model)
        self._most = None if context is None else int((context - model.max_tokens) / MARGIN)
        if self._most is not None and self._most < LEAST_ROOM:
            raise ConfigError(
                f"replies of [model] max_tokens = {model.max_tokens} leave no room for a prompt in "
                f"the context of {context} tokens of {model.name}: lower max_tokens, or say with "
                "[model] context what really fits"
            )

    def room(self, query: Query, nuggets: Sequence[Nugget]) -> int | None:
        """Tokens left for chunks next to a question and nuggets; may be negative; None: any."""
        return self.room_beside(judge_inputs(query, nuggets, []))

    def room_beside(self, frame: dict[str, Any]) -> int | None:
        """Tokens left next to the other inputs of a question; may be negative; None: any."""
        if self._most is None:
            return None
        return self._most - prompt_tokens(self._model, self._predictor, frame)

    def size(self, passage: Passage) -> int:
        """Tokens of a passage in the prompt; equal ones are counted once."""
        key = (passage.path, passage.text)  # not the id: answers of a run share one
        if key not in self._sizes:
            self._sizes[key] = passage_tokens(passage.path, passage.text)
        return self._sizes[key]

    def split(self, passage: Passage, room: int) -> list[Passage]:
        """Split a passage that is too long into parts that each fit, at line ends."""
        texts = split_text(
            passage.text,
            -(-self.size(passage) // room),
            lambda text: passage_tokens(passage.path, text) <= room,
        )
        return [
            Passage(passage.chunk, text, number, len(texts)) for number, text in enumerate(texts, 1)
        ]


def split_text(text: str, fewest: int, fits: Callable[[str], bool]) -> list[str]:
    """Split a text into at least `fewest` parts of about equal length that all fit.

    The parts' concatenation is the text. A part ends at the end of a line where one is near.
    """
    parts = max(1, fewest)
    while parts < len(text):
        found = _cut(text, parts)
        if all(map(fits, found)):
            return found
        parts += 1 + parts // 8
    return list(text) or [text]


def _cut(text: str, parts: int) -> list[str]:
    bounds = [0]
    for number in range(1, parts):
        even = len(text) * number // parts
        reach = len(text) // (2 * parts)
        before = text.rfind("\n", even - reach, even) + 1
        after = text.find("\n", even, even + reach) + 1
        ends = [end for end in (before, after) if bounds[-1] < end < len(text)]
        bounds.append(min(ends, key=lambda end: abs(end - even), default=even))
    starts = sorted(set(bounds))
    return [text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]
