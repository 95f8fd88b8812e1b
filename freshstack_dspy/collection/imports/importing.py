"""From a foreign collection to one of ours."""

import hashlib
import re
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Literal, get_args

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.collection.contents import Contents
from freshstack_dspy.collection.imports.beir import read_beir
from freshstack_dspy.collection.imports.crux import read_crux
from freshstack_dspy.collection.imports.foreign import (
    MISSING,
    Gathered,
    Missing,
    check_format,
    check_other,
    check_standing,
    judged_pairs,
    present,
    row_files,
)
from freshstack_dspy.collection.imports.freshstack import read_freshstack
from freshstack_dspy.collection.imports.nuggetizer import read_nuggetizer
from freshstack_dspy.collection.manifest import NO_MODEL, Provenance
from freshstack_dspy.collection.slices import slice_queries
from freshstack_dspy.collection.writing import write_collection
from freshstack_dspy.errors import CollectionError, SourceError
from freshstack_dspy.records import SCALES, Candidate, ScaleName

ImportFormat = Literal["freshstack", "beir", "crux", "nuggetizer"]
IMPORT_FORMATS: tuple[ImportFormat, ...] = get_args(ImportFormat)
_SCALES: dict[ImportFormat, ScaleName] = {
    "freshstack": "binary", "crux": "graded_5", "nuggetizer": "support",
}  # fmt: skip
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9._-]+")


def import_collection(
    format: ImportFormat,  # noqa: A002  the command's word
    path: Path | str,
    out: Path | str,
    *,
    name: str | None = None,
    corpus: Path | str | None = None,
    threshold: int | None = None,
    missing: Missing = "refuse",
    split: str | None = None,
) -> Collection:
    """Make a collection of one that others made.

    Ids, texts and labels are kept as they are. A failure there (a rating of -1, an assignment
    `failed`) becomes a judgment without a label.

    Args:
        format: `freshstack`, `beir`, `crux` or `nuggetizer`.
        path: Its folder or file; see docs/formats.md.
        out: The folder of the new collection; empty, or not there yet.
        name: Of the new collection; by default that of the folder.
        corpus: Where the corpus is, if not beside the queries.
        threshold: The lowest label that counts as support; by default 1 for BEIR, and that of
            the scale for the others.
        missing: Whether judgments of a query or document that is not there stop the import
            (`refuse`), or are left out and listed in `skipped.jsonl` (`drop`).
        split: Of BEIR: which qrels, where there are several.

    Raises:
        SourceError: The foreign data cannot be read, or something lacks.
        CollectionError: A word is not allowed, `out` holds something, or it cannot be written.
    """
    _check_words(format, threshold, missing, split)
    path, out = Path(path), Path(out)
    check_standing(out)
    check_other(format, path)
    called = name or _named(path)
    found = Path(corpus) if corpus is not None else None
    given = _read(format, path, found, called, threshold, split)
    if not given.queries:
        raise SourceError(f"{path}: no query with judgments; allowed: the layout of {format}")
    judgments, chunks, lacking = present(given, called, missing)
    queries, nuggets = tuple(given.queries.values()), tuple(given.nuggets.values())
    slices = slice_queries(queries, nuggets, judgments, given.scale.threshold)
    contents = Contents(
        queries=queries,
        nuggets=nuggets,
        pool=tuple(
            Candidate(query_id=query_id, chunk_id=chunk_id, origin="imported")
            for query_id, chunk_id in judged_pairs(judgments)
        ),
        judgments=tuple(judgments),
        failures=tuple(given.failures),
        slices=tuple(slices),
        skipped=tuple(lacking),
        licences=given.notes.licences,
    )
    told = Provenance(
        name=called,
        recipe=f"import:{format}",
        model=NO_MODEL,
        scale=given.scale,
        versions={"freshstack_dspy": version("freshstack_dspy")},
        config={
            "import": {
                "format": format,
                "files": dict(_hashes(given.read, path)),
                "missing": missing,
                "split": split,
                **({"export": dict(given.notes.exported)} if given.notes.exported else {}),
            }
        },
    )
    return write_collection(out, contents, chunks, told, rejected=given.rejected)


def _check_words(format: str, threshold: int | None, missing: str, split: str | None) -> None:  # noqa: A002
    check_format(format, IMPORT_FORMATS)
    if missing not in MISSING:
        raise CollectionError(f"missing is {missing!r}; allowed: {', '.join(MISSING)}")
    if split is not None and format != "beir":
        raise CollectionError(f"split is for beir alone, and not for {format}")
    highest = SCALES[_SCALES[format]].highest if format in _SCALES else None
    if threshold is not None and (threshold < 1 or (highest is not None and threshold > highest)):
        raise CollectionError(
            f"threshold is {threshold}; allowed: 1 to {highest or 'the highest grade'}"
        )


def _read(
    format: ImportFormat,  # noqa: A002
    path: Path,
    corpus: Path | None,
    source: str,
    threshold: int | None,
    split: str | None,
) -> Gathered:
    if format == "freshstack":
        return read_freshstack(path, corpus=corpus, source=source)
    if format == "beir":
        return read_beir(path, corpus=corpus, source=source, threshold=threshold, split=split)
    if format == "crux":
        return read_crux(path, corpus=corpus, source=source, threshold=threshold)
    return read_nuggetizer(path, corpus=corpus, source=source, threshold=threshold)


def _named(path: Path) -> str:
    """Make a name of a folder's or file's: letters, digits, `.`, `_` and `-`."""
    whole = path.resolve()
    stem = whole.name if whole.is_dir() else whole.name.split(".")[0]
    found = _NOT_IN_A_NAME.sub("-", stem).strip("-._")
    if not found:
        raise CollectionError(f"{path}: gives no name for the collection; give one with --name")
    return found


def _hashes(read: Iterable[Path], root: Path) -> dict[str, str]:
    """Hash the files that were read, each by its path below the root or its name alone."""
    hashes = {}
    for path in read:
        for file in row_files(path):
            inside = root.is_dir() and file.is_relative_to(root)
            name = file.relative_to(root).as_posix() if inside else file.name
            with file.open("rb") as opened:
                hashes[name] = hashlib.file_digest(opened, "sha256").hexdigest()
    return dict(sorted(hashes.items()))
