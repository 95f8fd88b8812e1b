"""Contexts and the reports that are written from them, compared with three bounds (CRUX, Table 1).

The bounds are direct prompting, a report without any context; the oracle result, the report that
people wrote; and the oracle retrieval, a report from the oracle context Z*.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean

from freshstack_dspy.answering.judging import assign
from freshstack_dspy.answering.reteval import Context, answered, shown_contexts
from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.lm.tokens import count_tokens
from freshstack_dspy.measures.compare import RankingAgreement, ranking_agreement
from freshstack_dspy.measures.density import density_of, oracle_context
from freshstack_dspy.measures.evaluation import Values, evaluate
from freshstack_dspy.measures.qrels import Judged
from freshstack_dspy.measures.run import Run
from freshstack_dspy.pages.page import counted
from freshstack_dspy.pages.shown import Shown
from freshstack_dspy.programs.documents import ReportWriter, writer_inputs
from freshstack_dspy.recipes.session import Session
from freshstack_dspy.records import (
    Answer,
    AnswerStatus,
    AssignedAnswer,
    AssignedNugget,
    OmittedChunk,
    Record,
    Scale,
    ScoredChunk,
)
from freshstack_dspy.stored.contents import nuggets_by_query

DIRECT, RESULT, RETRIEVAL = "direct prompting", "oracle result", "oracle retrieval"
BOUNDS = (DIRECT, RESULT, RETRIEVAL)
_OF_CONTEXTS = {"Cov(Z)": "StRecall", "alpha_nDCG": "alpha_nDCG", "Den(Z)": "Density"}
_PAIRS = (("Cov(Z)", "Cov(y)"), ("alpha_nDCG", "Cov(y)"), ("Den(Z)", "Den(y)"))


class ContextReport(Record):
    """A report y on a query from a context Z, and how much of the sub-questions it answers."""

    run_id: str
    """A run, or one of `BOUNDS`."""
    query_id: str
    chunk_ids: tuple[str, ...]
    """The context, the best first; empty for direct prompting and the oracle result."""
    omitted: tuple[OmittedChunk, ...] = ()
    """Chunks of the context that the writer was not shown."""
    text: str
    status: AnswerStatus
    reason: str
    """Why there is no report, or no rating."""
    nuggets: tuple[AssignedNugget, ...]
    """The query's sub-questions, with the judge's ratings."""
    coverage: float | None
    """Cov(y); None if the report or one of its ratings failed."""
    density: float | None
    call_id: str | None


@dataclass(frozen=True, repr=False)
class ContextTable(Shown):
    """Table 1: the values by query, for each of `BOUNDS` and each run."""

    reports: tuple[ContextReport, ...]
    values: dict[str, Values]
    """By row; the measures are its columns, such as `Cov(Z)`."""
    unjudged: dict[str, float]
    """For each row with contexts, the share of their chunks that has no label."""
    agreements: tuple[RankingAgreement, ...]
    """How similarly contexts and reports order the runs; empty below three runs."""
    size: str
    """How large a context is, in words."""
    models: dict[str, tuple[str, ...]]
    """Who wrote (`answer`) and who rated (`assignment`) the reports, if any."""
    labels_by: str
    """Who labelled the chunks."""

    def __repr__(self) -> str:
        return f"ContextTable({', '.join(self.values)}; {counted(len(self.reports), 'report')})"


def evaluate_contexts(
    session: Session | None,
    collection: Collection,
    runs: Sequence[Run],
    *,
    k: int | None = None,
    tokens: int | None = None,
) -> ContextTable:
    """Write reports from the contexts of runs, and measure contexts and reports.

    Args:
        session: Its `[generator]` writes the reports, and its `[judge]` rates them as it does passages:
            with its shape, votes and threshold.
            None: contexts are measured, and no reports are written.
        collection: The collection with the queries, whose answers are the reports that people wrote.
        runs: The runs, with distinct names.
        k: How many chunks a context has; None: as many as the query's oracle context.
        tokens: In place of `k`, how many tokens the chunks have at most.

    Raises:
        BudgetError: The budget is used up; what was answered is recorded.
        CollectionError: No query has a supported nugget, or a run cannot be used.
        DeferredError: In mode `defer`, requests were written to a file.
    """
    qrels = collection.qrels()
    judged = {query_id: qrels.judged(query_id) for query_id in sorted(qrels.nuggets)}
    rows = {RETRIEVAL: {query_id: oracle_context(judged[query_id]) for query_id in judged}}
    for run in sorted(runs, key=lambda run: run.name):
        if run.name in rows or run.name in BOUNDS:
            raise CollectionError(f"two rows would be named {run.name!r}; rename the run")
        rows[run.name] = {
            query_id: _cut(run.rankings.get(query_id, ()), judged[query_id], k, tokens)
            for query_id in judged
        }
    measures = dict(_OF_CONTEXTS)
    lengths = {query_id: of_query.tokens or {} for query_id, of_query in judged.items()}
    shown = [(query, chunk) for row in rows.values() for query, ids in row.items() for chunk in ids]
    if not all(chunk in lengths[query] for query, chunk in shown):
        if session is not None:
            raise CollectionError(
                "a chunk of a context has no text to write a report from; add the corpus, or "
                "measure contexts alone, without a configuration"
            )
        del measures["Den(Z)"]  # of an import without texts
    names = [*rows] if session is None else [*BOUNDS, *(run for run in rows if run != RETRIEVAL)]
    columns: dict[str, dict[str, dict[str, float]]] = {name: {} for name in names}
    unjudged = {}
    for name, row in rows.items():
        scores = {
            query: {chunk: -rank for rank, chunk in enumerate(ids)} for query, ids in row.items()
        }
        evaluation = evaluate(qrels, Run.from_scores(scores, name=name), [*measures.values()])
        columns[name] = {column: evaluation.values(measure) for column, measure in measures.items()}
        missing = [chunk not in judged[query].chunks for query, ids in row.items() for chunk in ids]
        unjudged[name] = fmean(missing) if missing else 0.0
    reports = [] if session is None else _rated(session, collection, judged, rows)
    for report in reports:
        for column, value in (("Cov(y)", report.coverage), ("Den(y)", report.density)):
            if value is not None:
                columns[report.run_id].setdefault(column, {})[report.query_id] = value
    values = {name: Values.of(name, of_row) for name, of_row in columns.items()}
    return ContextTable(
        tuple(reports),
        values,
        unjudged,
        _agreements(values, [run for run in rows if run != RETRIEVAL]),
        size=f"{tokens} tokens" if tokens else f"{k} chunks" if k else "the oracle context's size",
        models=session.lm.ledger.models() if session else {},
        labels_by=collection.labels_by,
    )


def _agreements(values: Mapping[str, Values], runs: Sequence[str]) -> tuple[RankingAgreement, ...]:
    """Compare how measures of contexts and of reports order the runs, if there are at least three."""
    return tuple(
        ranking_agreement(
            *({run: values[run].values(name) for run in runs} for name in pair), names=pair
        )
        for pair in _PAIRS
        if len(runs) > 2 and all(values[run].values(name) for run in runs for name in pair)
    )


def _cut(
    ranking: Sequence[ScoredChunk], judged: Judged, k: int | None, tokens: int | None
) -> list[str]:
    """Take the context from a ranking."""
    ids = [entry.chunk_id for entry in ranking]
    if tokens is not None:
        return list(judged.within(ids, tokens))
    return ids[: len(oracle_context(judged)) if k is None else k]


def _rated(
    session: Session,
    collection: Collection,
    judged: Mapping[str, Judged],
    rows: Mapping[str, Mapping[str, Sequence[str]]],
) -> list[ContextReport]:
    """Write every report, and rate it by the answerable sub-questions of its query.

    The reports are in order of row, then query; those that people wrote are taken as they are.
    """
    queries = {query.query_id: query for query in collection.queries if query.query_id in judged}
    writer = ReportWriter()

    def write(context: Context) -> Answer:
        if context.run_id == RESULT:
            return context.answer(context.query.answer, call_id=None)
        reply = writer(context.query, context.chunks)
        return context.answer(reply.report, call_id=reply.call_id)

    tops = {DIRECT: dict.fromkeys(queries, ()), RESULT: dict.fromkeys(queries, ()), **rows}
    contexts = shown_contexts(session, collection, tops, queries, writer, writer_inputs)
    outcomes = session.each("answer", partial(answered, write), contexts)
    session.stop_if_deferred()
    measured = {nugget_id for of_query in judged.values() for nugget_id in of_query.labels}
    nuggets = nuggets_by_query(
        nugget for nugget in collection.nuggets if nugget.nugget_id in measured
    )
    answers = [outcome.record for outcome in outcomes]
    assigned, unassigned = assign(session, answers, queries, nuggets)
    session.stop_if_deferred()
    failures = [*unassigned, *(each.failure for each in outcomes if each.failure is not None)]
    reasons = {(failure.run_id, failure.query_id): failure.message for failure in failures}
    reports = []
    for answer, rated in zip(answers, assigned, strict=True):
        run_id, query_id, density = answer.run_id, answer.topic_id, None
        coverage = coverage_of(rated, judged[query_id], session.config.judge.graded)
        if coverage is not None:
            density = answer_density(coverage, count_tokens(answer.text), judged[query_id])
        reports.append(
            ContextReport(
                run_id=run_id,
                query_id=query_id,
                chunk_ids=tuple(rows.get(run_id, {}).get(query_id, ())),
                omitted=answer.omitted,
                text=answer.text,
                status=answer.status,
                reason=reasons.get((run_id, query_id), "") if coverage is None else "",
                nuggets=rated.nuggets,
                coverage=coverage,
                density=density,
                call_id=answer.call_id,
            )
        )
    return reports


def answer_coverage(ratings: Mapping[str, int], judged: Judged) -> float | None:
    """Compute Cov(y), the coverage of a context, of a generated answer y.

    It is the share of the answerable nuggets that the answer supports. Nuggets that no judged chunk
    supports, which come from the model's memory or are made up, do not count. None if no nugget is
    answerable, or if an answerable nugget has no rating.

    Source: CRUX, section 3.3, equation 3.

    Args:
        ratings: Nugget id -> how far the answer supports it, on the judge's scale.
        judged: The judgments of the query's chunks, which determine the answerable nuggets; its
            `rel` is the threshold for the answer too.
    """
    answerable = [id_ for place, id_ in enumerate(judged.labels) if place in judged.answerable]
    if not answerable or not ratings.keys() >= set(answerable):
        return None
    return sum(ratings[nugget] >= judged.rel for nugget in answerable) / len(answerable)


def coverage_of(answer: AssignedAnswer, judged: Judged, scale: Scale) -> float | None:
    """Compute Cov(y) of an answer whose nuggets were judged on a scale, perhaps a different one."""
    ratings = {
        nugget.nugget_id: judged.rel * (nugget.label >= scale.threshold)
        for nugget in answer.nuggets
        if nugget.label is not None
    }
    return answer_coverage(ratings, judged)


def answer_density(coverage: float, tokens: int, judged: Judged, *, w: float = 0.5) -> float:
    """Compute Den(y), the density of an answer with this coverage and number of tokens.

    It is `density` with the answer in place of the context, also relative to the oracle context.
    """
    return density_of(round(coverage * len(judged.answerable)), tokens, judged, w)
