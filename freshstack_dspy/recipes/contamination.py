"""Contamination: which nuggets a model knows without the corpus, asked of the judge of the build."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from freshstack_dspy.collection.contamination import Knowledge, contamination, overlap
from freshstack_dspy.config import ContaminationConfig
from freshstack_dspy.programs.support_judge import as_chunk
from freshstack_dspy.recipes.flow import Work
from freshstack_dspy.recipes.judge import ToJudge, judge
from freshstack_dspy.recipes.pooling import blocks
from freshstack_dspy.records import Chunk, Contamination, Failure, Judgment, Nugget, Query
from freshstack_dspy.stored.contents import Contents, nuggets_by_query


def contaminate(work: Work, made: Contents) -> Contents:
    """Tell for every query with nuggets how far it can be answered without the corpus."""
    knowledge, failures = _closed_book_knowledge(work, made)
    found = contamination_of(
        work.config.contamination,
        work.config.judge.graded.threshold,
        made.queries,
        made.nuggets,
        made.judgments,
        partial(work.chunks, made),
        knowledge,
    )
    return replace(made, contamination=found, failures=(*made.failures, *failures))


def _closed_book_knowledge(
    work: Work, made: Contents
) -> tuple[dict[str, Knowledge], list[Failure]]:
    """Have closed-book answers judged, each as if it were a chunk, in the step `contamination`.

    Returns:
        Knowledge, by query id, of each query whose answer has a label for every nugget, and what
        failed: a failure names no chunk, for the answer is none of the corpus.
    """
    found: dict[str, Knowledge] = {}
    if not work.config.contamination.score:
        return found, []
    threshold = work.config.judge.graded.threshold
    nuggets_of = nuggets_by_query(made.nuggets)
    answers = {one.query_id: one for one in made.expansions if one.kind == "closed_book_answer"}
    pairs = []
    for query in made.queries:
        query_id = query.query_id
        if query_id not in nuggets_of or query_id not in answers:
            continue
        if (knowledge := work.known.knowledge(query, threshold)) is not None:
            found[query_id] = knowledge
        else:
            text = "\n".join(answers[query_id].texts)
            shown = as_chunk("closed-book answer", text)
            pairs.append(ToJudge(query, nuggets_of[query_id], [shown]))
    if not pairs:
        return found, []
    judged = judge(work.session, work.recipe.support_judge, pairs, step="contamination", once=True)
    labels: dict[str, list[Judgment]] = {}
    for judgment in judged.judgments:
        labels.setdefault(judgment.query_id, []).append(judgment)
    for query_id, judgments in labels.items():
        if all(judgment.label is not None for judgment in judgments):
            ids = sorted(one.nugget_id for one in judgments if (one.label or 0) >= threshold)
            found[query_id] = Knowledge(tuple(ids), judgments[0].call_id)
    return found, [one.model_copy(update={"chunk_ids": ()}) for one in judged.failures]


def contamination_of(
    settings: ContaminationConfig,
    threshold: int,
    queries: Sequence[Query],
    nuggets: Sequence[Nugget],
    judgments: Iterable[Judgment],
    chunks: Callable[[Iterable[str]], Mapping[str, Chunk]],
    knowledge: Mapping[str, Knowledge],
) -> tuple[Contamination, ...]:
    """For every query with nuggets, how far it can be answered without the corpus.

    `chunks` gives those of the corpus by their ids.
    """
    supporting: dict[str, set[str]] = {}
    for judgment in judgments:
        if judgment.label is not None and judgment.label >= threshold:
            supporting.setdefault(judgment.query_id, set()).add(judgment.chunk_id)
    overlaps: dict[str, float | None] = {}
    for block in blocks(query for query in queries if query.query_id in supporting):
        gold = chunks({id_ for query in block for id_ in supporting[query.query_id]})
        for query in block:
            texts = [gold[id_].passage for id_ in supporting[query.query_id]]
            overlaps[query.query_id] = overlap(query.text, texts, settings.ngram)
    return tuple(contamination(queries, nuggets, overlaps, knowledge, settings))
