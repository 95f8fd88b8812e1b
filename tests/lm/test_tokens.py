"""Tokens against tiktoken's own encodings, which read the same files where it finds them."""

import json
from pathlib import Path
from typing import get_args

import litellm
import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy.lm.tokens import Vocabulary, count_prompt, count_tokens

FILES = Path(litellm.__file__).parent / "litellm_core_utils/tokenizers"
TEXTS = st.text() | st.lists(
    st.sampled_from(
        ["Don't", "HTTPServer", "it's", "1234567", "\n\n  ", "/path//", "déjà", "数え", "'LL"]
    )
).map("".join)


@pytest.fixture(scope="module")
def theirs() -> dict[str, tiktoken.Encoding]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIKTOKEN_CACHE_DIR", str(FILES))
        return {name: tiktoken.get_encoding(name) for name in get_args(Vocabulary)}


@pytest.mark.parametrize("vocabulary", get_args(Vocabulary))
@given(text=TEXTS)
def test_tokens_are_tiktokens(
    theirs: dict[str, tiktoken.Encoding], vocabulary: Vocabulary, text: str
) -> None:
    assert count_tokens(text, vocabulary) == len(theirs[vocabulary].encode_ordinary(text))


@pytest.mark.parametrize("vocabulary", get_args(Vocabulary))
def test_a_million_spaces_are_counted(vocabulary: Vocabulary) -> None:
    assert 9_000 < count_tokens(f"x{' ' * 1_200_000}y", vocabulary) < 75_000


@given(
    text=TEXTS, more=st.lists(st.sampled_from([*"\r\n\t .,'{}[]", '"', "  ", "é", "\u2028", "x1"]))
)
def test_a_prompt_has_the_tokens_of_its_text(text: str, more: list[str]) -> None:
    shown = json.dumps(
        {"question": text, "chunks": [{"number": 1, "text": "".join(more)}]}, indent=1
    )

    for prompt in (shown, f"{text}\n{shown}", f"{text}\n{''.join(more)}\n  {shown}{text}"):
        assert count_prompt(prompt) == count_tokens(prompt)
