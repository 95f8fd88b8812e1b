"""Documents that are lines of a JSON file, or rows in memory.

A line, in BEIR's form or with a path or id, is a file whose path is its id and whose bytes are
`document_bytes(title, text)`; so the offsets of its chunks lead back into the line.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated, Any

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from freshstack_dspy.corpus.tree import FileTree, Skip, TreeEntry, named_entry
from freshstack_dspy.errors import SourceError
from freshstack_dspy.faults import first_fault
from freshstack_dspy.files import read_lines
from freshstack_dspy.rows import given_rows


class _Document(BaseModel):
    """What is read of a line; its other fields are passed over."""

    model_config = ConfigDict(extra="ignore", strict=True)
    path: Annotated[
        str,
        Field(min_length=1, validation_alias=AliasChoices("path", "id", "_id")),
        BeforeValidator(lambda value: str(value) if type(value) is int else value),
    ]
    title: str | None = None
    text: str


def document_bytes(title: str | None, text: str) -> bytes:
    """Give the bytes that a document's chunks count in: its title, an empty line, its text."""
    title = (title or "").strip()
    return (f"{title}\n\n{text}" if title else text).encode()


class Documents(FileTree):
    """The documents of a file of JSON Lines, or of rows in memory."""

    of_files = False

    def __init__(self, given: Path | Sequence[dict[str, Any]]) -> None:
        self._given = given
        self._texts = TemporaryFile()  # noqa: SIM115 - open until `close`
        """The texts of all documents, one after the other; entries are keyed by their place in it."""

    def entries(self) -> Iterator[TreeEntry]:
        """List the documents."""
        place_of: dict[str, str] = {}
        for place, document in self._documents():
            first = place_of.setdefault(document.path, place)
            if first != place:
                raise SourceError(
                    f"{place}: the document {document.path!r} is already at {first}; each needs "
                    "an id of its own"
                )
            data = document_bytes(document.title, document.text)
            yield named_entry(document.path, len(data), key=self._texts.tell())
            self._texts.write(data)

    def read(self, entry: TreeEntry, most: int) -> bytes | Skip:
        """Give the bytes of a document."""
        self._texts.seek(entry.key)
        return self._texts.read(min(entry.size, most))

    def close(self) -> None:
        """Let go of the texts."""
        self._texts.close()

    def _documents(self) -> Iterator[tuple[str, _Document]]:
        if isinstance(self._given, Path):
            for number, line in read_lines(self._given):
                if line.strip():
                    place = f"{self._given}:{number}"
                    yield place, _parsed(_Document.model_validate_json, line, place)
            return
        for row in given_rows(self._given, "documents"):
            yield row.place, _parsed(_Document.model_validate, row.values, row.place)


def _parsed(parse: Callable[[Any], _Document], given: Any, place: str) -> _Document:
    try:
        return parse(given)
    except ValidationError as error:
        raise SourceError(
            f"{place}: {first_fault(error)}; a document is "
            '{"id": "…", "title": "…", "text": "…"}; in a file, on one line, in UTF-8'
        ) from None
