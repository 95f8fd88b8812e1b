"""Every figure of a leaderboard, computed from its stored run files."""

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.collection.leaderboard.board import BOARD_FILE, Board, Entry
from freshstack_dspy.collection.leaderboard.places import (
    inside,
    read_bytes,
    refuse_links_out,
    run_path,
)
from freshstack_dspy.collection.leaderboard.quoting import cut, quoted
from freshstack_dspy.collection.leaderboard.results import (
    LEVEL,
    RESAMPLES,
    RESULTS_FILE,
    SEED,
    EntryResult,
    Figure,
    Results,
    TopicData,
    TopicResult,
)
from freshstack_dspy.errors import CollectionError, ConfigError
from freshstack_dspy.measures import (
    Evaluation,
    evaluate,
    find_holes,
    macro_interval,
    mean_intervals,
    parse_measure,
    read_run,
)

if TYPE_CHECKING:
    from freshstack_dspy.measures import NuggetQrels

_DEPTH_WITHOUT_CUTOFF = 10
"""At which unjudged@k is given where no measure has a cut-off."""


def compute(
    folder: Path,
    board: Board,
    elsewhere: Mapping[str, Path] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Results:
    """Compute every figure of a leaderboard from its stored run files.

    Args:
        folder: Of the leaderboard. Paths in its description stay inside.
        board: Its description.
        elsewhere: Folders of collections by topic, where they are not in the leaderboard.
        progress: Told how many runs are measured, and of how many; first of 0.

    Raises:
        ConfigError: A topic in `elsewhere` is none of the leaderboard's.
        CollectionError: A collection is not the one that is named, a file is missing or damaged, a
            path leads out of the folder, a run is one of the leaderboard's own files, or it is of
            another collection.
    """
    _check_runs(folder, board)
    collections = _collections(folder, board, elsewhere or {})
    qrels = {topic: collection.qrels() for topic, collection in collections.items()}
    entries = []
    done, total = 0, sum(len(entry.runs) for entry in board.entries)
    report = progress or (lambda _done, _total: None)
    report(done, total)
    for entry in sorted(board.entries, key=lambda entry: entry.name):
        entries.append(_entry(folder, board, entry, qrels))
        done += len(entry.runs)
        report(done, total)
    return Results(
        name=board.name,
        measures=board.measures,
        collections={
            topic: TopicData(
                collection=collection.name,
                content_hash=collection.manifest.content_hash,
                queries=len(qrels[topic].nuggets),
                without_relevant=sum(
                    not qrels[topic].judged(query).supported for query in qrels[topic].nuggets
                ),
            )
            for topic, collection in collections.items()
        },
        entries=tuple(entries),
    )


def _check_runs(folder: Path, board: Board) -> None:
    """Refuse a run that the results would be written over, before anything is computed."""
    for entry in board.entries:
        for topic, path in sorted(entry.runs.items()):
            try:
                run_path(folder, path, (RESULTS_FILE, BOARD_FILE))
            except CollectionError as error:
                raise _of_run(entry, topic, error) from None


def _of_run(entry: Entry, topic: str, error: CollectionError) -> CollectionError:
    return CollectionError(f"entry {quoted(entry.name)}, topic {topic!r}: {error}")


def _collections(
    folder: Path, board: Board, elsewhere: Mapping[str, Path]
) -> dict[str, Collection]:
    if strangers := sorted(elsewhere.keys() - board.collections.keys()):
        topics = ", ".join(sorted(board.collections))
        raise ConfigError(
            f"{quoted(strangers[0])} is no topic of {quoted(board.name)}; topics are {topics}"
        )
    found: dict[str, Collection] = {}
    faults = []
    for topic, named in sorted(board.collections.items()):
        path = elsewhere.get(topic)
        if path is None and named.path is None:
            faults.append(f"{topic} names no path, so say where it is: --collection {topic}=FOLDER")
            continue
        if path is None:
            path = inside(folder, str(named.path))
            refuse_links_out(folder, path)
        collection = found[topic] = Collection.load(path)
        if collection.manifest.content_hash != named.content_hash:
            faults.append(
                f"{topic} is content {named.content_hash} here, and {cut(str(path))} is "
                f"{collection.manifest.content_hash}"
            )
    if faults:
        raise CollectionError(f"{folder}: wrong collections: {'; '.join(faults)}")
    return found


def _entry(
    folder: Path, board: Board, entry: Entry, qrels: "Mapping[str, NuggetQrels]"
) -> EntryResult:
    measured = {
        topic: _measure(folder, board, entry, topic, qrels[topic]) for topic in sorted(entry.runs)
    }
    missing = tuple(sorted(board.collections.keys() - measured.keys()))
    evaluations = {topic: each.evaluation for topic, each in measured.items()}
    return EntryResult(
        info=entry.info,
        topics={topic: each.result for topic, each in measured.items()},
        missing=missing,
        average=None if missing else _average(board, evaluations),
    )


class _Measured(NamedTuple):
    result: TopicResult
    evaluation: Evaluation


def _measure(
    folder: Path, board: Board, entry: Entry, topic: str, qrels: "NuggetQrels"
) -> _Measured:
    try:
        path = inside(folder, entry.runs[topic])
        sha256 = hashlib.sha256(read_bytes(path)).hexdigest()
        run = read_run(path)
        evaluation = evaluate(qrels, run, board.measures, undefined="zero")
    except CollectionError as error:
        raise _of_run(entry, topic, error) from None
    cutoffs = {parse_measure(name).k for name in board.measures}
    depths = sorted(k for k in cutoffs if k is not None) or [_DEPTH_WITHOUT_CUTOFF]
    intervals = mean_intervals(evaluation, LEVEL, RESAMPLES, SEED)
    result = TopicResult(
        run=entry.runs[topic],
        sha256=sha256,
        figures={measure: Figure.of(interval) for measure, interval in intervals.items()},
        unjudged={k: find_holes(qrels, run, k).mean_unjudged for k in depths},
        absent=len(evaluation.absent),
        empty=len(evaluation.empty),
        unknown=len(evaluation.unknown),
        tied=len(evaluation.tied),
    )
    return _Measured(result, evaluation)


def _average(board: Board, evaluations: Mapping[str, Evaluation]) -> dict[str, Figure]:
    """The mean over topics, each of which weighs the same however many queries it has."""
    # A topic has no space in its name, so that no two queries get one key.
    topics = {
        f"{topic} {query}": topic
        for topic, evaluation in evaluations.items()
        for query in evaluation.per_query
    }
    averages = {}
    for measure in board.measures:
        values = {
            f"{topic} {query}": value
            for topic, evaluation in evaluations.items()
            for query, value in evaluation.values(measure).items()
        }
        averages[measure] = Figure.of(macro_interval(values, topics, LEVEL, RESAMPLES, SEED))
    return averages
