"""Judging support: the calls of the judge, and their votes and parts as one judgment of each pair.

Calls are packed for the context window of the model.
"""

import functools
import json
import math
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from itertools import accumulate, chain, groupby, pairwise, product
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.config import BuildConfig, JudgeConfig, ModelConfig
from freshstack_dspy.corpus.shown_chunks import ChunkPart, whole
from freshstack_dspy.errors import ConfigError, ReplyError
from freshstack_dspy.lm.capabilities import capabilities_of
from freshstack_dspy.lm.client import RecordedLM
from freshstack_dspy.lm.reask import itemized_output
from freshstack_dspy.lm.request import canonical_json
from freshstack_dspy.lm.tokens import count_prompt, count_tokens
from freshstack_dspy.lm.typed import (
    answer_schema,
    answer_tokens,
    given_and_read,
    messages_of,
    plain,
)
from freshstack_dspy.programs.support_judge import (
    SupportJudge,
    failure_of,
    judge_inputs,
    moved,
    unjudged,
)
from freshstack_dspy.recipes.flow import no_records
from freshstack_dspy.recipes.known import NOTHING, Known
from freshstack_dspy.recipes.pooling import asked_by_block, blocks
from freshstack_dspy.records import (
    Chunk,
    Failure,
    Judgment,
    Nugget,
    OmittedChunk,
    Query,
    Scale,
    StepName,
    Vote,
)
from freshstack_dspy.signatures.judge_support import NumberedChunk
from freshstack_dspy.stored.contents import Contents, slice_queries
from freshstack_dspy.stored.near_duplicates import same_texts

if TYPE_CHECKING:
    from freshstack_dspy.recipes.session import Session, SingleCall

Item = TypeVar("Item")

MARGIN = 1.3
"""How many tokens of its own a model may make of one of cl100k_base's, with which we count.

Of 288 pieces of Python, Markdown and posts Anthropic's tokenizer made at most 1.29 times as many
(1.12 in the middle), OpenAI's o200k_base at most 1.08."""
LEAST_ROOM = 256
"""Tokens of cl100k_base. Where less is left for chunks, the question is taken not to fit."""

_TOO_LONG = (
    "the question with {} nuggets leaves no room for a chunk in the model's window: take a model "
    "with a larger one, say with [model] context what really fits, lower [model] max_tokens, or "
    "judge fewer nuggets in a call with [judge] shape = 'windowed'"
)


class ToJudge(NamedTuple):
    """Nuggets of a query, and the chunks that each of them is to be judged against."""

    query: Query
    nuggets: Sequence[Nugget]
    chunks: Sequence[Chunk]


class JudgeCall(NamedTuple):
    """One call of the judge."""

    query: Query
    nuggets: Sequence[Nugget]
    passages: Sequence[ChunkPart]
    vote: int = 1
    step: StepName = "support"
    unfit: str | None = None
    """Why it cannot be made: not even its question fits into the model's window."""


class JudgedBatch(NamedTuple):
    """The result of one call; judgments that failed have no labels."""

    judgments: tuple[Judgment, ...]
    """For each passage of the call, in its order, each nugget."""
    failure: Failure | None
    call: JudgeCall


class Judgments(NamedTuple):
    """A judgment for every pair, and what failed."""

    judgments: tuple[Judgment, ...]
    failures: tuple[Failure, ...]


def judge(
    session: "Session | SingleCall",
    program: SupportJudge,
    pairs: Iterable[ToJudge],
    known: Known = NOTHING,
    *,
    of: int | None = None,
    step: StepName = "support",
    once: bool = False,
) -> Judgments:
    """Judge every pair as `[judge]` says; only those that `known` lacks are asked for.

    A label that followed its evidence into an edited chunk stands, also where the chunk is asked
    about for its other nuggets.

    Args:
        session: Whom it asks, for which configuration.
        program: The judge.
        pairs: Of each query, all its pairs; those of a block of queries are in memory together.
        known: Judgments that are reused.
        of: How many queries there are, where `pairs` are made one by one.
        step: What the calls are entered under.
        once: Whether each text is judged in one call, once, and `[judge]` shape and votes are ignored.

    Raises:
        BudgetError: The budget is used up.
        ConfigError: The longest reply leaves no room for a prompt.
    """
    config = session.config
    if once:
        update = {"shape": "batch", "votes": 1, "shuffle": None, "duplicates": "judge"}
        config = config.model_copy(update={"judge": config.judge.model_copy(update=update)})
    planned = (_planned(config, program, block, known, step) for block in blocks(pairs))
    number = len(pairs) if isinstance(pairs, Sequence) else of or 0
    judgments: list[Judgment] = []
    failures: list[Failure] = []
    call = functools.partial(judge_once, program)
    for batches, (reused, duplicates) in asked_by_block(session, step, call, planned, number):
        followed = {(label.nugget_id, label.chunk_id) for label in reused if label.followed_from}
        asked = merged(batches, config.judge.votes)
        judged = [*reused, *(new for new in asked if (new.nugget_id, new.chunk_id) not in followed)]
        judgments += [*judged, *shared(judged, duplicates)]
        failures += [batch.failure for batch in batches if batch.failure is not None]
    return Judgments(tuple(judgments), tuple(failures))


def _planned(
    config: BuildConfig,
    program: SupportJudge,
    pairs: Sequence[ToJudge],
    known: Known,
    step: StepName,
) -> tuple[Sequence[JudgeCall], tuple[Sequence[Judgment], "Sequence[Duplicate]"]]:
    """The calls for some queries, the judgments that are reused, and the pairs that share one."""
    reused: list[Judgment] = []
    asked: list[ToJudge] = []
    duplicates: list[Duplicate] = []
    for pair in pairs:
        query, nuggets, chunks = pair
        ids = {chunk.chunk_id for chunk in chunks}
        places = list(product(nuggets, chunks))
        before = [known.judgment(query, nugget, chunk) for nugget, chunk in places]
        judged = {one.chunk_id for one in before if one is not None and one.same_as is None}
        sharing = shares(config.judge, pair, judged)
        missing = set()
        followed = set()
        for (nugget, chunk), judgment in zip(places, before, strict=True):
            if (first := sharing.get(chunk.chunk_id)) is not None:
                duplicates.append(Duplicate(nugget, chunk, first))
            elif judgment is None:
                if (arrived := known.arrived(query, nugget, chunk)) is not None:
                    reused.append(arrived)
                    followed.add((nugget.nugget_id, chunk.chunk_id))
                else:
                    missing.add((nugget.nugget_id, chunk.chunk_id))
            elif judgment.same_as in ids:
                reused.append(judgment)
            else:  # what was judged is in the pool no more
                reused.append(judgment.model_copy(update={"same_as": None}))
        if config.judge.shape == "batch":  # else each such chunk would have a call of its own
            incomplete = {chunk_id for _, chunk_id in missing}
            missing |= {pair_ids for pair_ids in followed if pair_ids[1] in incomplete}
        asked += grouped(query, nuggets, chunks, missing)
    return judge_calls(config, program, asked, step=step), (reused, duplicates)


def judge_once(program: SupportJudge, call: JudgeCall) -> JudgedBatch:
    """Make one call of the judge; what failed has no labels."""
    try:
        if call.unfit is not None:
            raise ReplyError(call.unfit, status="failed", call_id=None)  # noqa: TRY301
        with given_and_read(type(program).__name__):
            reply: Any = program(
                query=call.query,
                nuggets=call.nuggets,
                chunks=call.passages,
                vote=call.vote,
                step=call.step,
            )
    except ReplyError as error:
        chunks = [passage.chunk for passage in call.passages]
        failed = (unjudged(call.query, call.nuggets, chunk, error) for chunk in chunks)
        failure = failure_of(call.query, call.step, error, chunks)
        return JudgedBatch(tuple(chain(*failed)), failure, call)
    try:
        return JudgedBatch(_judgments(call, reply), reply.get("failure"), call)
    except (AttributeError, TypeError, ValueError) as error:
        raise no_records(program, call.step, reply, error) from None


def _judgments(call: JudgeCall, reply: Any) -> tuple[Judgment, ...]:
    pairs = product(call.passages, call.nuggets)
    asked = [(call.query.query_id, one.nugget_id, passage.chunk.chunk_id) for passage, one in pairs]
    judgments = tuple(reply.judgments)
    if [(one.query_id, one.nugget_id, one.chunk_id) for one in judgments] != asked:
        raise ValueError("a judgment of each nugget is needed for each chunk, in their order")
    return judgments


class Duplicate(NamedTuple):
    """A pair that has the judgment of another."""

    nugget: Nugget
    chunk: Chunk
    judged: Chunk
    """The chunk that says the same, and is judged."""


def shares(
    config: JudgeConfig, pair: ToJudge, judged: Container[str] = frozenset()
) -> dict[str, Chunk]:
    """By the id of each chunk that says the same as another of its query: that one, which is judged.

    It is the first by id, which depends on no score, but for those `judged` before: they come
    first, and share with none.
    """
    if config.duplicates == "judge":
        return {}
    ordered = sorted(pair.chunks, key=lambda chunk: (chunk.chunk_id not in judged, chunk.chunk_id))
    same = same_texts(ordered, pair.nuggets)
    return {chunk_id: first for chunk_id, first in same.items() if chunk_id not in judged}


def shared(judgments: Iterable[Judgment], duplicates: Iterable[Duplicate]) -> list[Judgment]:
    """The judgments of duplicates, of those whose pairs were judged (and are not deferred)."""
    found = {(one.nugget_id, one.chunk_id): one for one in judgments}
    return [
        moved(one, judged, chunk).model_copy(update={"same_as": judged.chunk_id})
        for nugget, chunk, judged in duplicates
        if (one := found.get((nugget.nugget_id, judged.chunk_id))) is not None
    ]


def grouped(
    query: Query,
    nuggets: Sequence[Nugget],
    chunks: Sequence[Chunk],
    wanted: Container[tuple[str, str]],
) -> list[ToJudge]:
    """Some pairs of a query, by the ids of nugget and chunk; chunks of the same nuggets together."""
    groups: dict[tuple[str, ...], ToJudge] = {}
    for chunk in chunks:
        own = [one for one in nuggets if (one.nugget_id, chunk.chunk_id) in wanted]
        if own:
            ids = tuple(one.nugget_id for one in own)
            group = groups.get(ids, ToJudge(query, own, ()))
            groups[ids] = group._replace(chunks=[*group.chunks, chunk])
    return list(groups.values())


def with_judgments(
    collection: Collection,
    judgments: Sequence[Judgment],
    failures: Iterable[Failure],
    scale: Scale,
    **others: Any,
) -> Contents:
    """The records of a collection with these judgments, the slices that follow, and `others`."""
    slices = slice_queries(
        collection.queries, collection.nuggets, judgments, scale.threshold, collection.pool
    )
    records = {
        **collection.records(),
        "judgments": tuple(judgments),
        "failures": tuple(failures),
        "slices": tuple(slices),
    }
    return Contents(**{**records, **others}, threshold=scale.threshold)


def judge_calls(
    config: BuildConfig,
    judge: SupportJudge,
    pairs: Sequence[ToJudge],
    *,
    step: StepName = "support",
) -> list[JudgeCall]:
    """List the calls that judge every pair as `[judge]` says, packed for the model's window.

    Raises:
        ConfigError: The longest reply leaves no room for a prompt.
    """
    window = Window(config.model_of("judge"), judge)
    return [
        call._replace(step=step)
        for pair in pairs
        if pair.nuggets and pair.chunks
        for vote in range(1, config.judge.votes + 1)
        for call in _calls(config.judge, window, pair, vote)
    ]


def even(items: Sequence[Item], count: int) -> list[Sequence[Item]]:
    """Cut items into a number of runs that are as even as possible."""
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
        frame = judge_inputs(pair.query, nuggets, [])
        room = window.room_next_to(frame)
        if room is not None and room < LEAST_ROOM:
            if vote == 1:
                why = _TOO_LONG.format(len(nuggets))
                yield JudgeCall(pair.query, nuggets, passages, vote, unfit=why)
            continue
        size = judge.batch if judge.shape == "batch" else 1
        for batch in packed(window, passages, size, room, each=window.reply_for_one(frame)):
            yield JudgeCall(pair.query, nuggets, batch, vote)


def packed(
    window: "Window", passages: Sequence[ChunkPart], size: int, room: int | None, *, each: int = 0
) -> list[Sequence[ChunkPart]]:
    """Pack passages into the fewest even batches of at most `size` that fit.

    One that is too long for a call of its own is split, and each part has one. `each` is what the
    reply takes for a passage.
    """
    if room is None:
        return even(passages, -(-len(passages) // size))
    most = max(1, room - each)
    sizes = [window.size(passage) for passage in passages]
    fitting = [one for one, tokens in zip(passages, sizes, strict=True) if tokens <= most]
    too_long = [one for one, tokens in zip(passages, sizes, strict=True) if tokens > most]
    taken = [tokens + each for tokens in sizes if tokens <= most]
    count = -(-len(fitting) // size)
    while any(sum(batch) > room for batch in even(taken, count)):
        count += 1
    parts = [[part] for passage in too_long for part in window.split(passage, most)]
    return [*even(fitting, count), *parts]


def merged(batches: Iterable[JudgedBatch], votes: int) -> tuple[Judgment, ...]:
    """Merge the results of calls into one judgment for every pair.

    A vote on a chunk in parts is the highest label of its parts, and has none if one of them
    failed. The label is the one that most votes give, the lower one of a tie. Where not even a
    majority of all votes has a label, the judgment has none, and the status of the first vote that
    failed. A pair of which votes or parts are deferred is left out.
    """
    alone: list[Judgment] = []
    found: dict[tuple[str, str, str], list[Vote]] = {}
    parts: dict[tuple[str, str, str], int] = {}
    for batch in batches:
        passages = [passage for passage in batch.call.passages for _ in batch.call.nuggets]
        for passage, one in zip(passages, batch.judgments, strict=True):
            if votes == passage.parts == 1:
                alone.append(one)
                continue
            pair = (one.query_id, one.nugget_id, one.chunk_id)
            parts[pair] = passage.parts
            vote = Vote(vote=batch.call.vote, part=passage.part, **_said(one))
            found.setdefault(pair, []).append(vote)
    judgments = (_judgment(pair, cast, parts[pair], votes) for pair, cast in found.items())
    return (*alone, *(judgment for judgment in judgments if judgment is not None))


def _judgment(
    pair: tuple[str, str, str], cast: Sequence[Vote], parts: int, votes: int
) -> Judgment | None:
    cast = sorted(cast, key=lambda one: (one.vote, one.part))
    by_vote = (list(group) for _, group in groupby(cast, key=lambda one: one.vote))
    complete = [vote for group in by_vote if (vote := _of_parts(group, parts)) is not None]
    decisive = _decisive(complete, votes)
    if decisive is None:
        return None
    query_id, nugget_id, chunk_id = pair
    votes_cast = tuple(cast) if len(cast) > 1 else ()
    ids = {"query_id": query_id, "nugget_id": nugget_id, "chunk_id": chunk_id}
    return Judgment(**ids, **_said(decisive), parts=parts, votes=votes_cast)


def _said(record: Judgment | Vote) -> dict[str, Any]:
    """What a judge said, of one vote or of all."""
    fields = "label", "status", "reason", "call_id", "evidence"
    return {name: getattr(record, name) for name in fields}


def _of_parts(cast: Sequence[Vote], parts: int) -> Vote | None:
    """The part that decides a vote: the first that failed, or the first with the highest label."""
    failed = next((part for part in cast if part.label is None), None)
    if failed is not None or len(cast) < parts:
        return failed
    return max(cast, key=lambda part: (part.label or 0, -part.part))


def _decisive(votes_cast: Sequence[Vote], votes: int) -> Vote | None:
    """The first vote for the label that wins, or the first that failed without a majority."""
    valid = [vote for vote in votes_cast if vote.label is not None]
    if 2 * len(valid) <= votes:
        return next((vote for vote in votes_cast if vote.label is None), None)
    counts = Counter(vote.label for vote in valid)
    label = min(counts, key=lambda label: (-counts[label], label or 0))
    return next(vote for vote in valid if vote.label == label)


def prompt_tokens(model: ModelConfig, predictor: Any, inputs: dict[str, Any]) -> int:
    """Count the prompt of a question, with its demonstrations and the schema of its reply."""
    messages = messages_of(predictor.signature, predictor.demos, inputs)
    schema = (
        canonical_json(answer_schema(predictor.signature))
        if capabilities_of(model).structured == "json_schema"
        else ""
    )
    return sum(count_prompt(message["content"]) for message in messages) + count_prompt(schema)


def passage_tokens(path: str, text: str, headings: tuple[str, ...] = ()) -> int:
    """Count a chunk, or a part of one, as it is shown in a judge's prompt."""
    # Any number of two digits.
    numbered = NumberedChunk(number=10, path=path, headings=headings, text=text)
    return count_tokens(json.dumps([plain(dict(numbered))], ensure_ascii=False, indent=1))


class Window:
    """What fits into one call of a judge, or of another program that is shown chunks."""

    def __init__(self, model: ModelConfig, program: Any) -> None:
        """Take the room that the replies of a program's first predictor leave, or a ConfigError."""
        self._predictor = next(iter(program.predictors()), None)
        own = getattr(self._predictor, "lm", None)
        self._model = model = own.client.model if isinstance(own, RecordedLM) else model
        self._sizes: dict[tuple[str, str, tuple[str, ...]], int] = {}
        self._context = context = capabilities_of(model).context
        reply = self._reply_tokens({}, 0)
        if context is not None and (context - reply) / MARGIN < LEAST_ROOM:
            raise ConfigError(
                f"replies of up to {reply} tokens leave no room for a prompt in the context of "
                f"{context} tokens of {model.name}: lower [model] max_tokens, or correct "
                "[model] context"
            )

    def room_next_to(self, frame: dict[str, Any]) -> int | None:
        """Tokens left for chunks next to a question's other inputs; may be negative; None: any."""
        if self._context is None or self._predictor is None:
            return None
        most = int((self._context - self._reply_tokens(frame, 0)) / MARGIN)
        return most - prompt_tokens(self._model, self._predictor, frame)

    def reply_for_one(self, frame: dict[str, Any]) -> int:
        """Tokens of the room that a reply takes for each of the chunks."""
        more = self._reply_tokens(frame, 1) - self._reply_tokens(frame, 0)
        return math.ceil(more / MARGIN)

    def _reply_tokens(self, frame: dict[str, Any], chunks: int) -> int:
        capabilities = capabilities_of(self._model)
        if self._predictor is None:
            return capabilities.reply_tokens()
        signature = self._predictor.signature
        if (each := itemized_output(signature)) is not None:
            frame = {**frame, each[1].input_name: [None] * chunks}
        return capabilities.reply_tokens(answer_tokens(signature, frame))

    def size(self, passage: ChunkPart) -> int:
        """Tokens of a passage in the prompt; equal ones are counted once."""
        # Not the id: answers of a run share one.
        key = (passage.path, passage.text, passage.chunk.headings)
        if key not in self._sizes:
            self._sizes[key] = passage_tokens(*key)
        return self._sizes[key]

    def packed(
        self, frame: dict[str, Any], chunks: Iterable[Chunk]
    ) -> tuple[list[Chunk], list[OmittedChunk]]:
        """Take chunks as long as there is room next to other inputs, each whole.

        One that does not fit, or has no text, is passed over, and those below it that do are shown.
        """
        room = self.room_next_to(frame)
        left = math.inf if room is None else room
        shown: list[Chunk] = []
        omitted: list[OmittedChunk] = []
        for chunk in chunks:
            size = 0 if room is None else self.size(whole(chunk))
            if not chunk.passage:
                omitted.append(OmittedChunk(chunk_id=chunk.chunk_id, reason="no_text"))
            elif size > left:
                omitted.append(OmittedChunk(chunk_id=chunk.chunk_id, reason="no_room"))
            else:
                shown.append(chunk)
                left -= size
        return shown, omitted

    def split(self, passage: ChunkPart, room: int) -> list[ChunkPart]:
        """Split a passage that is too long into parts that each fit, at line ends."""
        path, headings = passage.path, passage.chunk.headings
        texts = split_text(passage.text, lambda text: passage_tokens(path, text, headings) <= room)
        bounds = accumulate(map(len, texts), initial=passage.start)
        return [
            ChunkPart(passage.chunk, start, end, number, len(texts))
            for number, (start, end) in enumerate(pairwise(bounds), 1)
        ]


def split_text(text: str, fits: Callable[[str], bool]) -> list[str]:
    """Halve a text until every part fits, each at the line end that is nearest to its middle.

    The parts' concatenation is the text.
    """
    if fits(text) or len(text) < 2:
        return [text]
    middle, reach = len(text) // 2, len(text) // 4
    ends = (
        text.rfind("\n", middle - reach, middle) + 1,
        text.find("\n", middle, middle + reach) + 1,
    )
    cut = min((end for end in ends if end), key=lambda end: abs(end - middle), default=middle)
    return [*split_text(text[:cut], fits), *split_text(text[cut:], fits)]
