"""What must hold for the chunks of any file."""

from freshstack_dspy import Chunk
from freshstack_dspy.config import Boundaries
from freshstack_dspy.corpus.chunks import chunk_file, text_of
from freshstack_dspy.lm.tokens import count_tokens
from freshstack_dspy.records import SourceFile


def chunks_of(
    path: str,
    text: str | bytes,
    max_tokens: int,
    encoding: str = "utf-8",
    boundaries: Boundaries = "packed",
) -> list[Chunk]:
    """Chunk a file, and check all that is promised of any."""
    data = text if isinstance(text, bytes) else text.encode(encoding)
    file = SourceFile("lib", path, data, "c0ffee", encoding)
    chunks = chunk_file(file, max_tokens, boundaries=boundaries)
    end = 0
    for chunk in chunks:
        assert chunk.start_byte == end
        assert chunk.end_byte > end
        end = chunk.end_byte
        assert text_of(data, chunk) == chunk.text
        assert chunk.chunk_id == f"lib/{path}_{chunk.start_byte}_{chunk.end_byte}"
        assert (chunk.source, chunk.path, chunk.revision) == ("lib", path, "c0ffee")
        assert 0 < chunk.tokens <= max_tokens
        assert chunk.tokens == count_tokens(chunk.text)
    assert "".join(chunk.text for chunk in chunks) == texts(data, encoding, bool(chunks))
    for chunk in chunks:
        assert data[chunk.start_byte : chunk.end_byte].decode(chunk.encoding) == chunk.text
    return chunks


def texts(data: bytes, encoding: str, any_chunks: bool) -> str:
    """Give the text that the chunks of a file make up: all of it, or none where it is blank."""
    text = data.decode(encoding).removeprefix("\ufeff")
    assert any_chunks == bool(text.strip())
    return text if any_chunks else ""
