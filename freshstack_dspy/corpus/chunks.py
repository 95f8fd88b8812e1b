"""Chunks of one file: cut by kind of text, and byte-exact."""

import functools
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pydantic import ValidationError

from freshstack_dspy.config import ChunkingConfig, CorpusConfig
from freshstack_dspy.corpus.encodings import FileText, chunk_encoding
from freshstack_dspy.corpus.files import read_files
from freshstack_dspy.corpus.headings import trails
from freshstack_dspy.corpus.outlines import (
    Boundary,
    file_kind,
    has_text,
    is_language,
    outline_of,
    refine,
)
from freshstack_dspy.errors import ConfigError, SourceError
from freshstack_dspy.faults import in_one_line
from freshstack_dspy.languages import language_of
from freshstack_dspy.lm.tokens import count_tokens, encoding
from freshstack_dspy.records import Chunk, SourceFile

SMALLEST_LIMIT = 16
"""Tokens. One character can take several; a limit must hold at least a few characters."""
_SMALLEST_SHARE = 8
"""A boundary that would leave less than this part of the limit is a last resort."""
_LINE = re.compile(rb"[ \t]*[!-~]")
"""How a line begins that surely has text in it."""


class TokenTable:
    """Where each token of a text ends, in bytes: the token count of any part of it, nearly.

    A part that begins or ends inside a token, or whose ends the tokenizer would join
    differently, may have a few tokens more or less when it is encoded by itself.
    """

    def __init__(self, data: bytes) -> None:
        """Encode a text in UTF-8, which is not empty."""
        self._data = data
        tokens = encoding().encode_to_numpy(data.decode(), disallowed_special=())
        self._ends: list[int] = np.cumsum(_token_lengths()[tokens]).tolist()

    def count(self, start: int, end: int) -> int:
        """Count the tokens that lie, with at least a part, in a range of bytes."""
        return bisect_left(self._ends, end) + 1 - bisect_right(self._ends, start)

    def exact(self, start: int, end: int) -> int | None:
        """Count the tokens of a range of whole lines; None where its ends may be inside of one.

        No token goes over the last line break before a line that has text in it, and what is before
        it is divided into words as it would be by itself: see the pattern in `lm/tokens.py`.
        """
        if not self._begins_line(start) or not self._begins_line(end):
            return None
        return bisect_right(self._ends, end) - bisect_right(self._ends, start)

    def _begins_line(self, offset: int) -> bool:
        if offset in (0, len(self._data)):
            return True
        return self._data[offset - 1] in b"\r\n" and _LINE.match(self._data, offset) is not None

    def reach(self, start: int, tokens: int) -> int:
        """Give the end of the `tokens`-th token from a byte on, or the end of the text."""
        last = bisect_right(self._ends, start) + tokens - 1
        return self._ends[min(last, len(self._ends) - 1)]


@functools.cache
def _token_lengths() -> "np.ndarray[Any, np.dtype[np.int64]]":
    """Give the length in bytes of each token."""
    known = encoding()
    lengths = np.zeros(known.n_vocab, dtype=np.int64)
    for token in range(known.max_token_value + 1):
        try:
            lengths[token] = len(known.decode_single_token_bytes(token))
        except KeyError:  # the numbering has gaps
            continue
    return lengths


class Piece(NamedTuple):
    """A part of a text, from one byte to another."""

    start: int
    end: int
    tokens: int
    headings: tuple[str, ...] = ()
    """See `Chunk.headings`."""


class Packer:
    """Cuts one text from front to back.

    Each piece reaches to the best boundary within the limit: the one highest in the structure,
    and of several such the farthest. Where no boundary is within the limit, as inside an
    endless word, the cut falls between two characters.
    """

    def __init__(
        self,
        data: bytes,
        boundaries: list[Boundary],
        table: TokenTable,
    ) -> None:
        """Take a text in UTF-8 and its boundaries."""
        self._data = data
        self._boundaries = boundaries
        self._offsets = [boundary.offset for boundary in boundaries]
        self._table = table

    def pieces(self, max_tokens: int) -> Iterator[Piece]:
        """Give pieces of at most `max_tokens` tokens, each of which begins where the last ended.

        A piece holds some text, unless it lies in white space that is longer than the limit.
        """
        start = 0
        while start < len(self._data):
            budget = max_tokens
            end = self._cut(start, budget)
            tokens = self._tokens(start, end)
            while tokens > max_tokens and budget > 1:
                budget = max(1, min(budget - 1, budget + max_tokens - tokens))
                end = self._cut(start, budget)
                tokens = self._tokens(start, end)
            yield Piece(start, end, tokens)
            start = end

    def _tokens(self, start: int, end: int) -> int:
        exact = self._table.exact(start, end)
        return count_tokens(self._data[start:end].decode()) if exact is None else exact

    def _cut(self, start: int, budget: int) -> int:
        """Choose where the piece ends that begins at `start`."""
        left = self._table.count(start, len(self._data))
        if left <= budget:
            return len(self._data)
        small = budget // _SMALLEST_SHARE
        first = bisect_right(self._offsets, start)
        # First so that enough is left for the last piece.
        for room in (max(1, min(budget, left - small)), budget):
            reach = self._table.reach(start, room)
            last = bisect_right(self._offsets, reach)
            if first < last:
                return self._best(start, small, first, last)
        end = [*self._offsets[first : first + 1], len(self._data)][0]
        return self._between_characters(start, self._table.reach(start, budget), end)

    def _best(self, start: int, small: int, first: int, last: int) -> int:
        large = bisect_left(self._offsets, self._table.reach(start, small), first, last)
        if large == last:
            return self._offsets[last - 1]
        best = min(self._boundaries[large:last], key=lambda found: (found.level, -found.offset))
        return best.offset

    def _between_characters(self, start: int, offset: int, end: int) -> int:
        """Move a cut back to where one is allowed, but not so far that nothing is left.

        Text is left behind the cut as well, before the next boundary at `end`, if there can be.
        """
        cut = self._outside(start, offset)
        if not has_text(self._data[cut:end]):
            text = self._data[start:cut].decode().rstrip()
            last = start + len(text[:-1].encode())
            cut = self._outside(start, last) if last > start else cut
        return cut

    def _outside(self, start: int, offset: int) -> int:
        """Give the next place, backwards if it can be, that is not inside of a character."""
        while offset > start and self._inside(offset):
            offset -= 1
        if offset == start:
            offset += 1
            while offset < len(self._data) and self._inside(offset):
                offset += 1
        return offset

    def _inside(self, offset: int) -> bool:
        return self._data[offset] & 0xC0 == 0x80


def chunk_file(file: SourceFile, max_tokens: int, languages: Sequence[str] = ()) -> list[Chunk]:
    """Cut a file into chunks of at most `max_tokens` cl100k_base tokens; none where it is blank.

    They have the one of these languages that the file is in, unless it is code.

    Code is cut between definitions, prose between sections, and everything else
    between paragraphs; finer only where that leaves too much. Small neighbours
    share a chunk. The chunks tile the file: the first begins at byte 0, each where the one before
    ends, and the last ends with the file; white space between them belongs to the one before.
    `text_of(file.data, chunk) == chunk.text` always holds.
    """
    if max_tokens < SMALLEST_LIMIT:
        raise ValueError(f"max_tokens is {max_tokens!r}; allowed: {SMALLEST_LIMIT} or more")
    text = FileText(file.data, file.encoding)
    pieces = _pieces(text, file.path, max_tokens)
    language = None
    if languages and _is_prose(file.path):
        language = language_of(text.utf8.decode(), languages)
    inner = text.file_offsets([piece.start for piece in pieces[1:]])
    bounds = pairwise([0, *inner, len(file.data)])
    return [
        Chunk(
            chunk_id=f"{file.source}/{file.path}_{start}_{end}",
            source=file.source,
            path=file.path,
            start_byte=start,
            end_byte=end,
            text=text.utf8[piece.start : piece.end].decode(),
            tokens=piece.tokens,
            revision=file.revision,
            encoding=chunk_encoding(file.data, start, file.encoding),
            headings=piece.headings,
            language=language,
        )
        for piece, (start, end) in zip(pieces, bounds, strict=False)
    ]


def chunks(
    documents: Path | str | Any,
    *,
    name: str = "",
    max_tokens: int = ChunkingConfig().max_tokens,
    max_file_bytes: int = ChunkingConfig().max_file_bytes,
    **options: Any,
) -> list[Chunk]:
    """Cut documents into chunks, as a build does.

    Args:
        documents: A folder or a JSON Lines file, with `revision` a git repository; or
            documents in memory, each with `id` and `text`, as a list or a data frame.
        name: With what ids begin; by default the name of the folder or file.
        max_tokens: Of the longest chunk, counted as cl100k_base.
        max_file_bytes: Of the largest file.
        **options: Those of `[[corpus]]`, as `include` and `exclude`.

    Raises:
        SourceError: They cannot be read, or none has text.
        ConfigError: An option is unknown, or its value not allowed.
    """
    given: dict[str, Any] = {"documents": documents}
    if isinstance(documents, str | Path):
        given = {"path": Path(documents)}
        name = name or "-".join(Path(documents).resolve().name.split())
    try:
        corpus = CorpusConfig(name=name or "documents", **given, **options)
    except ValidationError as error:
        raise ConfigError(in_one_line(error, CorpusConfig)) from None
    files = read_files(corpus, max_file_bytes)
    languages = [corpus.language] if corpus.language else []
    cut = [
        chunk_file(file, max_tokens, languages) for file in files if isinstance(file, SourceFile)
    ]
    if not cut:
        raise SourceError(f"{given.get('path', 'documents')}: has no document with text or code")
    return list(chain.from_iterable(cut))


def text_of(file_bytes: bytes, chunk: Chunk) -> str:
    """Read a chunk's text from the bytes of its file."""
    return file_bytes[chunk.start_byte : chunk.end_byte].decode(chunk.encoding)


def _is_prose(path: str) -> bool:
    kind = file_kind(path)
    return kind == "html" or not is_language(kind)  # of HTML the tags are passed over


def _pieces(text: FileText, path: str, max_tokens: int) -> list[Piece]:
    """Cut a text; none for one that is blank."""
    if not text.utf8.decode().strip():
        return []
    table = TokenTable(text.utf8)

    def fits(start: int, end: int) -> bool:
        return end - start <= max_tokens or table.count(start, end) <= max_tokens

    size = len(text.utf8)
    if fits(0, size):
        return [Piece(0, size, table.count(0, size))]
    kind = file_kind(path)
    outline = list(outline_of(kind, text.utf8, fits))
    boundaries = refine(outline, text.utf8, fits)
    pieces = list(Packer(text.utf8, boundaries, table).pieces(max_tokens))
    found = trails(kind, text.utf8, outline, [piece.start for piece in pieces])
    return [piece._replace(headings=each) for piece, each in zip(pieces, found, strict=True)]
