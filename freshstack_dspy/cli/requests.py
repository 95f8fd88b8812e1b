"""`freshstack requests`: what waits for a reply, and the replies that came."""

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    help="Deferred requests: answered elsewhere, imported here.", no_args_is_help=True
)

ConfigArgument = Annotated[Path, typer.Argument(help="The build's TOML file.")]


@app.command("export")
def export_requests(
    config: ConfigArgument,
    out: Annotated[Path, typer.Option(help="File to write, in the OpenAI batch format.")],
) -> None:
    """Write the requests that wait for a reply."""
    from freshstack_dspy.config import load_config
    from freshstack_dspy.lm.deferred import write_requests
    from freshstack_dspy.lm.store import ReplyStore

    with closing(ReplyStore(load_config(config).cache.path)) as store:
        written = write_requests(store, out)
    typer.echo(f"{out}: {written} requests")


@app.command("import")
def import_(
    replies: Annotated[Path, typer.Argument(help="The replies: a batch's output, or by hand.")],
    config: ConfigArgument,
) -> None:
    """Record replies to deferred requests.

    Nothing that is recorded is overwritten.
    """
    from freshstack_dspy.config import load_config
    from freshstack_dspy.lm.deferred import import_replies
    from freshstack_dspy.lm.store import ReplyStore

    with closing(ReplyStore(load_config(config).cache.path)) as store:
        report = import_replies(store, replies)
    typer.echo(str(report))
    if report.failed or report.unknown:
        raise typer.Exit(1)
