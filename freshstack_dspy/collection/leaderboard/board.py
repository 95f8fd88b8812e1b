"""The description of a leaderboard, `leaderboard.toml`: its topics, measures and entries."""

import json
import re
import tomllib
import unicodedata
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, ValidationError, model_validator

from freshstack_dspy.collection.leaderboard.board_faults import board_fault
from freshstack_dspy.collection.leaderboard.places import inside, read_bytes
from freshstack_dspy.collection.leaderboard.quoting import quoted
from freshstack_dspy.errors import CollectionError, ConfigError
from freshstack_dspy.measures import FRESHSTACK_MEASURES, parse_measure
from freshstack_dspy.records import Record

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
