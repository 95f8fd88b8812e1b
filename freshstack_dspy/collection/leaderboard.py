"""The description of a leaderboard, `leaderboard.toml`: its topics, measures and entries."""

import hashlib
import json
import math
import os
import re
import secrets
import shlex
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Self

from pydantic import AfterValidator, Field, ValidationError, model_validator

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.errors import CollectionError, ConfigError
from freshstack_dspy.files import check_regular, standing_folder
from freshstack_dspy.measures.evaluation import (
    FRESHSTACK_MEASURES,
    MEASURES_VERSION,
    Evaluation,
    evaluate,
    find_holes,
)
from freshstack_dspy.measures.measure import parse_measure
from freshstack_dspy.measures.run import read_run
from freshstack_dspy.measures.statistics import Interval, macro_interval, mean_intervals
from freshstack_dspy.records import Record

if TYPE_CHECKING:
    from freshstack_dspy.measures.qrels import NuggetQrels

_LONGEST = 80


def quoted(value: Any) -> str:
    """Quote a value as Python writes it, cut after 80 characters; a table is not shown."""
    if isinstance(value, dict):
        return "a table" if value else "an empty table"
    if isinstance(value, list):
        return f"an array of {len(value)}"
    # Long before it is written: a number may have more digits than Python writes.
    if isinstance(value, int) and abs(value) >= 10**_LONGEST:
        return f"a number of more than {_LONGEST} digits"
    text = repr(value[: _LONGEST + 1] if isinstance(value, str) else value)
    return text if len(text) <= _LONGEST + 2 else f"{text[: _LONGEST + 1]}…{text[0]}"


def cut(text: str) -> str:
    """Cut a long text after 80 characters."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


_LINE = "one line of 1 to 200 printable characters, with no space around it"
_PATH = "a path of 1 to 500 characters, relative to the leaderboard"
_WORD = re.compile(r"[A-Za-z0-9_.-]{1,60}")
_KEYS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "board": {
            "name": _LINE,
            "measures": 'an array of one measure or more, as ["alpha_nDCG@10"]',
            "collections": "one table or more, [collections.TOPIC]",
            "entries": "one table or more, [[entries]]",
        },
        "collection": {"path": _PATH, "content_hash": "64 digits, 0 to 9 and a to f"},
        "entry": {
            "name": _LINE,
            "size": f"{_LINE}, as 9B",
            "type": "open_source, proprietary or upper_baseline",
            "date": "a date that exists, as 2026-01-31",
            "link": "an http or https address of at most 1,000 printable characters, or empty",
            "runs": 'a table with a run file for one topic or more, { TOPIC = "runs/mine.run" }',
        },
    }
)
"""What is allowed for each key, by the table it stands in."""
_ITEMS = MappingProxyType(
    {
        "runs": f"{_PATH}, of a run file",
        "measures": "the name of a measure, of at most 200 characters",
    }
)


def board_fault(error: ValidationError, values: Any) -> str:
    """Say the first fault of a description: where, what was found and what is allowed.

    Args:
        error: What validation raised.
        values: What was validated, for the names of the entries.
    """
    fault = error.errors(include_url=False)[0]
    place: list[int | str] = list(fault["loc"])
    if not place:
        return _message(fault)
    if place[0] == "entries" and len(place) > 1:
        return f"{_entry(values, place[1])}: {_said(fault, place[2:], 'entry')}"
    if place[0] == "collections" and len(place) > 1:
        return f"collections.{_key(place[1])}: {_said(fault, place[2:], 'collection')}"
    return _said(fault, place, "board")


def entry_fault(error: ValidationError) -> str:
    """Say the first fault of what is told of one entry."""
    fault = error.errors(include_url=False)[0]
    return _said(fault, list(fault["loc"]), "entry")


def _said(fault: Any, place: list[int | str], table: str) -> str:
    """Say a fault at a place that is relative to a table."""
    keys = _KEYS[table]
    if not place:
        return f"it is {quoted(fault['input'])}; allowed: a table with {', '.join(keys)}"
    if fault["type"] == "extra_forbidden":
        return f"unknown key {quoted(place[-1])}; allowed here: {', '.join(keys)}"
    named = ".".join(map(_key, place))
    if fault["type"] == "missing":
        return f"{named} is missing; allowed: {keys[str(place[0])]}"
    allowed = _ITEMS[str(place[0])] if len(place) > 1 else keys[str(place[0])]
    return f"{named} is {quoted(fault['input'])}; allowed: {allowed}"


def _entry(values: Any, number: int | str) -> str:
    """Name an entry, or tell which it is where it has no name."""
    try:
        name = values["entries"][number]["name"]
    except (KeyError, IndexError, TypeError):
        name = None
    if isinstance(name, str) and name:
        return f"entry {quoted(name)}"
    return f"entry {int(number) + 1} of {len(values['entries'])}"


def _key(part: int | str) -> str:
    return str(part) if _WORD.fullmatch(str(part)) else quoted(part)


def _message(fault: Any) -> str:
    if fault["type"] == "value_error":
        return str(fault["msg"]).removeprefix("Value error, ")
    return f"it is {quoted(fault['input'])}; allowed: a table"


def inside(folder: Path, relative: str) -> Path:
    """Give a path of a leaderboard, unless it or a link on its way leads out of the folder.

    Raises:
        CollectionError: It is absolute, leads out, or is no path.
    """
    if Path(relative).is_absolute():
        raise CollectionError(
            f"{folder}: {quoted(relative)} is absolute; paths are relative to there"
        )
    try:
        root, place = Path(os.path.realpath(folder)), Path(os.path.realpath(folder / relative))
    except (OSError, ValueError) as error:
        raise CollectionError(f"{folder}: {quoted(relative)} is no path: {_cause(error)}") from None
    if not place.is_relative_to(root):
        raise CollectionError(
            f"{folder}: {quoted(relative)} leads out of the leaderboard, to {cut(str(place))}; put "
            "the files themselves there"
        )
    return folder / relative


def run_path(folder: Path, relative: str, kept: Sequence[str]) -> Path:
    """Give the path of a run, unless it is one of the leaderboard's own files.

    Args:
        folder: Of the leaderboard.
        relative: As its description has it.
        kept: The names of its own files: results are written over one of them.

    Raises:
        CollectionError: It is one of them, by another name or link too, or leads out.
    """
    path = inside(folder, relative)
    for name in kept:
        if _same_file(path, folder / name):
            raise CollectionError(
                f"{folder}: the run {quoted(relative)} is {name}, which the leaderboard keeps for "
                "itself; give the run another name"
            )
    return path


def _same_file(one: Path, other: Path) -> bool:
    """Whether two paths lead to one file, whether it exists or not."""
    if os.path.realpath(one) == os.path.realpath(other):
        return True
    try:
        return one.samefile(other)  # a hard link, or a name in other letters
    except OSError:
        return False  # one of them is missing


def check_links_out(folder: Path, collection: Path) -> None:
    """Refuse a collection of which a file is a link that leads out of the leaderboard.

    Raises:
        CollectionError: There is one.
    """
    standing = standing_folder(collection)
    inside(folder, os.path.relpath(standing, folder))
    if standing.is_dir():
        for path in sorted(standing.iterdir()):
            inside(folder, os.path.relpath(path, folder))


def read_bytes(path: Path) -> bytes:
    """Read a regular file.

    Raises:
        CollectionError: It is none, or cannot be read.
    """
    try:
        check_regular(path)
        return path.read_bytes()
    except OSError as error:
        raise CollectionError(f"{cut(str(path))}: cannot be read: {error.strerror}") from None


def _cause(error: OSError | ValueError) -> str:
    """Say what is wrong with a path, without the path."""
    return error.strerror or "" if isinstance(error, OSError) else str(error)


BOARD_FILE = "leaderboard.toml"
AVERAGE = "average"
"""Where the average over topics stands in the official format, so that no topic is called so."""

NO_SIZE = "-"

_TOPIC = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_LINK = re.compile(r"(https?://[^\s\"'<>\\]+)?")


def _printable(text: str) -> str:
    if not text.isprintable() or text != text.strip():
        raise ValueError("one line of printable characters, with no space around it")
    return text


def _date(text: str) -> str:
    from datetime import date

    if not re.fullmatch(r"\d{4}-\d\d-\d\d", text):
        raise ValueError("a date as 2026-01-31")
    date.fromisoformat(text)
    return text


def _web(text: str) -> str:
    # No white space is not enough: control characters move the cursor and are none.
    if not _LINK.fullmatch(text) or not text.isprintable():
        raise ValueError("an http or https address, or empty")
    return text


Line = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_printable)]
InnerPath = Annotated[str, Field(min_length=1, max_length=500)]


class EntryInfo(Record):
    """What is told of a system, as the official FreshStack leaderboard tells it."""

    name: Line
    size: Line = NO_SIZE
    """Of the model, as `9B`; - where there is none or nobody says."""
    type: Literal["open_source", "proprietary", "upper_baseline"]
    """`upper_baseline`: it saw what a real system does not, as the nuggets."""
    date: Annotated[str, AfterValidator(_date)]
    """Of the model, as 2026-01-31."""
    link: Annotated[str, Field(max_length=1000), AfterValidator(_web)] = ""


class Entry(EntryInfo):
    """A system, and its stored runs."""

    runs: dict[str, InnerPath] = Field(min_length=1)
    """The TREC run file by topic; paths are relative to the leaderboard."""

    @property
    def info(self) -> EntryInfo:
        """What is told of it."""
        return EntryInfo(**{name: getattr(self, name) for name in EntryInfo.model_fields})


class TopicCollection(Record):
    """The collection of one topic."""

    path: InnerPath | None = None
    """Its folder, relative to the leaderboard. None: whoever computes says where it is."""
    content_hash: str = Field(pattern=r"^[0-9a-f]{64}$")


class Board(Record):
    """A leaderboard: entries with their runs, measured on the collections of its topics."""

    name: Line
    measures: tuple[Annotated[str, Field(max_length=200)], ...] = Field(
        default=FRESHSTACK_MEASURES, min_length=1
    )
    """Those by which the table is ordered come first."""
    collections: dict[str, TopicCollection] = Field(min_length=1)
    """By topic."""
    entries: tuple[Entry, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _names_fit(self) -> Self:
        for topic in self.collections:
            if not _TOPIC.fullmatch(topic) or topic == AVERAGE:
                raise ValueError(
                    f"a topic is 1 to 100 letters, digits, dots, dashes and underscores, and not "
                    f"{AVERAGE!r}; found {quoted(topic)}"
                )
        seen: dict[str, str] = {}
        for entry in self.entries:
            if (same := seen.setdefault(_alike(entry.name), entry.name)) is not entry.name:
                raise ValueError(
                    f"two entries are called {quoted(entry.name)} and {quoted(same)}; rename one"
                )
            if strangers := sorted(entry.runs.keys() - self.collections.keys()):
                raise ValueError(
                    f"entry {quoted(entry.name)} has a run for {quoted(strangers[0])}, which is "
                    f"no topic; topics are {', '.join(sorted(self.collections))}"
                )
        return self


def read_board(folder: Path) -> Board:
    """Read the description of a leaderboard; measures get the names that are printed.

    Args:
        folder: Of the leaderboard; nothing outside of it is read.

    Raises:
        ConfigError: There is none, it cannot be read, a key or value is not allowed, or a measure
            is unknown.
    """
    path = folder / BOARD_FILE
    if not folder.is_dir():
        raise ConfigError(f"{folder}: no such folder")
    if not path.exists():
        raise ConfigError(f"{path}: no such file; docs/leaderboard.md shows what is in it")
    text = _as_json(folder)
    try:
        board = Board.model_validate_json(text, strict=True)
    except ValidationError as error:
        raise ConfigError(f"{path}: {board_fault(error, json.loads(text))}") from None
    try:
        names = tuple(dict.fromkeys(parse_measure(name).name for name in board.measures))
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    return board.model_copy(update={"measures": names})


def _as_json(folder: Path) -> str:
    """Read the description as JSON: dates are text, nothing else is made into another type."""
    path = folder / BOARD_FILE
    try:
        values = tomllib.loads(read_bytes(inside(folder, BOARD_FILE)).decode("utf-8-sig"))
    except CollectionError as error:
        raise ConfigError(str(error)) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from None
    except ValueError:
        raise ConfigError(f"{path}: a number in it is too long") from None
    try:
        return json.dumps(values, default=lambda moment: moment.isoformat())
    except (ValueError, RecursionError):
        # Hexadecimal numbers of any length are read, and decimal ones of 4,300 digits written.
        raise ConfigError(f"{path}: a number in it is too long, or its tables too deep") from None


def _alike(name: str) -> str:
    """What names have in common that people cannot tell apart."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


RESULTS_FILE = "leaderboard.json"
SCHEMA_VERSION: Literal[1] = 1
LEVEL, RESAMPLES, SEED = 0.95, 10_000, 0
CONVENTIONS = {
    "average": "mean of the unrounded means of all topics; none where a topic is missing",
    "empty ranking": "0",
    "interval": (
        "percentile bootstrap over queries, rescaled for the average so that each topic weighs the "
        f"same; level {LEVEL}, {RESAMPLES} resamples, seed {SEED}"
    ),
    "measure without a value for a query": "0",
    "query absent from the run": "0",
    "rounding": "none",
    "ties": "score descending, then chunk id ascending",
    "topic without a run": "missing, not 0",
    "unjudged chunk": "not relevant; unjudged@k is the mean share of such chunks in the top k",
}
"""What else the figures depend on; a change here raises `MEASURES_VERSION`."""


class Figure(Record):
    """A mean with its interval; without ends where there are too few queries for one."""

    value: float
    low: float | None
    high: float | None

    @classmethod
    def of(cls, interval: Interval) -> "Figure":
        """Keep of an interval what differs from figure to figure."""
        assert interval.value is not None
        return cls(value=interval.value, low=interval.low, high=interval.high)


class TopicResult(Record):
    """What one run reaches on the collection of its topic."""

    run: str
    """Its file."""
    sha256: str
    """Of its file."""
    figures: dict[str, Figure]
    """By measure."""
    unjudged: dict[int, float | None]
    """By cut-off: the mean share of the top that has no label; None where nothing was found."""
    absent: int
    empty: int
    """Queries that are not in the run, or without results: 0 in every measure."""
    unknown: int
    """Queries of the run that are not in the collection: passed over."""
    tied: int
    """Queries all of whose chunks have one score, so that the ids decide their order."""


class EntryResult(Record):
    """What one system reaches."""

    info: EntryInfo
    topics: dict[str, TopicResult]
    missing: tuple[str, ...]
    """Topics that it has no run for."""
    average: dict[str, Figure] | None
    """The macro-average over all topics, by measure; None where one is missing."""


class TopicData(Record):
    """The collection that a topic was measured on."""

    collection: str
    content_hash: str
    queries: int
    without_relevant: int
    """Queries none of whose nuggets is supported: every run gets 0 for them in most measures."""


class Results(Record):
    """Everything that `leaderboard` computes. Entries are in the order of their names."""

    schema_version: Literal[1] = SCHEMA_VERSION
    name: str
    measures_version: int = MEASURES_VERSION
    measures: tuple[str, ...]
    conventions: dict[str, str] = Field(default_factory=lambda: dict(CONVENTIONS))
    collections: dict[str, TopicData]
    """By topic."""
    entries: tuple[EntryResult, ...]

    def ranked(self) -> list[EntryResult]:
        """List the entries as the table has them.

        By the average of the first measure, descending; those without an average last; ties by
        name.
        """
        first = self.measures[0]

        def order(entry: EntryResult) -> tuple[float, str]:
            return -entry.average[first].value if entry.average else 1.0, entry.info.name

        return sorted(self.entries, key=order)


def encode_results(results: Results) -> str:
    """Write results as indented JSON with sorted keys: the same results are the same bytes."""
    return encode_values(results.model_dump(mode="json"))


def encode_values(values: dict[str, Any]) -> str:
    """Write what is in a results file as `encode_results` does."""
    return json.dumps(values, ensure_ascii=False, indent=1, sort_keys=True, allow_nan=False) + "\n"


_SAME = 1e-9
"""Figures this near are the same: the last bits of an interval may depend on the machine."""
_CAUSE = re.compile(
    r"(conventions|measures|measures_version|schema_version)\b|[^:]*(sha256|content_hash): "
)


def differences(
    folder: Path, results: Results, elsewhere: Mapping[str, Path] | None = None
) -> list[str]:
    """Say how the stored results differ from computed ones, one line for each difference.

    What figures are made from (versions, conventions, hashes) comes before the figures. Where all
    these are the same, the file itself has to be what `write_results` writes.

    Args:
        folder: Of the leaderboard, where its `leaderboard.json` stands.
        results: As computed now.
        elsewhere: As for `compute`; for the command in the message.

    Raises:
        CollectionError: There are no stored results, they are no JSON object, or a key stands
            twice in it.
    """
    path = folder / RESULTS_FILE
    if not path.exists():
        raise CollectionError(
            f"{path}: no such file; write it with: {computing_command(folder, elsewhere)}"
        )
    try:
        text = read_bytes(inside(folder, RESULTS_FILE)).decode("utf-8")
        stored = json.loads(text, object_pairs_hook=_once_each, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise CollectionError(f"{path}: not valid JSON: {error}") from None
    if not isinstance(stored, dict):
        raise CollectionError(f"{path}: not the results of a leaderboard")
    computed = json.loads(results.model_dump_json())
    found = list(_differing("", _by_name(stored), _by_name(computed)))
    if not found and not _as_written(text, stored, computed):
        found = [f"{RESULTS_FILE}: the figures are the same, the file was written otherwise"]
    return sorted(found, key=lambda line: _CAUSE.match(line) is None)


def computing_command(folder: Path, elsewhere: Mapping[str, Path] | None = None) -> str:
    """Give what is to be typed to compute the results and write them."""
    words = ["freshstack", "leaderboard", str(folder)]
    for topic, path in (elsewhere or {}).items():
        words += ["--collection", f"{topic}={path}"]
    return shlex.join(words)


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a table, in which a second value under one key would hide the first."""
    values = dict(pairs)
    if len(values) < len(pairs):
        counted = Counter(key for key, _ in pairs)
        twice = next(key for key, number in counted.items() if number > 1)
        raise ValueError(f"the key {quoted(twice)} stands twice in one table")
    return values


def _no_number(constant: str) -> Any:
    raise ValueError(f"{constant} is no number of JSON")


def _as_written(text: str, stored: dict[str, Any], computed: dict[str, Any]) -> bool:
    """Whether a file is what was written, whatever the last bits of its figures are."""
    same_order = [_name(entry) for entry in stored["entries"]] == [
        _name(entry) for entry in computed["entries"]
    ]
    return same_order and encode_values(stored) == text


def _by_name(values: dict[str, Any]) -> dict[str, Any]:
    """Put entries under their names, so that one that was added does not shift the others."""
    entries = values.get("entries")
    if not isinstance(entries, list):
        return values
    named = {}
    for number, entry in enumerate(entries):
        name = _name(entry)
        key = repr(name) if isinstance(name, str) else f"[{number}]"
        named[f"{key} again" if key in named else key] = entry
    return {**values, "entries": named}


def _name(entry: Any) -> Any:
    info = entry.get("info") if isinstance(entry, dict) else None
    return info.get("name") if isinstance(info, dict) else None


def _differing(place: str, stored: Any, computed: Any) -> Iterator[str]:
    if isinstance(stored, dict) and isinstance(computed, dict):
        for key in sorted(stored.keys() | computed.keys()):
            where = f"{place}.{cut(key)}".removeprefix(".")
            if key not in computed:
                yield f"{where}: stored, and nothing now"
            elif key not in stored:
                yield f"{where}: not stored, now {_shown(computed[key])}"
            else:
                yield from _differing(where, stored[key], computed[key])
    elif not _same(stored, computed):
        yield f"{place}: stored {_shown(stored)}, now {_shown(computed)}"


def _same(stored: Any, computed: Any) -> bool:
    if isinstance(stored, float) and isinstance(computed, float):
        return math.isclose(stored, computed, rel_tol=0, abs_tol=_SAME)
    return type(stored) is type(computed) and bool(stored == computed)


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return "a table"
    return cut(json.dumps(value, ensure_ascii=False))


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
        entries.append(_entry_computing(folder, board, entry, qrels))
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
            check_links_out(folder, path)
        collection = found[topic] = Collection.load(path)
        if collection.manifest.content_hash != named.content_hash:
            faults.append(
                f"{topic} is content {named.content_hash} here, and {cut(str(path))} is "
                f"{collection.manifest.content_hash}"
            )
    if faults:
        raise CollectionError(f"{folder}: wrong collections: {'; '.join(faults)}")
    return found


def _entry_computing(
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


OFFICIAL_KEYS = {
    "alpha_nDCG@10": "alpha_ndcg_10",
    "Coverage@20": "coverage_20",
    "Recall@50": "recall_50",
}
"""What the official leaderboard calls its measures; it has no others."""
_DECIMALS = 3


def leaderboard_entry(
    info: EntryInfo,
    means: Mapping[str, Mapping[str, float]],
    topics: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Give the entry of one system.

    Averages are means of the unrounded means of the topics. So are the official ones: of its 120
    averages (40 systems) 113 are also what the rounded figures give, and the 7 others differ from
    that by .001, as only unrounded ones can.

    Args:
        info: What is told of the system.
        means: By topic and measure, not rounded. Measures that the format lacks are left out.
        topics: All topics of the leaderboard; None: those of `means`. Where the system lacks one,
            it is not in the entry, nor is there an average.

    Raises:
        ConfigError: A measure of the format is missing for a topic, there is no topic, or one is
            called as the average is.
    """
    if not means or AVERAGE in means:
        raise ConfigError(
            f"an entry of the FreshStack leaderboard needs a topic, and none called {AVERAGE!r}"
        )
    for topic, of_topic in means.items():
        if lacking := [name for name in OFFICIAL_KEYS if name not in of_topic]:
            raise ConfigError(
                f"topic {topic!r} has no {lacking[0]}; an entry of the FreshStack leaderboard "
                f"needs {', '.join(OFFICIAL_KEYS)}"
            )
    datasets = {topic: _rounded(means[topic]) for topic in sorted(means)}
    if set(topics or means) <= means.keys():
        average = {
            name: fmean(of_topic[name] for _, of_topic in sorted(means.items()))
            for name in OFFICIAL_KEYS
        }
        datasets[AVERAGE] = _rounded(average)
    return {"info": info.model_dump(include=set(EntryInfo.model_fields)), "datasets": datasets}


def leaderboard_data(results: Results) -> dict[str, Any]:
    """Give a whole leaderboard, entries in the order of its table.

    Raises:
        ConfigError: The leaderboard lacks a measure of the format.
    """
    topics = sorted(results.collections)
    entries = []
    for entry in results.ranked():
        means = {
            topic: {name: figure.value for name, figure in found.figures.items()}
            for topic, found in entry.topics.items()
        }
        entries.append(leaderboard_entry(entry.info, means, topics))
    return {"leaderboardData": entries}


def _rounded(means: Mapping[str, float]) -> dict[str, float]:
    return {key: round(means[name], _DECIMALS) for name, key in OFFICIAL_KEYS.items()}


def write_results(folder: Path, results: Results) -> Path:
    """Write the results; the file appears as a whole, and a link in its place is replaced.

    Returns:
        The file.

    Raises:
        CollectionError: It cannot be written.
    """
    path = folder / RESULTS_FILE
    partial = folder / f".{RESULTS_FILE}.{secrets.token_hex(4)}.partial"
    try:
        partial.write_text(encode_results(results), encoding="utf-8", newline="\n")
        partial.replace(path)
    except OSError as error:
        raise CollectionError(f"{path}: cannot be written: {error.strerror or error}") from None
    finally:
        partial.unlink(missing_ok=True)
    return path
