"""Make questions with answers from a passage, for a domain without a community."""

from collections.abc import Sequence

import dspy

from freshstack_dspy.lm.typed import TypedPredict
from freshstack_dspy.signatures.synthesize_queries import SynthesizeQueries


class QuerySynthesizer(dspy.Module):
    """From a passage to at most `limit` questions that it answers."""

    def __init__(self, limit: int = 3) -> None:
        super().__init__()
        self.limit = limit
        self.predict = TypedPredict(SynthesizeQueries)

    def forward(self, passage: str, style_examples: Sequence[str] = ()) -> dspy.Prediction:
        """Synthesize.

        Returns:
            A prediction with `queries`, a list of `SynthesizedQuery`, and `call_id`.

        Raises:
            ReplyError: The model gave no valid answer.
        """
        return self.predict(passage=passage, style_examples=list(style_examples), limit=self.limit)
