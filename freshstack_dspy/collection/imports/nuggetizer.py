"""Reading nuggetizer's files: nuggets with their importance, and their assignments to passages.

Source: castorini/nuggetizer v0.0.6, `nuggetizer assign --input-kind retrieval`.
"""

from pathlib import Path
from typing import get_args

from freshstack_dspy.collection.imports.foreign import (
    Gathered,
    Row,
    find_part,
    read_documents,
    read_rows,
    shown,
    the_part,
    whole,
)
from freshstack_dspy.errors import SourceError
from freshstack_dspy.records import SCALES, Chunk, Failure, Importance, Nugget, Scale

_ASSIGNMENTS = ("*assign*.jsonl", "*assign*.jsonl.gz")
_NUGGETS = ("*nuggets*.jsonl", "*nuggets*.jsonl.gz")
_CORPUS = ("corpus*.jsonl", "corpus*.jsonl.gz", "corpus*.parquet", "corpus")
_LABELS = {"support": 2, "partial_support": 1, "not_support": 0}
_FAILED = "failed"
_IMPORTANCE: tuple[Importance, ...] = get_args(Importance)


def read_nuggetizer(
    path: Path, *, corpus: Path | None, source: str, threshold: int | None
) -> Gathered:
    """Read nuggets and their retrieval assignments.

    Nuggets have no ids there: they are called `{qid}_{n}`, n from 0 in the order of the list, and
    an assignment names one by its text. `failed` becomes a judgment without a label.

    Args:
        path: A folder with `*assign*.jsonl` and, if it is there, `*nuggets*.jsonl`; or the file
            of the assignments.
        corpus: Where the passages are, if not in the assignments.
        source: What the corpus is called.
        threshold: The lowest label that counts as support, of 0 to 2.

    Raises:
        SourceError: With file and line, where something is missing or is not what it should be.
    """
    assignments, nuggets = path, None
    if path.is_dir():
        assignments = the_part(path, "assignments", _ASSIGNMENTS)
        nuggets = find_part(path, "nuggets", _NUGGETS)
        corpus = corpus or find_part(path, "the corpus", _CORPUS)
    given = Gathered.of(path)
    given.scale = Scale(name="support", threshold=threshold or _threshold(given))
    reader = _Reader(given, source)
    for row in read_rows(given.reads(nuggets)) if nuggets else ():
        reader.take_nuggets(row, row.text("query", "text"))
    for row in read_rows(given.reads(assignments)):
        reader.take_assignment(row, follows=nuggets is not None)
    given.documents = read_documents(given.reads(corpus), source) if corpus else reader.passages()
    return given


class _Reader:
    def __init__(self, given: Gathered, source: str) -> None:
        self._given = given
        self._source = source
        self._nuggets: dict[str, dict[str, Nugget]] = {}
        self._texts: dict[str, tuple[str, str]] = {}
        self._judged: dict[tuple[str, str], str] = {}

    def take_nuggets(self, row: Row, query: str) -> None:
        """Take a query and its list of nuggets."""
        query_id = self._given.add_query(row, query_id=row.id("qid"), title=query, body="").query_id
        own: dict[str, Nugget] = {}
        for number, each in enumerate(row.inners("nuggets")):
            if _key(each) in own:
                raise SourceError(
                    f"{row.place}: query {shown(query_id)} has the nugget {shown(_key(each))} "
                    "twice, and assignments name nuggets by their text; keep one"
                )
            own[_key(each)] = self._given.add_nugget(
                each,
                nugget_id=each.optional("nugget_id") or f"{query_id}_{number}",
                query_id=query_id,
                text=each.text("text"),
                importance=self._importance(each, query_id),
            )
        self._nuggets[query_id] = own

    def _importance(self, row: Row, query_id: str) -> Importance | None:
        value = row.optional("importance") if row.values.get("rated", True) else None
        if value is None or value in _IMPORTANCE:
            return value
        if value != _FAILED:
            raise row.fault("importance", f"{', '.join(_IMPORTANCE)} or {_FAILED}")
        self._given.failures.append(
            Failure(
                query_id=query_id,
                step="importance",
                status="failed",
                message=f"importance {_FAILED!r} of {shown(row.text('text'))}",
                call_id=None,
            )
        )
        return None

    def take_assignment(self, row: Row, *, follows: bool) -> None:
        """Take what was said of the nuggets and one passage.

        Args:
            row: Of the file.
            follows: Whether a file named all queries before.
        """
        if not row.has("docid") and row.has("run_id"):
            raise SourceError(
                f"{row.place}: an assignment to the answer of a run, which is no passage; allowed: "
                "assignments to passages, with docid (nuggetizer assign --input-kind retrieval)"
            )
        query_id, chunk_id = row.id("qid"), row.id("docid")
        if query_id not in self._nuggets:
            if follows:
                self._given.dangle(query_id)
                return
            self.take_nuggets(row, row.text("text", "query"))
        if (first := self._judged.setdefault((query_id, chunk_id), row.place)) != row.place:
            raise SourceError(
                f"{row.place}: query {shown(query_id)} and passage {shown(chunk_id)} stand at "
                f"{first} already; keep one"
            )
        self._take_text(row, chunk_id)
        for each in row.inners("nuggets"):
            nugget = self._nuggets[query_id].get(_key(each))
            if nugget is None:
                raise SourceError(
                    f"{row.place}: query {shown(query_id)} has no nugget {shown(_key(each))}"
                )
            said = each.text("assignment")
            if said == _FAILED:
                self._given.judge(nugget, chunk_id, None, "failed", f"assignment {_FAILED!r}")
            elif said in _LABELS:
                self._given.judge(
                    nugget, chunk_id, _LABELS[said], reason=each.text("reasoning", default="")
                )
            else:
                raise each.fault("assignment", f"{', '.join(_LABELS)} or {_FAILED}")

    def _take_text(self, row: Row, chunk_id: str) -> None:
        if not row.has("candidate_text"):
            return
        text = row.text("candidate_text")
        known, first = self._texts.setdefault(chunk_id, (text, row.place))
        if known != text:
            raise SourceError(
                f"{row.place}: passage {shown(chunk_id)} has another text than at {first}"
            )

    def passages(self) -> list[Chunk]:
        """Give the passages whose texts stand in the assignments."""
        return [
            whole(place, self._source, chunk_id, text)
            for chunk_id, (text, place) in self._texts.items()
        ]


def _key(row: Row) -> str:
    """Give what names a nugget in an assignment: its text, or its id in an export of ours."""
    return row.optional("nugget_id") or row.text("text")


def _threshold(given: Gathered) -> int:
    """Give that of the collection that was exported, if it was on this scale."""
    scale = given.notes.scale
    return scale.threshold if scale and scale.name == "support" else SCALES["support"].threshold
