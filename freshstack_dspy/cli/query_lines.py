"""What the summary of a build says of its queries: filters, contamination, who made them."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from freshstack_dspy.collection.counts import Counts


def query_lines(counts: "Counts") -> Iterator[str]:
    """Give the lines, each of at most 80 columns; none of what there is nothing of."""

    def some(number: int) -> str:
        return f"{number:,} ({number / counts.queries:.1%})" if counts.queries else f"{number:,}"

    if counts.synthetic:
        yield f"made by a model: {some(counts.synthetic)}"
    found = counts.contamination
    if found.scored:
        yield (
            f"known closed-book: {found.known / max(1, found.nuggets):.1%} of nuggets, "
            f"half or more of {some(found.contaminated)}"
        )
    if dated := found.before_cutoff + found.after_cutoff:
        yield f"asked up to the model's cut-off: {found.before_cutoff:,} of {dated:,}"
    if found.near_duplicates:
        yield f"nearly duplicate another query: {some(found.near_duplicates)}"
