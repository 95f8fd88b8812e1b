"""OpenAI's tokens, cl100k_base, from a file in LiteLLM's wheel: tiktoken would download it."""

import functools
import importlib.util
from binascii import a2b_base64
from pathlib import Path

import tiktoken

from freshstack_dspy.errors import ConfigError

_FILE = "litellm_core_utils/tokenizers/9b5ad71b2ce5302211f9c61530b329a4922fc6a4"
"""The vocabulary, named by the SHA-1 of its URL."""
_PATTERN = (
    r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+"""
    r"""| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"""
)
"""How cl100k_base divides a text into words (`tiktoken_ext/openai_public.py`)."""
_LONGEST_TOKEN = 128
"""Bytes."""


def count_tokens(text: str) -> int:
    """Count the cl100k_base tokens of a text; special tokens in it are plain text."""
    return len(encoding().encode_ordinary(text))


def cut(text: str, tokens: int) -> str:
    """Cut a text to its first tokens, between two characters."""
    # Text beyond the longest that these tokens can make need not be encoded.
    encoded = encoding().encode_ordinary(text[: (tokens + 1) * _LONGEST_TOKEN])
    if len(encoded) <= tokens:
        return text
    return encoding().decode_bytes(encoded[:tokens]).decode("utf-8", "ignore")


@functools.cache
def encoding() -> tiktoken.Encoding:
    """Load the vocabulary, once in a process; a ConfigError if the installed LiteLLM lacks it."""
    spec = importlib.util.find_spec("litellm")
    file = Path((spec and spec.origin) or "").parent / _FILE
    if not file.is_file():
        raise ConfigError(
            f"the tokenizer file {file} is missing; "
            "reinstall LiteLLM with: pip install --force-reinstall litellm"
        )
    words = file.read_bytes().split()  # a token and its rank, and so on
    ranks = dict(zip(map(a2b_base64, words[::2]), map(int, words[1::2]), strict=True))
    return tiktoken.Encoding(
        "cl100k_base", pat_str=_PATTERN, mergeable_ranks=ranks, special_tokens={}
    )
