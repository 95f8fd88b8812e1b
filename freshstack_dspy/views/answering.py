"""What is shown of answers: their scores, what they say next to rankings, and contexts."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from freshstack_dspy.answering.cases import CASES
from freshstack_dspy.answering.contexts import ContextTable
from freshstack_dspy.answering.metrics import AnswerMetrics
from freshstack_dspy.answering.scores import RunScore, Scores
from freshstack_dspy.lm.request import BASELINE
from freshstack_dspy.lm.usage import grading_own_words
from freshstack_dspy.pages.page import (
    Cell,
    Page,
    Table,
    Text,
    Value,
    counted,
    cut,
    interval,
    names_by,
    notes,
    percent,
)
from freshstack_dspy.pages.shown import page_of

By = Literal["run", "answer"]
_REASONS = 5
"""How many reasons for missing values are listed."""
_GOLD = "gold"
_COLUMNS = ("Cov(Z)", "alpha_nDCG", "Cov(y)", "Den(Z)", "Den(y)")


# Scores


@page_of.register
def scores_page(
    scores: Scores,
    measures: Sequence[str] = (),
    counts: Sequence[str] = (),
    *,
    by: By = "run",
) -> Page:
    """Give the page of scores.

    Args:
        scores: Of answers.
        measures: Those that are shown; by default all.
        counts: What was counted that is shown.
        by: What has a row.
    """
    measures = measures or scores.measures
    queries = {one.query_id for one in scores.answers}.union(*(one.absent for one in scores.runs))
    number = counted(len(queries), "query", "queries")
    title = f"{counted(len(scores.runs), 'run')}, {number}; each query the same weight"
    if by == "answer":
        parts: list[Table | Text] = list(_of_answers(scores, measures, counts))
    else:
        parts = list(scores_tables(scores, measures, counts))
        title += "; with 95% bootstrap intervals"
    lines = list(missing_lines(scores, measures))
    return Page(
        title,
        (*parts, *notes(*lines)),
        data=dict(scores),
        rows=_rows(scores, measures, counts, by),
    )


def scores_tables(
    scores: Scores,
    measures: Sequence[str],
    counts: Sequence[str],
    *,
    last: str = "",
) -> Iterator[Table]:
    """Give the means by measure and run, and what was counted by run; run `last` is below all."""
    runs = sorted(scores.runs, key=lambda one: (one.run == last, by_depth(one.run)))
    values = [
        (name, one.run, mean.number, mean.interval)
        for name in measures
        for one in runs
        for mean in [interval(one.means[name])]
    ]
    yield Table(("measure", "run", "mean", "95 %"), values, keys=2, ids=(1,))
    yield Table(
        ("run", "answers", *counts, "absent"), [_counted(one, counts) for one in runs], ids=(0,)
    )


def by_depth(run: str) -> tuple[str, int]:
    """Order NAME@5 before NAME@10."""
    name, _, depth = run.rpartition("@")
    return (name, int(depth)) if depth.isdecimal() else (run, 0)


def _counted(one: RunScore, counts: Sequence[str]) -> tuple[Cell, ...]:
    return (one.run, one.answers, *(one.counts.get(name, 0) for name in counts), len(one.absent))


def _of_answers(scores: Scores, measures: Sequence[str], counts: Sequence[str]) -> Iterator[Table]:
    keys = ("run", "query_id")
    values: list[tuple[Cell, ...]] = [
        (one.run, one.query_id, *map(one.values.get, measures)) for one in scores.answers
    ]
    numbers: list[tuple[Cell, ...]] = [
        (one.run, one.query_id, *(one.counts.get(name, 0) for name in counts))
        for one in scores.answers
    ]
    names = (name.replace("_", " ") for name in measures)
    yield Table((*keys, *names), values, keys=2, ids=(0, 1))
    if counts:
        yield Table((*keys, *counts), numbers, keys=2, ids=(0, 1))


def _rows(scores: Scores, measures: Sequence[str], counts: Sequence[str], by: By) -> Table:
    """A row for each run or answer, with all digits."""
    rows: list[list[Cell]] = []
    if by == "answer":
        for each in scores.answers:
            values = (*map(each.values.get, measures), *map(each.counts.get, counts))
            rows.append([each.run, each.query_id, *values])
        return Table(("run", "query_id", *measures, *counts), rows)
    for one in scores.runs:
        name, answers, *numbers = _counted(one, counts)
        means = (one.means[measure] for measure in measures)
        ends = (end for mean in means for end in (mean.value, mean.low, mean.high))
        rows.append([name, answers, *ends, *numbers])
    columns = (f"{name}{end}" for name in measures for end in ("", "_low", "_high"))
    return Table(("run", "answers", *columns, *counts, "absent"), rows)


def missing_lines(scores: Scores, measures: Sequence[str]) -> Iterator[str]:
    """Say what was missing, how it counts, and why there is no value."""
    total: Counter[str] = Counter()
    for run in scores.runs:
        total.update(run.counts)
    for number, what in (
        (total["failed"] + total["missing"], "nuggets without an assignment: they do not count"),
        (total["outside"], "citations outside of the references: they support nothing"),
        (total["undecided"], "answers without a verdict: they do not count"),
        (total["unrated"], "nuggets without importance: they count in A and A_strict only"),
        *((total[name], name) for name in sorted(total) if name.startswith("undecided: ")),
    ):
        if number:
            yield f"{number:,} {what}"
    pairs = [(run.run, query) for run in scores.runs for query in run.absent]
    if pairs:
        yield (
            f"absent, of queries that other runs answer or that nothing was retrieved for: "
            f"{len(pairs):,}; they do not count, as of {pairs[0][0]!r} to query {pairs[0][1]!r}"
        )
    reasons = names_by(
        (cut(reason, 200), f"{name} of {answer.run}")
        for answer in scores.answers
        for name in measures
        if (reason := answer.without.get(name)) is not None
    )
    common = sorted(reasons.items(), key=lambda each: -len(each[1]))
    for why, names in common[:_REASONS]:
        yield f"no value, {counted(len(names), 'time')}, as {names[0]}: {why}"
    if len(common) > _REASONS:
        yield f"and {len(common) - _REASONS:,} more reasons; --json has them all"
    whys = {run.means[name].reason for run in scores.runs for name in measures} - {None}
    yield from (f"no interval: {why}" for why in sorted(map(str, whys)))


# Answers from runs


@page_of.register
def answers_page(metrics: AnswerMetrics, out: Path = Path()) -> Page:
    """Give the page of answers, which were written to the folder `out`."""
    scores = {
        "agreement": metrics.agreement,
        "nuggets": metrics.nuggets,
        "citations": metrics.citations,
    }
    rankings = {run: evaluation.means for run, evaluation in metrics.rankings.items()}
    data = {
        "account": metrics.account,
        **scores,
        "coverage": metrics.coverage,
        "rankings": rankings,
    }
    parts = (_agreement(metrics), _nuggets(metrics), *_citations(metrics), *_rankings(metrics))
    return Page(
        f"{out}: {counted(len(metrics.answering.answers), 'answer')} from "
        f"{counted(len(metrics.account.runs), 'run')}",
        (
            *parts,
            *_relations(metrics),
            *_cases(metrics, out),
            *map(Text, _answer_lines(metrics, out)),
        ),
        data={**data, "relations": metrics.relations},
        rows=Table(
            ("of", "run", "measure", "mean", "low", "high"),
            [
                (name, one.run, measure, mean.value, mean.low, mean.high)
                for name, of in scores.items()
                for one in (of.runs if of is not None else ())
                for measure, mean in one.means.items()
            ],
        ),
    )


def _section(title: str, scores: Scores, names: list[str], *counts: str, note: str = "") -> Page:
    lines = [note] if note else []
    lines += missing_lines(scores, names)
    tables = scores_tables(scores, names, counts, last=_GOLD)
    return Page(title, (*tables, *notes(*lines)))


def _agreement(metrics: AnswerMetrics) -> Page:
    depths = ", ".join(map(str, metrics.account.k))
    decides, *others = (f"{name} ≥ {least:g}" for name, least in metrics.account.comparers.items())
    note = f"agreement is by {decides}" + (f"; next to it {', '.join(others)}" if others else "")
    title = f"agreement with the answers from the gold chunks, top {depths} (LLM-retEval)"
    names = list(metrics.agreement.measures)
    return _section(title, metrics.agreement, names, "agree", "disagree", "undecided", note=note)


def _nuggets(metrics: AnswerMetrics) -> Page:
    partly = metrics.account.scale.name != "binary"
    names = ["A_strict", "V_strict", "A"] if partly else ["A_strict", "V_strict"]
    measured = {"A_strict", *(name for one in metrics.nuggets.answers for name in one.values)}
    shown = [name for name in names if name in measured]
    title = "nuggets that the answers support; gold: the answers from the gold chunks"
    return _section(title, metrics.nuggets, shown, "nuggets", "failed")


def _citations(metrics: AnswerMetrics) -> Iterator[Page]:
    if metrics.citations is not None:
        names = ["weighted_precision_first", "weighted_recall_first"]
        title = "support of the sentences by the first chunk that each cites (TREC RAG)"
        yield _section(title, metrics.citations, names, "uncited", "unlabelled")


def _rankings(metrics: AnswerMetrics) -> Iterator[Page]:
    if not metrics.rankings:
        return
    measures = next(iter(metrics.rankings.values())).measures
    if len(metrics.account.k) > 1:  # each run has its own cut-off, which its name says
        measures = tuple(name.partition("@")[0] for name in measures)
    rows: list[tuple[Cell, ...]] = []
    for run in (*metrics.rankings, _GOLD):
        if (mean := metrics.coverage.get(run)) is not None:
            means = metrics.rankings[run].means.values() if run in metrics.rankings else ()
            without = [None] * (len(measures) - len(means))
            rows.append((run, Value(mean.value), mean.groups, *means, *without))
    header = ("run", "Cov(y)", "answers", *measures)
    title = "answerable nuggets that the answers support, next to the rankings"
    yield Page(title, (Table(header, rows, ids=(0,)),))


def _relations(metrics: AnswerMetrics) -> Iterator[Page]:
    if not metrics.relations:
        return
    rows: list[tuple[Cell, ...]] = []
    lines = [
        "above: the measure's value is above 0; below: it is 0",
        "above, not: look for distracting chunks (case C of the paper), or model errors",
        "below, agrees: look for unjudged chunks (cases A, B), or what the model knows",
        "refined: without the queries on which recall seems to fail (cases A, B and C)",
    ]
    for run, each in metrics.relations.items():
        counts = (each.found_agree, each.found_disagree, each.missed_agree, each.missed_disagree)
        spearman = (Value(each.spearman.value), Value(each.refined.value))
        phi = Value(each.phi.value)
        rows.append(((run, each.measure), each.queries, *counts, phi, spearman))
        for ids, what in (
            (each.without_value, f"a value of {each.measure}"),
            (each.without_verdict, "a verdict"),
        ):
            if ids:
                number = counted(len(ids), "query", "queries")
                lines.append(f"{cut(run)}: {number} without {what}, left out, as {cut(ids[0])}")
        if each.phi.reason is not None:
            lines.append(f"{cut(run)}: no phi for {each.measure}: {each.phi.reason}")
    header = (
        *("run", "queries", "above,\nagrees", "above,\nnot", "below,\nagrees", "below,\nnot"),
        *("phi", "Spearman\nrefined"),
    )
    title = "queries by the ranking measure and by whether the answer agrees"
    yield Page(title, (Table(header, rows, ids=(0,)), *notes(*lines)))


def _cases(metrics: AnswerMetrics, out: Path) -> Iterator[Text]:
    """Give an example of every case of failure."""
    for case, what in CASES.items():
        if of := [one for one in metrics.cases if one.case == case]:
            yield Text(f"case {case} ({len(of)}): {what}")
            texts = {"question": of[0].question, "gold": of[0].gold_answer}
            for name, text in (*texts.items(), (of[0].run_id, of[0].answer)):
                yield Text(f"{name}: {cut(' '.join(text.split()) or '–', 100)}", "item")
    if metrics.cases:
        yield Text(
            f"all {len(metrics.cases)} with their nuggets: {out / 'cases.jsonl'}; read them to be sure"
        )


def _named(models: Sequence[str]) -> str:
    return " and ".join(f"{one}, a word counter" if one == BASELINE else one for one in models)


def _answer_lines(metrics: AnswerMetrics, out: Path) -> Iterator[str]:
    answering, models = metrics.answering, metrics.account.models
    yield f"answered by {_named([metrics.account.model])}"
    for step, what in (("comparison", "compared"), ("assignment", "judged")):
        if step in models:
            yield f"{what} by {_named(models[step])}"
    if warning := grading_own_words(models):
        yield warning
    everything = (*answering.answers, *answering.gold_answers)
    if omitted := sum(len(one.omitted) for one in everything):
        yield (
            f"{counted(omitted, 'chunk')} not shown to the generator, for there was no room in the "
            "model's window, or no text; see omitted in answers.jsonl and gold_answers.jsonl"
        )
    if empty := sum(one.status == "ok" and not one.is_answered for one in answering.answers):
        yield f"{counted(empty, 'context')} in which the generator metrics no answer"
    if answering.failures:
        yield f"{counted(len(answering.failures), 'failure')}; see {out / 'failures.jsonl'}"


# Contexts


@page_of.register
def contexts_page(table: ContextTable) -> Page:
    """Give the page of contexts and reports: Table 1 of CRUX."""
    means = {row: table.means(row) for row in table.values}
    columns = [name for name in _COLUMNS if any(name in of for of in means.values())]
    unjudged = table.unjudged
    rows: list[tuple[Cell, ...]] = [
        (row, *map(of.get, columns), percent(unjudged.get(row))) for row, of in means.items()
    ]
    exact = [(row, *map(of.get, columns), unjudged.get(row)) for row, of in means.items()]
    header = ("context", *columns, "unjudged")
    return Page(
        f"contexts Z of {table.size}{', reports y' if table.reports else ''}",
        (Table(header, rows, ids=(0,)), *notes(*_context_lines(table))),
        data={"size": table.size, "means": means, "unjudged": unjudged, "reports": table.reports},
        rows=Table(header, exact),
    )


def _context_lines(table: ContextTable) -> Iterator[str]:
    for one in table.agreements:
        tau = one.kendall.reason if one.kendall.value is None else Value(one.kendall.value)
        yield f"Kendall's τ of {one.first} and {one.second} over the runs: {tau}"
    if omitted := sum(len(one.omitted) for one in table.reports):
        chunks = counted(omitted, "chunk")
        yield f"{chunks} not shown to the writer, for there was no room or no text"
    if failed := sum(one.coverage is None for one in table.reports):
        yield f"{counted(failed, 'report')} without a rating, left out of Cov(y) and Den(y)"
    yield "unjudged: the share of a context's chunks that has no label, and answers nothing"
    for step, what in (("answer", "written"), ("assignment", "rated")):
        if step in table.models:
            yield f"reports {what} by {' and '.join(table.models[step])}"
    if warning := grading_own_words(table.models):
        yield warning
    yield table.labels_by
