"""The files of a corpus: which are indexed, which are licences, and why the others are left out."""

import contextlib
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from freshstack_dspy.config import CorpusConfig
from freshstack_dspy.corpus.encodings import BOM, detect
from freshstack_dspy.corpus.git import Repository
from freshstack_dspy.corpus.json_lines import Documents
from freshstack_dspy.corpus.notebook import notebook_text
from freshstack_dspy.corpus.packages import Package
from freshstack_dspy.corpus.pages import page_text, pdf_text
from freshstack_dspy.corpus.tree import (
    FileTree,
    Folder,
    Glob,
    Skip,
    TreeEntry,
    glob_of,
    without_hidden,
)
from freshstack_dspy.errors import ConfigError, SourceError
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


def read_files(
    corpus: CorpusConfig, max_file_bytes: int
) -> Iterator[SourceFile | SkippedFile | LicenceFile]:
    """Read the files of a corpus in order of path, one at a time.

    Everything that is there comes out: as a file with something in it, as a licence, or as a
    skipped file with the reason. A hidden folder comes out as one skipped "file". A corpus with a
    `url` has to be fetched before (`corpus.git.fetch`). Of a notebook or a PDF its text counts for
    `max_file_bytes`.
    """
    return (read() for _, read in list_files(corpus, max_file_bytes))


Entry = SourceFile | SkippedFile | LicenceFile


def list_files(
    corpus: CorpusConfig, max_file_bytes: int
) -> Iterator[tuple[TreeEntry, Callable[[], Entry]]]:
    """List what `read_files` reads, each with the function that reads it before the next is taken."""
    try:
        include, exclude = (
            [glob_of(text) for text in globs] for globs in (corpus.include, corpus.exclude)
        )
    except ValueError as error:
        raise ConfigError(f"corpus {corpus.name!r}: {error}") from None
    return _listed(corpus, max_file_bytes, _open(corpus), include, exclude)


def _listed(
    corpus: CorpusConfig,
    max_file_bytes: int,
    tree: FileTree,
    include: Sequence[Glob],
    exclude: Sequence[Glob],
) -> Iterator[tuple[TreeEntry, Callable[[], Entry]]]:
    def read(entry: TreeEntry) -> Entry:
        path = entry.path
        licence = tree.of_files and is_licence(path)
        skip = entry.skip or _outside(path, () if licence else include, exclude)
        found = skip or _content(corpus, tree, entry, max_file_bytes)
        if isinstance(found, Skip):
            return SkippedFile(source=corpus.name, path=path, kind=found.kind, reason=found.reason)
        if licence and "licence" not in corpus.keep:
            return LicenceFile(source=corpus.name, path=path, text=found.text)
        return SourceFile(corpus.name, path, found.data, tree.revision, found.encoding)

    with contextlib.closing(tree):
        entries = without_hidden(tree.entries()) if tree.of_files else tree.entries()
        for entry in sorted(entries, key=lambda entry: entry.path):
            yield entry, partial(read, entry)


def _open(corpus: CorpusConfig) -> FileTree:
    if corpus.package is not None:
        return Package(corpus.package)
    if corpus.documents is not None:
        return Documents(corpus.documents)
    path = corpus.path
    if path is None:
        raise SourceError(f"corpus {corpus.name!r}: its repository has not been fetched")
    if corpus.revision is not None:
        return Repository(path, corpus.revision)
    if path.suffix in JSON_LINES and path.is_file():
        return Documents(path)
    return Folder(path)


def _outside(path: str, include: Sequence[Glob], exclude: Sequence[Glob]) -> Skip | None:
    if include and not any(glob.matches(path) for glob in include):
        names = ", ".join(repr(glob.text) for glob in include)
        return Skip("not_chosen", f"not included by {names}")
    excluding = next((glob for glob in exclude if glob.matches(path)), None)
    return Skip("not_chosen", f"excluded by {excluding.text!r}") if excluding else None


class Readable(NamedTuple):
    """The content of a file that can be indexed."""

    data: bytes
    """The bytes of the file; of a PDF, a notebook, or HTML read as a page, its text in UTF-8."""
    encoding: str
    """See `SourceFile.encoding`."""
    text: str


def _too_large(size: int, most: int) -> Skip:
    return Skip("oversized", f"larger than max_file_bytes ({size:,} of {most:,} bytes)")


def _content(
    corpus: CorpusConfig, tree: FileTree, entry: TreeEntry, max_file_bytes: int
) -> Readable | Skip:
    path = entry.path if tree.of_files else ""
    skip = skip_by_path(path, entry.size)
    if skip and skip.kind not in corpus.keep:
        return skip
    # For notebooks and PDFs the text counts, which is looked at when it was read.
    most = max_file_bytes * (_WRAPPING if path.lower().endswith(_WRAPPED) else 1)
    if entry.size > most and path.lower().endswith(_BINARY):
        return Skip("binary", "binary, as its name says")
    data = _too_large(entry.size, most) if entry.size > most else tree.read(entry, most)
    if isinstance(data, Skip):
        return data
    found = _understood(path, data, max_file_bytes, pages=corpus.pages)
    if isinstance(found, Skip) or is_licence(path):
        return found
    return skip_by_text(path, found.text, corpus.keep) or found


def _understood(path: str, data: bytes, max_file_bytes: int, *, pages: bool) -> Readable | Skip:
    """Read the text of a file, whose suffix tells PDFs, notebooks and pages."""
    if not data:
        return Skip("empty", "empty")
    if data.startswith(_LFS_POINTER):
        return Skip("unreadable", "a Git LFS pointer; fetch the file itself with: git lfs pull")
    found = _text(path.lower(), data, max_file_bytes, pages=pages)
    if isinstance(found, Skip):
        return found
    if not found.text.strip():
        return Skip("empty", "blank")
    size = len(found.text.encode()) if path.lower().endswith(_WRAPPED) else 0
    return _too_large(size, max_file_bytes) if size > max_file_bytes else found


def _text(path: str, data: bytes, max_file_bytes: int, *, pages: bool) -> Readable | Skip:
    text: str | Skip
    if path.endswith(".pdf"):
        text = pdf_text(data, max_file_bytes)
    elif path.endswith(".ipynb"):
        text = notebook_text(data)
    else:
        encoding = detect(data)
        if isinstance(encoding, Skip):
            return encoding
        text = data.decode(encoding).removeprefix(BOM)
        if not (pages and path.endswith(_PAGES)):
            return Readable(data, encoding, text)
        text = page_text(text)
    return text if isinstance(text, Skip) else Readable(text.encode(), "utf-8", text)


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
