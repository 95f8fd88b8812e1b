"""The files of a corpus, read: those that are indexed, licences, and why the others are left out.

What was found in each is kept, so that files that did not change are not read again.
"""

import hashlib
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from pathspec import GitIgnoreSpec

from freshstack_dspy.config import CorpusConfig
from freshstack_dspy.corpus.git import repository_tree
from freshstack_dspy.corpus.skip_rules import is_licence, skip_by_path, skip_by_text
from freshstack_dspy.corpus.sources import (
    Skip,
    Tree,
    TreeEntry,
    documents_tree,
    folder_tree,
    package_tree,
)
from freshstack_dspy.corpus.texts import BOM, detect, notebook_text, page_text, pdf_text
from freshstack_dspy.errors import ConfigError, SourceError
from freshstack_dspy.files import write_file
from freshstack_dspy.records import LicenceFile, SkippedFile, SourceFile

JSON_LINES = (".jsonl", ".ndjson")
_LFS_POINTER = b"version https://git-lfs.github.com/spec/"
_WRAPPED = (".pdf", ".ipynb")
_BINARY = tuple(
    ".so .dylib .dll .pyd .exe .o .a .lib .bin .wasm .jar .whl .zip .gz .bz2 .xz .7z .tar .png .jpg "
    ".jpeg .gif .webp .mp3 .mp4 .ttf .woff .npy .npz .pkl .h5 .parquet .onnx .pt .db".split()
)
_WRAPPING = 20
"""How much larger than its text a PDF or a notebook, with its pictures, may be."""
_PAGES = (".html", ".htm", ".xhtml")
Entry = SourceFile | SkippedFile | LicenceFile


def read_files(corpus: CorpusConfig, max_file_bytes: int) -> Iterator[Entry]:
    """Read the files of a corpus in order of path, one at a time.

    Everything that is there comes out: as a file with something in it, as a licence, or as a
    skipped file with the reason. A hidden folder comes out as one skipped "file". A corpus with a
    `url` has to be fetched before (`corpus.git.fetch`). For a notebook or a PDF, `max_file_bytes`
    bounds the text.
    """
    return (read() for _, read in list_files(corpus, max_file_bytes))


def list_files(
    corpus: CorpusConfig, max_file_bytes: int
) -> Iterator[tuple[TreeEntry, Callable[[], Entry]]]:
    """List what `read_files` reads, each with the function that reads it before the next is taken."""
    include, exclude = (_globs(corpus.name, globs) for globs in (corpus.include, corpus.exclude))

    def read(tree: Tree, entry: TreeEntry) -> Entry:
        path = entry.path
        licence = tree.of_files and is_licence(path)
        skip = entry.skip
        if not skip and include and not licence and not include.match_file(path):
            skip = Skip("not_chosen", f"not included by {', '.join(map(repr, corpus.include))}")
        if not skip and (number := exclude.check_file(path).index) is not None:
            skip = Skip("not_chosen", f"excluded by {corpus.exclude[number]!r}")
        content = skip or _content(corpus, path if tree.of_files else "", entry, max_file_bytes)
        if isinstance(content, Skip):
            kind, reason = content
            return SkippedFile(source=corpus.name, path=path, kind=kind, reason=reason)
        if licence and "licence" not in corpus.keep:
            return LicenceFile(source=corpus.name, path=path, text=content.text)
        return SourceFile(corpus.name, path, content.data, tree.revision, content.encoding)

    with _open(corpus) as tree:
        entries = _without_hidden(tree.entries) if tree.of_files else tree.entries
        for entry in sorted(entries, key=lambda entry: entry.path):
            yield entry, partial(read, tree, entry)


def _globs(name: str, globs: Sequence[str]) -> GitIgnoreSpec:
    """Compile globs as in `.gitignore`, from the root of the corpus, but without negation."""
    stripped = [glob.rstrip("/") for glob in globs]
    if not all(glob.strip() for glob in stripped):
        raise ConfigError(f"corpus {name!r}: a glob is empty; `*` is every file")
    try:
        return GitIgnoreSpec.from_lines(
            f"\\{glob}" if glob.startswith(("!", "#")) else glob for glob in stripped
        )
    except (ValueError, re.error) as error:
        raise ConfigError(f"corpus {name!r}: a glob is wrong: {error}") from None


def _open(corpus: CorpusConfig) -> AbstractContextManager[Tree]:
    path = corpus.path
    if corpus.package is not None:
        return nullcontext(package_tree(corpus.package))
    if corpus.documents is not None:
        return documents_tree(corpus.documents)
    if path is None:
        raise SourceError(f"corpus {corpus.name!r}: its repository has not been fetched")
    if corpus.revision is not None:
        return repository_tree(path, corpus.revision)
    if path.suffix in JSON_LINES and path.is_file():
        return documents_tree(path)
    return nullcontext(folder_tree(path))


def _without_hidden(entries: Iterable[TreeEntry]) -> Iterator[TreeEntry]:
    """Give one entry, a hidden one, for all that is under a name that begins with a dot."""
    hidden: set[str] = set()
    for entry in entries:
        names = entry.path.split("/")
        dots = (n for n, name in enumerate(names) if name.startswith(".") and name.strip("."))
        first = next(dots, None)
        if first is None:
            yield entry
        elif (path := "/".join(names[: first + 1])) not in hidden:
            hidden.add(path)
            yield TreeEntry(path, skip=Skip("hidden", "hidden"))


# What is in a file


class _Content(NamedTuple):
    """What of a file can be indexed."""

    data: bytes
    """The bytes of the file; of a PDF, a notebook, or HTML read as a page, its text in UTF-8."""
    encoding: str
    """See `SourceFile.encoding`."""
    text: str


def _data(corpus: CorpusConfig, path: str, entry: TreeEntry, most: int) -> bytes | Skip:
    """Read the bytes of a file, where its path and size do not speak against it."""
    skip = skip_by_path(path, entry.size)
    if skip and skip.kind not in corpus.keep:
        return skip
    if entry.size > most:
        if path.lower().endswith(_BINARY):
            return Skip("binary", "binary, as its name says")
        return _too_large(entry.size, most)
    assert entry.read is not None
    return entry.read(most)


def _content(
    corpus: CorpusConfig, path: str, entry: TreeEntry, max_file_bytes: int
) -> _Content | Skip:
    """Read a file; its path, empty for a document without a name, tells what kind it is."""
    wrapped = path.lower().endswith(_WRAPPED)
    data = _data(corpus, path, entry, max_file_bytes * (_WRAPPING if wrapped else 1))
    if not data or isinstance(data, Skip):
        return data or Skip("empty", "empty")
    if data.startswith(_LFS_POINTER):
        return Skip("unreadable", "a Git LFS pointer; fetch the file itself with: git lfs pull")
    content = _decoded(path.lower(), data, max_file_bytes, pages=corpus.pages)
    if isinstance(content, Skip):
        return content
    if not content.text.strip():
        return Skip("empty", "blank")
    if wrapped and len(content.data) > max_file_bytes:
        return _too_large(len(content.data), max_file_bytes)
    return (None if is_licence(path) else skip_by_text(path, content.text, corpus.keep)) or content


def _too_large(size: int, most: int) -> Skip:
    return Skip("oversized", f"larger than max_file_bytes ({size:,} of {most:,} bytes)")


def _decoded(name: str, data: bytes, most: int, *, pages: bool) -> _Content | Skip:
    text: str | Skip
    if name.endswith(".pdf"):
        text = pdf_text(data, most)
    elif name.endswith(".ipynb"):
        text = notebook_text(data)
    else:
        encoding = detect(data)
        if isinstance(encoding, Skip):
            return encoding
        text = data.decode(encoding).removeprefix(BOM)
        if not (pages and name.endswith(_PAGES)):
            return _Content(data, encoding, text)
        text = page_text(text)
    return text if isinstance(text, Skip) else _Content(text.encode(), "utf-8", text)


# What was in files when they were read last

_RACY = 2_000_000_000
"""Nanoseconds. What changed so shortly before it was read could change once more and have the same
times, as the clocks of file systems are coarse: it is read again (git's rule for racy files)."""


class SeenFiles:
    """Values that depend on the contents of files, by the files' sizes and times of change."""

    def __init__(self, path: Path, of: str) -> None:
        """Read what `save` wrote for the same `of`: all that the values depend on besides."""
        self._path, self._of = path, of
        self._newest = time.time_ns() - _RACY
        self._before: dict[str, Any] = {}
        self._now: dict[str, Any] = {}
        with suppress(OSError, ValueError, TypeError, KeyError):  # missing or damaged: all is read
            kept = json.loads(path.read_bytes())
            self._before = kept["files"] if kept["of"] == of else {}

    def get(self, entry: TreeEntry) -> Any:
        """Give the value that was kept for a file that did not change since, or None."""
        stamp, value = self._before.get(entry.path, (None, None))
        if entry.stamp is None or stamp != list(entry.stamp):
            return None
        self._now[entry.path] = [stamp, value]
        return value

    def keep(self, entry: TreeEntry, value: Any) -> None:
        """Keep a value of JSON for what was read of a file."""
        if entry.stamp is not None and max(entry.stamp[1:3]) < self._newest:
            self._now[entry.path] = [list(entry.stamp), value]

    def save(self) -> None:
        """Keep the values; where nothing can be written, all is read again next time."""
        if self._now != self._before:
            with suppress(OSError):
                self._path.parent.mkdir(parents=True, exist_ok=True)
                write_file(self._path, json.dumps({"of": self._of, "files": self._now}))


class ReadFile(NamedTuple):
    """A file that has text to cut, by its content."""

    source: str
    path: str
    sha256: str
    encoding: str
    revision: str | None

    @property
    def content(self) -> tuple[str, str, str, str]:
        """All but the revision."""
        return self[:4]


Seen = ReadFile | SkippedFile | LicenceFile
_KINDS: dict[str, Callable[..., Seen]] = {
    kind.__name__: kind for kind in (ReadFile, SkippedFile, LicenceFile)
}


def look_at_files(corpus: CorpusConfig, max_file_bytes: int, seen: SeenFiles) -> Iterator[Seen]:
    """Give what is in each file of a corpus; those that did not change are not read."""
    for entry, read in list_files(corpus, max_file_bytes):
        if (kept := seen.get(entry)) is not None:
            kind, values = kept
            yield _KINDS[kind](**values)
            continue
        file: Any = read()
        if isinstance(file, SourceFile):
            digest = hashlib.sha256(file.data).hexdigest()
            file = ReadFile(file.source, file.path, digest, file.encoding, file.revision)
        if not isinstance(file, SkippedFile) or file.kind != "unreadable":
            values = file._asdict() if isinstance(file, ReadFile) else file.model_dump()
            seen.keep(entry, [type(file).__name__, values])
        yield file
    seen.save()
