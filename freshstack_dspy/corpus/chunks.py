"""Chunks of one file: cut by kind of text, and byte-exact."""

import functools
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple, get_args
from zlib import crc32

import numpy as np
from pydantic import ValidationError

from freshstack_dspy.config import Boundaries, ChunkingConfig, CorpusConfig
from freshstack_dspy.corpus.indexed_files import read_files
from freshstack_dspy.corpus.outlines import (
    Boundary,
    FileKind,
    file_kind,
    has_text,
    is_language,
    outline_of,
    refine,
    trails,
)
from freshstack_dspy.corpus.texts import DecodedFile, chunk_encoding
from freshstack_dspy.errors import ConfigError, SourceError
from freshstack_dspy.faults import in_one_line
from freshstack_dspy.languages import language_of
from freshstack_dspy.lm.tokens import count_tokens, encoding
from freshstack_dspy.records import Chunk, SourceFile

SMALLEST_LIMIT = 16
"""Tokens. One character can take several; a limit must hold at least a few characters."""
_SMALLEST_SHARE = 8
"""A boundary that would leave less than this part of the limit is a last resort."""
_SEEN = 64
"""Bytes behind a boundary that decide its rank among those of its level."""
_WORD = re.compile(
    rb"(?<=[\r\n])(?=[ \t]*[!-~\xc3\xce-\xd1\xe4-\xe9])"
    rb"|(?:(?<=[!-~])|(?<=[\xc3\xce-\xd1][\x80-\xbf]))(?= [A-Za-z\xc3\xce-\xd1])"
)
"""Where no token goes over, whatever is around it: before a line that surely has text in it, and before
a space between a visible character and a letter, in Latin, Greek, Cyrillic or (lines) Chinese."""


class TokenTable:
    """Where each token of a text ends, in bytes: the token count of any part of it."""

    def __init__(self, data: bytes) -> None:
        """Encode a text in UTF-8, which is not empty."""
        self._data = data
        tokens = encoding().encode_ordinary(data.decode())  # faster than encode_to_numpy
        numbers = np.fromiter(tokens, np.int64, len(tokens))
        self._ends = np.cumsum(_token_lengths()[numbers]).data

    def count(self, start: int, end: int) -> int:
        """Count the tokens that lie, with at least a part, in a range of bytes.

        The range has nearly as many when it is encoded by itself: it may begin or end inside a
        token, or the tokenizer may join its ends differently.
        """
        return bisect_left(self._ends, end) + 1 - bisect_right(self._ends, start)

    def exact(self, start: int, end: int) -> int:
        """Count the tokens of a range of whole characters when it is encoded by itself.

        What is before a place of `_WORD` is divided into words as it would be by itself, and what is
        behind it too (see the pattern in `lm/tokens.py`). So only what is before the first such place
        of the range, and what is behind the last one, are encoded again.
        """
        place = _WORD.search(self._data, start, end)
        first = start if start == 0 else place.start() if place else end
        last = end
        if end < len(self._data) and not _WORD.match(self._data, end):
            last = first
            for window in (64, 1024, end - first):
                places = _WORD.finditer(self._data, max(first, end - window), end)
                if (last := max((place.start() for place in places), default=first)) > first:
                    break
        inside = bisect_right(self._ends, last) - bisect_right(self._ends, first)
        return inside + self._encoded(start, first) + self._encoded(last, end)

    def _encoded(self, start: int, end: int) -> int:
        return count_tokens(self._data[start:end].decode()) if start < end else 0

    def reach(self, start: int, tokens: int) -> int:
        """Give the end of the `tokens`-th token from a byte on, or the end of the text."""
        last = bisect_right(self._ends, start) + tokens - 1
        return self._ends[min(last, len(self._ends) - 1)]


@functools.cache
def _token_lengths() -> "np.ndarray[Any, np.dtype[np.int64]]":
    """Give the length in bytes of each token."""
    vocabulary = encoding()
    lengths = np.zeros(vocabulary.n_vocab, dtype=np.int64)
    for token in range(vocabulary.max_token_value + 1):
        with suppress(KeyError):  # the numbering has gaps
            lengths[token] = len(vocabulary.decode_single_token_bytes(token))
    return lengths


class Piece(NamedTuple):
    """A part of a text, from one byte to another."""

    start: int
    end: int
    tokens: int


class Packer:
    """Cuts one text, in UTF-8, at some of its boundaries, into pieces that hold some text.

    A piece may be blank where it lies in white space that is longer than the limit. Where no
    boundary is within the limit, as inside an endless word, the cut falls between two characters.
    """

    def __init__(self, data: bytes, boundaries: Sequence[Boundary], table: TokenTable) -> None:
        self._data, self._boundaries, self._table = data, boundaries, table
        self._offsets = [offset for offset, _ in boundaries]

    def pieces(self, max_tokens: int) -> Iterator[Piece]:
        """Give pieces of at most `max_tokens` tokens, cut from front to back.

        Each reaches to the best boundary within the limit: the one highest in the structure, and
        of several such the farthest.
        """
        start = 0
        while start < len(self._data):
            budget = max_tokens
            while True:
                end = self._cut(start, budget)
                tokens = self._table.exact(start, end)
                if tokens <= max_tokens or budget == 1:
                    break
                budget = max(1, min(budget - 1, budget + max_tokens - tokens))
            yield Piece(start, end, tokens)
            start = end

    def stable_pieces(self, max_tokens: int) -> Iterator[Piece]:
        """Give pieces of at most `max_tokens` tokens, each cut because of the text near it.

        Boundaries are dropped one after the other wherever what they part fits into one piece: the
        deepest in the structure first, and of those at the same depth in an order of chance that
        the text behind them decides. So a change moves the boundaries around it, and no others.
        """
        table, size = self._table, len(self._data)
        behind = dict(pairwise([0, *self._offsets, size]))
        before = {offset: start for start, offset in behind.items()}
        ranks = [
            (level, crc32(self._data[offset : offset + _SEEN]), offset)
            for offset, level in self._boundaries
        ]
        for _, _, offset in sorted(ranks, reverse=True):
            start, end = before[offset], behind[offset]
            if table.count(start, end) <= max_tokens and table.exact(start, end) <= max_tokens:
                behind[start], before[end] = end, start
        start = 0
        while start < size:
            end = behind[start]
            if (tokens := table.exact(start, end)) <= max_tokens:
                yield Piece(start, end, tokens)
            else:  # an endless word
                word = self._data[start:end]
                for part in Packer(word, (), TokenTable(word)).pieces(max_tokens):
                    yield Piece(start + part.start, start + part.end, part.tokens)
            start = end

    def _cut(self, start: int, budget: int) -> int:
        """Choose where the piece ends that begins at `start`."""
        left = self._table.count(start, len(self._data))
        if left <= budget:
            return len(self._data)
        small = budget // _SMALLEST_SHARE
        first = bisect_right(self._offsets, start)
        # First so that enough is left for the last piece.
        for room in (max(1, min(budget, left - small)), budget):
            last = bisect_right(self._offsets, self._table.reach(start, room))
            if first < last:
                large = bisect_left(self._offsets, self._table.reach(start, small), first, last)
                if large == last:
                    return self._offsets[last - 1]
                return min(self._boundaries[large:last], key=_levels_first)[0]
        end = self._offsets[first] if first < len(self._offsets) else len(self._data)
        return self._between_characters(start, self._table.reach(start, budget), end)

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
        step = -1
        while offset == start or (offset < len(self._data) and self._data[offset] & 0xC0 == 0x80):
            step = 1 if offset == start else step
            offset += step
        return offset


def _levels_first(boundary: Boundary) -> tuple[int, int]:
    offset, level = boundary
    return level, -offset


def chunk_file(
    file: SourceFile,
    max_tokens: int,
    languages: Sequence[str] = (),
    boundaries: Boundaries = "packed",
) -> list[Chunk]:
    """Cut a file into chunks of at most `max_tokens` cl100k_base tokens; none where it is blank.

    They have the one of these languages that the file is in, unless it is code.

    Code is cut between definitions, prose between sections, and everything else between paragraphs;
    finer only where that leaves too much. Small neighbours share a chunk; `boundaries` says which,
    as `ChunkingConfig` does. The chunks tile the file: the first begins at byte 0, each where the
    one before ends, and the last ends with the file; white space between them belongs to the one
    before.
    `text_of(file.data, chunk) == chunk.text` always holds.
    """
    if max_tokens < SMALLEST_LIMIT:
        raise ValueError(f"max_tokens is {max_tokens!r}; allowed: {SMALLEST_LIMIT} or more")
    text, kind = DecodedFile(file.data, file.encoding), file_kind(file.path)
    pieces, above = _pieces(text.utf8, kind, max_tokens, boundaries)
    language = None
    if languages and (kind == "html" or not is_language(kind)):  # HTML's tags are passed over
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
            headings=headings,
            language=language,
        )
        for piece, headings, (start, end) in zip(pieces, above, bounds, strict=False)
    ]


def chunks(
    documents: Path | str | Any,
    *,
    name: str = "",
    max_tokens: int = ChunkingConfig().max_tokens,
    boundaries: Boundaries = "packed",
    max_file_bytes: int = ChunkingConfig().max_file_bytes,
    **options: Any,
) -> list[Chunk]:
    """Cut documents into chunks, as a build does.

    Args:
        documents: A folder or a JSON Lines file, with `revision` a git repository; or
            documents in memory, each with `id` and `text`, as a list or a data frame.
        name: With what ids begin; by default the name of the folder or file.
        max_tokens: Of the longest chunk, counted as cl100k_base.
        boundaries: `packed` or `stable`, as in `[chunking]`.
        max_file_bytes: Of the largest file.
        **options: Those of `[[corpus]]`, such as `include` and `exclude`.

    Raises:
        SourceError: They cannot be read, or none has text.
        ConfigError: An option is unknown, or its value not allowed.
    """
    if boundaries not in get_args(Boundaries):
        raise ConfigError(f"boundaries is {boundaries!r}; allowed: packed, stable")
    place: dict[str, Any] = {"documents": documents}
    if isinstance(documents, str | Path):
        place = {"path": Path(documents)}
        name = name or "-".join(Path(documents).resolve().name.split())
    try:
        corpus = CorpusConfig(name=name or "documents", **place, **options)
    except ValidationError as error:
        raise ConfigError(in_one_line(error, CorpusConfig)) from None
    files = read_files(corpus, max_file_bytes)
    languages = [corpus.language] if corpus.language else []
    cut = [
        chunk_file(file, max_tokens, languages, boundaries)
        for file in files
        if isinstance(file, SourceFile)
    ]
    if not cut:
        raise SourceError(f"{place.get('path', 'documents')}: has no document with text or code")
    return list(chain.from_iterable(cut))


def text_of(file_bytes: bytes, chunk: Chunk) -> str:
    """Read a chunk's text from the bytes of its file."""
    return file_bytes[chunk.start_byte : chunk.end_byte].decode(chunk.encoding)


def _pieces(
    data: bytes, kind: FileKind, max_tokens: int, boundaries: Boundaries
) -> tuple[list[Piece], list[tuple[str, ...]]]:
    """Cut a text, and give the headings that each piece is below; none for a blank text."""
    if not has_text(data):
        return [], []
    table = TokenTable(data)

    def fits(start: int, end: int) -> bool:
        return end - start <= max_tokens or table.count(start, end) <= max_tokens

    size = len(data)
    if fits(0, size):
        return [Piece(0, size, table.count(0, size))], [()]
    outline = list(outline_of(kind, data, fits))
    packer = Packer(data, refine(outline, data, fits), table)
    cut = packer.stable_pieces if boundaries == "stable" else packer.pieces
    pieces = list(cut(max_tokens))
    return pieces, trails(kind, data, outline, [piece.start for piece in pieces])
