"""Nuggets that people edited: a file that takes the place of what a model would make."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from freshstack_dspy.errors import ConfigError
from freshstack_dspy.files import decode_records
from freshstack_dspy.programs.nuggetizer import with_near_duplicates
from freshstack_dspy.records import Nugget, Query


class EditedNugget(Nugget):
    """A line of the file: a line of `nuggets.jsonl`, or as little as `query_id` and `text`."""

    nugget_id: str = ""
    call_id: str | None = None


def edited_nuggets(
    path: Path | None, queries: Sequence[Query], chunk_ids: Mapping[str, object]
) -> dict[str, tuple[Nugget, ...]]:
    """Read the nuggets of each query that the file names: these and no others.

    A nugget without an id gets the next free number of its query. Lines of queries that are not
    built are passed over.

    Args:
        path: The file; None: there is none.
        queries: Those that are built.
        chunk_ids: By id, the chunks that there are; others that a nugget names are left out.

    Raises:
        CollectionError: A line is not a nugget.
        ConfigError: An id is there twice.
    """
    if path is None:
        return {}
    lines = decode_records(path.read_bytes().rstrip(b"\n") + b"\n", EditedNugget, path)
    taken: set[str] = set()
    for line in lines:
        if line.nugget_id and line.nugget_id in taken:
            raise ConfigError(
                f"{path}: nugget_id {line.nugget_id!r} is there twice; give one another, or none"
            )
        taken.add(line.nugget_id)
    built = {query.query_id for query in queries}
    found: dict[str, list[Nugget]] = {}
    for line in lines:
        if line.query_id not in built:
            continue
        number, nugget_id = 0, line.nugget_id
        while not nugget_id or (nugget_id != line.nugget_id and nugget_id in taken):
            nugget_id, number = f"{line.query_id}_{number}", number + 1
        taken.add(nugget_id)
        known = tuple(chunk_id for chunk_id in line.chunk_ids if chunk_id in chunk_ids)
        values = {**dict(line), "nugget_id": nugget_id, "call_id": None, "chunk_ids": known}
        found.setdefault(line.query_id, []).append(Nugget(**values))
    return {query_id: with_near_duplicates(nuggets) for query_id, nuggets in found.items()}
