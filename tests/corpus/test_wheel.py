"""Wheels, read as archives: honest ones and hostile ones."""

import zipfile
from pathlib import Path

import pytest

from freshstack_dspy.errors import SourceError

from .read_corpus import files, kinds, licences, read, reasons

NAME = "lib-1.2-py3-none-any.whl"


def wheel(folder: Path, contents: dict[str, bytes], name: str = NAME) -> Path:
    with zipfile.ZipFile(folder / name, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in contents.items():
            archive.writestr(path, data)
    return folder / name


def test_a_wheel_is_read_at_its_version(tmp_path: Path) -> None:
    path = wheel(
        tmp_path,
        {
            "lib/b.py": b"b = 1",
            "lib/a.py": b"a = 1",
            "lib/.hidden/x": b"x",
            "lib-1.2.dist-info/licenses/LICENSE": b"Do as you like.",
            "lib-1.2.dist-info/METADATA": b"Name: lib",
            "lib-1.2.dist-info/RECORD": b"x",
        },
    )

    found = read(path)

    assert files(found) == {
        "lib-1.2.dist-info/METADATA": b"Name: lib",
        "lib/a.py": b"a = 1",
        "lib/b.py": b"b = 1",
    }
    assert {file.revision for file in found if hasattr(file, "revision")} == {"1.2"}
    assert list(licences(found)) == ["lib-1.2.dist-info/licenses/LICENSE"]
    assert kinds(found) == {"lib-1.2.dist-info/RECORD": "generated", "lib/.hidden": "hidden"}


def test_paths_that_lead_out_links_and_doubles_are_not_read(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / NAME, "w") as archive:
        for name in ("a/../../x", "a//b", "C:/x", "/abs"):
            archive.writestr(name, b"x")
        link = zipfile.ZipInfo("link")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
        archive.writestr("twice.py", b"1")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("twice.py", b"2")

    found = read(tmp_path / NAME)

    assert files(found) == {"twice.py": b"1"}
    assert kinds(found)["link"] == "link"
    assert set(reasons(found)) == {"a/../../x", "a//b", "C:/x", "/abs", "link", "twice.py"}


def test_a_file_that_unpacks_to_more_than_it_says_is_bounded(tmp_path: Path) -> None:
    path = wheel(tmp_path, {"a.txt": b"x" * 1_000_000})
    data = path.read_bytes().replace((1_000_000).to_bytes(4, "little"), (10).to_bytes(4, "little"))
    path.write_bytes(data)

    assert reasons(read(path, limit=100))["a.txt"].startswith("damaged in the archive")


def test_a_bomb_is_refused_unread(tmp_path: Path) -> None:
    path = wheel(tmp_path, {f"{number}.txt": bytes(30 << 20) for number in range(4)})

    with pytest.raises(SourceError, match="would unpack to 125,829,120 bytes"):
        read(path)


def test_damage_is_one_line(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"PK\x03\x04 no")
    wheel(tmp_path, {"a": b"x"}, "lib.whl")

    with pytest.raises(SourceError, match="cannot be read as a wheel: File is not a zip file"):
        read(tmp_path / NAME)
    with pytest.raises(SourceError, match="not the name of a wheel"):
        read(tmp_path / "lib.whl")


def test_a_damaged_member_is_skipped_and_the_others_are_read(tmp_path: Path) -> None:
    path = wheel(tmp_path, {"a.py": b"a = 1\n" * 50, "b.py": b"b = 1\n"})
    data = bytearray(path.read_bytes())
    data[36:42] = b"\xff" * 6
    path.write_bytes(data)

    found = read(path)

    assert (list(files(found)), kinds(found)) == (["b.py"], {"a.py": "unreadable"})


def test_a_wheel_has_no_revision(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"a \.whl file has no revision"):
        read(tmp_path / NAME, revision="main")


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_methods_that_unpack_without_bound_are_not_read(tmp_path: Path, method: int) -> None:
    with zipfile.ZipFile(tmp_path / NAME, "w") as archive:
        archive.writestr("a.py", b"a = 1", compress_type=method)
        archive.writestr("b.py", b"b = 1")

    found = read(tmp_path / NAME)

    assert files(found) == {"b.py": b"b = 1"}
    assert reasons(found) == {"a.py": "packed by a method that wheels have no use for"}
