"""What a format is: how a collection is written in it, read, and loaded by other tools."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from freshstack_dspy.errors import ConfigError, SourceError
from freshstack_dspy.formats import FORMATS
from freshstack_dspy.formats.imported import Imported
from freshstack_dspy.formats.selection import Files, Selection
from freshstack_dspy.stored.manifest import is_collection

Part = Literal[
    "queries",
    "answers",
    "authors",
    "nuggets",
    "importance",
    "support",
    "labels",
    "failures",
    "evidence",
    "chunks",
    "pool",
]
"""What of a collection a format may lose. `support`: which chunks support which nuggets; `labels`: on
their scale; `failures`: which judgments failed; `pool`: what found the chunks."""


@dataclass(frozen=True, kw_only=True)
class Format:
    """A layout of files.

    Attributes:
        name: By which commands and `export.json` call it.
        how_to_load: How other tools load an export, in Markdown.
        write: Gives the files of an export; None: it is only read.
        read: Takes what is in a folder or file; None: it is only written.
        cannot_hold: What of a collection is lost when it is exported and imported again.
        every_nugget: Whether an export has the unsupported and doubtful nuggets too.
        pooled_chunks_only: Whether it has no room for chunks that were not pooled or judged.
    """

    name: str
    how_to_load: str
    write: Callable[[Selection], Files] | None = None
    read: Callable[[Imported], None] | None = None
    cannot_hold: tuple[Part, ...] = ()
    every_nugget: bool = False
    pooled_chunks_only: bool = False


def read_layout(
    layout: Format,
    path: Path,
    *,
    corpus: Path | str | None = None,
    threshold: int | None = None,
    split: str | None = None,
) -> Imported:
    """Read a collection of others; its documents are read later, one at a time."""
    if layout.read is None:
        raise ConfigError(f"the format {layout.name} is written and not read; export as freshstack")
    if not path.exists():
        raise SourceError(f"{path}: no such file or folder")
    if is_collection(path):
        raise SourceError(f"{path}: is a collection already, and needs no import")
    found = Imported(path, Path(corpus) if corpus is not None else None, threshold, split)
    if found.export is not None:
        exported: Format = FORMATS.get(found.export.format)
        if exported.read is not layout.read:
            use = f"use format={exported.name!r}" if exported.read else "export as freshstack"
            raise SourceError(f"{path}: is an export in the format {exported.name}; {use}")
    layout.read(found)
    if not found.queries:
        raise SourceError(f"{path}: no query with judgments in the layout of {layout.name}")
    return found
