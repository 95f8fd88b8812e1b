"""The option that says whose queries a command looks at."""

from typing import TYPE_CHECKING

from freshstack_dspy.cli.options import SlicesName, SlicesOption

if TYPE_CHECKING:
    from freshstack_dspy.collection.collection import Collection
    from freshstack_dspy.records import SliceName

__all__ = ["SlicesName", "SlicesOption", "slices_of"]


def slices_of(name: SlicesName, collection: "Collection") -> "tuple[SliceName, ...]":
    """Give the slices that a name stands for."""
    from freshstack_dspy.collection.slices import slices_of as named

    return named(name)
