"""`freshstack replies` and `freshstack requests`: recorded replies, and requests that wait for one."""

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import freshstack_dspy as fs
from freshstack_dspy.cli.command import (
    Asking,
    AtLeastOne,
    Form,
    Outcome,
    Written,
    asking,
    check_out,
    command,
    complain,
    say,
    to_type,
    wrote,
)
from freshstack_dspy.pages.page import Page, Text, counted

if TYPE_CHECKING:
    from freshstack_dspy.config import BuildConfig
    from freshstack_dspy.lm.batch.jobs import Batches, Job, Submission

FIRST_WAIT = 5.0
LONGEST_WAIT = 300.0
_STILL_WAITING = 3
_MOST_REASONS = 20

replies = typer.Typer(name="replies", help="Recorded replies: bundles out and in, and a check.")
requests = typer.Typer(
    name="requests", help="Deferred requests: answered here, as batches, or elsewhere."
)


@replies.command("export")
@command
def export_replies(
    config: Path,
    *,
    out: Path | None = None,
    replace: bool = False,
    everything: Annotated[bool, typer.Option("--all")] = False,
) -> Written:
    """Write what the built collection used as a bundle: replies, searches, vectors and scores.

    With it `freshstack build CONFIG --mode replay` needs nothing else. Without --out it is
    NAME.jsonl.zst here; a name that ends in .zst is compressed.

    Args:
        everything: All that the store holds, also for answer and contexts.
    """
    from freshstack_dspy.config import load_judging
    from freshstack_dspy.lm.bundle import write_bundle
    from freshstack_dspy.recipes import provenance

    settings = load_judging(config)
    out = out or Path(f"{settings.name}.jsonl.zst")
    check_out(out, replace=replace)
    if everything:
        with closing(fs.ReplyStore(settings.cache.path, read_only=True)) as store:
            written = write_bundle((key for key, _ in store.lines()), store, out)
    else:
        written = provenance.export_replies(settings, out)
    return wrote(out, f"{out}: {counted(written, 'reply', 'replies')}", replies=written)


@replies.command("import")
@command
def import_bundle(bundle: Path, config: Path, *, replace: bool = False) -> Written:
    """Take the replies of a bundle into the build's store.

    Where the store has another reply to a request, that one stays, and the exit code is 1.

    Args:
        bundle: Recorded replies: JSON Lines, or .zst.
        replace: Replace other replies, which stay under a number.
    """
    from freshstack_dspy.lm.bundle import Bundle, merge_bundle

    settings = fs.load_config(config)
    with closing(Bundle(bundle)) as given, closing(fs.ReplyStore(settings.cache.path)) as store:
        report = merge_bundle(given, store, replace=replace)
    return Written(_page(report), code=int(bool(report.conflicts)))


@replies.command("verify")
@command
def verify_replies(path: Path) -> Outcome:
    """Check every recorded reply; the exit code is 1 if one is damaged.

    Args:
        path: A store's folder, a bundle, or a build's TOML file for its own.
    """
    from freshstack_dspy.lm.bundle import verify
    from freshstack_dspy.lm.store import holds_store

    if path.suffix == ".toml":
        cache = fs.load_config(path).cache
        stores = [cache.path] if holds_store(cache.path) or not cache.bundles else []
        reports = [verify(each) for each in (*stores, *cache.bundles)]
    else:
        reports = [verify(path)]
    damaged = [f"{name}: {why}" for each in reports for name, why in each.damaged.items()]
    lines = tuple(Text(str(report)) for report in reports)
    return Outcome(Page("", lines, reports), complaints=damaged[:100], code=int(bool(damaged)))


@requests.command("next")
@command
def next_(
    config: Path,
    *,
    max_tokens: AtLeastOne = 30_000,
    out: Path | None = None,
    replace: bool = False,
    form: Form | None = None,
) -> Written:
    """Hand out the next waiting requests as one text, to be answered by an agent or a person.

    Args:
        max_tokens: How long the text may be.
    """
    from freshstack_dspy.config import load_judging
    from freshstack_dspy.files import write_file
    from freshstack_dspy.lm.batch.deferred import next_requests, requests_waiting

    check_out(out, replace=replace)
    settings = load_judging(config)
    with closing(fs.ReplyStore(settings.cache.path)) as store:
        requests = requests_waiting(store, settings)
    text, number, waiting = next_requests(requests, config, max_tokens=max_tokens)
    about: dict[str, Any] = {"requests": number, "waiting": waiting}
    if not text:
        return wrote([], "no request waits", _on(settings, config), **about)
    if out is not None:
        write_file(out, text)
        line = f"{out}: {number:,} of {counted(waiting, 'waiting request')}"
        return wrote(out, line, **about)
    if form is None:
        print(text)
    return wrote([], text=text, **about)


@requests.command()
@command
def answer(
    config: Path,
    *,
    source: Annotated[Path | None, typer.Option("--from", metavar="FILE")] = None,
    log: Path | None = None,
) -> Written:
    """Record replies to deferred requests: from a file, or else by sending them to [model].

    Each line of a file is {"custom_id": …, "content": …}, a text or the JSON object that was asked
    for, which replaces what was recorded; or what a batch API gives back. The exit code is 1 if a
    line brought no reply, or a request has none for good. What is recorded is not sent again.

    Args:
        source: Replies: by hand, by an agent, or a batch's output.
    """
    from freshstack_dspy.config import load_judging

    settings = load_judging(config)
    if source is not None:
        return _record(settings, source, config)
    from freshstack_dspy.recipes.requests import answer_requests

    with asking(Asking(log=log)) as (options, bars):
        found = answer_requests(settings, bars, options.get("callback"))
    reasons = [f"{count} x {why}" for why, count in found.failed.items()]
    page = _page(found, reasons)
    return Written(page, [_on(settings, config)], code=int(bool(found.failed)))


def _page(report: Any, reasons: Sequence[str] = ()) -> Page:
    """Give the page of a report, and of the first reasons why something failed."""
    lines = [Text(str(report)), *(Text(each, indent=1) for each in reasons[:_MOST_REASONS])]
    if (more := len(reasons) - _MOST_REASONS) > 0:
        lines.append(Text(f"and {more:,} more", indent=1))
    return Page("", tuple(lines), report)


def _on(settings: "BuildConfig", config: Path) -> Text:
    """Name the command that wrote the requests, to be repeated."""
    from freshstack_dspy.lm.batch.deferred import kept_command, requests_file

    if (kept := kept_command(requests_file(settings))) is not None:
        return to_type("go on with", kept)
    what = "go on with the command that wrote the requests, such as"
    return to_type(what, f"freshstack build {config} --mode defer")


def _record(settings: "BuildConfig", source: Path, config: Path) -> Written:
    """Record the replies of a file."""
    from freshstack_dspy.lm.batch.deferred import import_replies, keys_in, requests_file
    from freshstack_dspy.recipes.requests import fault_in_reply

    file = requests_file(settings)
    with closing(fs.ReplyStore(settings.cache.path)) as store:
        report = import_replies(
            store,
            source,
            settings.prices,
            account=settings.name,
            model=settings.model,
            keys=keys_in(file) if file.is_file() else (),
            fault=fault_in_reply,
        )
    hints = []
    if report.waiting:
        hints.append(to_type("the next requests", f"freshstack requests next {config}"))
    elif report.imported or report.replaced:
        hints.append(_on(settings, config))
    return Written(_page(report, report.reasons), hints, code=int(report.faulty))


@requests.command()
@command
def submit(config: Path, *, dry_run: bool = False, form: Form | None = None) -> Written:
    """Send the requests that the last deferred build wrote to the provider's batch API.

    What is underway already is not sent again. With a [budget], the most that it can cost must fit.

    Args:
        dry_run: Print what it would send and cost, and stop.
    """
    from freshstack_dspy.config import load_judging
    from freshstack_dspy.lm.batch.jobs import Batches

    settings = load_judging(config)
    planned: list[dict[str, Any]] = []
    sent: list[dict[str, Any]] = []
    with closing(fs.ReplyStore(settings.cache.path)) as store:
        for model in settings.models:
            batches = Batches(settings, store, model)
            if len(settings.models) > 1 and not any(batches.to_send(Counter())):
                continue
            with batches.at_work():
                submission = batches.plan()
                about = {"model": model.name, "requests": submission.requests}
                about |= {"batches": len(submission.parts), "left_out": submission.left_out}
                planned.append(about | {"cost": submission.batch if submission.priced else None})
                if form is None:
                    _print_plan(submission, model.name)
                batches.check_budget(submission)
                for job in () if dry_run else batches.send(submission):
                    ids = {"submission": job.submission, "batch_id": job.batch_id}
                    sent.append(ids | {"requests": len(job.keys)})
                    if form is None:
                        say(f"{job.submission}: batch {job.batch_id} with {len(job.keys)} requests")
    waits = any(each["requests"] for each in planned)
    hints = [to_type("go on with", f"freshstack requests status {config} --wait")] if waits else []
    return Written(Page("", data={"planned": planned, "sent": sent}), hints)


@requests.command()
@command
def status(config: Path, *, wait: bool = False, form: Form | None = None) -> Outcome:
    """Ask for the status of the submitted batches, and import what has ended.

    Exit code 3: batches are underway; 1: something failed, and waits again.

    Args:
        wait: Wait until every batch has ended.
    """
    from freshstack_dspy.config import load_judging
    from freshstack_dspy.errors import TransientModelError
    from freshstack_dspy.lm.batch.deferred import requests_waiting
    from freshstack_dspy.lm.batch.jobs import Batches

    settings = load_judging(config)
    pause = FIRST_WAIT
    shown: dict[str, str] = {}
    jobs: list[Job] = []
    with closing(fs.ReplyStore(settings.cache.path)) as store:
        batches = Batches(settings, store)
        submitted = {one.model for one in batches.folder.pending()}
        asked = [settings.model, *(one for one in settings.models[1:] if one.name in submitted)]
        begun = frozenset(job.submission for job in batches.folder.pending())
        while True:
            try:
                for model in asked:
                    one = Batches(settings, store, model)
                    with one.at_work():
                        jobs = list(one.look())
                if form is None:
                    _print_news(batches, jobs, shown)
                ours = [job for job in jobs if job.pending and not batches.is_of_no_model(job)]
                if not (wait and ours):
                    break
            except TransientModelError as error:
                if not wait:
                    raise
                complain(f"{error}; asking again in {pause:.0f} s")
            time.sleep(pause)
            pause = min(pause * 1.5, LONGEST_WAIT)
        waiting = len(requests_waiting(store, settings))
    advice, code = _end(jobs, begun, waiting, settings, config)
    return Outcome(Page("", data={"waiting": waiting, "batches": jobs}), [advice], code=code)


def _print_plan(planned: "Submission", model: str) -> None:
    from freshstack_dspy.lm.budget import amount

    left_out = "".join(f"; {count} {why}" for why, count in sorted(planned.left_out.items()))
    batches = counted(len(planned.parts), "batch", "batches")
    say(f"{counted(planned.requests, 'request')} to send, in {batches}{left_out}")
    if planned.requests:
        cost = f"${planned.batch.dollars:.4f} as batches, ${planned.live.dollars:.4f} live"
        if not planned.priced:
            cost = f"the price of {model} is not known (see [prices])"
        say(f"at most {amount('tokens', planned.batch)} tokens; {cost}")


def _print_news(batches: "Batches", jobs: "list[Job]", shown: dict[str, str]) -> None:
    """Print the status of each job that has another one than when it was last printed."""
    for job in jobs:
        text = f"{job.submission}: {_status_of(job)}"
        if job.pending and batches.is_of_no_model(job):
            where = f"{job.model} at {job.endpoint}"
            text = f"{job.submission}: sent to {where}: put that into [model] to ask for its status"
        never_made = job.step == "dropped" and job.batch_id is None
        if not never_made and shown.get(job.submission) != text:
            shown[job.submission] = text
            say(text)
            for why in (*job.faults, *(job.report.reasons if job.report else ())):
                say(f"  {why}")


def _status_of(job: "Job") -> str:
    if job.step == "dropped":
        return f"batch {job.batch_id} was dropped"
    text = f"batch {job.batch_id} {job.status}: {job.completed} of {len(job.keys)} done"
    text += f", {job.failed} failed" if job.failed else ""
    text += f"; {job.report.summary()}" if job.report else ""
    return text + (f"; {job.unanswered} not answered" if job.unanswered else "")


def _end(
    jobs: "list[Job]",
    begun: frozenset[str],
    waiting: int,
    settings: "BuildConfig",
    config: Path,
) -> tuple[Text, int]:
    """Say how to go on, and the exit code that a script can go by."""
    pending = sum(job.pending for job in jobs)
    incomplete = any(
        job.submission in begun and (job.report is None or job.report.faulty or job.unanswered > 0)
        for job in jobs
    )
    from freshstack_dspy.lm.request import BY_HAND

    by_hand = settings.model.name.startswith(BY_HAND)
    submit = f"freshstack requests {'next' if by_hand else 'submit'} {config}"
    if pending:
        batches = counted(pending, "batch", "batches")
        advice = Text(f"{batches} underway; {counted(waiting, 'request')} waiting for a reply")
    elif not jobs:
        advice = to_type("nothing was submitted yet; send the requests with", submit)
    elif incomplete:
        advice = to_type("requests without a reply wait again; send them with", submit)
    else:
        advice = _on(settings, config)
    return advice, _STILL_WAITING if pending else int(incomplete)
