"""A session: all that a recipe needs to ask its models; `opening.py` opens it."""

import contextvars
import functools
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from pydantic import JsonValue

from freshstack_dspy.config import MODES, BuildConfig, Mode, ModelConfig, PricesConfig, Role
from freshstack_dspy.errors import BudgetError, ConfigError, DeferredError, argument
from freshstack_dspy.index.models import Models
from freshstack_dspy.lm.batch.deferred import requests_file, write_requests
from freshstack_dspy.lm.batch.jobs import JobFolder
from freshstack_dspy.lm.bundle import Bundles
from freshstack_dspy.lm.reply import Reply, SearchResult, content_hash, receive_search
from freshstack_dspy.lm.request import BY_HAND, SearchRequest
from freshstack_dspy.lm.store import FirstOf, ReplyStore, open_store
from freshstack_dspy.lm.telemetry import span
from freshstack_dspy.lm.usage import StepLedger, step
from freshstack_dspy.lm.workers import map_in_order
from freshstack_dspy.progress import NoProgress, Progress
from freshstack_dspy.records import Failure

if TYPE_CHECKING:
    from freshstack_dspy.lm.client import Client, RecordedLM
    from freshstack_dspy.lm.engine import Provider
    from freshstack_dspy.programs.own import Programs

_WAIT = 10.0
"""Seconds without a reply after which a step says so, and again."""

Item = TypeVar("Item")
Result = TypeVar("Result")

ROLES: Mapping[str, Role] = {
    "synthesis": "synthesis",
    "passages": "synthesis",
    "request": "synthesis",
    "synthesize": "synthesis",
    "decontextualize": "synthesis",
    "nuggets": "nuggets",
    "importance": "nuggets",
    "reranking": "reranker",
    "relevance": "judge",
    "support": "judge",
    "contamination": "judge",
    "assignment": "judge",
    "citation": "judge",
    "contradiction": "judge",
    "comparison": "judge",
    "correctness": "judge",
    "gold_answer": "gold_generator",
    "answer": "generator",
}
"""Whose model answers in each step; in all others it is `[model]`."""


class Replies(NamedTuple):
    """Where recorded replies are."""

    store: ReplyStore | None
    """None in a replay where there is none."""
    bundles: Bundles


class Ask(Protocol):
    """Asks for every item of a lot, several at once; deferred ones are left out."""

    def __call__(
        self, function: Callable[[Item], Result], items: Sequence[Item], /
    ) -> list[Result]:
        """Give the results in the order of the items."""
        ...


class Session:
    """Models that can be asked, step by step, with progress and account; see `open_session`."""

    def __init__(
        self,
        config: BuildConfig,
        mode: Mode,
        lm: "RecordedLM",
        replies: Replies,
        *,
        models: Models | None = None,
        progress: Progress | None = None,
        recipe: Callable[[], tuple[Any, dict[str, str]]],
        programs: "Programs",
    ) -> None:
        self.settings = config
        """The configuration as it was given; `config` has what its server says of its context too."""
        self.config, self.mode, self.lm, self.replies = config, mode, lm, replies
        self.dry = False
        """Whether it is of a plan: nothing is sent, and what is recorded is passing."""
        self._make_recipe = recipe
        given = lm.client.provider
        self._provider = None if given is config.model.provider else given
        self._clients = [lm.client]
        self.programs: Programs = {**config.programs.named, **programs}
        self.models = models or Models()
        self.progress = progress or NoProgress()
        self._done: dict[str, str] = {}
        self._searches: dict[str, str] = {}
        self._kept: set[str] = set()

    @functools.cached_property
    def _made(self) -> tuple[Any, dict[str, str]]:
        return self._make_recipe()

    @functools.cached_property
    def recipe(self) -> Any:
        """The recipe that is run, a `FreshStack` with its programs; made when it is first needed."""
        return self.recorded(self._made[0])

    @property
    def identities(self) -> dict[str, str]:
        """What is not this package's of the recipe and its programs; see `recipe.identities`."""
        return self._made[1]

    @property
    def judges(self) -> str:
        """The model that judges support: that of the program, or of the role; several by commas."""
        role = self.config.model_of("judge").name
        program = getattr(self.recipe, "support_judge", None)
        predictors = program.predictors() if program is not None else []
        own = {one.lm.model if one.lm else role for one in predictors}
        return ", ".join(sorted(own or {role}))

    def recorded(self, program: Any) -> Any:
        """The program, or a copy whose own models are recorded, paid and replayed as the others.

        Raises:
            ConfigError: A model of its own cannot be recorded; see `client.model_of`.
        """
        if not any(one.lm for _, one in program.named_predictors()):
            return program
        from freshstack_dspy.lm.client import RecordedLM, as_model

        copied = program.deepcopy()
        for name, predictor in copied.named_predictors():
            lm = predictor.lm
            if isinstance(lm, RecordedLM):
                access, model = lm.client.access, lm.client.model
                if access.recorded is not None:
                    raise ConfigError(
                        f"the model of {name}, {lm.model}, was connected with recorded=…; name "
                        "these bundles in cache.bundles"
                    )
                priced = {"prices": model.prices or access.account.prices}
                client = self._client(model.model_copy(update=priced), lm.client.provider)
                predictor.lm = RecordedLM(client, lm.callbacks).copy(**lm.kwargs)
            elif lm is not None:
                model = as_model(lm)
                priced = {"prices": model.prices or PricesConfig()}
                client = self._client(model.model_copy(update=priced), model.provider)
                predictor.lm = RecordedLM(client, lm.callbacks)
        return copied

    def _client(self, model: ModelConfig, provider: "Provider | None") -> "Client":
        """The client of a model, one for all that ask it in the same way."""
        from freshstack_dspy.lm.client import Client

        dry = self.mode == "replay"  # what answers a plan goes before all
        provider = (self._provider or provider) if dry else (provider or self._provider)
        for client in self._clients:
            if dict(client.model) == dict(model) and client.provider is provider:
                return client
        self._clients.append(Client(model, self.lm.client.access, provider=provider))
        return self._clients[-1]

    def lm_of(self, role: Role | None) -> "RecordedLM":
        """The model of a role; `[model]` where it has none of its own."""
        from freshstack_dspy.lm.client import RecordedLM

        model = self.config.model_of(role)
        if model is self.config.model:
            return self.lm
        return RecordedLM(self._client(model, model.provider))

    @contextmanager
    def asked_as(self, role: Role | None) -> Iterator[None]:
        """Have programs inside ask the model of a role."""
        import dspy

        with dspy.context(lm=self.lm_of(role)):
            yield

    @property
    def how_to_ask_again(self) -> str:
        """What to do in order to ask again for what failed, for a message."""
        mode = "defer" if self.mode == "defer" else "rerecord"
        return f"to ask again, add {argument('mode', mode)} and {argument('failed')}"

    @property
    def clients(self) -> Sequence["Client"]:
        """Those of all models that were asked until now."""
        return tuple(self._clients)

    def close(self) -> None:
        """Close the connections of all its models."""
        for client in self._clients:
            client.close()

    def each(
        self, name: str, function: Callable[[Item], Result], items: Sequence[Item]
    ) -> list[Result]:
        """Ask for every item of a step, several at once; deferred ones are left out.

        Raises:
            BudgetError: The budget is used up; says what is done.
        """
        with self.asking(name, len(items)) as ask:
            return ask(function, items)

    @contextmanager
    def asking(self, name: str, total: int) -> Iterator[Ask]:
        """Ask for the items of a step in lots, of which one at a time is in memory.

        Args:
            name: Of the step.
            total: How many items there are, or about as many.
        """
        import dspy

        done = deferred = 0
        last, ended = time.monotonic(), threading.Event()
        dry = self.mode == "replay"

        def advance() -> None:
            nonlocal done, last
            done, last = done + 1, time.monotonic()
            self._done[name] = f"{name} {done} of {total}"
            self.progress.advance(name, "" if dry else self.lm.ledger.of(name).spent)

        def ask(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
            nonlocal deferred

            def answer(item: Item) -> Result | None:
                try:
                    with dspy.context(trace=[]):  # of one item; `BestOfN` and `Refine` extend it
                        result = function(item)
                except DeferredError:
                    return None
                if isinstance(getattr(result, "failure", result), Failure):
                    self.lm.ledger.enter(failed=1)
                return result

            workers = client.model.concurrency
            answers = map_in_order(answer, items, workers=workers, done=advance)
            results = [result for result in answers if result is not None]
            deferred += len(items) - len(results)
            return results

        self.progress.start(name, total)
        role = ROLES.get(name)
        client = self.lm_of(role).client
        with step(name, self.lm.ledger), span(name, items=total), self.asked_as(role):
            if not dry:
                run = contextvars.copy_context().run
                watched = (self._watch, name, client, lambda: last, ended)
                threading.Thread(target=run, args=watched, daemon=True).start()
            try:
                yield ask
                client.retries.check_answered()
            except BudgetError as error:
                so_far = ", ".join(self._done.values()) or "nothing"
                raise BudgetError(
                    f"{error}. Done in this run: {so_far}. Every reply is recorded: raise the cap "
                    "and run the same command again, and only what is missing is asked"
                ) from None
            finally:
                ended.set()
        self.progress.finish(name, self._account(name, deferred))

    def _watch(
        self, name: str, client: "Client", last: Callable[[], float], ended: threading.Event
    ) -> None:
        """Say for whom a step waits, as long as no reply comes."""
        show = getattr(self.progress, "wait", None)  # others' may lack it
        while not ended.wait(_WAIT):
            waited = time.monotonic() - last()
            note = client.waits(waited) if waited >= _WAIT else None
            if note is not None and show is not None:
                show(name, note)

    def stop_if_deferred(self) -> None:
        """In mode `defer`, write down the requests without a reply, and stop if there are any.

        Raises:
            DeferredError: Says how many, where, and what to do with them.
        """
        store = self.replies.store
        missing = {key: step for one in self._clients for key, step in one.deferred.items()}
        if self.mode != "defer" or store is None or not missing:
            return
        underway = {key for job in JobFolder.of(self.config).pending() for key in job.keys}
        if underway >= missing.keys():
            raise DeferredError(
                f"all {len(missing)} requests are in batches under way; wait for them with: "
                f"freshstack requests status {self.config.file} --wait"
            )
        path = requests_file(self.config)
        steps = {key: step for key, step in missing.items() if key not in underway}
        written = write_requests(store, path, steps)
        config = self.config.file
        answer = f"freshstack requests answer {config}"
        how = (
            f"send them with: {answer}, or as a batch with: freshstack requests submit {config}, or "
            "have them answered elsewhere and import the replies with"
        )
        if self.config.model.name.startswith(BY_HAND):
            how = f"see them with: freshstack requests next {config}, and record the replies with"
        error = DeferredError(
            f"{written} requests were written to {path}; {how}: {answer} --from REPLIES; then run "
            "the same command again"
        )
        error.file = path
        raise error

    def recorded_search(self, request: SearchRequest) -> JsonValue | None:
        """In a replay, what a search returned when it was recorded; None: search."""
        if self.mode != "replay":
            return None
        found = FirstOf(*self.replies).entry(request.key)
        if not isinstance(found, SearchResult):
            return None
        self._searches[found.key] = content_hash(found)
        return found.value

    def earlier_search(self, request: SearchRequest) -> JsonValue | None:
        """What a retriever of one's own returned here before; None: ask it. No replay needs it."""
        anew = self.mode == "rerecord" and not self.lm.client.access.failed
        if anew and request.key not in self._kept:
            return None
        store = self.replies.store
        entry = store.whole_entry(request.key) if store is not None else None
        return entry.value if isinstance(entry, SearchResult) else None

    def keep_search(self, request: SearchRequest, value: JsonValue) -> None:
        """Record what a retriever of one's own returned."""
        if self.replies.store is not None and self.mode != "replay":
            self.replies.store.put(receive_search(request, value))
            self._kept.add(request.key)

    def record_search(self, request: SearchRequest, value: JsonValue) -> None:
        """Record what a search returned; a replay elsewhere then does not search again."""
        store = self.replies.store if self.mode != "replay" else None
        result = store.whole_entry(request.key) if store is not None else None
        if not isinstance(result, SearchResult) or result.value != value:
            result = receive_search(request, value)
            if store is not None:
                store.put(result)
        self._searches[result.key] = content_hash(result)

    def reuse_replies(self, name: str, keys: Iterable[str]) -> None:
        """Enter recorded replies as used in a step that a replay need not run."""
        recorded, asked = FirstOf(*self.replies), self.lm_of(ROLES.get(name)).client
        clients = {client.model.name: client for client in reversed(self._clients)}
        with step(name, self.lm.ledger):
            for key in keys:
                if isinstance(entry := recorded.entry(key), Reply):
                    clients.get(entry.request.model, asked).reuse([entry])

    def used(self) -> dict[str, str]:
        """The content hash of every reply and search that was used until now, by key."""
        used = self._searches
        for client in self._clients:
            used = used | client.used_replies()
        return used

    def _account(self, name: str, deferred: int) -> str:
        account = self.lm.ledger.of(name)
        if deferred:
            return f"{deferred} deferred, {account.cached} recorded"
        if account == StepLedger():
            return "nothing to ask"
        if self.mode == "replay" and account.calls:  # only a plan's dry run has any
            return f"would ask {account.calls}, {account.cached} recorded"
        return account.line


class SingleCall:
    """A session in which one query is run by itself: it defers, shows and counts nothing."""

    how_to_ask_again = "to ask again, use connect(…, mode='rerecord', failed=True)"

    def __init__(self, config: BuildConfig) -> None:
        self.config = config
        self.progress = NoProgress()

    def each(
        self, _step: str, function: Callable[[Item], Result], items: Sequence[Item]
    ) -> list[Result]:
        """Ask for every item, one after the other."""
        return [function(item) for item in items]

    @contextmanager
    def asking(self, step: str, _total: int) -> Iterator[Ask]:
        """Ask for the items of a step in lots."""
        yield lambda function, items: self.each(step, function, items)

    def stop_if_deferred(self) -> None:
        """Go on: a request that is deferred has raised already."""


@contextmanager
def open_replies(config: BuildConfig, mode: Mode) -> Iterator[Replies]:
    """Open the store and the bundles of a configuration."""
    with ExitStack() as stack:
        store = open_store(config.cache.path, mode)
        if store is not None:
            stack.callback(store.close)
        yield Replies(store, stack.enter_context(closing(Bundles(config.cache.bundles))))


def check_mode(config: BuildConfig, mode: Mode) -> None:
    """Check that there is such a mode, and that no provider is at work on the requests already."""
    if mode not in MODES:
        raise ConfigError(f"unknown mode {mode!r}; allowed: {', '.join(MODES)}")
    if mode not in ("live", "rerecord"):
        return
    folder = JobFolder.of(config)
    if underway := sum(len(job.keys) for job in folder.pending()):
        raise ConfigError(
            f"{underway} requests are in batches under way, and would be paid for twice: wait for "
            f"them with: freshstack requests status {config.file} --wait, or give a batch up by "
            f"deleting its record in {folder.path}"
        )
