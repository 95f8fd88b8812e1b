"""What must hold for the chunks of any file."""

from freshstack_dspy.chunking import chunk_file, count_tokens
from freshstack_dspy.records import Chunk, SourceFile


def chunks_of(path: str, text: str | bytes, max_tokens: int) -> list[Chunk]:
    """Chunk a file, and check all that is promised of any."""
    data = text if isinstance(text, bytes) else text.encode()
    file = SourceFile("lib", path, data, "c0ffee")
    chunks = chunk_file(file, max_tokens)
    between, end = b"", 0
    for chunk in chunks:
        assert chunk.start_byte >= end
        assert data[chunk.start_byte : chunk.end_byte].decode() == chunk.text
        assert chunk.chunk_id == f"lib/{path}_{chunk.start_byte}_{chunk.end_byte}"
        assert (chunk.source, chunk.path, chunk.revision) == ("lib", path, "c0ffee")
        assert 0 < chunk.tokens <= max_tokens
        assert chunk.tokens == count_tokens(chunk.text)
        assert chunk.text.strip()
        assert chunk.text[-1] not in " \t\r\n"
        between, end = between + data[end : chunk.start_byte], chunk.end_byte
    between += data[end:]
    assert not between.decode().removeprefix("\ufeff").strip()
    return chunks
