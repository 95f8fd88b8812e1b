"""Wheels, also hostile ones; and installed distributions."""

import json
import sys
import zipfile
from importlib.metadata import version
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


def test_paths_that_lead_out_and_links_are_not_read(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / NAME, "w") as archive:
        for name in ("a/../../x", "a//b", "C:/x", "/abs"):
            archive.writestr(name, b"x")
        link = zipfile.ZipInfo("link")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")

    found = read(tmp_path / NAME)

    assert files(found) == {}
    assert kinds(found)["link"] == "link"
    assert set(reasons(found)) == {"a/../../x", "a//b", "C:/x", "/abs", "link"}


def test_a_file_that_unpacks_to_more_than_it_says_is_bounded(tmp_path: Path) -> None:
    path = wheel(tmp_path, {"a.txt": b"x" * 1_000_000})
    data = path.read_bytes().replace((1_000_000).to_bytes(4, "little"), (10).to_bytes(4, "little"))
    path.write_bytes(data)

    assert reasons(read(path, limit=100))["a.txt"].startswith("damaged in the archive")


def test_a_bomb_is_refused_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("freshstack_dspy.corpus.packages._UNSUSPICIOUS", 1 << 20)
    path = wheel(tmp_path, {"a.txt": bytes(2 << 20)})

    with pytest.raises(SourceError, match="would unpack to 2,097,152 bytes"):
        read(path)


def test_methods_that_unpack_without_bound_are_not_read(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / NAME, "w") as archive:
        archive.writestr("a.py", b"a = 1", compress_type=zipfile.ZIP_LZMA)
        archive.writestr("b.py", b"b = 1")

    found = read(tmp_path / NAME)

    assert files(found) == {"b.py": b"b = 1"}
    assert reasons(found) == {"a.py": "packed by a method that wheels have no use for"}


# Installed distributions


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
