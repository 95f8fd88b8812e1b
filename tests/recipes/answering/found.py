"""What was answered: read back, written, and who agreed."""

from pathlib import Path
from typing import Any

from freshstack_dspy.collection.answers import read_agreement, read_assignments
from freshstack_dspy.config import load_judging
from freshstack_dspy.recipes.answering import writing
from freshstack_dspy.recipes.answering.answering import Answering
from freshstack_dspy.recipes.growing.run_holes import look
from freshstack_dspy.recipes.session import open_session

from .domain_runs import ALL, provider


def agreed(found: Answering) -> dict[tuple[str, str], Any]:
    return {(one.run_id, one.query_id): (one.agrees, one.status) for one in found.agreements}


def read_back(found: Answering, folder: Path, *, assignments: bool = False) -> Any:
    from freshstack_dspy.files import encode_records

    path = folder / "rows.jsonl"
    path.write_bytes(encode_records(found.assignments if assignments else found.agreements))
    return read_assignments([path]) if assignments else read_agreement([path])


def write_to(
    folder: Path,
    found: Answering,
    config: Path,
    collection: Path,
    files: list[Path],
    *,
    depth: int = 10,
    replace: bool = False,
) -> None:
    looked = look(collection, files, depth=depth)
    with open_session(
        load_judging(config), "replay", provider=provider(), searching=False
    ) as session:
        inputs = writing.answering_inputs(looked, session.config, slices=ALL)
        told = writing.account(inputs, looked, session, found)
    writing.write_answering(folder, found, told, replace=replace)
