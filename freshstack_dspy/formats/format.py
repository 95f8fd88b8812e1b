"""What a format is; exporting a collection in one, and reading what others wrote in one.

Every export has a README with the authors of its texts, `export.json`, the licences of the corpus,
and `ids.json` where a format could not hold an id: exported id -> ours, by kind.
"""

import json
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple

from freshstack_dspy.errors import CollectionError, ConfigError, SourceError, argument
from freshstack_dspy.files import canonical_json, encode_records, replace_folder
from freshstack_dspy.formats import FORMATS
from freshstack_dspy.formats.imported import EXPORT_FILE, LICENCES_FILE, Description, Imported
from freshstack_dspy.formats.selection import Files, Selection
from freshstack_dspy.records import Chunk
from freshstack_dspy.stored.contents import NuggetsName, Slices
from freshstack_dspy.stored.folder import StoredCollection
from freshstack_dspy.stored.manifest import exported_from, is_collection, trust_line

Part = Literal[
    "queries", "answers", "authors", "nuggets", "importance", "support", "labels", "failures",
    "evidence", "chunks", "pool",
]  # fmt: skip
"""What of a collection a format may lose. `support`: which chunks support which nuggets; `labels`: on
their scale; `failures`: which judgments failed; `pool`: what found the chunks."""
_LINE_ENDS = {ord(end): f"\\u{ord(end):04x}" for end in "\x85\u2028\u2029"}
"""Some readers end a line at these, so they are escaped."""


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


class Export(NamedTuple):
    """What was exported."""

    format: str
    counts: dict[str, int]
    left_out: tuple[str, ...]
    """What of the collection it does not hold, in one line each."""
    agreement: str
    """How far its labels agree with people, in one line."""
    notes: tuple[str, ...] = ()
    """What the layout says of what it wrote, in one line each."""


def export_collection(
    collection: StoredCollection | Path | str,
    format: Format | str,  # noqa: A002
    out: Path | str,
    *,
    slices: Slices = None,
    nuggets: NuggetsName = "supported",
    replace: bool = False,
) -> Export:
    """Export queries of a collection, with their nuggets, judgments and chunks, for another tool.

    A label supports from the threshold of the collection's scale on. A judgment that failed is no
    label, and a pair that was never judged has none; neither becomes a 0.
    The same collection is always exported to the same bytes.

    Args:
        collection: A collection, or its folder.
        format: The layout, or its name; `FORMATS.names()` lists them.
        out: A folder that does not exist; it appears whole or not at all.
        slices: Which queries; None: every query with a supported nugget.
        nuggets: Which of their nuggets: those that the corpus supports, or all. `hf` has every
            nugget, and grades of these.
        replace: Whether an earlier export at `out` is replaced.

    Raises:
        ConfigError: There is no such format, or it is not written.
        CollectionError: A slice is unknown, there is no query to export, `out` exists, or it cannot
            be written.
    """
    layout: Format = FORMATS.get(format)
    if layout.write is None:
        raise ConfigError(f"the format {layout.name} is read and not written; name another")
    out = Path(out).resolve()
    if out.exists() and not replace:
        raise CollectionError(
            f"{out} exists; replace it with {argument('replace')}, or name another folder"
        )
    if out.exists() and not (out / EXPORT_FILE).is_file():
        raise CollectionError(f"{out} is not an export; it is not replaced")
    selection = Selection(
        StoredCollection.load(collection),
        slices,
        nuggets,
        every_nugget=layout.every_nugget,
        pooled_chunks_only=layout.pooled_chunks_only,
    )
    with replace_folder(out) as folder:
        for name, content in chain(_about(layout, selection), layout.write(selection)):
            _write(folder / name, content)
    unweighted = bool(selection.collection.weights) and layout.name != "hf"
    return Export(
        layout.name,
        selection.counts,
        (
            *selection.left_out(),
            *(["how often each question was asked is left out; hf has it"] * unweighted),
        ),
        trust_line(selection.collection.manifest),
        tuple(selection.notes),
    )


def _about(layout: Format, selection: Selection) -> Files:
    """Give `export.json`, the licences, and a README, which a layout may replace by its own."""
    manifest = selection.collection.manifest
    origin = exported_from(manifest)
    description = Description(
        format=layout.name,
        collection=manifest.name,
        slices=selection.slices,
        nuggets=selection.measured_on,
        counts=selection.counts,
        imported_from=origin,
        calibrated=manifest.trust is not None and manifest.trust.calibrated,
        agreement=trust_line(manifest),
        **manifest.model_dump(
            include={"content_hash", "schema_version", "recipe", "model", "scale"}
        ),
    )
    yield EXPORT_FILE, description.model_dump(exclude=None if origin else {"imported_from"})
    if selection.collection.licences:
        yield LICENCES_FILE, encode_records(selection.collection.licences)
    yield "README.md", selection.readme(layout.how_to_load)


def _write(path: Path, content: Any) -> None:
    """Write bytes, a text, an object (`.json`), objects (`.jsonl`) or lines, or move a file here."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, Path):
        shutil.move(content, path)
        return
    if isinstance(content, bytes | str):
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
        return
    if path.suffix == ".json":
        content = [json.dumps(content, ensure_ascii=False, indent=2, sort_keys=True)]
    elif path.suffix == ".jsonl":
        content = (canonical_json(row).translate(_LINE_ENDS) for row in content)
    with path.open("w", encoding="utf-8", newline="") as file:
        file.writelines(f"{line}\n" for line in content)


def read_layout(
    layout: Format,
    path: Path,
    *,
    corpus: Path | str | Iterable[Chunk] | None = None,
    threshold: int | None = None,
    split: str | None = None,
    columns: Mapping[str, str] | None = None,
) -> Imported:
    """Read a collection of others; its documents are read later, one at a time."""
    if layout.read is None:
        raise ConfigError(f"the format {layout.name} is written and not read; export as freshstack")
    if not path.exists():
        raise SourceError(f"{path}: no such file or folder")
    if is_collection(path):
        raise SourceError(f"{path}: is a collection already, and needs no import")
    if columns and layout.name != "golden":
        raise ConfigError(f"{argument('columns', '…')} is for the format golden")
    corpus = Path(corpus) if isinstance(corpus, str) else corpus
    imported = Imported(path, corpus, threshold, split, columns)
    if imported.export is not None:
        exported: Format = FORMATS.get(imported.export.format)
        if exported.read is not layout.read:
            use = f"use format={exported.name!r}" if exported.read else "export as freshstack"
            raise SourceError(f"{path}: is an export in the format {exported.name}; {use}")
    layout.read(imported)
    if not imported.queries:
        raise SourceError(f"{path}: no query with judgments in the layout of {layout.name}")
    return imported
