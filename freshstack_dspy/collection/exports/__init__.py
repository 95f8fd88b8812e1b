"""A collection in the layouts of other tools: one file for each."""

from freshstack_dspy.collection.exports.export import FORMATS, export_collection
from freshstack_dspy.collection.layouts import ExportFormat

__all__ = ["FORMATS", "ExportFormat", "export_collection"]
