"""What an index on disk says of itself; replacing this one file is what commits a change."""

import hashlib
import json
import os
import textwrap
import unicodedata
from importlib.metadata import version
from pathlib import Path
from typing import Literal, Self

from pydantic import Field

from freshstack_dspy.errors import IndexingError
from freshstack_dspy.index.lexical import K1, B
from freshstack_dspy.index.rows import Digests
from freshstack_dspy.index.settings import IndexSettings, SearchKind
from freshstack_dspy.records import Record

SCHEMA_VERSION = 3
"""Raise it with any change to the files of an index, or to the terms, vectors or scores in it."""
MANIFEST_FILE = "meta.json"
REBUILD = "the index holds nothing of its own: build it again"
_PART_NAME = r"^(table|rows|bm25|lsa)-\d+$"


class VectorColumn(Record):
    """The vectors that one embedder made."""

    name: str
    """Of the embedder."""
    identity: str
    """Everything that its vectors depend on; for `lsa` the fingerprint it was fitted on."""
    dimensions: int = Field(ge=1)
    search: SearchKind


class Manifest(Record):
    """What an index on disk says of itself."""

    schema_version: int
    fingerprint: str
    """See `fingerprint`."""
    dimensions: int = Field(ge=1)
    """Of the `lsa` vectors, as asked for."""
    search: Literal["auto", "exact", "approximate"]
    """As asked for."""
    cut_by: str
    terms_by: str
    """What cut the terms; see `cutter_of_terms`."""
    revisions: dict[str, str | None]
    """Of each source."""
    chunks: int = Field(ge=1)
    files: int = Field(ge=0)
    tokens: int = Field(ge=0)
    columns: tuple[VectorColumn, ...] = Field(min_length=1)
    """`lsa` first, then the embedders in their given order."""
    lsa_changed: float = Field(ge=0)
    """Chunks added and removed since `lsa` was fitted, as a share of those it was fitted on."""
    table: str = Field(pattern=_PART_NAME)
    table_version: int = Field(ge=1)
    table_patches: int = Field(ge=0)
    """Updates since the table was written as a whole."""
    table_patched: int = Field(ge=0)
    """Rows deleted and appended by these updates."""
    rows: str = Field(pattern=_PART_NAME)
    bm25: str = Field(pattern=_PART_NAME)
    lsa: str = Field(pattern=_PART_NAME)

    @property
    def parts(self) -> tuple[str, ...]:
        """The folders that belong to this index."""
        return (self.table, self.rows, self.bm25, self.lsa)

    @property
    def settings(self) -> IndexSettings:
        """The settings this index was made with."""
        return IndexSettings(self.dimensions, self.search)

    @property
    def stamp(self) -> str:
        """What the parts bear that were made from this version of the table."""
        return f"{self.fingerprint} {self.table} {self.table_version}"

    @property
    def lsa_is_pure(self) -> bool:
        """Whether `lsa` was fitted on exactly these chunks."""
        return self.columns[0].identity == self.fingerprint

    def write(self, folder: Path) -> None:
        """Put the manifest into the folder of an index at once: this commits."""
        unfinished = folder / f"{MANIFEST_FILE}.new"
        with unfinished.open("w", encoding="utf-8") as file:
            file.write(self.model_dump_json(indent=1) + "\n")
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(folder / MANIFEST_FILE)

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the manifest of an index.

        Raises:
            IndexingError: There is none, or it is damaged or of another schema version.
        """
        path = folder / MANIFEST_FILE
        if not path.is_file():
            raise IndexingError(f"{folder}: no index here; build one, or give another name")
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            found = values["schema_version"]
            if found != SCHEMA_VERSION:
                raise IndexingError(
                    f"{path}: an index of schema version {found!r}, and this program reads "
                    f"version {SCHEMA_VERSION}; {REBUILD}"
                )
            manifest = cls.model_validate(values)
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise IndexingError(
                f"{path}: not the manifest of an index ({in_one_line(error)}); {REBUILD}"
            ) from None
        if manifest.terms_by != cutter_of_terms():
            raise IndexingError(
                f"{path}: its terms were cut by {manifest.terms_by}, and here is "
                f"{cutter_of_terms()}; {REBUILD}"
            )
        return manifest


def cutter_of_terms() -> str:
    """What the terms of a text depend on, beside our own code: texts and queries must agree."""
    return f"PyStemmer {version('PyStemmer')}, Unicode {unicodedata.unidata_version}"


def in_one_line(error: Exception) -> str:
    """Shorten the message of a library's error: some run over many lines."""
    return textwrap.shorten(str(error), 160, placeholder=" …")


def fingerprint(digests: Digests, dimensions: int) -> str:
    """Hash all that `bm25` and `lsa` rankings depend on.

    Args:
        digests: Of the chunks, in the order of their ids; see `rows.digest_of`.
        dimensions: Of the `lsa` vectors, as asked for.

    Returns:
        The SHA-256 of the schema version, the settings and the chunks. Revisions are left out:
        a new commit that changes no content changes no ranking.
    """
    settings = {"schema_version": SCHEMA_VERSION, "dimensions": dimensions, "k1": K1, "b": B}
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    digest.update(digests.tobytes())
    return digest.hexdigest()
