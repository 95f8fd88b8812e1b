"""`freshstack suggest`: which tags occur next to a topic's own, by the questions they cover."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from freshstack_dspy.cli.options import FormatOption, JsonOption, LimitOption

if TYPE_CHECKING:
    from freshstack_dspy.config import QueriesConfig


def suggest(
    source: Annotated[
        Path,
        typer.Argument(
            help="A Stack Exchange dump: Posts.xml, a 7z archive, a folder with either; "
            "or a configuration, whose [queries] are taken."
        ),
    ],
    tag: Annotated[
        list[str] | None, typer.Option(help="Only questions with any of these. Repeat it.")
    ] = None,
    ignore: Annotated[
        list[str] | None, typer.Option(help="Do not list this tag, as too general. Repeat it.")
    ] = None,
    since: Annotated[str | None, typer.Option(help="Asked on or after this ISO date.")] = None,
    limit: LimitOption = 20,
    form: FormatOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the tags next to a topic's own, by the questions they cover: what a corpus should hold."""
    from freshstack_dspy.cli import printing
    from freshstack_dspy.errors import SourceError
    from freshstack_dspy.questions.tags import question_tags, tag_coverage

    config = _queries(source)
    given = {"tags": tag or config.tags, "since": since or config.since}
    config = config.model_validate({**config.model_dump(), **given})
    topic = (*config.tags, *config.all_tags)
    with _reading_bar(str(source)) as progress:
        tags = question_tags(config, progress)
    found = tag_coverage(tags, ignored=(*topic, *(ignore or ())), limit=limit)
    if not found.questions:
        raise SourceError(f"{source}: no question passes the filters; widen them")
    if as_json:
        printing.show_json(found)
        return
    title = printing.counted(found.questions, "question")
    table = printing.Table(
        header=["tag", "questions", "share", "added", "coverage"],
        rows=[[one.tag, one.questions, one.share, one.added, one.coverage] for one in found.tags],
        title=title + (f" with {', '.join(topic)}" if topic else ""),
        digits=3,
    )
    printing.show(table, form)
    if form is None:
        printing.say(
            f"{found.distinct:,} tags to choose from; {found.without:,} questions have none of them"
        )


def _queries(source: Path) -> "QueriesConfig":
    """Take the questions of a configuration, or of a dump; the rest may not be there yet."""
    from freshstack_dspy.config import QueriesConfig, load_queries
    from freshstack_dspy.errors import ConfigError

    if source.suffix != ".toml":
        return QueriesConfig(source="stackexchange", path=source)
    config = load_queries(source)
    if config.is_synthetic:
        raise ConfigError(
            f"{source}: queries.source is synthetic, and such questions have no tags; name a "
            "dump, or a configuration that reads questions"
        )
    return config


@contextmanager
def _reading_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show how many bytes were read, of how many; on a screen alone."""
    from rich.console import Console
    from rich.progress import Progress

    screen = sys.stderr.isatty()
    with Progress(console=Console(stderr=True), transient=True, disable=not screen) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
