"""Documents in a JSON Lines file, one to a line: in BEIR's form, or with a path or id of their own.

A document is a file whose path is its id and whose bytes are `document_bytes(title, text)`; so
the offsets of its chunks lead back into the line.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from freshstack_dspy.errors import SourceError
from freshstack_dspy.faults import first_fault
from freshstack_dspy.sources.documents.skips import Skip
from freshstack_dspy.sources.documents.tree import Entry, Wanted, named_entry

_BOM = b"\xef\xbb\xbf"
_LONGEST_LINE = 64 << 20


class _Document(BaseModel):
    """What is read of a line; its other fields are passed over."""

    model_config = ConfigDict(extra="ignore", strict=True)
    path: Annotated[str, Field(min_length=1, validation_alias=AliasChoices("path", "id", "_id"))]
    title: str | None = None
    text: str


def document_bytes(title: str | None, text: str) -> bytes:
    """Give the bytes that a document's chunks count in: its title, an empty line, its text."""
    title = (title or "").strip()
    return (f"{title}\n\n{text}" if title else text).encode()


class JsonDocuments:
    """The documents of a file."""

    revision: str | None = None
    of_files = False

    def __init__(self, path: Path) -> None:
        """Open the file.

        Raises:
            SourceError: It cannot be read.
        """
        self._path = path
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise SourceError(f"{path}: cannot be read: {error.strerror}") from None

    def entries(self) -> Iterator[Entry]:
        """List the documents; their texts are read again when they are asked for."""
        line_of: dict[str, int] = {}
        for number, start, line in self._lines():
            place = f"{self._path}:{number}"
            document = _parsed(line, place)
            first = line_of.setdefault(document.path, number)
            if first != number:
                raise SourceError(
                    f"{place}: the document {document.path!r} is already on line {first}; "
                    "each needs an id of its own"
                )
            size = len(document_bytes(document.title, document.text))
            yield named_entry(document.path.encode(), size, key=f"{start} {len(line)}")

    def contents(self, wanted: Sequence[Wanted]) -> Iterator[bytes | Skip]:
        """Read the documents."""
        for entry, most in wanted:
            start, length = map(int, entry.key.split())
            self._file.seek(start)
            document = _parsed(self._file.read(length), f"{self._path}: {entry.path}")
            yield document_bytes(document.title, document.text)[:most]

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _lines(self) -> Iterator[tuple[int, int, bytes]]:
        """Give number, place in bytes and text of every line that is not blank."""
        number = start = 0
        while line := self._file.readline(_LONGEST_LINE):
            number += 1
            if len(line) == _LONGEST_LINE:
                raise SourceError(
                    f"{self._path}:{number}: longer than {_LONGEST_LINE >> 20} MiB; "
                    "this is no file of JSON Lines"
                )
            mark = len(_BOM) if number == 1 and line.startswith(_BOM) else 0
            if line[mark:].strip():
                yield number, start + mark, line[mark:]
            start += len(line)


def _parsed(line: bytes, place: str) -> _Document:
    try:
        return _Document.model_validate_json(line)
    except ValidationError as error:
        raise SourceError(
            f"{place}: {first_fault(error)}; a document is "
            '{"id": "…", "title": "…", "text": "…"} on one line, in UTF-8'
        ) from None
