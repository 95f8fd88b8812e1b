"""The table of kinds."""

import pytest

from freshstack_dspy.chunking import file_kind


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("a.py", "python"),
        ("src/A.PYI", "python"),
        ("a.d.ts", "typescript"),
        ("a.tsx", "tsx"),
        ("a.mjs", "javascript"),
        ("a.h", "cpp"),
        ("a.c", "c"),
        ("README.md", "markdown"),
        ("a.rst", "rst"),
        ("a.txt", "text"),
        ("py", "text"),
        ("folder.py/Makefile", "text"),
        ("a.", "text"),
        ("", "text"),
    ],
)
def test_the_kind_follows_the_suffix(path: str, kind: str) -> None:
    assert file_kind(path) == kind
