"""`freshstack leaderboard`: every figure again from the stored runs, or whether they still hold."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from freshstack_dspy.errors import ConfigError

if TYPE_CHECKING:
    from freshstack_dspy.collection.leaderboard import Results

FormatName = Literal["table", "json", "csv", "latex", "markdown", "freshstack"]


def leaderboard(
    folder: Annotated[
        Path, typer.Argument(help="Folder with leaderboard.toml and the run files it names.")
    ],
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Write nothing; name every difference from leaderboard.json, and fail if any.",
        ),
    ] = False,
    form: Annotated[
        FormatName,
        typer.Option(
            "--format", help="What is printed; freshstack: the data of the official leaderboard."
        ),
    ] = "table",
    collection: Annotated[
        list[str] | None,
        typer.Option(
            help="TOPIC=FOLDER: a collection outside of the leaderboard; may be repeated."
        ),
    ] = None,
) -> None:
    """Compute a leaderboard from its stored runs; write leaderboard.json."""
    from freshstack_dspy.cli.leaderboard_progress import LateProgress
    from freshstack_dspy.collection.leaderboard import compute, read_board, write_results

    elsewhere = _elsewhere(collection or ())
    with LateProgress("runs measured") as progress:
        results = compute(folder, read_board(folder), elsewhere, progress)
    if check:
        _check(folder, results, elsewhere)
        return
    printed = "" if form == "table" else _printed(results, form)
    path = write_results(folder, results)
    print(printed, end="")
    if form == "table":
        _show(results, path)


def _check(folder: Path, results: "Results", elsewhere: Mapping[str, Path]) -> None:
    from freshstack_dspy.cli.lines import counted, say
    from freshstack_dspy.collection.leaderboard import computing_command, differences

    found = differences(folder, results, elsewhere)
    for difference in found:
        say(difference)
    entries = counted(len(results.entries), "entry", "entries")
    if found:
        command = computing_command(folder, elsewhere)
        say(f"{folder}: {counted(len(found), 'difference')}; if they are meant: {command}")
        raise typer.Exit(1)
    topics = counted(len(results.collections), "topic")
    say(f"{folder}: as stored: {entries}, {topics}, measures version {results.measures_version}")


def _show(results: "Results", path: Path) -> None:
    from freshstack_dspy.cli.leaderboard_screen import show_results
    from freshstack_dspy.cli.lines import say

    show_results(results)
    say(f"{path} written, measures version {results.measures_version}")


def _printed(results: "Results", form: FormatName) -> str:
    import json

    from freshstack_dspy.cli.leaderboard_tables import long_table, wide_tables
    from freshstack_dspy.cli.table_formats import as_csv, as_latex, as_markdown
    from freshstack_dspy.collection.leaderboard import encode_results, leaderboard_data

    if form == "json":
        return encode_results(results)
    if form == "freshstack":
        return json.dumps(leaderboard_data(results), ensure_ascii=False, indent=4) + "\n"
    if form == "csv":
        return as_csv(long_table(results))
    write = as_latex if form == "latex" else as_markdown
    return "\n".join(map(write, wide_tables(results)))


def _elsewhere(given: Sequence[str]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for each in given:
        topic, equals, path = each.partition("=")
        if not topic or not equals or not path:
            raise ConfigError(f"--collection {each}: type --collection TOPIC=FOLDER")
        if topic in found:
            raise ConfigError(f"--collection names {topic!r} twice; name each topic once")
        found[topic] = Path(path)
    return found
