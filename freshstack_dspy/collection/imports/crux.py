"""Reading CRUX: topics with questions, and the graded answerability of each in each passage.

Source: Ju et al., CRUX, arXiv 2506.20051; DylanJoo/crux, `test_topics.jsonl`,
`test_judgements.jsonl`, the newer `{"id", "docid", "rating"}`, and the ratings by rank of a run
that LANCER publishes.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from freshstack_dspy.collection.imports.foreign import (
    Gathered,
    Row,
    find_part,
    inside,
    read_documents,
    read_lines,
    read_rows,
    shown,
    the_part,
)
from freshstack_dspy.errors import SourceError
from freshstack_dspy.files import decoded, json_file
from freshstack_dspy.records import SCALES, Failure, Nugget, Scale, Status

_RATINGS = ("ranking_*/*judg*.jsonl", "*judg*.jsonl", "ratings*.jsonl", "*ratings*.json")
_SHARD = re.compile(r"(?P<judge>ratings\..+)\.(?P<shard>[0-9]{1,6})-(?P<total>[0-9]{1,6})\.jsonl")


def rating_files(folder: Path) -> tuple[Path, ...]:
    """Find the ratings of a folder.

    CRUX's `gen_ratings.py` writes a shard of the topics to `ratings.{model}.{shard}-{total}.jsonl`,
    from 0 on; the last shards may have no topic, and then no file.

    Returns:
        One file, or all shards of one model in their order.

    Raises:
        SourceError: There is none, there are several of different kinds, a shard is missing before
            another, or a link leads out of the folder.
    """
    shards = _shards(folder)
    if len(shards) < 2 or any(any(folder.glob(pattern)) for pattern in _RATINGS[:2]):
        return (the_part(folder, "ratings", _RATINGS),)
    for number, path in enumerate(shards.values()):
        if number not in shards:
            raise SourceError(
                f"{folder}: the ratings of shard {number} are missing, and those of shard "
                f"{max(shards)} are there; put them beside, or name the shards from 0 on"
            )
        inside(folder, path)
    return tuple(shards[number] for number in sorted(shards))


def _shards(folder: Path) -> dict[int, Path]:
    """Give the shards by number; nothing where not all files of ratings are shards of one set."""
    found = {path: _SHARD.fullmatch(path.name) for path in sorted(folder.glob("ratings*.jsonl"))}
    named = {path: match for path, match in found.items() if match}
    shards = {int(match["shard"]): path for path, match in named.items()}
    sets = {(match["judge"], match["total"]) for match in named.values()}
    return shards if len(sets) == 1 and len(shards) == len(found) else {}


_TOPICS = ("ranking_*/*topics*.jsonl", "*topics*.jsonl")
_QUESTIONS = ("*subquestions*.jsonl", "*subquestions*.json")
_REQUESTS = ("*request*.jsonl",)
_IDS = ("example_id", "id", "topic_id")
_NO_QUESTION = "NA"
"""What the published data have where no question was in the reply."""

Topics = dict[str, list[Nugget | None]]
"""Topic id → its nuggets in the order of its questions; None where a question is none."""


def read_topics(path: Path, given: Gathered) -> Topics:
    """Read the topics of a folder into queries and nuggets.

    A question that is null, empty or `NA` gives no nugget and a `Failure`.

    Args:
        path: With `*topics*.jsonl`, or `*subquestions*` and, if it is there, `*request*.jsonl`.
        given: Takes them.

    Raises:
        SourceError: There is neither, or a row is no topic.
    """
    if (file := find_part(path, "topics", _TOPICS)) is not None:
        return _take(read_rows(given.reads(file)), {}, given)
    if not path.is_dir() or (file := find_part(path, "sub-questions", _QUESTIONS)) is None:
        looked = ", ".join((*_TOPICS, *_QUESTIONS))
        raise SourceError(f"{path}: has no topics; looked for {looked}")
    found = find_part(path, "requests", _REQUESTS)
    requests = {}
    for row in read_rows(given.reads(found)) if found else ():
        requests[row.id(*_IDS)] = row.text("request", "topic")
    given.reads(file)
    rows = _of_object(file) if file.suffix == ".json" else read_rows(file)
    return _take(rows, requests, given)


def _of_object(file: Path) -> Iterable[Row]:
    """Give the rows of one object: topic id → questions."""
    value = json_file(file)
    if not isinstance(value, dict):
        raise SourceError(f"{file}: not a JSON object of questions by topic")
    return (
        Row(str(file), number, {"id": topic, "questions": questions})
        for number, (topic, questions) in enumerate(value.items(), start=1)
    )


def _take(rows: Iterable[Row], requests: dict[str, str], given: Gathered) -> Topics:
    topics: Topics = {}
    for row in rows:
        own, ids = row.id(*_IDS), row.texts("nugget_ids")
        topic = given.notes.queries.get(own, own)
        request = row.text("topic", "request", default=requests.get(own, ""))
        given.add_query(
            row,
            query_id=topic,
            title=request,
            body="",
            answer=row.text("report", "summary", default=""),
        )
        questions = row.list("questions", "subquestions")
        if ids and len(ids) != len(questions):
            raise row.fault("nugget_ids", "one id for each question")
        topics[topic] = [
            _nugget(given, row, topic, ids[number - 1] if ids else f"{topic}_{number}", question)
            for number, question in enumerate(questions, start=1)
        ]
    return topics


def _nugget(given: Gathered, row: Row, topic: str, nugget_id: str, question: Any) -> Nugget | None:
    if question is not None and not isinstance(question, str):
        raise row.fault(row.name_of("questions", "subquestions"), "a list of texts")
    text = (question or "").strip()
    if text and text != _NO_QUESTION:
        return given.add_nugget(row, nugget_id=nugget_id, query_id=topic, text=text)
    given.failures.append(
        Failure(
            query_id=topic,
            step="nuggets",
            status="unparsed",
            message=f"question {nugget_id!r} is {question!r}",
            call_id=None,
        )
    )
    return None


_RUN = ("*.run",)
_CORPUS = (
    "passages/*.jsonl",
    "*passages*.jsonl",
    "corpus*.jsonl",
    "corpus*.jsonl.gz",
    "corpus*.parquet",
    "corpus",
)
_IDS_crux = ("example_id", "id", "topic_id")
_FAILED: dict[int | None, Status] = {-1: "unparsed", -2: "failed", None: "failed"}
"""What CRUX writes where a reply held no rating, and where there was no reply."""


def read_crux(path: Path, *, corpus: Path | None, source: str, threshold: int | None) -> Gathered:
    """Read CRUX topics and ratings.

    Each question is a nugget, called `{topic}_{n}`, n from 1 as in CRUX's diversity qrels. A
    rating below 0 is a failure and becomes a judgment without a label.

    Args:
        path: A folder with topics or sub-questions, ratings and, if it is there, passages.
        corpus: Where the passages are, if not there.
        source: What the corpus is called.
        threshold: The lowest rating that counts as support, of 0 to 5.

    Raises:
        SourceError: With file and line, where something is missing or is not what it should be.
    """
    given = Gathered.of(path)
    given.scale = _scale(given, threshold)
    topics = read_topics(path, given)
    seen: dict[tuple[str, str], str] = {}
    for row in _rated(path, given):
        topic, passage = row.id(*_IDS_crux), row.id("pid", "docid")
        query_id = given.notes.queries.get(topic, topic)
        chunk_id = given.notes.chunks.get(passage, passage)
        if (first := seen.setdefault((query_id, chunk_id), row.place)) != row.place:
            raise SourceError(
                f"{row.place}: topic {shown(topic)} and passage {shown(passage)} are rated at "
                f"{first} already; keep one"
            )
        if query_id not in given.queries:
            given.dangle(query_id)
            continue
        _judge(given, topics, row, query_id, chunk_id)
    found = corpus or find_part(path, "the passages", _CORPUS)
    if found:
        given.documents = read_documents(given.reads(found), source, given.notes.chunks)
    return given


def _rated(path: Path, given: Gathered) -> Iterator[Row]:
    """Give the ratings of all questions of a topic in one passage, row by row."""
    for file in rating_files(path):
        given.reads(file)
        yield from _by_rank(path, file, given) if file.suffix == ".json" else read_rows(file)


def _scale(given: Gathered, threshold: int | None) -> Scale:
    """Choose CRUX's own, or that of the collection that was exported."""
    told = given.notes.scale or Scale(name="graded_5", threshold=SCALES["graded_5"].threshold)
    highest = SCALES[told.name].highest
    if threshold is not None and threshold > highest:
        raise SourceError(
            f"threshold {threshold}: the scale is {told.name}; allowed: 1 to {highest}"
        )
    return Scale(name=told.name, threshold=threshold or told.threshold)


def _judge(given: Gathered, topics: Topics, row: Row, query_id: str, chunk_id: str) -> None:
    ratings, nuggets = row.list("rating", "ratings"), topics[query_id]
    if len(ratings) != len(nuggets):
        raise SourceError(
            f"{row.place}: {len(ratings)} ratings of passage {shown(chunk_id)}, and topic "
            f"{shown(query_id)} has {len(nuggets)} questions"
        )
    for nugget, said in zip(nuggets, ratings, strict=True):
        rating = _rating(said, row, SCALES[given.scale.name].highest)
        if nugget is None:
            continue  # its question is none, as a failure says
        if rating in _FAILED:
            given.judge(nugget, chunk_id, None, _FAILED[rating], f"rating {said!r}")
        else:
            given.judge(nugget, chunk_id, rating)


def _rating(said: Any, row: Row, highest: int) -> int | None:
    value = int(said) if isinstance(said, str) and said in {"-2", "-1", *"012345"} else said
    if value is None or (type(value) is int and -2 <= value <= highest):
        return value
    raise SourceError(
        f"{row.place}: the rating is {shown(str(said))}; allowed: 0 to {highest}, -1 where none "
        "was in the reply, -2 where there was no reply"
    )


def _by_rank(path: Path, file: Path, given: Gathered) -> Iterator[Row]:
    """Give ratings that are listed by the rank of a run beside them."""
    value = json_file(file)
    if not isinstance(value, dict):
        raise SourceError(f"{file}: not a JSON object of ratings by topic")
    ranked = _read_ranks(given.reads(the_part(path, "run whose ranks were rated", _RUN)))
    for topic, rows in value.items():
        chunk_ids = ranked.get(topic, [])
        if not isinstance(rows, list) or len(rows) > len(chunk_ids):
            raise SourceError(
                f"{file}: topic {shown(topic)} has ratings for more ranks than the "
                f"{len(chunk_ids)} of the run; they belong to another run"
            )
        for rank, rating in enumerate(rows, start=1):
            yield Row(
                f"{file}: topic {topic}, rank",
                rank,
                {"id": topic, "docid": chunk_ids[rank - 1], "rating": rating},
            )


def _read_ranks(path: Path) -> dict[str, list[str]]:
    """Read the chunks of a run by its ranks, which are 1, 2, 3, … for each topic."""
    ranks: dict[str, dict[int, str]] = {}
    for number, line in read_lines(path):
        fields = decoded(line, f"{path}:{number}").split()
        if not fields:
            continue
        rank = int(fields[-3]) if len(fields) >= 6 and fields[-3].isdecimal() else 0
        of_topic = ranks.setdefault(fields[0], {})
        if rank < 1 or rank in of_topic:
            raise SourceError(
                f"{path}:{number}: no rank, or one that stands twice; a line is: topic Q0 passage "
                "rank score run, with ranks from 1"
            )
        of_topic[rank] = " ".join(fields[2:-3])
    for topic, of_topic in ranks.items():
        if max(of_topic) != len(of_topic):
            raise SourceError(f"{path}: topic {shown(topic)} lacks a rank below {max(of_topic)}")
    return {topic: [of[rank] for rank in sorted(of)] for topic, of in ranks.items()}
