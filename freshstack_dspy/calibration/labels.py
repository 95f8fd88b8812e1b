"""Labels made by people: one JSON Lines format for every kind."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, overload

from pydantic import ValidationError

from freshstack_dspy.errors import CollectionError
from freshstack_dspy.faults import first_fault
from freshstack_dspy.files import read_lines
from freshstack_dspy.records import (
    AnswerLabel,
    Comment,
    HumanLabel,
    Judgment,
    NuggetLabel,
    NuggetList,
)

AnyLabel = HumanLabel | NuggetLabel | NuggetList | AnswerLabel | Comment
LABELS: dict[str, type[AnyLabel]] = {
    "support": HumanLabel,
    "answerability": HumanLabel,
    "nugget": NuggetLabel,
    "nugget_list": NuggetList,
    "answer": AnswerLabel,
    "comment": Comment,
}
"""The record of each kind of label."""
Paths = Path | str | Sequence[Path | str]
PairId = tuple[str, str, str]
"""query_id, nugget_id, chunk_id."""


def pair_of(of: HumanLabel | Judgment) -> PairId:
    """Give the pair that a label or a judgment is of."""
    return of.query_id, of.nugget_id, of.chunk_id


@overload
def read_labels(
    paths: Paths, kind: Literal["support", "answerability"] = "support"
) -> tuple[HumanLabel, ...]: ...
@overload
def read_labels(paths: Paths, kind: Literal["nugget"]) -> tuple[NuggetLabel, ...]: ...
@overload
def read_labels(paths: Paths, kind: Literal["nugget_list"]) -> tuple[NuggetList, ...]: ...
@overload
def read_labels(paths: Paths, kind: Literal["answer"]) -> tuple[AnswerLabel, ...]: ...
@overload
def read_labels(paths: Paths, kind: Literal["comment"]) -> tuple[Comment, ...]: ...


def read_labels(paths: Paths, kind: str = "support") -> tuple[Any, ...]:
    """Read the labels of one kind from one or several files, in their order.

    Raises:
        SourceError: A file cannot be read.
        CollectionError: There is no label of this kind; a line is not a label; an annotator
            labelled the same thing twice.
    """
    if isinstance(paths, Path | str):
        paths = [paths]
    labels = [label for _, label in all_labels(paths)]
    wanted = tuple(label for label in labels if label.kind == kind)
    if not wanted:
        found = ", ".join(sorted({label.kind for label in labels})) or "nothing"
        what = ", ".join(map(str, paths))
        raise CollectionError(f"{what}: there is no label of kind {kind!r} in it, but {found}")
    return wanted


def all_labels(paths: Sequence[Path | str]) -> Iterator[tuple[str, AnyLabel]]:
    """Give each label of files with its place, `path:line`; raises as `read_labels`."""
    seen: dict[tuple[Any, ...], str] = {}
    for path in paths:
        for number, line in read_lines(Path(path)):
            if not line.strip():
                continue
            place = f"{path}:{number}"
            label = read_label(line, place)
            what = identity(label)
            if what is not None and (first := seen.get(what)):
                raise CollectionError(
                    f"{place}: {label.annotator!r} labelled this {_what(label)} before, in {first}; "
                    "keep one of the two"
                )
            if what is not None:
                seen[what] = place
            yield place, label


def read_label(line: bytes, place: str) -> AnyLabel:
    """Read one line; a line without `kind` is a label of support."""
    try:
        fields = json.loads(line)
        kind = fields.get("kind", "support") if isinstance(fields, dict) else None
    except ValueError as error:
        raise CollectionError(f"{place}: not a label: Invalid JSON: {error}") from None
    record = LABELS.get(kind) if isinstance(kind, str) else None
    if record is None:
        raise CollectionError(
            f"{place}: not a label: its kind is {kind!r}; allowed: {', '.join(LABELS)}"
        )
    try:
        return record.model_validate_json(line, strict=True)
    except ValidationError as error:
        raise CollectionError(
            f"{place}: not a label: {first_fault(error)}; its fields are "
            f"{', '.join(record.model_fields)}"
        ) from None


def identity(label: AnyLabel) -> tuple[Any, ...] | None:
    """What was labelled and by whom: an annotator has one label for it, but any comments (None)."""
    of = (label.kind, label.annotator, label.query_id)
    match label:
        case HumanLabel():
            return *of, label.nugget_id, label.chunk_id
        case NuggetLabel():
            return *of, label.nugget_id
        case AnswerLabel():
            return *of, label.run_id, label.sample
        case Comment():
            return None
    return of


def _what(label: AnyLabel) -> str:
    return "pair" if isinstance(label, HumanLabel) else label.kind.replace("_", " ")
