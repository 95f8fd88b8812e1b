"""What an import refuses before it reads: a folder that is taken, and what is of another format."""

from collections.abc import Sequence
from pathlib import Path

from freshstack_dspy.collection.layouts import EXPORT_FILE
from freshstack_dspy.collection.manifest import is_collection
from freshstack_dspy.collection.staging import standing_folder
from freshstack_dspy.collection.writing import refuse_foreign
from freshstack_dspy.errors import CollectionError, SourceError
from freshstack_dspy.sources.questions.json_objects import json_file

_READ_AS = {
    "freshstack": "freshstack",
    "beir": "beir",
    "mteb": "beir",
    "crux": "crux",
    "nuggetizer": "nuggetizer",
}
_NOT_READ = ("hf", "trec")
"""Formats of export that none of import reads."""
_ELSE = "export the collection as freshstack, and import that"


def refuse_format(format_: str, allowed: Sequence[str]) -> None:
    """Refuse a word that is no format of import; for one of export, say what to do.

    Raises:
        CollectionError: It is none.
    """
    if format_ in allowed:
        return
    hint = ""
    if format_ in _READ_AS:
        hint = f"; an export in the format {format_} is read as {_READ_AS[format_]}"
    elif format_ in _NOT_READ:
        hint = f"; an export in the format {format_} cannot be read: {_ELSE}"
    raise CollectionError(
        f"{format_!r} is no format of import; allowed: {', '.join(allowed)}{hint}"
    )


def refuse_standing(out: Path) -> None:
    """Refuse a folder that holds a collection, or anything else that writing would replace.

    Raises:
        CollectionError: Its records would be lost.
    """
    place = out.resolve()
    # A writing that was cut short may have left the collection under its hidden name.
    if is_collection(standing_folder(place)):
        raise CollectionError(
            f"{out}: a collection stands already; name another folder, or move it"
        )
    refuse_foreign(place)


def refuse_other(format_: str, path: Path) -> None:
    """Refuse a collection of ours, and an export of ours that is in another format.

    Raises:
        SourceError: It is one, or its `export.json` cannot be read.
    """
    if not path.is_dir():
        return
    if is_collection(path):
        raise SourceError(
            f"{path}: is a collection already, and needs no import; evaluate, extend or export it "
            "as it is"
        )
    file = path / EXPORT_FILE
    told = json_file(file) if file.is_file() else None
    found = told.get("format") if isinstance(told, dict) and "content_hash" in told else None
    if found in _NOT_READ:
        raise SourceError(
            f"{path}: is an export in the format {found}, as its {EXPORT_FILE} says, which cannot "
            f"be read; {_ELSE}"
        )
    if isinstance(found, str) and _READ_AS.get(found, format_) != format_:
        raise SourceError(
            f"{path}: is an export in the format {found}, as its {EXPORT_FILE} says, and not in "
            f"{format_}; read it with: freshstack import {_READ_AS[found]}"
        )
