"""`freshstack label`: the page on which people label."""

import os
import secrets
import socket
import sys
import threading
import webbrowser
from contextlib import ExitStack
from html import escape
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlencode

import typer

from freshstack_dspy.cli.command import Form, Written, check_out, command, complain, to_type, wrote
from freshstack_dspy.pages.page import counted

if TYPE_CHECKING:
    from freshstack_dspy.labelling.tasks import Tasks


@command
def label(
    target: Annotated[Path, typer.Argument(metavar="COLLECTION|TASKS")],
    *,
    annotator: str | None = None,
    out: Path | None = None,
    labels: list[Path] | None = None,
    query: str = "",
    port: Annotated[int, typer.Option(min=0, max=65535)] = 0,
    no_browser: bool = False,
    blind: bool = False,
    form: Form | None = None,
) -> Written:
    """Label pairs, nuggets, answers or reports on a page; look at a collection's judgments.

    Each label is on the disk before the page shows the next task; the same command goes on where
    it was left.

    Args:
        target: Tasks that `freshstack sample` drew, to label; or a collection, to look at its
            judgments and correct them.
        annotator: Who labels; written with every label. Without it a collection is only looked at.
        out: File of labels, new or to continue; labels-ANNOTATOR.jsonl by default.
        labels: With a collection: people's labels to show too; may be repeated.
        query: With a collection: a query id, or words of a question, to begin with.
        port: The port to listen on; 0 is any free one.
        no_browser: Only print the address.
        blind: With tasks: never show the judge's labels.
    """
    from freshstack_dspy.errors import ConfigError
    from freshstack_dspy.labelling.label_file import LabelFile
    from freshstack_dspy.labelling.server import ADDRESS, Labelling, serve

    if annotator is not None and not annotator.strip():
        raise ConfigError("--annotator is empty")
    if annotator and out is None and Path(annotator).name != annotator:
        raise ConfigError(
            f"--annotator {annotator} is no file name; name the file of labels: --out"
        )
    out = out or Path(f"labels-{annotator}.jsonl")
    if annotator is not None:
        check_out(out, replace=True)
    tasks = _opened(target, labels, query, annotator, blind=blind)
    with ExitStack() as stack:
        file = None
        if annotator is not None:
            out.parent.mkdir(parents=True, exist_ok=True)
            file = LabelFile(out, annotator, tasks.by_id, tasks.collection)
            stack.callback(file.close)
        try:
            listener = socket.create_server((ADDRESS, port))
        except OSError as error:
            raise ConfigError(f"port {port}: {error.strerror}; give another --port") from None
        token = secrets.token_urlsafe(24)
        asked = {"token": token, **({"text": query} if query else {})}
        address = f"http://{ADDRESS}:{listener.getsockname()[1]}/?{urlencode(asked)}"
        print(address, flush=True, file=sys.stderr if form else sys.stdout)
        if not no_browser:
            # Everybody on this machine can read the arguments of a process, and the browser is one.
            leads = stack.enter_context(NamedTemporaryFile("w", suffix=".html"))
            leads.write(f'<meta http-equiv="refresh" content="0; url={escape(address)}">')
            leads.flush()
            shown = [Path(leads.name).as_uri()]
            threading.Thread(target=webbrowser.open, args=shown, daemon=True).start()
        serve(Labelling(tasks, file, token, blind=blind).app(), listener)
        if file is None:
            return wrote([], tasks=len(tasks.by_id))
        file.check()
        number, total = len(file.labels), len(tasks.by_id)
        done = f"{counted(number, 'task')} of {total:,} labelled, in {out}"
        folder = os.path.relpath(tasks.collection.path or target)
        hint = to_type("how far to trust the judge", f"freshstack agree {folder} {out}")
        written = wrote(out, labelled=number, tasks=total)
        return written._replace(complaints=[done], hints=[hint] * bool(number))


def _opened(
    target: Path, labels: list[Path] | None, query: str, annotator: str | None, *, blind: bool
) -> "Tasks":
    """Open tasks, or the judgments of a collection; check what is asked of either."""
    from freshstack_dspy.calibration.following import follow_all, lost_lines
    from freshstack_dspy.calibration.labels import all_labels
    from freshstack_dspy.collection.collection import Collection
    from freshstack_dspy.errors import ConfigError
    from freshstack_dspy.labelling.judged import JudgmentTasks
    from freshstack_dspy.labelling.tasks import Tasks

    if not os.path.isdir(target):  # noqa: PTH112 - False for a name that no file can have
        if annotator is None:
            raise ConfigError(f"{target}: say with --annotator who labels these tasks")
        if labels or query:
            raise ConfigError(f"{target} holds tasks; --labels and --query need a collection")
        tasks = Tasks.open(target)
    elif blind:
        raise ConfigError(
            f"{target}: a collection is shown with the judge's labels; to label without seeing "
            "them, draw tasks with: freshstack sample"
        )
    else:
        collection = Collection.load(target)
        tasks = judged = JudgmentTasks(collection)
        people, lost = follow_all(all_labels(labels or ()), collection)
        judged.add(people)
        for line in lost_lines(lost):
            complain(line)
    if not tasks.by_id:
        raise ConfigError(f"{target}: there is nothing to label")
    return tasks
