"""Files of a folder: what is read, what is skipped, that nothing outside is reached; and globs."""

import shutil
import subprocess
from pathlib import Path

import pytest

from freshstack_dspy.config import CorpusConfig
from freshstack_dspy.corpus.files import read_files
from freshstack_dspy.corpus.tree import Glob
from freshstack_dspy.errors import SourceError
from freshstack_dspy.records import LicenceFile, SourceFile

from .read_corpus import files, read, reasons, write

LIMIT = 1_000_000


def test_files_come_as_they_are_in_order_of_path(tmp_path: Path) -> None:
    r"""`a.b` is before `a/b`, as `.` is before `/`; bytes are not touched, not even `\r`."""
    write(tmp_path, a__b_md="é\r\n".encode(), a_b=b"2", b=b"\xef\xbb\xbf3", A=b"4")

    found = read(tmp_path)

    assert found == [
        SourceFile("docs", "A", b"4"),
        SourceFile("docs", "a.b", b"2"),
        SourceFile("docs", "a/b.md", "é\r\n".encode()),
        SourceFile("docs", "b", b"\xef\xbb\xbf3"),
    ]


def test_every_file_that_is_not_read_is_listed_with_its_reason(tmp_path: Path) -> None:
    write(
        tmp_path,
        empty=b"",
        blank=b" \n\xe3\x80\x80",
        bom=b"\xef\xbb\xbf",
        image=b"\x89PNG\r\n\x1a\n\x00",
        latin=b"\xe9\xf1\xfa",
        utf16=b"\xff\xfea",
        pointer=b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
        large=b"x" * 21,
        fits=b"x" * 20,
        _git__config=b"x",
        _env=b"SECRET=1",
        sub___hidden__a=b"x",
        LICENSE=b"Do as you like.",
    )

    found = read(tmp_path, limit=20)

    assert list(files(found)) == ["fits"]
    assert [file.text for file in found if isinstance(file, LicenceFile)] == ["Do as you like."]
    assert reasons(found) == {
        ".env": "hidden",
        ".git": "hidden",
        "blank": "blank",
        "bom": "blank",
        "empty": "empty",
        "image": "binary (a NUL at byte 8)",
        "large": "larger than max_file_bytes (21 of 20 bytes)",
        "latin": "not UTF-8; byte 0 is 0xe9",
        "pointer": "larger than max_file_bytes (63 of 20 bytes)",
        "sub/.hidden": "hidden",
        "utf16": "has the byte order mark of utf-16-le only",
    }
    assert reasons(read(tmp_path))["pointer"].startswith("a Git LFS pointer")


def test_globs_choose_and_what_they_leave_out_is_listed(tmp_path: Path) -> None:
    write(tmp_path, a_md=b"1", b_py=b"2", docs__c_md=b"3", old__d_md=b"4")

    found = read(tmp_path, include=("*.md",), exclude=("old/**",))

    assert list(files(found)) == ["a.md", "docs/c.md"]
    assert reasons(found) == {
        "b.py": "not included by '*.md'",
        "old/d.md": "excluded by 'old/**'",
    }


def test_symbolic_links_are_never_followed(tmp_path: Path) -> None:
    outside = write(tmp_path / "outside", secret=b"secret")
    inside = write(tmp_path / "inside", a=b"1")
    (inside / "file").symlink_to(outside / "secret")
    (inside / "folder").symlink_to(outside)
    (inside / "near").symlink_to("a")
    (inside / "loop").symlink_to(inside)
    (inside / "nowhere").symlink_to("missing")

    found = read(inside)

    assert files(found) == {"a": b"1"}
    assert set(reasons(found)) == {"file", "folder", "near", "loop", "nowhere"}
    assert set(reasons(found).values()) == {"a symbolic link; links are not followed"}


def test_names_that_would_break_a_line_are_skipped(tmp_path: Path) -> None:
    """A path becomes a word of run files: this one would add a line of its own."""
    for name in ("x\nq1 Q0 d 1", "tab\tname", "line\u2028name", "a name", "ünï.md", "👩‍👩‍👧.md"):
        (tmp_path / name).write_bytes(b"1")

    found = read(tmp_path)

    assert set(files(found)) == {"a name", "ünï.md", "👩‍👩‍👧.md"}
    assert set(reasons(found)) == {"x\\nq1 Q0 d 1", "tab\\tname", "line\\u2028name"}
    assert set(reasons(found).values()) == {"its name holds a line break or control character"}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing", "missing: no such folder"),
        ("file", "file: a file, and not one that holds documents"),
    ],
)
def test_a_corpus_is_a_folder(tmp_path: Path, name: str, message: str) -> None:
    """The call itself fails, not the first step of the iteration."""
    (tmp_path / "file").touch()

    with pytest.raises(SourceError, match=message):
        read_files(CorpusConfig(name="docs", path=tmp_path / name), LIMIT)


# Globs

PATHS = [
    "a.md", "b.py", "docs/a.md", "docs/x/a.md", "docs/x/y.txt", "src/docs/a.md", "tests/t.py",
    "src/tests/t.py", "src/test_a.py", "src/test_ab.py", "src/[x].md", "src/a*b.md", "x-1", "x-a",
    "wei rd/ü.md",
]  # fmt: skip


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


def test_a_reversed_range_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"'\[z-a\]' is not a glob"):
        Glob.of("[z-a]")
