"""Following people's labels to the current contents of a collection, by their texts.

A label is about a question, a nugget and a passage, and carries their texts. Ids change when
documents are edited (`refresh`) or cut anew (`rechunk`); the label then goes to the pair with the
same texts. If the passage is cut differently, the label's marked words decide, like the judge's
evidence in `rechunk`; if it was edited around them, like the judge's in `refresh`. A text that a
label lacks is looked up by its id.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

from freshstack_dspy.calibration.labels import AnyLabel, check_labels
from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.corpus.parquet import ChunkFile
from freshstack_dspy.corpus.shown_chunks import chunk_with_words, evidence, whole
from freshstack_dspy.measures.passage_labels import chunks_under, label_under
from freshstack_dspy.measures.qrels import ChunkLabels
from freshstack_dspy.measures.spans import Hit, Place, merged
from freshstack_dspy.pages.page import counted
from freshstack_dspy.records import Chunk, HumanLabel, Query, Spans
from freshstack_dspy.stored.contents import Contents
from freshstack_dspy.stored.passages import Files
from freshstack_dspy.stored.record_files import records_of
from freshstack_dspy.text import find_quotation

_QUESTION = "whose question is not there, or was edited"
_NUGGET = "whose nugget is not there, or was reworded"
_UNKNOWN = "of a chunk id that is not there, and without the chunk's text"
_TEXT = "whose passage is not in the documents any more, or was edited"
_CUT = "whose passage no judged chunk holds now, or not all of what was marked in it"
_AGAIN = "of a pair that the same person labelled twice"


class Followed(NamedTuple):
    """Labels under the ids of a collection."""

    labels: tuple[HumanLabel, ...]
    lost: dict[str, tuple[HumanLabel, ...]]
    """The original labels that are of no pair of the collection, by reason."""


def in_full(labels: Sequence[AnyLabel], collection: Collection) -> tuple[AnyLabel, ...]:
    """Add to labels of pairs the texts of their pairs; other labels stay as they are."""
    queries = {query.query_id: query for query in collection.queries}
    nuggets = {nugget.nugget_id: nugget.text for nugget in collection.nuggets}
    chunks = collection.corpus.chunks(
        {label.chunk_id for label in labels if isinstance(label, HumanLabel)}
    )
    return tuple(
        with_texts(label, queries[label.query_id], nuggets[label.nugget_id], chunks[label.chunk_id])
        if isinstance(label, HumanLabel)
        else label
        for label in labels
    )


def with_known(labels: Sequence[HumanLabel], collection: Collection) -> tuple[HumanLabel, ...]:
    """Add texts to labels that have only ids, from a collection that has these ids."""
    queries = {query.query_id for query in collection.queries}
    nuggets = {nugget.nugget_id for nugget in collection.nuggets}
    ids = collection.corpus.ids
    bare = [
        label
        for label in labels
        if label.chunk is None
        and label.query_id in queries
        and label.nugget_id in nuggets
        and label.chunk_id in ids
    ]
    texts: dict[HumanLabel, Any] = dict(zip(bare, in_full(bare, collection), strict=True))
    return tuple(texts.get(label, label) for label in labels)


def with_texts(label: HumanLabel, query: Query, nugget: str, chunk: Chunk) -> HumanLabel:
    """Add to a label the texts by which it can be followed."""
    return label.model_copy(
        update={
            "question": query.text,
            "nugget": nugget,
            "chunk": chunk.passage,
            "path": f"{chunk.source}/{chunk.path}",
            "marked": tuple(chunk.text_at(*span) for span in label.evidence),
        }
    )


def follow(labels: Sequence[HumanLabel], contents: Contents, corpus: ChunkFile) -> Followed:
    """Give labels the ids that their pairs have in a collection.

    A label whose chunk still exists stays as it is. If the passage has another id, the evidence is
    placed by its words. If the passage is cut differently, its label goes to the judged chunks that
    hold everything marked in it, or the whole passage if nothing is marked; label 0 goes to the
    chunks that are entirely in passages with that label. A label of support whose passage was edited
    goes to the chunk that has the marked words; see `chunk_with_words`.

    Args:
        labels: Labels of pairs.
        contents: The records of the collection.
        corpus: The chunks of the collection.
    """
    return _Following(labels, contents, corpus).followed()


def follow_all(
    placed: Iterable[tuple[str, AnyLabel]], collection: Collection
) -> tuple[list[AnyLabel], dict[str, tuple[HumanLabel, ...]]]:
    """Follow labels of all kinds, each with its place; also give the lost ones, by reason.

    Raises:
        CollectionError: A label without texts is not of the collection; see `check_labels`.
    """
    with_text: list[HumanLabel] = []
    others: list[tuple[str, AnyLabel]] = []
    for place, label in placed:
        if isinstance(label, HumanLabel) and label.chunk is not None:
            with_text.append(label)
        else:
            others.append((place, label))
    now, lost = follow(with_text, collection, collection.corpus)
    check_labels(
        [*others, *((f"label of {label.annotator!r}", label) for label in now)], collection
    )
    return [*(label for _, label in others), *now], lost


def lost_lines(lost: Mapping[str, Sequence[object]]) -> list[str]:
    """Give a line for each reason on the number of labels without a pair in a collection."""
    return [f"{counted(len(group), 'label')} left out, {why}" for why, group in lost.items()]


class _Following:
    def __init__(self, labels: Sequence[HumanLabel], contents: Contents, corpus: ChunkFile) -> None:
        self._labels, self._corpus, self._threshold = labels, corpus, contents.threshold
        self._written = {chunk.chunk_id: chunk for chunk in contents.passages}
        self._questions = {query.query_id: _bare(query.text) for query in contents.queries}
        self._query_ids = {text: id_ for id_, text in reversed(self._questions.items())}
        self._nuggets: defaultdict[str, dict[str, str]] = defaultdict(dict)
        for nugget in contents.nuggets:
            self._nuggets[nugget.query_id][nugget.nugget_id] = _bare(nugget.text)
        self._pairs = [self._pair(label) for label in labels]
        wanted = {pair for pair in self._pairs if not isinstance(pair, str)}
        self._judged: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        for query_id in {query_id for query_id, _ in wanted}:
            for judgment in records_of(contents.judgments, query_id):
                if (pair := (query_id, judgment.nugget_id)) in wanted:
                    self._judged[pair].append(judgment.chunk_id)
        self._taken: set[tuple[str, ...]] = set()
        self._found: list[HumanLabel] = []
        self._lost: defaultdict[str, list[HumanLabel]] = defaultdict(list)

    @cached_property
    def _chunks(self) -> dict[str, Chunk]:
        """The judged chunks of the labelled pairs, and those that labels name."""
        ids = {chunk_id for chunk_ids in self._judged.values() for chunk_id in chunk_ids}
        ids |= {label.chunk_id for label in self._labels}
        return self._written | self._corpus.chunks(sorted(ids.intersection(self._corpus.ids)))

    @cached_property
    def _by_text(self) -> dict[str, list[str]]:
        chunk_ids: defaultdict[str, list[str]] = defaultdict(list)
        for chunk in self._chunks.values():
            chunk_ids[_bare(chunk.passage)].append(chunk.chunk_id)
        return chunk_ids

    @cached_property
    def _files(self) -> Files:
        return Files(chain(self._corpus, self._written.values()))

    def followed(self) -> Followed:
        """Follow all labels; those whose chunk did not change come first."""
        ids = {*self._corpus.ids, *self._written}
        elsewhere: list[tuple[HumanLabel, tuple[str, str]]] = []
        for label, pair in zip(self._labels, self._pairs, strict=True):
            if isinstance(pair, str):
                self._lost[pair].append(label)
            elif label.chunk is None and label.chunk_id not in ids:
                self._lost[_UNKNOWN].append(label)
            elif label.chunk is None or self._says(label.chunk_id, label.chunk):
                self._put(label, label, pair, label.chunk_id)
            else:
                elsewhere.append((label, pair))
        cut: defaultdict[tuple[str, ...], list[tuple[HumanLabel, Place]]] = defaultdict(list)
        for label, pair in elsewhere:
            judged = set(self._judged[pair])
            same = [id_ for id_ in self._by_text.get(_bare(label.chunk or ""), ()) if id_ in judged]
            free = [id_ for id_ in same if self._identity(label, pair, id_) not in self._taken]
            if same:
                chunk: Chunk | None = self._chunks[(free or same)[0]]
            elif (place := self._place(label)) is not None:
                cut[*pair, label.kind, label.annotator].append((label, place))
                continue
            else:
                chunk = self._edited(label)
            if chunk is None or chunk.chunk_id not in judged:
                self._lost[_TEXT].append(label)
            else:
                moved = label.model_copy(update={"evidence": evidence(label.marked, whole(chunk))})
                self._put(moved, label, pair, chunk.chunk_id)
        for (query_id, nugget_id, *_), placed in cut.items():
            self._project((query_id, nugget_id), placed)
        return Followed(
            tuple(self._found), {why: tuple(group) for why, group in self._lost.items()}
        )

    def _pair(self, label: HumanLabel) -> tuple[str, str] | str:
        """Give the query and nugget of a label, or the reason why there is none."""
        query_id = _named(label.query_id, label.question, self._questions, self._query_ids)
        if query_id is None:
            return _QUESTION
        nuggets = self._nuggets[query_id]
        by_text = {text: id_ for id_, text in reversed(nuggets.items())}
        nugget_id = _named(label.nugget_id, label.nugget, nuggets, by_text)
        return _NUGGET if nugget_id is None else (query_id, nugget_id)

    def _says(self, chunk_id: str, text: str) -> bool:
        chunk = self._chunks.get(chunk_id)
        return chunk is not None and _bare(text) in (_bare(chunk.passage), _bare(chunk.text))

    @staticmethod
    def _identity(label: HumanLabel, pair: tuple[str, str], chunk_id: str) -> tuple[str, ...]:
        return label.kind, label.annotator, *pair, chunk_id

    def _put(
        self, label: HumanLabel, original: HumanLabel, pair: tuple[str, str], chunk_id: str
    ) -> None:
        """Add a label with its current ids, unless its annotator labelled that pair already."""
        if (identity := self._identity(label, pair, chunk_id)) in self._taken:
            self._lost[_AGAIN].append(original)
            return
        self._taken.add(identity)
        now = {"query_id": pair[0], "nugget_id": pair[1], "chunk_id": chunk_id}
        if (label.query_id, label.nugget_id, label.chunk_id) != tuple(now.values()):
            texts = ("question", "nugget", "chunk", "path")  # the collection has the current ones
            label = label.model_copy(update={**now, **dict.fromkeys(texts), "marked": ()})
        self._found.append(label)

    def _place(self, label: HumanLabel) -> Place | None:
        """Find the passage of a label: in its file, or else where its text is unique."""
        hits = [Hit(0, path=label.path, text=label.chunk)] if label.path else []
        hits.append(Hit(0, text=label.chunk))
        return next(filter(None, map(self._files.find, hits)), None)

    def _edited(self, label: HumanLabel) -> Chunk | None:
        """Find the chunk that has the marked words of a label whose passage was edited."""
        text, files = label.chunk or "", self._files.files_named(label.path or "")
        places = [place for words in label.marked if (place := find_quotation(words, text))]
        if not places or len(files) != 1 or label.label < self._threshold:
            return None
        return chunk_with_words(text, places, [text], self._files.chunks(*files[0]))

    def _project(self, pair: tuple[str, str], placed: Sequence[tuple[HumanLabel, Place]]) -> None:
        """Give the labels of one person for a pair to the judged chunks that share their bytes."""
        labels = {str(number): label for number, (label, _) in enumerate(placed)}
        by_file: defaultdict[tuple[str, str], list[ChunkLabels]] = defaultdict(list)
        for number, (label, place) in enumerate(placed):
            span, spans = (place.start, place.end), self._marked(label, place)
            by_file[place.source, place.path].append(
                ChunkLabels(
                    str(number),
                    span,
                    labels={pair[1]: label.label},
                    evidence={pair[1]: merged(spans) or [span]},
                    without_evidence=frozenset() if spans else frozenset({pair[1]}),
                )
            )
        went: set[str] = set()
        for chunk in (self._chunks[id_] for id_ in self._judged[pair]):
            span = chunk.start_byte, chunk.end_byte
            near = chunks_under(span, by_file.get((chunk.source, chunk.path), ()))
            result = label_under(near, pair[1], span)
            if result is None or result.label is None:
                continue
            unmarked = [part for part in near if pair[1] in part.without_evidence]
            if not result.label and any(labels[part.chunk_id].label for part in unmarked):
                continue  # which part of the passage shows it is not known
            sources = result.held or [part.chunk_id for part in near if not part.labels[pair[1]]]
            went.update(sources)
            source = labels[result.chunk_id]
            held = [
                part.evidence[pair[1]]
                for part in near
                if part.chunk_id == result.chunk_id and result.label
            ]
            update = {"label": result.label, "evidence": tuple(held[0]) if held else ()}
            if self._identity(source, pair, chunk.chunk_id) not in self._taken:
                self._put(source.model_copy(update=update), source, pair, chunk.chunk_id)
        if lost := [label for number, label in labels.items() if number not in went]:
            self._lost[_CUT] += lost

    def _marked(self, label: HumanLabel, place: Place) -> Spans:
        """Find the marked words of a label in the passage at this place."""
        file = self._files.text(place.source, place.path)
        start, end = file.character_at(place.start), file.character_at(place.end)
        places = (find_quotation(words, file.text[start:end]) for words in label.marked)
        return tuple(
            (file.byte_at(start + quotation[0]), file.byte_at(start + quotation[1]))
            for quotation in places
            if quotation
        )


def _named(id_: str, text: str | None, texts: dict[str, str], ids: dict[str, str]) -> str | None:
    """Give the id with the same text, preferring the same id; without a text the id decides."""
    if text is None:
        return id_ if id_ in texts else None
    return id_ if texts.get(id_) == _bare(text) else ids.get(_bare(text))


def _bare(text: str) -> str:
    return " ".join(text.split())
