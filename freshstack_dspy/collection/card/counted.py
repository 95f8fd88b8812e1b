"""How much there is of everything, and the statistics of the paper's Table 3."""

from collections.abc import Sequence

from freshstack_dspy.collection.contents import SLICES, Contents
from freshstack_dspy.collection.manifest import Manifest
from freshstack_dspy.collection.markdown import table
from freshstack_dspy.collection.statistics import Statistics, collection_statistics
from freshstack_dspy.records import Chunk

_COUNTED = ("queries", "nuggets", "expansions", "pool", "judgments", "supported", "chunks")


def counts_section(contents: Contents, manifest: Manifest) -> str:
    """Count records, failures and slices."""
    counts = manifest.counts
    rows = [(f"`{name}`", f"{getattr(counts, name):,}") for name in _COUNTED]
    vital = sum(nugget.importance == "vital" for nugget in contents.nuggets)
    rated = sum(nugget.importance is not None for nugget in contents.nuggets)
    if rated:
        rows.append(("nuggets rated vital", f"{vital:,} of {rated:,}"))
    alike = sum(nugget.duplicate_of is not None for nugget in contents.nuggets)
    if alike:
        rows.append(("nuggets that nearly duplicate another", f"{alike:,}"))
    for step, by_status in sorted(counts.failures.items()):
        rows += [
            (f"failures: {step}, {status}", str(by_status[status])) for status in sorted(by_status)
        ]
    slices = [
        (
            f"`{name}`",
            str(counts.slices[name]),
            "yes" if name in manifest.evaluated_slices else "no",
        )
        for name in SLICES
    ]
    return (
        f"## Counts\n\n{table(('what', 'number'), rows)}\n"
        f"{table(('slice', 'queries', 'evaluated'), slices)}\n"
        "In an `answerable` query every nugget has a supporting chunk, in a `partly_supported` "
        "one some have none, in an `unanswerable` one none has; where failures leave it open it "
        "is `undetermined`.\n"
    )


def statistics_section(contents: Contents, chunks: Sequence[Chunk], manifest: Manifest) -> str:
    """Describe the queries in the columns of the paper's Table 3."""
    names = len({chunk.source for chunk in chunks})
    rows = []
    for label, slices in (("evaluated", manifest.evaluated_slices), ("all with nuggets", SLICES)):
        found = collection_statistics(contents, slices, chunks=len(chunks), sources=names)
        rows.append((label, *_row(found)))
    header = (
        "queries are", "#queries", "#docs", "#sources", "nuggets per query", "query words",
        "answer words", "queries with code", "answers with code", "relevant docs per nugget",
        "relevant docs per query",
    )  # fmt: skip
    return (
        f"## Statistics\n\n{table(header, rows)}\n"
        "The columns are those of Table 3 of the FreshStack paper (arXiv 2504.13128), with "
        "lengths in words; a doc is a chunk.\n"
    )


def _row(found: Statistics) -> list[str]:
    def number(value: float | None) -> str:
        return "-" if value is None else f"{value:.1f}"

    def share(value: float | None) -> str:
        return "-" if value is None else f"{value:.1%}"

    return [
        str(found.queries),
        str(found.chunks),
        str(found.sources),
        number(found.nuggets_per_query),
        number(found.query_words),
        number(found.answer_words),
        share(found.queries_with_code),
        share(found.answers_with_code),
        number(found.relevant_per_nugget),
        number(found.relevant_per_query),
    ]
