"""What need not be asked for: what a collection holds already, and nuggets that people edited.

A judgment is identified by what the judge was shown: the question with its tags and date, the
nugget, and the chunk with its path and headings; ids may differ. A label of support also follows
its evidence into a chunk that was edited around it: it rests on the quoted words alone. Before,
`make.check_reusable` checks that the judge is the same. Nuggets and expansions are those of a
question that is shown alike and has the same answer.
"""

from collections import Counter
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path, PurePosixPath

from freshstack_dspy.calibration.labels import all_labels
from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.collection.contamination import Knowledge
from freshstack_dspy.collection.diff import match_chunks
from freshstack_dspy.corpus.shown_chunks import chunk_with_words, whole
from freshstack_dspy.errors import ConfigError
from freshstack_dspy.files import decode_records
from freshstack_dspy.programs.nuggetizer import with_near_duplicates
from freshstack_dspy.programs.support_judge import moved
from freshstack_dspy.records import (
    Candidate,
    Chunk,
    Expansion,
    ExpansionKind,
    Failure,
    Judgment,
    Nugget,
    NuggetLabel,
    NuggetList,
    Query,
    Relevance,
    StepName,
)
from freshstack_dspy.signatures.question import ShownQuestion
from freshstack_dspy.stored.contents import nuggets_by_query
from freshstack_dspy.stored.record_files import rows


def _question(query: Query) -> Hashable:
    """A question as models are shown it."""
    shown = ShownQuestion.of(query)
    return shown.title, shown.body, shown.asked, shown.tags


def _chunk(chunk: Chunk) -> Hashable:
    """A chunk as judges are shown it."""
    return whole(chunk).path, chunk.headings, chunk.passage


def _versions(
    edited: Sequence[Chunk],
    before: Callable[[], Iterable[Chunk]],
    now: Callable[[], Iterable[Chunk]],
) -> dict[str, tuple[list[str], list[Chunk]]]:
    """By the id of each edited chunk, the texts that its file had, and the chunks that it has.

    For a file that is gone, these are the chunks of new files of its name.
    """
    if not edited:
        return {}
    both = set.intersection(
        *({(each.source, each.path) for each in side()} for side in (before, now))
    )

    def file_of(chunk: Chunk) -> tuple[str, str, bool]:
        kept = (chunk.source, chunk.path) in both
        return chunk.source, chunk.path if kept else PurePosixPath(chunk.path).name, kept

    versions: dict[Hashable, tuple[list[str], list[Chunk]]] = {
        file_of(old): ([], []) for old in edited
    }
    for chunk in before():
        if file := versions.get(file_of(chunk)):
            file[0].append(chunk.text)
    for chunk in now():
        if file := versions.get(file_of(chunk)):
            file[1].append(chunk)
    return {old.chunk_id: versions[file_of(old)] for old in edited}


class Known:
    """What is known: the records of a collection, or nothing."""

    def __init__(self, collection: Collection | None = None, *, follow: bool = True) -> None:
        """Read the judgments of a collection that have a label; those that followed if `follow`."""
        self._collection, self._follow = collection, follow
        self.followed: dict[tuple[str, str], str] = {}
        """By nugget and chunk id of a label of support, the edited chunk that has its evidence;
        known once there are candidates."""
        self._arrived: dict[tuple[Hashable, str, str], list[tuple[Judgment, Chunk]]] = {}
        self._judgments: dict[
            tuple[Hashable, str, Hashable], dict[str, tuple[Judgment, Chunk]]
        ] = {}
        self._grades: dict[Hashable, Relevance] = {}
        if collection is None:
            return
        self._queries = {query.query_id: query for query in collection.queries}
        self._questions = {id_: _question(query) for id_, query in self._queries.items()}
        self._nuggets = nuggets_by_query(collection.nuggets, doubtful=True)
        self._expansions = {(one.query_id, one.kind): one for one in collection.expansions}
        self._failures: dict[tuple[str, StepName], tuple[Failure, ...]] = {}
        for failure in collection.failures:
            key_of = failure.query_id, failure.step
            self._failures[key_of] = (*self._failures.get(key_of, ()), failure)
        self._scored = {one.query_id: one for one in collection.contamination}
        texts = {nugget.nugget_id: nugget.text for nugget in collection.nuggets}
        judged = {chunk_id for (chunk_id,) in rows(collection.judgments, "chunk_id")}
        judged |= {one.chunk_id for one in collection.pool if one.relevance is not None}
        chunks = collection.corpus.chunks(judged)
        for pooled in collection.pool:
            if pooled.relevance is not None:
                asked = self._questions[pooled.query_id]
                self._grades[asked, _chunk(chunks[pooled.chunk_id])] = pooled.relevance
        for one in collection.judgments:
            if one.label is not None and (follow or one.followed_from is None):
                chunk = chunks[one.chunk_id]
                key = (self._questions[one.query_id], texts[one.nugget_id], _chunk(chunk))
                self._judgments.setdefault(key, {})[one.chunk_id] = one, chunk

    def relevance(self, query: Query, chunk: Chunk) -> Relevance | None:
        """The grade of the same passage for the same question, or None."""
        return self._grades.get((_question(query), _chunk(chunk)))

    def judgment(self, query: Query, nugget: Nugget, chunk: Chunk) -> Judgment | None:
        """The judgment of a pair, under the ids of now; that of the same chunk id goes first.

        `same_as` names the chunk that was judged, where that was another.
        """
        if not self._judgments:
            return None
        by_chunk = self._judgments.get((_question(query), nugget.text, _chunk(chunk)))
        if not by_chunk:
            return None
        judgment, old = by_chunk.get(chunk.chunk_id) or next(iter(by_chunk.values()))
        judged = judgment.same_as or judgment.chunk_id
        same_as = None if judged == chunk.chunk_id else judged
        ids = {"query_id": query.query_id, "nugget_id": nugget.nugget_id, "same_as": same_as}
        return moved(judgment, old, chunk).model_copy(update=ids)

    def arrived(self, query: Query, nugget: Nugget, chunk: Chunk) -> Judgment | None:
        """The label of support that followed its evidence into an edited chunk; of several the highest.

        `followed_from` names the chunk that was judged.
        """
        if not self._arrived:
            return None
        pairs = self._arrived.get((_question(query), nugget.text, chunk.chunk_id))
        if not pairs:
            return None
        label, old = min(pairs, key=lambda pair: (-(pair[0].label or 0), pair[0].chunk_id))
        ids = {"query_id": query.query_id, "nugget_id": nugget.nugget_id, "same_as": None}
        ids |= {"followed_from": label.followed_from or label.same_as or label.chunk_id}
        return moved(label, old, chunk).model_copy(update=ids)

    def nuggets(self, query: Query) -> tuple[Nugget, ...]:
        """The nuggets of an unchanged question, or none."""
        return tuple(self._nuggets.get(query.query_id, ())) if self._is_unchanged(query) else ()

    def failures(self, query: Query, step: StepName) -> tuple[Failure, ...]:
        """What failed in a step for an unchanged question, next to what is reused of it."""
        return self._failures.get((query.query_id, step), ()) if self._is_unchanged(query) else ()

    def expansion(self, query: Query, kind: ExpansionKind) -> Expansion | None:
        """The expansion of an unchanged question, or None."""
        return self._expansions.get((query.query_id, kind)) if self._is_unchanged(query) else None

    def knowledge(self, query: Query, threshold: int) -> Knowledge | None:
        """What the closed-book answer to an unchanged question holds, or None.

        Not for another threshold: the collection says what the answer holds, and not how well.
        """
        if self._collection is None or threshold != self._collection.threshold:
            return None
        scored = self._scored.get(query.query_id)
        unchanged = self.nuggets(query) and self.expansion(query, "closed_book_answer")
        if scored is None or scored.known_nuggets is None or not unchanged:
            return None
        return Knowledge(scored.known_nuggets, scored.call_id)

    def candidates(
        self,
        queries: Sequence[Query],
        pooled: Sequence[Candidate],
        chunks: Callable[[], Iterable[Chunk]],
    ) -> list[Candidate]:
        """Those pooled now, and the chunks judged before for the same question that still exist.

        In place of one that was edited, they are the chunks that have the evidence of its labels.
        `chunks` gives all chunks of the corpus, where something is known.
        """
        found = {(one.query_id, one.chunk_id): one for one in pooled}
        if self._collection is None:
            return list(found.values())
        now_asked = {query.query_id: _question(query) for query in queries}
        same = {id_ for id_, old in self._questions.items() if now_asked.get(id_) == old}
        pooled_before = {chunk_id for (chunk_id,) in rows(self._collection.pool, "chunk_id")}
        ids = match_chunks(self._collection.chunks, chunks, pooled_before)
        for old in self._collection.pool:
            if old.query_id not in same or (chunk_id := ids.get(old.chunk_id)) is None:
                continue
            origin = "reused" if old.origin == "pooled" else old.origin
            again = Candidate(
                query_id=old.query_id, chunk_id=chunk_id, origin=origin, runs=old.runs
            )
            now = found.get((old.query_id, chunk_id), again)
            found[old.query_id, chunk_id] = now.model_copy(update={"runs": old.runs})
        if self._follow:
            for query_id, chunk_id in self._find_evidence(ids, chunks):
                if query_id in same:
                    again = Candidate(query_id=query_id, chunk_id=chunk_id, origin="reused")
                    found.setdefault((query_id, chunk_id), again)
        return list(found.values())

    def _find_evidence(
        self, unchanged: Mapping[str, str], chunks: Callable[[], Iterable[Chunk]]
    ) -> Iterator[tuple[str, str]]:
        """Find the edited chunks that have the evidence of labels of support; give their query ids too.

        `unchanged` gives the ids of chunks whose text is as it was; their headings may be others.
        """
        assert self._collection is not None
        edited: list[tuple[tuple[Hashable, str], Judgment, Chunk]] = []
        for (question, nugget, _), judged in self._judgments.items():
            for label, old in judged.values():
                if not label.evidence or not self._collection.supports(label):
                    continue
                if old.chunk_id in unchanged:
                    self._arrive((question, nugget), label, old, unchanged[old.chunk_id])
                else:
                    edited.append(((question, nugget), label, old))
        versions = _versions([old for _, _, old in edited], self._collection.chunks, chunks)
        for asked, label, old in edited:
            places = [(old.place_at(start), old.place_at(end)) for start, end in label.evidence]
            chunk = chunk_with_words(old.text, places, *versions[old.chunk_id])
            if chunk is not None:
                self._arrive(asked, label, old, chunk.chunk_id)
                yield label.query_id, chunk.chunk_id

    def _arrive(
        self, asked: tuple[Hashable, str], judgment: Judgment, old: Chunk, chunk_id: str
    ) -> None:
        self._arrived.setdefault((*asked, chunk_id), []).append((judgment, old))
        self.followed[judgment.nugget_id, judgment.chunk_id] = chunk_id

    def _is_unchanged(self, query: Query) -> bool:
        old = self._queries.get(query.query_id) if self._collection else None
        if old is None:
            return False
        return _question(old) == _question(query) and old.answer == query.answer


NOTHING = Known()


# Nuggets that people edited


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
            f"{path}: nugget_id {twice[0]!r} occurs twice; change one, or leave it out"
        )
    taken.update(ids)

    def with_id(line: EditedNugget) -> Nugget:
        free = (f"{line.query_id}_{number}" for number in count())
        nugget_id = line.nugget_id or next(id_ for id_ in free if id_ not in taken)
        taken.add(nugget_id)
        known = tuple(chunk_id for chunk_id in line.chunk_ids if chunk_id in chunk_ids)
        values = {**dict(line), "nugget_id": nugget_id, "call_id": None, "chunk_ids": known}
        return Nugget(**values)

    built = [query.query_id for query in queries if query.query_id in lists]
    return {id_: with_near_duplicates([with_id(line) for line in lists[id_]]) for id_ in built}


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
