"""Where what a retriever found is in the files of a collection.

Retrievers give texts with offsets in characters of text that they decoded themselves: a loader
that translates line ends shifts them, and some splitters give none. So a result is placed by the
first that holds of: its id is a chunk's; its text is at its offset; its text is in the file once;
it is there once if white space is passed over. Of a text without a path, all files are looked
through; where it is that of a chunk without the white space around it, it is the chunk. Anything
else is unplaced.
"""

import difflib
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import PurePosixPath

from freshstack_dspy.measures.spans import Hit, Place
from freshstack_dspy.records import Chunk


class FileText:
    """The text of one file, put together from its chunks, and where its characters are in it."""

    def __init__(self, chunks: Iterable[Chunk]) -> None:
        self._chunks = sorted(chunks, key=lambda chunk: chunk.start_byte)
        self.text = "".join(chunk.text for chunk in self._chunks)
        self.size = self._chunks[-1].end_byte
        """In bytes."""
        starts = [0]
        for chunk in self._chunks:
            starts.append(starts[-1] + len(chunk.text))
        self._starts = starts
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

    @cached_property
    def _without_space(self) -> tuple[str, list[int]]:
        places = [place for place, one in enumerate(self.text) if not one.isspace()]
        return "".join(self.text.split()), places

    def find(self, text: str, start: int | None = None) -> tuple[int, int] | None:
        """Where a text is, in characters: at `start`, or the only place, also by other white space."""
        if not text.strip():
            return None
        if start is not None and self.text.startswith(text, start):
            return start, start + len(text)
        if (found := self._only(self.text, text)) is not None:
            return found, found + len(text)
        bare, places = self._without_space
        wanted = "".join(text.split())
        if (found := self._only(bare, wanted)) is None:
            return None
        return places[found], places[found + len(wanted) - 1] + 1

    def holds(self, text: str) -> bool:
        """Whether a text is there, once or several times, also by other white space."""
        return text in self.text or "".join(text.split()) in self._without_space[0]

    @staticmethod
    def _only(text: str, wanted: str) -> int | None:
        first = text.find(wanted)
        return None if first < 0 or text.find(wanted, first + 1) >= 0 else first


class Files:
    """The files of a corpus, by source and path."""

    def __init__(self, chunks: Iterable[Chunk]) -> None:
        self._chunks: defaultdict[tuple[str, str], list[Chunk]] = defaultdict(list)
        for chunk in chunks:
            self._chunks[chunk.source, chunk.path].append(chunk)
        self._texts: dict[tuple[str, str], FileText] = {}
        self._named: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
        for source, path in self._chunks:
            self._named[PurePosixPath(path).name].append((source, path))
        self._places = {
            chunk.chunk_id: Place(chunk.source, chunk.path, chunk.start_byte, chunk.end_byte)
            for of in self._chunks.values()
            for chunk in of
        }

    @cached_property
    def sources(self) -> list[str]:
        """The names of the corpora."""
        return sorted({source for source, _ in self._chunks})

    def place_of(self, chunk_id: str) -> Place:
        """Where a chunk is."""
        return self._places[chunk_id]

    def text(self, source: str, path: str) -> FileText:
        """The text of a file."""
        key = source, path
        if key not in self._texts:
            self._texts[key] = FileText(self._chunks[key])
        return self._texts[key]

    def named(self, path: str, source: str | None = None) -> Sequence[tuple[str, str]]:
        """The files that a path may mean: those whose path and its own end alike the farthest."""
        wanted = PurePosixPath(path.replace("\\", "/")).parts
        best: list[tuple[str, str]] = []
        longest = 0
        for key in self._named.get(wanted[-1] if wanted else "", ()):
            if source is not None and key[0] != source:
                continue
            own = (*PurePosixPath(key[0]).parts, *PurePosixPath(key[1]).parts)
            same = 0
            while same < min(len(own), len(wanted)) and own[-1 - same] == wanted[-1 - same]:
                same += 1
            if same > longest:
                best, longest = [], same
            if same == longest:
                best.append(key)
        return best

    def whole(self, path: str, source: str | None = None) -> Sequence[tuple[str, str]]:
        """The files that a path names: it ends as a file's whole path does, or the other way."""
        wanted = PurePosixPath(path.replace("\\", "/")).parts
        return [
            key
            for key in self.named(path, source)
            for own in [PurePosixPath(key[1]).parts]
            if wanted[-len(own) :] == own or own[-len(wanted) :] == wanted
        ]

    def exact(self, path: str, named: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        """Those of several files whose whole path it is, as README.md is of the one at the root."""
        wanted = PurePosixPath(path.replace("\\", "/"))
        of_corpus = [key for key in named if PurePosixPath(key[1]) == wanted]
        return of_corpus or [key for key in named if PurePosixPath(*key) == wanted]

    def place(self, hit: Hit) -> Place | None:
        """The place of a result; None where it is not known."""
        if hit.chunk_id is not None and hit.chunk_id in self._places:
            return self._places[hit.chunk_id]
        if hit.path is not None:
            named = self.named(hit.path, hit.source)
            exact = self.exact(hit.path, named)
            # A text that is in the file of this path is in no other of its base name, and where
            # the source is named too, there is no other file.
            if exact and (
                hit.source is not None
                or any(self.text(*key).holds(hit.text or "") for key in exact)
            ):
                named = exact
        elif hit.text is not None:
            named, exact = self._may_hold(hit.text), []
        else:
            return None
        if hit.text is None:
            named = exact or named
        files = [(key, self.text(*key)) for key in named]
        # Among many files of one name most differ by the text alone, which is quick.
        if hit.text is not None and len(files) > 1:
            files = [one for one in files if hit.text in one[1].text] or files
        found = [
            Place(*key, *span) for key, file in files if (span := _span(file, hit)) is not None
        ]
        if len(found) > 1:
            found = [place for place in found if (place.source, place.path) in exact]
        if len(found) != 1:
            return None
        return found[0] if hit.path is not None else self._whole_chunk(found[0], hit.text or "")

    @cached_property
    def _by_word(self) -> Mapping[str, Sequence[tuple[str, str]]]:
        found: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
        for key, chunks in self._chunks.items():
            for word in set(FileText(chunks).text.split()):
                found[word].append(key)
        return found

    def _may_hold(self, text: str) -> Sequence[tuple[str, str]]:
        """The files with the rarest word of a text; its first and last may be cut."""
        whole = text.split()[1:-1]
        if not whole:
            return list(self._chunks)
        return min((self._by_word.get(word, ()) for word in whole), key=len)

    def _whole_chunk(self, place: Place, text: str) -> Place:
        """The place of a chunk where it has this text, but for white space; or else the same."""
        bare = text.split()
        for chunk in self._chunks[place.source, place.path]:
            if chunk.start_byte <= place.start < chunk.end_byte and chunk.text.split() == bare:
                return self._places[chunk.chunk_id]
        return place

    def chunks_at(self, place: Place) -> list[str]:
        """The ids of the chunks that share a byte with a place."""
        return [
            chunk.chunk_id
            for chunk in self._chunks.get((place.source, place.path), ())
            if chunk.start_byte < place.end and place.start < chunk.end_byte
        ]

    def nearest(self, path: str) -> str | None:
        """The path of a file most like one that is not there."""
        paths: Mapping[str, None] = dict.fromkeys(path for _, path in self._chunks)
        return next(iter(difflib.get_close_matches(path, paths, n=1)), None)


def _span(file: FileText, hit: Hit) -> tuple[int, int] | None:
    """Where a result is in a file, in bytes."""
    start, end = hit.start, hit.end
    if hit.text is not None:
        at = file.character_at(start) if start is not None and hit.unit == "bytes" else start
        found = file.find(hit.text, at)
    elif start is None or end is None or not 0 <= start < end:
        return None
    elif hit.unit == "bytes":
        return (start, end) if end <= file.size else None
    else:
        found = (start, end) if end <= len(file.text) else None
    return None if found is None else (file.byte_at(found[0]), file.byte_at(found[1]))
