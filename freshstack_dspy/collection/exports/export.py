"""Exporting a collection in the layout of another tool."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.collection.exports.beir import write_beir
from freshstack_dspy.collection.exports.crux import write_crux
from freshstack_dspy.collection.exports.freshstack import write_freshstack
from freshstack_dspy.collection.exports.hugging_face import write_hugging_face
from freshstack_dspy.collection.exports.layout import Selection
from freshstack_dspy.collection.exports.mteb import write_mteb
from freshstack_dspy.collection.exports.nuggetizer import write_nuggetizer
from freshstack_dspy.collection.exports.trec import write_trec
from freshstack_dspy.collection.layouts import JUDGED_CHUNKS, ExportFormat
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.files import names_in, staged_folder
from freshstack_dspy.records import SliceName

FORMATS: Mapping[ExportFormat, Callable[[Path, Selection], None]] = {
    "freshstack": write_freshstack,
    "beir": write_beir,
    "mteb": write_mteb,
    "trec": write_trec,
    "hf": write_hugging_face,
    "crux": write_crux,
    "nuggetizer": write_nuggetizer,
}
"""The function that writes each layout into an empty folder."""


def export_collection(
    collection: Collection,
    format: ExportFormat,  # noqa: A002
    out: Path | str,
    *,
    slices: Sequence[SliceName] | None = None,
) -> None:
    """Export queries of a collection, with all their judgments, and its chunks for another tool.

    A label supports from the threshold of the collection's scale on. A judgment that failed is no
    label, and a pair that was never judged has none; neither becomes a 0.
    The same collection is always exported to the same bytes.

    Args:
        collection: What is exported.
        format: The layout.
        out: A folder that is empty or does not exist; it appears whole or not at all.
        slices: Which queries; None: those in the slices that the manifest names as evaluated.

    Raises:
        CollectionError: The format or a slice is unknown, there is no query to export, the folder
            holds something, or it cannot be written.
    """
    if format not in FORMATS:
        raise CollectionError(f"{format!r} is no format of export; allowed: {', '.join(FORMATS)}")
    out = Path(out).resolve()
    if out.exists() and names_in(out):
        raise CollectionError(f"{out}: the folder is not empty; name another, or empty it")
    selection = Selection(collection, slices, whole_corpus=format not in JUDGED_CHUNKS)
    with staged_folder(out) as folder:
        FORMATS[format](folder, selection)
