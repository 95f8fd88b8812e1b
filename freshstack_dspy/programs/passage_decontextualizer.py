"""Break a document into passages that stand on their own."""

import dspy

from freshstack_dspy.lm.typed import TypedPredict
from freshstack_dspy.signatures.decontextualize_passages import DecontextualizePassages


class PassageDecontextualizer(dspy.Module):
    """From a document to at most `limit` standalone passages (CRUX §3.2)."""

    def __init__(self, limit: int = 3) -> None:
        super().__init__()
        self.limit = limit
        self.predict = TypedPredict(DecontextualizePassages)

    def forward(self, document: str, title: str = "") -> dspy.Prediction:
        """Decontextualize.

        Returns:
            A prediction with `passages`, a list of str, and `call_id`.
        """
        return self.predict(title=title, document=document, limit=self.limit)
