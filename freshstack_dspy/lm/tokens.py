"""OpenAI's tokens, cl100k_base, from a file that LiteLLM's wheel carries.

tiktoken downloads its vocabularies; LiteLLM ships them, under the names that tiktoken's cache
gives them. So tiktoken is shown that folder as its cache, and no network is needed.
"""

import functools
import importlib.util
import os
from pathlib import Path
from typing import NamedTuple

import tiktoken

from freshstack_dspy.errors import ConfigError

_ENCODING = "cl100k_base"
_CACHED_FILE = "9b5ad71b2ce5302211f9c61530b329a4922fc6a4"
"""SHA-1 of the URL of the vocabulary, as tiktoken names it in its cache."""
_VARIABLE = "TIKTOKEN_CACHE_DIR"
_LONGEST_TOKEN = 128
"""Bytes."""


class Cut(NamedTuple):
    """The beginning of a text, and whether it is less than the whole."""

    text: str
    shortened: bool


def count_tokens(text: str) -> int:
    """Count the cl100k_base tokens of a text; special tokens in it are plain text."""
    return len(encoding().encode_ordinary(text))


def cut(text: str, tokens: int) -> Cut:
    """Cut a text to its first tokens, between two characters."""
    if len(text) <= tokens and len(text.encode("utf-8", "surrogatepass")) <= tokens:
        return Cut(text, shortened=False)  # no token is shorter than a byte
    # What is behind the longest that so many tokens can be need not be looked at.
    found = encoding().encode_ordinary(text[: (tokens + 1) * _LONGEST_TOKEN])
    if len(found) <= tokens:
        return Cut(text, shortened=False)
    kept = encoding().decode_bytes(found[:tokens]).decode("utf-8", "ignore")
    return Cut(kept, shortened=True)


@functools.cache
def encoding() -> tiktoken.Encoding:
    """Load the vocabulary, once in a process.

    Raises:
        ConfigError: The installed LiteLLM carries no such file.
    """
    spec = importlib.util.find_spec("litellm")
    folder = Path((spec and spec.origin) or "").parent / "litellm_core_utils" / "tokenizers"
    if not (folder / _CACHED_FILE).is_file():
        raise ConfigError(
            f"the tokenizer file {folder / _CACHED_FILE} is missing; "
            "reinstall LiteLLM with: pip install --force-reinstall litellm"
        )
    before = os.environ.get(_VARIABLE)
    os.environ[_VARIABLE] = str(folder)
    try:
        return tiktoken.get_encoding(_ENCODING)
    finally:
        if before is None:
            del os.environ[_VARIABLE]
        else:
            os.environ[_VARIABLE] = before
