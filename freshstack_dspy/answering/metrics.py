"""Answers from runs (LLM-retEval): what they are worth, and the folder that they are written to."""

import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from freshstack_dspy.answering.contexts import answer_coverage
from freshstack_dspy.answering.reteval import (
    SAMPLED_TEMPERATURE,
    YES_OR_NO,
    Answering,
    answer_comparer,
    at_depths,
)
from freshstack_dspy.answering.scores import (
    NOT_RETRIEVED,
    AnswerAssignments,
    Citation,
    CitedAnswer,
    ComparedAnswer,
    FoundAndAgrees,
    NuggetAssignment,
    Scores,
    case_of,
    found_and_agrees,
    score_agreement,
    score_assignments,
    score_citations,
    verdicts_of,
)
from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.files import encode_records, replace_folder
from freshstack_dspy.measures.evaluation import Evaluation, evaluate
from freshstack_dspy.measures.qrels import NuggetQrels
from freshstack_dspy.measures.run import Run
from freshstack_dspy.measures.statistics import Interval, mean_interval
from freshstack_dspy.programs.answers import AnswerGenerator
from freshstack_dspy.recipes.provenance import prompt_hash
from freshstack_dspy.recipes.session import Session
from freshstack_dspy.records import (
    Agreement,
    Answer,
    AssignedAnswer,
    FailureCase,
    JudgedAnswer,
    Record,
    Scale,
)
from freshstack_dspy.text import jaccard, terms

RECALL = "Recall"
FAMILIES = ("alpha_nDCG", "Coverage", "P", RECALL, "F1")
"""The ranking measures next to the answers, cut off where the contexts are."""


VERSION = 0.5
"""From which Jaccard index of their terms on a chunk is another version of a gold one."""


class AnswerMetrics(NamedTuple):
    """All metrics of answers from runs, on the same queries; run `gold` is the gold answers."""

    agreement: Scores
    nuggets: Scores
    """Of the nuggets that the answers support."""
    citations: Scores | None
    """How far citations support the sentences of the answers; None: there is no sentence."""
    coverage: dict[str, Interval]
    """By run, the mean Cov(y) of its answers (CRUX, arXiv 2506.20051, eq. 3)."""
    rankings: dict[str, Evaluation]
    """By run."""
    relations: dict[str, list[FoundAndAgrees]]
    """By run: recall compared with agreement."""
    cases: tuple[FailureCase, ...]
    """By case, run and query."""


class AnsweringAccount(Record):
    """How answers were made; it names no secret and no machine."""

    schema_version: Literal[4] = 4
    collection: str
    content_hash: str
    runs: tuple[str, ...]
    k: tuple[int, ...]
    """How many chunks of each ranking were shown at most; of the gold ones as many as the most."""
    gold_answers: int
    model: str
    temperature: float
    gold_temperature: float
    max_tokens: int
    comparers: dict[str, float]
    """The scores from which on answers agree, by comparer; the first decides."""
    scale: Scale
    """Of the judge of nuggets."""
    prompts: dict[str, str]
    """SHA-256 of the prompt, by signature."""
    queries: int


def answer_metrics(
    found: Answering, account: AnsweringAccount, collection: Collection, runs: Iterable[Run]
) -> AnswerMetrics:
    """Compute all metrics of the answers from runs over a collection."""
    qrels = collection.qrels()
    agreement = score_agreement(_compared(one, account.comparers) for one in found.agreements)
    assigned = (*found.assignments, *found.gold_assignments)
    cited = (*found.citations, *found.gold_citations)
    rankings, recalls = {}, {}
    for run, k in at_depths([*runs], account.k):
        measures = [f"{family}@{k}" for family in FAMILIES]
        rankings[run.name] = evaluate(qrels, run, measures)
        recalls[run.name] = rankings[run.name].values(f"{RECALL}@{k}", only_defined=True)
    cases = failure_cases(found, collection, account.scale, recalls)
    return AnswerMetrics(
        agreement=agreement,
        nuggets=score_assignments(map(assignments_of, assigned)),
        citations=score_citations(map(citations_of, cited)) if cited else None,
        coverage={
            run_id: mean_interval(values)
            for run_id, values in _coverages(assigned, qrels, account.scale).items()
        },
        rankings=rankings,
        relations={
            name: [
                found_and_agrees(
                    recall,
                    verdicts_of(agreement, name),
                    measure=next(one for one in rankings[name].measures if one.startswith(RECALL)),
                    cases={one.query_id: one.case for one in cases if one.run_id == name},
                )
            ]
            for name, recall in recalls.items()
        },
        cases=tuple(cases),
    )


def failure_cases(
    found: Answering,
    collection: Collection,
    scale: Scale,
    recalls: Mapping[str, Mapping[str, float]],
) -> list[FailureCase]:
    """List the answers about which recall and agreement differ, as far as labels tell why.

    An answer is left out if it, its gold answer or their nuggets failed.

    Args:
        found: The answers.
        collection: Over which they are.
        scale: Of the judge of nuggets.
        recalls: By run, query id -> recall.
    """
    qrels = collection.qrels()
    versions = _Versions(collection)
    answers = {(one.run_id, one.topic_id): one for one in found.answers}
    golds = {one.topic_id: one for one in found.gold_answers if one.sample == 1}
    supported = {(one.run_id, one.qid): _held(one, scale) for one in found.assignments}
    supported_by_gold = {one.qid: _held(one, scale) for one in found.gold_assignments}
    cases = []
    for one in found.agreements:
        key = one.run_id, one.query_id
        answer, judged = answers[key], qrels.judged(one.query_id)
        recall = recalls[one.run_id].get(one.query_id)
        held, held_by_gold = supported[key], supported_by_gold[one.query_id]
        if recall is None or held is None or held_by_gold is None:
            continue
        if one.status not in ("ok", "no_gold_answer"):
            continue
        nuggets = [*judged.labels]
        version = None
        if one.agrees and not recall:
            version = versions.cited(answer, judged.supported)
        case = case_of(
            found=recall > 0,
            agrees=one.agrees,
            held=held,
            gold=held_by_gold,
            retrieved={
                nuggets[n] for id_ in answer.references for n in judged.supported.get(id_, ())
            },
            version=version is not None,
        )
        if case is not None:
            cases.append(
                FailureCase(
                    case=case,
                    run_id=one.run_id,
                    query_id=one.query_id,
                    question=answer.topic,
                    recall=recall,
                    agrees=one.agrees,
                    reason=one.reason,
                    answer=answer.text,
                    gold_answer=golds[one.query_id].text,
                    nuggets=tuple(sorted(held)),
                    gold_nuggets=tuple(sorted(held_by_gold)),
                    chunk_id=version,
                )
            )
    return sorted(cases, key=lambda one: (one.case, one.run_id, one.query_id))


class _Versions:
    """Which chunks share so many terms that one is another version of the other."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection

    @functools.cached_property
    def _terms(self) -> dict[str, set[str]]:
        return {one.chunk_id: set(terms(one.passage)) for one in self._collection.chunks()}

    def cited(self, answer: Answer, gold: Iterable[str]) -> str | None:
        """The first chunk by id that the answer cites and that is a version of a gold one."""
        cited = sorted({answer.references[n] for each in answer.answer for n in each.citations})
        for id_ in cited:
            if any(jaccard(self._terms[id_], self._terms[one]) >= VERSION for one in gold):
                return id_
        return None


def _held(answer: AssignedAnswer, scale: Scale) -> frozenset[str] | None:
    """The ids of the nuggets that an answer supports; None where one has no label."""
    labels = {one.nugget_id: one.label for one in answer.nuggets}
    if None in labels.values():
        return None
    return frozenset(id_ for id_, label in labels.items() if (label or 0) >= scale.threshold)


def answering_account(
    session: Session,
    collection: Collection,
    found: Answering,
    *,
    k: Sequence[int],
    gold_answers: int,
    comparers: Mapping[str, float] = YES_OR_NO,
) -> AnsweringAccount:
    """Record how answers were made."""
    model = session.config.model
    judge = session.recipe.support_judge.predict
    asking = [answer_comparer(session, one) for one in ("yes_no", "graded") if one in comparers]
    predictors = [AnswerGenerator().predict, *(one.predict for one in asking), judge]
    return AnsweringAccount(
        collection=collection.manifest.name,
        content_hash=collection.manifest.content_hash,
        runs=tuple(sorted({answer.run_id for answer in found.answers})),
        k=tuple(sorted(set(k))),
        gold_answers=gold_answers,
        model=model.name,
        temperature=model.temperature,
        gold_temperature=SAMPLED_TEMPERATURE if gold_answers > 1 else model.temperature,
        max_tokens=model.max_tokens,
        comparers=dict(comparers),
        scale=session.config.judge.graded,
        prompts=dict(sorted(map(prompt_hash, predictors))),
        queries=len({answer.topic_id for answer in found.answers}),
    )


def write_answers(
    folder: Path, found: Answering, account: AnsweringAccount, cases: Sequence[FailureCase] = ()
) -> None:
    """Write a folder of answers; the same answers give the same bytes.

    Raises:
        CollectionError: The folder cannot be written.
    """
    records: dict[str, Sequence[Any]] = {
        "answers.jsonl": found.answers,
        "gold_answers.jsonl": found.gold_answers,
        "agreement.jsonl": found.agreements,
        "assignments.jsonl": found.assignments,
        "gold_assignments.jsonl": found.gold_assignments,
        "citations.jsonl": found.citations,
        "gold_citations.jsonl": found.gold_citations,
        "cases.jsonl": cases,
        "failures.jsonl": found.failures,
    }
    with replace_folder(folder.absolute()) as partial:
        for name, rows in records.items():
            (partial / name).write_bytes(encode_records(rows))
        text = json.dumps(account.model_dump(mode="json"), ensure_ascii=False, indent=2)
        (partial / "answering.json").write_text(f"{text}\n", encoding="utf-8")


def _coverages(
    answers: Iterable[AssignedAnswer], qrels: NuggetQrels, scale: Scale
) -> dict[str, dict[str, float]]:
    """Run, query id -> coverage.

    Left out are answers with a nugget without a label, and queries without an answerable nugget.
    The judge of the answers may have another scale than the collection.
    """
    found: dict[str, dict[str, float]] = {}
    for answer in answers:
        judged = qrels.judged(answer.qid)
        ratings = {
            nugget.nugget_id: judged.rel * (nugget.label >= scale.threshold)
            for nugget in answer.nuggets
            if nugget.label is not None
        }
        values = found.setdefault(answer.run_id, {})
        if (coverage := answer_coverage(ratings, judged)) is not None:
            values[answer.qid] = coverage
    return found


def _compared(one: Agreement, thresholds: Mapping[str, float]) -> ComparedAnswer:
    status = None if one.status == "ok" else one.status
    others = {name: score >= thresholds[name] for name, score in one.scores.items()}
    others.pop(next(iter(thresholds)), None)
    return ComparedAnswer(one.run_id, one.query_id, (one.agrees,), one.reason, status, others)


def citations_of(one: JudgedAnswer) -> CitedAnswer:
    """The citations of an answer, as they are scored."""
    sentences = tuple(
        tuple(
            Citation(each.reference, None if each.support == -1 else each.support)
            for each in sentence.citations
        )
        for sentence in one.sentences
    )
    return CitedAnswer(one.run_id, one.topic_id, sentences)


def assignments_of(one: AssignedAnswer) -> AnswerAssignments:
    """The nuggets of an answer, as they are scored."""
    nuggets = tuple(
        NuggetAssignment(each.nugget_id, each.importance if each.rated else None, each.assignment)
        for each in one.nuggets
    )
    status = NOT_RETRIEVED if one.status == NOT_RETRIEVED else None
    return AnswerAssignments(one.run_id, one.qid, nuggets, status)
