"""Which slices a collection is evaluated on; `collection.slices` says what they are."""

from freshstack_dspy.config import FilterConfig
from freshstack_dspy.records import SliceName


def evaluated_slices(filters: FilterConfig) -> tuple[SliceName, ...]:
    """The slices that measures are taken on."""
    if filters.unsupported_nuggets == "drop":
        return ("answerable",)
    return ("answerable", "partly_supported")
