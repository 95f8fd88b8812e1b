"""What an update changed."""

from typing import Literal

from pydantic import Field

from freshstack_dspy.records import Record


class Difference(Record):
    """What an update changed."""

    added: int = Field(ge=0)
    """Chunks whose id is new, or whose content under this id is."""
    removed: int = Field(ge=0)
    """Chunks whose id is gone, or whose content under this id is."""
    kept: int = Field(ge=0)
    files_added: int = Field(ge=0)
    files_changed: int = Field(ge=0)
    files_removed: int = Field(ge=0)
    files_kept: int = Field(ge=0)
    embedded: dict[str, int]
    """For each embedder, how many chunks got new vectors; the others' content had one already."""
    lsa: Literal["fitted", "kept"]
    lsa_changed: float = Field(ge=0)
    """Chunks added and removed since `lsa` was fitted, as a share of those it was fitted on."""
