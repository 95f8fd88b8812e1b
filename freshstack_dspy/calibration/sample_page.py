"""The page of a sample: how many tasks were drawn of which part, and what so many will tell."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from freshstack_dspy.measures.ppi import FEWEST_ITEMS
from freshstack_dspy.pages.page import Page, Table, Text, counted

if TYPE_CHECKING:
    from freshstack_dspy.calibration.sampling import Sample


def sample_page(found: "Sample", name: str) -> Page:
    """Give the page of a sample that was written to a file."""
    rows = [(part, size, drawn, drawn / size) for part, (size, drawn) in found.strata.items()]
    header = ("part", _what(found), "drawn", "probability")
    return Page(
        f"{name}: {counted(len(found.tasks), 'task')} of kind {found.kind}",
        (Table(header, rows), *map(Text, _notes(found))),
        data={"strata": found.strata, "kept": found.kept, "half_width": found.half_width},
    )


def _what(found: "Sample") -> str:
    if found.purpose == "runs":
        return "queries"
    return {"nuggets": "queries", "answer": "answers"}.get(found.kind, "pairs")


def _notes(found: "Sample") -> Iterator[str]:
    if found.kept:
        yield f"{found.kept:,} of them were there before, and stay"
    if found.purpose != "runs" and len(found.tasks) < found.limit:
        yield f"there are no more {_what(found)}"
    if found.half_width is not None:
        yield _tells(found)


def _tells(found: "Sample") -> str:
    """Say in a line what so many labels will tell."""
    about, number = f"about ±{found.half_width:.2f}", len(found.tasks)
    hours = f"{counted(number, 'label')}, at 200 an hour {number / 200:.1f} hours"
    not_runs = "they do not tell the value of a run, which takes --for runs"
    if found.purpose == "agreement":
        return f"for agreement ({hours}): expect kappa to {about}; {not_runs}"
    if found.purpose == "share":
        return f"for the share of pairs that support ({hours}): expect it to {about}; {not_runs}"
    queries = sum(drawn for _, drawn in found.strata.values())
    if queries < FEWEST_ITEMS:
        return f"for runs ({hours}): {queries} queries are too few, {FEWEST_ITEMS} are needed"
    return (
        f"for runs ({hours}): expect a run's alpha_nDCG@10 to {about}; of measures that most queries "
        "have at 1, as RR, it can take 40 queries or more"
    )
