"""The files of a corpus: which are read, which are kept apart, and why the others are left out."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from freshstack_dspy.config import CorpusConfig
from freshstack_dspy.errors import ConfigError, SourceError
from freshstack_dspy.records import LicenceFile, SkippedFile, SourceFile
from freshstack_dspy.sources.documents.content import largest, too_large, understand
from freshstack_dspy.sources.documents.folder import Folder
from freshstack_dspy.sources.documents.git import Repository
from freshstack_dspy.sources.documents.globs import Glob
from freshstack_dspy.sources.documents.json_documents import JsonDocuments
from freshstack_dspy.sources.documents.licences import is_licence
from freshstack_dspy.sources.documents.package import Package
from freshstack_dspy.sources.documents.skips import Skip
from freshstack_dspy.sources.documents.tree import Entry, FileTree, Wanted
from freshstack_dspy.sources.documents.wheel import Wheel
from freshstack_dspy.sources.documents.worth import skip_by_path, skip_by_text

JSON_LINES = (".jsonl", ".ndjson")


def read_files(
    corpus: CorpusConfig, max_file_bytes: int
) -> Iterator[SourceFile | SkippedFile | LicenceFile]:
    """Read the files of a corpus in order of path, one at a time.

    Everything that is there comes out: as a file with something in it, as a licence, or as a
    skipped file with the reason. A hidden folder comes out as one skipped "file".

    Args:
        corpus: One with a `url` has to be fetched before (`clones.fetch`).
        max_file_bytes: Larger files are skipped; of a notebook or a PDF, its text counts.

    Raises:
        ConfigError: A glob cannot be understood.
        SourceError: The place cannot be read (raised by the call, but for damage met later).
    """
    reading = _Reading(corpus, max_file_bytes)
    return reading.files(open_tree(corpus))


class _Reading:
    """The decisions on the files of one corpus."""

    def __init__(self, corpus: CorpusConfig, max_file_bytes: int) -> None:
        self._corpus = corpus
        self._max_file_bytes = max_file_bytes
        self._include = _globs("include", corpus.include)
        self._exclude = _globs("exclude", corpus.exclude)

    def files(self, tree: FileTree) -> Iterator[SourceFile | SkippedFile | LicenceFile]:
        with contextlib.closing(tree):
            entries = sorted(tree.entries(), key=lambda entry: entry.path)
            decided = [(entry, self._against(entry, tree.of_files)) for entry in entries]
            wanted = [
                Wanted(entry, self._most(entry) + 1) for entry, skip in decided if skip is None
            ]
            contents = tree.contents(wanted)
            for entry, skip in decided:
                content = skip or next(contents)
                if isinstance(content, Skip):
                    yield self._skipped(entry, content)
                    continue
                found = self._understood(entry, content, tree)
                yield self._skipped(entry, found) if isinstance(found, Skip) else found

    def _skipped(self, entry: Entry, skip: Skip) -> SkippedFile:
        return SkippedFile(
            source=self._corpus.name, path=entry.path, kind=skip.kind, reason=skip.reason
        )

    def _most(self, entry: Entry) -> int:
        return largest(entry.path, self._max_file_bytes)

    def _against(self, entry: Entry, of_files: bool) -> Skip | None:
        """Decide from path and size alone."""
        if entry.skip:
            return entry.skip
        licence = of_files and is_licence(entry.path)
        skip = _outside(entry.path, () if licence else self._include, self._exclude)
        if skip is None and of_files:
            skip = skip_by_path(entry.path, entry.size, self._corpus.keep)
        if skip is None and entry.size > self._most(entry):
            return too_large(entry.size, self._most(entry))
        return skip

    def _understood(
        self, entry: Entry, data: bytes, tree: FileTree
    ) -> SourceFile | LicenceFile | Skip:
        """Decide from the content."""
        corpus, path = self._corpus, entry.path
        if len(data) > self._most(entry):
            return Skip("oversized", f"larger than max_file_bytes ({self._most(entry):,} bytes)")
        kind = path if tree.of_files else ""
        found = understand(kind, data, self._max_file_bytes, pages=corpus.pages)
        if isinstance(found, Skip):
            return found
        if tree.of_files:
            if is_licence(path) and "licence" not in corpus.keep:
                text = found.text.removeprefix("\ufeff")
                return LicenceFile(source=corpus.name, path=path, text=text)
            skip = skip_by_text(path, found.text, corpus.keep)
            if skip:
                return skip
        return SourceFile(corpus.name, path, found.data, tree.revision, found.encoding)


def open_tree(corpus: CorpusConfig) -> FileTree:
    """Open the place of a corpus.

    Raises:
        SourceError: It cannot be read, or is elsewhere and was not fetched.
    """
    if corpus.package is not None:
        return Package(corpus.package)
    if corpus.path is None:
        raise SourceError(f"corpus {corpus.name!r}: its repository has not been fetched")
    if corpus.revision is not None:
        return Repository(corpus.path, corpus.revision)
    return _file_or_folder(corpus.path)


def _file_or_folder(path: Path) -> FileTree:
    if path.suffix == ".whl" and path.is_file():
        return Wheel(path)
    if path.suffix in JSON_LINES and path.is_file():
        return JsonDocuments(path)
    return Folder(path)


def _globs(key: str, texts: tuple[str, ...]) -> tuple[Glob, ...]:
    try:
        return tuple(map(Glob.of, texts))
    except ValueError as error:
        raise ConfigError(f"corpus.{key}: {error}") from None


def _outside(path: str, include: tuple[Glob, ...], exclude: tuple[Glob, ...]) -> Skip | None:
    if include and not any(glob.matches(path) for glob in include):
        names = ", ".join(repr(glob.text) for glob in include)
        return Skip("not_chosen", f"not included by {names}")
    excluding = next((glob for glob in exclude if glob.matches(path)), None)
    return Skip("not_chosen", f"excluded by {excluding.text!r}") if excluding else None
