"""The table of kinds."""

from typing import get_args

import pytest

from freshstack_dspy.corpus.boundaries import FileKind, file_kind, language_named


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
        ("a.cs", "c_sharp"),
        ("a.gd", "gdscript"),
        ("a.kt", "kotlin"),
        ("a.php", "php"),
        ("views/a.blade.php", "html"),
        ("A.vue", "html"),
        ("a.svelte", "html"),
        ("a.jsx", "javascript"),
        ("a.swift", "swift"),
        ("a.tex", "latex"),
        ("a.adoc", "asciidoc"),
        ("a.org", "org"),
        ("Rakefile", "ruby"),
        (".bashrc", "bash"),
        ("Dockerfile", "text"),
        ("a.ipynb", "text"),
        ("a.txt", "text"),
        ("py", "text"),
        ("folder.py/Makefile", "text"),
        ("a.", "text"),
        ("", "text"),
    ],
)
def test_the_kind_follows_the_suffix(path: str, kind: str) -> None:
    assert file_kind(path) == kind


@pytest.mark.parametrize(
    ("name", "kind"),
    [("python", "python"), ("C++", "cpp"), ("C#", "c_sharp"), ("R", "text"), ("markdown", "text")],
)
def test_kernels_name_their_language(name: str, kind: str) -> None:
    assert language_named(name) == kind


def test_no_suffix_stands_for_two_kinds() -> None:
    from freshstack_dspy.corpus import boundaries as kinds

    every = [suffix for some in kinds._SUFFIXES.values() for suffix in some.split()]

    assert len(every) == len(set(every))
    assert set(kinds._SUFFIXES) | {"text"} >= {
        kind for language in get_args(FileKind) for kind in (get_args(language) or [language])
    }
