"""A text with something in it."""

from typing import Annotated

from pydantic import AfterValidator, Field


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("the text is blank")
    return text


FilledText = Annotated[str, Field(min_length=1), AfterValidator(_not_blank)]
"""One that is not blank, which no JSON schema says; the model is told when it happens."""
