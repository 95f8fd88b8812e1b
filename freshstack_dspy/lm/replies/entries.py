"""What stores and bundles record: replies of language models, and the numbers of other models."""

from pydantic_core import from_json

from freshstack_dspy.lm.embedding.figures import Figures, figures_from_json
from freshstack_dspy.lm.reply import Reply, reply_from_json

Entry = Reply | Figures

_REPLY_BEGINS = b'{"ask":'
"""As the canonical JSON of every reply does, and of no figures."""


def entry_name(entry: Entry) -> str:
    """The name of an entry in a store."""
    return f"{'reply' if isinstance(entry, Reply) else 'figures'}:{entry.key}"


def entry_from_json(line: bytes, where: str) -> Entry:
    """Read a recorded reply or recorded figures, validating every field.

    Raises:
        StoreError: Naming `where` and the fault.
        UnicodeDecodeError: It is no UTF-8.
    """
    text = line.decode()
    if not line.startswith(_REPLY_BEGINS) and _is_of_figures(line):
        return figures_from_json(text, where)
    return reply_from_json(text, where)


def _is_of_figures(line: bytes) -> bool:
    try:
        fields = from_json(line)
    except ValueError:
        return False
    return isinstance(fields, dict) and "request" in fields


def says_the_same(one: Entry, other: Entry) -> bool:
    """Whether it makes no difference to a build which of two entries of a request it is served.

    What counts is what a build computes with: of a reply the text, the finish reason, the status
    and the re-ask; of figures the values. When and how they came, and what they cost, may differ.
    """
    if one.key != other.key:
        return False
    if isinstance(one, Figures) or isinstance(other, Figures):
        return (
            isinstance(one, Figures) and isinstance(other, Figures) and one.values == other.values
        )
    return all(
        getattr(one, name) == getattr(other, name)
        for name in ("text", "finish_reason", "status", "reasked_as")
    )
