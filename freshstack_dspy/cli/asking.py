"""What commands that ask a model have in common: their options, and what an error says to type."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from freshstack_dspy.config import BuildConfig
    from freshstack_dspy.recipes.session import Session

ModeName = Literal["live", "replay", "defer"]

JudgingOption = Annotated[
    Path, typer.Option(help="TOML file; its [model], [judge], [budget] and [cache] are used.")
]
ModeOption = Annotated[
    ModeName,
    typer.Option(
        help="live: ask for what is not recorded. replay: recorded replies only, no network. "
        "defer: write missing requests to a file."
    ),
]
RequestsOption = Annotated[
    Path | None, typer.Option(help="With defer: the file of missing requests.")
]
CacheOption = Annotated[
    list[Path] | None,
    typer.Option(help="Bundle of recorded replies to read too; may be repeated."),
]
LogOption = Annotated[
    Path | None, typer.Option(help="Append one JSON line for each request to this file.")
]


@contextmanager
def typed(config: Path) -> Iterator[None]:
    """Put the file that was named here into what an error says to type next."""
    from freshstack_dspy.errors import BudgetError, ConfigError, DeferredError, IndexingError

    try:
        yield
    except (BudgetError, ConfigError, DeferredError, IndexingError) as error:
        raise type(error)(re.sub(r"\bCONFIG\b", lambda _: str(config), str(error))) from None


@contextmanager
def judging(
    settings: "BuildConfig", config: Path, mode: ModeName, requests: Path | None, log: Path | None
) -> Iterator["Session"]:
    """Open the judge of a configuration, with bars.

    Args:
        settings: Of the file.
        config: The file, as it was named.
        mode: Whether it may ask.
        requests: Where missing requests are written.
        log: Where calls are written.
    """
    from freshstack_dspy.cli.bars import Bars
    from freshstack_dspy.cli.listening import listening
    from freshstack_dspy.recipes.session import open_session

    with (
        typed(config),
        Bars() as bars,
        listening(log, trace=False) as callback,
        open_session(
            settings,
            mode,
            progress=bars,
            requests_file=requests,
            callback=callback,
            searching=False,
        ) as session,
    ):
        yield session
