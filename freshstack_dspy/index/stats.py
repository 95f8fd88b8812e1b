"""What an index holds, in numbers."""

from pydantic import Field

from freshstack_dspy.index.manifest import VectorColumn
from freshstack_dspy.index.parts import Parts
from freshstack_dspy.index.workplace import bytes_in
from freshstack_dspy.records import Record


class IndexStats(Record):
    """What an index holds, in numbers."""

    chunks: int = Field(ge=1)
    files: int = Field(ge=0)
    """0 where they were not told."""
    sources: dict[str, str | None]
    """The revision of each source."""
    tokens: int = Field(ge=0)
    """Of all chunks."""
    terms: int = Field(ge=1)
    """Different ones."""
    vectors: tuple[VectorColumn, ...]
    """For each embedder, `lsa` first: identity, dimensions and kind of search."""
    lsa_changed: float = Field(ge=0)
    """Chunks added and removed since `lsa` was fitted, as a share of those it was fitted on."""
    table_version: int = Field(ge=1)
    bytes: dict[str, int]
    """On disk, for `table`, `rows`, `bm25` and `lsa`."""
    fingerprint: str


def stats_of(parts: Parts) -> IndexStats:
    """Count what an index holds.

    Raises:
        IndexingError: It is damaged.
    """
    manifest = parts.manifest
    with parts.damage_told():
        return IndexStats(
            chunks=manifest.chunks,
            files=manifest.files,
            sources=manifest.revisions,
            tokens=manifest.tokens,
            terms=len(parts.lexical.vocabulary),
            vectors=manifest.columns,
            lsa_changed=manifest.lsa_changed,
            table_version=manifest.table_version,
            bytes={
                name.partition("-")[0]: bytes_in(parts.folder / name) for name in manifest.parts
            },
            fingerprint=manifest.fingerprint,
        )
