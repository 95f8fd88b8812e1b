"""Installed distributions."""

import json
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from freshstack_dspy.errors import SourceError

from .read_corpus import files, kinds, read, reasons


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
