"""Which readable files are not worth indexing: vendored, generated, minified, rows of data.

The rules follow those by which GitHub's Linguist leaves files out of a repository's statistics,
but for what would hurt retrieval: prose is never called generated, for generated reference pages
are read by people; and folders with a common word for a name (`dist`, `cache`, `external`,
`fixtures`) are taken for the project's own.
"""

import re
from collections.abc import Collection

from freshstack_dspy.records import SkipKind
from freshstack_dspy.sources.documents.skips import Skip

_VENDORED = re.compile(
    r"(?:^|/)(node_modules|bower_components|jspm_packages|_?vendor(?:s|ed)?|"
    r"_?(?:third|3rd)[-_]?party|_?externals|extern|Godeps|Carthage|Pods|"
    r"site-packages|dist-packages)/"
)
_GENERATED_FOLDER = re.compile(r"(?:^|/)(__pycache__|[^/]+\.egg-info)/")
_LOCK_FILES = frozenset(
    "package-lock.json npm-shrinkwrap.json pnpm-lock.yaml packages.lock.json gradle.lockfile "
    "go.sum go.work.sum Package.resolved bun.lockb deno.lock".split()
)
_GENERATED_NAME = re.compile(
    r".+\.lock"
    r"|.+\.(?:js|mjs|cjs|css|ts)\.map"
    r"|.+_pb2(?:_grpc)?\.pyi?"
    r"|.+\.pb(?:\.gw|\.validate)?\.(?:go|h|cc|c|cpp|swift|dart)"
    r"|.+_pb(?:_service)?\.(?:js|ts|d\.ts)"
    r"|.+\.(?:g|freezed|pb|gr)\.dart"
    r"|.+\.(?:designer|g|g\.i|feature)\.(?:cs|vb)"
    r"|.+\.zep\.(?:c|h|php)",
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

_PROSE = (".md", ".markdown", ".mdx", ".rst", ".txt", ".adoc", ".html", ".htm", ".ipynb", ".pdf")
_HEAD = 2_000
_HEAD_LINES = 20
_LONGEST_LINE = 300
_COMMENT = re.compile(
    r"\s*(?:#|//|/\*|\*|--|;|%|<!--|\"\"\"|'''|\(\*|\"|rem\b|dnl\b)", re.IGNORECASE
)
_BY = (
    r"(?:auto-?|auto |automatically |machine[- ])?generated (?:by|from|with|using|automatically)\b"
)
_WHAT = r"(?:file|code|module|source|class|header|script|document|stub)"
_GENERATED = "generated"
"""Part of all that such a comment says."""
_SAYS_GENERATED = re.compile(
    r"(?<![\w.`'\"/])@generated\b(?![`'\"])"
    r"|\bgenerated\b.*\b(?:do not|don't) (?:edit|modify|change|touch)\b"
    r"|\b(?:do not|don't) (?:edit|modify|change|touch)\b.*\bgenerated\b"
    r"|<auto-?generated"
    rf"|(?:^\W*|\b(?:this|the) ){_WHAT} (?:(?:is|was|has been) )?{_BY}"
    rf"|\b(?:this|the) {_WHAT} (?:is|was|has been) (?:auto-?|auto |automatically |machine[- ])generated\b"
    r"|\b(?:auto-?|auto |automatically |machine[- ])generated (?:by|from|with|using)\b"
    r"|\bgenerated (?:by|with) (?:the )?(?:cython|protocol buffer|grpc|swig|bison|flex|antlr|"
    r"thrift|coffeescript|peg\.js|swagger|openapi|stringer|mockgen|sqlc|ragel|re2c)\b",
    re.IGNORECASE,
)


def skip_by_path(path: str, size: int, keep: Collection[SkipKind]) -> Skip | None:
    """Say from its path and size why a file is not worth indexing, if it is not.

    Args:
        path: From the root of the corpus: the folders above it have no say.
        size: Bytes.
        keep: Kinds that are worth it nevertheless.
    """
    found = _vendored(path), _generated_name(path), _minified_name(path), _data(path, size)
    return next((skip for skip in found if skip and skip.kind not in keep), None)


def _vendored(path: str) -> Skip | None:
    folder = _VENDORED.search(path)
    return folder and Skip("vendored", f"in {folder[1]}/, a folder of other people's code")


def _generated_name(path: str) -> Skip | None:
    folder, name = _GENERATED_FOLDER.search(path), path.rpartition("/")[2]
    if folder:
        return Skip("generated", f"in {folder[1]}/, which a program writes")
    if name in _LOCK_FILES or _GENERATED_NAME.fullmatch(name) or _INSTALLERS_OWN.search(path):
        return Skip("generated", "a program writes files of this name")
    return None


def _minified_name(path: str) -> Skip | None:
    if _MINIFIED_NAME.fullmatch(path.rpartition("/")[2]):
        return Skip("minified", "minified, as its name says")
    return None


def _data(path: str, size: int) -> Skip | None:
    name = path.lower()
    if name.endswith(_DATA):
        return Skip("data", f".{name.rpartition('.')[2]} holds data, not text")
    if name.endswith(".json") and size > _LARGE_JSON:
        return Skip("data", f"a JSON file of more than {_LARGE_JSON:,} bytes ({size:,})")
    return None


def skip_by_text(path: str, text: str, keep: Collection[SkipKind]) -> Skip | None:
    """Say from its text why a file is not worth indexing, if it is not.

    Args:
        path: Of the file; prose is never called generated.
        text: All of it.
        keep: Kinds that are worth it nevertheless.
    """
    name = path.rpartition("/")[2].lower()
    if "generated" not in keep and not name.endswith(_PROSE) and "." in name:
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
