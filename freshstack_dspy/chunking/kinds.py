"""Which kind of text a file holds, by its suffix. This table is all there is to it."""

from typing import Literal

Language = Literal["python", "javascript", "typescript", "tsx", "go", "rust", "java", "c", "cpp"]
FileKind = Literal[Language, "markdown", "rst", "text"]

_SUFFIXES: dict[FileKind, str] = {
    "python": "py pyi pyw",
    "javascript": "js jsx mjs cjs",
    "typescript": "ts mts cts",
    "tsx": "tsx",
    "go": "go",
    "rust": "rs",
    "java": "java",
    "c": "c",
    "cpp": "cpp cc cxx c++ h hpp hh hxx h++ cu cuh ino",
    "markdown": "md markdown mdown mkd mdx rmd qmd",
    "rst": "rst rest",
}
_KIND_OF_SUFFIX: dict[str, FileKind] = {
    suffix: kind for kind, suffixes in _SUFFIXES.items() for suffix in suffixes.split()
}


def file_kind(path: str) -> FileKind:
    """Tell a file's kind from its path; whatever is not in the table is `text`.

    `.h` is read as C++, whose grammar reads C as well.
    """
    name = path.rpartition("/")[2]
    _, dot, suffix = name.rpartition(".")
    return _KIND_OF_SUFFIX.get(suffix.lower(), "text") if dot else "text"
