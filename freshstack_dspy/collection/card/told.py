"""What the configuration in a manifest tells, read with care: an imported manifest may hold anything."""

from collections.abc import Iterator, Mapping
from typing import Any

from freshstack_dspy.collection.manifest import Manifest
from freshstack_dspy.collection.markdown import escape

Told = Mapping[str, Any]


def section(manifest: Manifest, name: str) -> Told:
    """Give one section of the configuration; an empty one where there is none."""
    value = manifest.config.get(name)
    return value if isinstance(value, dict) else {}


def sections(manifest: Manifest, name: str) -> Iterator[Told]:
    """Give every section of a name that stands several times."""
    value = manifest.config.get(name)
    for each in value if isinstance(value, list) else ():
        if isinstance(each, dict):
            yield each


def said(value: object) -> str:
    """Say a value in a line of Markdown; nothing for what is empty or not set."""
    if value is None or value in ("", [], {}):
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(filter(None, map(said, value)))
    if isinstance(value, dict):
        return ", ".join(f"{escape(str(key))} {said(each)}" for key, each in value.items())
    return escape(str(value))
