"""Opening the client for a command that needs a model and no whole build."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from freshstack_dspy.lm.client import RecordedLM

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", help="A build's TOML file, for its [model] and [cache]."),
]
ModelOption = Annotated[
    str | None,
    typer.Option("--model", help="Name of a model, in place of the configuration's."),
]


@contextmanager
def opened_model(config: Path | None, name: str | None) -> "Iterator[RecordedLM]":
    """Connect to the model of a configuration, or by default to the embedded baseline.

    A model of another provider gets neither the address nor the key of the configuration's.
    """
    from freshstack_dspy.config import CacheConfig, ModelConfig, PricesConfig, load_config
    from freshstack_dspy.lm.batch.jobs import JobFolder
    from freshstack_dspy.lm.budget import Account
    from freshstack_dspy.lm.bundle import Bundles
    from freshstack_dspy.lm.client import connect
    from freshstack_dspy.lm.store import ReplyStore

    settings = load_config(config) if config else None
    model = settings.model if settings else ModelConfig()
    cache = settings.cache if settings else CacheConfig()
    account = Account()
    if settings:
        reserved = JobFolder.of(settings).reserved()
        account = Account(settings.name, settings.budget, settings.prices, reserved)
    if name is not None and name != model.name:
        account = account._replace(prices=PricesConfig())
        same_provider = name.partition("/")[0] == model.name.partition("/")[0]
        private = {} if same_provider else {"api_base": None, "api_key": None}
        model = model.model_copy(update={"name": name, **private})
    with closing(Bundles(cache.bundles)) as recorded, closing(ReplyStore(cache.path)) as store:
        lm = connect(model, store=store, recorded=recorded, account=account)
        with closing(lm.client):
            yield lm
