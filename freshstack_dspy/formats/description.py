"""`export.json`, which says of which collection an export is."""

from pathlib import Path

from pydantic import BaseModel, ValidationError

from freshstack_dspy.errors import SourceError
from freshstack_dspy.faults import first_fault
from freshstack_dspy.files import json_file
from freshstack_dspy.records import Scale
from freshstack_dspy.stored.contents import NuggetsName
from freshstack_dspy.stored.manifest import NO_MODEL, NOT_MEASURED

EXPORT_FILE, IDS_FILE, LICENCES_FILE = "export.json", "ids.json", "licences.jsonl"
JUDGMENTS_FILE = "judgments.jsonl"
"""Our judgments with our ids, next to a layout that has no room for labels and evidence."""


class Description(BaseModel):
    """`export.json`: of which collection it is, and what it holds."""

    format: str
    collection: str
    content_hash: str
    schema_version: int
    recipe: str
    model: str
    scale: Scale
    slices: tuple[str, ...]
    nuggets: NuggetsName = "supported"
    """On which nuggets of these queries the grades are; `hf` has every nugget besides."""
    counts: dict[str, int]
    calibrated: bool = False
    """Whether the labels agree with people as well as the collection's maker asked for."""
    agreement: str = NOT_MEASURED
    """What was measured of it."""
    imported_from: dict[str, str] = {}
    """The `origin` of an earlier export, of which the collection was imported."""

    def origin(self) -> dict[str, str]:
        """Name the collection, with the model that was first asked, for those who import it."""
        named = self.model_dump(include={"collection", "content_hash", "recipe", "model"})
        if self.model == NO_MODEL:
            named["model"] = self.imported_from.get("model")
        return {name: text for name, text in named.items() if text}


def read_description(folder: Path) -> Description | None:
    """Read what an export of ours is of; None where there is no `export.json`."""
    file = folder / EXPORT_FILE
    if not file.is_file():
        return None
    try:
        return Description.model_validate(json_file(file))
    except ValidationError as error:
        raise SourceError(f"{file}: {first_fault(error)}") from None
