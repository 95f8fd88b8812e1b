"""OpenAI's tokens, from files in LiteLLM's wheel: tiktoken would download them."""

import functools
import importlib.util
import re
import threading
from binascii import a2b_base64
from pathlib import Path
from typing import Literal

import tiktoken

from freshstack_dspy.errors import ConfigError

Vocabulary = Literal["cl100k_base", "o200k_base"]
"""Ours, by which chunks are cut and requests are counted; and GPT-4o's, in which FreshStack's Table 3
has its lengths."""
_FOLDER = "litellm_core_utils/tokenizers"
_CL100K = (  # in the group, nothing that needs backtracking, which takes twice the time
    r"""(?:'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"""
    r"""| ?[^\s\p{L}\p{N}]+[\r\n]*|\s+$|\s*[\r\n])|\s{1,900000}(?!\S)|\s"""
)
_ANY, _ENDING = r"\p{Lm}\p{Lo}\p{M}", "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
_O200K = (
    rf"[^\r\n\p{{L}}\p{{N}}]?[\p{{Lu}}\p{{Lt}}{_ANY}]*[\p{{Ll}}{_ANY}]+{_ENDING}"
    rf"|[^\r\n\p{{L}}\p{{N}}]?[\p{{Lu}}\p{{Lt}}{_ANY}]+[\p{{Ll}}{_ANY}]*{_ENDING}"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s{1,900000}(?!\S)|\s+"
)
_VOCABULARIES: dict[Vocabulary, tuple[str, str]] = {
    "cl100k_base": ("9b5ad71b2ce5302211f9c61530b329a4922fc6a4", _CL100K),
    "o200k_base": ("fb374d419588a4632f3f557e76b4b70aebbca790", _O200K),
}
"""The file, named by the SHA-1 of its URL, and how the vocabulary divides a text into words
(as the patterns in `tiktoken_ext/openai_public.py` do; but a million spaces overflow its stack)."""
_LONGEST_TOKEN = 128
"""Bytes."""
_loading = threading.Lock()


def count_tokens(text: str, vocabulary: Vocabulary = "cl100k_base") -> int:
    """Count the tokens of a text; special tokens in it are plain text."""
    return len(encoding(vocabulary).encode_ordinary(text))


def count_prompt(text: str) -> int:
    """Count the tokens of a prompt; the lines of JSON that prompts share are counted once."""
    *lines, last = _LINE_OF_JSON.split(text)
    return sum(_counted(f"{line}\n") for line in lines) + _counted(last)


_LINE_OF_JSON = re.compile(r'\n(?= *["{}\[\]])')
"""Where a line of `json.dumps(…, indent=1)` begins, so that a token ends in the vocabularies above."""
_counted = functools.lru_cache(maxsize=4096)(count_tokens)


def cut(text: str, tokens: int) -> str:
    """Cut a text to its first tokens, between two characters."""
    # Text beyond the longest that these tokens can make need not be encoded.
    encoded = encoding().encode_ordinary(text[: (tokens + 1) * _LONGEST_TOKEN])
    if len(encoded) <= tokens:
        return text
    return encoding().decode_bytes(encoded[:tokens]).decode("utf-8", "ignore")


def encoding(vocabulary: Vocabulary = "cl100k_base") -> tiktoken.Encoding:
    """Load a vocabulary, once in a process; a ConfigError if the installed LiteLLM lacks it."""
    with _loading:  # else each of the threads that first count tokens loads it
        return _encoding(vocabulary)


@functools.cache
def _encoding(vocabulary: Vocabulary) -> tiktoken.Encoding:
    name, pattern = _VOCABULARIES[vocabulary]
    spec = importlib.util.find_spec("litellm")
    file = Path((spec and spec.origin) or "").parent / _FOLDER / name
    if not file.is_file():
        raise ConfigError(
            f"the tokenizer file {file} is missing; "
            "reinstall LiteLLM with: pip install --force-reinstall litellm"
        )
    words = file.read_bytes().split()  # a token and its rank, and so on
    ranks = dict(zip(map(a2b_base64, words[::2]), map(int, words[1::2]), strict=True))
    return tiktoken.Encoding(vocabulary, pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
