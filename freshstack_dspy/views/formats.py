"""What is shown of a collection, or an export of one, that was validated."""

from dataclasses import asdict
from pathlib import Path

from freshstack_dspy.formats.validate import Validation
from freshstack_dspy.pages.page import Page, Table, Text, counted
from freshstack_dspy.pages.shown import page_of


@page_of.register
def validation_page(validation: Validation, path: Path | None = None) -> Page:
    """Give every fault, and what was read at `path`."""
    read = ", ".join(f"{number:,} {name}" for name, number in validation.counts.items() if number)
    verdict = counted(len(validation.faults), "fault") if validation.faults else "ok"
    faults = (Text(f"fault: {fault}", "warning") for fault in validation.faults)
    agreement = [Text(validation.agreement)] if validation.agreement else []
    return Page(
        f"{path or validation.format}: {verdict}, {validation.format}: {read}",
        (*faults, *agreement),
        data=asdict(validation),
        rows=Table(("fault",), [(fault,) for fault in validation.faults]),
    )
