"""Tokens of a prompt before it is sent, by OpenAI's cl100k_base."""

import functools
import json
from typing import Any

from freshstack_dspy.config import ModelConfig
from freshstack_dspy.lm.request import canonical_json
from freshstack_dspy.lm.tokens import count_tokens
from freshstack_dspy.lm.typed import answer_schema, turns
from freshstack_dspy.signatures.judge_support import NumberedChunk


def prompt_tokens(model: ModelConfig, predictor: Any, inputs: dict[str, Any]) -> int:
    """Count the prompt of a question, with its demonstrations and the schema of its reply.

    Args:
        model: Whether the schema is sent beside the prompt.
        predictor: Who asks, as `TypedPredict`.
        inputs: What is asked.
    """
    messages = turns(predictor.signature, predictor.demos, inputs)
    schema = (
        canonical_json(answer_schema(predictor.signature))
        if model.structured == "json_schema"
        else ""
    )
    return sum(counted(message["content"]) for message in messages) + counted(schema)


def passage_tokens(path: str, text: str) -> int:
    """Count a chunk, or a part of one, as it stands in a judge's prompt."""
    numbered = NumberedChunk(number=10, path=path, text=text)  # any number of two digits
    return count_tokens(json.dumps([numbered.model_dump()], ensure_ascii=False, indent=1))


# The instructions and the schema of a step are in each of its prompts.
counted = functools.lru_cache(maxsize=32)(count_tokens)
