"""What work that asks a model needs, opened for a configuration in a mode, and closed at the end."""

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from freshstack_dspy.config import MODES, BuildConfig, Mode
from freshstack_dspy.errors import ConfigError, DeferredError
from freshstack_dspy.index.connecting import connected
from freshstack_dspy.index.searching import Models
from freshstack_dspy.lm.batch.deferred import write_requests
from freshstack_dspy.lm.batch.jobs import JobFolder
from freshstack_dspy.lm.budget import Account, InFlight
from freshstack_dspy.lm.bundle import Bundles, write_bundle
from freshstack_dspy.lm.client import open_store
from freshstack_dspy.lm.engine import Provider
from freshstack_dspy.lm.events import Callback
from freshstack_dspy.lm.reply import Figures, Reply
from freshstack_dspy.lm.store import ReadOnlyStore
from freshstack_dspy.lm.vectors import Access, used_figures
from freshstack_dspy.recipes.progress import Progress, Silence

if TYPE_CHECKING:
    from freshstack_dspy.lm.client import RecordedLM
    from freshstack_dspy.recipes.steps import Steps


class Replies(NamedTuple):
    """Where recorded replies are."""

    store: ReadOnlyStore | None
    """None in a replay where there is none."""
    bundles: Bundles


@contextlib.contextmanager
def recorded_replies(config: BuildConfig, mode: Mode) -> Iterator[Replies]:
    """Open the store and the bundles of a configuration.

    Raises:
        StoreError: They cannot be opened.
    """
    with contextlib.ExitStack() as opened:
        store = open_store(config.cache.path, mode)
        if store is not None:
            opened.callback(store.close)
        yield Replies(
            store, opened.enter_context(contextlib.closing(Bundles(config.cache.bundles)))
        )


@dataclass(frozen=True)
class Opened:
    """A model that can be asked, and what goes with it.

    Attributes:
        config: Whose.
        mode: `live`, `replay`, `defer` or `rerecord`; see `lm/client.py`.
        replies: Where recorded replies are.
        lm: The model behind the client; also DSPy's while this is open.
        models: The embedders and the reranker; none where they were not wanted.
        progress: Whom to tell how it goes.
        requests_file: Where `defer` writes the missing requests; None: beside the store.
    """

    config: BuildConfig
    mode: Mode
    replies: Replies
    lm: "RecordedLM"
    models: Models
    progress: Progress
    requests_file: Path | None = None

    def steps(self, names: Sequence[str], again: str = "build again") -> "Steps":
        """Give what runs the steps of these names.

        Args:
            names: In their order.
            again: What to do once there is more budget.
        """
        from freshstack_dspy.recipes.steps import Steps

        return Steps(names, self.lm, self.progress, again)

    def stop_if_deferred(self, again: str = "build again") -> None:
        """Write down what was not answered, and stop; go on where nothing is missing.

        Args:
            again: What to do once the replies are there.

        Raises:
            DeferredError: In mode `defer`, something is missing; says what to do.
        """
        missing = self.lm.client.deferred
        if self.mode != "defer" or self.replies.store is None or not missing:
            return
        underway = {key for job in JobFolder.of(self.config).pending() for key in job.keys}
        if underway >= missing:
            raise DeferredError(
                f"all {len(missing)} requests are in batches under way; wait for "
                "them with: freshstack requests status CONFIG --wait"
            )
        named = f" --requests {self.requests_file}" if self.requests_file else ""
        path = self.requests_file or (
            self.config.cache.path.parent / "requests" / f"{self.config.name}.jsonl"
        )
        written = write_requests(self.replies.store, path, missing - underway)
        raise DeferredError(
            f"{written} requests were written to {path}; send them with: freshstack "
            f"requests submit CONFIG{named}, or have them answered elsewhere and import the "
            f"replies with: freshstack requests import REPLIES CONFIG; then {again}"
        )

    def write_replies(self, path: Path) -> None:
        """Write what was used until now as a bundle: replies, vectors and scores."""
        used: list[Iterable[Reply | Figures]] = [
            self.lm.client.used(),
            used_figures([*self.models.embedders, self.models.reranker]),
        ]
        write_bundle(itertools.chain(*used), path)


@contextlib.contextmanager
def opened(
    config: BuildConfig,
    mode: Mode,
    *,
    progress: Progress | None = None,
    requests_file: Path | None = None,
    provider: Provider | None = None,
    callback: Callback | None = None,
    replies: Replies | None = None,
    searching: bool = True,
) -> Iterator[Opened]:
    """Open all that a recipe needs to ask: replies, client, account, embedders and reranker.

    Args:
        config: As `load_config` reads it.
        mode: `live`, `replay`, `defer` or `rerecord`; see `lm/client.py`.
        progress: Whom to tell how it goes.
        requests_file: Where `defer` writes the missing requests; by default beside the store.
        provider: What answers, in place of the one that the model's name chooses.
        callback: Told of every request to the model, by many threads.
        replies: Of `recorded_replies`, where they are open already.
        searching: Whether embedders and reranker are wanted; not where nothing is searched.

    Raises:
        ConfigError: No such mode, or batches under way would be paid for twice.
        FreshstackError: A model or the store cannot be opened; see `errors.py`.
    """
    check_mode(config, mode)
    from freshstack_dspy.lm.client import connect, in_bulk

    with contextlib.ExitStack() as stack:
        if replies is None:
            replies = stack.enter_context(recorded_replies(config, mode))
        store, bundles = replies
        jobs = JobFolder.of(config)
        account = Account(config.name, config.budget, config.prices, jobs.reserved(), InFlight())
        lm = connect(
            config.model,
            mode=mode,
            store=store,
            recorded=bundles,
            provider=provider,
            account=account,
            callback=callback,
        )
        stack.callback(lm.client.close)
        models = Models()
        if searching:
            access = Access(mode, store, bundles, account, lm.ledger, callback)
            models = stack.enter_context(connected(config, access))
        stack.enter_context(in_bulk(lm))
        yield Opened(config, mode, replies, lm, models, progress or Silence(), requests_file)


def check_mode(config: BuildConfig, mode: Mode) -> None:
    """Refuse a mode that there is not, and to ask what a provider may already be working on.

    Raises:
        ConfigError: Says which, and what to type.
    """
    if mode not in MODES:
        raise ConfigError(f"unknown mode {mode!r}; allowed: {', '.join(MODES)}")
    if mode not in ("live", "rerecord"):
        return
    if underway := sum(len(job.keys) for job in JobFolder.of(config).pending()):
        raise ConfigError(
            f"{underway} requests are in batches under way, and would be paid for twice: wait for "
            "them with: freshstack requests status CONFIG --wait, or give a batch up with: "
            "freshstack requests submit CONFIG --forget SUBMISSION"
        )
