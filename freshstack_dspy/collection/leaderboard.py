"""Leaderboards that anybody can compute again, from stored runs and the collections of topics.

leaderboard.toml         name, measures, topics with their collections, entries with runs
leaderboard.json         what was computed, with the hashes of what it was computed from
leaderboard_data.json    the same as the data file of the official FreshStack leaderboard,
                         where its three measures were computed
"""

import hashlib
import json
import math
import operator
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from datetime import date
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from freshstack_dspy.errors import CollectionError, ConfigError
from freshstack_dspy.faults import in_one_line
from freshstack_dspy.files import json_file, write_file
from freshstack_dspy.measures.compare import Headroom, best_of, compare_evaluations, headroom
from freshstack_dspy.measures.evaluation import (
    FRESHSTACK_MEASURES,
    MEASURES_VERSION,
    Evaluation,
    evaluate,
)
from freshstack_dspy.measures.measure import Cutoff, parse_measure
from freshstack_dspy.measures.statistics import Interval, macro_interval
from freshstack_dspy.pages.page import counted
from freshstack_dspy.pages.shown import Shown
from freshstack_dspy.records import DEPENDS, Record
from freshstack_dspy.stored.folder import StoredCollection
from freshstack_dspy.stored.manifest import is_dry_run, makers

BOARD_FILE, RESULTS_FILE = "leaderboard.toml", "leaderboard.json"
OFFICIAL_FILE = "leaderboard_data.json"
AVERAGE = "average"
"""The official name of the average over topics, which no topic may have."""
OFFICIAL_KEYS = {
    "alpha_nDCG@10": "alpha_ndcg_10",
    "Coverage@20": "coverage_20",
    "Recall@50": "recall_50",
}
"""The official leaderboard's names for its measures; it has no others."""
_SAME = 1e-9
"""Values this close are equal: the last bits of an interval may depend on the machine."""


class EntryInfo(Record):
    """What is known of a system, as the official FreshStack leaderboard has it."""

    name: str = Field(min_length=1, max_length=200)
    size: str = "-"
    """The size of the model, such as `9B`; `-` where there is none or it is not known."""
    type: Literal["open_source", "proprietary", "upper_baseline"]
    """`upper_baseline`: it saw what a real system does not, as the nuggets, and is not ranked."""
    date: date
    """The date of the model."""
    link: str = Field(default="", pattern=r"^(https?://[^\s\"'<>\\]+)?$")

    @property
    def is_upper(self) -> bool:
        """Whether it saw what a real system does not."""
        return self.type == "upper_baseline"


class Entry(EntryInfo):
    """A system, and its stored runs."""

    runs: dict[str, str] = Field(min_length=1)
    """The TREC run file by topic; paths are relative to the leaderboard."""


class Topic(Record):
    """The collection of one topic."""

    path: str
    """Its folder, relative to the leaderboard."""
    content_hash: str | None = None
    """What it must hold; left out, what the results were computed on."""


class Board(Record):
    """A leaderboard: entries with their runs, measured on the collections of its topics."""

    name: str
    measures: tuple[str, ...] = Field(default=FRESHSTACK_MEASURES, min_length=1)
    """The table is ordered by the first."""
    collections: dict[str, Topic] = Field(min_length=1)
    """By topic."""
    entries: tuple[Entry, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _names_fit(self) -> Self:
        if AVERAGE in self.collections:
            raise ValueError(f"no topic is called {AVERAGE!r}")
        names = [entry.name.casefold() for entry in self.entries]
        topics = ", ".join(sorted(self.collections))
        for entry in self.entries:
            if names.count(entry.name.casefold()) > 1:
                raise ValueError(f"two entries are called {entry.name!r}; rename one")
            for unknown in sorted(entry.runs.keys() - self.collections.keys()):
                raise ValueError(
                    f"entry {entry.name!r} has a run for {unknown!r}, which is no topic of {topics}"
                )
        return self


class TopicResult(Record):
    """What one run reaches on the collection of its topic."""

    run: str
    """Its file."""
    sha256: str
    means: dict[str, Interval]
    """By measure."""
    unjudged: dict[Cutoff, float | None]
    """By cut-off: the mean share of the top without a label; None where it is empty."""
    absent: int
    """Queries that are not in the run; like those without results, 0 in every measure."""
    empty: int
    unknown: int
    """Queries of the run that are not in the collection: passed over."""
    tied: int
    """Queries all of whose chunks have one score, so that the ids decide their order."""
    undecided: tuple[str, ...] = Field(default=(), exclude_if=operator.not_)
    """The measures in which its difference from the topic's best run depends on what is unjudged."""
    headroom: tuple[Headroom, ...] = Field(default=(), exclude_if=operator.not_)
    """By measure, how much better the topic's best upper baseline is."""


class EntryResult(Record):
    """What one system reaches."""

    info: EntryInfo
    topics: dict[str, TopicResult]
    missing: tuple[str, ...]
    """Topics without a run."""
    average: dict[str, Interval] | None
    """Over topics, by measure; None where a run is missing."""


class TopicData(Record):
    """The collection that a topic was measured on, and who made its labels."""

    collection: str
    content_hash: str
    labels: str
    dry_run: bool = False
    """Whether a word counter made labels, so that nothing is concluded of the values."""
    weighted: str = Field(default="", exclude_if=operator.not_)
    """What its means are over; empty where each query counts once."""
    queries: int


class Results(Record, Shown):
    """Everything that `compute` finds; collections by topic, entries in the order of their names."""

    schema_version: Literal[4] = 4
    name: str
    measures_version: int = MEASURES_VERSION
    measures: tuple[str, ...]
    collections: dict[str, TopicData]
    entries: tuple[EntryResult, ...]

    def __repr__(self) -> str:
        topics = counted(len(self.collections), "topic")
        return f"Results({self.name!r}: {counted(len(self.entries), 'entry', 'entries')}, {topics})"

    __str__ = __repr__

    def ranked(self) -> list[EntryResult]:
        """Order entries by the average of the first measure, those without one after the others.

        Upper baselines come last; ties go to the first by name.
        """
        first = self.measures[0]
        values = {
            entry.info.name: entry.average[first].value or 0.0 if entry.average else -1
            for entry in self.entries
        }
        return sorted(
            self.entries,
            key=lambda entry: (entry.info.is_upper, -values[entry.info.name], entry.info.name),
        )


def read_board(folder: Path | str) -> Board:
    """Read the description of a leaderboard."""
    path = Path(folder) / BOARD_FILE
    try:
        board = Board.model_validate(tomllib.loads(path.read_text("utf-8")))
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be read: {error.strerror}; it names collections, entries and their "
            "runs, as docs/in-ci.md shows"
        ) from None
    except ValidationError as error:
        raise ConfigError(f"{path}: {in_one_line(error, Board)}") from None
    except ValueError as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from None
    names = dict.fromkeys(parse_measure(name).name for name in board.measures)
    return board.model_copy(update={"measures": tuple(names)})


def compute(folder: Path | str, measured: Callable[[], object] | None = None) -> Results:
    """Compute a leaderboard from its stored run files.

    Averages are means of the unrounded means of the topics, each of which weighs the same. A query
    that is absent from a run, or for which a measure has no value, counts 0; a topic without a run
    is missing and not 0.

    Args:
        folder: The folder of the leaderboard, which must contain the runs.
        measured: Called after each run.
    """
    folder, board = Path(folder), read_board(folder)
    collections = {
        topic: _collection(folder, topic, named)
        for topic, named in sorted(board.collections.items())
    }
    qrels = {topic: collection.qrels() for topic, collection in collections.items()}
    entries = sorted(board.entries, key=lambda entry: entry.name)
    by_topic: defaultdict[str, dict[str, Evaluation]] = defaultdict(dict)
    upper: defaultdict[str, dict[str, Evaluation]] = defaultdict(dict)
    for entry in entries:
        for topic, run in sorted(entry.runs.items()):
            try:
                evaluation = evaluate(
                    qrels[topic], _inside(folder, run), board.measures, judged_only=True
                )
            except CollectionError as error:
                raise CollectionError(f"entry {entry.name!r}, topic {topic!r}: {error}") from None
            if evaluation.is_oracle and not entry.is_upper:
                raise CollectionError(
                    f"entry {entry.name!r}, topic {topic!r}: the run {evaluation.run!r} was searched "
                    'with the answer known; write type = "upper_baseline"'
                )
            (upper if entry.is_upper else by_topic)[topic][entry.name] = evaluation
            if measured is not None:
                measured()
    undecided = {
        (topic, each.run, each.measure)
        for topic, evaluations in by_topic.items()
        if len(evaluations) > 1
        for each in compare_evaluations(evaluations, baseline=best_of(evaluations)).differences
        if each.verdict == DEPENDS
    }
    above = {topic: headroom(evaluations, upper[topic]) for topic, evaluations in by_topic.items()}
    return Results(
        name=board.name,
        measures=board.measures,
        collections={
            topic: TopicData(
                collection=each.name,
                content_hash=each.manifest.content_hash,
                labels=", ".join(makers(each.manifest)),
                dry_run=is_dry_run(each.manifest),
                weighted=qrels[topic].about.weighted,
                queries=len(each.query_ids()),
            )
            for topic, each in collections.items()
        },
        entries=tuple(
            _entry(folder, entry, board, (upper if entry.is_upper else by_topic), undecided, above)
            for entry in entries
        ),
    )


def _collection(folder: Path, topic: str, named: Topic) -> StoredCollection:
    collection = StoredCollection.load(folder / named.path)
    if named.content_hash not in (None, content_hash := collection.manifest.content_hash):
        raise CollectionError(
            f"{folder}: topic {topic} is of content hash {named.content_hash}, and {named.path} has "
            f"{content_hash}"
        )
    return collection


def _inside(folder: Path, run: str) -> Path:
    """Give the path of a run, which must be in the folder: messages may show what is in it."""
    if Path(run).is_absolute() or ".." in Path(run).parts:
        raise CollectionError(f"{run!r} leads out of the leaderboard")
    if not (folder / run).is_file():
        raise CollectionError(f"{folder / run}: cannot be read: no such file")
    return folder / run


def _entry(
    folder: Path,
    entry: Entry,
    board: Board,
    by_topic: Mapping[str, Mapping[str, Evaluation]],
    undecided: Set[tuple[str, str, str]],
    above: Mapping[str, Sequence[Headroom]],
) -> EntryResult:
    evaluations = {topic: by_topic[topic][entry.name] for topic in sorted(entry.runs)}
    missing = tuple(sorted(board.collections.keys() - entry.runs.keys()))
    topics = {}
    for topic, evaluation in evaluations.items():
        query_ids = evaluation.about.query_ids
        topics[topic] = TopicResult(
            run=entry.runs[topic],
            sha256=hashlib.sha256((folder / entry.runs[topic]).read_bytes()).hexdigest(),
            means=evaluation.intervals,
            unjudged=evaluation.unjudged_shares,
            absent=len(evaluation.absent),
            empty=len(evaluation.empty),
            unknown=sum(query not in query_ids for query in evaluation.unknown),
            tied=len(evaluation.tied),
            undecided=tuple(
                name for name in board.measures if (topic, entry.name, name) in undecided
            ),
            headroom=tuple(each for each in above.get(topic, ()) if each.run == entry.name),
        )
    return EntryResult(
        info=EntryInfo(**{name: getattr(entry, name) for name in EntryInfo.model_fields}),
        topics=topics,
        missing=missing,
        average=None if missing else _average(board.measures, evaluations),
    )


def _average(
    measures: tuple[str, ...], evaluations: Mapping[str, Evaluation]
) -> dict[str, Interval]:
    averages = {}
    for measure in measures:
        values: dict[str, float] = {}
        weights: dict[str, float] = {}
        topics: dict[str, tuple[str]] = {}
        for topic, evaluation in evaluations.items():
            for query, value in evaluation.values(measure).items():
                values[f"{topic} {query}"], topics[f"{topic} {query}"] = value, (topic,)
            weights |= {f"{topic} {query}": w for query, w in evaluation.weights.items()}
        averages[measure] = macro_interval(values, topics, weights=weights)
    return averages


def write_results(folder: Path | str, results: Results) -> None:
    """Write `leaderboard.json`, and `leaderboard_data.json` where its measures were computed."""
    values = {RESULTS_FILE: results.model_dump(mode="json")}
    if set(OFFICIAL_KEYS) <= set(results.measures):
        values[OFFICIAL_FILE] = official_data(results)
    for name, value in values.items():
        text = json.dumps(value, ensure_ascii=False, indent=1, sort_keys=name == RESULTS_FILE)
        write_file(Path(folder) / name, f"{text}\n")


def differences(folder: Path | str, results: Results) -> list[str]:
    """Say how the stored results differ from computed ones, one line for each value."""
    path = Path(folder) / RESULTS_FILE
    stored, computed = json_file(path), results.model_dump(mode="json")
    try:
        for values in (stored, computed):  # an entry that was added does not shift the others
            values["entries"] = {entry["info"]["name"]: entry for entry in values["entries"]}
    except (LookupError, TypeError) as error:
        raise CollectionError(f"{path}: not the results of a leaderboard: {error}") from None
    was, now = dict(_leaves(stored)), dict(_leaves(computed))
    lines = []
    for place in sorted(was.keys() | now.keys()):
        pair = was.get(place, "nothing"), now.get(place, "nothing")
        numbers = all(isinstance(value, float) for value in pair)
        if not (math.isclose(*pair, abs_tol=_SAME) if numbers else pair[0] == pair[1]):
            lines.append("{}: stored {:.80}, now {:.80}".format(place, *map(json.dumps, pair)))
    return lines


def _leaves(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Give the values inside of objects, each with the keys that lead to it."""
    if not isinstance(value, dict):
        yield place, value
        return
    for key, inner in value.items():
        yield from _leaves(inner, f"{place}.{key}" if place else key)


def official_data(results: Results) -> dict[str, Any]:
    """Give a whole leaderboard in the official format, in the order of its table."""
    entries = []
    for entry in results.ranked():
        means = {
            topic: {name: mean.value or 0.0 for name, mean in result.means.items()}
            for topic, result in entry.topics.items()
        }
        entries.append(leaderboard_entry(entry.info, means, whole=not entry.missing))
    return {"leaderboardData": entries}


def leaderboard_entry(
    info: EntryInfo, means: Mapping[str, Mapping[str, float]], *, whole: bool = True
) -> dict[str, Any]:
    """Give one entry in the format of the official FreshStack leaderboard.

    Averages are means of the unrounded means of the topics. So are the official ones: 113 of its
    120 averages (40 systems) also follow from the rounded values, and the other 7 differ by .001,
    which only unrounded values explain.

    Args:
        info: What is known of the system.
        means: By topic and measure, not rounded. Measures that the format lacks are left out.
        whole: Whether these are all topics of the leaderboard; otherwise there is no average.

    Raises:
        ConfigError: A measure of the format is missing for a topic.
    """
    for topic, of_topic in means.items():
        if missing := [name for name in OFFICIAL_KEYS if name not in of_topic]:
            raise ConfigError(f"topic {topic!r} has no {missing[0]}, which the format needs")
    columns = {topic: means[topic] for topic in sorted(means)}
    if whole:
        columns[AVERAGE] = {
            name: fmean(of_topic[name] for of_topic in means.values()) for name in OFFICIAL_KEYS
        }
    return {
        "info": info.model_dump(mode="json", include=set(EntryInfo.model_fields)),
        "datasets": {
            topic: {key: round(of_topic[name], 3) for name, key in OFFICIAL_KEYS.items()}
            for topic, of_topic in columns.items()
        },
    }
