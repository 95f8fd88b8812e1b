"""Files → chunks: byte-exact, within a token limit, cut where the text has its joints."""

from freshstack_dspy.chunking.chunks import chunk_file, text_of
from freshstack_dspy.chunking.kinds import FileKind, file_kind
from freshstack_dspy.chunking.parallel import chunk_files
from freshstack_dspy.lm.cl100k import count_tokens

__all__ = ["FileKind", "chunk_file", "chunk_files", "count_tokens", "file_kind", "text_of"]
