"""The exact prompts: a change of one is a reviewed diff, for recorded replies are lost with it."""

from typing import Any

import pytest

from .examples import EXAMPLES, PROMPTS, prompt


@pytest.mark.parametrize("signature", EXAMPLES, ids=lambda signature: signature.__name__)
def test_the_prompt_is_the_reviewed_one(signature: Any) -> None:
    reviewed = (PROMPTS / f"{signature.__name__}.txt").read_text(encoding="utf-8")

    assert prompt(signature) == reviewed


def test_every_reviewed_prompt_is_of_a_signature() -> None:
    assert {path.stem for path in PROMPTS.iterdir()} == {
        signature.__name__ for signature in EXAMPLES
    }
