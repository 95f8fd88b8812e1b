"""Runs of passages: what a retriever with chunks of its own found, placed in a collection's files."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from freshstack_dspy.collection.placing import Files, Hit, Unit
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.faults import first_fault
from freshstack_dspy.measures.run import PassageRun
from freshstack_dspy.measures.spans import Place

_LINE = (
    'a line is {"query_id": "…", "source": "…", "path": "…", "start": 0, "end": 100, "score": 1.5}'
)


class _Line(BaseModel):
    """A line of a file of passages."""

    model_config = ConfigDict(extra="ignore")
    query_id: str
    path: str | None
    source: str | None = None
    start: int | None = Field(default=None, ge=0)
    end: int | None = None
    text: str | None = None
    score: float = Field(allow_inf_nan=False)
    unit: Unit = "bytes"

    @model_validator(mode="after")
    def _has_a_place(self) -> "_Line":
        if self.path is not None and self.text is None and (self.start is None or self.end is None):
            raise ValueError("neither text nor start and end are given")
        if self.start is not None and self.end is not None and self.end <= self.start:
            raise ValueError(f"the passage starts at {self.start} and ends at {self.end}")
        return self


def read_passages(path: Path | str, files: Files | None = None) -> dict[str, list[Hit]]:
    """Read passages by query, one JSON object a line.

    A line is `{"query_id", "source", "path", "start", "end", "score"}`. `source` may be left out
    where the path alone names one file; `text` may be given in place of the offsets or with them;
    offsets are in bytes of the file, or with `"unit": "chars"` in characters of its text.
    A result whose place is not known has the path null, and is counted.

    Args:
        path: A UTF-8 text file.
        files: Those of the collection, to check each path, and each passage without a text.

    Raises:
        CollectionError: With file and line, where a line cannot be understood, no file or several
            have the path, or a passage is outside its file; or the file cannot be read.
    """
    found: dict[str, list[Hit]] = {}
    try:
        with Path(path).open(encoding="utf-8-sig", newline="\n") as file:
            for number, text in enumerate(file, 1):
                if text.strip():
                    try:
                        line = _Line.model_validate_json(text)
                    except ValidationError as error:
                        raise CollectionError(
                            f"{path}:{number}: {first_fault(error)}; {_LINE}"
                        ) from None
                    hit = Hit(**line.model_dump(exclude={"query_id"}))
                    if files is not None and (fault := _fault(files, hit)):
                        raise CollectionError(f"{path}:{number}: {fault}")
                    found.setdefault(line.query_id, []).append(hit)
    except UnicodeDecodeError:
        raise CollectionError(f"{path}: the passages are not UTF-8; save them as UTF-8") from None
    except OSError as error:
        raise CollectionError(f"{path}: the passages cannot be read: {error.strerror}") from None
    return found


def _fault(files: Files, hit: Hit) -> str | None:
    """Say what is wrong with the path or the offsets of a passage."""
    if hit.path is None:
        return None
    wanted = hit.path
    if not (named := files.whole(wanted, hit.source)):
        near = files.nearest(wanted)
        hint = f"; the nearest is {near}" if near else ""
        return f"the collection has no file {wanted!r:.200}{hint}"
    if hit.text is not None:
        return None
    if len(named) > 1:
        sources = ", ".join(f"{source}/{path}" for source, path in named[:3])
        return f"{wanted!r:.200} may be {sources}: give the source and the whole path"
    if files.place(hit) is None:
        file = files.text(*named[0])
        size = f"{file.size} bytes" if hit.unit == "bytes" else f"{len(file.text)} characters"
        return f"the passage ends at {hit.end}, and {wanted!r:.200} has {size}"
    return None


def why_unplaced(files: Files, hit: Hit) -> str:
    """Say why it cannot be told where a result is."""
    if hit.path is None:
        return "it has no path" if hit.chunk_id is None else f"no chunk {hit.chunk_id!r:.200}"
    if hit.text is None and (hit.start is None or hit.end is None):
        return f"of {hit.path!r:.200} it has neither text nor start and end"
    return _fault(files, hit) or f"its text is not in {hit.path!r:.200}, or several times"


def write_passages(run: PassageRun, path: Path | str) -> None:
    """Write passages as JSON Lines, in bytes; those without a place have the path null."""
    lines = [
        {"query_id": query, **place._asdict(), "score": score}
        for query, found in run.passages.items()
        for place, score in sorted(found.items(), key=lambda item: (-item[1], item[0]))
    ]
    lines += [
        {"query_id": query, "path": None, "score": 0.0}
        for query, number in run.unplaced.items()
        for _ in range(number)
    ]
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    Path(path).write_text(text, encoding="utf-8", newline="\n")


def place_all(files: Files, hits: Mapping[str, Iterable[Hit]], name: str) -> PassageRun:
    """Place all results of a retriever, by query; those without a place are counted."""
    passages: dict[str, dict[Place, float]] = {}
    unplaced: dict[str, int] = {}
    repeated = 0
    for query, of in hits.items():
        found = passages.setdefault(query, {})
        for hit in of:
            place = files.place(hit)
            if place is None:
                unplaced[query] = unplaced.get(query, 0) + 1
            else:
                repeated += place in found
                found[place] = max(hit.score, found.get(place, hit.score))
    return PassageRun(name, passages, unplaced, repeated)
