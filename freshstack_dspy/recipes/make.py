"""What every verb does: build, plan, refresh, stale, extend and rejudge.

A verb opens a session, runs steps on what it begins with, and finishes what they made: it compares,
writes, or says what would be asked.
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from dataclasses import replace as with_changes
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar, Unpack

from freshstack_dspy.collection.collection import Collection, write_collection
from freshstack_dspy.config import BuildConfig
from freshstack_dspy.corpus.parquet import ChunkFile
from freshstack_dspy.lm.telemetry import span
from freshstack_dspy.progress import Progress, showing
from freshstack_dspy.recipes.chunking import commit_dates
from freshstack_dspy.recipes.opening import SessionOptions, check_options, open_session
from freshstack_dspy.recipes.prepare import prepare
from freshstack_dspy.recipes.provenance import provenance
from freshstack_dspy.recipes.session import Replies, Session, open_replies
from freshstack_dspy.stored.contents import Contents
from freshstack_dspy.stored.manifest import Provenance
from freshstack_dspy.stored.slices import slice_queries

if TYPE_CHECKING:
    from freshstack_dspy.recipes.dry import DryRun
    from freshstack_dspy.recipes.flow import Stages, Work

Result = TypeVar("Result")


@dataclass(frozen=True)
class Made:
    """What the steps of a verb made; its session is still open."""

    config: BuildConfig
    """As it was given, with repositories at their commits."""
    session: Session
    work: "Work"
    contents: Contents
    _dry_run: "DryRun | None" = None

    @property
    def dry_run(self) -> "DryRun":
        """What counted the requests, where none was sent."""
        assert self._dry_run is not None
        return self._dry_run

    @cached_property
    def chunks(self) -> ChunkFile:
        """Those of the corpora; `contents.passages` are more."""
        chunks = self.work.corpus.chunks()
        return chunks if isinstance(chunks, ChunkFile) else ChunkFile.holding(chunks)

    def described(
        self, inputs: Mapping[str, str] | None = None, before: Collection | None = None
    ) -> Provenance:
        """Describe how it was made; see `provenance`."""
        dates = commit_dates(self.config)
        return provenance(self.session, self.contents, inputs, dates, self.chunks, before)

    def write(self, described: Provenance) -> Collection:
        """Write the collection to its folder."""
        rejected = self.work.reading.rejected
        return write_collection(
            self.config.out, self.contents, self.chunks, described, rejected=rejected
        )


def run(
    config: BuildConfig,
    finish: Callable[[Made], Result],
    *,
    before: Collection | None = None,
    stages: "Stages | None" = None,
    existing: Callable[[BuildConfig, Replies, Progress], Result | None] | None = None,
    check: Callable[[Session], object] | None = None,
    most: int | None = None,
    dry: bool = False,
    **options: Unpack[SessionOptions],
) -> Result:
    """Run a verb.

    Args:
        config: A configuration that is complete; see `configured`.
        finish: What becomes of what was made.
        before: A collection whose judgments, nuggets and expansions are reused.
        stages: Steps over the corpus of `before`; by default all of the recipe, over that of the
            configuration.
        existing: Checks what is there, and gives the result where there is nothing to make.
        check: Checks the session before anything is asked.
        most: How many of the questions are taken; by default all.
        dry: Whether nothing is sent and written.
        options: See `SessionOptions`.

    Raises:
        FreshstackError: See `build`.
    """
    check_options(options)
    mode = options.get("mode", "live")
    recipe, programs = options.get("recipe"), options.get("programs")
    replies, dry_run = None, None
    with ExitStack() as stack:
        options["progress"] = progress = stack.enter_context(showing(options.get("progress")))
        if stages is None:
            config = prepare(config, mode, progress, dry=dry)
        if existing is not None:
            replies = stack.enter_context(open_replies(config, mode))
            if (result := existing(config, replies, progress)) is not None:
                return result
        if dry:
            from freshstack_dspy.recipes.dry import dry_session

            opened = dry_session(config, progress, recipe, programs)
            session, dry_run = stack.enter_context(opened)
        else:
            searching = stages is None
            session = stack.enter_context(
                open_session(config, replies=replies, searching=searching, **options)
            )
        if check is not None:
            check(session)
        from freshstack_dspy.recipes.chunking import ChunkedCorpora
        from freshstack_dspy.recipes.flow import Work, run_stages
        from freshstack_dspy.recipes.known import NOTHING, Known
        from freshstack_dspy.recipes.pooling import Searches

        known = Known(before) if before is not None else NOTHING
        cut = ChunkedCorpora(before.corpus) if before is not None and stages is not None else None
        work = Work(session, session.recipe, Searches(session, cut), known, most)
        contents = Contents()
        if stages is None:
            with span("corpus"):
                contents = session.recipe.begin(work, contents)
        contents = run_stages(work, contents, stages or session.recipe.stages)
        if stages is None:
            threshold = session.config.judge.graded.threshold
            slices = slice_queries(
                contents.queries, contents.nuggets, contents.judgments, threshold, contents.pool
            )
            contents = with_changes(contents, slices=tuple(slices))
        return finish(Made(config, session, work, contents, dry_run))
