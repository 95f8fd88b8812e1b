"""Opens a session: the only place that wires replies, recorded LM, embedders, budget and progress."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from freshstack_dspy.config import BuildConfig, Mode
from freshstack_dspy.errors import file_named
from freshstack_dspy.index.models import Models, connected
from freshstack_dspy.lm.batch.jobs import JobFolder
from freshstack_dspy.lm.budget import Account
from freshstack_dspy.lm.engine import Provider, check_model
from freshstack_dspy.lm.events import Callback
from freshstack_dspy.lm.vectors import Access
from freshstack_dspy.progress import Progress, showing
from freshstack_dspy.recipes.session import Replies, Session, check_mode, open_replies

if TYPE_CHECKING:
    from freshstack_dspy.programs.own import Programs
    from freshstack_dspy.recipes.freshstack import FreshStack


class AskingOptions(TypedDict, total=False):
    """Who is asked, by which programs, and who is notified."""

    progress: Progress | bool | None
    """Notified of every step; True: bars, or lines in a pipe; False: nothing; None (the default):
    bars on a terminal and in a notebook."""
    provider: Provider | None
    """What answers, in place of the one that the model's name chooses."""
    callback: Callback | None
    """Notified of every request to a model, by many threads."""
    recipe: "FreshStack | None"
    """What is run, in place of the recipe that the configuration names."""
    programs: "Programs | None"
    """By name, programs in place of the recipe's own: modules, import paths, or saved files."""


class SessionOptions(AskingOptions, total=False):
    """How a recipe asks; every function that opens a session takes these as keywords."""

    mode: Mode
    """`live` (the default) asks what is not recorded; `replay` opens no connection; `defer` writes
    requests down, for a batch API or another machine; `rerecord` asks all anew."""


def check_options(options: Mapping[str, Any]) -> None:
    """Raise a TypeError for a keyword that no session takes, as Python does of a function's own."""
    taken = SessionOptions.__optional_keys__
    if unknown := options.keys() - taken:
        raise TypeError(
            f"unexpected keyword argument {min(unknown)!r}; allowed: {', '.join(sorted(taken))}"
        )


@contextmanager
def open_session(
    config: BuildConfig,
    mode: Mode = "live",
    *,
    replies: Replies | None = None,
    searching: bool = True,
    **options: Unpack[AskingOptions],
) -> Iterator[Session]:
    """Open a session, and close it at the end; its recorded LM is DSPy's meanwhile.

    Next to the `SessionOptions` it takes `replies`, where they are open already, and `searching`:
    whether embedders and reranker are opened too.

    Raises:
        ConfigError: No such mode, or batches under way would be paid for twice.
        FatalModelError: The model's provider is not known, or there is no key for it.
        FreshstackError: A model or the store cannot be opened; see `errors.py`.
    """
    provider, callback = options.get("provider"), options.get("callback")
    programs = options.get("programs") or {}
    check_options(options)
    check_mode(config, mode)
    if provider is None and mode in ("live", "rerecord"):
        with file_named(config.file):
            check_model(config.model)
    from freshstack_dspy.lm.client import connect
    from freshstack_dspy.lm.typed import in_bulk

    with ExitStack() as stack:
        store, bundles = replies = replies or stack.enter_context(open_replies(config, mode))
        reserved = JobFolder.of(config).reserved()
        account = Account(config.name, config.budget, config.prices, reserved)
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
        shown = stack.enter_context(showing(options.get("progress")))
        yield Session(
            config,
            mode,
            lm,
            replies,
            models=models,
            progress=shown,
            recipe=recipe_maker(config, options.get("recipe"), programs),
            programs=programs,
        )


def recipe_maker(
    config: BuildConfig, recipe: "FreshStack | None", programs: "Programs"
) -> "Callable[[], FreshStack]":
    """Give what makes the recipe of a session: DSPy's and the index's imports wait until then."""

    def make() -> "FreshStack":
        from freshstack_dspy.recipes.recipe import recipe_of, with_programs

        own = {name: one for name, one in programs.items() if name != "comparer"}
        return with_programs(recipe_of(config) if recipe is None else recipe, own)

    return make
