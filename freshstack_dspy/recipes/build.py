"""Build a judged collection, or find that the one at `out` is what a build would make.

A build is a pure function of its configuration, its inputs and the replies. It keeps no state of
its own: kill it at any moment and run it again, and only what was in flight is asked again.
"""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace as with_changes
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Unpack

from freshstack_dspy.collection.collection import Collection, write_collection
from freshstack_dspy.config import BuildConfig
from freshstack_dspy.corpus.parquet import ChunkFile
from freshstack_dspy.files import only_writer
from freshstack_dspy.lm.telemetry import span
from freshstack_dspy.progress import one_part, report, showing
from freshstack_dspy.recipes.chunking import commit_dates
from freshstack_dspy.recipes.opening import (
    SessionOptions,
    check_options,
    configured,
    open_session,
)
from freshstack_dspy.recipes.prepare import prepare
from freshstack_dspy.recipes.provenance import (
    fingerprint_inputs,
    provenance,
    unchanged,
)
from freshstack_dspy.recipes.session import Session, open_replies
from freshstack_dspy.stored.contents import Contents
from freshstack_dspy.stored.slices import slice_queries

if TYPE_CHECKING:
    from freshstack_dspy.questions.reading import QueryReading
    from freshstack_dspy.recipes.known import Known

UNCHANGED = "unchanged"
"""The one step of a build that finds the collection as it would make it."""


def build(
    config: BuildConfig | Path | str,
    *,
    replace: bool = False,
    **options: Unpack[SessionOptions],
) -> Collection:
    """Build the collection that a configuration describes, and write it to its folder.

    Args:
        config: A configuration, or the path of its TOML file.
        replace: Whether a collection at `out` that was built with other settings is replaced.
        options: Mode, progress, provider and the like; see `SessionOptions`.

    Returns:
        The collection, as it is on disk.

    Raises:
        BudgetError: The budget is used up; what was answered is recorded, and a larger one goes on.
        DeferredError: In mode `defer`, requests were written down; answer and import them.
        FreshstackError: Anything else that stops a build, in one line.
    """
    check_options(options)
    config = configured(config, options)
    with span("build", collection=config.name), only_writer(config.out, "freshstack build"):
        return _build(config, replace=replace, **options)


def _build(
    config: BuildConfig, *, replace: bool = False, **options: Unpack[SessionOptions]
) -> Collection:
    mode = options.get("mode", "live")
    with showing(options.get("progress")) as progress, ExitStack() as stack:
        options["progress"] = progress
        recipe, programs = options.get("recipe"), options.get("programs")
        config = prepare(config, mode, progress, replace=replace, recipe=recipe, programs=programs)
        with span("inputs"), one_part(progress, "inputs"):
            inputs = fingerprint_inputs(config, recipe, programs)
            replies = stack.enter_context(open_replies(config, mode))
            found = unchanged(config, mode, inputs, replies)
        if found is not None:
            report(progress, UNCHANGED, "same inputs, same replies: nothing to build")
            return found
        session = stack.enter_context(open_session(config, replies=replies, **options))
        made = make(session)
        with span("collection"), one_part(progress, "collection"):
            described = provenance(
                session, made.contents, inputs, commit_dates(config), made.chunks
            )
            collection = write_collection(
                config.out,
                made.contents,
                made.chunks,
                described,
                rejected=made.reading.rejected,
            )
    return collection


class DraftCollection(NamedTuple):
    """A collection that is not written yet."""

    contents: Contents
    chunks: ChunkFile
    """Those of the corpora; `contents.passages` are more."""
    reading: "QueryReading"
    """All its questions, and how many were left out."""
    little_overlap: Mapping[str, float]
    """Questions that use words that the corpus lacks, by id; see `check_overlap`."""


def make(
    session: Session, known: "Known | None" = None, *, most: int | None = None
) -> DraftCollection:
    """Make a collection: begin as the recipe does, and run its stages.

    Args:
        session: Whom it asks, by which recipe.
        known: What is reused.
        most: How many of the questions are taken; by default all.
    """
    from freshstack_dspy.recipes.flow import run_stages
    from freshstack_dspy.recipes.known import NOTHING

    with span("corpus"):
        begun = session.recipe.begin(session, known or NOTHING, most)
    made = run_stages(begun.work, begun.made, session.recipe.stages)
    threshold = session.config.judge.graded.threshold
    slices = slice_queries(made.queries, made.nuggets, made.judgments, threshold, made.pool)
    contents = with_changes(made, slices=tuple(slices))
    given = begun.work.corpus.chunks()
    chunks = given if isinstance(given, ChunkFile) else ChunkFile.holding(given)
    return DraftCollection(contents, chunks, begun.reading, begun.little_overlap)
