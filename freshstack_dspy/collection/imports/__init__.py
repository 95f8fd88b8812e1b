"""Importing the collections of others: official FreshStack, BEIR, CRUX and nuggetizer."""

from freshstack_dspy.collection.imports.importing import (
    IMPORT_FORMATS,
    ImportFormat,
    import_collection,
)
from freshstack_dspy.collection.imports.presence import NO_TEXT, Missing

__all__ = ["IMPORT_FORMATS", "NO_TEXT", "ImportFormat", "Missing", "import_collection"]
