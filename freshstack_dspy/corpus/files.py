"""The files of a corpus: which are indexed, which are licences, and why the others are left out.

What was found in each is kept, so that files that did not change are not read again.
"""

import hashlib
import json
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from pathspec import GitIgnoreSpec

from freshstack_dspy.config import CorpusConfig
from freshstack_dspy.corpus.git import repository_tree
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
from freshstack_dspy.records import LicenceFile, SkipKind, SkippedFile, SourceFile

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
    try:
        return GitIgnoreSpec.from_lines(
            f"\\{glob}" if glob.startswith(("!", "#")) else glob
            for glob in (glob.rstrip("/") for glob in globs)
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


# Licences


_KNOWN = r"apache|mit|[al]?gpl|bsd|mpl|epl|cc0?|isc|zlib|boost|psf|python|ofl|third[-_]?party|\d+"
_PROSE = r"(?:\.(?:txt|md|markdown|rst|adoc|html?|rtf))?"
_ANY_CASE = (
    r"(?:un)?licen[cs]es?|copying|copyrights?|authors|contributors|"
    r"third[-_]?party[-_]?(?:notices?|licen[cs]es?)"
)
_NAME = re.compile(
    rf"(?:(?i:{_ANY_CASE})|NOTICES?|PATENTS|CREDITS|MAINTAINERS)"
    rf"(?:[-_. ](?:(?i:{_KNOWN})|[A-Z][A-Z0-9]*))*(?i:{_PROSE})"
    rf"|(?i:(?:{_KNOWN})[-_]licen[cs]e{_PROSE})"
)
_FOLDER = re.compile(r"(?:^|/)(?:LICENSES|[^/]+\.dist-info/licen[cs]es)/")
_CODE = re.compile(r"\.(?:py|pyi|js|ts|tsx|jsx|go|rs|java|c|h|cc|cpp|rb|php|cs|kt|swift)$", re.I)


def is_licence(path: str) -> bool:
    """Tell from its path whether a file is a licence, a notice or a list of authors.

    `LICENSE`, `LICENCE.txt`, `LICENSE-APACHE`, `COPYING.LESSER`, `NOTICE`, `AUTHORS.rst`,
    `third_party_notices.txt`, and all that lies in `LICENSES/` or in the `licenses` of a
    `.dist-info`; not `license.py`, `license-keys.md` or `notice.ts`.
    """
    if _CODE.search(path):
        return False
    name = path.rpartition("/")[2]
    return _NAME.fullmatch(name) is not None or _FOLDER.search(path) is not None


# What is not worth indexing


_VENDORED = re.compile(
    r"(?:^|/)(node_modules|bower_components|_?vendor(?:s|ed)?|_?(?:third|3rd)[-_]?party|"
    r"_?externals|extern|Godeps|Pods|site-packages|dist-packages)/"
)
_GENERATED_FOLDER = re.compile(r"(?:^|/)(__pycache__|[^/]+\.egg-info)/")
_LOCK_FILES = frozenset(
    "package-lock.json npm-shrinkwrap.json pnpm-lock.yaml packages.lock.json gradle.lockfile "
    "go.sum go.work.sum Package.resolved bun.lockb conda-lock.yml".split()
)
_GENERATED_NAME = re.compile(
    r".+(?:\.lock|\.(?:js|mjs|cjs|css|ts)\.map|_pb2(?:_grpc)?\.pyi?|\.(?:designer|g)\.cs"
    r"|\.pb(?:\.gw)?\.(?:go|h|cc|c|cpp|swift|dart)|_pb\.(?:js|ts|d\.ts)|\.(?:g|freezed)\.dart)",
    re.IGNORECASE,
)
_INSTALLERS_OWN = re.compile(
    r"(?:^|/)[^/]+\.dist-info/(?:RECORD|WHEEL|INSTALLER|REQUESTED|direct_url\.json|"
    r"top_level\.txt|zip-safe|entry_points\.txt|sboms/[^/]+)$"
)
_MINIFIED_NAME = re.compile(r".+[.-]min\.(?:js|mjs|cjs|css)", re.IGNORECASE)
_MINIFIABLE = (".js", ".mjs", ".cjs", ".css")
_LONG_LINE = 110
"""Characters: a script whose lines are longer on average was written by a program (Linguist)."""
_DATA = (".csv", ".tsv", ".psv", ".svg", ".geojson", ".topojson", ".jsonl", ".ndjson")
_LARGE_JSON = 50_000
"""Bytes. Settings and schemas that people read are smaller; larger files are dumps."""

_PROSE_SUFFIXES = tuple(".md .markdown .mdx .rst .txt .adoc .html .htm .ipynb .pdf".split())
_HEAD = 2_000
_HEAD_LINES = 20
_LONGEST_LINE = 300
_COMMENT = re.compile(
    r"\s*(?:#|//|/\*|\*|--|;|%|<!--|\"\"\"|'''|\(\*|\"|rem\b|dnl\b)", re.IGNORECASE
)
_AUTO = r"(?:auto-?|auto |automatically |machine[- ])"
_BY = rf"{_AUTO}?generated (?:by|from|with|using|automatically)\b"
_EDIT = r"\b(?:do not|don't) (?:edit|modify|change|touch)\b"
_WHAT = r"(?:file|code|module|source|class|header|script|document|stub)"
_GENERATED = "generated"
"""Part of all that such a comment says."""
_SAYS_GENERATED = re.compile(
    r"(?<![\w.`'\"/])@generated\b(?![`'\"])"
    rf"|\bgenerated\b.*{_EDIT}|{_EDIT}.*\bgenerated\b|<auto-?generated"
    rf"|(?:^\W*|\b(?:this|the) ){_WHAT} (?:(?:is|was|has been) )?{_BY}"
    rf"|\b(?:this|the) {_WHAT} (?:is|was|has been) {_AUTO}generated\b"
    rf"|\b{_AUTO}generated (?:by|from|with|using)\b"
    r"|\bgenerated (?:by|with) (?:the )?(?:cython|protocol buffer|grpc|swig|bison|flex|antlr|thrift)\b",
    re.IGNORECASE,
)


def skip_by_path(path: str, size: int) -> Skip | None:
    """Tell from its path in the corpus and its size why a file is not worth indexing, if it is not."""
    name = path.rpartition("/")[2]
    suffix = f".{name.lower().rpartition('.')[2]}"
    if folder := _VENDORED.search(path):
        return Skip("vendored", f"in {folder[1]}/, a folder of other people's code")
    in_generated = _GENERATED_FOLDER.search(path) or _INSTALLERS_OWN.search(path)
    if in_generated or name in _LOCK_FILES or _GENERATED_NAME.fullmatch(name):
        return Skip("generated", "a program writes files of this name or folder")
    if _MINIFIED_NAME.fullmatch(name):
        return Skip("minified", "minified, as its name says")
    if suffix in _DATA:
        return Skip("data", f"{suffix} holds data, not text")
    if suffix == ".json" and size > _LARGE_JSON:
        return Skip("data", f"a JSON file of more than {_LARGE_JSON:,} bytes ({size:,})")
    return None


def skip_by_text(path: str, text: str, keep: Collection[SkipKind]) -> Skip | None:
    """Tell from its text why a file is not worth indexing, if it is not; prose is never generated."""
    name = path.rpartition("/")[2].lower()
    if "generated" not in keep and not name.endswith(_PROSE_SUFFIXES) and "." in name:
        line = _generated_line(text)
        if line:
            return Skip("generated", f"says so itself: {line[:100]!r}")
    if "minified" not in keep and name.endswith(_MINIFIABLE):
        length = len(text) // (text.count("\n") + 1)
        if length > _LONG_LINE:
            return Skip("minified", f"its lines have {length:,} characters on average")
    return None


def _generated_line(text: str) -> str | None:
    """Find the comment at the head of a file that says that a program wrote it."""
    head = text[:_HEAD]
    if _GENERATED not in head.lower():
        return None
    for line in head.splitlines()[:_HEAD_LINES]:
        short = line[:_LONGEST_LINE]
        if _COMMENT.match(short) and _SAYS_GENERATED.search(short):
            return short.strip()
    return None
