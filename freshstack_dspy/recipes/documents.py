"""The programs that work on documents alone: queries from passages, passages from documents."""

import glob
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from freshstack_dspy.config import ChunkingConfig, CorpusConfig
from freshstack_dspy.corpus.chunks import chunk_file
from freshstack_dspy.corpus.files import read_files
from freshstack_dspy.errors import ReplyError, SourceError
from freshstack_dspy.programs.documents import PassageDecontextualizer, QuerySynthesizer
from freshstack_dspy.recipes.session import Session
from freshstack_dspy.records import Chunk, Record, SkippedFile, SourceFile


class _Place(Record):
    """A piece of a document."""

    source: str
    path: str
    start_byte: int
    end_byte: int


class Passage(_Place):
    """A passage that a model wrote from a piece of a document, and that can be read alone."""

    text: str
    call_id: str


class NoReply(_Place):
    """A piece of a document that a model gave no valid answer for."""

    status: str
    message: str


class Harvest(NamedTuple):
    """What came of documents."""

    records: Sequence[Record]
    failures: Sequence[NoReply]
    skipped: Sequence[SkippedFile]


def synthesize(session: Session, path: Path, *, limit: int = 3) -> Harvest:
    """Make queries from every chunk of a file or folder; `[queries] source = "jsonl"` reads them.

    Nothing is refused here: a build of source `synthetic` also checks that each can be answered,
    and that no two ask the same.

    Raises:
        SourceError: There is no readable text.
    """
    program = QuerySynthesizer(limit)

    cut = ChunkingConfig()
    return _harvest(session, path, "synthesize", lambda one: program(chunks=[one]).queries, cut)


def decontextualize(session: Session, path: Path, *, limit: int = 3) -> Harvest:
    """Write passages that can be read alone for every piece of at most 1,024 tokens of a document.

    Raises:
        SourceError: There is no readable text.
    """
    program = PassageDecontextualizer(limit)

    def of_piece(piece: Chunk) -> Sequence[Record]:
        reply = program(document=piece.text, title=" > ".join([piece.path, *piece.headings]))
        return [
            Passage(**_place(piece), text=text, call_id=reply.call_id) for text in reply.passages
        ]

    return _harvest(session, path, "decontextualize", of_piece, ChunkingConfig(max_tokens=1024))


def _harvest(
    session: Session,
    path: Path,
    name: str,
    function: Callable[[Chunk], Sequence[Record]],
    cut: ChunkingConfig,
) -> Harvest:
    """Run a function on every chunk; what gave no valid answer is a failure."""
    files, skipped = _read(path, cut.max_file_bytes)
    chunks = [chunk for file in files for chunk in chunk_file(file, cut.max_tokens)]

    def run(chunk: Chunk) -> Sequence[Record] | NoReply:
        try:
            return function(chunk)
        except ReplyError as error:
            session.lm.ledger.enter(failed=1)
            return NoReply(**_place(chunk), status=error.status, message=str(error))

    results = session.each(name, run, chunks)
    return Harvest(
        [record for result in results if not isinstance(result, NoReply) for record in result],
        [result for result in results if isinstance(result, NoReply)],
        skipped,
    )


def _read(path: Path, max_file_bytes: int) -> tuple[list[SourceFile], list[SkippedFile]]:
    if not path.exists():
        raise SourceError(f"{path}: there is no such file or folder")
    folder, include = (path, ()) if path.is_dir() else (path.parent, (glob.escape(path.name),))
    corpus = CorpusConfig(name=_source_name(folder), path=folder, include=include, pages=True)
    entries = list(read_files(corpus, max_file_bytes))
    files = [entry for entry in entries if isinstance(entry, SourceFile)]
    skipped = [
        entry
        for entry in entries
        if isinstance(entry, SkippedFile) and (not include or entry.path == path.name)
    ]
    if not files:
        why = f": {skipped[0].path}: {skipped[0].reason}" if skipped else ""
        raise SourceError(f"{path}: no text or code to read{why}")
    return files, skipped


def _source_name(folder: Path) -> str:
    """The folder's name as the name of a corpus, which has no white space in it."""
    return "-".join(folder.resolve().name.split()) or "root"


def _place(chunk: Chunk) -> dict[str, Any]:
    return {name: getattr(chunk, name) for name in _Place.model_fields}
