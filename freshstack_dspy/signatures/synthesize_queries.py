"""Which questions would someone ask whom a passage answers?"""

from typing import Annotated

import dspy
from pydantic import BaseModel, ConfigDict

from freshstack_dspy.signatures.filled import FilledText
from freshstack_dspy.signatures.limit import within_limit


class SynthesizedQuery(BaseModel):
    """A question made from a passage, with the answer that the passage gives."""

    model_config = ConfigDict(extra="forbid")

    question: FilledText
    answer: FilledText


class SynthesizeQueries(dspy.Signature):
    """Write questions that a user of the software would ask and that the passage answers.

    A question describes the asker's situation or problem and never mentions the passage. It is
    open-ended rather than a quiz about a detail, and does not use the passage's rare words where
    an asker would not know them. Its answer uses only what the passage says.
    Where examples are given, follow their style and length. Give at most `limit`.
    """

    passage: str = dspy.InputField(desc="a piece of documentation or code")
    style_examples: list[str] = dspy.InputField(
        desc="questions whose style to follow; may be empty"
    )
    limit: int = dspy.InputField(desc="the largest number of queries allowed")
    queries: Annotated[list[SynthesizedQuery], within_limit("queries")] = dspy.OutputField(
        desc="the questions with their answers", min_length=1
    )
