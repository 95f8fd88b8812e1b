"""Contexts and the reports that are written from them, compared with three bounds (CRUX, Table 1).

The bounds are direct prompting, a report without any context; the oracle result, the report that
people wrote; and the oracle retrieval, a report from the oracle context Z*. Or contexts are drawn at
random from runs, and their measures are correlated with those of the reports (§4.3, Figure 5).
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from freshstack_dspy.answering.judging import assign
from freshstack_dspy.answering.reteval import Context, answered, shown_contexts
from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.errors import CollectionError, ConfigError
from freshstack_dspy.lm.tokens import count_tokens, cut
from freshstack_dspy.measures.density import (
    ChunkKind,
    density_of,
    mean_redundancy,
    oracle_context,
    oracle_tokens,
    redundancy,
)
from freshstack_dspy.measures.evaluation import Values, evaluate
from freshstack_dspy.measures.measure import MeasureSource, parse_measures
from freshstack_dspy.measures.qrels import Judged
from freshstack_dspy.measures.run import Run
from freshstack_dspy.measures.statistics import Interval, kendall_intervals
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
)
from freshstack_dspy.stored.contents import nuggets_by_query
from freshstack_dspy.stored.manifest import is_baseline

DIRECT, RESULT, RETRIEVAL = "direct prompting", "oracle result", "oracle retrieval"
BOUNDS = (DIRECT, RESULT, RETRIEVAL)
CRUX_MEASURES = ("StRecall", "alpha_nDCG", "Density")
"""What the paper measures contexts by: Cov(Z), the ranked coverage and Den(Z)."""
OF_REPORTS = ("Cov(y)", "Den(y)")
_CRUX_NAMES = {"StRecall": "Cov(Z)", "Density": "Den(Z)"}


class Sampling(NamedTuple):
    """Contexts that are drawn at random from the top of each run (CRUX, §4.3)."""

    contexts: int = 16
    """How many from each run; of three runs, as in the paper, 48."""
    of: int = 50
    """How many chunks of the top they are drawn from."""
    seed: int = 0

    def draw(self, ranking: Sequence[str], k: int, run: str, query_id: str) -> Iterator[list[str]]:
        """Draw k chunks of a ranking for each context; they stay in its order.

        The draw is a hash of the seed and of what it is for, so another query changes no context.
        """
        top = ranking[: self.of]
        for number in range(1, self.contexts + 1):
            drawn = {
                chunk: hashlib.sha256(
                    json.dumps([self.seed, run, number, query_id, chunk]).encode()
                ).digest()
                for chunk in top
            }
            chosen = set(sorted(drawn, key=drawn.__getitem__)[:k])
            yield [chunk for chunk in top if chunk in chosen]


class ContextReport(Record):
    """A report y on a query from a context Z, and how much of the sub-questions it answers."""

    run_id: str
    """A run, one of `BOUNDS`, or a run with the number of a context drawn from it, as `bm25#3`."""
    query_id: str
    chunk_ids: tuple[str, ...]
    """The context, the best first; empty for direct prompting and the oracle result."""
    omitted: tuple[OmittedChunk, ...] = ()
    """Chunks of the context that the writer was not shown."""
    text: str
    """What is rated: of a written report, as many tokens as the oracle context has."""
    cut_from: int | None = None
    """The tokens of the report that was written, if it was longer."""
    status: AnswerStatus
    reason: str
    """Why there is no report, or no rating."""
    nuggets: tuple[AssignedNugget, ...]
    """The answerable sub-questions of the query, with the judge's ratings."""
    scale: Scale
    """The scale of the ratings; its threshold is the paper's η."""
    coverage: float | None
    """Cov(y); None if the report or one of its ratings failed."""
    density: float | None
    call_id: str | None


@dataclass(frozen=True, repr=False)
class ContextTable(Shown):
    """Table 1: the values by query, for each of `BOUNDS` and each run, or each drawn context."""

    reports: tuple[ContextReport, ...]
    values: dict[str, Values]
    """By row; the measures are its columns, such as `Cov(Z)`."""
    chunks: dict[str, dict[ChunkKind, float]]
    """For each row with contexts, the shares of required, redundant, unsupporting and unjudged
    chunks, as means over the queries."""
    correlations: dict[str, dict[str, Interval]]
    """By measure of the contexts, then by `OF_REPORTS`: Kendall's tau-b of the means over queries of
    the runs, or of the drawn contexts; empty below three of them."""
    sampled: bool
    """Whether the contexts were drawn at random."""
    threshold: int
    """From which label on a sub-question is answered (η)."""
    size: str
    """How large a context is, in words."""
    models: dict[str, tuple[str, ...]]
    """Who wrote (`answer`) and who rated (`assignment`) the reports, if any."""
    labels_by: str
    """Who labelled the chunks."""
    dry_run: bool
    """Whether a word counter labelled chunks, or rated reports, so that nothing is concluded."""

    def __repr__(self) -> str:
        return f"ContextTable({', '.join(self.values)}; {counted(len(self.reports), 'report')})"


def evaluate_contexts(
    session: Session | None,
    collection: Collection,
    runs: Sequence[Run],
    *,
    measures: MeasureSource | Sequence[MeasureSource] = CRUX_MEASURES,
    k: int | None = None,
    tokens: int | None = None,
    sampling: Sampling | None = None,
    threshold: int | None = None,
) -> ContextTable:
    """Write reports from the contexts of runs, and measure contexts and reports.

    Args:
        session: Its `[generator]` writes the reports, and its `[judge]` rates them as it does passages:
            with its shape, votes and threshold.
            None: contexts are measured, and no reports are written.
        collection: The collection with the queries, whose answers are the reports that people wrote.
        runs: The runs, with distinct names.
        measures: What contexts are measured by, as in `evaluate`.
        k: How many chunks a context has; None: as many as the query's oracle context, or 10 of
            those drawn.
        tokens: In place of `k`, how many tokens the chunks have at most.
        sampling: Draw contexts from each run in place of its top, without the bounds.
        threshold: The lowest label with which a chunk answers a sub-question, and a report too
            (the paper's η); None: that of the collection, and that of `[judge]`.

    Raises:
        ConfigError: There is no such measure, or these contexts cannot be drawn.
        BudgetError: The budget is used up; what was answered is recorded.
        CollectionError: No query has a supported nugget, or a run cannot be used.
        DeferredError: In mode `defer`, requests were written to a file.
    """
    chosen = {_CRUX_NAMES.get(each.name, each.name): each for each in parse_measures(measures)}
    rated = collection.qrels().labels.keys()  # so that another threshold asks for no more
    collection, scale = _at_threshold(session, collection, threshold)
    qrels = collection.qrels()
    judged = {query_id: qrels.judged(query_id) for query_id in sorted(qrels.nuggets)}
    oracle = {query_id: oracle_context(judged[query_id]) for query_id in judged}
    rows = {} if sampling else {RETRIEVAL: oracle}
    for run in sorted(runs, key=lambda run: run.name):
        tops = {query_id: run.ids.get(query_id, ()) for query_id in judged}
        new = (
            _drawn(run.name, tops, sampling, k or 10)
            if sampling
            else {run.name: {q: _cut(top, judged[q], k, tokens) for q, top in tops.items()}}
        )
        if taken := (new.keys() & {*rows, *BOUNDS}):
            raise CollectionError(f"two rows would be named {min(taken)!r}; rename the run")
        rows |= new
    contexts = (oracle, *rows.values())
    if not all(c in (judged[q].tokens or {}) for row in contexts for q in row for c in row[q]):
        if session is not None:
            raise CollectionError(
                "a chunk of a context has no text to write a report from; add the corpus, or "
                "measure contexts alone, without a configuration"
            )
        if measures is CRUX_MEASURES:
            del chosen["Den(Z)"]  # of an import without texts
    bounds = [] if session is None or sampling else BOUNDS
    columns: dict[str, dict[str, dict[str, float]]] = {name: {} for name in (*bounds, *rows)}
    kinds = {}
    for name, row in rows.items():
        scores = {
            query: {chunk: -rank for rank, chunk in enumerate(ids)} for query, ids in row.items()
        }
        evaluation = evaluate(qrels, Run.from_scores(scores, name=name), [*chosen.values()])
        columns[name] = {
            column: evaluation.values(measure.name) for column, measure in chosen.items()
        }
        kinds[name] = mean_redundancy(redundancy(ids, judged[query]) for query, ids in row.items())
    reports = (
        []
        if session is None
        else _rated(session, collection, judged, rows, scale, rated | qrels.labels.keys())
    )
    for report in reports:
        for column, value in zip(OF_REPORTS, (report.coverage, report.density), strict=True):
            if value is not None:
                columns[report.run_id].setdefault(column, {})[report.query_id] = value
    values = {
        name: Values.of(name, of_row, weights=dict(qrels.weights))
        for name, of_row in columns.items()
    }
    compared = [name for name in rows if name != RETRIEVAL]
    size = f"{tokens} tokens" if tokens else f"{k} chunks" if k else "the oracle context's size"
    models = session.lm.ledger.models() if session else {}
    return ContextTable(
        tuple(reports),
        values,
        kinds,
        _correlations(values, compared, [*chosen]),
        sampled=sampling is not None,
        threshold=scale.threshold,
        size=f"{k or 10} chunks drawn from the top {sampling.of}" if sampling else size,
        models=models,
        labels_by=collection.labels_by,
        dry_run=qrels.dry_run or any(map(is_baseline, models.get("assignment", ()))),
    )


def _at_threshold(
    session: Session | None, collection: Collection, threshold: int | None
) -> tuple[Collection, Scale]:
    """Give the collection, and the scale of the reports' ratings, with another threshold of both."""
    scale = session.config.judge.graded if session is not None else collection.manifest.scale
    if threshold is None:
        return collection, scale
    collection = collection.at_threshold(threshold)
    if scale.name != collection.manifest.scale.name:
        raise ConfigError(
            f"a threshold of {threshold} has no one meaning: the labels of {collection.name} are on "
            f"scale {collection.manifest.scale.name}, and reports would be rated on {scale.name}; "
            f"set [judge] scale = {collection.manifest.scale.name!r}"
        )
    return collection, collection.manifest.scale


def _correlations(
    values: Mapping[str, Values], rows: Sequence[str], measures: Sequence[str]
) -> dict[str, dict[str, Interval]]:
    """Correlate measures of contexts with those of reports, if there are three rows that have both."""
    if len(rows) < 3 or not any("Cov(y)" in values[row].measures for row in rows):
        return {}
    tables = {
        name: {row: values[row].values(name) for row in rows} for name in (*measures, *OF_REPORTS)
    }
    pairs = [(measure, other) for measure in measures for other in OF_REPORTS]
    intervals = kendall_intervals(tables, pairs)
    return {
        measure: {other: intervals[measure, other] for other in OF_REPORTS} for measure in measures
    }


def _drawn(
    run: str, tops: Mapping[str, Sequence[str]], sampling: Sampling, k: int
) -> dict[str, dict[str, list[str]]]:
    """Draw the contexts of a run, by the name of the context and the query."""
    if k > sampling.of:
        raise ConfigError(f"{k} chunks cannot be drawn from the top {sampling.of}; draw fewer")
    rows: dict[str, dict[str, list[str]]] = {}
    for query_id, top in tops.items():
        for number, ids in enumerate(sampling.draw(top, k, run, query_id), 1):
            rows.setdefault(f"{run}#{number}", {})[query_id] = ids
    return rows


def _cut(ranking: Sequence[str], judged: Judged, k: int | None, tokens: int | None) -> list[str]:
    """Take the context from a ranking."""
    if tokens is not None:
        return list(judged.within(ranking, tokens))
    return list(ranking[: len(oracle_context(judged)) if k is None else k])


def _rated(
    session: Session,
    collection: Collection,
    judged: Mapping[str, Judged],
    rows: Mapping[str, Mapping[str, Sequence[str]]],
    scale: Scale,
    nugget_ids: Set[str],
) -> list[ContextReport]:
    """Write every report, and rate it by the answerable sub-questions of its query.

    A report is cut to as many tokens as the oracle context has (CRUX §4.2); those that people wrote
    are taken as they are. The reports are in order of row, then query.
    """
    queries = {query.query_id: query for query in collection.queries if query.query_id in judged}
    writer = ReportWriter()
    longest = {query_id: oracle_tokens(judged[query_id]) for query_id in queries}
    cut_from: dict[tuple[str, str], int] = {}

    def write(context: Context) -> Answer:
        run_id, query = context.run_id, context.query
        if run_id == RESULT:
            return context.answer(query.answer, call_id=None)
        reply = writer(query, context.chunks)
        if (tokens := count_tokens(reply.report)) > longest[query.query_id]:
            cut_from[run_id, query.query_id] = tokens
        return context.answer(cut(reply.report, longest[query.query_id]), call_id=reply.call_id)

    bounds = (DIRECT, RESULT) if RETRIEVAL in rows else ()
    tops = {**{bound: dict.fromkeys(queries, ()) for bound in bounds}, **rows}
    contexts = shown_contexts(session, collection, tops, queries, writer, writer_inputs)
    outcomes = session.each("answer", partial(answered, write), contexts)
    session.stop_if_deferred()
    nuggets = nuggets_by_query(
        nugget for nugget in collection.nuggets if nugget.nugget_id in nugget_ids
    )
    answers = [outcome.record for outcome in outcomes]
    assigned, unassigned = assign(session, answers, queries, nuggets)
    session.stop_if_deferred()
    failures = [*unassigned, *(each.failure for each in outcomes if each.failure is not None)]
    reasons = {(failure.run_id, failure.query_id): failure.message for failure in failures}
    reports = []
    for answer, rated in zip(answers, assigned, strict=True):
        run_id, query_id, density = answer.run_id, answer.topic_id, None
        answerable = judged[query_id].answerable_ids
        coverage = coverage_of(rated, judged[query_id], scale)
        if coverage is not None:
            density = answer_density(coverage, count_tokens(answer.text), judged[query_id])
        reports.append(
            ContextReport(
                run_id=run_id,
                query_id=query_id,
                chunk_ids=tuple(rows.get(run_id, {}).get(query_id, ())),
                omitted=answer.omitted,
                text=answer.text,
                cut_from=cut_from.get((run_id, query_id)),
                status=answer.status,
                reason=reasons.get((run_id, query_id), "") if coverage is None else "",
                nuggets=tuple(nugget for nugget in rated.nuggets if nugget.nugget_id in answerable),
                scale=scale,
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
    answerable = judged.answerable_ids
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
