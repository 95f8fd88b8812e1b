"""Runs of passages: what a retriever with chunks of its own found, placed in a collection's files."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from freshstack_dspy.errors import CollectionError
from freshstack_dspy.faults import first_fault
from freshstack_dspy.files import write_file
from freshstack_dspy.measures.qrels import ChunkLabels
from freshstack_dspy.measures.run import PassageRun, Run
from freshstack_dspy.measures.spans import Hit, Place, Span, Unit, merged
from freshstack_dspy.records import Chunk, Judgment, Spans
from freshstack_dspy.stored.placing import Files
from freshstack_dspy.stored.record_files import rows

_LINE = (
    'a line is {"query_id": "…", "source": "…", "path": "…", "start": 0, "end": 100, "score": 1.5}'
)


class _Line(BaseModel):
    """A line of a file of passages."""

    model_config = ConfigDict(extra="ignore", coerce_numbers_to_str=True)
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
            missing = "start" if self.start is None else "end"
            raise ValueError(f"{missing} is missing; a passage has start and end, or text")
        if self.start is not None and self.end is not None and self.end <= self.start:
            raise ValueError(f"the passage starts at {self.start} and ends at {self.end}")
        return self


def read_passages(path: Path | str, files: Files | None = None) -> dict[str, list[Hit]]:
    """Read passages by query, one JSON object a line.

    A line is `{"query_id", "source", "path", "start", "end", "score"}`. `source` may be left out
    where the path alone names one file; `text` may be given in place of the offsets or with them;
    offsets are in bytes of the file, or with `"unit": "chars"` in characters of its text.
    A result whose path is not known has the path null, and may be found by its text.

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
                            f"{path}:{number}: not a passage: {first_fault(error)}; {_LINE}"
                        ) from None
                    hit = Hit(**line.model_dump(exclude={"query_id"}))
                    if files and hit.path is not None and (fault := _fault(files, hit)):
                        raise CollectionError(f"{path}:{number}: {fault}")
                    found.setdefault(line.query_id, []).append(hit)
    except UnicodeDecodeError:
        raise CollectionError(f"{path}: the passages are not UTF-8; save them as UTF-8") from None
    except OSError as error:
        raise CollectionError(f"{path}: the passages cannot be read: {error.strerror}") from None
    return found


def _fault(files: Files, hit: Hit) -> str | None:
    """Say what is wrong with the path or the offsets of a passage."""
    wanted = hit.path or ""
    if hit.source is not None and hit.source not in files.sources:
        return f"there is no source {hit.source!r:.200}; there are {', '.join(files.sources)}"
    if not (named := files.whole(wanted, hit.source)):
        near = files.nearest(wanted)
        hint = f"; the nearest is {near}" if near else ""
        return f"the collection has no file {wanted!r:.200}{hint}"
    if hit.text is not None:
        return None
    named = files.exact(wanted, named) or named
    if len(named) > 1:
        sources = ", ".join(f"{source}/{path}" for source, path in named[:3])
        return f"{wanted!r:.200} may be {sources}: give the source and the whole path"
    if files.place(hit) is None:
        file = files.text(*named[0])
        size = f"{file.size} bytes" if hit.unit == "bytes" else f"{len(file.text)} characters"
        return f"the passage ends at {hit.end}, and {wanted!r:.200} has {size}"
    return None


def why_unplaced(files: Files, hit: Hit) -> str:
    """Say why a result has no known place."""
    if hit.path is None:
        if hit.text is not None:
            return "its text is in no file, or in several places"
        if hit.chunk_id is None:
            return "it has no path"
        is_text = len(hit.chunk_id.split()) > 1
        hint = "; a text is given as a dictionary with path and text" if is_text else ""
        return f"the collection has no chunk {hit.chunk_id!r:.100}{hint}"
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
        {"query_id": query, "path": None, "score": score}
        for query, scores in run.unplaced.items()
        for score in scores
    ]
    write_file(path, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))


def place_all(files: Files, hits: Mapping[str, Iterable[Hit]], name: str) -> PassageRun:
    """Place all results of a retriever, by query; those without a place keep their scores."""
    passages: dict[str, dict[Place, float]] = {}
    unplaced: dict[str, list[float]] = {}
    repeated = 0
    for query, of in hits.items():
        found = passages.setdefault(query, {})
        for hit in of:
            place = files.place(hit)
            if place is None:
                unplaced.setdefault(query, []).append(hit.score)
            else:
                repeated += place in found
                found[place] = max(hit.score, found.get(place, hit.score))
    return PassageRun(name, passages, unplaced, repeated)


def passages_of(corpus: Iterable[Chunk], run: Run) -> PassageRun:
    """Give a run of a collection's chunks as passages, for another collection of the same files."""
    place = Files(corpus).place_of
    found = {
        query: {place(chunk_id): score for chunk_id, score in ranking}
        for query, ranking in run.rankings.items()
    }
    return PassageRun(run.name, found)


class CollectionSpans:
    """Where the chunks of a collection, and the evidence of their labels, are in its files.

    Chunks are read when first asked for.
    """

    def __init__(self, corpus: Iterable[Chunk], judgments: Sequence[Judgment]) -> None:
        self._corpus, self._judgments = corpus, judgments
        self._passages: dict[str, Place] = {}

    @cached_property
    def files(self) -> Files:
        """The files of the corpus."""
        return Files(self._chunks)

    @cached_property
    def _chunks(self) -> Sequence[Chunk]:
        return tuple(self._corpus)

    @cached_property
    def _ids(self) -> dict[Place, str]:
        return {self.files.place_of(chunk.chunk_id): chunk.chunk_id for chunk in self._chunks}

    @property
    def lengths(self) -> Mapping[str, int]:
        """The lengths of chunks and passages in tokens, by id."""
        return self._lengths

    @cached_property
    def _lengths(self) -> "_Lengths":
        return _Lengths(self, self._chunks)

    @cached_property
    def _labels(self) -> Mapping[str, Mapping[tuple[str, str], Sequence[ChunkLabels]]]:
        by_chunk: defaultdict[tuple[str, str], list[_Label]] = defaultdict(list)
        fields = "query_id", "chunk_id", "nugget_id", "label", "evidence"
        for query_id, chunk_id, *label in rows(self._judgments, *fields):
            by_chunk[query_id, chunk_id].append(_Label(*label))
        found: defaultdict[str, dict[tuple[str, str], list[ChunkLabels]]] = defaultdict(dict)
        for (query_id, chunk_id), labels in by_chunk.items():
            place = self.place(chunk_id)
            found[query_id].setdefault((place.source, place.path), []).append(
                _chunk_labels(chunk_id, (place.start, place.end), labels)
            )
        return found

    def place(self, document: str) -> Place:
        """Give the place of a chunk, or of a passage whose id was given."""
        return self._passages.get(document) or self.files.place_of(document)

    def labels(self, query_id: str) -> Mapping[tuple[str, str], Sequence[ChunkLabels]]:
        """Give the labels of a query by (source, path)."""
        return self._labels.get(query_id, {})

    def passage_id(self, place: Place) -> str:
        """Give the id of a passage, that of a chunk where it is one."""
        passage = self._ids.get(place, place.passage_id)
        self._passages[passage] = place
        return passage

    def find(self, hit: Hit) -> Place | None:
        """Give the place of a result; None where it is not known."""
        return self.files.place(hit)

    def read(self, path: Path) -> PassageRun:
        """Read a file of passages; its name is that of the file."""
        return place_all(self.files, read_passages(path, self.files), path.stem)


class _Label(NamedTuple):
    nugget_id: str
    label: int | None
    evidence: Spans


def _chunk_labels(chunk_id: str, span: Span, labels: Sequence[_Label]) -> ChunkLabels:
    support = [one for one in labels if one.label]
    return ChunkLabels(
        chunk_id,
        span,
        labels={one.nugget_id: one.label for one in labels},
        evidence={one.nugget_id: merged(one.evidence) or [span] for one in support},
        without_evidence=frozenset(one.nugget_id for one in support if not one.evidence),
    )


class _Lengths(dict[str, int]):
    """The lengths of chunks in tokens, and of passages, which are counted when asked for."""

    def __init__(self, spans: CollectionSpans, chunks: Iterable[Chunk]) -> None:
        super().__init__((chunk.chunk_id, chunk.tokens) for chunk in chunks)
        self._spans = spans

    def __missing__(self, passage: str) -> int:
        from freshstack_dspy.lm.tokens import count_tokens

        place = self._spans.place(passage)
        file = self._spans.files.text(place.source, place.path)
        text = file.text[file.character_at(place.start) : file.character_at(place.end)]
        return self.setdefault(passage, count_tokens(text))
