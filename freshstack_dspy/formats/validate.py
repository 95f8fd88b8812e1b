"""Validating a collection, or an export of one, which is read back."""

from pathlib import Path

from freshstack_dspy.errors import CollectionError, FreshstackError
from freshstack_dspy.files import existing_folder
from freshstack_dspy.formats import FORMATS
from freshstack_dspy.formats.description import EXPORT_FILE, Description, read_description
from freshstack_dspy.formats.format import Format, read_layout
from freshstack_dspy.stored.manifest import MANIFEST_FILE
from freshstack_dspy.stored.validate import Report, below, validate_collection


def validate(path: Path | str) -> Report:
    """Check a collection, or an export of one.

    Of a collection: files, hashes, counts, references, labels on their scale. An export is read
    back by its importer, and compared with the counts that it gives.

    Raises:
        CollectionError: It is neither, or its manifest cannot be read.
        SourceError: Its `export.json` cannot be read.
    """
    folder = existing_folder(Path(path))
    if (description := read_description(folder)) is not None:
        return _validate_export(folder, description)
    if not (folder / MANIFEST_FILE).is_file():
        raise CollectionError(
            f"{folder}: neither a collection nor an export: it has no {MANIFEST_FILE} and no "
            f"{EXPORT_FILE}"
        )
    return validate_collection(folder)


def _validate_export(folder: Path, description: Description) -> Report:
    try:
        counts = _read_back(folder, description.format)
    except FreshstackError as error:
        return Report(description.format, (below(folder, error),), {})
    faults = [
        f"{EXPORT_FILE}: counts.{name} is {description.counts.get(name)}, the files have {counted}"
        for name, counted in counts.items()
        if counted != description.counts.get(name)
    ]
    return Report(description.format, tuple(faults), counts)


def _read_back(folder: Path, name: str) -> dict[str, int]:
    """Count what is in an export, by its importer."""
    layout: Format = FORMATS.get(name)
    found = read_layout(layout, folder)
    chunks, _ = found.with_existing_chunks(drop=False)
    queries = len(found.queries) + sum(found.rejected.values())
    counts = {"queries": queries, "chunks": len(chunks), "nuggets": len(found.nuggets)}
    if "nuggets" in layout.cannot_hold:
        del counts["nuggets"]
    return counts
