"""What runs are evaluated on: a collection, or a file of qrels without one."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from freshstack_dspy.cli.lines import counted, shown_name
from freshstack_dspy.cli.slices import SlicesName, slices_of

if TYPE_CHECKING:
    from freshstack_dspy.collection.collection import Collection
    from freshstack_dspy.measures.qrels import NuggetQrels

JudgmentsArgument = Annotated[
    Path, typer.Argument(help="Folder of a collection, or a file of TREC or BEIR qrels.")
]
SubtopicsOption = Annotated[
    bool | None,
    typer.Option(
        "--subtopics/--no-subtopics",
        help="Whether the second column of a file of qrels is a subtopic; by default where it "
        "varies.",
        show_default=False,
    ),
]


class Judgments(NamedTuple):
    """The judgments that runs are evaluated on, and what they are called."""

    name: str
    """Of the collection, or of the file."""
    identity: dict[str, Any]
    """What tells them from all others, as JSON has it."""
    qrels: "NuggetQrels"
    query_ids: tuple[str, ...]
    """Of all queries, evaluated or not."""
    remark: str = ""
    """What the number of queries does not say."""
    left_out: str = ""
    """Which queries and nuggets of the collection are not measured."""
    collection: "Collection | None" = None
    """None of a file."""

    def title(self, queries: int) -> str:
        """Say what was evaluated on, and how many queries."""
        return f"{self.name}: {counted(queries, 'query', 'queries')}{self.remark}"


def judgments_at(
    path: Path,
    slices: SlicesName,
    *,
    subtopics: bool | None,
    needing: Mapping[str, object],
    out: Path | None = None,
) -> Judgments:
    """Load a collection, or read a file of qrels.

    Args:
        path: A folder or a file.
        slices: Whose queries of a collection.
        subtopics: What the second column of a file is.
        needing: What was given for the options that need a collection, besides --slices.
        out: What the command writes: not the file, and nothing into the folder.

    Raises:
        CollectionError: It cannot be read.
        ConfigError: An option is not for it.
    """
    from freshstack_dspy.cli.outputs import check_collection, check_inputs
    from freshstack_dspy.collection.collection import Collection

    if path.is_file():
        _check_without_collection(path, {**needing, "--slices": slices != "supported"})
        check_inputs(out, path)
        return _of_file(path, subtopics)
    _check_subtopics(path, subtopics)
    check_collection(out, path)
    return _of_collection(Collection.load(path), slices)


def _of_collection(collection: "Collection", slices: SlicesName) -> Judgments:
    """Give the judgments of a collection's slices."""
    from freshstack_dspy.collection.slices import left_out

    chosen = slices_of(slices, collection)
    return Judgments(
        name=collection.name,
        identity={
            "collection": collection.name,
            "content_hash": collection.manifest.content_hash,
            "slices": chosen,
        },
        qrels=collection.qrels(chosen),
        query_ids=tuple(query.query_id for query in collection.queries),
        remark=f" ({', '.join(chosen)})" if slices != "supported" else "",
        left_out=left_out(collection, chosen),
        collection=collection,
    )


def _of_file(path: Path, subtopics: bool | None) -> Judgments:
    """Read the judgments of a file of qrels.

    Raises:
        CollectionError: It cannot be read, or is none.
    """
    from hashlib import file_digest

    from freshstack_dspy.errors import CollectionError
    from freshstack_dspy.measures.qrels import read_qrels

    qrels = read_qrels(path, subtopics=subtopics)
    try:
        with path.open("rb") as file:
            sha256 = file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise CollectionError(f"{path}: the qrels cannot be read: {error.strerror}") from None
    plain = all(nuggets == (query,) for query, nuggets in qrels.nuggets.items())
    return Judgments(
        name=shown_name(path),
        identity={"qrels": shown_name(path), "sha256": sha256},
        qrels=qrels,
        query_ids=tuple(qrels.nuggets),
        remark="" if plain else f", {counted(len(qrels.labels), 'subtopic')}",
    )


def _check_without_collection(path: Path, asked: Mapping[str, object]) -> None:
    """Refuse options that need more than the qrels of a file.

    Args:
        path: The file.
        asked: What was given for each option.

    Raises:
        ConfigError: One of them was given.
    """
    from freshstack_dspy.errors import ConfigError

    instead = "; --groups groups.csv groups its queries" if asked.get("--by") else ""
    if given := [option for option, value in asked.items() if value]:
        raise ConfigError(
            f"{path} is a file of qrels, and {given[0]} needs a collection: name its folder, or "
            f"leave {given[0]} out{instead}"
        )


def _check_subtopics(path: Path, subtopics: bool | None) -> None:
    """Refuse to be told of the columns of a collection.

    Raises:
        ConfigError: It was told.
    """
    from freshstack_dspy.errors import ConfigError

    if subtopics is not None:
        raise ConfigError(
            "--subtopics and --no-subtopics are told of a file of qrels, and "
            f"{path} is none; leave them out"
        )
