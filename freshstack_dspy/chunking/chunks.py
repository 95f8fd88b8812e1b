"""Chunks of one file: cut by kind of text, and byte-exact."""

from collections.abc import Iterable

from freshstack_dspy.chunking.boundaries import Boundary, Fits, refine
from freshstack_dspy.chunking.code import code_outline
from freshstack_dspy.chunking.kinds import file_kind
from freshstack_dspy.chunking.packing import Packer
from freshstack_dspy.chunking.prose import markdown_outline, rst_outline
from freshstack_dspy.chunking.tokens import TokenTable
from freshstack_dspy.records import Chunk, SourceFile

SMALLEST_LIMIT = 16
"""Tokens. One character can take several; a limit must hold at least a few characters."""

_MOST_SPACE = 8
"""Tokens of white space behind a part that are looked at before it is called too large."""


def chunk_file(file: SourceFile, max_tokens: int) -> list[Chunk]:
    """Cut a file into chunks.

    Code is cut between definitions, Markdown and reStructuredText between sections, and
    everything else between paragraphs; finer only where that leaves too much. Small neighbours
    share a chunk. `file.data[chunk.start_byte:chunk.end_byte].decode() == chunk.text` always
    holds, and every byte that is not white space is in exactly one chunk (a byte order mark at
    the beginning counts as white space).

    Args:
        file: Its data is UTF-8.
        max_tokens: The most cl100k_base tokens in a chunk; never exceeded.

    Returns:
        The chunks in order; none for a blank file.

    Raises:
        ValueError: `max_tokens` is below `SMALLEST_LIMIT`.
        UnicodeDecodeError: The data is not UTF-8.
    """
    if max_tokens < SMALLEST_LIMIT:
        raise ValueError(f"max_tokens is {max_tokens!r}; allowed: {SMALLEST_LIMIT} or more")
    if not file.data.strip():
        return []
    table = TokenTable(file.data)

    def fits(start: int, end: int) -> bool:
        if end - start <= max_tokens:
            return True
        over = table.count(start, end) - max_tokens
        if 0 < over <= _MOST_SPACE:
            end = start + len(file.data[start:end].rstrip())
            over = table.count(start, end) - max_tokens
        return over <= 0

    boundaries = refine(_outline(file, fits), file.data, fits)
    return [
        Chunk(
            chunk_id=f"{file.source}/{file.path}_{piece.start}_{piece.end}",
            source=file.source,
            path=file.path,
            start_byte=piece.start,
            end_byte=piece.end,
            text=piece.text,
            tokens=piece.tokens,
            revision=file.revision,
        )
        for piece in Packer(file.data, boundaries, table).pieces(max_tokens)
    ]


def _outline(file: SourceFile, fits: Fits) -> Iterable[Boundary]:
    if fits(0, len(file.data)):
        return ()
    kind = file_kind(file.path)
    if kind == "markdown":
        return markdown_outline(file.data)
    if kind == "rst":
        return rst_outline(file.data)
    if kind == "text":
        return ()
    return code_outline(file.data, kind, fits)
