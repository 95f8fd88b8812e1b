"""All commands of `freshstack`, in the groups that its help shows."""

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from freshstack_dspy.cli import (
    agree,
    analyze,
    answer,
    build,
    contexts,
    exchange,
    labelling,
    labels,
    look,
    measure,
    people,
    replies,
    report,
    score,
    search,
    sources,
)

COMMANDS: dict[str, dict[str, Any]] = {
    "Build": {
        "init": build.init,
        "suggest": sources.suggest,
        "plan": build.plan,
        "build": build.build,
        "extend": build.extend,
        "stale": build.stale,
        "refresh": build.refresh,
        "rejudge": build.rejudge,
        "rechunk": build.rechunk,
        "synthesize": sources.synthesize,
        "decontextualize": sources.decontextualize,
    },
    "Search": {
        "index": search.index,
        "search": search.search,
        "retrieve": search.retrieve,
        "topics": search.topics,
    },
    "Measure": {
        "evaluate": measure.evaluate,
        "compare": measure.compare,
        "analyze": analyze.analyze,
        "steps": analyze.steps,
        "answer": answer.answer,
        "contexts": contexts.contexts,
        "score": score.score,
        "leaderboard": exchange.leaderboard,
        "report": report.report,
    },
    "Look": {
        "show": look.show,
        "explain": look.explain,
        "diagnose": look.diagnose,
        "diff": look.diff,
    },
    "Exchange": {
        "export": exchange.export,
        "import": exchange.import_,
        "validate": exchange.validate,
    },
    "People": {
        "sample": labels.sample,
        "label": labelling.label,
        "import-labels": labels.import_labels,
        "agree": agree.agree,
        "optimize": people.optimize,
    },
    "Replies": {"replies": replies.replies, "requests": replies.requests},
}
"""By the groups that the help shows: functions, or apps with commands of their own."""


class _Grouped(TyperGroup):
    """Lists the commands below the name of their group."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for group, names in COMMANDS.items():
            commands: dict[str, Any] = {name: self.get_command(ctx, name) for name in names}
            with formatter.section(group):
                rows = [(name, one.get_short_help_str(76)) for name, one in commands.items()]
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


for _commands in COMMANDS.values():
    for _name, _command in _commands.items():
        if isinstance(_command, typer.Typer):
            app.add_typer(_command, name=_name)
        else:
            app.command(_name)(_command)


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
