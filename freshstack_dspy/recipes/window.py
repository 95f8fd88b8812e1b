"""How much of a prompt is left for chunks in the context window of its model."""

import functools
import json
from collections.abc import Callable, Sequence
from typing import Any

from freshstack_dspy.config import ModelConfig
from freshstack_dspy.errors import ConfigError
from freshstack_dspy.lm.prices import longest_input_of
from freshstack_dspy.lm.request import BASELINE, canonical_json
from freshstack_dspy.lm.tokens import count_tokens
from freshstack_dspy.lm.typed import TypedAdapter, answer_schema
from freshstack_dspy.programs.support_judge import Passage, judge_inputs
from freshstack_dspy.records import Nugget, Query
from freshstack_dspy.signatures.judge_support import NumberedChunk

MARGIN = 1.3
"""How many tokens of its own a model may make of one of cl100k_base's, with which we count.

Of 288 pieces of Python, Markdown and posts Anthropic's tokenizer made at most 1.29 times as many
(1.12 in the middle), OpenAI's o200k_base at most 1.08."""
LEAST_ROOM = 256
"""Tokens of cl100k_base. Where less is left for chunks, the question is taken not to fit."""

# The instructions and the schema of a step are in each of its prompts.
counted = functools.lru_cache(maxsize=32)(count_tokens)


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
        """Take the room that replies leave.

        Args:
            model: With its context and its longest reply.
            predictor: Whose prompts they are, a `TypedPredict`.

        Raises:
            ConfigError: The longest reply leaves no room for a prompt.
        """
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
