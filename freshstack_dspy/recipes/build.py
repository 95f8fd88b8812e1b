"""Build a judged collection, or see that the one that stands is what a build would make.

A build is a pure function of its configuration, its inputs and the replies. It keeps no state of
its own: kill it at any moment and run it again, and only what was in flight is asked again.
"""

import contextlib
import itertools
from collections.abc import Iterable
from pathlib import Path

from freshstack_dspy.collection import Collection, refuse_foreign
from freshstack_dspy.config import MODES, BuildConfig, Mode
from freshstack_dspy.errors import ConfigError
from freshstack_dspy.index.connecting import connected
from freshstack_dspy.lm.batch.jobs import JobFolder
from freshstack_dspy.lm.door import open_store
from freshstack_dspy.lm.embedding.access import Access
from freshstack_dspy.lm.embedding.figures import Figures
from freshstack_dspy.lm.embedding.used import used_figures
from freshstack_dspy.lm.events import Listener
from freshstack_dspy.lm.provider.choice import Provider
from freshstack_dspy.lm.replies.bundle import Bundles, write_bundle
from freshstack_dspy.lm.replies.said import replies_of
from freshstack_dspy.lm.reply import Reply
from freshstack_dspy.lm.spending.budget import Account, InFlight
from freshstack_dspy.recipes.fetching import with_repositories
from freshstack_dspy.recipes.fingerprints import fingerprint_inputs
from freshstack_dspy.recipes.models import asks_models
from freshstack_dspy.recipes.progress import Progress, Silence
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
    on_call: Listener | None = None,
) -> Collection:
    """Build the collection that a configuration describes, and write it to its folder.

    Args:
        config: As `load_config` reads it.
        mode: `live`, `replay`, `defer` or `refresh`; see `lm/door.py`.
        progress: Whom to tell how it goes.
        requests_file: Where `defer` writes the missing requests; by default beside the store.
        replies_file: Where to write the replies that this build used, as a bundle.
        provider: What answers, in place of the one that the model's name chooses.
        on_call: Told of every request to the model, by many threads; `EventLog` writes them down.

    Returns:
        The collection, as it stands on disk.

    Raises:
        BudgetError: The budget is used up; what was answered is recorded, and a larger one goes on.
        DeferredError: In mode `defer`, requests were written down; answer and import them.
        FreshstackError: Anything else that stops a build, in one line; see `errors.py`.
    """
    if mode not in MODES:
        raise ConfigError(f"unknown mode {mode!r}; allowed: {', '.join(MODES)}")
    jobs = JobFolder.of(config)
    if mode in ("live", "refresh"):
        _refuse_to_pay_twice(jobs)
    refuse_foreign(config.out)  # before anything is paid for
    progress = progress or Silence()
    config = with_repositories(config, mode, progress)
    inputs = fingerprint_inputs(config)
    with contextlib.ExitStack() as opened:
        store = open_store(config.cache.path, mode)
        if store is not None:
            opened.callback(store.close)
        bundles = opened.enter_context(contextlib.closing(Bundles(config.cache.bundles)))
        standing = unchanged(config, mode, inputs, store=store, recorded=bundles)
        if standing is not None and not asks_models(config):  # whose numbers no record names
            if replies_file is not None:
                write_bundle(replies_of(standing.call_ids, store, bundles), replies_file)
            progress.start(NOTHING_TO_DO, 1)
            progress.advance(NOTHING_TO_DO)
            progress.finish(NOTHING_TO_DO, "same inputs, same replies: the collection stands")
            return standing.collection
        # DSPy is imported here, where there is something to ask.
        from freshstack_dspy.lm.connect import connect, in_bulk
        from freshstack_dspy.recipes.run import Run

        account = Account(config.name, config.budget, config.prices, jobs.reserved(), InFlight())
        lm = connect(
            config.model,
            mode=mode,
            store=store,
            recorded=bundles,
            provider=provider,
            account=account,
            on_call=on_call,
        )
        opened.callback(lm.door.close)
        access = Access(mode, store, bundles, account, lm.ledger, on_call)
        models = opened.enter_context(connected(config, access))
        with in_bulk(lm):
            run = Run(config, lm, models, progress, store, requests_file)
            collection = run.collection(inputs)
        if replies_file is not None:
            used: list[Iterable[Reply | Figures]] = [
                lm.door.used(),
                used_figures([*models.embedders, models.reranker]),
            ]
            write_bundle(itertools.chain(*used), replies_file)
        return collection


def _refuse_to_pay_twice(jobs: JobFolder) -> None:
    """Stop where a provider may already be working on what would be asked now."""
    if underway := sum(len(job.keys) for job in jobs.pending()):
        raise ConfigError(
            f"{underway} requests are in batches under way, and would be paid for twice: wait for "
            "them with: freshstack requests status CONFIG --wait, or give a batch up with: "
            "freshstack requests submit CONFIG --forget SUBMISSION"
        )
