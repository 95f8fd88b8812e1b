"""What is shown of a collection that was cut anew."""

from pathlib import Path

from freshstack_dspy.collection.rechunk import Rechunked
from freshstack_dspy.pages.page import Page, Text, counted
from freshstack_dspy.pages.shown import page_of
from freshstack_dspy.stored.contents import listed


@page_of.register
def rechunked_page(rechunked: Rechunked, path: Path | None = None) -> Page:
    """Give how many chunks and labels a new cut has, at `path`, and what was lost."""
    manifest = rechunked.collection.manifest
    counts = manifest.counts
    lines = [f"supported pairs: {counts.supported:,}; slices: {listed(counts.slices)}"]
    if rechunked.without_evidence:
        labels = counted(rechunked.without_evidence, "label")
        lines.append(f"{labels} of support had no evidence, only their chunk")
    if rechunked.lost:
        lines.append(
            f"labels of support that are lost, as no chunk holds all of their evidence: "
            f"{rechunked.lost:,}; nuggets that are supported no more: {len(rechunked.lost_nuggets):,}"
        )
    lines.append(f"{path or rechunked.collection.name}: content hash {manifest.content_hash}")
    title = f"{counted(counts.chunks, 'chunk')}, {counted(counts.judgments, 'judgment')}"
    lost = {name: getattr(rechunked, name) for name in ("lost", "without_evidence", "lost_nuggets")}
    return Page(title, tuple(map(Text, lines)), {"collection": manifest, **lost})
