"""Tokens: counted with OpenAI's cl100k_base, from a file that LiteLLM's wheel carries.

tiktoken downloads its vocabularies; LiteLLM ships them, under the names that tiktoken's cache
gives them. So tiktoken is shown that folder as its cache, and no network is needed.
"""

import functools
import importlib.util
import os
from bisect import bisect_left, bisect_right
from pathlib import Path
from typing import Any

import numpy as np
import tiktoken

from freshstack_dspy.errors import IndexingError

_ENCODING = "cl100k_base"
_CACHED_FILE = "9b5ad71b2ce5302211f9c61530b329a4922fc6a4"
"""SHA-1 of the URL of the vocabulary, as tiktoken names it in its cache."""
_VARIABLE = "TIKTOKEN_CACHE_DIR"


def count_tokens(text: str) -> int:
    """Count the cl100k_base tokens of a text; special tokens in it are plain text."""
    return len(_encoding().encode_ordinary(text))


class TokenTable:
    """Where each token of a text ends, in bytes: the token count of any part of it, nearly.

    A part that begins or ends inside a token, or whose ends the tokenizer would join
    differently, may have a few tokens more or less when it is encoded by itself.
    """

    def __init__(self, data: bytes) -> None:
        """Encode a text in UTF-8, which is not empty."""
        self._data = data
        tokens = _encoding().encode_to_numpy(data.decode(), disallowed_special=())
        self._ends: list[int] = np.cumsum(_token_lengths()[tokens]).tolist()

    def count(self, start: int, end: int) -> int:
        """Count the tokens that lie, with at least a part, in a range of bytes."""
        return bisect_left(self._ends, end) + 1 - bisect_right(self._ends, start)

    def exact_count(self, start: int, end: int) -> int:
        """Count the tokens of a part as if it were encoded by itself.

        cl100k_base first cuts a text into words, from the left and without looking back, and
        always cuts between a line break and a line with text on it. So all but the last line
        of a part that begins with a line has the tokens it has in the whole, and only the last
        line is encoded again. (White space beyond ASCII is not worth the trouble.)

        Args:
            start: Where the part begins: in a line with text, not before it.
            end: Where it ends: not in white space.
        """
        part = self._data[start:end]
        last_line = max(part.rfind(b"\n"), part.rfind(b"\r")) + 1
        begins_line = start == 0 or self._data[start - 1] in b"\r\n"
        if not (last_line and begins_line and part.isascii()):
            return count_tokens(part.decode())
        return self.count(start, start + last_line) + count_tokens(part[last_line:].decode())

    def reach(self, start: int, tokens: int) -> int:
        """Give the end of the `tokens`-th token from a byte on, or the end of the text."""
        last = bisect_right(self._ends, start) + tokens - 1
        return self._ends[min(last, len(self._ends) - 1)]


@functools.cache
def _encoding() -> tiktoken.Encoding:
    """Load the vocabulary, once in a process.

    Raises:
        IndexingError: The installed LiteLLM carries no such file.
    """
    spec = importlib.util.find_spec("litellm")
    folder = Path((spec and spec.origin) or "").parent / "litellm_core_utils" / "tokenizers"
    if not (folder / _CACHED_FILE).is_file():
        raise IndexingError(
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


@functools.cache
def _token_lengths() -> "np.ndarray[Any, np.dtype[np.int64]]":
    """Give the length in bytes of each token."""
    encoding = _encoding()
    lengths = np.zeros(encoding.n_vocab, dtype=np.int64)
    for token in range(encoding.max_token_value + 1):
        try:
            lengths[token] = len(encoding.decode_single_token_bytes(token))
        except KeyError:  # the numbering has gaps
            continue
    return lengths
