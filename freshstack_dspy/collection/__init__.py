"""The judged collection on disk: reading, writing, describing and exporting it."""

from freshstack_dspy.collection.card import Statistics, collection_statistics
from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.collection.contents import Contents
from freshstack_dspy.collection.counts import ContaminationCounts, Counts
from freshstack_dspy.collection.exports import ExportFormat, export_collection
from freshstack_dspy.collection.manifest import SCHEMA_VERSION, Manifest, Provenance
from freshstack_dspy.collection.writing import (
    Intact,
    call_ids_of,
    check_foreign,
    intact_collection,
    write_collection,
)

__all__ = [
    "SCHEMA_VERSION",
    "Collection",
    "ContaminationCounts",
    "Contents",
    "Counts",
    "ExportFormat",
    "Intact",
    "Manifest",
    "Provenance",
    "Statistics",
    "call_ids_of",
    "check_foreign",
    "collection_statistics",
    "export_collection",
    "intact_collection",
    "write_collection",
]
