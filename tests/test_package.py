"""The package as it is built, imported and laid out."""

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

import freshstack_dspy

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "freshstack_dspy"
LONGEST_FILE = 1300

pytestmark = pytest.mark.skipif(
    not (ROOT / "pyproject.toml").exists(), reason="the tests stand outside of the repository"
)


def tracked(*folders: str) -> Iterator[Path]:
    """The Python files of these folders, but for what is generated or a sample."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if "corpus" not in path.parts or folder != "examples":
                yield path


MODULES = list(tracked("freshstack_dspy"))
SOURCES = [*MODULES, *tracked("benchmarks", "examples", "docs")]


def built(kind: str, folder: Path) -> Path:
    """Build the wheel or the source distribution, in a process: hatchling works in its cwd."""
    code = f"from hatchling.build import build_{kind}; print(build_{kind}({str(folder)!r}))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return folder / done.stdout.splitlines()[-1]


def test_the_wheel_holds_exactly_the_packages_files(tmp_path: Path) -> None:
    with zipfile.ZipFile(built("wheel", tmp_path)) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
        (info,) = {name.split("/")[0] for name in wheel.namelist()} - {"freshstack_dspy"}
        entry_points = wheel.read(f"{info}/entry_points.txt").decode()
        metadata = wheel.read(f"{info}/METADATA").decode()

    assert names == {
        str(path.relative_to(ROOT))
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert "freshstack_dspy/py.typed" in names
    assert "freshstack = freshstack_dspy.cli:main" in entry_points
    assert "License-Expression: Apache-2.0" in metadata


def test_readme_names_the_extras_that_users_need_and_the_citation_this_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    rows = re.findall(r"^\| `(\w+)` \|", (ROOT / "README.md").read_text(), re.MULTILINE)

    ours = {"dev", "engines", "formats", "retrievers", "site"}
    assert set(rows) == project["optional-dependencies"].keys() - ours
    assert f"\nversion: {project['version']}\n" in (ROOT / "CITATION.cff").read_text()


def test_the_source_distribution_holds_what_the_wheel_is_built_from(tmp_path: Path) -> None:
    with tarfile.open(built("sdist", tmp_path)) as sdist:
        names = {name.split("/", 1)[1] for name in sdist.getnames()}

    files = {str(path.relative_to(ROOT)) for path in PACKAGE.rglob("*.py")}
    assert files | {"pyproject.toml", "README.md", "LICENSE"} <= names


@pytest.mark.parametrize("name", ["signatures", "programs"])
def test_the_links_at_the_top_resolve_into_the_package(name: str) -> None:
    link = ROOT / name

    assert link.is_symlink()
    assert not link.readlink().is_absolute()
    assert link.resolve() == PACKAGE / name
    assert (link / "__init__.py").is_file()


def test_all_names_are_sorted_and_importable() -> None:
    names = vars(freshstack_dspy)["__all__"]
    assert names == sorted(set(names))
    assert dir(freshstack_dspy) == names
    for name in names:
        assert getattr(freshstack_dspy, name) is not None, name


def test_no_file_is_too_long() -> None:
    """Tests may be: they grow with the cases of what they test."""
    lengths = {path: path.read_text().count("\n") for path in SOURCES}

    assert {path: lines for path, lines in lengths.items() if lines > LONGEST_FILE} == {}


def test_no_imports_go_in_circles() -> None:
    """Nor those inside of functions."""
    graph = grimp.build_graph("freshstack_dspy", cache_dir=None, exclude_type_checking_imports=True)
    order = TopologicalSorter(
        {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    )

    order.prepare()  # raises a CycleError, which names the modules of a circle
