"""Labels of passages that are not chunks of the collection, from the evidence of its judgments.

A label belongs to a chunk, and its evidence says which words of the file show it. So a passage that
is cut in another way supports a nugget if it holds that evidence, and no model is asked.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from freshstack_dspy.errors import CollectionError
from freshstack_dspy.measures.qrels import ChunkLabels, Judged, NuggetQrels, PassageLabels, Spans
from freshstack_dspy.measures.run import UNPLACED, PassageRun, Run
from freshstack_dspy.measures.spans import Span, merged, shared, size


def spans_of(qrels: NuggetQrels, run: str) -> Spans:
    """Give the files of the collection; of judgments that are of none, raise an error."""
    if qrels.spans is None:
        raise CollectionError(
            f"run {run!r:.200} has passages, which are measured on a collection, whose files tell "
            "where its evidence is; these are qrels alone"
        )
    return qrels.spans()


def by_passage_id(run: PassageRun, files: Spans) -> Run:
    """Give the run by passage id; results without a place keep their ranks, under made-up ids."""
    scores = {
        query: {files.passage_id(place): score for place, score in passages.items()}
        | {
            f"{UNPLACED}{number}": score
            for number, score in enumerate(run.unplaced.get(query, ()), 1)
        }
        for query, passages in run.passages.items()
    }
    return Run.from_scores(scores, name=run.name)


def judge_passages(run: PassageRun, qrels: NuggetQrels, covered: float) -> tuple[NuggetQrels, Run]:
    """Give the labels of a run's passages, and the run by passage id.

    For a nugget, a passage has the highest label whose evidence it holds: at least the share
    `covered` of its bytes, over all its spans. Evidence counts once: a passage has the label 0 if
    passages above it hold all the evidence that it holds. A passage without evidence has the label
    0 if at least the share `covered` of it is in chunks with a label for the nugget, and otherwise
    no label. Results without a place keep their ranks and have no label; their length is unknown
    and counts as 0 tokens.

    Raises:
        CollectionError: The judgments are not of a collection.
    """
    files = spans_of(qrels, run.name)
    placed = by_passage_id(run, files)
    labels: dict[str, dict[str, int]] = {nugget: {} for nugget in qrels.labels}
    failed: defaultdict[str, set[str]] = defaultdict(set)
    fresh_labels: dict[str, dict[str, list[tuple[str, int]]]] = {}
    unjudged: dict[str, dict[str, float]] = {}
    for query, nuggets in qrels.nuggets.items():
        by_file, judged_chunks = files.labels(query), qrels.judged(query).chunks
        taken: set[tuple[str, str]] = set()
        fresh_labels[query], unjudged[query] = defaultdict(list), {}
        for passage, _ in placed.rankings.get(query, ()):
            if passage.startswith(UNPLACED):
                unjudged[query][passage] = 1.0
                continue
            place = files.place(passage)
            span = place.start, place.end
            near = chunks_under(span, by_file.get((place.source, place.path), ()))
            for nugget in nuggets:
                held = held_labels(near, nugget, span, covered)
                fresh = [entry for entry in held if (entry[0], nugget) not in taken]
                taken.update((chunk_id, nugget) for chunk_id, _ in fresh)
                fresh_labels[query][passage] += fresh
                if held or _within(span, _judged(near, nugget), covered):
                    labels[nugget][passage] = max((label for _, label in fresh), default=0)
                elif _within(
                    span, (chunk.span for chunk in near if nugget in chunk.labels), covered
                ):
                    failed[nugget].add(passage)
            judged_spans = (chunk.span for chunk in near if chunk.chunk_id in judged_chunks)
            unjudged[query][passage] = 1 - shared([span], judged_spans) / (span[1] - span[0])
    judged = replace(
        qrels,
        labels=labels,
        failed={nugget: frozenset(chunk_ids) for nugget, chunk_ids in failed.items()},
        tokens=files.lengths,
        chunk_ids=None,
        passages=PassageLabels(qrels, fresh_labels, unjudged),
    )
    return judged, placed


def chunks_under(span: Span, chunks: Sequence[ChunkLabels]) -> list[ChunkLabels]:
    """Give the chunks that share a byte with a span of their file."""
    return [chunk for chunk in chunks if chunk.span[0] < span[1] and span[0] < chunk.span[1]]


def held_labels(
    chunks: Sequence[ChunkLabels], nugget: str, span: Span, covered: float
) -> list[tuple[str, int]]:
    """Give the id and label of each chunk whose evidence for a nugget the span holds."""
    return [
        (chunk.chunk_id, label)
        for chunk in chunks
        if (label := chunk.labels.get(nugget)) is not None and label > 0
        for evidence in [chunk.evidence[nugget]]
        if shared([span], evidence) >= covered * size(evidence)
    ]


class SpanLabel(NamedTuple):
    """The label of a span of a file, from the labels of the chunks that it overlaps."""

    label: int | None
    chunk_id: str
    """The id of the chunk that the label comes from; if there are several, the first."""
    held: Sequence[str]
    """The ids of the chunks with a label above 0 all of whose evidence the span holds."""


def label_under(chunks: Sequence[ChunkLabels], nugget: str, span: Span) -> SpanLabel | None:
    """Give the label of a span for a nugget; None if a part of the span is in no judged chunk.

    It is the highest label whose evidence the span holds. Without one it is 0 if the span is
    within chunks that all have a label for the nugget; if a judgment of these failed, there is no
    label.
    """
    held = held_labels(chunks, nugget, span, 1)
    if held:
        best = max(held, key=lambda entry: entry[1])  # the first of several
        return SpanLabel(best[1], best[0], [chunk_id for chunk_id, _ in held])
    sources = [chunk for chunk in chunks if nugget in chunk.labels]
    if shared([span], [chunk.span for chunk in sources]) < span[1] - span[0]:
        return None
    failed = next((chunk for chunk in sources if chunk.labels[nugget] is None), None)
    return SpanLabel(None if failed else 0, (failed or sources[0]).chunk_id, ())


def _judged(chunks: Sequence[ChunkLabels], nugget: str) -> Iterable[Span]:
    return (chunk.span for chunk in chunks if chunk.labels.get(nugget) is not None)


def _within(span: Span, others: Iterable[Span], covered: float) -> bool:
    return shared([span], others) >= covered * (span[1] - span[0])


def _bytes(ranking: Sequence[str], judged: Judged) -> tuple[int, int, int]:
    """Count the bytes that are both evidence and retrieved, evidence, and retrieved, each once."""
    retrieved: defaultdict[str, list[Span]] = defaultdict(list)
    for place in (judged.place(id_) for id_ in ranking if not id_.startswith(UNPLACED)):
        retrieved[f"{place.source}/{place.path}"].append((place.start, place.end))
    evidence = judged.evidence
    both = sum(shared(spans, retrieved.get(file, ())) for file, spans in evidence.items())
    wanted, returned = (
        sum(map(size, map(merged, by_file.values()))) for by_file in (evidence, retrieved)
    )
    return both, wanted, returned


def byte_precision(ranking: Sequence[str], judged: Judged, k: int | None) -> float:
    """Compute BytePrecision@k: the share of the retrieved bytes that is evidence; 0 without any.

    It takes the evidence of all labels of support for the query's nuggets. Overlaps count once.

    Source of all three: Smith and Troynikov, Evaluating Chunking Strategies for Retrieval, Chroma
    2024, which counts tokens, and sums up overlapping chunks.
    """
    both, _, returned = _bytes(ranking, judged)
    return both / returned if returned else 0.0


def byte_recall(ranking: Sequence[str], judged: Judged, k: int | None) -> float | None:
    """Compute ByteRecall@k: the share of the bytes of evidence that is retrieved."""
    both, wanted, _ = _bytes(ranking, judged)
    return both / wanted if wanted else None


def byte_iou(ranking: Sequence[str], judged: Judged, k: int | None) -> float | None:
    """Compute ByteIoU@k: the bytes that are evidence and retrieved, over those that are either."""
    both, wanted, returned = _bytes(ranking, judged)
    return both / (wanted + returned - both) if wanted or returned else None
