"""Build a judged collection, or see that the one that stands is what a build would make.

A build is a pure function of its configuration, its inputs and the replies. It keeps no state of
its own: kill it at any moment and run it again, and only what was in flight is asked again.
"""

from pathlib import Path

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.collection.manifest import read_manifest
from freshstack_dspy.collection.writing import check_foreign, write_collection
from freshstack_dspy.config import BuildConfig, Mode
from freshstack_dspy.errors import CollectionError, ConfigError
from freshstack_dspy.lm.bundle import write_bundle
from freshstack_dspy.lm.engine import Provider
from freshstack_dspy.lm.events import Callback
from freshstack_dspy.lm.store import recorded_entries
from freshstack_dspy.recipes.corpus import asks_models, with_repositories
from freshstack_dspy.recipes.fingerprints import fingerprint_inputs
from freshstack_dspy.recipes.session import (
    Progress,
    Silence,
    check_mode,
    open_replies,
    open_session,
)
from freshstack_dspy.recipes.unchanged import unchanged

NOTHING_TO_DO = "unchanged"
"""The one step of a build that finds the collection as it would make it."""


def build(
    config: BuildConfig,
    *,
    mode: Mode = "live",
    progress: Progress | None = None,
    requests_file: Path | None = None,
    replies_file: Path | None = None,
    provider: Provider | None = None,
    callback: Callback | None = None,
) -> Collection:
    """Build the collection that a configuration describes, and write it to its folder.

    Args:
        config: As `load_config` reads it.
        mode: `live`, `replay`, `defer` or `rerecord`; see `lm/client.py`.
        progress: Whom to tell how it goes.
        requests_file: Where `defer` writes the missing requests; by default beside the store.
        replies_file: Where to write the replies that this build used, as a bundle.
        provider: What answers, in place of the one that the model's name chooses.
        callback: Told of every request to the model, by many threads; `EventLog` writes them down.

    Returns:
        The collection, as it stands on disk.

    Raises:
        BudgetError: The budget is used up; what was answered is recorded, and a larger one goes on.
        DeferredError: In mode `defer`, requests were written down; answer and import them.
        FreshstackError: Anything else that stops a build, in one line; see `errors.py`.
    """
    check_mode(config, mode)
    check_foreign(config.out)  # before anything is paid for
    _check_extended(config.out)
    progress = progress or Silence()
    config = with_repositories(config, mode, progress)
    inputs = fingerprint_inputs(config)
    with open_replies(config, mode) as replies:
        store, bundles = replies
        standing = unchanged(config, mode, inputs, store=store, recorded=bundles)
        if standing is not None and not asks_models(config):  # whose numbers no record names
            if replies_file is not None:
                write_bundle(recorded_entries(standing.call_ids, (store, bundles)), replies_file)
            progress.start(NOTHING_TO_DO, 1)
            progress.advance(NOTHING_TO_DO)
            progress.finish(NOTHING_TO_DO, "same inputs, same replies: the collection stands")
            return standing.collection
        with open_session(
            config,
            mode,
            progress=progress,
            requests_file=requests_file,
            provider=provider,
            callback=callback,
            replies=replies,
        ) as session:
            # DSPy is imported here, where there is something to ask.
            from freshstack_dspy.recipes.run import Run

            made = Run(session).made(inputs)
            collection = write_collection(
                config.out, made.contents, made.chunks, made.provenance, rejected=made.rejected
            )
            if replies_file is not None:
                session.save_replies(replies_file)
        return collection


def _check_extended(out: Path) -> None:
    """Refuse to replace a collection by one without the judgments that runs brought.

    Raises:
        ConfigError: Says what to type in place of it.
    """
    try:
        extensions = read_manifest(out).extensions
    except CollectionError:
        return
    if extensions:
        names = ", ".join(dict.fromkeys(one.run for one in extensions))
        raise ConfigError(
            f"{out}: extended by runs ({names}), whose judgments a build would lose; type: "
            "freshstack refresh CONFIG, which keeps them, or name another out"
        )
