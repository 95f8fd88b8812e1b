"""Where documents come from: folders, packages, JSON Lines; nothing outside is reached; and globs."""

import json
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from freshstack_dspy.corpus.sources import document_bytes
from freshstack_dspy.errors import ConfigError, SourceError
from freshstack_dspy.records import LicenceFile, SourceFile

from .read_corpus import files, kinds, read, reasons, write_all


def test_files_come_as_they_are_in_order_of_path(tmp_path: Path) -> None:
    r"""`a.b` is before `a/b`, as `.` is before `/`; bytes are not touched, not even `\r`."""
    write_all(tmp_path, {"a/b.md": "é\r\n".encode(), "a.b": b"2", "b": b"\xef\xbb\xbf3", "A": b"4"})

    found = read(tmp_path)

    assert found == [
        SourceFile("docs", "A", b"4"),
        SourceFile("docs", "a.b", b"2"),
        SourceFile("docs", "a/b.md", "é\r\n".encode()),
        SourceFile("docs", "b", b"\xef\xbb\xbf3"),
    ]


def test_every_file_that_is_not_read_is_listed_with_its_reason(tmp_path: Path) -> None:
    contents = {
        "empty": b"",
        "blank": b" \n\xe3\x80\x80",
        "image": b"\x89PNG\r\n\x1a\n\x00",
        "latin": b"\xe9\xf1\xfa",
        "pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
        "large": b"x" * 81,
        "fits": b"x" * 80,
        ".git/config": b"x",
        ".env": b"SECRET=1",
        "sub/.hidden/a": b"x",
        "LICENSE": b"Do as you like.",
    }

    found = read(write_all(tmp_path, contents), limit=80)

    assert list(files(found)) == ["fits"]
    assert [file.text for file in found if isinstance(file, LicenceFile)] == ["Do as you like."]
    assert reasons(found) == {
        ".env": "hidden",
        ".git": "hidden",
        "blank": "blank",
        "empty": "empty",
        "image": "binary (a NUL at byte 8)",
        "large": "larger than max_file_bytes (81 of 80 bytes)",
        "latin": "not UTF-8; byte 0 is 0xe9",
        "pointer": "a Git LFS pointer; fetch the file itself with: git lfs pull",
        "sub/.hidden": "hidden",
    }


def test_globs_choose_and_what_they_leave_out_is_listed(tmp_path: Path) -> None:
    write_all(tmp_path, {"a.md": b"1", "b.py": b"2", "docs/c.md": b"3", "old/d.md": b"4"})

    found = read(tmp_path, include=("*.md",), exclude=("old/**",))

    assert list(files(found)) == ["a.md", "docs/c.md"]
    assert reasons(found) == {
        "b.py": "not included by '*.md'",
        "old/d.md": "excluded by 'old/**'",
    }


def test_symbolic_links_are_never_followed(tmp_path: Path) -> None:
    outside = write_all(tmp_path / "outside", {"secret": b"secret"})
    inside = write_all(tmp_path / "inside", {"a": b"1"})
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
    ("glob", "kept"),
    [
        ("*.md", ["a.md", "x/a.md"]),
        ("/x", ["x/a.md", "x/b"]),
        ("!c", ["!c"]),
        ("x/", ["x/a.md", "x/b"]),
    ],
)
def test_globs_are_those_of_gitignore_without_negation(
    tmp_path: Path, glob: str, kept: list[str]
) -> None:
    write_all(tmp_path, dict.fromkeys(("a.md", "x/a.md", "x/b", "!c", "y/x.txt"), b"1"))

    assert list(files(read(tmp_path, include=(glob,)))) == kept


def test_what_is_no_glob_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"corpus 'docs'"):
        read(write_all(tmp_path, {"a": b"1"}), include=("[z-a]",))


# Installed packages


def install(folder: Path, record: str, **more: str) -> None:
    info = folder / "lib-1.2.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lib\nVersion: 1.2\n")
    (info / "RECORD").write_text(record)
    for name, text in more.items():
        (info / f"{name}.json").write_text(text)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.setattr(sys, "path", [str(site), *sys.path])
    return site


def test_an_installed_package_is_read_at_its_version() -> None:
    found = read(package="pydantic")

    assert {file.revision for file in found if hasattr(file, "revision")} == {version("pydantic")}
    assert "pydantic/main.py" in files(found)
    assert all(path.startswith(("pydantic/", "pydantic-")) for path in files(found))


def test_nothing_outside_of_the_packages_is_read(site: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "bin").mkdir()
    (site / "lib").mkdir()
    (site / "lib" / "a.py").write_text("a = 1")
    (site / "other.py").write_text("not of lib")
    (site / "lib" / "link.py").symlink_to(tmp_path / "secret")
    (site / "out").symlink_to(tmp_path)
    record = "lib/a.py,,\n../secret,,\nlib/link.py,,\nout/secret,,\nlib/gone.py,,\n"
    install(site, record + f"{tmp_path}/secret,,\nlib,,\n")

    found = read(package="lib")

    assert files(found) == {"lib/a.py": b"a = 1"}
    assert reasons(found)["lib/gone.py"] == "cannot be read: No such file or directory"
    assert b"secret" not in b"".join(files(found).values())
    assert {
        path: kind for path, kind in kinds(found).items() if "secret" in path or "link" in path
    } == {
        "lib/link.py": "link",
        "out/secret": "not_chosen",
        f"{tmp_path}/secret".lstrip("/"): "not_chosen",
    }


def test_an_editable_package_is_a_folder(site: Path) -> None:
    origin = {"url": "file:///src/lib", "dir_info": {"editable": True}}
    install(site, "", direct_url=json.dumps(origin))

    with pytest.raises(SourceError, match=r"editable mode.* path = '/src/lib'"):
        read(package="lib")


# JSON Lines


def lines(folder: Path, *texts: str, mark: bytes = b"") -> Path:
    path = folder / "corpus.jsonl"
    path.write_bytes(mark + "\n".join(texts).encode())
    return path


def test_each_line_is_a_document(tmp_path: Path) -> None:
    path = lines(
        tmp_path,
        '{"_id": "b", "title": "Rings", "text": "é one", "metadata": {"url": "x"}}',
        "",
        '{"id": "LICENSE", "text": "two"}',
        '{"path": "vendor/c.csv", "title": " ", "text": "three"}',
        '{"id": "blank", "text": " "}',
        '{"id": 802, "text": "four"}',
        '{"id": "line\\nbreak", "text": "x"}',
        mark=b"\xef\xbb\xbf",
    )

    found = read(path, exclude=("nothing",))

    assert files(found) == {
        "802": b"four",
        "LICENSE": b"two",
        "b": "Rings\n\né one".encode(),
        "vendor/c.csv": b"three",
    }
    assert kinds(found) == {"blank": "empty", "line\\nbreak": "unreadable"}
    assert document_bytes("Rings", "é one") == files(found)["b"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "a document is"),
        ('{"id": true, "text": "x"}', "id: Input should be a valid string"),
        ('{"id": "x", "text": "again"}', "the document 'x' is already at"),
    ],
)
def test_a_line_that_is_no_document_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = lines(tmp_path, '{"id": "x", "text": "x"}', text)

    with pytest.raises(SourceError) as error:
        read(path)

    assert str(error.value).startswith(f"{path}:2: ")
    assert message in str(error.value)
