"""Making a collection of one that others made.

Ids, texts and labels stay as they are. A failure there (a rating of -1, a negative grade, an
assignment `failed`) becomes a judgment without a label. Nothing of the files is executed, sizes
are bounded, and an error names file and line.
"""

import hashlib
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from freshstack_dspy.collection.collection import Collection, write_collection
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.formats import FORMATS
from freshstack_dspy.formats.format import Format, read_layout
from freshstack_dspy.formats.imported import Imported, contents_of, name_of
from freshstack_dspy.rows import row_files
from freshstack_dspy.stored.folder import GRADED
from freshstack_dspy.stored.manifest import NO_MODEL, Provenance


def import_collection(
    format: Format | str,  # noqa: A002
    path: Path | str,
    out: Path | str,
    *,
    corpus: Path | str | None = None,
    threshold: int | None = None,
    split: str | None = None,
    unknown_ids: Literal["error", "drop"] = "error",
    replace: bool = False,
) -> Collection:
    """Make a collection of one that others made.

    Args:
        format: The layout, or its name; `FORMATS.names()` lists them.
        path: Its folder or file; see docs/formats.md.
        out: The folder of the new collection, which is called as it is.
        corpus: Where the corpus is, if not in `path`.
        threshold: The lowest label that counts as support; by default 1 for BEIR, and that of
            the scale for the others.
        split: Of BEIR: which qrels, where there are several.
        unknown_ids: Whether judgments of a query or document that does not exist are an error, or
            are dropped and listed in `skipped.jsonl`.
        replace: Whether a collection at `out` is replaced.

    Raises:
        SourceError: The data cannot be read, or something is missing.
        ConfigError: There is no such format, or it is not read.
        CollectionError: `out` exists or cannot be written.
    """
    path, out = Path(path), Path(out)
    layout: Format = FORMATS.get(format)
    if out.exists() and not replace:
        raise CollectionError(f"{out} exists; name another folder, or replace it")
    found = read_layout(layout, path, corpus=corpus, threshold=threshold, split=split)
    chunks, missing = found.with_existing_chunks(drop=unknown_ids == "drop")
    contents = contents_of(
        found.queries.values(),
        found.nuggets.values(),
        found.judgments,
        found.scale,
        found.pool,
        failures=tuple(found.failures),
        skipped=tuple(missing),
        licences=found.licences,
    )
    settings: dict[str, Any] = {
        "format": layout.name,
        "files": dict(_hashes(found.files, path)),
        "unknown_ids": unknown_ids,
        "split": split,
    }
    if found.highest_grade is not None:
        settings |= {"highest_grade": found.highest_grade, "threshold": threshold}
    if found.export is not None:
        settings["export"] = found.export.origin()
    provenance = Provenance(
        name=name_of(out),
        recipe=_recipe(layout, found),
        model=NO_MODEL,
        scale=found.scale,
        versions={"freshstack_dspy": version("freshstack_dspy")},
        config={"import": settings},
    )
    return write_collection(out, contents, chunks, provenance, rejected=found.rejected)


def _recipe(layout: Format, found: Imported) -> str:
    """Name the format; labels that are grades for the query stay so, whatever they went through."""
    origin = found.export.recipe if found.export else ""
    return origin if origin in GRADED else f"import:{layout.name}"


def _hashes(read: Iterable[Path], root: Path) -> Iterator[tuple[str, str]]:
    """Hash the files that were read, each by its path below the root or its name alone."""
    files = sorted(file for path in read for file in row_files(path))
    for file in files:
        inside = root.is_dir() and file.is_relative_to(root)
        with file.open("rb") as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
        yield file.relative_to(root).as_posix() if inside else file.name, digest
