"""Why a file of a corpus is not indexed."""

from typing import NamedTuple

from freshstack_dspy.records import SkipKind


class Skip(NamedTuple):
    """A reason not to index a file."""

    kind: SkipKind
    reason: str
