"""Labels made by people: one JSON Lines format for every kind."""

from collections import defaultdict
from collections.abc import Collection as Ids
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import chain, pairwise
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from pydantic_core import from_json

from freshstack_dspy.errors import CollectionError
from freshstack_dspy.faults import first_fault
from freshstack_dspy.files import read_lines
from freshstack_dspy.records import (
    SCALES,
    AnswerLabel,
    HumanLabel,
    Judgment,
    LabelTask,
    NuggetLabel,
    NuggetList,
    ReportLabel,
    ScaleName,
    instant,
)

if TYPE_CHECKING:
    from freshstack_dspy.collection.collection import Collection

AnyLabel = HumanLabel | NuggetLabel | NuggetList | AnswerLabel | ReportLabel
LABELS: dict[str, type[AnyLabel]] = {
    "support": HumanLabel,
    "answerability": HumanLabel,
    "nugget": NuggetLabel,
    "nugget_list": NuggetList,
    "answer": AnswerLabel,
    "report": ReportLabel,
}
"""The record of each kind of label."""
Paths = Path | str | Sequence[Path | str]
ItemId = tuple[str, ...]
"""What was labelled; the first of its ids is that of the query."""
PairId = tuple[str, str, str]
"""query_id, nugget_id, chunk_id"""
TaskId = tuple[Any, ...]
_FEWEST_GAPS = 10
_TASKS_BY = {"nuggets": (), "answer": ("run_id", "sample"), "report": ("run_id", "nugget_id")}
"""The fields that name a task within its query, for kinds where these are not nugget and chunk."""


def pair_of(record: HumanLabel | Judgment) -> PairId:
    """Give the pair of a label or a judgment."""
    return record.query_id, record.nugget_id, record.chunk_id


def task_id(record: LabelTask | AnyLabel) -> TaskId:
    """Identify a task, or the task of a label; a query's nugget list and nugget labels are one task."""
    kind = "nuggets" if record.kind in ("nugget", "nugget_list") else record.kind
    names = _TASKS_BY.get(kind, ("nugget_id", "chunk_id"))
    return kind, record.query_id, *(getattr(record, name) for name in names)


def identity(label: AnyLabel) -> TaskId:
    """Identify what was labelled and by whom; an annotator has one label for each item."""
    nugget = label.nugget_id if isinstance(label, NuggetLabel) else None
    return label.annotator, label.kind, nugget, *task_id(label)


def seconds_a_label(labels: Iterable[AnyLabel]) -> float | None:
    """Give the median time between the labels of one person, in seconds.

    Breaks hardly move a median, and labels of one moment, as a file may have them, count once. None
    where fewer than ten times are known, so that nothing can be said.
    """
    times: defaultdict[str, set[datetime]] = defaultdict(set)
    for label in labels:
        with suppress(ValueError):  # written by another tool
            times[label.annotator].add(instant(label.time or ""))
    gaps = [
        (later - earlier).total_seconds()
        for moments in times.values()
        for earlier, later in pairwise(sorted(moments))
    ]
    return median(gaps) if len(gaps) >= _FEWEST_GAPS else None


def labelled(labels: Iterable[AnyLabel], tasks: Sequence[LabelTask]) -> dict[str, int]:
    """Count how many of the tasks each annotator has labelled, by name; 0 if none."""
    asked = set(map(task_id, tasks))
    done: defaultdict[str, set[TaskId]] = defaultdict(set)
    for label in labels:
        done[label.annotator].add(task_id(label))
    return {name: len(asked & theirs) for name, theirs in sorted(done.items())}


def pair_labels(labels: Any) -> Sequence[HumanLabel]:
    """Give labels of pairs; files are read as labels of support."""
    if isinstance(labels, Path | str) or any(isinstance(label, Path | str) for label in labels):
        labels = read_labels(labels)
    records: Sequence[HumanLabel] = labels
    return records


def read_labels(
    paths: Paths, kind: str = "support", collection: "Collection | None" = None
) -> tuple[Any, ...]:
    """Read the labels of one kind, in their order: records of `LABELS[kind]`.

    Raises:
        SourceError: A file cannot be read.
        CollectionError: There is no label of this kind; a line is not a label; an annotator
            labelled the same thing in two files; or, with a collection, as `check_labels`.
    """
    if isinstance(paths, Path | str):
        paths = [paths]
    placed = list(all_labels(paths))
    if collection is not None:
        check_labels(placed, collection)
    labels = [label for _, label in placed]
    wanted = tuple(label for label in labels if label.kind == kind)
    if not wanted:
        kinds = ", ".join(sorted({label.kind for label in labels}))
        what = ", ".join(map(str, paths))
        but = f", but {kinds}" if kinds else ""
        raise CollectionError(f"{what}: there is no label of kind {kind!r} in it{but}")
    return wanted


def all_labels(paths: Sequence[Path | str]) -> Iterator[tuple[str, AnyLabel]]:
    """Give each label of files with its place, `path:line`; raises like `read_labels`.

    If an annotator labelled something several times in a file, the last label counts.
    """
    return once(chain.from_iterable(latest(read_lines(Path(path)), path) for path in paths))


def latest(
    numbered: Iterable[tuple[int, bytes]], path: Path | str
) -> Iterator[tuple[str, AnyLabel]]:
    """Read the last label of each annotator for each item from a file's lines, with its place."""
    labels: dict[TaskId, tuple[str, AnyLabel]] = {}
    for number, line in numbered:
        if line.strip():
            place = f"{path}:{number}"
            label = read_label(line, place)
            labels.pop(identity(label), None)  # in the order of the last ones
            labels[identity(label)] = place, label
    return iter(labels.values())


def once(placed: Iterable[tuple[str, AnyLabel]]) -> Iterator[tuple[str, AnyLabel]]:
    """Give labels with their places; a `CollectionError` if someone labelled an item twice."""
    seen: dict[TaskId, str] = {}
    for place, label in placed:
        if (before := seen.get(identity(label))) is not None:
            what = "pair" if isinstance(label, HumanLabel) else label.kind.replace("_", " ")
            raise CollectionError(
                f"{place}: {label.annotator!r} labelled this {what} before, in {before}; keep one "
                "of the two"
            )
        seen[identity(label)] = place
        yield place, label


def read_label(line: bytes, place: str) -> AnyLabel:
    """Read one line; a line without `kind` is a label of support."""
    try:
        fields = from_json(line)
        kind = fields.get("kind", "support") if isinstance(fields, dict) else None
    except ValueError as error:
        raise CollectionError(f"{place}: not a label: Invalid JSON: {error}") from None
    record = LABELS.get(kind) if isinstance(kind, str) else None
    if record is None:
        raise CollectionError(
            f"{place}: not a label: its kind is {kind!r:.200}; allowed: {', '.join(LABELS)}"
        )
    try:
        return record.model_validate_json(line, strict=True)
    except ValidationError as error:
        raise CollectionError(
            f"{place}: not a label: {first_fault(error)}; its fields are "
            f"{', '.join(record.model_fields)}"
        ) from None


def check_labels(
    placed: Iterable[tuple[str, AnyLabel | LabelTask]], collection: "Collection"
) -> None:
    """Check that labels or tasks, each with its place, are of a collection and on its scale.

    If the scale is binary, a person's labels may be finer.

    Raises:
        CollectionError: A label is of something that does not exist or is above the scale, or no
            label is of this collection.
    """
    from freshstack_dspy.text import named_nearest

    nuggets: dict[str, set[str]] = {query.query_id: set() for query in collection.queries}
    for nugget in collection.nuggets:
        nuggets[nugget.query_id].add(nugget.nugget_id)
    valid, fault = 0, ""
    for place, label in placed:
        named = _named(label, nuggets, collection)
        wrong = next((each for each in named if each[1] not in each[2]), None)
        valid += wrong is None
        highest = highest_label(label.kind, collection.manifest.scale.name)
        if fault:
            continue
        if wrong is not None:
            what, id_, ids, file = wrong
            fault = f"{place}: there is no {what} {id_!r:.200}; {named_nearest(id_, ids, file)}"
        elif highest is not None and isinstance(label, HumanLabel) and label.label > highest:
            fault = f"{place}: the label is {label.label!r:.20}; allowed: 0 to {highest}"
    if fault:
        other = "" if valid else f"no label is of {collection.name!r}; is it the right collection? "
        raise CollectionError(f"{other}{fault}")


def _named(
    label: AnyLabel | LabelTask, nuggets: Mapping[str, Ids[str]], collection: "Collection"
) -> Iterator[tuple[str, str, Ids[str], str]]:
    """Give each id that a label names: what it names, the id, the valid ids, and their file."""
    yield "query", label.query_id, nuggets.keys(), "queries.jsonl"
    ids: list[str | None] = [getattr(label, "nugget_id", None)]
    if isinstance(label, NuggetList):
        ids = [id_ for nugget in label.nuggets for id_ in (nugget.nugget_id, *nugget.made_from)]
    for id_ in filter(None, ids):
        yield f"nugget of query {label.query_id}", id_, nuggets[label.query_id], "nuggets.jsonl"
    if chunk := getattr(label, "chunk_id", None):
        yield "chunk", chunk, collection.corpus.ids, "corpus.parquet"


def highest_label(kind: str, scale: ScaleName) -> int | None:
    """Give a person's highest label; None if the scale is binary, where theirs may be finer."""
    if kind == "answerability":
        return 1
    return None if scale == "binary" else SCALES[scale].highest
