"""All commands of `freshstack`; each one's work is in the package, imported when it is called."""

from pathlib import Path
from typing import Annotated

import typer

from freshstack_dspy.cli import (
    answer,
    cache,
    collections,
    compare,
    diagnose,
    documents,
    evaluate,
    explain,
    exports,
    growing,
    imports,
    index,
    labels,
    leaderboard,
    plan,
    rejudge,
    requests,
    score,
    tags,
    validate,
)

app = typer.Typer(
    name="freshstack",
    help="Build judged retrieval and RAG test collections for your own domain.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.command()
def init(
    path: Annotated[Path, typer.Argument(help="File to write.")] = Path("build.toml"),
) -> None:
    """Write a commented example of a configuration."""
    from freshstack_dspy.cli.example import write_example

    write_example(path)
    typer.echo(
        f"{path} written; name your questions and your corpus in it, then: freshstack build {path}"
    )


app.command()(plan.plan)
app.command()(collections.build)
app.command()(growing.extend)
app.command()(growing.refresh)
app.command()(collections.retrieve)
app.command()(evaluate.evaluate)
app.command()(compare.compare)
app.command()(leaderboard.leaderboard)
app.command()(exports.export)
app.command("import")(imports.import_)
app.command()(validate.validate)
app.command()(exports.push)
app.command()(diagnose.diagnose)
app.command()(explain.explain)
app.command()(rejudge.rejudge)
app.command()(answer.answer)
app.command()(labels.agree)
app.command()(labels.optimize)
app.command()(documents.synthesize)
app.command()(documents.decontextualize)
app.command()(tags.tags)
app.add_typer(index.app, name="index")
app.add_typer(score.app, name="score")
app.add_typer(requests.app, name="requests")
app.add_typer(cache.app, name="cache")


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
