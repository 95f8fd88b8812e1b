"""The help of every command, which the site adds to `cli.md`."""

from typing import Any

import typer

from freshstack_dspy.cli.app import app

_WIDTH = 96


def help_page() -> str:
    """A section for each command."""
    group: Any = typer.main.get_command(app)
    context = typer.Context(group, info_name="freshstack", terminal_width=_WIDTH)
    return "\n".join(_sections(group, context))


def _sections(command: Any, context: typer.Context) -> list[str]:
    """The help of a command, then of those below it."""
    lines = (line.rstrip() for line in command.get_help(context).strip().splitlines())
    text = "\n".join(lines)
    sections = [f"## `{context.command_path}`\n\n```text\n{text}\n```\n"]
    for name, below in getattr(command, "commands", {}).items():
        inner = typer.Context(below, info_name=name, parent=context)
        sections += _sections(below, inner)
    return sections
