"""Training data: questions with positives and judged negatives, triples, and pairs with scores.

questions/{train,dev}.jsonl   one a line, as FlagEmbedding and Tevatron read them
triples/{train,dev}.jsonl     anchor, positive, negative: for sentence-transformers
pairs/{train,dev}.jsonl       query, passage, label: for cross-encoders
test/                         the questions that are held out, and their qrels
splits.jsonl                  the side of each question, and why some are on none
"""

import hashlib
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from freshstack_dspy.errors import CollectionError, ConfigError
from freshstack_dspy.formats.format import Format
from freshstack_dspy.formats.selection import Files, Selection
from freshstack_dspy.measures.run import Run, read_run
from freshstack_dspy.pages.page import counted
from freshstack_dspy.records import SCALES, Chunk, Query
from freshstack_dspy.stored.folder import StoredCollection
from freshstack_dspy.stored.near_duplicates import alike_questions
from freshstack_dspy.text import ALIKE, clusters

TOP = 10
"""To which rank a negative is hard, and unjudged chunks of a run are taken."""
DEV_SHARE = 0.1
_QUESTIONS, _CHUNKS = 1000, 10_000
"""Questions and chunks that are in memory at a time."""
_HOW_TO_LOAD = """\
sentence-transformers: triples, with `batch_sampler="no_duplicates"`, for a question has several
positives; and pairs for a cross-encoder, with labels from 0 to 1:

    datasets.load_dataset("json", data_files="triples/train.jsonl", split="train")
    datasets.load_dataset("json", data_files="pairs/train.jsonl", split="train")

FlagEmbedding and Tevatron:

    --train_data questions/train.jsonl
    --dataset_name json --dataset_path questions/train.jsonl

Measure on the questions that were held out, and on no others:

    freshstack evaluate test/qrels.txt path/to/run.txt

A negative was judged for each nugget of its question, and supports none. It is `hard` where a
technique of the pool or a run has it among its first 10, `medium` further down, and `unranked`
where no rank is known. `grade` is the number of nuggets that a passage supports; a score, as a
label of a pair, is its highest label over the highest of the scale."""
Marks = dict[str, set[str]]
"""By question, what it may share with others: its evidence, and that it asks nearly the same."""
Measured = Run | StoredCollection | Path | str
"""What is measured: a run or its file, a collection or its folder, or the folder of a leaderboard."""


def triples(
    *,
    test: float = 0.2,
    measured: Measured | Sequence[Measured] = (),
    unjudged: Run | Path | str | None = None,
) -> Format:
    """Give the format of training data, for `export_collection`.

    Questions that ask nearly the same, or whose evidence is in the same documents, are on one side
    of train, dev and test, or left out. No passage of a document that has evidence of a question
    held out is trained on.

    Args:
        test: How much of the questions is held out, from 0 to below 1.
        measured: What is measured, in place of a share: a run, another collection, the folder of a
            leaderboard, or several. Their questions, and those that share something with them, are not
            trained on.
        unjudged: A run, whose first 10 chunks of a question are negatives too where nobody judged
            them, marked as unjudged; some are positives. None: judged negatives only.

    Raises:
        ConfigError: The share is not one.
        CollectionError: The run cannot be read.
    """
    if not 0 <= test < 1:
        raise ConfigError(f"test is {test}; it is a share of the questions, from 0 to below 1")
    run = read_run(unjudged) if isinstance(unjudged, Path | str) else unjudged
    if isinstance(measured, Run | StoredCollection | Path | str):
        measured = (measured,)
    return Format(
        name="triples",
        how_to_load=_HOW_TO_LOAD,
        write=partial(_write, test=test, measured=measured, run=run or Run("", {})),
        pooled_chunks_only=True,
    )


def _write(selection: Selection, test: float, measured: Sequence[Measured], run: Run) -> Files:
    split = split_questions(selection.collection, selection.nuggets, measured, test)
    if not split.train:
        raise CollectionError(_nothing_left(selection, split))
    passages = _passages(selection, run)
    for side, ids in (("train", split.train), ("dev", split.dev)):
        if not ids:
            continue
        examples = partial(_examples, selection, passages, ids, split.apart[side])
        counts: Counter[str] = Counter()
        yield f"pairs/{side}.jsonl", _pairs(examples(), counts)
        if not counts["positives"]:
            raise CollectionError("no passage has a text to train on; import it with its corpus")
        if counts["questions"]:
            yield f"questions/{side}.jsonl", map(_question, filter(_has_both, examples()))
            yield f"triples/{side}.jsonl", _triples(filter(_has_both, examples()))
        selection.notes.append(_note(side, len(ids), counts))
    if split.test:
        asked = ({"_id": query.query_id, "text": query.text} for query in selection.queries)
        yield "test/queries.jsonl", (row for row in asked if row["_id"] in split.test)
        yield "test/qrels.txt", _qrels(selection, split.test)
        selection.notes.append(f"test: {counted(len(split.test), 'question')}, held out")
    if split.left_out:
        left_out = counted(len(split.left_out), "question")
        selection.notes.append(f"left out: {left_out}; what they share is in splits.jsonl")
    yield "splits.jsonl", _sides(selection, split)
    yield "README.md", selection.readme("\n\n".join([_HOW_TO_LOAD, *selection.notes]))


def _nothing_left(selection: Selection, split: "Split") -> str:
    line = (
        f"nothing to train on: {len(split.test):,} of "
        f"{counted(len(selection.queries), 'question')} are measured"
    )
    if split.left_out:
        query_id, (what, other) = next(iter(split.left_out.items()))
        line += (
            ", and the others have evidence or wording in common with those measured, such as "
            f"{query_id} with {other}: {what}"
        )
    return f"{line}; measure fewer of them, or, with a test of 0, other questions"


# Which questions may be trained on: none that is measured, nor any that gives one of these away


class Split(NamedTuple):
    """Questions by side; those of different sides share no mark."""

    train: tuple[str, ...]
    dev: tuple[str, ...]
    test: tuple[str, ...]
    left_out: dict[str, tuple[str, str]]
    """The questions on no side: what each shares, and with which question that is held out."""
    apart: dict[str, set[str]]
    """The marks that no passage of train, or of dev, may have."""


def split_questions(
    collection: StoredCollection, own: Iterable[str], measured: Iterable[Measured], share: float
) -> Split:
    """Divide questions into train, dev and test, the same on every machine.

    Questions that share a mark, with each other or by way of others, are on one side. Where so many
    hang together that this holds out less than half of what is to be, questions are cut out of the
    rest, and those that share a mark with them are left out. No question is cut out for dev.

    Args:
        collection: That of the questions.
        own: The questions to divide, by id.
        measured: What is measured; where something is, its questions are the test.
        share: Else how much of the questions is.

    Raises:
        CollectionError: What is measured cannot be read, or a run has none of these questions.
        ConfigError: A leaderboard names no collections.
    """
    marks, held = _marks(collection, measured)
    order = sorted(own, key=lambda id_: hashlib.sha256(id_.encode()).hexdigest())
    if not held and share > 0:
        count = max(1, round(share * len(order)))
        held = _whole_groups(order, marks, count)
        if 2 * len(held) < count:
            _cut_out(order, marks, held, count)
    owners = {mark: id_ for id_ in sorted(held) for mark in marks[id_]}
    shared = {id_: sorted(marks[id_] & owners.keys()) for id_ in order if id_ not in held}
    left_out = {id_: (what[0], owners[what[0]]) for id_, what in shared.items() if what}
    rest = [id_ for id_ in order if id_ not in held and id_ not in left_out]
    dev = _whole_groups(rest, marks, round(DEV_SHARE * len(rest)))
    return Split(
        train=tuple(sorted(id_ for id_ in rest if id_ not in dev)),
        dev=tuple(sorted(dev)),
        test=tuple(sorted(id_ for id_ in order if id_ in held)),
        left_out=left_out,
        apart={"train": {*owners}.union(*(marks[id_] for id_ in dev)), "dev": {*owners}},
    )


def _marks_of(chunk: Chunk) -> set[str]:
    """The marks of evidence: its document, and its text, which other documents may hold too."""
    marks, text = {f"the document {chunk.source}/{chunk.path}"}, " ".join(chunk.text.split())
    if text:
        marks.add(f"the text {hashlib.sha256(text.encode()).hexdigest()[:16]}")
    return marks


def _marks(collection: StoredCollection, measured: Iterable[Measured]) -> tuple[Marks, set[str]]:
    """Mark the questions of a collection, and those measured elsewhere; and say which are measured."""
    queries = {query.query_id: query for query in collection.queries}
    held, others = _measured(measured, queries.keys())
    marks: Marks = {query_id: set() for query_id in queries}
    _mark_evidence(collection, {query_id: query_id for query_id in queries}, marks)
    for number, other in enumerate(others, start=1):
        theirs = {query.query_id: query for query in other.queries}
        names = {id_: f"{id_} of {other.name}#{number}" for id_ in theirs}
        queries |= {names[id_]: query for id_, query in theirs.items()}
        marks |= {name: set() for name in names.values()}
        held |= {*names.values()}
        _mark_evidence(other, names, marks)
    for pair in alike_questions(queries, ALIKE):
        for id_ in pair:
            marks[id_].add(f"nearly the same question ({' and '.join(pair)})")
    return marks, held


def _mark_evidence(collection: StoredCollection, names: Mapping[str, str], marks: Marks) -> None:
    """Mark each question by the chunks that support its nuggets."""
    supported: dict[str, list[str]] = defaultdict(list)
    for query_id, chunk_id in collection.supporting("query_id", "chunk_id"):
        supported[chunk_id].append(names[query_id])
    ids = sorted(supported)
    for start in range(0, len(ids), _CHUNKS):
        for chunk_id, chunk in collection.corpus.chunks(ids[start : start + _CHUNKS]).items():
            for name in supported[chunk_id]:
                marks[name] |= _marks_of(chunk)


def _measured(
    sources: Iterable[Measured], own: AbstractSet[str]
) -> tuple[set[str], list[StoredCollection]]:
    """Give which of our questions runs have, and the collections that are measured besides."""
    ids: set[str] = set()
    others: list[StoredCollection] = []
    for source in sources:
        if isinstance(source, StoredCollection):
            others.append(source)
        elif not isinstance(source, Run) and Path(source).is_dir():
            others += map(StoredCollection.load, _collections(Path(source)))
        else:
            run = source if isinstance(source, Run) else read_run(source)
            if own.isdisjoint(run):
                raise CollectionError(f"the run {run.name} has no question of this collection")
            ids |= own & run.keys()
    return ids, others


def _collections(folder: Path) -> list[Path]:
    """The collections of a leaderboard's topics; of another folder itself."""
    board = folder / "leaderboard.toml"
    if not board.is_file():
        return [folder]
    try:
        topics = tomllib.loads(board.read_text("utf-8"))["collections"].values()
        return [folder / topic["path"] for topic in topics]
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise ConfigError(f"{board}: names no collections of topics: {error!r}") from None


def _whole_groups(order: Sequence[str], marks: Marks, count: int) -> set[str]:
    """Take groups of questions that hang together, as far as they bring us nearer to a count."""
    pairs = (pair for ids in _holders(order, marks).values() for pair in pairwise(ids))
    taken: set[str] = set()
    for group in clusters(order, pairs):
        if abs(len(taken) + len(group) - count) < abs(len(taken) - count):
            taken.update(group)
    return taken


def _cut_out(order: Sequence[str], marks: Marks, taken: set[str], count: int) -> None:
    """Take the question that costs the fewest others, until `count` are taken."""
    holders = _holders(order, marks)
    around = {id_: {other for mark in marks[id_] for other in holders[mark]} for id_ in order}
    lost: set[str] = set()
    while len(taken) < count and len(taken) + len(lost) < len(order):
        free = (id_ for id_ in order if id_ not in taken)
        best = min(free, key=lambda id_: len(({id_} | around[id_]) - taken - lost))
        taken.add(best)
        lost = (lost | around[best]) - taken


def _holders(order: Iterable[str], marks: Marks) -> dict[str, list[str]]:
    """The questions that have each mark."""
    holders: dict[str, list[str]] = defaultdict(list)
    for id_ in order:
        for mark in marks[id_]:
            holders[mark].append(id_)
    return holders


# Passages


class _Passage(NamedTuple):
    """A chunk for a question, and what is known of it."""

    chunk_id: str
    grade: int = 0
    score: float = 0.0
    found_by: str = ""
    rank: int = 0
    """The best, by `found_by`; 0 where none is known, for a column of numbers has no gaps."""
    judged: bool = True

    @property
    def hardness(self) -> str:
        return "unranked" if not self.rank else "hard" if self.rank <= TOP else "medium"

    @property
    def order(self) -> tuple[Any, ...]:
        """Judged before unjudged, of a high grade first, then those that are found first."""
        return not self.judged, -self.grade, self.rank or float("inf"), self.chunk_id

    def row(self, chunk: Chunk) -> dict[str, Any]:
        """As Tevatron reads it, and the rest."""
        text = {"docid": chunk.chunk_id, "title": chunk.title, "text": chunk.text}
        names = ("judged", "grade", "score", "found_by", "rank")
        return {**text, "hardness": self.hardness, **{name: getattr(self, name) for name in names}}


def _passages(selection: Selection, run: Run) -> dict[str, list[_Passage]]:
    """Give what is known of each question's chunks: positives first, unjudged ones last."""
    places = _places(selection, run)
    grades = {(query_id, chunk_id): grade for query_id, chunk_id, grade in selection.grades()}
    highest = SCALES[selection.collection.manifest.scale.name].highest
    passages = {}
    for query_id, nuggets in selection.nuggets.items():
        judged = selection.by_chunk(query_id)
        own = []
        for chunk_id, labels in judged.items():
            grade = grades.get((query_id, chunk_id))  # none where a judgment failed
            if grade or (grade == 0 and len(labels) == len(nuggets)):
                best = max(label for label in labels.values() if label is not None)
                rank, by = places.get((query_id, chunk_id), (0, ""))
                own.append(_Passage(chunk_id, grade, best / highest, by, rank))
        for scored in run.rankings.get(query_id, ())[:TOP]:
            if scored.chunk_id not in judged:
                rank, by = places[query_id, scored.chunk_id]
                own.append(_Passage(scored.chunk_id, found_by=by, rank=rank, judged=False))
        passages[query_id] = sorted(own, key=lambda passage: passage.order)
    return passages


def _places(selection: Selection, run: Run) -> dict[tuple[str, str], tuple[int, str]]:
    """Give the best rank of each query's chunks, in the pool's lists and in runs, and whose it is."""
    places: dict[tuple[str, str], tuple[int, str]] = {}
    for candidate in selection.of_queries(selection.collection.pool):
        lists = (*candidate.pooled_by, *candidate.ranked_below)
        ranks = [(ranked.rank, str(ranked.technique)) for ranked in lists]
        if ranks := [*ranks, *((ranked.rank, ranked.run) for ranked in candidate.runs)]:
            places[candidate.query_id, candidate.chunk_id] = min(ranks)
    for query_id, ranking in run.rankings.items():
        for rank, scored in enumerate(ranking, start=1):
            pair, place = (query_id, scored.chunk_id), (rank, run.name)
            places[pair] = min(place, places.get(pair, place))
    return places


# Examples


class _Example(NamedTuple):
    """A question with its positives, the best first, and its negatives, the hardest first."""

    query: Query
    positives: list[tuple[_Passage, Chunk]]
    negatives: list[tuple[_Passage, Chunk]]
    kept_apart: int
    """Further negatives, of documents with evidence of questions that are held out."""


def _examples(
    selection: Selection,
    passages: Mapping[str, Sequence[_Passage]],
    ids: Sequence[str],
    apart: AbstractSet[str],
) -> Iterator[_Example]:
    """Give questions with the texts of their passages."""
    queries = {query.query_id: query for query in selection.queries}
    for start in range(0, len(ids), _QUESTIONS):
        some = ids[start : start + _QUESTIONS]
        chunk_ids = {passage.chunk_id for query_id in some for passage in passages[query_id]}
        chunks = selection.collection.corpus.chunks(sorted(chunk_ids))
        barred = {id_ for id_, chunk in chunks.items() if not apart.isdisjoint(_marks_of(chunk))}
        for query_id in some:
            pairs = [(passage, chunks[passage.chunk_id]) for passage in passages[query_id]]
            pairs = [(passage, chunk) for passage, chunk in pairs if chunk.titled.strip()]
            positives = [(passage, chunk) for passage, chunk in pairs if passage.grade]
            texts = {(*chunk.text.split(),) for _, chunk in positives}
            others = [
                (passage, chunk)
                for passage, chunk in pairs
                if not passage.grade and (*chunk.text.split(),) not in texts
            ]
            negatives = [pair for pair in others if pair[0].chunk_id not in barred]
            yield _Example(queries[query_id], positives, negatives, len(others) - len(negatives))


def _has_both(example: _Example) -> bool:
    return bool(example.positives and example.negatives)


def _question(example: _Example) -> dict[str, Any]:
    """A line for FlagEmbedding (`pos`, `neg` and their scores) and Tevatron (passages)."""
    row: dict[str, Any] = {"query_id": example.query.query_id, "query": example.query.text}
    for short, name, pairs in (
        ("pos", "positive_passages", example.positives),
        ("neg", "negative_passages", example.negatives),
    ):
        row[short] = [chunk.titled for _, chunk in pairs]
        row[f"{short}_scores"] = [passage.score for passage, _ in pairs]
        row[name] = [passage.row(chunk) for passage, chunk in pairs]
    return row


def _triples(examples: Iterable[_Example]) -> Iterator[dict[str, str]]:
    """Put each positive and each negative into a triple at least, the hardest first."""
    for query, positives, negatives, _ in examples:
        for place in range(max(len(positives), len(negatives))):
            yield {
                "anchor": query.text,
                "positive": positives[place % len(positives)][1].titled,
                "negative": negatives[place % len(negatives)][1].titled,
            }


def _pairs(examples: Iterable[_Example], counts: Counter[str]) -> Iterator[dict[str, Any]]:
    """Give each judged passage with its score, and count what there is."""
    for example in examples:
        query, positives, negatives, kept_apart = example
        judged = [pair for pair in negatives if pair[0].judged]
        counts.update(
            questions=_has_both(example),
            positives=len(positives),
            judged=len(judged),
            hard=sum(passage.hardness == "hard" for passage, _ in judged),
            unjudged=len(negatives) - len(judged),
            apart=kept_apart,
        )
        for passage, chunk in (*positives, *judged):
            yield {"query": query.text, "passage": chunk.titled, "label": passage.score}


def _note(side: str, questions: int, counts: Counter[str]) -> str:
    """Say in a line what a side has."""
    line = (
        f"{side}: {counted(questions, 'question')}, {counted(counts['positives'], 'positive')}, "
        f"{counted(counts['judged'], 'judged negative')} ({counts['hard']:,} hard)"
    )
    if unjudged := counts["unjudged"]:
        line += f", {counted(unjudged, 'unjudged negative')}"
    if bare := questions - counts["questions"]:
        line += f"; {counted(bare, 'question')} without a negative only in pairs"
    if apart := counts["apart"]:
        line += f"; {counted(apart, 'negative')} with evidence of questions held out not taken"
    return line


# What is held out


def _qrels(selection: Selection, query_ids: Sequence[str]) -> Iterator[str]:
    """Give TREC's lines: of each nugget of a question, or grades where it has no nuggets."""
    if selection.collection.plain:
        for query_id, chunk_id, grade in selection.grades():
            if query_id in query_ids:
                yield f"{query_id} 0 {chunk_id} {grade}"
        return
    for query_id in query_ids:
        for number, nugget in enumerate(selection.nuggets[query_id], start=1):
            for chunk_id, supports in selection.support[nugget.nugget_id].items():
                yield f"{query_id} {number} {chunk_id} {supports}"


def _sides(selection: Selection, split: Split) -> Iterator[dict[str, str]]:
    sides = {id_: side for side in ("train", "dev", "test") for id_ in getattr(split, side)}
    for query_id in selection.nuggets:
        row = {"query_id": query_id, "side": sides.get(query_id, "left out")}
        if shared := split.left_out.get(query_id):
            row |= zip(("shares", "with"), shared, strict=True)
        yield row


TRIPLES = triples()
