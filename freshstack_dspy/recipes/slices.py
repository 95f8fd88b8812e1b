"""Which slices a collection is evaluated on; `collection.slices` says what they are."""

from freshstack_dspy.collection.slices import slice_queries
from freshstack_dspy.config import FilterConfig
from freshstack_dspy.records import SliceName

__all__ = ["evaluated_slices", "slice_queries"]


def evaluated_slices(filters: FilterConfig) -> tuple[SliceName, ...]:
    """The slices that measures are taken on."""
    if filters.unsupported_nuggets == "drop":
        return ("answerable",)
    return ("answerable", "partly_supported")
