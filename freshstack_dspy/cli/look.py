"""`freshstack status`, `doctor`, `audit`, `skill`, `show`, `explain`, `diagnose`, `diff`: what is in a collection, and how it came about."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import freshstack_dspy as fs
from freshstack_dspy.cli.command import (
    Form,
    FromZero,
    Outcome,
    SlicesNamed,
    Written,
    command,
    slices_named,
)
from freshstack_dspy.pages.page import Page, Text
from freshstack_dspy.pages.shown import Shown
from freshstack_dspy.progress import ProgressBars


@command
def status(source: Path) -> Shown:
    """Say what there is, what it may be trusted for, and what to type next.

    Args:
        source: TOML file of a build, or folder of a collection.
    """
    from freshstack_dspy.recipes.status import status as status_of

    with ProgressBars() as bars:
        return status_of(source, progress=bars)


@command
def doctor(config: Path, *, ask: bool = False) -> Outcome:
    """Try keys, prices, models, programs, documents, index and disk; nothing is paid for.

    Args:
        ask: Also send one small typed request to each model.
    """
    from freshstack_dspy.recipes.doctor import doctor as checked

    with ProgressBars() as bars:
        checkup = checked(config, ask=ask, progress=bars)
    return Outcome(checkup, code=int(checkup.faults > 0))


@command
def audit(collection: Path, *, config: Path | None = None) -> Shown:
    """Look for faults in labels, as those of a golden set; no model is asked, nothing changed.

    Args:
        config: TOML file with [model] and [judge]: also say what judging unjudged chunks costs.
    """
    with ProgressBars() as bars:
        return fs.audit(collection, config, progress=bars)


@command
def skill(*, form: Form | None = None) -> Written:
    """Print how a coding agent uses freshstack: a skill, SKILL.md."""
    text = (Path(__file__).parent / "skill/SKILL.md").read_text(encoding="utf-8")
    if form is None:
        print(text, end="")
    return Written(Page("", data={"text": text}))


@command
def show(collection: Path, query: str | None = None, *, slices: SlicesNamed = None) -> Page:
    """List the queries, or one query with its nuggets and chunks.

    Args:
        query: Id of a query.
    """
    from freshstack_dspy.views.queries import queries_page, query_page

    loaded = fs.Collection.load(collection)
    if query is None:
        return queries_page(loaded, slices_named(slices) or "all")
    return query_page(loaded, query)


@command
def explain(collection: Path, query: str, chunk: str, *, config: Path | None = None) -> Outcome:
    """Say what found a chunk for a query, who judged it, and why.

    Args:
        query: Id of a query; `freshstack show` lists them.
        chunk: Id of a chunk that was pooled or judged for it.
        config: The build's TOML file: its [cache] says where replies are recorded.
    """
    from freshstack_dspy.recipes.session import open_replies

    with ExitStack() as stack:
        replies: Any = ()
        if config is not None:
            replies = stack.enter_context(open_replies(fs.load_config(config), "replay"))
        explanation = fs.explain(collection, query, chunk, replies=replies)
    hint = "--config BUILD.toml shows the call; with --json also its prompt and reply"
    if config:
        hint = f"no reply found where {config} says"
    missing = any(call.reply is None for call in explanation.calls)
    return Outcome(explanation, hints=[Text(hint)] if missing else [])


@command
def diagnose(collection: Path) -> Shown:
    """Say what each technique and retriever gave to the pool, and what it may lack."""
    diagnosis = fs.Collection.load(collection).diagnose()
    about = diagnosis.about.model_copy(update={"path": collection})
    return diagnosis.model_copy(update={"about": about})


@command
def diff(before: Path, after: Path, *, limit: FromZero = 5) -> Page:
    """Show which queries, nuggets, labels and evidence differ between two collections.

    Args:
        before: Folder of a collection.
        after: Folder of another, or of a later state of it.
        limit: The most nuggets and labels listed of each kind.
    """
    difference = fs.Collection.load(before).diff(after)
    return difference.page(f"{before} → {after}", limit)
