"""All commands of `freshstack`, in the groups that its help shows."""

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from freshstack_dspy.cli import (
    answer,
    build,
    exchange,
    look,
    measure,
    people,
    replies,
    score,
    search,
    sources,
)

GROUPS = ("Build", "Search", "Measure", "Look", "Exchange", "People", "Replies")


class _Grouped(TyperGroup):
    """Lists the commands below the name of their group."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        groups: dict[str, list[tuple[str, str]]] = {group: [] for group in GROUPS}
        for name in self.list_commands(ctx):
            command: Any = self.get_command(ctx, name)
            groups[command.rich_help_panel].append((name, command.get_short_help_str(76)))
        for group, rows in groups.items():
            with formatter.section(group):
                formatter.write_dl(rows, col_max=16)


app = typer.Typer(
    name="freshstack",
    cls=_Grouped,
    help="Build judged retrieval and RAG test collections for your own domain.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _add(group: str, **commands: Any) -> None:
    """Add commands by name: functions, or apps with commands of their own."""
    for name, command in commands.items():
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name.strip("_"), rich_help_panel=group)
        else:
            app.command(name.strip("_"), rich_help_panel=group)(command)


_add(
    "Build",
    init=build.init,
    suggest=sources.suggest,
    plan=build.plan,
    build=build.build,
    extend=build.extend,
    refresh=build.refresh,
    rejudge=build.rejudge,
    synthesize=sources.synthesize,
    decontextualize=sources.decontextualize,
)
_add("Search", index=search.index, search=search.search, retrieve=search.retrieve)
_add(
    "Measure",
    evaluate=measure.evaluate,
    compare=measure.compare,
    answer=answer.answer,
    score=score.score,
    leaderboard=exchange.leaderboard,
)
_add(
    "Look",
    show=look.show,
    explain=look.explain,
    diagnose=look.diagnose,
)
_add("Exchange", export=exchange.export, import_=exchange.import_, validate=exchange.validate)
_add("People", agree=people.agree, optimize=people.optimize)
_add("Replies", replies=replies.replies, requests=replies.requests)


@app.callback(invoke_without_command=True)
def version(
    show: Annotated[
        bool, typer.Option("--version", help="Show the version.", is_eager=True)
    ] = False,
) -> None:
    """Build judged retrieval and RAG test collections for your own domain."""
    if show:
        from importlib.metadata import version as installed

        typer.echo(installed("freshstack_dspy"))
        raise typer.Exit
