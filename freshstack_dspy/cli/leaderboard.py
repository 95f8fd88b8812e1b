"""`freshstack leaderboard`: computed from the stored runs, or compared with what is stored."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from freshstack_dspy.cli.options import FormatOption, JsonOption

if TYPE_CHECKING:
    from freshstack_dspy.cli.printing import Cell, Table
    from freshstack_dspy.collection.leaderboard import EntryResult, Mean, Results


def leaderboard(
    folder: Annotated[
        Path, typer.Argument(help="Folder with leaderboard.toml and the run files it names.")
    ],
    check: Annotated[
        bool,
        typer.Option("--check", help="Write nothing; fail where leaderboard.json differs."),
    ] = False,
    collection: Annotated[
        list[str] | None,
        typer.Option(metavar="TOPIC=FOLDER", help="Where a topic's collection is; repeatable."),
    ] = None,
    form: FormatOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compute a leaderboard from its stored runs; write leaderboard.json."""
    from freshstack_dspy.cli.printing import Bars, counted, say, show, show_json
    from freshstack_dspy.collection.leaderboard import (
        RESULTS_FILE,
        compute,
        differences,
        write_results,
    )

    elsewhere = _elsewhere(collection or [])
    with Bars() as bars:

        def progress(done: int, total: int) -> None:
            if done == 1:
                bars.start("runs", total)
            bars.advance("runs")
            if done == total:
                bars.finish("runs")

        results = compute(folder, elsewhere, progress)
    if check:
        found = differences(folder, results)
        for line in found:
            say(line)
        stored = f"as stored: {counted(len(results.entries), 'entry', 'entries')}"
        differ = f"{counted(len(found), 'difference')} from {RESULTS_FILE}"
        say(f"{folder}: {differ if found else stored}")
        raise typer.Exit(int(bool(found)))
    write_results(folder, results)
    if as_json:
        show_json(results)
        return
    for table in _tables(results):
        show(table, form)
    if form is None:
        makers = sorted({topic.labels for topic in results.collections.values()})
        say(f"labels by {', '.join(makers)}; 95 % bootstrap intervals over queries")
        say(f"{folder / RESULTS_FILE} written, measures version {results.measures_version}")


def _elsewhere(given: list[str]) -> dict[str, Path]:
    from freshstack_dspy.errors import ConfigError

    pairs = [each.partition("=") for each in given]
    if wrong := [each for each, pair in zip(given, pairs, strict=True) if not all(pair)]:
        raise ConfigError(f"--collection {wrong[0]}: type --collection TOPIC=FOLDER")
    return {topic: Path(path) for topic, _, path in pairs}


def _tables(results: "Results") -> "list[Table]":
    """The average over topics, if there are several, then each topic; in the order of the first."""
    from freshstack_dspy.cli.printing import Table

    tables = []
    if len(results.collections) > 1:
        rows = [
            _row(results, entry, entry.average, f"no run for {', '.join(entry.missing)}")
            for entry in results.ranked()
        ]
        title = f"{results.name}: mean over {len(results.collections)} topics"
        tables.append(Table(("entry", "type", *results.measures, ""), rows, title, keys=2))
    for topic, data in results.collections.items():
        found = [(entry, entry.topics.get(topic)) for entry in results.ranked()]
        cutoffs = sorted({k for _, result in found if result for k in result.unjudged})
        rows = []
        for entry, result in found:
            cells = [*_row(results, entry, result.means if result else None, "no run")]
            odd = {"absent": 0, "empty": 0, "unknown": 0, "tied": 0}
            if result:
                odd = {name: getattr(result, name) for name in odd}
                cells[-1] = ", ".join(f"{number} {name}" for name, number in odd.items() if number)
            unjudged = [result.unjudged.get(k) if result else None for k in cutoffs]
            rows.append((*cells[:-1], *unjudged, cells[-1]))
        header = ("entry", "type", *results.measures, *(f"unjudged@{k}" for k in cutoffs), "")
        title = f"{topic}: {data.queries:,} queries, content hash {data.content_hash[:12]}"
        tables.append(Table(header, rows, title, digits=3, keys=2))
    return tables


def _row(
    results: "Results", entry: "EntryResult", means: "dict[str, Mean] | None", without: str
) -> "tuple[Cell, ...]":
    size = "" if entry.info.size == "-" else f"{entry.info.size}, "
    cells = [_cell(means[name]) if means else None for name in results.measures]
    return (entry.info.name, f"{size}{entry.info.type}", *cells, "" if means else without)


def _cell(mean: "Mean") -> str:
    if mean.low is None or mean.high is None:
        return f"{mean.value:.3f}"
    return f"{mean.value:.3f} [{mean.low:.3f}, {mean.high:.3f}]"
