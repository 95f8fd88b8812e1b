"""Where the tokens of a text end, so that the count of any part of it is a look-up."""

import functools
import re
from bisect import bisect_left, bisect_right
from typing import Any

import numpy as np

from freshstack_dspy.lm.tokens import count_tokens, encoding

_INDENTED_TEXT = re.compile(rb"[ \t\f\v]*+[^\s\x80-\xff]")


class TokenTable:
    """Where each token of a text ends, in bytes: the token count of any part of it, nearly.

    A part that begins or ends inside a token, or whose ends the tokenizer would join
    differently, may have a few tokens more or less when it is encoded by itself.
    """

    def __init__(self, data: bytes) -> None:
        """Encode a text in UTF-8, which is not empty."""
        self._data = data
        tokens = encoding().encode_to_numpy(data.decode(), disallowed_special=())
        self._ends: list[int] = np.cumsum(_token_lengths()[tokens]).tolist()

    def count(self, start: int, end: int) -> int:
        """Count the tokens that lie, with at least a part, in a range of bytes."""
        return bisect_left(self._ends, end) + 1 - bisect_right(self._ends, start)

    def exact_count(self, start: int, end: int) -> int:
        """Count the tokens of a part as if it were encoded by itself.

        cl100k_base first cuts a text into words, from the left and without looking back, and
        always cuts between a line break and a line with text on it. So a part that begins with
        such a line, up to the end of a line, has the tokens it has in the whole; of any other
        only the last line is encoded again. (Non-ASCII white space is not worth the trouble.)
        """
        if not self._begins_line(start, end):
            return count_tokens(self._data[start:end].decode())
        if end == len(self._data) or self._begins_line(end, len(self._data)):
            return self.count(start, end)
        part = self._data[start:end]
        last_line = start + max(part.rfind(b"\n"), part.rfind(b"\r")) + 1
        if last_line == start or not self._begins_line(last_line, end):
            return count_tokens(part.decode())
        return self.count(start, last_line) + count_tokens(self._data[last_line:end].decode())

    def _begins_line(self, offset: int, end: int) -> bool:
        """Whether a line of a part begins here, with ASCII text after any indentation."""
        if offset == 0:
            return True
        if self._data[offset - 1] not in b"\r\n":
            return False
        return _INDENTED_TEXT.match(self._data, offset, end) is not None

    def reach(self, start: int, tokens: int) -> int:
        """Give the end of the `tokens`-th token from a byte on, or the end of the text."""
        last = bisect_right(self._ends, start) + tokens - 1
        return self._ends[min(last, len(self._ends) - 1)]


@functools.cache
def _token_lengths() -> "np.ndarray[Any, np.dtype[np.int64]]":
    """Give the length in bytes of each token."""
    known = encoding()
    lengths = np.zeros(known.n_vocab, dtype=np.int64)
    for token in range(known.max_token_value + 1):
        try:
            lengths[token] = len(known.decode_single_token_bytes(token))
        except KeyError:  # the numbering has gaps
            continue
    return lengths
