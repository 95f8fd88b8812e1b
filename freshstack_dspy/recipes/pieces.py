"""What a model makes of each piece of a file or folder: questions, or passages that stand alone."""

import glob
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from freshstack_dspy.config import ChunkingConfig, CorpusConfig
from freshstack_dspy.corpus.chunks import chunk_file
from freshstack_dspy.corpus.indexed_files import read_files
from freshstack_dspy.errors import ReplyError, SourceError
from freshstack_dspy.programs.documents import PassageDecontextualizer, QuerySynthesizer
from freshstack_dspy.recipes.session import Session
from freshstack_dspy.records import Chunk, Record, SkippedFile, SourceFile

PIECE_TOKENS = 1024
"""Tokens of the longest piece of a document that passages are written from."""


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
    """What was made of documents."""

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
    cut = ChunkingConfig().max_tokens
    return _harvest(session, path, "synthesize", lambda one: program(chunks=[one]).queries, cut)


def decontextualize(session: Session, path: Path, *, limit: int = 3) -> Harvest:
    """Write passages that can be read alone for every piece of at most 1,024 tokens of a document.

    Raises:
        SourceError: There is no readable text.
    """
    program = PassageDecontextualizer(limit)

    def of_piece(piece: Chunk) -> Sequence[Record]:
        reply = program(document=piece.text, title=" > ".join([piece.path, *piece.headings]))
        place = _place(piece)
        return [Passage(**place, text=text, call_id=reply.call_id) for text in reply.passages]

    return _harvest(session, path, "decontextualize", of_piece, PIECE_TOKENS)


def _harvest(
    session: Session,
    path: Path,
    name: str,
    function: Callable[[Chunk], Sequence[Record]],
    max_tokens: int,
) -> Harvest:
    """Run a function on every piece; what gave no valid answer is a failure."""
    if not path.exists():
        raise SourceError(f"{path}: there is no such file or folder")
    folder, include = (path, ()) if path.is_dir() else (path.parent, (glob.escape(path.name),))
    source = "-".join(folder.resolve().name.split()) or "root"  # no name of a corpus has spaces
    corpus = CorpusConfig(name=source, path=folder, include=include, pages=True)
    entries = list(read_files(corpus, ChunkingConfig().max_file_bytes))
    files = [entry for entry in entries if isinstance(entry, SourceFile)]
    skipped = [
        entry
        for entry in entries
        if isinstance(entry, SkippedFile) and (not include or entry.path == path.name)
    ]
    if not files:
        why = f": {skipped[0].path}: {skipped[0].reason}" if skipped else ""
        raise SourceError(f"{path}: no text or code to read{why}")

    def run(piece: Chunk) -> Sequence[Record] | NoReply:
        try:
            return function(piece)
        except ReplyError as error:
            session.lm.ledger.enter(failed=1)
            return NoReply(**_place(piece), status=error.status, message=str(error))

    pieces = [piece for file in files for piece in chunk_file(file, max_tokens)]
    results = session.each(name, run, pieces)
    records = [one for result in results if not isinstance(result, NoReply) for one in result]
    failures = [result for result in results if isinstance(result, NoReply)]
    return Harvest(records, failures, skipped)


def _place(piece: Chunk) -> dict[str, Any]:
    return {name: getattr(piece, name) for name in _Place.model_fields}
