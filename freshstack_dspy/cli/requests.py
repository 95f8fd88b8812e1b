"""`freshstack requests`: what waits for a reply, how it is sent, and the replies that came."""

import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from freshstack_dspy.cli.lines import complain, say

if TYPE_CHECKING:
    from freshstack_dspy.config import BuildConfig
    from freshstack_dspy.lm.batch.jobs import Batches, Job, Plan

FIRST_WAIT = 5.0
LONGEST_WAIT = 300.0
_STILL_WAITING = 3

app = typer.Typer(
    help="Deferred requests: answered elsewhere, imported here.", no_args_is_help=True
)

ConfigArgument = Annotated[Path, typer.Argument(help="The build's TOML file.")]


@app.command("export")
def export_requests(
    config: ConfigArgument,
    out: Annotated[Path, typer.Option(help="File to write, in the OpenAI batch format.")],
) -> None:
    """Write the requests that wait for a reply, those of earlier configurations too."""
    from freshstack_dspy.cli.outputs import check_collection, check_inputs, inputs_of
    from freshstack_dspy.config import load_judging
    from freshstack_dspy.lm.batch.deferred import write_asks
    from freshstack_dspy.lm.store import ReplyStore

    settings = load_judging(config)
    check_inputs(out, config, *inputs_of(settings))
    check_collection(out, settings.out)
    with closing(ReplyStore(settings.cache.path)) as store:
        asks = list(store.deferred())
    written = write_asks(asks, out)
    others = sum(ask.model != settings.model.name for ask in asks)
    note = f", {others} of them to another model than {settings.model.name}" if others else ""
    say(f"{out}: {written} requests{note}")


@app.command("import")
def import_(
    replies: Annotated[Path, typer.Argument(help="The replies: a batch's output, or by hand.")],
    config: ConfigArgument,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace recorded replies; the old ones are kept.")
    ] = False,
) -> None:
    """Record replies to deferred requests.

    Nothing that is recorded is overwritten, unless with --replace.
    """
    from freshstack_dspy.config import load_judging
    from freshstack_dspy.lm.batch.deferred import import_replies
    from freshstack_dspy.lm.store import ReplyStore

    settings = load_judging(config)
    with closing(ReplyStore(settings.cache.path)) as store:
        report = import_replies(
            store,
            replies,
            settings.prices,
            account=settings.name,
            model=settings.model,
            replace=replace,
        )
    say(str(report))
    for reason in report.reasons:
        say(f"  {reason}")
    if report.faulty:
        raise typer.Exit(1)


@app.command()
def submit(
    config: ConfigArgument,
    requests: Annotated[
        Path | None,
        typer.Option(help="The requests file; by default the one that a deferred build writes."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what it would send and cost, and stop.")
    ] = False,
    forget: Annotated[
        str | None,
        typer.Option(help="Give a pending submission up first, and send its requests anew."),
    ] = None,
) -> None:
    """Send deferred requests to the provider's batch API.

    What is underway already is not sent again. With a [budget], the most that it can cost must fit.
    """
    from freshstack_dspy.config import load_judging
    from freshstack_dspy.lm.batch.jobs import Batches
    from freshstack_dspy.lm.store import ReplyStore

    settings = load_judging(config)
    file = requests or settings.cache.path.parent / "requests" / f"{settings.name}.jsonl"
    with closing(ReplyStore(settings.cache.path)) as store:
        batches = Batches(settings, store)
        if forget is not None:
            _forget(batches, forget)
        with batches.at_work():
            planned = batches.plan(file)
            _say_plan(planned, settings, file)
            batches.check_over_budget(planned)
            if dry_run:
                return
            for job in batches.send(planned):
                say(f"{job.submission}: batch {job.batch_id} with {len(job.keys)} requests")
    if planned.requests:
        say(f"go on with: freshstack requests status {config} --wait")


@app.command()
def status(
    config: ConfigArgument,
    wait: Annotated[
        bool, typer.Option("--wait", help="Go on until every batch has ended.")
    ] = False,
) -> None:
    """Ask how the submitted batches stand, and import what has ended.

    Exit code 3: batches are underway; 1: something failed, and waits again.
    """
    from freshstack_dspy.config import load_judging
    from freshstack_dspy.errors import TransientModelError
    from freshstack_dspy.lm.batch.jobs import Batches
    from freshstack_dspy.lm.store import ReplyStore

    settings = load_judging(config)
    pause = FIRST_WAIT
    shown: dict[str, str] = {}
    with closing(ReplyStore(settings.cache.path)) as store:
        batches = Batches(settings, store)
        begun = frozenset(job.submission for job in batches.folder.pending())
        while True:
            try:
                jobs = _look(batches, shown)
            except TransientModelError as error:
                if not wait:
                    raise
                complain(f"{error}; asking again in {pause:.0f} s")
            else:
                if not wait or not any(job.pending and not batches.is_of_other_model(job) for job in jobs):
                    break
            time.sleep(pause)
            pause = min(pause * 1.5, LONGEST_WAIT)
        waiting = sum(1 for _ in store.deferred())
    _conclude(jobs, begun, waiting, config)


def _forget(batches: "Batches", submission: str) -> None:
    job = batches.forget(submission)
    made = (
        f"; its batch {job.batch_id} goes on at the provider and costs what it costs: cancel it "
        "there, or import its output by hand"
        if job.batch_id
        else ""
    )
    say(f"{submission}: given up{made}")


def _say_plan(planned: "Plan", config: "BuildConfig", file: Path) -> None:
    from freshstack_dspy.lm.budget import amount

    reasons = (
        (planned.underway, "underway already"),
        (planned.answered, "answered already"),
        (planned.unknown, "not waiting here"),
        (planned.other_model, f"not to {config.model.name} where [model] asks it"),
    )
    left_out = "".join(f"; {count} {why}" for count, why in reasons if count)
    say(f"{file}: {planned.requests} requests to send, in {_batches(len(planned.parts))}{left_out}")
    if planned.requests:
        cost = (
            f"${planned.batch.dollars:.4f} as batches, ${planned.live.dollars:.4f} live"
            if planned.priced
            else f"nobody says what {config.model.name} costs (see [prices])"
        )
        say(f"at most {amount('tokens', planned.batch)} tokens; {cost}")


def _look(batches: "Batches", shown: dict[str, str]) -> "list[Job]":
    """Look after all jobs once, and say of each what is new."""
    jobs = []
    with batches.at_work():
        for job in batches.look():
            jobs.append(job)
            text = _said(job, foreign=job.pending and batches.is_of_other_model(job))
            if text is not None and shown.get(job.submission) != text:
                _say_job(job, text, say)
                shown[job.submission] = text
    return jobs


def _said(job: "Job", *, foreign: bool) -> str | None:
    if job.step == "dropped" and job.batch_id is None:
        return None
    if foreign:
        where = f"{job.model} at {job.endpoint}"
        return f"{job.submission}: sent to {where}: put that into [model] to ask how it stands"
    start = f"{job.submission}: batch {job.batch_id}"
    if job.step == "dropped":
        return f"{start} was given up"
    done = f"{job.completed} of {len(job.keys)} done" + (
        f", {job.failed} failed" if job.failed else ""
    )
    if job.report is None:
        return f"{start} {job.status}: {done}"
    lost = f"; {job.unanswered} not answered" if job.unanswered else ""
    return f"{start} {job.status}: {done}; {job.report.summary()}{lost}"


def _say_job(job: "Job", text: str, tell: Callable[[str], None]) -> None:
    tell(text)
    for why in (*job.faults, *(job.report.reasons if job.report else ())):
        tell(f"  {why}")


def _conclude(jobs: "list[Job]", begun: frozenset[str], waiting: int, config: Path) -> None:
    """Say how to go on, and end with the code that a script can go by."""
    pending = sum(job.pending for job in jobs)
    if pending:
        say(f"{_batches(pending)} underway; {waiting} requests wait for a reply")
        raise typer.Exit(_STILL_WAITING)
    if not jobs:
        say(f"nothing was submitted yet: freshstack requests submit {config}")
    elif any(job.submission in begun and _incomplete(job) for job in jobs):
        say(f"what has no reply waits again; send it with: freshstack requests submit {config}")
        raise typer.Exit(1)
    else:
        say(f"go on with: freshstack build {config} --mode defer")


def _incomplete(job: "Job") -> bool:
    return job.report is None or job.report.faulty or job.unanswered > 0


def _batches(number: int) -> str:
    return f"{number} batch{'' if number == 1 else 'es'}"
