"""Files and chunks of a corpus."""

import re
from typing import Literal, NamedTuple

from pydantic import Field

from freshstack_dspy.records.record import Record, Whole

SkipKind = Literal[
    "not_chosen",  # by include and exclude
    "hidden",
    "link",  # symbolic links and submodules
    "oversized",
    "empty",
    "binary",
    "undecodable",  # text in no encoding that can be told
    "generated",
    "minified",
    "vendored",
    "data",  # tables, drawings and dumps: rows of values, no text
    "licence",  # kept apart: see LicenceFile
    "unreadable",  # refused by the system, or of a damaged format
    "missing",  # named by imported judgments, and without a text there
]

_BLANK_LINES = re.compile(r"\A(?:[^\S\n\r]*[\n\r])+")


class Chunk(Record):
    """A run of bytes of one file: `chunking.text_of(file_bytes, chunk) == chunk.text`.

    Of a file in UTF-8 that is `file_bytes[start_byte:end_byte].decode()`.
    """

    chunk_id: str
    """`{source}/{path}_{start_byte}_{end_byte}`; for reading, never for parsing."""
    source: str
    path: str
    start_byte: Whole = Field(ge=0)
    end_byte: Whole = Field(ge=0)
    text: str
    """Empty only where an imported corpus has none for it."""
    tokens: Whole = Field(ge=0)
    revision: str | None = None
    """The git commit of the file's repository, or the version of its package."""
    encoding: str = "utf-8"
    """How the file's bytes are read; see `SourceFile.encoding`."""
    title: str = ""
    """Of a document that came with one, as those of BEIR do; it stands in front of the text."""
    url: str | None = None
    """Where the text stands, as an imported corpus says it."""

    @property
    def titled(self) -> str:
        """The text, below its title where it has one."""
        return f"{self.title}\n{self.text}" if self.title else self.text

    @property
    def passage(self) -> str:
        """What a model is shown: title and text without blank lines before and white space behind."""
        return _BLANK_LINES.sub("", self.titled.rstrip(), count=1)


class SourceFile(NamedTuple):
    """One readable file of a corpus, as it is on disk or in the repository."""

    source: str
    path: str
    """Relative to the folder or repository, with forward slashes."""
    data: bytes
    revision: str | None = None
    encoding: str = "utf-8"
    """How the bytes are read: a codec of Python that decodes any run of whole characters
    (`utf-8`, `utf-16-le`, `cp1252`, …, never one that looks for a byte order mark), or `ipynb`."""


class SkippedFile(Record):
    """A file of a corpus that was not indexed, and why."""

    source: str
    path: str
    kind: SkipKind
    reason: str


class LicenceFile(Record):
    """A licence, notice or list of authors of a corpus: kept beside its passages, not among them."""

    source: str
    path: str
    text: str
