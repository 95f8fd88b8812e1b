"""Labels made by people, as JSON Lines of `HumanLabel`."""

from pathlib import Path

from pydantic import ValidationError

from freshstack_dspy.errors import CollectionError
from freshstack_dspy.faults import first_fault
from freshstack_dspy.files import read_lines
from freshstack_dspy.records import HumanLabel


def read_labels(path: Path | str) -> tuple[HumanLabel, ...]:
    """Read labels, in the order of the file.

    Raises:
        SourceError: The file cannot be read.
        CollectionError: It has no label; a line is not a label; an annotator labelled a pair twice.
    """
    seen: dict[tuple[str, str, str, str], int] = {}
    labels = []
    for number, line in read_lines(Path(path)):
        if not line.strip():
            continue
        try:
            label = HumanLabel.model_validate_json(line, strict=True)
        except ValidationError as error:
            raise CollectionError(
                f"{path}:{number}: not a label: {first_fault(error)}; its fields are "
                f"{', '.join(HumanLabel.model_fields)}"
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
