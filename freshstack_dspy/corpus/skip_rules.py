"""Which files of a corpus are licences, and which are not worth indexing: by their paths and texts."""

import re
from collections.abc import Collection

from freshstack_dspy.corpus.sources import Skip
from freshstack_dspy.records import SkipKind

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
