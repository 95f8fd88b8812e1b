"""What is read of a foreign collection, before it becomes one of ours."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from pydantic import ValidationError

from freshstack_dspy.collection.imports.notes import Notes, read_notes
from freshstack_dspy.collection.imports.rows import Row, shown
from freshstack_dspy.collection.jsonl import first_fault
from freshstack_dspy.errors import SourceError
from freshstack_dspy.records import Chunk, Failure, Judgment, Nugget, Query, Scale, Status


class Once:
    """Ids that may stand once each, with the places where they were first met."""

    def __init__(self, kind: str) -> None:
        """Prepare.

        Args:
            kind: What the ids name, as `query`.
        """
        self._kind = kind
        self._files: list[str] = []
        self._rows: dict[str, tuple[int, int] | int] = {}

    def take(self, id_: str, row: Row) -> None:
        """Take the id of a row.

        Raises:
            SourceError: It stands already in another row; names both places.
        """
        if row.file not in self._files[-1:]:
            self._files.append(row.file)
        # A plain number for the rows of the first file: a corpus has millions.
        file = len(self._files) - 1
        at = (file, row.number) if file else row.number
        first = self._rows.setdefault(id_, at)
        if first is not at:
            first_file, number = first if isinstance(first, tuple) else (0, first)
            raise SourceError(
                f"{row.place}: {self._kind} {shown(id_)} stands at {self._files[first_file]}:"
                f"{number} already; every {self._kind} needs an id of its own"
            )


@dataclass
class Gathered:
    """The records of a foreign collection, as its reader fills them in.

    Attributes:
        notes: What an export of ours says beside its format.
        scale: What the labels mean.
        queries: By id.
        nuggets: By id.
        judgments: Of the nuggets; a chunk that they name may lack in the corpus.
        failures: What the foreign collection says went wrong.
        rejected: How many queries were left out, by reason.
        dangling: For a query id that judgments name and that there is not: by how many.
        documents: The corpus; None where the foreign collection has none.
        read: The files and folders that were read.
    """

    notes: Notes
    scale: Scale = field(default_factory=Scale)
    queries: dict[str, Query] = field(default_factory=dict)
    nuggets: dict[str, Nugget] = field(default_factory=dict)
    judgments: list[Judgment] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    rejected: dict[str, int] = field(default_factory=dict)
    dangling: dict[str, int] = field(default_factory=dict)
    documents: Iterable[Chunk] | None = None
    read: list[Path] = field(default_factory=list)
    _query_ids: Once = field(default_factory=lambda: Once("query"))
    _nugget_ids: Once = field(default_factory=lambda: Once("nugget"))

    @classmethod
    def of(cls, path: Path) -> Self:
        """Begin with what an export of ours says in a folder, if it is one."""
        return cls(notes=read_notes(path))

    def add_query(self, row: Row, **fields: Any) -> Query:
        """Take a query.

        Raises:
            SourceError: Its id stands twice, or it is no `Query`.
        """
        try:
            query = Query.model_validate({**fields, **_origin(row, fields)})
        except ValidationError as error:
            raise SourceError(f"{row.place}: not a query: {first_fault(error)}") from None
        self._query_ids.take(query.query_id, row)
        self.queries[query.query_id] = query
        return query

    def add_nugget(self, row: Row, **fields: Any) -> Nugget:
        """Take a nugget.

        Raises:
            SourceError: Its id stands twice, or it is no `Nugget`.
        """
        try:
            nugget = Nugget.model_validate({"call_id": None, **fields})
        except ValidationError as error:
            raise SourceError(f"{row.place}: not a nugget: {first_fault(error)}") from None
        self._nugget_ids.take(nugget.nugget_id, row)
        self.nuggets[nugget.nugget_id] = nugget
        return nugget

    def judge(
        self,
        nugget: Nugget,
        chunk_id: str,
        label: int | None,
        status: Status = "ok",
        reason: str = "",
    ) -> None:
        """Take a judgment; one without a label has a status that says why."""
        self.judgments.append(
            Judgment(
                query_id=nugget.query_id,
                nugget_id=nugget.nugget_id,
                chunk_id=chunk_id,
                label=label,
                status=status,
                reason=reason,
                call_id=None,
            )
        )

    def reads(self, path: Path) -> Path:
        """Note what is read, for its hash; gives it back."""
        self.read.append(path)
        return path

    def dangle(self, query_id: str) -> None:
        """Count a judgment of a query that there is not."""
        self.dangling[query_id] = self.dangling.get(query_id, 0) + 1


def _origin(row: Row, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Keep the mark of a synthetic query: as its origin, or as a tag where it has no answer."""
    if row.inner("metadata").values.get("origin") != "synthetic":
        return {"origin": "imported"}
    if fields.get("answer"):
        return {"origin": "synthetic"}
    return {"origin": "imported", "tags": (*fields.get("tags", ()), "synthetic")}
