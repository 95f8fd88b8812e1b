"""What every verb does, and the two that make a whole collection: build and refresh.

A verb opens a session, runs steps on what it begins with, and finishes what they made: it compares,
writes, or says what would be asked. A build is a pure function of its configuration, its inputs and
the replies. It keeps no state of its own: kill it at any moment and run it again, and only what was
in flight is asked again.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from dataclasses import replace as with_changes
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, Unpack

from freshstack_dspy.collection.collection import Collection, write_collection
from freshstack_dspy.collection.diff import Difference, difference, write_changes
from freshstack_dspy.config import BuildConfig, EngineConfig, Mode
from freshstack_dspy.corpus.parquet import ChunkFile
from freshstack_dspy.errors import CollectionError, ConfigError, argument
from freshstack_dspy.files import check_writable, only_writer
from freshstack_dspy.languages import language_of
from freshstack_dspy.lm.telemetry import span
from freshstack_dspy.pages.page import counted
from freshstack_dspy.pages.shown import Shown
from freshstack_dspy.progress import Progress, one_part, report, showing
from freshstack_dspy.recipes.corpus import check_index, commit_dates, with_repositories
from freshstack_dspy.recipes.opening import (
    SessionOptions,
    check_options,
    configured,
    dry_session,
    open_session,
)
from freshstack_dspy.recipes.provenance import (
    LABELLING,
    added,
    effective,
    made_otherwise,
    provenance,
    shareable,
)
from freshstack_dspy.recipes.session import Session, check_mode
from freshstack_dspy.recipes.stamp import Stamp
from freshstack_dspy.stored.contents import Contents, slice_queries
from freshstack_dspy.stored.manifest import Manifest, Provenance, read_manifest
from freshstack_dspy.stored.writing import check_replaceable, is_as_written, manifest_of

if TYPE_CHECKING:
    from freshstack_dspy.recipes.flow import Stages, Work

Result = TypeVar("Result")
UNCHANGED = "unchanged"
"""The last step of a build that finds the collection as it would make it."""
_OF_THIS_RUN = {"config", "ledger", "fingerprints", "reasked", "versions", "dates"}
"""What a manifest records of how it was made, and that is no reason to write it anew; of the
configuration it is what shapes the collection."""


@dataclass(frozen=True)
class Made:
    """What the steps of a verb made; its session is still open."""

    config: BuildConfig
    """As it was given, with repositories at their commits."""
    session: Session
    work: "Work"
    contents: Contents

    @cached_property
    def chunks(self) -> ChunkFile:
        """Those of the corpora; `contents.passages` are more."""
        chunks = self.work.corpus.chunks()
        return chunks if isinstance(chunks, ChunkFile) else ChunkFile.holding(chunks)

    @cached_property
    def all_chunks(self) -> ChunkFile:
        """Those of the corpora and those that a step wrote."""
        passages = self.contents.passages
        return ChunkFile.holding([*self.chunks, *passages]) if passages else self.chunks

    def described(self, before: Collection | None = None) -> Provenance:
        """Describe how it was made; see `provenance`."""
        dates = commit_dates(self.config)
        return provenance(self.session, self.contents, dates, self.chunks, before)

    def is_in(self, before: Collection, described: Provenance) -> bool:
        """Whether a collection's folder, as it was written, holds this and nothing else."""
        rejected = self.work.reading.rejected
        contents = Contents(**self.contents.records(), threshold=described.scale.threshold)
        now = manifest_of(contents, self.all_chunks, described, rejected)
        old, fields = before.manifest, Manifest.model_fields.keys() - _OF_THIS_RUN
        same = effective(now.config) == effective(old.config)
        same = same and all(getattr(now, name) == getattr(old, name) for name in fields)
        return same and is_as_written(self.config.out)

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
    existing: Callable[[BuildConfig, Progress], Result | None] | None = None,
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
        existing: Gives the result where there is nothing to make.
        check: Checks the session before anything is asked.
        most: How many of the questions are taken; by default all.
        dry: Whether nothing is sent and written.
        options: See `SessionOptions`.

    Raises:
        FreshstackError: See `build`.
    """
    check_options(options)
    with ExitStack() as stack:
        options["progress"] = progress = stack.enter_context(showing(options.get("progress")))
        if stages is None:
            config = _prepared(config, options.get("mode", "live"), progress, dry=dry)
        if existing is not None and (result := existing(config, progress)) is not None:
            return result
        if dry:
            recipe, programs = options.get("recipe"), options.get("programs")
            opened = dry_session(config, progress, recipe, programs)
        else:
            opened = open_session(config, searching=stages is None, **options)
        session = stack.enter_context(opened)
        if check is not None:
            check(session)
        from freshstack_dspy.recipes.corpus import ChunkedCorpora
        from freshstack_dspy.recipes.flow import Work, run_stages
        from freshstack_dspy.recipes.known import NOTHING, Known
        from freshstack_dspy.recipes.pooling import Searches

        follow = session.config.judge.edited == "follow"
        known = Known(before, follow=follow) if before is not None else NOTHING
        cut = ChunkedCorpora(before.corpus) if before is not None and stages is not None else None
        work = Work(session, session.recipe, Searches(session, cut), known, most)
        if stages is not None:
            return finish(Made(config, session, work, run_stages(work, Contents(), stages)))
        with span("corpus"):
            contents = session.recipe.begin(work, Contents())
        contents = run_stages(work, contents, session.recipe.stages)
        threshold = session.config.judge.graded.threshold
        slices = slice_queries(
            contents.queries, contents.nuggets, contents.judgments, threshold, contents.pool
        )
        return finish(Made(config, session, work, with_changes(contents, slices=tuple(slices))))


def _prepared(
    config: BuildConfig, mode: Mode, progress: Progress, *, dry: bool = False
) -> BuildConfig:
    """Check what needs no work, in the order of its cost, and pin repositories to a commit.

    A replay is done on this machine, whatever `[engine]` says. With `dry` nothing will be written.
    """
    check_mode(config, mode)
    if not (config.queries.language and all(corpus.language for corpus in config.corpus)):
        language_of("A text that is long enough to be told.", config.languages)
    if config.trust.labels:
        from freshstack_dspy.calibration.labels import read_labels

        read_labels(config.trust.labels)
    check_replaceable(config.out)
    if not dry:
        check_writable(config.out)
    if mode == "replay":  # as whoever is given the replies does, without the cluster
        config = config.model_copy(update={"engine": EngineConfig()})
    else:
        check_index(config)
    return with_repositories(config, mode, progress)


# Build


def build(
    config: BuildConfig | Path | str,
    *,
    replace: bool = False,
    **options: Unpack[SessionOptions],
) -> Collection:
    """Build the collection that a configuration describes, and write it to its folder.

    A collection that is there already, with the same content, is left as it is.

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
    config = configured(config, options)
    mode = options.get("mode", "live")
    stamps: list[Stamp] = []

    def existing(config: BuildConfig, progress: Progress) -> Collection | None:
        stamps.append(Stamp(config, options))
        if mode == "rerecord" or not stamps[0].matches():
            return None
        collection = Collection.load(config.out)
        if collection.manifest.counts.failures and mode != "replay":
            return None  # which may ask again
        report(progress, UNCHANGED, "same inputs, same replies: nothing to build")
        return collection

    def finish(made: Made) -> Collection:
        progress = made.session.progress
        with span("collection"), one_part(progress, "collection"):
            described = made.described()
            with suppress(CollectionError):  # none is there, or it is damaged
                before = Collection.load(made.config.out)
                if made.is_in(before, described):
                    report(progress, UNCHANGED, "same inputs, same replies: nothing to write")
                    return before
            return made.write(described)

    with span("build", collection=config.name), only_writer(config.out, "freshstack build"):
        check = None if replace else _check_replaced
        collection = run(config, finish, existing=existing, check=check, **options)
        stamps[0].keep()
        return collection


def _check_replaced(session: Session) -> None:
    """Check that a build does not silently replace another collection, or one with labels of runs."""
    config = session.settings
    try:
        before = read_manifest(config.out)
    except CollectionError:
        return
    if before.extensions:
        names = ", ".join(dict.fromkeys(extension.run for extension in before.extensions))
        raise ConfigError(
            f"{config.out}: extended by runs ({names}), whose judgments a build would lose; type: "
            f"freshstack refresh {config.file}, which reuses them, or name another out"
        )
    others = [*_other_settings(before, config), *made_otherwise(before, session, only="programs")]
    if others:
        more = f" and {len(others) - 3} more" if len(others) > 3 else ""
        raise ConfigError(
            f"{config.out} holds the collection {before.name!r}, built with other settings: "
            f"{'; '.join(others[:3])}{more}; replace it with {argument('replace')}, or name another out"
        )


def _other_settings(before: Manifest, config: BuildConfig) -> Iterator[str]:
    """What of the configuration differs from that of the collection."""
    if not before.config:
        yield f"it was made by {before.recipe}"
        return
    then, now = map(effective, (before.config, shareable(config.resolved().model_dump())))
    then.setdefault("chunking.boundaries", "packed")  # before there was the key
    for role in LABELLING:  # that names no model of its own: it is that of [model]
        if any(key.startswith(f"{role}.model.") for key in (*now, *then)):
            for values in (now, then):
                of_model = {key: value for key, value in values.items() if key.startswith("model.")}
                for key, value in of_model.items():
                    values.setdefault(f"{role}.{key}", value)
    for values in (now, then):  # a revision is only known once a repository is fetched
        values["corpus"] = [corpus["name"] for corpus in values.get("corpus", [])]
    for key in sorted(now.keys() & then.keys()):
        if now[key] != then[key]:
            yield f"{key} = {then[key]!r}, now {now[key]!r}"


# Refresh


@dataclass(frozen=True, repr=False)
class Refreshed(Shown):
    """The collection as it is now."""

    collection: Collection
    """As it is on disk."""
    difference: Difference
    changed: bool
    """Whether the collection was written anew."""
    calls: int
    """Requests sent to the model for it; the manifest counts all since the first build."""

    def __repr__(self) -> str:
        changed = counted(self.calls, "call") if self.changed else "nothing differs"
        return f"Refreshed({self.collection!r}: {changed})"


def refresh(
    config: BuildConfig | Path | str,
    *,
    keep_labels: bool = False,
    difference_file: Path | None = None,
    **options: Unpack[SessionOptions],
) -> Refreshed:
    """Bring the collection at `out` to the state of the inputs, and say what changed.

    It is a build that reuses nuggets and expansions of unchanged questions, and judgments of
    unchanged pairs, as they are in the collection, even where their replies are lost. What failed is
    asked again with mode `rerecord` and `failed`; see `connect`.

    Args:
        config: A configuration, or the path of its TOML file; a collection is at its `out`.
        keep_labels: Whether labels that another model or prompt made are reused too.
        difference_file: Where to write each change as a line of JSON, before the collection.
        options: Mode, progress, provider and the like; see `SessionOptions`.

    Raises:
        ConfigError: No collection is there, or its labels were made otherwise.
        BudgetError: The budget is used up; what was answered is recorded, and a larger one goes on.
        DeferredError: In mode `defer`, requests were written down; answer and import them.
        FreshstackError: Anything else that stops it, in one line; the collection is as it was.
    """
    config = configured(config, options)
    if options.get("mode") == "rerecord" and not options.get("failed"):
        raise ConfigError(
            "refresh asks only for what changed or failed; allowed modes: live, replay, defer, and "
            f"rerecord with {argument('failed')}"
        )
    check_there(config)
    with span("refresh", collection=config.name), only_writer(config.out, "freshstack refresh"):
        before = Collection.load(config.out)
        check = partial(check_reusable, before.manifest, keep_labels=keep_labels)
        finish = partial(_refreshed, before, difference_file)
        return run(config, finish, before=before, check=check, **options)


def _refreshed(before: Collection, difference_file: Path | None, made: Made) -> Refreshed:
    """Write what was made, with the account of both runs, if anything differs."""
    old, now = before.manifest, made.described(before)
    changes = difference(before, made.contents, before.corpus, made.all_chunks)
    models = {**old.models, **now.models}  # of a step that asked nothing, those before
    earlier = dict.fromkeys((*old.earlier_models, *old.models.get("support", (old.model,))))
    described = now.model_copy(
        update={
            "extensions": old.extensions,
            "models": models,
            "earlier_models": tuple(name for name in earlier if name != now.model),
            "ledger": added(old.ledger, now.ledger),
            "reasked": tuple(sorted({*old.reasked, *now.reasked})),
        }
    )
    calls = sum(account.calls for account in now.ledger.values())
    if made.is_in(before, described):
        return Refreshed(before, changes, changed=False, calls=calls)
    if difference_file is not None:
        write_changes(changes, difference_file)
    return Refreshed(made.write(described), changes, changed=True, calls=calls)


def check_there(config: BuildConfig) -> None:
    """Check that there is a collection, whose questions are not made anew by each build.

    Raises:
        ConfigError: There is none, or its questions are synthetic.
    """
    if not config.out.exists():
        raise ConfigError(
            f"{config.out}: no collection to refresh; type: freshstack build {config.file}"
        )
    if config.queries.source == "synthetic":
        raise ConfigError(
            "[queries] source is synthetic: its questions are made anew from the corpus; to keep "
            f"those of the collection, copy {config.out / 'queries.jsonl'} elsewhere and name the "
            'copy as path, with source = "jsonl"'
        )


def check_reusable(before: Manifest, session: Session, *, keep_labels: bool) -> None:
    """Check that labels of two scales and, unless it is wished, of two judges are not mixed.

    Raises:
        ConfigError: The recipe makes all anew, or the collection was made otherwise.
    """
    config = session.config
    if anew := session.recipe.made_anew:
        raise ConfigError(
            f"{anew} are made anew by each build; type: freshstack build {config.file} "
            "--replace, which asks only for what is not recorded"
        )
    if before.name != config.name:
        raise ConfigError(
            f"the collection there is {before.name!r}, and the configuration makes {config.name!r}; "
            "give it the same name, or another folder as out"
        )
    if before.scale.name != config.judge.scale:
        raise ConfigError(
            f"[judge] scale is {config.judge.scale!r}, and the labels of {before.name} are on scale "
            f"{before.scale.name!r}: no label can be reused; write under [judge]: "
            f'scale = "{before.scale.name}", or name another out'
        )
    if not keep_labels and (others := made_otherwise(before, session)):
        raise ConfigError(
            f"{before.name} was made differently: {'; '.join(others)}; old and new labels would not "
            "be comparable: go back to the old settings, reuse the old labels anyway with "
            f"{argument('keep_labels')}, or judge everything anew with another out: freshstack build "
            f"{config.file}"
        )
