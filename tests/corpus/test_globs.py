"""Which paths a glob means. git's own ignore rules are the oracle."""

import shutil
import subprocess
from pathlib import Path

import pytest

from freshstack_dspy.corpus.tree import Glob

PATHS = [
    "a.md", "b.py", "docs/a.md", "docs/x/a.md", "docs/x/y.txt", "src/docs/a.md", "tests/t.py",
    "src/tests/t.py", "src/test_a.py", "src/test_ab.py", "src/[x].md", "src/a*b.md", "x-1", "x-a",
    "wei rd/ü.md",
]  # fmt: skip


@pytest.mark.parametrize(
    ("glob", "meant"),
    [
        ("*.md", ["a.md", "docs/x/a.md", "wei rd/ü.md"]),
        ("tests", ["tests/t.py", "src/tests/t.py"]),
        ("/tests", ["tests/t.py"]),
        ("docs/", ["docs/a.md", "src/docs/a.md"]),
        ("docs/*", ["docs/a.md", "docs/x/y.txt"]),
        ("docs/*.md", ["docs/a.md"]),
        ("docs/**/*.md", ["docs/a.md", "docs/x/a.md"]),
        ("**/docs/*.md", ["docs/a.md", "src/docs/a.md"]),
        ("docs/**", ["docs/a.md", "docs/x/y.txt"]),
        ("**", PATHS),
        ("test_?.py", ["src/test_a.py"]),
        ("x-[0-9]", ["x-1"]),
        ("x-[!0-9]", ["x-a"]),
    ],
)
def test_a_glob_means_paths(glob: str, meant: list[str]) -> None:
    assert set(meant) <= {path for path in PATHS if Glob.of(glob).matches(path)}


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@pytest.mark.parametrize(
    "glob",
    ["*.md", "tests", "/tests", "docs/", "docs/*", "docs/*.md", "docs/**/*.md", "**/docs/*.md",
     "docs/**", "**/**/a.md", "**", "test_?.py", "x-[0-9]", "x-[!0-9]", "src/**", "*", "src/t*/*",
     "d?cs", "src/docs", "src", "[d]ocs/x", "nothing", "a.md/", "wei rd", "ü.md", "*.p[xy]"],
)  # fmt: skip
def test_globs_mean_what_they_mean_in_gitignore(tmp_path: Path, glob: str) -> None:
    """`a.md/` alone differs: we do not tell files from folders."""
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / ".gitignore").write_text(glob + "\n", encoding="utf-8")
    for path in PATHS:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    names = "\0".join(PATHS)
    done = subprocess.run(
        ["git", "-C", tmp_path, "check-ignore", "--stdin", "-z", "--no-index"],
        input=names.encode(), capture_output=True, check=False,
    )  # fmt: skip
    ignored = set(done.stdout.decode().split("\0")) - {""}
    if glob == "a.md/":
        ignored |= {"a.md", "docs/a.md", "docs/x/a.md", "src/docs/a.md"}

    assert {path for path in PATHS if Glob.of(glob).matches(path)} == ignored


@pytest.mark.parametrize(("glob", "path"), [("[x].md", "[x].md"), ("a[", "a["), ("a.b", "axb")])
def test_only_the_glob_characters_are_special(glob: str, path: str) -> None:
    assert Glob.of(glob).matches(path) == (glob == "a[")


@pytest.mark.parametrize(
    "glob", ["[--a]", "[[a]", "[a&&b]", "[a||b]", "[a~~b]", "[\\]", "[^a]", "[!]"]
)
def test_strange_sets_of_characters_are_no_trap(glob: str) -> None:
    Glob.of(glob).matches("x")


def test_a_reversed_range_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"'\[z-a\]' is not a glob"):
        Glob.of("[z-a]")
