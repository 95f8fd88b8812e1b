"""What is shown of answers next to rankings, and of contexts."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from freshstack_dspy.answering.cases import CASES
from freshstack_dspy.answering.contexts import ContextTable
from freshstack_dspy.answering.metrics import AnswerMetrics
from freshstack_dspy.answering.scores import Scores
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
    notes,
    percent,
)
from freshstack_dspy.pages.shown import page_of
from freshstack_dspy.views.scores import missing_lines, scores_tables

_GOLD = "gold"
_COLUMNS = ("Cov(Z)", "alpha_nDCG", "Cov(y)", "Den(Z)", "Den(y)")


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
