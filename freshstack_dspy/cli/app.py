"""All commands of `freshstack`, in the groups that its help shows."""

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from freshstack_dspy.cli import (
    answering,
    build,
    exchange,
    gate,
    labelling,
    look,
    measure,
    people,
    replies,
    search,
    sources,
)

_GROUPS: dict[str, list[Any]] = {
    "Build": [
        *(
            build.init,
            sources.questions,
            sources.suggest,
            build.plan,
            build.build,
            build.extend,
            build.stale,
        ),
        *(build.refresh, build.rejudge, build.rechunk),
        *(sources.synthesize, sources.decontextualize),
    ],
    "Search": [search.index, search.search, search.retrieve, search.fuse, search.topics],
    "Measure": [
        *(measure.evaluate, measure.compare, gate.gate, measure.analyze, measure.steps),
        *(answering.answer, answering.contexts, answering.score),
        *(exchange.leaderboard, measure.report),
    ],
    "Look": [
        look.status,
        look.doctor,
        look.audit,
        look.skill,
        look.show,
        look.explain,
        look.diagnose,
        look.diff,
    ],
    "Exchange": [exchange.export, exchange.import_, exchange.validate],
    "People": [
        *(people.sample, labelling.label, people.import_labels, people.agree, people.optimize),
    ],
    "Replies": [replies.replies, replies.requests],
}
"""Functions, or apps with commands of their own."""


def _name(each: Any) -> str:
    name = each.info.name if isinstance(each, typer.Typer) else each.__name__
    return str(name).strip("_").replace("_", "-")


class _Grouped(TyperGroup):
    """Lists the commands below the name of their group, with the whole line of their help."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        groups = {group: [*map(_name, commands)] for group, commands in _GROUPS.items()}
        for group, names in (
            groups if ctx.parent is None else {"Commands": [*self.commands]}
        ).items():
            commands: dict[str, Any] = {name: self.get_command(ctx, name) for name in names}
            with formatter.section(group):
                rows = [(name, each.get_short_help_str(200)) for name, each in commands.items()]
                formatter.write_dl(rows, col_max=16)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")  # of typer's pydantic
            raise


app = typer.Typer(
    name="freshstack",
    cls=_Grouped,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for _each in (each for commands in _GROUPS.values() for each in commands):
    if isinstance(_each, typer.Typer):
        app.add_typer(_each, cls=_Grouped)
    else:
        app.command(_name(_each))(_each)


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
