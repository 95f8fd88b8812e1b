"""How an index is made: the settings that its results depend on, and the files it is made from."""

from typing import Literal, NamedTuple

from freshstack_dspy.errors import IndexingError

SearchKind = Literal["exact", "approximate"]
LSA = "lsa"
"""The name of the embedder that every index has."""
SEARCHES = ("auto", "exact", "approximate")


class IndexSettings(NamedTuple):
    """What a user chooses of an index."""

    dimensions: int = 256
    """Of the `lsa` vectors, at most; a small corpus has fewer."""
    search: Literal["auto", "exact", "approximate"] = "auto"
    """How vectors are searched; `auto` is exact up to a size."""

    def checked(self) -> "IndexSettings":
        """Give these settings back.

        Raises:
            IndexingError: One of them is out of range.
        """
        if self.dimensions < 1:
            raise IndexingError(f"dimensions must be at least 1, not {self.dimensions!r}")
        if self.search not in SEARCHES:
            raise IndexingError(f"search must be one of {', '.join(SEARCHES)}, not {self.search!r}")
        return self


class IndexedFile(NamedTuple):
    """A file of the corpus, as it was when its chunks were indexed."""

    source: str
    path: str
    sha256: str
    """Of the file's bytes, in hexadecimal."""
    encoding: str = "utf-8"
    """How they are read; see `SourceFile.encoding`."""
