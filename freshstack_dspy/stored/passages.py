"""Passages in the files of a collection: what retrievers with other chunks found, and where it is.

Retrievers return texts with offsets in characters of text that they decoded themselves. Loaders
that translate line ends shift these, and some splitters give none. So a result is placed by the
first rule that holds: its id is a chunk's; its text is at its offset; its text is in the file once;
its text is there once if white space is ignored. A text without a path is searched for in all
files; if it is a chunk's text without the white space around it, it is that chunk. Anything else
is unplaced.
"""

import json
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import takewhile
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from freshstack_dspy.errors import CollectionError
from freshstack_dspy.faults import first_fault
from freshstack_dspy.files import read_lines, write_file
from freshstack_dspy.measures.qrels import ChunkLabels
from freshstack_dspy.measures.run import PassageRun, Run
from freshstack_dspy.measures.spans import Hit, Place, Unit, merged
from freshstack_dspy.records import Chunk, Judgment, Spans, technique_of
from freshstack_dspy.stored.record_files import rows

File = tuple[str, str]
"""Source and path."""
_LINE = (
    'a line is {"query_id": "…", "source": "…", "path": "…", "start": 0, "end": 100, "score": 1.5}'
)


class FileText:
    """The text of one file, put together from its chunks, and where its characters are in it."""

    def __init__(self, chunks: Iterable[Chunk]) -> None:
        self._chunks = sorted(chunks, key=lambda chunk: chunk.start_byte)
        self.text = "".join(chunk.text for chunk in self._chunks)
        self.size = self._chunks[-1].end_byte
        """In bytes."""
        self._starts = [0]
        for chunk in self._chunks:
            self._starts.append(self._starts[-1] + len(chunk.text))
        self._bytes = [chunk.byte_at(0) for chunk in self._chunks]

    def byte_at(self, place: int) -> int:
        """The offset in bytes of a character; that of the end is the file's size."""
        number = bisect_right(self._starts, place) - 1
        if number == len(self._chunks):
            return self.size
        return self._chunks[number].byte_at(place - self._starts[number])

    def character_at(self, offset: int) -> int:
        """The place of the character that an offset in bytes is at, or inside of."""
        number = max(0, bisect_right(self._bytes, offset) - 1)
        return self._starts[number] + self._chunks[number].place_at(offset)

    def passage(self, place: Place) -> str:
        """The text of a run of bytes."""
        return self.text[self.character_at(place.start) : self.character_at(place.end)]

    @cached_property
    def _without_space(self) -> tuple[str, list[int]]:
        places = [place for place, character in enumerate(self.text) if not character.isspace()]
        return "".join(self.text.split()), places

    def holds(self, text: str) -> bool:
        """Whether a text is there, once or several times, ignoring differences in white space."""
        return text in self.text or "".join(text.split()) in self._without_space[0]

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where a text is, in bytes, ignoring differences in white space; once or several times."""
        (bare, places), wanted = self._without_space, "".join(text.split())
        found = re.finditer(re.escape(wanted), bare) if wanted else ()
        return [
            (self.byte_at(places[each.start()]), self.byte_at(places[each.end() - 1] + 1))
            for each in found
        ]

    def span(self, hit: Hit) -> tuple[int, int] | None:
        """Where a result is in the file, in bytes; None where that is not known."""
        start, end = hit.start, hit.end
        if hit.text is not None:
            if start is not None and hit.unit == "bytes":
                start = self.character_at(start)
            place = self._find(hit.text, start)
        elif start is None or end is None or not 0 <= start < end:
            return None
        elif hit.unit == "bytes":
            return (start, end) if end <= self.size else None
        else:
            place = (start, end) if end <= len(self.text) else None
        return place and (self.byte_at(place[0]), self.byte_at(place[1]))

    def _find(self, text: str, start: int | None) -> tuple[int, int] | None:
        """The place of a text, in characters: at `start`, or the only one, ignoring white space."""
        if not text.strip():
            return None
        if start is not None and self.text.startswith(text, start):
            return start, start + len(text)
        if (first := _only(self.text, text)) is not None:
            return first, first + len(text)
        (bare, places), wanted = self._without_space, "".join(text.split())
        first = _only(bare, wanted)
        return None if first is None else (places[first], places[first + len(wanted) - 1] + 1)


def _only(text: str, wanted: str) -> int | None:
    first = text.find(wanted)
    return None if first < 0 or text.find(wanted, first + 1) >= 0 else first


def _parts(path: str) -> tuple[str, ...]:
    return PurePosixPath(path.replace("\\", "/")).parts


class Files:
    """The files of a collection by source and path, and where the evidence of its labels is in them.

    Nothing is read before it is needed.
    """

    def __init__(self, corpus: Iterable[Chunk], judgments: Sequence[Judgment] = ()) -> None:
        self._corpus, self._judgments = corpus, judgments
        self._texts: dict[File, FileText] = {}
        self._passages: dict[str, Place] = {}

    @cached_property
    def _chunks(self) -> Mapping[File, list[Chunk]]:
        by_file: defaultdict[File, list[Chunk]] = defaultdict(list)
        for chunk in self._corpus:
            by_file[chunk.source, chunk.path].append(chunk)
        return by_file

    @cached_property
    def _places(self) -> dict[str, Place]:
        return {
            chunk.chunk_id: Place(*file, chunk.start_byte, chunk.end_byte)
            for file, chunks in self._chunks.items()
            for chunk in chunks
        }

    @cached_property
    def _ids(self) -> dict[Place, str]:
        return {place: chunk_id for chunk_id, place in self._places.items()}

    def text(self, source: str, path: str) -> FileText:
        """The text of a file."""
        if (source, path) not in self._texts:
            self._texts[source, path] = FileText(self._chunks[source, path])
        return self._texts[source, path]

    def chunks(self, source: str, path: str) -> Sequence[Chunk]:
        """The chunks of a file."""
        return self._chunks[source, path]

    def passage(self, place: Place) -> str:
        """The text of a run of bytes of a file."""
        return self.text(place.source, place.path).passage(place)

    # Documents by id

    def place(self, document: str) -> Place:
        """Give the place of a chunk, or of a passage whose id was given."""
        return self._passages.get(document) or self._places[document]

    def passage_id(self, place: Place) -> str:
        """Give the id of a passage, that of a chunk where it is one."""
        passage = self._ids.get(place, place.passage_id)
        self._passages[passage] = place
        return passage

    def chunks_at(self, place: Place) -> list[str]:
        """The ids of the chunks that share a byte with a place."""
        return [
            chunk.chunk_id
            for chunk in self._chunks.get((place.source, place.path), ())
            if chunk.start_byte < place.end and place.start < chunk.end_byte
        ]

    @cached_property
    def _all_lengths(self) -> Mapping[str, int]:
        return _Lengths(self, self._chunks.values())

    @property
    def lengths(self) -> Mapping[str, int]:
        """The lengths of chunks and passages in tokens, by id."""
        return self._all_lengths

    @cached_property
    def _labels(self) -> Mapping[str, Mapping[File, Sequence[ChunkLabels]]]:
        pairs: defaultdict[tuple[str, str], list[tuple[str, int | None, Spans]]] = defaultdict(list)
        fields = "query_id", "chunk_id", "nugget_id", "label", "evidence"
        for query_id, chunk_id, *label in rows(self._judgments, *fields):
            pairs[query_id, chunk_id].append((label[0], label[1], label[2]))
        by_query: defaultdict[str, dict[File, list[ChunkLabels]]] = defaultdict(dict)
        for (query_id, chunk_id), labels in pairs.items():
            place = self.place(chunk_id)
            span = place.start, place.end
            support = [(nugget_id, spans) for nugget_id, label, spans in labels if label]
            by_query[query_id].setdefault((place.source, place.path), []).append(
                ChunkLabels(
                    chunk_id,
                    span,
                    labels={nugget_id: label for nugget_id, label, _ in labels},
                    evidence={nugget_id: merged(spans) or [span] for nugget_id, spans in support},
                    without_evidence=frozenset(id_ for id_, spans in support if not spans),
                )
            )
        return by_query

    def labels(self, query_id: str) -> Mapping[File, Sequence[ChunkLabels]]:
        """Give the labels of a query by (source, path)."""
        return self._labels.get(query_id, {})

    # Results of retrievers

    @cached_property
    def _by_name(self) -> Mapping[str, Sequence[File]]:
        files: defaultdict[str, list[File]] = defaultdict(list)
        for file in self._chunks:
            files[PurePosixPath(file[1]).name].append(file)
        return files

    @cached_property
    def _by_word(self) -> Mapping[str, Sequence[File]]:
        files: defaultdict[str, list[File]] = defaultdict(list)
        for file, chunks in self._chunks.items():
            for word in set(FileText(chunks).text.split()):
                files[word].append(file)
        return files

    def named(self, path: str, source: str | None = None) -> Sequence[File]:
        """The files that a path may mean: those that share the longest ending with it."""
        wanted = _parts(path)
        alike: defaultdict[int, list[File]] = defaultdict(list)
        for file in self._by_name.get(wanted[-1] if wanted else "", ()):
            if source in (None, file[0]):
                own = (*_parts(file[0]), *_parts(file[1]))
                pairs = zip(reversed(own), reversed(wanted), strict=False)
                alike[sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))].append(
                    file
                )
        return alike[max(alike)] if alike else ()

    def find(self, hit: Hit) -> Place | None:
        """Give the place of a result; None where it is not known."""
        if hit.chunk_id is not None and hit.chunk_id in self._places:
            return self._places[hit.chunk_id]
        if hit.path is None:
            return None if hit.text is None else self._find_text(hit, hit.text)
        named = self.named(hit.path, hit.source)
        exact = _exact(hit.path, named)
        # If the text is in the file with this path, other files of this base name are not tried;
        # if the source is named too, there is no other file.
        if hit.text is None:
            named = exact or named
        elif exact and (hit.source or any(self.text(*file).holds(hit.text) for file in exact)):
            named = exact
        places = self._places_in(named, hit)
        if len(places) > 1:
            places = [place for place in places if (place.source, place.path) in exact]
        return places[0] if len(places) == 1 else None

    def _find_text(self, hit: Hit, text: str) -> Place | None:
        """The place of a text without a path: in the files with its rarest word, or a whole chunk."""
        words = text.split()
        places = self._places_in(self._files_with(words), hit)
        if len(places) != 1:
            return None
        for chunk in self._chunks[places[0].source, places[0].path]:
            if chunk.start_byte <= places[0].start < chunk.end_byte and chunk.text.split() == words:
                return self._places[chunk.chunk_id]
        return places[0]

    def _files_with(self, words: Sequence[str]) -> Sequence[File]:
        """The files with the rarest of these words; the first and the last may be cut."""
        whole = words[1:-1]
        if not whole:
            return list(self._chunks)
        return min((self._by_word.get(word, ()) for word in whole), key=len)

    def places(self, text: str, files: Iterable[File] | None = None) -> list[Place]:
        """Every place of a text in some files, or in all, ignoring differences in white space."""
        files = self._files_with(text.split()) if files is None else files
        return [Place(*file, *span) for file in files for span in self.text(*file).spans(text)]

    def files_named(self, path: str, source: str | None = None) -> list[File]:
        """The files that a path names: by the whole of it, or as it ends; several if it is unclear."""
        wanted = _parts(path)
        named = [
            file
            for file in self.named(path, source)
            if (own := _parts(file[1])) == wanted[-len(own) :] or own[-len(wanted) :] == wanted
        ]
        return _exact(path, named) or named

    def _places_in(self, files: Iterable[File], hit: Hit) -> list[Place]:
        texts = {file: self.text(*file) for file in files}
        if hit.text is not None and len(texts) > 1:  # most differ by the text alone, which is quick
            texts = {
                file: file_text for file, file_text in texts.items() if hit.text in file_text.text
            } or texts
        spans = ((file, file_text.span(hit)) for file, file_text in texts.items())
        return [Place(*file, *span) for file, span in spans if span is not None]

    def fault(self, hit: Hit) -> str | None:
        """Say what is wrong with the path or the offsets of a passage."""
        path = hit.path or ""
        named = self.files_named(path, hit.source)
        if not named:
            source = f" in source {hit.source!r:.200}" if hit.source else ""
            return f"the collection has no file {path!r:.200}{source}"
        if hit.text is not None:
            return None
        if len(named) > 1:
            files = ", ".join("/".join(file) for file in named[:3])
            return f"{path!r:.200} may be {files}: give the source and the whole path"
        if self.find(hit) is not None:
            return None
        file = self.text(*named[0])
        size = f"{file.size} bytes" if hit.unit == "bytes" else f"{len(file.text)} characters"
        return f"the passage ends at {hit.end}, and {path!r:.200} has {size}"

    def why_unplaced(self, hit: Hit) -> str:
        """Say why a result has no known place."""
        if hit.path is not None:
            if hit.text is None and (hit.start is None or hit.end is None):
                return f"of {hit.path!r:.200} it has neither text nor start and end"
            return self.fault(hit) or f"its text is not in {hit.path!r:.200}, or several times"
        if hit.text is not None:
            return "its text is in no file, or in several places"
        if hit.chunk_id is None:
            return "it has no path"
        is_text = len(hit.chunk_id.split()) > 1
        hint = "; a text is given as a dictionary with path and text" if is_text else ""
        return f"the collection has no chunk {hit.chunk_id!r:.100}{hint}"

    def place_all(self, hits: Mapping[str, Iterable[Hit]], name: str) -> PassageRun:
        """Place all results of a retriever, by query; those without a place keep their scores."""
        passages: dict[str, dict[Place, float]] = {}
        unplaced: defaultdict[str, list[float]] = defaultdict(list)
        repeated = 0
        for query_id, results in hits.items():
            scores = passages.setdefault(query_id, {})
            for hit in results:
                if (place := self.find(hit)) is None:
                    unplaced[query_id].append(hit.score)
                else:
                    repeated += place in scores
                    scores[place] = max(hit.score, scores.get(place, hit.score))
        return PassageRun(name, passages, dict(unplaced), repeated)

    def passages_of(self, run: Run) -> PassageRun:
        """Give a run of chunks as passages, for another collection of the same files."""
        scores = {
            query_id: {self.place(chunk_id): score for chunk_id, score in ranking}
            for query_id, ranking in run.rankings.items()
        }
        return PassageRun(run.name, scores)

    def read(self, path: Path) -> PassageRun:
        """Read a file of passages; its name is the `run` of its first line, or that of the file."""
        hits = read_passages(path, self)
        lines = (text for _, text in read_lines(path) if text.strip())
        named = next((_Line.model_validate_json(text).run for text in lines), None)
        return self.place_all(hits, named or path.stem)


def _exact(path: str, named: Iterable[File]) -> list[File]:
    """Those of several files whose whole path it is, as README.md is of the one at the root."""
    wanted = _parts(path)
    below_source = [file for file in named if _parts(file[1]) == wanted]
    return below_source or [file for file in named if _parts("/".join(file)) == wanted]


class _Lengths(dict[str, int]):
    """The lengths of chunks in tokens, and of passages, which are counted when asked for."""

    def __init__(self, files: Files, chunks: Iterable[Sequence[Chunk]]) -> None:
        super().__init__((each.chunk_id, each.tokens) for group in chunks for each in group)
        self._files = files

    def __missing__(self, passage: str) -> int:
        from freshstack_dspy.lm.tokens import count_tokens

        files = self._files
        return self.setdefault(passage, count_tokens(files.passage(files.place(passage))))


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
    run: str | None = None

    @model_validator(mode="after")
    def _has_a_place(self) -> "_Line":
        if self.path is not None and self.text is None and None in (self.start, self.end):
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
    A result whose path is not known has the path null, and may be found by its text. A `run` names
    the run; without it, the file does.

    Args:
        path: A UTF-8 text file.
        files: Those of the collection, to check each path, and each passage without a text.

    Raises:
        CollectionError: With file and line, where a line cannot be understood, no file or several
            have the path, or a passage is outside its file.
        SourceError: The file cannot be read.
    """
    hits: dict[str, list[Hit]] = {}
    for number, text in read_lines(Path(path)):
        if text.strip():
            try:
                line = _Line.model_validate_json(text)
            except ValidationError as error:
                raise CollectionError(
                    f"{path}:{number}: not a passage: {first_fault(error)}; {_LINE}"
                ) from None
            hit = Hit(**line.model_dump(exclude={"query_id", "run"}))
            if files and hit.path is not None and (fault := files.fault(hit)):
                raise CollectionError(f"{path}:{number}: {fault}")
            hits.setdefault(line.query_id, []).append(hit)
    return hits


def write_passages(run: PassageRun, path: Path | str) -> None:
    """Write passages as JSON Lines, in bytes; those without a place have the path null.

    A run that was not searched for by the questions says so in each line.
    """
    name = {} if technique_of(run.name) == "question" else {"run": run.name}
    lines: list[dict[str, Any]] = [
        {**name, "query_id": query_id, **place._asdict(), "score": score}
        for query_id, scores in run.passages.items()
        for place, score in sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    ]
    lines += [
        {**name, "query_id": query_id, "path": None, "score": score}
        for query_id, scores in run.unplaced.items()
        for score in scores
    ]
    write_file(path, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
