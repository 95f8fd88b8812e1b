"""The option that says whose queries a command looks at."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from freshstack_dspy.collection.collection import Collection
    from freshstack_dspy.records import SliceName

SlicesName = Literal[
    "evaluated", "all", "answerable", "partly_supported", "unanswerable", "undetermined"
]
SlicesOption = Annotated[
    SlicesName,
    typer.Option(help="Whose queries: those that evaluations use, all, or those of a slice."),
]


def slices_of(name: SlicesName, collection: "Collection") -> "tuple[SliceName, ...]":
    """Give the slices of a collection that a name stands for."""
    from freshstack_dspy.collection.contents import SLICES

    if name == "evaluated":
        return collection.manifest.evaluated_slices
    return SLICES if name == "all" else (name,)
