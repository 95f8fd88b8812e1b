"""Nuggets that people edited: a file that takes the place of what a model would make."""

from collections import Counter
from collections.abc import Container, Sequence
from pathlib import Path

from freshstack_dspy.calibration.labels import all_labels
from freshstack_dspy.errors import ConfigError
from freshstack_dspy.files import decode_records
from freshstack_dspy.programs.nuggetizer import with_near_duplicates
from freshstack_dspy.records import Nugget, NuggetLabel, NuggetList, Query


class EditedNugget(Nugget):
    """A line of the file: a line of `nuggets.jsonl`, or as little as `query_id` and `text`."""

    nugget_id: str = ""
    call_id: str | None = None


def edited_nuggets(
    path: Path | None, queries: Sequence[Query], chunk_ids: Container[str]
) -> dict[str, tuple[Nugget, ...]]:
    """Read the nuggets of each query that the file names: these and no others.

    The file has lines of `nuggets.jsonl`, or is a labels file, whose lists of nuggets count; an
    empty list leaves its query without any. A nugget without an id gets the next free number of
    its query. Lines of queries that are not built are passed over.

    Args:
        path: The file; None: there is none.
        queries: Those that are built.
        chunk_ids: Of the chunks that there are; others that a nugget names are left out.

    Raises:
        CollectionError: A line is not a nugget, or not a label.
        ConfigError: An id is there twice, or several people made a list for a query.
    """
    if path is None:
        return {}
    data = path.read_bytes().rstrip(b"\n") + b"\n"
    taken, lists = set[str](), dict[str, list[EditedNugget]]()
    if b'"annotator"' in data[: data.index(b"\n")]:
        lists = _listed(path, taken)
    else:
        for line in decode_records(data, EditedNugget, path):
            lists.setdefault(line.query_id, []).append(line)
    ids = Counter(line.nugget_id for lines in lists.values() for line in lines if line.nugget_id)
    if twice := [nugget_id for nugget_id, times in ids.items() if times > 1]:
        raise ConfigError(
            f"{path}: nugget_id {twice[0]!r} is there twice; give one another, or none"
        )
    taken.update(ids)
    found = {}
    for query_id in [query.query_id for query in queries if query.query_id in lists]:
        nuggets: list[Nugget] = []
        for line in lists[query_id]:
            number, nugget_id = 0, line.nugget_id
            while not nugget_id or (nugget_id != line.nugget_id and nugget_id in taken):
                nugget_id, number = f"{query_id}_{number}", number + 1
            taken.add(nugget_id)
            known = tuple(chunk_id for chunk_id in line.chunk_ids if chunk_id in chunk_ids)
            values = {**dict(line), "nugget_id": nugget_id, "call_id": None, "chunk_ids": known}
            nuggets.append(Nugget(**values))
        found[query_id] = with_near_duplicates(nuggets)
    return found


def _listed(path: Path, taken: set[str]) -> dict[str, list[EditedNugget]]:
    """Read the lists of a labels file by query, and all ids that were ever used into `taken`."""
    by: dict[str, str] = {}
    lists = {}
    for place, label in all_labels([path]):
        if isinstance(label, NuggetLabel):
            taken.add(label.nugget_id)  # also those that were removed: a new nugget is another
        if not isinstance(label, NuggetList):
            continue
        if (other := by.setdefault(label.query_id, label.annotator)) != label.annotator:
            raise ConfigError(
                f"{place}: {other!r} and {label.annotator!r} both have a list of nuggets for query "
                f"{label.query_id!r}; choose one, and delete the other's line"
            )
        taken.update(id_ for one in label.nuggets for id_ in one.made_from)
        lists[label.query_id] = [
            EditedNugget(query_id=label.query_id, **one.model_dump(exclude={"made_from"}))
            for one in label.nuggets
        ]
    return lists
