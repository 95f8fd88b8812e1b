"""What a format is: how a collection is written in it, read, and loaded by other tools."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from freshstack_dspy.formats.imported import Imported
from freshstack_dspy.formats.selection import Files, Selection

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
