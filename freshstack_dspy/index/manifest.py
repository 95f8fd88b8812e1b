"""What an index on disk says of itself, and the stamps that tie its parts together."""

import hashlib
import json
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from pydantic import ValidationError

from freshstack_dspy.errors import IndexingError
from freshstack_dspy.index.lexical import K1, B
from freshstack_dspy.index.table import content_sha256
from freshstack_dspy.records import Chunk, Record

SCHEMA_VERSION = 1
"""Raise it with any change to the files of an index, or to the terms, vectors or scores in it."""
MANIFEST_FILE = "meta.json"
_STAMP_FILE = "stamp.json"


class Stamp(Record):
    """Says which version of which table a part of an index was built from."""

    fingerprint: str
    table_version: int

    def write(self, folder: Path) -> None:
        """Put the stamp beside the files of a part."""
        _write(folder / _STAMP_FILE, self)

    def check(self, folder: Path) -> None:
        """Compare with the stamp in a folder.

        Raises:
            IndexingError: It is another one, missing or damaged.
        """
        path = folder / _STAMP_FILE
        try:
            found = Stamp.model_validate_json(path.read_bytes())
        except (OSError, ValidationError) as error:
            raise IndexingError(
                f"{path}: no readable stamp, so the index may not match its table ({in_one_line(error)}); {REBUILD}"
            ) from None
        if found != self:
            raise IndexingError(
                f"{path}: built from version {found.table_version} of table {found.fingerprint[:16]!r}, "
                f"but the table here is version {self.table_version} of {self.fingerprint[:16]!r}; "
                f"{REBUILD}"
            )


class Manifest(Record):
    """What an index on disk says of itself."""

    schema_version: int
    fingerprint: str
    table_version: int
    chunks: int
    dimensions: int

    @property
    def stamp(self) -> Stamp:
        """The stamp that every part of this index must bear."""
        return Stamp(fingerprint=self.fingerprint, table_version=self.table_version)

    def write(self, folder: Path) -> None:
        """Write the manifest into the folder of an index."""
        _write(folder / MANIFEST_FILE, self)

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the manifest of an index.

        Raises:
            IndexingError: There is none, it is damaged, or of another schema version.
        """
        path = folder / MANIFEST_FILE
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            version = values["schema_version"]
            if version != SCHEMA_VERSION:
                raise IndexingError(
                    f"{path}: an index of schema version {version!r}, and this program reads "
                    f"version {SCHEMA_VERSION}; {REBUILD}"
                )
            return cls.model_validate(values)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise IndexingError(
                f"{path}: not the manifest of an index ({in_one_line(error)}); {REBUILD}"
            ) from None


def in_one_line(error: Exception) -> str:
    """Shorten the message of a library's error: some run over many lines."""
    return textwrap.shorten(str(error), 160, placeholder=" …")


REBUILD = "the index holds nothing of its own: delete the folder and build it again"


def fingerprint(chunks: Sequence[Chunk], dimensions: int) -> str:
    """Hash everything an index is made from.

    Args:
        chunks: In the order of their ids.
        dimensions: As asked for.

    Returns:
        The SHA-256 of the schema version, the settings and, per chunk, its fields with the SHA-256
        of its text. Fields beside the text count, for the index gives whole chunks back.
    """
    settings = {"schema_version": SCHEMA_VERSION, "dimensions": dimensions, "k1": K1, "b": B}
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for chunk in chunks:
        fields = [
            chunk.chunk_id,
            chunk.source,
            chunk.path,
            chunk.start_byte,
            chunk.end_byte,
            chunk.tokens,
            chunk.revision,
            content_sha256(chunk),
        ]
        digest.update(f"\n{json.dumps(fields)}".encode())
    return digest.hexdigest()


def _write(path: Path, record: Record) -> None:
    path.write_text(record.model_dump_json(indent=1) + "\n", encoding="utf-8")
