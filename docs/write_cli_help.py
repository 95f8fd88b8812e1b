"""Write `cli.md`, the help of every command, for the site: `make site`."""

from pathlib import Path
from typing import Any

import typer

from freshstack_dspy.cli.app import app

PAGE = Path(__file__).with_name("cli.md")
_WIDTH = 96
_BEGINNING = """\
# The commands

Each is `freshstack COMMAND`, or `python -m freshstack_dspy COMMAND`. Errors are messages on standard error.
Exit codes: 0 done; 1 an error, a gate that failed, or an incomplete result; 2 wrong arguments; 3 requests wait for replies; 4 the budget is used up; 130 interrupted.
"""


def help_page() -> str:
    """The page, from the commands as they are."""
    group: Any = typer.main.get_command(app)
    context = typer.Context(group, info_name="freshstack", terminal_width=_WIDTH)
    return "\n".join([_BEGINNING, *_sections(group, context)])


def _sections(command: Any, context: typer.Context) -> list[str]:
    """The help of a command, then of those below it."""
    lines = (line.rstrip() for line in command.get_help(context).strip().splitlines())
    text = "\n".join(lines)
    sections = [f"## `{context.command_path}`\n\n```text\n{text}\n```\n"]
    for name, below in getattr(command, "commands", {}).items():
        inner = typer.Context(below, info_name=name, parent=context)
        sections += _sections(below, inner)
    return sections


if __name__ == "__main__":
    PAGE.write_text(help_page(), encoding="utf-8", newline="\n")
