"""`freshstack label`: the page on which people label."""

import secrets
import socket
import threading
import webbrowser
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from freshstack_dspy.cli.options import check_out
from freshstack_dspy.cli.printing import complain, counted


def label(
    target: Annotated[
        Path,
        typer.Argument(
            metavar="COLLECTION|TASKS",
            help="What to label: tasks that `freshstack sample` drew, or all judged pairs of a "
            "collection.",
        ),
    ],
    annotator: Annotated[str, typer.Option(help="Who labels; written with every label.")],
    out: Annotated[
        Path | None,
        typer.Option(
            help="Labels file, to begin or go on with; labels-ANNOTATOR.jsonl if not said."
        ),
    ] = None,
    port: Annotated[int, typer.Option(help="0: any that is free.", min=0, max=65535)] = 0,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Print the address only.")
    ] = False,
    blind: Annotated[bool, typer.Option("--blind", help="Never show the judge's labels.")] = False,
) -> None:
    """Label pairs, nuggets or answers on a page in the browser.

    Each label is on the disk before the page shows the next task; the same command goes on where
    it was left.
    """
    from freshstack_dspy.errors import ConfigError
    from freshstack_dspy.labelling.label_file import LabelFile
    from freshstack_dspy.labelling.server import ADDRESS, Labelling, serve
    from freshstack_dspy.labelling.tasks import Tasks

    out = out or Path(f"labels-{annotator}.jsonl")
    check_out(out, replace=True)
    tasks = Tasks.open(target)
    if not tasks.by_id or not annotator.strip():
        what = "--annotator is empty" if tasks.by_id else f"{target}: there is nothing to label"
        raise ConfigError(what)
    out.parent.mkdir(parents=True, exist_ok=True)
    token = secrets.token_urlsafe(24)
    with closing(LabelFile(out, annotator, tasks.by_id, tasks.collection)) as file:
        try:
            listener = socket.create_server((ADDRESS, port))
        except OSError as error:
            raise ConfigError(f"port {port}: {error.strerror}; give another --port") from None
        address = f"http://{ADDRESS}:{listener.getsockname()[1]}/?token={token}"
        print(address, flush=True)
        if not no_browser:
            threading.Thread(target=webbrowser.open, args=[address], daemon=True).start()
        serve(Labelling(tasks, file, annotator, token, blind=blind).app(), listener)
        file.check()
        complain(f"{counted(len(file.labels), 'task')} of {len(tasks.by_id):,} labelled, in {out}")
