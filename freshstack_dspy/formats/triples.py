"""Training data: questions with positives and judged negatives, triples, and pairs with scores.

questions/{train,dev}.jsonl   one a line, as FlagEmbedding and Tevatron read them
triples/{train,dev}.jsonl     anchor, positive, negative: for sentence-transformers
pairs/{train,dev}.jsonl       query, passage, label: for cross-encoders
test/                         the questions that are held out, and their qrels
splits.jsonl                  the side of each question, and why some are on none
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from freshstack_dspy.errors import CollectionError, ConfigError
from freshstack_dspy.formats.format import Format
from freshstack_dspy.formats.selection import Files, Selection
from freshstack_dspy.formats.splitting import Measured, Sides, marks_of, split_questions
from freshstack_dspy.measures.run import Run, read_run
from freshstack_dspy.pages.page import counted, part
from freshstack_dspy.records import DRY_RUN, SCALES, Chunk, Query
from freshstack_dspy.stored.folder import StoredCollection
from freshstack_dspy.stored.manifest import is_dry_run

TOP = 10
"""To which rank a negative is hard, and unjudged chunks of a run are taken."""
_BM25 = ("question", "bm25")
"""The list of the pool that negatives are usually mined from."""
_AT_ONCE = 1000
"""Questions whose chunks are in memory."""
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


class _Passage(NamedTuple):
    """A chunk for a question, and what is known of it."""

    chunk_id: str
    grade: int = 0
    score: float = 0.0
    found_by: str = ""
    rank: int = 0
    """The best, of `found_by`; 0 where none is known, for a column of numbers has no gaps."""
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


class _Example(NamedTuple):
    """A question with its positives, the best first, and its negatives, the hardest first."""

    query: Query
    positives: list[tuple[_Passage, Chunk]]
    negatives: list[tuple[_Passage, Chunk]]
    kept_apart: int
    """Further negatives, of documents with evidence of questions that are held out."""


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
    mined = read_run(unjudged) if isinstance(unjudged, Path | str) else unjudged
    mined = mined or Run("", {})
    if isinstance(measured, Run | StoredCollection | Path | str):
        measured = (measured,)
    return Format(
        name="triples",
        how_to_load=_HOW_TO_LOAD,
        write=partial(_write, test=test, measured=measured, mined=mined),
        pooled_chunks_only=True,
    )


def _write(selection: Selection, test: float, measured: Sequence[Measured], mined: Run) -> Files:
    split = split_questions(selection.collection, selection.nuggets, measured, test)
    if not split.train:
        raise CollectionError(_nothing_left(selection, split))
    passages = _passages(selection, mined)
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
        asked = ({"_id": one.query_id, "text": one.text} for one in selection.queries)
        yield "test/queries.jsonl", (row for row in asked if row["_id"] in split.test)
        yield "test/qrels.txt", _qrels(selection, split.test)
        selection.notes.append(f"test: {counted(len(split.test), 'question')}, held out")
    if split.left_out:
        left_out = counted(len(split.left_out), "question")
        selection.notes.append(f"left out: {left_out}; what they share is in splits.jsonl")
    yield "splits.jsonl", _sides(selection, split)
    selection.notes += _false_negatives(selection, passages, mined)
    yield "README.md", selection.readme("\n\n".join([_HOW_TO_LOAD, *selection.notes]))


def _nothing_left(selection: Selection, split: Sides) -> str:
    line = (
        f"nothing to train on: {len(split.test):,} of "
        f"{counted(len(selection.queries), 'question')} are measured"
    )
    for query_id, shared in list(split.left_out.items())[:1]:
        line += (
            f", and the others have evidence or wording in common with those measured, as "
            f"{query_id} with {shared.query_id}: {shared.what}"
        )
    return f"{line}; measure fewer of them, or, with a test of 0, other questions"


# Passages


def _passages(selection: Selection, mined: Run) -> dict[str, list[_Passage]]:
    """Give what is known of each question's chunks: positives first, unjudged ones last."""
    places = _places(selection, mined)
    grades = {(query_id, chunk_id): grade for query_id, chunk_id, grade in selection.grades()}
    highest = SCALES[selection.collection.manifest.scale.name].highest
    found = {}
    for query_id, nuggets in selection.nuggets.items():
        labels = selection.by_chunk(query_id)
        own = []
        for chunk_id, given in labels.items():
            grade = grades.get((query_id, chunk_id))  # none where a judgment failed
            if grade or (grade == 0 and len(given) == len(nuggets)):
                best = max(label for label in given.values() if label is not None)
                rank, by = places.get((query_id, chunk_id), (0, ""))
                own.append(_Passage(chunk_id, grade, best / highest, by, rank))
        for chunk_id in _top(mined, query_id) - labels.keys():
            rank, by = places[query_id, chunk_id]
            own.append(_Passage(chunk_id, found_by=by, rank=rank, judged=False))
        found[query_id] = sorted(own, key=lambda one: one.order)
    return found


def _top(run: Run, query_id: str) -> set[str]:
    return {scored.chunk_id for scored in run.rankings.get(query_id, ())[:TOP]}


def _places(selection: Selection, mined: Run) -> dict[tuple[str, str], tuple[int, str]]:
    """Give the best rank of each query's chunks, in the pool's lists and in runs, and whose it is."""
    places: dict[tuple[str, str], tuple[int, str]] = {}
    for one in selection.of_queries(selection.collection.pool):
        ranks = [(of.rank, str(of.technique)) for of in (*one.pooled_by, *one.ranked_below)]
        if ranks := [*ranks, *((of.rank, of.run) for of in one.runs)]:
            places[one.query_id, one.chunk_id] = min(ranks)
    for query_id, ranking in mined.rankings.items():
        for rank, scored in enumerate(ranking, start=1):
            pair, place = (query_id, scored.chunk_id), (rank, mined.name)
            places[pair] = min(place, places.get(pair, place))
    return places


def _false_negatives(
    selection: Selection, passages: Mapping[str, Sequence[_Passage]], mined: Run
) -> Iterator[str]:
    """Say which share of mined negatives, the top of a run but for one positive, are positives."""
    tops = {query_id: _top(mined, query_id) for query_id in passages}
    for one in selection.of_queries(() if mined else selection.collection.pool):
        found = (of.rank for of in one.found_by if (of.technique, of.retriever) == _BM25)
        if min(found, default=TOP + 1) <= TOP:
            tops[one.query_id].add(one.chunk_id)
    total = positives = judged = 0
    for query_id, own in passages.items():
        known = {one.chunk_id for one in own[:1] if one.grade}
        grades = {one.chunk_id: one.grade for one in own if one.judged}
        taken = tops[query_id] - known
        total += len(taken)
        judged += len(taken & grades.keys())
        positives += sum(grades.get(chunk_id, 0) > 0 for chunk_id in taken)
    if total:
        dry_run = f" ({DRY_RUN})" if is_dry_run(selection.collection.manifest) else ""
        yield (
            f"mined negatives: of {counted(total, 'chunk')} at the first {TOP} ranks of "
            f"{mined.name or 'bm25'}, one positive a question set aside, {part(positives, total)} "
            f"are positives by these labels, {total - judged:,} have no label{dry_run}"
        )


# Examples


def _examples(
    selection: Selection,
    passages: Mapping[str, Sequence[_Passage]],
    ids: Sequence[str],
    apart: AbstractSet[str],
) -> Iterator[_Example]:
    """Give questions with the texts of their passages."""
    queries = {one.query_id: one for one in selection.queries}
    corpus = selection.collection.corpus
    for start in range(0, len(ids), _AT_ONCE):
        some = ids[start : start + _AT_ONCE]
        chunk_ids = {one.chunk_id for query_id in some for one in passages[query_id]}
        chunks = corpus.chunks(sorted(chunk_ids))
        barred = {id_ for id_, chunk in chunks.items() if not apart.isdisjoint(marks_of(chunk))}
        for query_id in some:
            own = [(one, chunks[one.chunk_id]) for one in passages[query_id]]
            own = [(one, chunk) for one, chunk in own if chunk.titled.strip()]
            positives = [(one, chunk) for one, chunk in own if one.grade]
            texts = {(*chunk.text.split(),) for _, chunk in positives}
            others = [
                (one, chunk)
                for one, chunk in own
                if not one.grade and (*chunk.text.split(),) not in texts
            ]
            negatives = [(one, chunk) for one, chunk in others if one.chunk_id not in barred]
            kept_apart = len(others) - len(negatives)
            yield _Example(queries[query_id], positives, negatives, kept_apart)


def _has_both(example: _Example) -> bool:
    return bool(example.positives and example.negatives)


def _question(example: _Example) -> dict[str, Any]:
    """A line for FlagEmbedding (`pos`, `neg` and their scores) and Tevatron (passages)."""
    row: dict[str, Any] = {"query_id": example.query.query_id, "query": example.query.text}
    sides = {"pos": example.positives, "neg": example.negatives}
    for name, pairs in sides.items():
        row[name] = [chunk.titled for _, chunk in pairs]
        row[f"{name}_scores"] = [one.score for one, _ in pairs]
        row[{"pos": "positive_passages", "neg": "negative_passages"}[name]] = [
            one.row(chunk) for one, chunk in pairs
        ]
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
            hard=sum(one.hardness == "hard" for one, _ in judged),
            unjudged=len(negatives) - len(judged),
            apart=kept_apart,
        )
        for one, chunk in (*positives, *judged):
            yield {"query": query.text, "passage": chunk.titled, "label": one.score}


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


def _sides(selection: Selection, split: Sides) -> Iterator[dict[str, str]]:
    sides = {id_: side for side in ("train", "dev", "test") for id_ in getattr(split, side)}
    for query_id in selection.nuggets:
        row = {"query_id": query_id, "side": sides.get(query_id, "left out")}
        if shared := split.left_out.get(query_id):
            row |= {"shares": shared.what, "with": shared.query_id}
        yield row


TRIPLES = triples()
