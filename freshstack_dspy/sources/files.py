"""The files of a corpus: which are read, and why the others are not."""

import contextlib
from collections.abc import Iterator

from freshstack_dspy.config import CorpusConfig
from freshstack_dspy.errors import ConfigError
from freshstack_dspy.records import SkippedFile, SourceFile
from freshstack_dspy.sources.folder import Folder
from freshstack_dspy.sources.git import Repository
from freshstack_dspy.sources.globs import Glob
from freshstack_dspy.sources.tree import Entry, FileTree

_LFS_POINTER = b"version https://git-lfs.github.com/spec/"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


def read_files(corpus: CorpusConfig, max_file_bytes: int) -> Iterator[SourceFile | SkippedFile]:
    """Read the files of a corpus in order of path, one at a time.

    Everything that is there comes out, either as a file in UTF-8 with something in it or as a
    skipped file with the reason; a hidden folder comes out as one skipped "file".

    Args:
        corpus: With a `revision`, `path` is a git repository and is read at that commit;
            without, a folder.
        max_file_bytes: Larger files are skipped.

    Raises:
        ConfigError: A glob cannot be understood.
        SourceError: The folder or repository cannot be read (raised by the call, but for
            damage met later in a repository).
    """
    include = _globs("include", corpus.include)
    exclude = _globs("exclude", corpus.exclude)
    tree: FileTree = Folder(corpus.path)
    if corpus.revision is not None:
        tree = Repository(corpus.path, corpus.revision)

    def read() -> Iterator[SourceFile | SkippedFile]:
        with contextlib.closing(tree):
            for entry in sorted(tree.entries(), key=lambda entry: entry.path):
                reason = entry.reason or _outside(entry.path, include, exclude)
                file = reason or _content(tree, entry, max_file_bytes)
                if isinstance(file, str):
                    yield SkippedFile(source=corpus.name, path=entry.path, reason=file)
                else:
                    yield SourceFile(corpus.name, entry.path, file, tree.revision)

    return read()


def _globs(key: str, texts: tuple[str, ...]) -> tuple[Glob, ...]:
    try:
        return tuple(map(Glob.of, texts))
    except ValueError as error:
        raise ConfigError(f"corpus.{key}: {error}") from None


def _outside(path: str, include: tuple[Glob, ...], exclude: tuple[Glob, ...]) -> str | None:
    if include and not any(glob.matches(path) for glob in include):
        return f"not included by {', '.join(repr(glob.text) for glob in include)}"
    excluding = next((glob for glob in exclude if glob.matches(path)), None)
    return f"excluded by {excluding.text!r}" if excluding else None


def _content(tree: FileTree, entry: Entry, max_file_bytes: int) -> bytes | str:
    """Read a file, or say why it is of no use."""
    if entry.size > max_file_bytes:
        return f"larger than max_file_bytes ({entry.size:,} of {max_file_bytes:,} bytes)"
    try:
        data = tree.read(entry, max_file_bytes + 1)
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    if len(data) > max_file_bytes:
        return f"larger than max_file_bytes ({max_file_bytes:,} bytes)"
    return _reason_against(data) or data


def _reason_against(data: bytes) -> str | None:
    if not data:
        return "empty"
    if data.startswith(_LFS_POINTER):
        return "a Git LFS pointer; fetch the file itself with: git lfs pull"
    if data.startswith(_UTF16_MARKS):
        return "not UTF-8; it is UTF-16: convert it with iconv -f UTF-16 -t UTF-8"
    nul = data.find(b"\0")
    if nul >= 0:
        return f"binary (a NUL at byte {nul})"
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        return f"not UTF-8; byte {error.start} is 0x{data[error.start]:02x}"
    return None if text.removeprefix("\ufeff").strip() else "blank"
