"""What a run need not ask, for a collection that stands has it already."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import NamedTuple

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.collection.contamination import Knowledge
from freshstack_dspy.collection.contents import nuggets_by_query
from freshstack_dspy.collection.diff import Matches, match_chunks, match_nuggets
from freshstack_dspy.collection.self_agreement import calls_of
from freshstack_dspy.records import (
    Candidate,
    Chunk,
    Expansion,
    ExpansionKind,
    Judgment,
    Nugget,
    Query,
)


class Carried(NamedTuple):
    """What is to be judged, and which of its judgments stand."""

    candidates: list[Candidate]
    judgments: list[Judgment]
    singles: list[Judgment]
    """Of chunks that were also judged alone, those that stand."""
    alone: frozenset[tuple[str, str]] = frozenset()
    """Query and chunk id where a call judged that chunk and no other, with all nuggets."""


class Standing:
    """Nothing stands: all is asked. Those that know something override this."""

    again = "build again"
    """What to do once what stopped a run is out of the way."""
    is_empty = True

    def nuggets_of(self, _query: Query) -> tuple[Nugget, ...]:
        """The nuggets of a query, or none where they are to be asked for."""
        return ()

    def expansion_of(self, _query: Query, _kind: ExpansionKind) -> Expansion | None:
        """The expansion of a query, or None where it is to be asked for."""
        return None

    def knowledge_of(self, _query: Query) -> Knowledge | None:
        """What the closed-book answer to a query holds, or None where it is to be judged."""
        return None

    def carried(
        self,
        _queries: Sequence[Query],
        _nuggets: Sequence[Nugget],
        pooled: Sequence[Candidate],
        _chunks: Iterable[Chunk],
    ) -> Carried:
        """What is to be judged beside what was pooled, and the judgments that stand.

        Args:
            _queries: All of them.
            _nuggets: Of all queries.
            pooled: Of all queries.
            _chunks: The corpus.
        """
        return Carried(list(pooled), [], [])


class Kept(Standing):
    """What of a collection is as it was: its content decides, and not its ids.

    Nuggets, expansions and what the model knows stand where title, body and answer of the query
    are the same; a judgment stands where it has a label, and the text of the query, the text of
    the nugget and the content of the chunk are the same.
    """

    again = "refresh again"
    is_empty = False

    def __init__(self, collection: Collection, threshold: int) -> None:
        """Take a collection.

        Args:
            collection: That stands.
            threshold: The lowest label that counts as support from now on.
        """
        self._collection = collection
        self._knows = threshold == collection.manifest.scale.threshold
        self._queries = {query.query_id: query for query in collection.queries}
        self._nuggets = nuggets_by_query(collection.nuggets)
        self._expansions = {(one.query_id, one.kind): one for one in collection.expansions}
        self._known = {one.query_id: one for one in collection.contamination}

    def nuggets_of(self, query: Query) -> tuple[Nugget, ...]:
        """The nuggets of a query that is as it was."""
        return tuple(self._nuggets.get(query.query_id, ())) if self._is_as_it_was(query) else ()

    def expansion_of(self, query: Query, kind: ExpansionKind) -> Expansion | None:
        """The expansion of a query that is as it was."""
        return self._expansions.get((query.query_id, kind)) if self._is_as_it_was(query) else None

    def knowledge_of(self, query: Query) -> Knowledge | None:
        """What the closed-book answer holds, where the answer and the nuggets stand.

        Not for another threshold: the collection says what the answer holds, and not how well.
        """
        known = self._known.get(query.query_id)
        if not self._knows or known is None or known.known_nuggets is None:
            return None
        if not self.nuggets_of(query) or not self.expansion_of(query, "closed_book_answer"):
            return None
        return Knowledge(known.known_nuggets, known.call_id)

    def carried(
        self,
        _queries: Sequence[Query],
        _nuggets: Sequence[Nugget],
        pooled: Sequence[Candidate],
        _chunks: Iterable[Chunk],
    ) -> Carried:
        """Add the chunks that were judged and are pooled no more, and give what stands.

        A judgment that failed does not stand, but its chunk stays: it is asked about again.
        """
        standing = self._collection
        nugget_ids = match_nuggets(standing.queries, standing.nuggets, _queries, _nuggets)
        chunk_ids = match_chunks(standing.chunks(), _chunks)
        matches = Matches(nugget_ids, chunk_ids)
        to_keep = {
            (one.query_id, one.chunk_id): pair[1]
            for one in standing.judgments
            if (pair := matches.pair(one.nugget_id, one.chunk_id)) is not None
        }
        judgments = _moved(standing.judgments, matches)
        singles = _moved(standing.single_judgments, matches)
        return Carried(
            self._candidates(pooled, to_keep),
            judgments,
            singles,
            _alone(judgments, _nuggets, _of_one_chunk(standing.judgments))
            - _told_apart(judgments, singles),
        )

    def _candidates(
        self, pooled: Sequence[Candidate], to_keep: Mapping[tuple[str, str], str]
    ) -> list[Candidate]:
        """Those pooled now, with their runs, and those judged before.

        Args:
            pooled: Now.
            to_keep: For query and chunk id as they were, the chunk's id now.
        """
        before = {(one.query_id, one.chunk_id): one for one in self._collection.pool}
        found = {(one.query_id, one.chunk_id): one for one in pooled}
        for (query_id, old_id), chunk_id in to_keep.items():
            old = before.get((query_id, old_id))
            runs = old.runs if old else ()
            if (now := found.get((query_id, chunk_id))) is not None:
                found[query_id, chunk_id] = now.model_copy(update={"runs": runs})
                continue
            origin = "carried" if old is None or old.origin == "pooled" else old.origin
            found[query_id, chunk_id] = Candidate(
                query_id=query_id, chunk_id=chunk_id, origin=origin, runs=runs
            )
        return list(found.values())

    def _is_as_it_was(self, query: Query) -> bool:
        old = self._queries.get(query.query_id)
        return old is not None and (old.title, old.body, old.answer) == (
            query.title,
            query.body,
            query.answer,
        )


def _moved(judgments: Iterable[Judgment], matches: Matches) -> list[Judgment]:
    """Those that have a label and stand, under the ids of now."""
    found = []
    for judgment in judgments:
        pair = matches.pair(judgment.nugget_id, judgment.chunk_id)
        if pair is not None and judgment.label is not None:
            moved = {"nugget_id": pair[0], "chunk_id": pair[1]}
            found.append(judgment.model_copy(update=moved))
    return found


def _of_one_chunk(judgments: Iterable[Judgment]) -> set[str]:
    """The ids of the calls that judged one chunk alone."""
    shown: dict[str, set[str]] = {}
    for judgment in judgments:
        for call_id in calls_of(judgment):
            shown.setdefault(call_id, set()).add(judgment.chunk_id)
    return {call_id for call_id, chunks in shown.items() if len(chunks) == 1}


def _alone(
    judgments: Iterable[Judgment], nuggets: Iterable[Nugget], calls: Set[str]
) -> frozenset[tuple[str, str]]:
    """Query and chunk id where one of these calls judged all nuggets that there are now."""
    every = Counter(nugget.query_id for nugget in nuggets)
    judged = Counter(
        (judgment.query_id, judgment.chunk_id, call_id)
        for judgment in judgments
        for call_id in calls_of(judgment) & calls
    )
    return frozenset(
        (query_id, chunk_id)
        for (query_id, chunk_id, _), count in judged.items()
        if count == every[query_id]
    )


def _told_apart(
    judgments: Iterable[Judgment], singles: Iterable[Judgment]
) -> frozenset[tuple[str, str]]:
    """Query and chunk id where another call than that of the judgments judged the chunk alone.

    What stood in its batch beside it may be gone by now, so that it looks as if alone.
    """
    calls = {(one.nugget_id, one.chunk_id): calls_of(one) for one in judgments}
    return frozenset(
        (one.query_id, one.chunk_id)
        for one in singles
        if not calls_of(one) & calls.get((one.nugget_id, one.chunk_id), set())
    )
