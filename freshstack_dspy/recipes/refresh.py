"""Refresh a collection: a build that reuses what the collection holds of unchanged content."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Unpack

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.collection.diff import Difference, difference, write_changes
from freshstack_dspy.config import BuildConfig
from freshstack_dspy.corpus.parquet import ChunkFile
from freshstack_dspy.errors import ConfigError, argument
from freshstack_dspy.files import only_writer
from freshstack_dspy.lm.telemetry import span
from freshstack_dspy.pages.page import counted
from freshstack_dspy.pages.shown import Shown
from freshstack_dspy.recipes.make import Made, run
from freshstack_dspy.recipes.opening import SessionOptions, configured
from freshstack_dspy.recipes.provenance import added, provenance
from freshstack_dspy.recipes.session import Session
from freshstack_dspy.stored.corpus import CORPUS_FILE
from freshstack_dspy.stored.manifest import Manifest, Provenance

_OF_THIS_RUN = {"ledger", "fingerprints", "reasked", "versions", "dates"}
"""What a manifest records of how it was made, and that is no reason to write it anew."""


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

    Nuggets and expansions of unchanged questions, and judgments of unchanged pairs, are reused as
    they are in the collection, even where their replies are lost. What failed is
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
        return run(
            config,
            partial(_refreshed, before, difference_file),
            before=before,
            check=partial(check_reusable, before.manifest, keep_labels=keep_labels),
            **options,
        )


def _refreshed(before: Collection, difference_file: Path | None, made: Made) -> Refreshed:
    """Write what was made, with the account of both runs, if anything differs."""
    old, now = before.manifest, made.described(before=before)
    chunks, rejected = made.chunks, made.work.reading.rejected
    if passages := made.contents.passages:
        chunks = ChunkFile.holding([*chunks, *passages])
    changes = difference(before, made.contents, before.corpus, chunks)
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
    is_same = (
        made.contents.records() == before.records()
        and chunks.sums.sha256 == old.files[CORPUS_FILE]
        and dict(rejected) == old.counts.rejected
        and _of_the_data(described) == _of_the_data(old)
    )
    if is_same:
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
    now = provenance(session)
    if before.name != now.name:
        raise ConfigError(
            f"the collection there is {before.name!r}, and the configuration makes {now.name!r}; "
            "give it the same name, or another folder as out"
        )
    if before.scale.name != now.scale.name:
        raise ConfigError(
            f"[judge] scale is {now.scale.name!r}, and the labels of {before.name} are on scale "
            f"{before.scale.name!r}: no label can be reused; write under [judge]: "
            f'scale = "{before.scale.name}", or build the other with another out'
        )
    if not keep_labels and (others := list(_other_judges(before, now))):
        raise ConfigError(
            f"{before.name} was made otherwise: {'; '.join(others)}; old and new labels would not "
            "be comparable: go back to the old settings, reuse the old labels all the same with "
            f"{argument('keep_labels')}, or judge everything anew with another out: freshstack build "
            f"{config.file}"
        )


def _other_judges(before: Manifest, now: Provenance) -> Iterator[str]:
    if before.model != now.model:
        yield f"model {before.model!r}, now {now.model!r}"
    for name in sorted(before.prompts.keys() & now.prompts.keys()):
        if before.prompts[name] != now.prompts[name]:
            yield f"another prompt of {name}"
    for name in sorted(before.programs.keys() | now.programs.keys()):
        if before.programs.get(name) != now.programs.get(name):
            yield f"another program {name}"


def _of_the_data(described: Provenance) -> dict[str, object]:
    fields = set(Provenance.model_fields) - _OF_THIS_RUN
    return described.model_dump(mode="json", include=fields)
