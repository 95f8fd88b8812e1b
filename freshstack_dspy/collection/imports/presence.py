"""What judgments name and the imported data lack: refused, or left out and listed by name."""

from collections import Counter
from collections.abc import Sequence
from typing import Literal, NamedTuple

from freshstack_dspy.collection.imports.documents import whole
from freshstack_dspy.collection.imports.gathered import Gathered
from freshstack_dspy.collection.imports.rows import shown
from freshstack_dspy.errors import SourceError
from freshstack_dspy.records import Chunk, Judgment, SkippedFile

Missing = Literal["refuse", "drop"]
NO_TEXT = "the imported data have no text of it"
MISSING: tuple[Missing, ...] = ("refuse", "drop")


class Present(NamedTuple):
    """Judgments that lead somewhere, the corpus they lead to, and what lacks there."""

    judgments: list[Judgment]
    chunks: list[Chunk]
    lacking: list[SkippedFile]


def present(given: Gathered, source: str, missing: Missing) -> Present:
    """See that every judgment has its query and its chunk.

    A collection without a corpus gets chunks without texts, each of which is listed.

    Args:
        given: As it was read; its documents are read here.
        source: What the corpus is called.
        missing: Whether a query or document that lacks is refused, or its judgments left out.

    Raises:
        SourceError: Something lacks, and is not to be left out; or the corpus cannot be read.
    """
    named = Counter(judgment.chunk_id for judgment in given.judgments)
    lacking = _lacking("queries", "queries", given.dangling, missing)
    if given.documents is None:
        ids = sorted(named)
        chunks = [whole(source, source, chunk_id, "") for chunk_id in ids]
        return Present(given.judgments, chunks, lacking + [_without_text(each) for each in chunks])
    chunks = list(given.documents)
    known = {chunk.chunk_id for chunk in chunks}
    absent = {chunk_id: count for chunk_id, count in named.items() if chunk_id not in known}
    lacking += _lacking("corpus", "documents", absent, missing)
    judgments = given.judgments
    if absent:
        judgments = [judgment for judgment in judgments if judgment.chunk_id not in absent]
    empty = [_without_text(chunk) for chunk in chunks if not chunk.titled.strip()]
    return Present(judgments, chunks, lacking + empty)


def _lacking(source: str, what: str, absent: dict[str, int], missing: Missing) -> list[SkippedFile]:
    if absent and missing == "refuse":
        first = min(absent)
        raise SourceError(
            f"{len(absent)} {what} that judgments name are not there, as {shown(first)} "
            f"({sum(absent.values())} judgments in all); get the whole data, or leave these "
            "judgments out and have them listed in skipped.jsonl with: --missing drop"
        )
    return [
        SkippedFile(
            source=source,
            path=id_,
            kind="missing",
            reason=f"named by {absent[id_]} judgments, which were left out",
        )
        for id_ in sorted(absent)
    ]


def _without_text(chunk: Chunk) -> SkippedFile:
    return SkippedFile(source=chunk.source, path=chunk.chunk_id, kind="missing", reason=NO_TEXT)


def judged_pairs(judgments: Sequence[Judgment]) -> list[tuple[str, str]]:
    """List the pairs of query and chunk that were judged, ascending."""
    return sorted({(judgment.query_id, judgment.chunk_id) for judgment in judgments})
