"""What is wrong with the labels of a collection, as far as can be said without a model."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.collection.evaluating import evaluate
from freshstack_dspy.collection.retrieve import open_index, search
from freshstack_dspy.config import BuildConfig
from freshstack_dspy.index.building import BM25, LSA
from freshstack_dspy.index.hybrid import HybridIndex
from freshstack_dspy.index.lsa import MOST_CHUNKS
from freshstack_dspy.index.models import NO_MODELS
from freshstack_dspy.measures.decision import questions_needed
from freshstack_dspy.measures.run import Run
from freshstack_dspy.measures.statistics import FEWEST, detectable_difference, deviation
from freshstack_dspy.pages.shown import Shown
from freshstack_dspy.progress import Progress, one_part, showing
from freshstack_dspy.questions.filters import corpus_overlaps
from freshstack_dspy.recipes.extend import DEPTH, plan_extension
from freshstack_dspy.recipes.freshstack import LITTLE_OVERLAP
from freshstack_dspy.recipes.plan import Plan
from freshstack_dspy.records import MATTERS, Chunk, Query, Record
from freshstack_dspy.stored.contents import nuggets_by_query
from freshstack_dspy.stored.near_duplicates import alike_questions, same_texts
from freshstack_dspy.text import terms

MEASURE = "nDCG@10"
_ALIKE = 0.75
"""From which Jaccard index of their terms on two questions ask nearly the same."""
_HOLDS = 0.8
"""From which share of the reference's words on a chunk nearly holds them."""
_FEWEST_WORDS = 3
"""So many words that are not the question's must a reference have, to be looked for."""
_MOST_PASSAGES = 3
"""Passages to look at for each question."""
_TOP = 10
"""So many first chunks of a ranking are looked at for positives, and for words that are met."""
_LINES = 4
"""How many lines of a passage are shown."""
FaultKind = Literal[
    "not_in_corpus",  # a text, id or file that is expected
    "moved",
    "no_label",
    "contradiction",
    "several_places",
    "missing_positive",
    "near_duplicate",
    "other_words",
    "nothing_expected",
    "no_answer",
]
_OF_NOTES: dict[str, FaultKind] = {
    "moved": "moved",
    "other_answer": "contradiction",
    "grades_differ": "contradiction",
}


class Fault(Record):
    """Something of a question that is wrong, or that a person should look at."""

    kind: FaultKind
    query_id: str
    message: str
    chunk_ids: tuple[str, ...] = ()
    """The chunks it is about; for `several_places` the expected one first."""
    passage: str = ""
    """The four lines of the chunk that have most of the words of the reference, or of the text that
    is not in the corpus."""
    share: float | None = None
    """Which part of these words the chunk has; for `other_words`: which part of the rare terms of
    question and answer the corpus has."""


class Audit(Record, Shown):
    """What a collection's labels are worth, without asking a model."""

    name: str
    path: Path | None = None
    queries: int
    measured: int
    """Queries with an expected chunk."""
    rejected: dict[str, int]
    """Rows that became no query, by reason."""
    faults: tuple[Fault, ...]
    """In the order of the kinds, then by query."""
    retrievers: tuple[str, ...]
    """Those that the chunks to look at are from."""
    spread: float | None
    """The standard deviation of the retrievers' differences in nDCG@10 over the measured queries;
    None with one retriever, or with fewer than 10 of these queries."""
    detectable: float | None
    """The smallest difference of means that a paired test finds on so many queries four times in
    five, with this spread."""
    questions_needed: int | None
    """How many queries tell a difference of .02, with this spread; None where it is not known."""
    pairs: int
    """Nuggets times chunks among the retrievers' first 20 that have no label."""
    plan: Plan | None = None
    """What judging these pairs would ask for and cost, by the configuration that was named."""

    def __repr__(self) -> str:
        return f"Audit({self.name!r}: {len(self.faults)} faults of {self.queries} questions)"

    __str__ = __repr__


def audit(
    collection: Collection | Path | str,
    config: BuildConfig | Path | str | None = None,
    *,
    index_path: Path | str = Path(".freshstack/index"),
    progress: Progress | bool | None = None,
) -> Audit:
    """Look for faults in the labels of a collection; no model is asked, and nothing is changed.

    A positive is probably missing where a chunk without a label is above every expected chunk in a
    ranking of `bm25` or `lsa`, among their first 10, and has four fifths of the words of the
    reference answer that are not the question's; without an answer, of the expected text. A text
    that is not in the corpus is probably changed where a chunk has four fifths of its words. A
    question's words are met where bm25 has an expected chunk among its first 10.

    Args:
        collection: A collection, or its folder; one of a golden set says what was not in the corpus.
        config: A configuration, or its TOML file, for the price of judging the unjudged chunks.
        index_path: As in `retrieve`.
        progress: Notified how far the index and the search are.

    Raises:
        CollectionError: The collection cannot be read, or no chunk has a text.
        ConfigError: The judge of the configuration has another scale.
    """
    collection = Collection.load(collection)
    with showing(progress) as shown:
        names = (BM25, LSA) if len(collection.corpus) <= MOST_CHUNKS else (BM25,)
        index = open_index(collection, names[-1], NO_MODELS, index_path, shown)
        texts = {query.query_id: (query.text,) for query in collection.queries}
        with one_part(shown, "search", lambda: f"{len(texts):,} queries"):
            runs = [search(index, texts, name, DEPTH) for name in names]
        spread, measured = _spread(collection, runs)
        plan = None
        pairs = _unjudged(collection, runs)
        if config is not None and pairs:
            plan = plan_extension(collection, runs, config, progress=shown)
        look = _Look(collection, index, runs)
        with one_part(shown, "labels"):
            faults = tuple(look.faults())
    return Audit(
        name=collection.name,
        path=collection.path,
        queries=len(texts),
        measured=measured,
        rejected=dict(collection.manifest.counts.rejected),
        faults=faults,
        retrievers=names,
        spread=spread,
        detectable=spread and detectable_difference(spread, measured),
        questions_needed=questions_needed(spread, MATTERS) if spread else None,
        pairs=pairs,
        plan=plan,
    )


def _spread(collection: Collection, runs: Sequence[Run]) -> tuple[float | None, int]:
    """Give the spread of two runs' differences, and how many queries can be measured."""
    measured = collection.query_ids()
    if len(runs) < 2 or len(measured) < FEWEST:
        return None, len(measured)
    first, second = (evaluate(collection, run, MEASURE).per_query for run in runs)
    return deviation([first[q][MEASURE] - second[q][MEASURE] for q in measured]), len(measured)


def _unjudged(collection: Collection, runs: Iterable[Run]) -> int:
    """Count the pairs of nuggets and found chunks that have no label."""
    labelled = {
        (judgment.nugget_id, judgment.chunk_id)
        for judgment in collection.judgments
        if judgment.label is not None
    }
    nuggets = nuggets_by_query(collection.nuggets)
    found: defaultdict[str, set[str]] = defaultdict(set)
    for run in runs:
        for query_id, ranking in run.rankings.items():
            found[query_id].update(entry.chunk_id for entry in ranking)
    return sum(
        (nugget.nugget_id, chunk_id) not in labelled
        for query_id, own in nuggets.items()
        for nugget in own
        for chunk_id in found[query_id]
    )


class _Look:
    """A collection, and what retrievers found in it, as its faults are looked for."""

    def __init__(self, collection: Collection, index: HybridIndex, runs: Sequence[Run]) -> None:
        self.collection, self.index, self.runs = collection, index, runs
        self.queries = {query.query_id: query for query in collection.queries}
        self.expected: defaultdict[str, set[str]] = defaultdict(set)
        self.evidence: defaultdict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
        fields = "query_id", "chunk_id", "evidence"
        for query_id, chunk_id, spans in collection.supporting(*fields):
            self.expected[query_id].add(chunk_id)
            self.evidence[query_id, chunk_id] += spans
        self.judged: defaultdict[str, set[str]] = defaultdict(set)
        for judgment in collection.judgments:
            self.judged[judgment.query_id].add(judgment.chunk_id)
        ids = {id_ for own in self.judged.values() for id_ in own}
        ids |= {e.chunk_id for run in runs for ranking in run.rankings.values() for e in ranking}
        self.chunks: Mapping[str, Chunk] = collection.corpus.chunks(ids)

    def faults(self) -> Iterator[Fault]:
        yield from self._recorded()
        yield from self._several_places()
        for query in self.queries.values():
            yield from self._missing_positives(query)
        yield from self._near_duplicates()
        yield from self._other_words()
        yield from self._incomplete()

    def _recorded(self) -> Iterator[Fault]:
        """What the import or a judge noted."""
        yield from self._not_in_corpus()
        for note in self.collection.notes:
            if kind := _OF_NOTES.get(note.kind):
                for line in note.value.splitlines():
                    message = f"another answer: {line}" if note.kind == "other_answer" else line
                    yield Fault(kind=kind, query_id=note.query_id, message=message)
        for judgment in self.collection.judgments:
            if judgment.label is None:
                yield Fault(
                    kind="no_label",
                    query_id=judgment.query_id,
                    message=judgment.reason or judgment.status,
                    chunk_ids=(judgment.chunk_id,),
                )

    def _not_in_corpus(self) -> Iterator[Fault]:
        failures = [f for f in self.collection.failures if f.step.startswith("expected_")]
        texts = {  # without those of imports by version 0.3, which kept the message alone
            str(number): (failure.expected,)
            for number, failure in enumerate(failures)
            if failure.step == "expected_text" and failure.expected
        }
        nearest = search(self.index, texts, BM25, 1).rankings if texts else {}
        for number, failure in enumerate(failures):
            message = f"{failure.step.removeprefix('expected_')} {failure.message}"
            near: dict[str, Any] = {}
            for entry in nearest.get(str(number), ()):
                passage = self.collection.chunk(entry.chunk_id).passage
                share = _share(wanted := frozenset(terms(texts[str(number)][0])), passage)
                if share >= _HOLDS:
                    message += f"; {entry.chunk_id} has {share:.0%} of its words"
                    near = {"chunk_ids": (entry.chunk_id,), "share": share}
                    near["passage"] = _best_lines(passage, wanted)
            yield Fault(kind="not_in_corpus", query_id=failure.query_id, message=message, **near)

    def _several_places(self) -> Iterator[Fault]:
        """Expected chunks or texts that the corpus has more than once."""
        wanted = {id_ for own in self.expected.values() for id_ in own}
        by_text: defaultdict[str, set[str]] = defaultdict(set)
        for id_ in wanted:
            by_text[_bare(self.chunks[id_].text)].add(id_)
        for chunk in self.collection.corpus:
            if (bare := _bare(chunk.text)) in by_text:
                by_text[bare].add(chunk.chunk_id)
        for query_id, expected in sorted(self.expected.items()):
            found = {e.chunk_id for run in self.runs for e in run.rankings.get(query_id, ())}
            around = [self.chunks[id_] for id_ in (*sorted(expected), *sorted(found - expected))]
            same = same_texts(around, ())
            quoted: defaultdict[str, set[str]] = defaultdict(set)
            for id_ in expected:
                for start, end in self.evidence[query_id, id_]:
                    quoted[_bare(self.chunks[id_].text_at(start, end))].add(id_)
            seen: set[str] = set()
            for id_ in sorted(expected):
                copies = set(by_text[_bare(self.chunks[id_].text)])
                copies |= {copy for copy, first in same.items() if first.chunk_id == id_}
                copies |= {each for ids in quoted.values() if id_ in ids for each in ids}
                if id_ in seen or copies <= {id_}:
                    continue
                seen |= copies
                unlabelled = sorted(copies - self.judged[query_id])
                labelled = sorted(copies - {id_, *unlabelled})
                message = f"{id_} is also {', '.join([*unlabelled, *labelled])}"
                if unlabelled:
                    message += f"; without a label: {len(unlabelled)}"
                yield Fault(
                    kind="several_places",
                    query_id=query_id,
                    message=message,
                    chunk_ids=(id_, *unlabelled, *labelled),
                )

    def _missing_positives(self, query: Query) -> Iterator[Fault]:
        wanted = self._reference(query)
        if len(wanted) < _FEWEST_WORDS:
            return
        judged, expected = self.judged[query.query_id], self.expected[query.query_id]
        ranks: dict[str, tuple[int, str]] = {}
        for run in self.runs:
            for rank, entry in enumerate(run.rankings.get(query.query_id, ())[:_TOP], 1):
                if entry.chunk_id in expected:
                    break
                if entry.chunk_id not in judged:
                    place = rank, run.name
                    ranks[entry.chunk_id] = min(place, ranks.get(entry.chunk_id, place))
        shares = {id_: _share(wanted, self.chunks[id_].passage) for id_ in ranks}
        likely = sorted(
            (id_ for id_, share in shares.items() if share >= _HOLDS),
            key=lambda id_: (-shares[id_], ranks[id_], id_),
        )
        for id_ in likely[:_MOST_PASSAGES]:
            rank, name = ranks[id_]
            yield Fault(
                kind="missing_positive",
                query_id=query.query_id,
                message=f"{id_} has {shares[id_]:.0%} of the reference's words, {name} rank {rank}",
                chunk_ids=(id_,),
                passage=_best_lines(self.chunks[id_].passage, wanted),
                share=shares[id_],
            )

    def _reference(self, query: Query) -> frozenset[str]:
        """The terms of the answer, or else of the expected texts, that the question has not."""
        text = query.answer
        if not text.strip():
            expected = sorted(self.expected[query.query_id])
            text = "\n".join(
                chunk.text_at(start, end)
                for chunk in map(self.chunks.__getitem__, expected)
                for start, end in self.evidence[query.query_id, chunk.chunk_id]
                or [(chunk.start_byte, chunk.end_byte)]
            )
        return frozenset(terms(text)) - frozenset(terms(query.text))

    def _near_duplicates(self) -> Iterator[Fault]:
        for first, second in sorted(alike_questions(self.queries, _ALIKE)):
            same = self.expected[first] == self.expected[second]
            what = "the same" if same else "other chunks"
            message = f"asks nearly what {second} asks, and expects {what}: "
            yield Fault(
                kind="near_duplicate",
                query_id=first,
                message=message + self.queries[second].text,
            )

    def _other_words(self) -> Iterator[Fault]:
        index, rankings = self.index, self.runs[0].rankings
        unfound = [
            query
            for id_, query in self.queries.items()
            if self.expected[id_].isdisjoint(each.chunk_id for each in rankings.get(id_, ())[:_TOP])
        ]
        shares = corpus_overlaps(unfound, index.frequencies, len(index), index.manifest.languages)
        for id_, share in shares.items():
            if share < LITTLE_OVERLAP:
                what = f"the corpus has {share:.0%} of the rare words of question and answer"
                message = f"{what}: {self.queries[id_].text}"
                yield Fault(kind="other_words", query_id=id_, message=message, share=share)

    def _incomplete(self) -> Iterator[Fault]:
        failed = {failure.query_id for failure in self.collection.failures}
        bare = [id_ for id_ in self.queries if not self.judged[id_] and id_ not in failed]
        for id_ in bare:
            yield Fault(kind="nothing_expected", query_id=id_, message=self.queries[id_].text)
        lacking = [id_ for id_, query in self.queries.items() if not query.answer.strip()]
        for id_ in lacking if len(lacking) < len(self.queries) else ():
            yield Fault(kind="no_answer", query_id=id_, message=self.queries[id_].text)


def _share(wanted: frozenset[str], text: str) -> float:
    return len(wanted.intersection(terms(text))) / len(wanted) if wanted else 0.0


def _best_lines(text: str, wanted: frozenset[str]) -> str:
    lines = text.splitlines()
    held = [wanted.intersection(terms(line)) for line in lines]
    best = max(
        range(len(lines)),
        key=lambda line: (len(frozenset[str]().union(*held[line : line + _LINES])), -line),
    )
    return "\n".join(lines[best : best + _LINES])


def _bare(text: str) -> str:
    return "".join(text.split())
