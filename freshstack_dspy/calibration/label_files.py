"""Labels from the files of other tools, and tasks for these tools.

Each tool's rows become rows with the fields of our labels, with the answer in `label` and marked
words in `spans`; one function turns these into labels.
"""

import csv
import hashlib
import io
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import ValidationError

from freshstack_dspy.calibration.following import follow_all, in_full
from freshstack_dspy.calibration.labels import (
    LABELS,
    AnyLabel,
    all_labels,
    once,
    task_id,
)
from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.errors import CollectionError, ConfigError, SourceError
from freshstack_dspy.faults import first_fault
from freshstack_dspy.measures.spans import merged
from freshstack_dspy.pages.data import FORMULA
from freshstack_dspy.records import Chunk, LabelTask, ScaleName, Spans
from freshstack_dspy.registry import Registry
from freshstack_dspy.rows import Row, given_rows, read_csv, read_rows

OTHER_FORMATS = Registry("freshstack_dspy.labels", "format of labels", {})
"""Formats of other packages: functions from a path to a dictionary for each label."""
TaskFormat = Literal["csv", "label-studio"]
_NAMES = {
    "query_id": ("query_id", "qid", "topic_id", "topic"),
    "nugget_id": ("nugget_id",),
    "nugget": ("nugget", "sentence"),
    "chunk_id": ("chunk_id", "docid", "passage_id", "reference"),
    "label": ("label", "grade", "rating", "support", "agrees"),
    "annotator": ("annotator", "username", "user"),
    "time": ("time", "updated_at", "created_at"),
    "note": ("note", "comment"),
}
"""The names that the column of each field may have."""
_NO, _PARTIAL, _FULL = (
    ("no", "none", "no support", "not_support", "ns", "false", "disagrees", "bad"),
    ("yes", "true", "agrees", "partial", "partial support", "partial_support", "ps", "mostly good",
     "so-so"),
    ("full", "full support", "support", "fs", "perfect"),
)  # fmt: skip
_GRADES = {word: grade for grade, words in enumerate((_NO, _PARTIAL, _FULL)) for word in words}
_TEXTS = ("question", "nugget", "path", "passage", "answer", "gold_answer")
_GIVEN = ".responses"
_Reader = Callable[[Path, Counter[str]], Iterator[Row]]
"""Gives the rows of a file, and counts what is left out."""


def label_formats() -> tuple[str, ...]:
    """Name the formats of labels: ours, and those of installed packages."""
    return ("freshstack", *_READERS, *OTHER_FORMATS.names())


class ImportedLabels(NamedTuple):
    """What was read."""

    labels: tuple[AnyLabel, ...]
    left_out: dict[str, int]
    """How many rows, answers or marked words were left out, by kind."""


def import_labels(
    paths: Sequence[Path],
    format: str,  # noqa: A002
    collection: Collection,
    *,
    annotator: str | None = None,
    tasks: Sequence[LabelTask] = (),
) -> ImportedLabels:
    """Read labels, and check them against a collection.

    A nugget is named by its id or its text. Marked words become byte spans of the chunk's file; if
    the characters at the offsets differ (tools count them differently), the nearest place with the
    marked words is taken. Labels of pairs get the texts of their pairs, so that they can be
    followed when ids change.

    Args:
        paths: The files.
        format: The tool's format, one of `label_formats`; `freshstack` is our own.
        collection: The collection that was labelled.
        annotator: Who labelled, if the files do not say.
        tasks: Tasks that supply a label's stratum and probability, if it has none.

    Raises:
        SourceError: With file and line: something is missing or not what it should be.
        CollectionError: As `read_labels` with a collection.
        ConfigError: There is no such format.
    """
    left_out = Counter[str]()
    if format not in (allowed := label_formats()):
        raise ConfigError(f"no format of labels {format!r}; allowed: {', '.join(allowed)}")
    if format == "freshstack":
        placed = list(all_labels(paths))
    else:
        read = _READERS.get(format) or _of_package(format)
        rows = (row for path in paths for row in read(path, left_out))
        placed = list(once(_labels(rows, collection, annotator, left_out)))
    if not placed:
        why = "".join(f"; left out: {number} {what}" for what, number in left_out.items() if number)
        raise CollectionError(
            f"{', '.join(map(str, paths))}: there is no label in it, read as {format}{why}"
        )
    labels, lost = follow_all(placed, collection)
    left_out.update({f"labels {why}": len(group) for why, group in lost.items()})
    asked = {task_id(task): task for task in tasks}

    def sampled(label: AnyLabel) -> AnyLabel:
        task = asked.get(task_id(label)) if label.stratum is None else None
        fields = ("stratum", "probability") if task else ()
        return label.model_copy(update={name: getattr(task, name) for name in fields})

    whole = in_full([sampled(label) for label in labels], collection)
    return ImportedLabels(whole, {what: n for what, n in sorted(left_out.items()) if n})


def _of_package(format: str) -> _Reader:  # noqa: A002
    return lambda path, _: given_rows(OTHER_FORMATS.get(format)(path), str(path))


def _labels(
    rows: Iterable[Row], collection: Collection, annotator: str | None, left_out: Counter[str]
) -> Iterator[tuple[str, AnyLabel]]:
    """Turn rows into labels, each with its place."""
    by_text = {(nugget.query_id, nugget.text): nugget.nugget_id for nugget in collection.nuggets}
    who = _NAMES["annotator"]
    for row in rows:
        if row.values.get(row.name(*_NAMES["label"])) in (None, ""):
            left_out["rows without a label"] += 1
            continue
        kind = row.optional("kind") or "support"
        if kind not in ("support", "answerability", "answer"):
            raise row.fault("kind", "support, answerability or answer")
        query_id = row.id(*_NAMES["query_id"])
        named = row.values.get(row.name(*who)) is not None
        if not named and annotator is None:
            raise SourceError(f"{row.place}: does not say who labelled; name the annotator")
        fields: dict[str, Any] = {
            "kind": kind,
            "query_id": query_id,
            "annotator": row.id(*who) if named else annotator,
            "time": row.optional(*_NAMES["time"]),
            "note": row.text(*_NAMES["note"], default=""),
            "stratum": row.optional("stratum"),
            "probability": row.values.get("probability"),
        }
        if drawn := row.optional("drawn"):
            fields |= _drawn(row, drawn)
        grade = _grade(row, kind, collection.manifest.scale.name)
        if kind == "answer":
            fields |= {"run_id": row.id("run_id", "run"), "agrees": grade > 0}
        else:
            chunk_id, nugget_id = row.id(*_NAMES["chunk_id"]), row.optional("nugget_id")
            if nugget_id is None:
                text = row.text(*_NAMES["nugget"])
                nugget_id = by_text.get((query_id, text), text)
            fields |= {"nugget_id": nugget_id, "chunk_id": chunk_id, "label": grade}
            if chunk_id in collection.corpus.ids:
                fields["evidence"] = _evidence(row, collection, chunk_id, left_out)
        try:
            yield row.place, LABELS[kind].model_validate(fields)
        except ValidationError as error:
            raise SourceError(f"{row.place}: {first_fault(error)}") from None


def _grade(row: Row, kind: str, scale: ScaleName) -> int:
    name = row.name(*_NAMES["label"])
    if isinstance(row.values[name], bool) and kind != "answer":
        raise row.fault(name, "a whole number or its words")
    text = str(row.values[name]).strip().lower()
    number = re.match(r"(\d{1,9})(\.0)?(?![\w.])", text)
    if number:
        return int(number[1])
    binary = kind != "support" or scale == "binary"
    if text not in _GRADES or not (binary or scale == "support"):
        words = ", or full, partial, none" if binary or scale == "support" else ""
        raise row.fault(name, f"a whole number, which text may follow{words}")
    return min(_GRADES[text], 1) if binary else _GRADES[text]


def _evidence(row: Row, collection: Collection, chunk_id: str, left_out: Counter[str]) -> Spans:
    spans = list(row.inners("spans")) if row.values.get("spans") else []
    quotes = row.text("evidence", default="").splitlines()
    spans += [Row(row.place, {"text": quote}) for quote in quotes if quote.strip()]
    if not spans:
        return ()
    chunk = collection.chunk(chunk_id)
    places = [place for span in spans if (place := _place(chunk, span))]
    left_out["marked words that the passage does not have"] += len(spans) - len(places)
    return tuple(merged(places))


def _place(chunk: Chunk, span: Row) -> tuple[int, int] | None:
    """Find marked words in a chunk; the span is in bytes of its file."""
    start, end = (
        value if isinstance(value := span.values.get(name), int) else None
        for name in ("start", "end")
    )
    if (words := span.optional("text")) is not None:
        words = (words if words in chunk.text else words.replace("\\n", "\n")).strip()
        places = [match.start() for match in re.finditer(re.escape(words), chunk.text)]
        if not places:
            return None
        start = min(places, key=lambda place: abs(place - (start or 0)))
        end = start + len(words)
    if start is None or end is None or not 0 <= start < end <= len(chunk.text):
        return None
    return chunk.byte_at(start), chunk.byte_at(end)


# The tools


def _csv(path: Path, left_out: Counter[str]) -> Iterator[Row]:
    """Our own fields as columns, under any of their names; `evidence` has one quote on each line."""
    return read_csv(path, [name for names in _NAMES.values() for name in names])


def _label_studio(path: Path, left_out: Counter[str]) -> Iterator[Row]:
    """Label Studio's JSON: a choice, rating or number; a text area; marked words of any label."""
    for row in read_rows(path):
        for annotation in row.inners("annotations"):
            if annotation.values.get("was_cancelled"):
                left_out["annotations that were skipped"] += 1
                continue
            who: Any = annotation.values.get("completed_by")
            who = who.get("email") or who.get("id") if isinstance(who, dict) else who
            spans: list[dict[str, Any]] = []
            answers: dict[str, Any] = {"annotator": who, "time": annotation.optional("updated_at")}
            for result in annotation.inners("result"):
                value, kind = result.inner("value"), result.text("type")
                if kind == "choices":
                    answers["label"] = next(iter(value.list(kind)), None)
                elif kind in ("rating", "number"):
                    answers["label"] = value.values.get(kind)
                elif kind == "textarea":
                    answers["note"] = "\n".join(value.texts("text"))
                else:
                    spans.append({**value.values, **value.inner("globalOffsets").values})
            yield Row(row.place, {**row.inner("data").values, **answers, "spans": spans})


def _argilla(path: Path, left_out: Counter[str]) -> Iterator[Row]:
    """Records of Argilla 2, nested or flattened: questions `label`, `note`, and any of spans."""
    for row in read_rows(path):
        about = {**row.values, **row.inner("fields").values, **row.inner("metadata").values}
        by_user: defaultdict[str, dict[str, Any]] = defaultdict(dict)
        nested = row.inner("responses")
        for question in nested.values:
            for response in nested.inners(question):
                by_user[response.id("user_id")][question] = response.values.get("value")
        for name in [name for name, value in row.values.items() if value and name.endswith(_GIVEN)]:
            users, states = row.list(f"{name}.users"), row.list(f"{name}.status")
            for user, state, value in zip(users, states, row.list(name), strict=True):
                if state in (None, "submitted"):
                    by_user[str(user)][name.removesuffix(_GIVEN)] = value
        left_out["records without a response"] += not by_user
        for user, answers in sorted(by_user.items()):
            marked = [value for value in answers.values() if isinstance(value, list)]
            spans = [span for value in marked for span in value]
            yield Row(row.place, {**about, **answers, "annotator": user, "spans": spans})


def _autojudge_annotate(path: Path, left_out: Counter[str]) -> Iterator[Row]:
    """Annotations of citations: the sentence is the nugget, the cited document the chunk."""
    for row in read_rows(path):
        citation = row.inner("citation")
        if citation.values.get("docid") is None:
            left_out["annotations of reports, documents and sentences without a citation"] += 1
            continue
        rated = row.values.get("rating") != "Not rated"
        fields = {"nugget": citation.inner("sentence").text("text"), "docid": citation.id("docid")}
        yield Row(row.place, {**row.values, **fields, **({} if rated else {"rating": None})})


def _nuggetizer(path: Path, left_out: Counter[str]) -> Iterator[Row]:
    """Assignments of nuggets to passages, by `nuggetizer assign --input-kind retrieval`."""
    for row in read_rows(path):
        if not row.has("docid"):
            raise SourceError(
                f"{row.place}: assigns nuggets to an answer; allowed: to passages, with 'docid'"
            )
        for entry in row.inners("nuggets"):
            word = entry.optional("assignment")
            label = None if word == "failed" else word
            nugget = {"nugget_id": entry.optional("nugget_id"), "nugget": entry.text("text")}
            yield Row(row.place, {**row.values, **nugget, "label": label})


def _trec_support(path: Path, left_out: Counter[str]) -> Iterator[Row]:
    """TREC RAG's labels of citations: the sentence is the nugget, the cited passage the chunk."""
    for row in read_rows(path):
        for sentence in row.inners("sentences"):
            for citation in (
                sentence.inners("citations") if sentence.values.get("citations") else ()
            ):
                support = citation.values.get("support")
                fields: dict[str, Any] = {"nugget": sentence.text("text")}
                fields["support"] = None if support in (-1, "-1") else support
                yield Row(row.place, {**row.values, **citation.values, **fields})


_READERS: Mapping[str, _Reader] = {
    "csv": _csv,
    "json": lambda path, left_out: read_rows(path),
    "label-studio": _label_studio,
    "argilla": _argilla,
    "autojudge-annotate": _autojudge_annotate,
    "nuggetizer": _nuggetizer,
    "trec-support": _trec_support,
}


# Tasks for them


def _masked(data: bytes, salt: bytes) -> bytes:
    """Mask or unmask a text: a stratum names the judge's label, which annotators must not see."""
    mask = hashlib.shake_256(salt).digest(len(data))
    return bytes(byte ^ other for byte, other in zip(data, mask, strict=True))


def _drawn(row: Row, written: str) -> dict[str, Any]:
    try:
        data = bytes.fromhex(written)
        probability, _, stratum = _masked(data[4:], data[:4]).decode().partition(" ")
        return {"stratum": stratum or None, "probability": float(probability)}
    except ValueError:
        raise row.fault("drawn", "what `freshstack sample` wrote there, or nothing") from None


def tasks_as(format: TaskFormat, tasks: Sequence[LabelTask], collection: Collection) -> str:  # noqa: A002
    """Write tasks with their texts, to be labelled with another tool; then import its labels."""
    questions = {query.query_id: query.text for query in collection.queries}
    nuggets = {nugget.nugget_id: nugget.text for nugget in collection.nuggets}
    rows: list[dict[str, Any]] = []
    for task in tasks:
        if task.kind in ("nuggets", "report"):
            raise ConfigError(
                f"tasks of kind {task.kind!r} are labelled on the page: freshstack label"
            )
        fields = task.model_dump(exclude={"answer", "gold_answer", "sample"})
        texts = {"question": questions[task.query_id]}
        if task.nugget_id is not None and task.chunk_id is not None:
            chunk = collection.chunk(task.chunk_id)
            place = " > ".join((chunk.path, *chunk.headings))
            texts |= {"nugget": nuggets[task.nugget_id], "path": place, "passage": chunk.text}
        else:
            texts |= {"answer": task.answer or "", "gold_answer": task.gold_answer or ""}
        ids = {name: value for name, value in fields.items() if value is not None}
        drawn = f"{ids.pop('probability', 1)} {ids.pop('stratum')}".encode()
        salt = hashlib.sha256(repr(task_id(task)).encode()).digest()[:4]
        ids["drawn"] = (salt + _masked(drawn, salt)).hex()
        rows.append({**ids, **texts})
    if format == "label-studio":
        return json.dumps([{"data": row} for row in rows], ensure_ascii=False, indent=1) + "\n"
    written = io.StringIO()
    blank = dict.fromkeys(("label", "evidence", "note", "annotator"), "")
    columns = dict.fromkeys(name for row in rows for name in row) | blank
    writer = csv.DictWriter(written, list(columns), lineterminator="\n")
    writer.writeheader()
    for row in rows:
        # A spreadsheet would take a text that begins so for a formula.
        formulas = {name: row[name] for name in _TEXTS if row.get(name, "").startswith(FORMULA)}
        writer.writerow({**row, **{name: f" {text}" for name, text in formulas.items()}})
    return written.getvalue()
