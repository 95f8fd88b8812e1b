"""Foreign corpora → chunks: BEIR's, FreshStack's, and those of passages with a text and an id."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import ValidationError

from freshstack_dspy.collection.imports.gathered import Once
from freshstack_dspy.collection.imports.rows import Row, read_rows, shown
from freshstack_dspy.collection.jsonl import first_fault
from freshstack_dspy.errors import SourceError
from freshstack_dspy.lm.cl100k import count_tokens
from freshstack_dspy.records import Chunk

_IDS = ("_id", "id", "docid", "doc_id", "pid", "chunk_id")
_TEXTS = ("text", "contents", "segment", "body")
_COLUMNS = (*_IDS, *_TEXTS, "title", "url", "metadata")


def read_documents(
    path: Path, source: str, ours: Mapping[str, str] | None = None
) -> Iterator[Chunk]:
    """Give the documents of a corpus, one after the other.

    Bytes, revision and address are those of `metadata`, as the official FreshStack corpora have
    them; without, a document is a file of its own, from 0 to its length in UTF-8.

    Args:
        path: A file or folder that `read_rows` reads. Of a row it takes `_id`, `text`, `title`
            and `metadata`, or what other data sets call them.
        source: What the corpus is called.
        ours: Its ids → those that they get; several may get one, if they have one text.

    Raises:
        SourceError: With file and line, where a row is no document or an id stands twice.
    """
    ids, texts = Once("document"), dict[str, str]()
    for row in read_rows(path, _COLUMNS):
        own = row.id(*_IDS)
        ids.take(own, row)
        chunk = _chunk(row, source, own if ours is None else ours.get(own, own))
        if ours:
            if chunk.chunk_id in texts:
                if texts[chunk.chunk_id] == chunk.text:
                    continue
                raise SourceError(f"{row.place}: {shown(own)} has another text than before")
            texts[chunk.chunk_id] = chunk.text
        yield chunk


def _chunk(row: Row, source: str, chunk_id: str) -> Chunk:
    text, told = row.text(*_TEXTS), row.inner("metadata")
    start = told.number_of("start_byte", 0)
    return document_chunk(
        row.place,
        chunk_id=chunk_id,
        source=told.optional("source") or source,
        path=told.optional("path") or chunk_id,
        start_byte=start,
        end_byte=told.number_of("end_byte", start + len(text.encode("utf-8"))),
        text=text,
        revision=told.optional("commit_id"),
        encoding=told.optional("encoding") or "utf-8",
        title=row.text("title", default=""),
        url=told.optional("url") or row.optional("url"),
    )


def document_chunk(place: str, **fields: object) -> Chunk:
    """Make a chunk, with its tokens counted.

    Raises:
        SourceError: A field is not what it should be.
    """
    try:
        return Chunk.model_validate({**fields, "tokens": count_tokens(str(fields["text"]))})
    except ValidationError as error:
        raise SourceError(f"{place}: not a document: {first_fault(error)}") from None


def whole(place: str, source: str, chunk_id: str, text: str, title: str = "") -> Chunk:
    """Make a chunk that is a file of its own."""
    return document_chunk(
        place,
        chunk_id=chunk_id,
        source=source,
        path=chunk_id,
        start_byte=0,
        end_byte=len(text.encode("utf-8")),
        text=text,
        title=title,
    )
