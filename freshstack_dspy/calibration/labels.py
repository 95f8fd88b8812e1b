"""Labels made by people, as JSON Lines of `HumanLabel`."""

from collections.abc import Iterable
from pathlib import Path

from pydantic import ValidationError

from freshstack_dspy.errors import CollectionError
from freshstack_dspy.records import HumanLabel


def read_labels(path: Path | str) -> tuple[HumanLabel, ...]:
    """Read labels, in the order of the file.

    Raises:
        CollectionError: The file cannot be read or has none; a line is not a label; an annotator
            labelled a pair twice.
    """
    path = Path(path)
    labels = []
    seen: dict[tuple[str, str, str, str], int] = {}
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise CollectionError(f"{path}: the labels cannot be read: {error}") from None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            label = HumanLabel.model_validate_json(line, strict=True)
        except ValidationError as error:
            fault = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(str(part) for part in fault["loc"]) or "line"
            allowed = ", ".join(HumanLabel.model_fields)
            raise CollectionError(
                f"{path}:{number}: not a label: {place}: {fault['msg']}; its fields are {allowed}"
            ) from None
        identity = (label.query_id, label.nugget_id, label.chunk_id, label.annotator)
        if identity in seen:
            raise CollectionError(
                f"{path}:{number}: {label.annotator!r} labelled this pair before, in line "
                f"{seen[identity]}; keep one of the two"
            )
        seen[identity] = number
        labels.append(label)
    if not labels:
        raise CollectionError(f"{path}: there is no label in it")
    return tuple(labels)


def write_labels(labels: Iterable[HumanLabel], path: Path | str) -> None:
    """Write labels as JSON Lines, in the given order.

    Raises:
        CollectionError: The file cannot be written.
    """
    lines = [label.model_dump_json(exclude_none=True) + "\n" for label in labels]
    try:
        Path(path).write_text("".join(lines), encoding="utf-8", newline="\n")
    except OSError as error:
        raise CollectionError(f"{path}: the labels cannot be written: {error}") from None
