"""`freshstack export`, `import`, `validate` and `leaderboard`: what people exchange."""

import os
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import freshstack_dspy as fs
from freshstack_dspy.cli.command import (
    HELP,
    AtLeastOne,
    Nuggets,
    Outcome,
    Share,
    SlicesNamed,
    UnknownIds,
    Written,
    check_out,
    command,
    name_in,
    slices_named,
    to_type,
    wrote,
)
from freshstack_dspy.formats import FORMATS
from freshstack_dspy.pages.page import Page, Text, counted
from freshstack_dspy.progress import ProgressBars

HELP["format"] = (
    f"The layout: {', '.join(FORMATS.ours)}, or one of an installed package (a wrong name lists all)."
)
FormatName = Annotated[str, name_in(FORMATS.names)]


@command
def export(
    collection: Path,
    *,
    out: Path | None = None,
    format: FormatName = "freshstack",  # noqa: A002
    replace: bool = False,
    slices: SlicesNamed = None,
    nuggets: Nuggets = "supported",
    push: Annotated[str | None, typer.Option(metavar="OWNER/NAME")] = None,
    test: Share | None = None,
    measured: list[Path] | None = None,
    unjudged: Annotated[Path | None, typer.Option(metavar="RUN")] = None,
) -> Written:
    """Export a collection to another tool's layout, or as training data.

    Args:
        push: With hf: upload to this data set of the Hugging Face hub, which is private if it is
            new; the token is read from HF_TOKEN.
        test: With triples: how much of the questions is held out, 0.2 by default; nothing that is
            held out, or gives it away, is in the training data.
        measured: With triples: hold out the questions of this run, collection or leaderboard
            instead; may be repeated.
        unjudged: With triples: take unjudged chunks of a run's first 10 for negatives too, marked.
    """
    from freshstack_dspy.errors import ConfigError
    from freshstack_dspy.formats.hugging_face import push_collection

    if (out is None) == (push is None) or (push and format != "hf"):
        raise ConfigError(
            "name either a folder, --out FOLDER, or a data set, --format hf --push OWNER/NAME"
        )
    given = {"test": test, "measured": measured, "unjudged": unjudged}
    options: Any = {name: value for name, value in given.items() if value is not None}
    if options and format != "triples":
        raise ConfigError(f"--{next(iter(options))} goes with --format triples")
    how: Any = {"slices": slices_named(slices), "nuggets": nuggets, "replace": replace}
    if out is None:
        os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # read when the library is imported
        address = push_collection(collection, push or "", **how)
        return wrote([], f"{address}: {collection} was pushed", pushed=str(address))
    layout: Any = fs.triples(**options) if options else format
    exported = fs.export_collection(collection, layout, out, **how)
    counts = exported.counts
    lines = [
        f"{out}: {counts['queries']:,} queries and {counts['chunks']:,} chunks",
        *exported.notes,
        exported.agreement,
    ]
    if (ids := out / "ids.json").exists():
        lines.append(f"{ids}: ids that had to change, and what they were")
    about = {"counts": counts, "notes": exported.notes, "agreement": exported.agreement}
    return wrote(out, *lines, **about)._replace(complaints=exported.left_out)


@command
def import_(
    path: Path,
    *,
    format: FormatName,  # noqa: A002
    out: Path,
    replace: bool = False,
    corpus: Path | None = None,
    threshold: AtLeastOne | None = None,
    split: str | None = None,
    columns: Annotated[list[str] | None, typer.Option(metavar="PART=NAME")] = None,
    unknown_ids: UnknownIds = "error",
) -> Outcome:
    """Make a collection from another tool's, to evaluate on, extend or judge again.

    Args:
        path: Folder or file of another tool's collection.
        out: Folder of the new collection, which has its name.
        corpus: File or folder of the corpus, if not in PATH. With golden: a folder of documents, a
            collection, a file of rows, or the TOML file of a build, whose documents are cut as it
            says.
        threshold: The lowest label that counts as support.
        split: With beir: which qrels to read, if there are several.
        columns: With golden: which column is the question, answer, texts, ids, files, grade or
            query_id, as question=prompt; may be repeated.
        unknown_ids: Judgments of queries or documents that do not exist: stop, or drop.
    """
    from freshstack_dspy.views.recipes import built_page

    check_out(out, replace=replace, folder=True)
    parts = (pair.partition("=") for pair in columns or ())
    named = {part: column for part, _, column in parts}
    options: Any = {"corpus": corpus, "threshold": threshold, "split": split, "columns": named}
    if corpus is not None and corpus.suffix == ".toml":
        from freshstack_dspy.config import load_judging
        from freshstack_dspy.recipes.corpus import chunk_corpora, with_repositories

        with ProgressBars() as bars:
            config = with_repositories(load_judging(corpus, ("corpus ",)), "live", bars)
            options["corpus"] = chunk_corpora(config, bars).chunks
    collection = fs.import_collection(
        format, path, out, unknown_ids=unknown_ids, replace=replace, **options
    )
    complaints = []
    if collection.plain:
        complaints.append(f"{format} has no nuggets: each query is its own one, by its text")
    hints = [to_type("look for faults in its labels", f"freshstack audit {out}")]
    return Outcome(built_page(collection, out), hints, complaints=complaints)


@command
def validate(
    path: Path, *, strict: bool = False, require: Literal["calibrated"] | None = None
) -> Outcome:
    """Check every reference, count and hash; list all faults.

    Args:
        path: Folder of a collection or of an export.
        strict: Also exit with 1 if a pair or a step failed.
        require: Exit with 1 if the labels do not agree with people as [trust] requires.
    """
    from freshstack_dspy.formats.validate import validate as find

    report = find(path)
    complaints = []
    if strict and report.missing:
        complaints.append(f"{path}: {report.missing}; see {path / 'failures.jsonl'}")
    if require is not None and not report.calibrated:
        why = report.agreement or "an export, which has no labels of people"
        complaints.append(f"{path}: {why}")
    code = int(bool(report.faults or complaints))
    return Outcome(report.page(path), complaints=complaints, code=code)


@command
def leaderboard(folder: Path, *, check: bool = False) -> Outcome:
    """Compute a leaderboard from its stored runs; write leaderboard.json.

    Args:
        folder: Folder with leaderboard.toml and the run files it names.
        check: Write nothing; fail if leaderboard.json differs.
    """
    from freshstack_dspy.collection.leaderboard import (
        RESULTS_FILE,
        compute,
        differences,
        read_board,
        write_results,
    )

    with ProgressBars() as bars:
        bars.start("runs", sum(len(entry.runs) for entry in read_board(folder).entries))
        results = compute(folder, lambda: bars.advance("runs"))
        bars.finish("runs")
    if check:
        found = differences(folder, results)
        summary = f"as stored: {counted(len(results.entries), 'entry', 'entries')}"
        if found:
            summary = f"{counted(len(found), 'difference')} from {RESULTS_FILE}"
        lines = (*found, f"{folder}: {summary}")
        return Outcome(Page("", tuple(map(Text, lines)), found), code=int(bool(found)))
    write_results(folder, results)
    hint = f"{folder / RESULTS_FILE} written, measures version {results.measures_version}"
    return Outcome(results, [Text(hint)])
