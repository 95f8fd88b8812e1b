"""Answers from runs (LLM-retEval): what they are worth, and the folder that they are written to."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.files import encode_records, replace_folder
from freshstack_dspy.measures.answers import (
    NOT_RETRIEVED,
    RESAMPLES,
    AnswerAssignments,
    ComparedAnswer,
    FoundAndAgrees,
    NuggetAssignment,
    Scores,
    found_and_agrees,
    score_agreement,
    score_assignments,
    verdicts_of,
)
from freshstack_dspy.measures.contexts import answer_coverage
from freshstack_dspy.measures.evaluation import Evaluation, evaluate
from freshstack_dspy.measures.qrels import NuggetQrels
from freshstack_dspy.measures.run import Run
from freshstack_dspy.measures.statistics import Interval, mean_interval
from freshstack_dspy.programs.answers import AnswerComparer, AnswerGenerator
from freshstack_dspy.recipes.freshstack import FreshStack
from freshstack_dspy.recipes.provenance import prompt_hash
from freshstack_dspy.recipes.reteval import SAMPLED_TEMPERATURE, Answering
from freshstack_dspy.recipes.session import Session
from freshstack_dspy.records import Agreement, AssignedAnswer, Record, Scale

FAMILIES = ("alpha_nDCG", "Coverage", "Recall")
"""The ranking measures next to the answers, cut off where the contexts are."""


class AnswerMetrics(NamedTuple):
    """All metrics of answers from runs, on the same queries; run `gold` is the gold answers."""

    agreement: Scores
    nuggets: Scores
    """Of the nuggets that the answers support."""
    coverage: dict[str, Interval]
    """By run, the mean Cov(y) of its answers (CRUX, arXiv 2506.20051, eq. 3)."""
    rankings: dict[str, Evaluation]
    """By run."""
    relations: dict[str, list[FoundAndAgrees]]
    """By run: recall compared with agreement."""


class AnsweringAccount(Record):
    """How answers were made; it names no secret and no machine."""

    schema_version: Literal[3] = 3
    collection: str
    content_hash: str
    runs: tuple[str, ...]
    k: int
    """How many chunks of each ranking, and of the gold ones, were shown at most."""
    gold_answers: int
    model: str
    temperature: float
    gold_temperature: float
    max_tokens: int
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
    agreement = score_agreement(map(_compared, found.agreements))
    assigned = (*found.assignments, *found.gold_assignments)
    measures = [f"{family}@{account.k}" for family in FAMILIES]
    recall = measures[-1]
    rankings = {
        run.name: evaluate(qrels, run, measures) for run in sorted(runs, key=lambda run: run.name)
    }
    return AnswerMetrics(
        agreement=agreement,
        nuggets=score_assignments(map(_assigned, assigned)),
        coverage={
            run_id: mean_interval(values, resamples=RESAMPLES)
            for run_id, values in _coverages(assigned, qrels, account.scale).items()
        },
        rankings=rankings,
        relations={
            name: [
                found_and_agrees(
                    ranking.values(recall, only_defined=True),
                    verdicts_of(agreement, name),
                    measure=recall,
                )
            ]
            for name, ranking in rankings.items()
        },
    )


def answering_account(
    session: Session,
    collection: Collection,
    found: Answering,
    *,
    k: int,
    gold_answers: int,
) -> AnsweringAccount:
    """Record how answers were made."""
    model = session.config.model
    judge = FreshStack(session.config).support_judge.predict
    predictors = [AnswerGenerator().predict, AnswerComparer().predict, judge]
    return AnsweringAccount(
        collection=collection.manifest.name,
        content_hash=collection.manifest.content_hash,
        runs=tuple(sorted({answer.run_id for answer in found.answers})),
        k=k,
        gold_answers=gold_answers,
        model=model.name,
        temperature=model.temperature,
        gold_temperature=SAMPLED_TEMPERATURE if gold_answers > 1 else model.temperature,
        max_tokens=model.max_tokens,
        scale=session.config.judge.graded,
        prompts=dict(sorted(map(prompt_hash, predictors))),
        queries=len({answer.topic_id for answer in found.answers}),
    )


def write_answers(folder: Path, found: Answering, account: AnsweringAccount) -> None:
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


def _compared(one: Agreement) -> ComparedAnswer:
    status = None if one.status == "ok" else one.status
    return ComparedAnswer(one.run_id, one.query_id, (one.agrees,), one.reason, status)


def _assigned(one: AssignedAnswer) -> AnswerAssignments:
    nuggets = tuple(
        NuggetAssignment(each.nugget_id, each.importance if each.rated else None, each.assignment)
        for each in one.nuggets
    )
    status = NOT_RETRIEVED if one.status == NOT_RETRIEVED else None
    return AnswerAssignments(one.run_id, one.qid, nuggets, status)
