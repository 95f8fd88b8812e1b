"""What the two filters of the paper find, whether it is evaluated, and the list of it."""

from freshstack_dspy.collection.contents import Contents
from freshstack_dspy.collection.counts import FILTERED, FilterName
from freshstack_dspy.collection.manifest import Manifest
from freshstack_dspy.collection.markdown import escape, table

_LISTED = 20
_SAID: dict[FilterName, str] = {
    "no_supported_nugget": "no nugget has a supporting chunk",
    "unsupported_nugget": "some nugget has none",
}
_IN_PAPER: dict[FilterName, str] = {
    "no_supported_nugget": "11.8%",
    "unsupported_nugget": "34.2%",
}
"""The share of the questions that each took out there, on average (FreshStack §4)."""


def filters_section(contents: Contents, manifest: Manifest) -> str:
    """Say how many queries each filter finds, and which; none of them is thrown away."""
    counts = manifest.counts
    titles = {query.query_id: query.title for query in contents.queries}
    rows, lists = [], []
    for name, number in counts.filters.items():
        share = f"{number / counts.queries:.1%}" if counts.queries else "-"
        kept = "kept" if FILTERED[name] in manifest.evaluated_slices else "left out"
        rows.append((f"`{name}`", _SAID[name], f"{number:,}", share, _IN_PAPER[name], kept))
        taken = [part for part in contents.slices if part.slice == FILTERED[name]]
        if taken:
            listed = [
                (
                    escape(part.query_id),
                    escape(titles[part.query_id]),
                    f"{len(part.unsupported_nuggets)} of {part.nuggets}",
                )
                for part in taken[:_LISTED]
            ]
            lists.append(
                f"Of `{name}`, {'the first ' * (len(taken) > _LISTED)}{len(listed)} of "
                f"{len(taken):,}:\n\n{table(('query', 'title', 'unsupported nuggets'), listed)}"
            )
    header = ("filter", "finds queries where", "queries", "share", "paper", "in the evaluation")
    first = (
        f"## Filters\n\n{table(header, rows)}\n"
        "They are those of the FreshStack paper (§4), one after the other; there, what they find "
        "is taken out. Here an evaluation leaves it out, or keeps it where the setting "
        "`filters.unsupported_nuggets` is `keep`; it stays in the collection either way: "
        "`slices.jsonl` names the slice of every query, and its unsupported nuggets.\n"
    )
    return "\n".join([first, *lists])
