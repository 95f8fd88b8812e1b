"""What is imported when: nothing heavy before it is needed."""

import importlib
import pkgutil
import subprocess
import sys
import warnings
from pathlib import Path

import freshstack_dspy
from freshstack_dspy import build

from .recipes.domain import domain

HEAVY = {
    "bm25s",
    "dspy",
    "instructor",
    "lancedb",
    "litellm",
    "openai",
    "pyarrow",
    "scipy",
    "sklearn",
}
LISTED = "import sys; print(*sorted(sys.modules), file=sys.stderr)"


def imported(code: str) -> set[str]:
    """The modules that are loaded after this code, in a process of its own."""
    guarded = f"try:\n    {code}\nexcept SystemExit:\n    pass\n{LISTED}"
    done = subprocess.run(
        [sys.executable, "-c", guarded], capture_output=True, text=True, check=True
    )
    return set(done.stderr.split())


def help_of(*commands: str) -> str:
    """Code that shows the help of commands one after the other."""
    return (
        "from freshstack_dspy.cli.app import app; "
        f"[app([*words.split(), '--help'], standalone_mode=False) for words in {commands!r}]"
    )


def test_the_package_alone_imports_next_to_nothing() -> None:
    more = imported("import freshstack_dspy; dir(freshstack_dspy)") - imported("pass")

    outside = {name.partition(".")[0] for name in more} - sys.stdlib_module_names
    assert {name for name in outside if not name.startswith("_")} == {
        "freshstack_dspy",
        "lazy_loader",
    }


def test_names_that_everyone_imports_bring_nothing_heavy() -> None:
    code = (
        "from freshstack_dspy import load_config, FreshstackError, Run, evaluate, read_run; "
        "evaluate({'q': {'d': 1}}, {'q': {'d': 1.0}}, ['nDCG@10', 'RR']).means"
    )

    assert imported(code).isdisjoint(HEAVY | {"numpy"})


def test_help_imports_nothing_heavy() -> None:
    """The list of commands needs no data model either."""
    assert imported(help_of("")).isdisjoint(HEAVY | {"numpy", "pydantic", "rich"})
    assert imported(help_of("build", "evaluate", "optimize", "requests")).isdisjoint(
        HEAVY | {"numpy"}
    )


def test_what_asks_no_model_waits_for_none() -> None:
    code = (
        "import freshstack_dspy.recipes.make, freshstack_dspy.collection.retrieve, "
        "freshstack_dspy.views.queries, freshstack_dspy.views.scores"
    )

    assert imported(code).isdisjoint(HEAVY | {"bs4"})


def test_lancedbs_client_of_catalogue_servers_waits_until_it_is_used(tmp_path: Path) -> None:
    client = "lance_namespace_urllib3_client"
    opened = (
        "from pathlib import Path; from freshstack_dspy.index.table import connected; "
        f"connected(Path({str(tmp_path)!r}))"
    )

    assert f"{client}.api" not in imported(opened)
    assert f"{client}.api" in imported(f"{opened}; import {client} as it; it.TableApi, it.models")


def test_locks_and_labels_need_nothing_that_windows_lacks() -> None:
    code = (
        "import sys; sys.modules.update(dict.fromkeys(('fcntl', 'pwd', 'resource'))); "
        "import freshstack_dspy.labelling.label_file, freshstack_dspy.index.storage"
    )
    command = [sys.executable, "-W", "ignore", "-c", code]

    assert subprocess.run(command, check=False).returncode == 0


def test_nothing_is_used_that_dspy_3_5_removes(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("error", r"(?s).*\b3\.5\b", DeprecationWarning)
        for module in pkgutil.walk_packages(freshstack_dspy.__path__, "freshstack_dspy."):
            if module.name != "freshstack_dspy.__main__":
                importlib.import_module(module.name)
        collection = build(domain(tmp_path, model={"name": "extractive/baseline"}))

    assert collection.judgments
