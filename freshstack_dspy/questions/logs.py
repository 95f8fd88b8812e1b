"""The questions of a log: what users asked a search or a system, each once, and how often.

A log is a table of searches, or the exported traces of `traces`; its first rows tell which. Questions
in the same words are one question; their number is its weight. Everything is masked before it is compared.
Memory grows with the different questions, not with the lines.
"""

import functools
import hashlib
import re
from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from freshstack_dspy.config import LogColumn, QueriesConfig
from freshstack_dspy.errors import ConfigError, SourceError
from freshstack_dspy.files import ReadProgress, canonical_json
from freshstack_dspy.questions.masking import Masking
from freshstack_dspy.questions.traces import Asking, askings_of, scores_of, spans_of
from freshstack_dspy.records import Query, instant
from freshstack_dspy.rows import Row, decoded_cell, given_rows, plain_name, read_rows
from freshstack_dspy.text import alike_pairs, clusters, denials, numbers, terms

Retrieval = Literal["no results", "few results", "no click", "close scores", "sure"]
"""What a log says of the retrieval for a question: why it was unsure, or `sure`."""
RETRIEVAL: tuple[Retrieval, ...] = get_args(Retrieval)
NEAR = 0.9
"""Two questions are one from this Jaccard index of their terms on."""
OVERSAMPLED = 2.0
"""How many times as likely a question is drawn where retrieval was unsure."""
_FEW = 3
"""Retrieval with fewer results was unsure."""
_TOP = 10
"""The first score is compared with that of this place."""
_MOST_TIMES = 10**12
"""A larger count is a fault of the log; sums of them would be infinite."""
_LONGEST = 4_000
"""In characters: a longer input is a document or a prompt."""
_SHOWN = 5
"""How many other wordings of a question are kept, and masked questions by rule."""
_SYSTEM = re.compile(
    r"(?:system\s*:|<\|(?:im_start|system)|<<SYS>>|you are (?:an?|the) [\w -]{0,40}"
    r"(?:assistant|chatbot|bot|agent|ai|expert)\b)",
    re.IGNORECASE,
)
_MARKS = re.compile(r"[#+*/=<>&|%^~@$\\!]+")
"""What tells C, C++ and C# apart, and != from ==."""
_NAMES: dict[LogColumn, tuple[str, ...]] = {
    "title": (
        *("query", "userquery", "searchquery", "querytext", "querystring", "searchterm"),
        *("searchterms", "searchphrase", "keyword", "keywords", "question", "q", "search", "term"),
        *("text", "input", "prompt", "message"),
    ),
    "weight": ("count", "times", "frequency", "freq", "searches", "totalsearches", "n"),
    "results": (
        *("results", "resultcount", "resultscount", "numresults", "nresults", "totalresults"),
        *("hits", "nhits", "numhits", "totalhits", "queryresponsehitids"),
    ),
    "clicks": (
        *("clicks", "clickcount", "numclicks", "clicked", "click", "clickedid", "clickedids"),
        *("clickedurl", "clickurl", "clickeddoc"),
    ),
    "scores": ("scores", "resultscores"),
    "session": (
        *("session", "sessionid", "conversationid", "user", "userid", "clientid", "visitorid"),
        *("anonid",),
    ),
    "asked_at": (
        *("timestamp", "@timestamp", "time", "datetime", "date", "askedat", "createdat", "ts"),
    ),
}
"""What the columns of a table of searches are called, without case and marks; the first counts."""


class Masked(NamedTuple):
    """What a rule masked."""

    places: int
    """In all lines."""
    examples: tuple[str, ...]
    """A few of the questions, masked."""


class AskedQuestion(NamedTuple):
    """A question of a log."""

    query_id: str
    text: str
    times: float
    """How often it was asked."""
    retrieval: Retrieval | None
    """None where the log does not say."""
    others: tuple[str, ...] = ()
    """Some of its other wordings."""
    answer: str = ""
    """What the system answered the first time, where that was asked for."""
    probability: float = 1.0
    """The probability with which it was drawn."""

    @property
    def weight(self) -> float:
        """The askings that it stands for in a sample."""
        return self.times / self.probability


class LogReading(NamedTuple):
    """The questions of a log."""

    kind: str
    """`searches` or `traces`."""
    askings: int
    """Rows of a table, or traces."""
    rejected: dict[str, int]
    """How many of them are not questions, or repeat one, by reason."""
    masked: dict[str, Masked]
    """By rule."""
    questions: tuple[AskedQuestion, ...]
    """All of them, the most asked first."""
    sampled: tuple[AskedQuestion, ...]
    """Those that were drawn, in the same order."""

    @property
    def queries(self) -> list[Query]:
        """The sampled questions as queries, with their weights."""
        return [_query(question) for question in self.sampled]


def _query(question: AskedQuestion) -> Query:
    fields = {"asked": f"{question.times:g}"}
    return Query(
        query_id=question.query_id,
        title=question.text if "\n" not in question.text else "",
        body=question.text if "\n" in question.text else "",
        weight=question.weight,
        fields=fields | ({"retrieval": question.retrieval} if question.retrieval else {}),
    )


def answers_of(log: LogReading) -> str:
    """What the system answered to the sampled questions, as rows for `freshstack answer --answers`."""
    rows = ({"query_id": q.query_id, "text": q.answer} for q in log.sampled if q.answer)
    return "".join(f"{canonical_json(row)}\n" for row in rows)


def read_log(
    config: QueriesConfig, progress: ReadProgress | None = None, *, answers: bool = False
) -> LogReading:
    """Read the questions of a log.

    Args:
        config: With `source = "log"`.
        progress: Called with the bytes read so far, and with all there are.
        answers: Whether to keep what the system answered.

    Raises:
        SourceError: It cannot be read, is of no known form, or holds no question.
        ConfigError: A rule or column that was named is not there.
    """
    asked = _Asked(config, answers=answers)
    try:
        return _read(config, asked, _rows(config, progress))
    except SourceError as error:  # it may quote a cell
        place, colon, fault = str(error).partition(": ")
        raise SourceError(f"{place}{colon}{asked.mask(fault)[0]}") from None


def _read(config: QueriesConfig, asked: "_Asked", rows: Iterator[Row]) -> LogReading:
    first = next(rows, None)
    if first is None:
        raise SourceError(f"{config.place}: holds no row")
    rows, traces = chain((first,), rows), spans_of(first) is not None
    askings = askings_of(rows) if traces else _searches(rows, config)
    for asking in askings:
        asked.take(asking)
    return asked.reading("traces" if traces else "searches")


# Reading


def log_files(config: QueriesConfig) -> list[Path]:
    """The files of a log: one, or all of a folder that have a known ending."""
    path = config.file
    if not path.is_dir():
        return [path]
    files = [each for each in path.rglob("*") if _ENDING.search(each.name) and each.is_file()]
    if not files:
        raise SourceError(f"{path}: has no file that ends in .jsonl, .json, .csv, .tsv or .parquet")
    return sorted(files)


_ENDING = re.compile(r"\.(?:(?:jsonl|json|csv|tsv)(?:\.gz)?|parquet)$", re.IGNORECASE)


def _rows(config: QueriesConfig, progress: ReadProgress | None) -> Iterator[Row]:
    if config.rows is not None:
        return given_rows(config.rows, config.place)
    names = {*config.columns.values(), *chain.from_iterable(_NAMES.values())}
    choose = functools.partial(_read_columns, config)
    return read_rows(log_files(config), choose, progress, csv_names=names)


def _read_columns(config: QueriesConfig, present: Collection[str], file: str) -> list[str]:
    """Choose the columns of a table that are read: of a span all that says what was asked."""
    if "context.trace_id" in present:
        own = ("context.trace_id", "span_kind", "parent_id", "start_time")
        return [name for name in present if name in own or name.startswith("attributes.")]
    if {"input", "output"} <= {*present}:  # of Langfuse
        return [*present]
    return [*dict.fromkeys(columns_of(present, config.columns, file).values())]


def columns_of(
    present: Iterable[str], named: Mapping[Any, str], place: str
) -> dict[LogColumn, str]:
    """Say which column of a table of searches holds each part.

    Raises:
        ConfigError: A column that was named is not there.
        SourceError: None is called as a query is.
    """
    columns, listed = _matched(present, named), ", ".join(map(repr, present))
    if absent := [f"{part} = {name!r}" for part, name in named.items() if name not in present]:
        raise ConfigError(
            f"{place}: has no column as [queries.columns] names it: {absent[0]}; there are {listed}"
        )
    if "title" not in columns:
        raise SourceError(
            f"{place}: no column is called as a query is, as query, question or search_term; there "
            f'are {listed}; name it under [queries.columns]: title = "…"'
        )
    return columns


def _matched(present: Iterable[str], named: Mapping[Any, str]) -> dict[LogColumn, str]:
    by_name = {plain_name(name): name for name in reversed([*present])}
    columns: dict[LogColumn, str] = {}
    for part, names in _NAMES.items():
        usual = next((by_name[name] for name in names if name in by_name), None)
        if column := named.get(part, usual):
            columns[part] = column
    return columns


def _searches(rows: Iterable[Row], config: QueriesConfig) -> Iterator[Asking]:
    known: dict[tuple[str, ...], dict[LogColumn, str]] = {}
    for row in rows:
        present = tuple(row.values)  # those of JSON may differ
        if not known:
            known[present] = columns_of(present, config.columns, row.place)
        if present not in known:
            if spans_of(row) is not None:
                raise SourceError(
                    f"{row.place}: a trace, and the first rows are searches; read them apart"
                )
            known[present] = _matched(present, config.columns)
        yield _search(row, known[present])


def _search(row: Row, columns: Mapping[LogColumn, str]) -> Asking:
    cells: dict[str, Any] = {part: row.values.get(name) for part, name in columns.items()}
    text = cells.get("title")
    if text is not None and not isinstance(text, str | int | float):
        raise row.fault(columns["title"], "the text of a query")
    scores = decoded_cell(cells.get("scores"))
    documents = decoded_cell(cells.get("results"))
    listed = next((each for each in (scores, documents) if isinstance(each, list)), [])
    return Asking(
        text=None if text is None else str(text),
        reason="no question",
        session=str(cells.get("session") or ""),
        times=_number(row, columns, "weight", cells.get("weight"), 1),
        results=None if documents is None else int(_number(row, columns, "results", documents, 0)),
        clicks=int(_number(row, columns, "clicks", cells["clicks"], 0))
        if "clicks" in cells
        else None,
        scores=scores_of(listed),
        at=_time(row, columns, cells.get("asked_at")),
    )


def _number(
    row: Row, columns: Mapping[LogColumn, str], part: LogColumn, value: Any, absent: int
) -> float:
    """Read a number; of a list, and of the id of what was clicked, how many there are."""
    value = decoded_cell(value)
    if value is None or value == "":
        return absent
    if isinstance(value, list):
        return len(value)
    if isinstance(value, bool):
        return int(value)
    try:
        number = float(value)
    except (TypeError, ValueError):
        if part == "clicks" and isinstance(value, str):
            return value.lower() not in ("false", "no", "none", "null")
        raise row.fault(columns[part], "a number") from None
    if not absent <= number <= _MOST_TIMES:
        raise row.fault(columns[part], f"a number from {absent} to {_MOST_TIMES:,}")
    return number


def _time(row: Row, columns: Mapping[LogColumn, str], value: Any) -> datetime | None:
    if value is None or isinstance(value, datetime):
        return value if value is None or value.tzinfo else value.replace(tzinfo=UTC)
    try:
        if isinstance(value, int | float) or str(value).isdecimal():
            seconds = float(value)
            return datetime.fromtimestamp(seconds / 1000 if seconds > 1e11 else seconds, UTC)
        return _parsed(str(value))
    except (ValueError, OverflowError, OSError):  # the last two: a time that is out of range
        allowed = "an ISO 8601 date and time, or seconds since 1970"
        raise row.fault(columns["asked_at"], allowed) from None


_parsed = functools.lru_cache(maxsize=4096)(instant)


# One for each question


class _Asked:
    """The different questions so far, and what is known of each, in arrays."""

    _COUNTS = ("times", "told", "no results", "few results", "no click", "gap", "gaps")

    def __init__(self, config: QueriesConfig, *, answers: bool) -> None:
        self._config = config
        self._since, self._until = (
            None if each is None else instant(each) for each in (config.since, config.until)
        )
        self.mask = Masking(config.mask)
        self._place_of: dict[bytes, int] = {}
        self._texts: list[str] = []
        self._ids: list[bytes] = []
        self._counts = {name: array("d") for name in self._COUNTS}
        self._others: dict[int, list[str]] = {}
        self._sessions: set[int] = set()
        self._answers: dict[int, str] | None = {} if answers else None
        self._rejected: Counter[str] = Counter()
        self._masked: Counter[str] = Counter()
        self._examples: dict[str, list[str]] = {}
        self._askings = 0
        self._found_any = False
        self._key = functools.lru_cache(maxsize=1 << 16)(_key)

    def take(self, asking: Asking) -> None:
        """Count what was asked, or why it is no question."""
        self._askings += 1
        text = (asking.text or "").strip()
        if len(text) > _LONGEST:
            self._rejected[f"longer than {_LONGEST:,} characters"] += 1
            return
        text, masked = self.mask(text)
        key = self._key(text)
        reason = asking.reason if asking.text is None else self._reason(text, key, asking)
        if reason:
            self._rejected[reason] += 1
            return
        for rule, places in masked:
            self._masked[rule] += places
            if text not in (shown := self._examples.setdefault(rule, [])) and len(shown) < _SHOWN:
                shown.append(text)
        if asking.session:
            again = hash((key, asking.session))
            if again in self._sessions:
                self._rejected["asked again in the same session"] += 1
                return
            self._sessions.add(again)
        place = self._place_of.setdefault(key, len(self._texts))
        if place == len(self._texts):
            self._texts.append(text)
            self._ids.append(key)
            for counts in self._counts.values():
                counts.append(0)
        else:
            self._rejected[_SAME] += 1
            self._note_other(place, text)
        self._count(place, asking)

    def _reason(self, text: str, key: bytes, asking: Asking) -> str | None:
        since, until, at = self._since, self._until, asking.at
        rules = (
            (not text, "no question"),
            (not key, "no word to search for"),
            (_SYSTEM.match(text), "a system prompt"),
            (at is None and (since or until), "no date to compare with since and until"),
            (at and since and at < since, "before since"),
            (at and until and at >= until, "not before until"),
        )
        return next((reason for broken, reason in rules if broken), None)

    def _note_other(self, place: int, text: str) -> None:
        if text != self._texts[place]:
            others = self._others.setdefault(place, [])
            if len(others) < _SHOWN and text not in others:
                others.append(text)

    def _count(self, place: int, asking: Asking) -> None:
        counts = self._counts
        counts["times"][place] += asking.times
        self._found_any |= bool(asking.results)
        if signal := _signal(asking):
            counts["told"][place] += asking.times
            if signal != "sure":
                counts[signal][place] += asking.times
        if len(asking.scores) > 1:
            top = asking.scores[:_TOP]
            largest = max(map(abs, top)) or 1.0
            counts["gap"][place] += abs(top[0] - top[-1]) / largest * asking.times
            counts["gaps"][place] += asking.times
        if self._answers is not None and asking.answer:
            self._answers.setdefault(place, self.mask(asking.answer)[0])

    # Of all

    def reading(self, kind: str) -> LogReading:
        """Merge what is nearly the same, say where retrieval was unsure, and draw the sample."""
        if not self._texts:
            why = "; ".join(f"{number:,} {reason}" for reason, number in self._rejected.items())
            raise SourceError(f"{self._config.place}: none of its rows is a question ({why})")
        groups = self._groups()
        merged = [self._merged(group) for group in groups]
        self._rejected[_NEARLY] = len(self._texts) - len(groups)
        close = _lowest_quarter([gap for *_, gap in merged if gap is not None])
        questions = [
            question._replace(retrieval="close scores")
            if gap is not None and gap < close and question.retrieval in (None, "sure")
            else question
            for question, gap in merged
        ]
        retired = {*self._config.retired}
        kept = [each for each in questions if each.query_id not in retired]
        self._rejected["retired"] = len(questions) - len(kept)
        kept.sort(key=lambda each: (-each.times, each.query_id))
        sampled = sample_questions(kept, self._config.sample, self._config.seed)
        self._rejected["not sampled"] = len(kept) - len(sampled)
        return LogReading(
            kind=kind,
            askings=self._askings,
            rejected={
                reason: number for reason, number in sorted(self._rejected.items()) if number
            },
            masked={
                rule: Masked(number, tuple(self._examples[rule]))
                for rule, number in self._masked.most_common()
            },
            questions=tuple(kept),
            sampled=tuple(sampled),
        )

    def _groups(self) -> list[tuple[int, ...]]:
        """Put long questions that are nearly the same together; the shorter ones have other words."""
        alike_marks: dict[Any, dict[str, str]] = {}
        for place, text in enumerate(self._texts):
            if len(text) > 2 * _LEAST and len({*terms(text)}) >= _LEAST:
                alike_marks.setdefault(_marks(text), {})[str(place)] = text
        pairs = [
            pair
            for texts in alike_marks.values()
            for pair in (alike_pairs(texts, NEAR) if len(texts) > 1 else ())
            if _in_one_order(*map(texts.__getitem__, pair))
        ]
        paired = {*chain.from_iterable(pairs)}
        single = ((place,) for place in range(len(self._texts)) if str(place) not in paired)
        near = clusters(sorted(paired), pairs)
        return [*single, *(tuple(map(int, group)) for group in near)]

    def _merged(self, group: Sequence[int]) -> tuple[AskedQuestion, float | None]:
        """Make one question of some places; the gap is the mean of theirs."""
        times = self._counts["times"]
        first = min(group, key=lambda place: (-times[place], place))
        sums = {name: sum(map(counts.__getitem__, group)) for name, counts in self._counts.items()}
        others = [self._texts[place] for place in group if place != first]
        others += chain.from_iterable(self._others.get(place, ()) for place in group)
        answers = self._answers or {}
        retrieval: Retrieval | None = "sure" if sums["gaps"] else None
        if sums["told"] and self._found_any:
            reasons = ("no results", "few results", "no click")
            unsure = max(reasons, key=sums.__getitem__)
            often = 2 * sum(map(sums.__getitem__, reasons)) >= sums["told"]
            retrieval = RETRIEVAL[reasons.index(unsure)] if often else "sure"
        question = AskedQuestion(
            query_id=self._ids[first].hex(),
            text=self._texts[first],
            times=sums["times"],
            retrieval=retrieval,
            others=tuple(others[:_SHOWN]),
            answer=next((answers[place] for place in group if place in answers), ""),
        )
        return question, sums["gap"] / sums["gaps"] if sums["gaps"] else None


_SAME = "the same question as another"
_NEARLY = "nearly the same question as another"
_LEAST = 9
"""Of fewer different terms, two sets that are not equal are less alike than `NEAR`."""


def _key(text: str) -> bytes:
    """Name a question by its terms in their order, its denials and its marks; empty without terms."""
    words = terms(text)
    if not words:
        return b""
    parts = (words, denials(text), _MARKS.findall(text))
    return hashlib.blake2b("\x1e".join(map("\x1f".join, parts)).encode(), digest_size=8).digest()


def _marks(text: str) -> tuple[tuple[str, ...], ...]:
    """What questions that are nearly the same have in common: numbers, denials and marks."""
    return numbers(text), denials(text), (*_MARKS.findall(text),)


def _in_one_order(first: str, second: str) -> bool:
    """Whether the terms that two texts share are in the same order in both."""
    both = terms(first), terms(second)
    shared = set.intersection(*map(set, both))
    in_first, in_second = ([term for term in own if term in shared] for own in both)
    return in_first == in_second


def _signal(asking: Asking) -> Retrieval | None:
    """Say whether retrieval was unsure, by its results and clicks."""
    if asking.results is not None and asking.results < _FEW:
        return "few results" if asking.results else "no results"
    if asking.clicks == 0:
        return "no click"
    return None if asking.results is None and asking.clicks is None else "sure"


def _lowest_quarter(gaps: Sequence[float]) -> float:
    """The gap that three quarters of the questions reach; 0 where none is known."""
    return sorted(gaps)[len(gaps) // 4] if gaps else 0.0


# Sampling


def sample_questions(
    questions: Sequence[AskedQuestion], number: int | None, seed: int = 0
) -> list[AskedQuestion]:
    """Draw a sample from which means per question asked can be estimated.

    The questions where retrieval was unsure are one stratum, all others the second; with F the times
    that its questions were asked, a stratum has a part of the sample that is proportional to 2 F, or
    F. Within it a question asked f times is drawn with the probability

        π = min(1, c f)

    where c makes their sum the size of the stratum's sample. Its weight is f / π, and with values v

        Σ (f / π) v / Σ (f / π)

    estimates the mean per question asked. Each question has a random number of its own, by its id
    and the seed: as a log grows, most of the sample stays.

    Source: Horvitz and Thompson, A Generalization of Sampling Without Replacement from a Finite
    Universe, JASA 1952; the ratio: Hájek, 1971; drawing: Rosén, On Sampling with Probability
    Proportional to Size, J. Stat. Planning and Inference 1997 (Pareto sampling), whose π are exact
    up to terms that vanish as the sample grows; numbers that stay: Ohlsson, Coordination of Samples
    Using Permanent Random Numbers, 1995.

    Args:
        questions: All of them.
        number: How many to draw; None, or more than there are: all.
        seed: Decides which.

    Returns:
        The sample with its probabilities, in the order of the questions.
    """
    if number is None or number >= len(questions):
        return list(questions)
    strata: tuple[list[AskedQuestion], list[AskedQuestion]] = ([], [])
    for question in questions:
        strata[number == 1 or question.retrieval in (None, "sure")].append(question)
    unsure, others = (sum(each.times for each in stratum) for stratum in strata)
    share = OVERSAMPLED * unsure / (OVERSAMPLED * unsure + others)
    least = max(bool(strata[0]), number - len(strata[1]))  # at least one of each stratum
    most = min(number - bool(strata[1]), len(strata[0]))
    size = min(max(round(share * number), least), most)
    drawn: dict[str, float] = {}
    for stratum, stratum_size in zip(strata, (size, number - size), strict=True):
        drawn |= _drawn(stratum, stratum_size, seed)
    return [
        question._replace(probability=drawn[question.query_id])
        for question in questions
        if question.query_id in drawn
    ]


def _drawn(stratum: Sequence[AskedQuestion], number: int, seed: int) -> dict[str, float]:
    """Draw by times, and give the probability of each that was drawn."""
    by_times = sorted(stratum, key=lambda each: (-each.times, each.query_id))
    left, certain = sum(each.times for each in by_times), 0
    while certain < number and (number - certain) * by_times[certain].times >= left:
        left -= by_times[certain].times
        certain += 1
    drawn = {each.query_id: 1.0 for each in by_times[:certain]}
    ranked = []
    for question in by_times[certain:] if certain < number else ():
        probability = (number - certain) * question.times / left
        digest = hashlib.sha256(f"{seed} {question.query_id}".encode()).digest()
        uniform = (int.from_bytes(digest[:7]) + 0.5) / (1 << 56)
        odds = uniform / (1 - uniform) * (1 - probability) / probability
        ranked.append((odds, question.query_id, probability))
    ranked.sort()
    return drawn | {query_id: p for _, query_id, p in ranked[: number - certain]}
