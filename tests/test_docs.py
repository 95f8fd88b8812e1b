"""The blocks of README and docs: Python and commands run, offline; TOML and JSON are parsed."""

import gc
import importlib
import importlib.util
import inspect
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import warnings
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer
from pydantic import ValidationError
from typer.exceptions import TyperException

import freshstack_dspy
from freshstack_dspy import BuildConfig, build, retrieve
from freshstack_dspy.cli import main
from freshstack_dspy.cli.app import app
from tests.stores import stores

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    ROOT / "plugins/autojudge/README.md",
]
MARKS: dict[str, Any] = {
    "plugins/autojudge/README.md": pytest.mark.skipif(
        importlib.util.find_spec("freshstack_autojudge") is None,
        reason="pip install ./plugins/autojudge",
    ),
    "docs/growing.md": pytest.mark.slow,
    "docs/trust.md": pytest.mark.slow,
    "docs/your-retriever.md": [
        pytest.mark.formats,
        pytest.mark.filterwarnings("ignore:.* was deleted while still open"),
    ],
}
"""Of pages that take more than a few seconds, or have blocks that need packages of `formats` or a plug-in."""
_FENCE = re.compile(
    r"^```(?P<language>\S*) ?(?P<word>[^\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
_COMMAND = re.compile(r"^(?:\$ | +(?:- )?(?:run: )?)?(?=freshstack )", re.MULTILINE)
_LINK = re.compile(r"\]\((?P<target>[^)\s]+)\)")
_CODE = re.compile(r"`([^`\n]+)`|(?<!\S)(--[a-z][\w-]*)")
_CALL = re.compile(r"(?<!\S)freshstack ([a-z][^#\n]*)")
_GROUP: Any = typer.main.get_command(app)
_COMMANDS: dict[str, Any] = _GROUP.commands | {
    f"{name} {inner}": command
    for name, group in _GROUP.commands.items()
    for inner, command in getattr(group, "commands", {}).items()
}

# Wherever Python starts, as in a command that a page runs: no connection leaves this machine.
_OFFLINE = """
import sys

def refuse(event, arguments):
    if event == "socket.getaddrinfo" or (
        event == "socket.connect" and isinstance(arguments[1], tuple)
    ):
        raise RuntimeError(f"a page of the docs reached for the network: {arguments!r}")

sys.addaudithook(refuse)
"""


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


class Block(NamedTuple):
    """A fenced block of a page."""

    page: Path
    line: int
    """Of its first line of text."""
    language: str
    word: str
    """After the language: a file that it is also written to, or a package that it needs."""
    text: str


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for found in _FENCE.finditer(text):
        line = text.count("\n", 0, found.start("text")) + 1
        yield Block(page, line, found["language"], found["word"], found["text"])


def blocks_of(*languages: str) -> list[Any]:
    return [
        pytest.param(block, id=f"{page.name}:{block.line}")
        for page in PAGES
        for block in blocks(page)
        if block.language in languages
    ]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that looks like the repository after the build that README begins with."""
    folder = tmp_path_factory.mktemp("repository")
    for name in ("examples", "caches"):
        shutil.copytree(ROOT / name, folder / name)
    collection = build(folder / "examples/quickstart/build.toml", mode="replay")
    retrieve(collection, "bm25", index_path=folder / ".freshstack/index")
    return folder


@pytest.fixture
def desk(
    repository: Path,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    """A copy of the repository for whoever follows a page, with commands offline."""
    shutil.copytree(repository, tmp_path, dirs_exist_ok=True)
    hook = tmp_path_factory.mktemp("offline")
    (hook / "sitecustomize.py").write_text(_OFFLINE)
    monkeypatch.setenv("PYTHONPATH", str(hook))
    monkeypatch.setenv("HAYSTACK_TELEMETRY_ENABLED", "False")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def running_stores(page: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The servers whose addresses a page takes from the environment."""
    if "OPENSEARCH_URL" not in page.read_text(encoding="utf-8"):
        yield
        return
    with stores() as addresses:
        for name, address in addresses.items():
            monkeypatch.setenv(name, address)
        yield
        gc.collect()  # connections warn when they go, which is ignored in this test alone


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=name_of(page), marks=MARKS.get(name_of(page), ()))
        for page in PAGES
        if any(block.language in ("python", "console", "sh") for block in blocks(page))
        and page.name != "tutorial.md"  # in tests/test_tutorial.py, with its outputs
    ],
)
@pytest.mark.usefixtures("desk", "running_stores")
def test_the_blocks_of_a_page_run_in_order(page: Path) -> None:
    """Those of one page share a namespace and a folder."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(page):
        if block.word.endswith((".py", ".toml")):
            Path(block.word).write_text(block.text, encoding="utf-8")
        elif block.word and importlib.util.find_spec(block.word) is None:
            continue
        if block.language == "python":
            # The empty lines make errors name the lines of the page.
            code = compile("\n" * (block.line - 1) + block.text, str(page), "exec")
            with warnings.catch_warnings():
                if block.word:  # a framework may warn of its own affairs
                    warnings.simplefilter("ignore")
                exec(code, namespace)
        elif block.language in ("console", "sh", "yaml"):
            for command in commands(block):
                run(command, block)
            for line in block.text.splitlines() if shutil.which("jq") else ():
                if line.startswith("jq "):
                    subprocess.run(shlex.split(line), check=True, stdout=subprocess.DEVNULL)


def commands(block: Block) -> list[str]:
    """The lines that call us: `$ freshstack …`, `freshstack …`, or indented in a workflow."""
    joined = block.text.replace("\\\n", " ")
    return [_COMMAND.sub("", line) for line in joined.splitlines() if _COMMAND.match(line)]


def run(command: str, block: Block) -> str:
    """Run `freshstack … [> file]` here: a process of its own takes seconds to import everything."""
    called, _, file = command.partition(" > ")
    program, *words = shlex.split(called, comments=True)
    assert program == "freshstack"
    out, err = io.StringIO(), io.StringIO()
    before = sys.argv
    sys.argv = [program, *words]
    try:
        with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as left:
            main()
    finally:
        sys.argv = before

    place = f"{block.page.name}:{block.line}: {command}"
    assert left.value.code in (0, None), f"{place}\n{err.getvalue()}"
    if file:
        Path(file.strip()).write_text(out.getvalue(), encoding="utf-8")
    return out.getvalue()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_fence_is_closed_and_names_its_language(page: Path) -> None:
    text = page.read_text(encoding="utf-8")

    assert text.count("\n```") == 2 * len(list(blocks(page)))
    known = {"python", "console", "sh", "toml", "yaml", "json", "text"}
    assert {block.language for block in blocks(page)} <= known


@pytest.mark.parametrize("block", blocks_of("json"))
def test_json_is_json(block: Block) -> None:
    try:
        json.loads(block.text)
    except ValueError:
        for line in block.text.splitlines():
            json.loads(line)


@pytest.mark.parametrize("block", blocks_of("toml"))
def test_toml_is_a_part_of_a_configuration(block: Block) -> None:
    """Nothing in it is misspelt or of a wrong kind; that a part is not the whole is no fault."""
    if block.word == "leaderboard.toml":
        pytest.skip("another file than a build's")
    values = json.dumps(tomllib.loads(block.text))

    assert [fault for fault in faults_of(values) if fault["type"] != "missing"] == []


def faults_of(values: str) -> list[Any]:
    try:
        BuildConfig.model_validate_json(values, strict=True)
    except ValidationError as error:
        return list(error.errors(include_url=False))
    return []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    targets = [found["target"] for found in _LINK.finditer(text)]
    inside = [target.split("#")[0] for target in targets if "://" not in target]

    assert [each for each in inside if each and not (page.parent / each).exists()] == []


@pytest.mark.parametrize(
    "page",
    [
        *PAGES,
        *(ROOT / name for name in ("caches/README.md", "AGENTS.md", "skills/freshstack/SKILL.md")),
    ],
    ids=name_of,
)
def test_options_are_those_of_their_command(page: Path) -> None:
    """And have their values; one without a command is of a command that the page calls, if any."""
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    code = [inline or option for inline, option in _CODE.findall(text)]
    shown = [block for block in blocks(page) if block.language in ("console", "sh", "text")]
    lines = [*code, *(block.text.replace("\\\n", " ") for block in shown)]
    calls = [call for line in lines for call in _CALL.findall(line)]
    short = [each for each in code if each.split(" -")[0] in _COMMANDS]  # as `build --mode defer`

    wrong = [call for call in [*calls, *short] if not takes(*command_of(call))]
    named = [command for command, _ in map(command_of, calls)] or list(_COMMANDS.values())
    alone = [each for each in code if re.match(r"--?[a-z]", each)]
    wrong += [each for each in alone if not any(takes(one, f"{each} VALUE") for one in named)]
    assert wrong == []


def command_of(call: str) -> tuple[Any, str]:
    """The command that is called, or None, and what follows its name."""
    name = max((name for name in _COMMANDS if f"{call} ".startswith(f"{name} ")), default="")
    return _COMMANDS.get(name), call.removeprefix(name)


def takes(command: Any, words: str) -> bool:
    """Whether all options are the command's, and have their values."""
    try:
        command.make_parser(typer.Context(command)).parse_args(words.split())
    except (AttributeError, TyperException):  # no such command, no such option, no value
        return False
    return True


def test_every_page_is_in_the_navigation() -> None:
    text = (ROOT / "docs/index.md").read_text(encoding="utf-8")
    listed = re.findall(r"^- \[.+?\]\((.+?)\)", text, re.MULTILINE)
    pages = [*PAGES, *(ROOT / "docs/api").glob("*.rst")]
    elsewhere = ["index.md", "../README.md", "../plugins/autojudge/README.md"]

    assert sorted([*listed, *elsewhere]) == sorted(
        os.path.relpath(page, ROOT / "docs") for page in pages
    )


def test_every_public_name_has_its_place_in_the_reference() -> None:
    """And what a public function gives; whatever is listed there can be imported."""
    text = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs/api").glob("*.rst"))
    listed = re.findall(r"^\.\. auto\w+:: (\S+)", text, re.MULTILINE)
    there = [
        getattr(importlib.import_module(module), name)
        for module, _, name in (each.rpartition(".") for each in listed)
    ]
    public = [getattr(freshstack_dspy, name) for name in vars(freshstack_dspy)["__all__"]]
    given = [
        inspect.signature(each).return_annotation for each in public if inspect.isfunction(each)
    ]
    ours = [each for each in given if getattr(each, "__module__", "").startswith("freshstack_dspy")]

    assert [each for each in [*public, *ours] if each not in there] == []
    assert len(listed) == len(set(listed))


def test_the_newest_version_in_the_changelog_is_this_one() -> None:
    newest = re.search(r"^## (\d\S*)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    assert newest is not None
    assert newest[1] == project["version"]


def test_the_page_of_commands_has_each_however_wide_the_terminal_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written: Callable[[], str] = script(ROOT / "docs/cli_help.py").help_page
    page = written()
    monkeypatch.setenv("COLUMNS", "40")

    assert written() == page
    assert [name for name in _COMMANDS if f"## `freshstack {name}`" not in page] == []


def script(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_figures_of_the_papers_are_those_that_the_benchmark_prints(tmp_path: Path) -> None:
    """Ours are another matter: they take the downloads."""
    papers = script(ROOT / "benchmarks/papers.py")
    (printed,) = papers.page_of(papers.made_up(tmp_path)).tables()
    page = (ROOT / "docs/reproduce.md").read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")]

    assert [(row.figure, row.paper) for row in printed.rows] == [
        (figure, paper) for figure, _, paper, _ in (row for row in rows[2:] if len(row) == 4)
    ]


def test_the_tables_of_peers_are_those_of_what_was_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks/peers")
    peers = script(ROOT / "benchmarks/peers/peers.py")
    recorded = json.loads(peers.RECORDED.read_text(encoding="utf-8"))

    assert peers.page(recorded) in (ROOT / "docs/peers.md").read_text(encoding="utf-8")
