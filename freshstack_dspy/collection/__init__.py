"""The judged collection on disk: reading, writing, describing and exporting it."""

from freshstack_dspy.collection.collection import Collection

__all__ = ["Collection"]
