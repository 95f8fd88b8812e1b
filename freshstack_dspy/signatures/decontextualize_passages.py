"""Which standalone passages does a document consist of?"""

from typing import Annotated

import dspy

from freshstack_dspy.signatures.checks import FilledText, within_limit


class DecontextualizePassages(dspy.Signature):
    """Break a document into standalone passages of about 200 words each.

    Each passage can be read by itself: names replace pronouns, and the context that the document
    gives elsewhere is put in where a reader would miss it. Keep the document's own wording and
    facts; add none. Give at most `limit` passages, in the document's order.
    """

    title: str = dspy.InputField(desc="the document's title or path; may be empty")
    document: str = dspy.InputField(desc="the document")
    limit: int = dspy.InputField(desc="the largest number of passages allowed")
    passages: Annotated[list[FilledText], within_limit("passages")] = dspy.OutputField(
        desc="the passages", min_length=1
    )
