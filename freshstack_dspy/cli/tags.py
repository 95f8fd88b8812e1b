"""`freshstack tags`: which tags occur beside a topic's own, by the questions that they cover."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from freshstack_dspy.config import QueriesConfig
    from freshstack_dspy.questions.tags import TagCoverage


def tags(
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
    until: Annotated[str | None, typer.Option(help="Asked before this ISO date.")] = None,
    min_score: Annotated[int | None, typer.Option(help="Lowest score of a question.")] = None,
    accepted_only: Annotated[
        bool, typer.Option("--accepted-only", help="Only questions with an accepted answer.")
    ] = False,
    order: Annotated[
        Literal["coverage", "questions"],
        typer.Option(help="Next the tag that adds the most questions, or that has the most."),
    ] = "coverage",
    top: Annotated[int, typer.Option(min=1, help="How many tags to list.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the tags beside a topic's own, by the questions they cover: what a corpus should hold."""
    from freshstack_dspy.cli.reading import reading_bar
    from freshstack_dspy.errors import SourceError
    from freshstack_dspy.questions.tags import question_tags, tag_coverage

    given = {"tags": tag, "since": since, "until": until, "min_score": min_score}
    config = _with(
        _queries(source), {key: value for key, value in given.items() if value is not None}
    )
    topic = (*config.tags, *config.all_tags)
    with reading_bar(str(source)) as progress:
        found = tag_coverage(
            question_tags(config, accepted_only=accepted_only, progress=progress),
            ignored=(*topic, *(ignore or ())),
            order=order,
            top=top,
        )
    if not found.questions:
        raise SourceError(f"{source}: no question passes the filters; widen them")
    if as_json:
        print(json.dumps(found.model_dump(mode="json"), indent=2))  # ASCII: it moves no cursor
    else:
        _print(found, topic)


def _queries(source: Path) -> "QueriesConfig":
    """Take the questions of a configuration, or of a dump; the rest may not be there yet."""
    from freshstack_dspy.config import QueriesConfig, load_queries
    from freshstack_dspy.errors import ConfigError

    if source.suffix == ".toml":
        config = load_queries(source)
        if config.is_synthetic:
            raise ConfigError(
                f"{source}: queries.source is synthetic, and such questions have no tags; name a "
                "dump, or a configuration that reads questions"
            )
        return config
    return QueriesConfig(source="stackexchange", path=source)


def _with(config: "QueriesConfig", given: dict[str, object]) -> "QueriesConfig":
    return config.model_validate({**config.model_dump(), **given})


def _print(found: "TagCoverage", topic: tuple[str, ...]) -> None:
    from rich.table import Table

    from freshstack_dspy.cli.lines import say
    from freshstack_dspy.cli.tables import show

    table = Table()
    table.add_column("tag")
    for column in ("questions", "share", "added", "coverage"):
        table.add_column(column, justify="right")
    for one in found.tags:
        shares = f"{one.share:.1%}", f"{one.coverage:.1%}"
        table.add_row(one.tag, f"{one.questions:,}", shares[0], f"{one.added:,}", shares[1])
    show(f"{found.questions:,} questions" + (f" with {', '.join(topic)}" if topic else ""), table)
    say(f"{found.distinct:,} tags to choose from; {found.without:,} questions have none of them")
