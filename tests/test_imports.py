"""What is imported when: nothing heavy before it is needed."""

import subprocess
import sys

import pytest

HEAVY = {"bm25s", "dspy", "instructor", "lancedb", "litellm", "openai", "pyarrow", "scipy"}
LISTED = "import sys; print(*sorted(sys.modules), file=sys.stderr)"


def imported(code: str) -> set[str]:
    """The modules that are loaded after this code, in a process of its own."""
    guarded = f"try:\n    {code}\nexcept SystemExit:\n    pass\n{LISTED}"
    done = subprocess.run(
        [sys.executable, "-c", guarded], capture_output=True, text=True, check=True
    )
    return set(done.stderr.split())


def command(*words: str) -> str:
    return (
        f"import sys; sys.argv = ['freshstack', *{words!r}]; "
        "from freshstack_dspy.cli import main; main()"
    )


def test_the_package_alone_imports_next_to_nothing() -> None:
    more = imported("import freshstack_dspy") - imported("pass")

    outside = {name.partition(".")[0] for name in more} - sys.stdlib_module_names
    assert {name for name in outside if not name.startswith("_")} == {
        "freshstack_dspy",
        "lazy_loader",
    }


def test_the_list_of_commands_needs_no_data_model() -> None:
    assert imported(command("--help")).isdisjoint(HEAVY | {"numpy", "pydantic", "rich"})


@pytest.mark.parametrize("name", ["build", "evaluate", "optimize", "requests"])
def test_the_help_of_a_command_imports_nothing_heavy(name: str) -> None:
    assert imported(command(name, "--help")).isdisjoint(HEAVY | {"numpy"})
