"""What is shown of answers next to rankings, and of contexts."""

from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any, get_args

from freshstack_dspy.answering.cases import CASES
from freshstack_dspy.answering.contexts import BOUNDS, OF_REPORTS, ContextTable
from freshstack_dspy.answering.metrics import FAMILIES, AnsweringAccount, AnswerMetrics
from freshstack_dspy.answering.scores import Scores
from freshstack_dspy.lm.request import BASELINE
from freshstack_dspy.lm.usage import grading_own_words
from freshstack_dspy.measures.density import ChunkKind, mean_redundancy
from freshstack_dspy.pages.page import (
    Cell,
    Page,
    Table,
    Text,
    Value,
    counted,
    cut,
    interval,
    notes,
    p_value,
)
from freshstack_dspy.pages.shown import page_of
from freshstack_dspy.records import DRY_RUN, is_oracle
from freshstack_dspy.views.measures import redundancy_table
from freshstack_dspy.views.scores import GOLD, missing_lines, run_tables

_SHOWN = 3
"""How many examples of one kind are shown."""


# Answers from runs


@page_of.register
def answers_page(metrics: AnswerMetrics, out: Path = Path()) -> Page:
    """Give the page of answers, which were written to the folder `out`."""
    account = metrics.account
    scores = {
        "agreement": metrics.agreement,
        "nuggets": metrics.nuggets,
        "citations": metrics.citations,
        "accepted": metrics.accepted,
        "checks": metrics.checks,
    }
    return Page(
        f"{out}: {counted(len(metrics.answering.answers), 'answer')} from {_sources(account)}",
        (
            *_systems(metrics),
            *_scored(metrics),
            *_rankings(metrics),
            *_compared(metrics),
            *_relations(metrics),
            *_cases(metrics, out),
            *map(Text, _answer_lines(metrics, out)),
        ),
        data={
            "account": account,
            **scores,
            "coverage": metrics.coverage,
            "rankings": {run: evaluation.means for run, evaluation in metrics.rankings.items()},
            "relations": metrics.relations,
        },
        rows=Table(
            ("of", "run", "measure", "mean", "low", "high"),
            [
                (name, run.run, measure, mean.value, mean.low, mean.high)
                for name, of in scores.items()
                for run in (of.runs if of is not None else ())
                for measure, mean in run.intervals.items()
            ],
        ),
    )


def _sources(account: AnsweringAccount) -> str:
    """Say from how many runs and systems answers are."""
    systems = len(account.systems)
    runs = [counted(number, "run") for number in [len(account.runs) - systems] if number]
    return " and ".join(runs + ([counted(systems, "system")] if systems else []))


_KINDS = ("answer", "copied", "declined", "empty", "failed", "undecided")
_MEANINGS = (
    "copied: it is a passage of the corpus, word for word; declined: it says that it does not answer",
    "an empty answer holds no nugget; one that failed, as the system says, does not count",
    "contradicting: answers that contradict a nugget, and below the mean share of the nuggets",
    "no answer: queries without one, which do not count",
)


def _systems(metrics: AnswerMetrics) -> Iterator[Page]:
    """What the answers of systems are, and the nuggets in those that answer."""
    if metrics.checks is None:
        return
    recalls = {run.run: run.values("A_strict") for run in metrics.nuggets.runs}
    answering = {
        run.run: [
            recalls[run.run][query]
            for query, counts in run.counts.items()
            if not counts.keys() & {"declined", "empty"} and query in recalls[run.run]
        ]
        for run in metrics.checks.runs
    }
    columns: dict[str, Any] = {"system": "run"}
    columns |= {
        {"answer": "answers"}.get(kind, kind): lambda run, kind=kind: run.total[kind]
        for kind in _KINDS
        if kind in ("answer", "empty") or any(run.total[kind] for run in metrics.checks.runs)
    }
    columns["no answer"] = lambda run: len(run.absent)
    columns["contra-\ndicting"] = lambda run: (
        run.total["contradicting"],
        Value(run.means["contradicted"]),
    )
    columns["A_strict where\nit answers"] = lambda run: Value(
        fmean(answering[run.run]) if answering[run.run] else None
    )
    table = Table.of(metrics.checks.runs, columns, ids=(0,))
    meanings = (each for each in _MEANINGS if "copied" not in each or "copied" in columns)
    yield Page("the answers of systems", (table, *notes(*meanings), *_examples(metrics)))


def _examples(metrics: AnswerMetrics) -> Iterator[Text]:
    """Show the first answers that contradict a nugget, and citations that are not in the corpus."""
    contradictions = [
        (check, contradiction)
        for check in metrics.answering.checks
        for contradiction in (check.contradictions or ())[:1]
    ]
    for check, first in contradictions[:_SHOWN]:
        yield Text(
            f"{cut(check.run_id)} to {cut(check.query_id)}: “{cut(first.quote, 100)}”", "item"
        )
        yield Text(f"contradicts: {cut(first.nugget, 100)}", "item")
    outside = [each for each in metrics.answering.answers if each.outside]
    if outside:
        number = sum(len(each.outside) for each in outside)
        yield Text(
            f"{counted(number, 'reference is', 'references are')} outside the corpus, so that "
            "they support nothing and are not relevant:"
        )
    for answer in outside[:_SHOWN]:
        why = next(iter(answer.outside.values()))
        yield Text(f"{cut(answer.run_id)} to {cut(answer.topic_id)}: {cut(why, 150)}", "item")


def _compared(metrics: AnswerMetrics) -> Iterator[Page]:
    """Every two runs and systems but oracles, with tests."""
    if sum(not is_oracle(run) for run in metrics.account.runs) < 2:
        return
    comparison = metrics.compare()
    columns: dict[str, Any] = {
        "measure": lambda each: each.measure.replace("_", " "),
        "pair": lambda each: f"{each.run} − {each.against}",
        "queries": "queries",
        "difference": lambda each: interval(each.interval, "+.4f", "+.3f"),
        "p adjusted": lambda each: p_value(each.adjusted_p),
        "verdict": "verdict",
    }
    if metrics.dry_run:
        del columns["p adjusted"]
    note = (
        "on the queries that both answer; 95 % bootstrap intervals, and p of the paired permutation "
        "test, adjusted over all lines (Holm)"
    )
    table = Table.of(comparison.differences, columns, keys=1, ids=(1,))
    yield Page("differences", (table, *notes(note)))


def _scored(metrics: AnswerMetrics) -> Iterator[Page]:
    """The sections of agreement with the gold answers, of nuggets and of citations."""

    def section(title: str, scores: Scores, names: list[str], *counts: str, note: str = "") -> Page:
        tables = run_tables(scores, names, counts)
        return Page(title, (*tables, *notes(note, *missing_lines(scores, names))))

    account = metrics.account
    each = [f"{name} ≥ {least:g}" for name, least in account.comparers.items()]
    if account.combine == "first":
        note = f"agreement is by {each[0]}"
        note += f"; next to it {', '.join(each[1:])}" if each[1:] else ""
    else:
        note = f"agreement is by {account.combine} of {', '.join(each)}"
    yield section(
        "agreement with the answers from the gold chunks, top "
        f"{', '.join(map(str, account.k))} (LLM-retEval)",
        metrics.agreement,
        list(metrics.agreement.measures),
        *("agree", "disagree", "undecided"),
        note=note,
    )
    if metrics.accepted is not None:
        yield section(
            "agreement with the answers that people accepted",
            metrics.accepted,
            list(metrics.accepted.measures),
            *("agree", "disagree", "undecided"),
        )
    measured = {"A_strict"}.union(
        *(run.per_query[q] for run in metrics.nuggets.runs for q in run.per_query)
    )
    partly = ["A"] if account.scale.name != "binary" else []
    yield section(
        "nuggets that the answers support; gold: the answers from the gold chunks",
        metrics.nuggets,
        [name for name in ("A_strict", "V_strict", *partly) if name in measured],
        *("nuggets", "failed"),
    )
    if metrics.citations is not None:
        yield section(
            "support of the sentences by the first chunk that each cites (TREC RAG)",
            metrics.citations,
            ["weighted_precision_first", "weighted_recall_first"]
            + ["weighted_recall_best"] * bool(account.systems),
            *("uncited", "unlabelled", *(["outside"] if account.systems else [])),
        )


def _rankings(metrics: AnswerMetrics) -> Iterator[Page]:
    if not metrics.rankings:
        return
    measures = next(iter(metrics.rankings.values())).measures
    if metrics.account.systems or len(metrics.account.k) > 1:
        measures = FAMILIES  # each has its own cut-off, which its name says, or none
    rows: list[tuple[Cell, ...]] = []
    for run in (*metrics.rankings, GOLD):
        if (mean := metrics.coverage.get(run)) is not None:
            means = metrics.rankings[run].means.values() if run in metrics.rankings else ()
            if run == GOLD and metrics.gold_context is not None:
                means = metrics.gold_context.means.values()
            without = [None] * (len(measures) - len(means))
            rows.append((run, Value(mean.value), mean.groups, *means, *without))
    title = "answerable nuggets that the answers support, next to the rankings"
    systems = [run for run in metrics.account.systems if run in metrics.rankings]
    note = (
        f"of {', '.join(map(cut, systems))}: all that it was shown or cites, without a cut-off; of "
        "gold: the gold chunks, a bound"
        if systems
        else ""
    )
    table = Table(("run", "Cov(y)", "answers", *measures), rows, ids=(0,))
    yield Page(title, (table, *notes(note)))


def _relations(metrics: AnswerMetrics) -> Iterator[Page]:
    if not metrics.relations:
        return
    lines = [
        "above: the measure's value is above 0; below: it is 0",
        "above, not: look for distracting chunks (case C of the paper), or model errors",
        "below, agrees: look for unjudged chunks (cases A, B), or what the model knows",
        "refined: without the queries on which recall seems to fail (cases A, B and C)",
    ]
    for run, relation in metrics.relations.items():
        for ids, what in (
            (relation.without_value, f"a value of {relation.measure}"),
            (relation.without_verdict, "a verdict"),
        ):
            if ids:
                number = counted(len(ids), "query", "queries")
                lines.append(
                    f"{cut(run)}: {number} without {what}, left out, such as {cut(ids[0])}"
                )
        if relation.phi.reason is not None:
            lines.append(f"{cut(run)}: no phi for {relation.measure}: {relation.phi.reason}")
    columns: dict[str, Any] = {
        "run": lambda row: (row[0], row[1].measure),
        "queries": lambda row: row[1].queries,
        "above,\nagrees": lambda row: row[1].found_agree,
        "above,\nnot": lambda row: row[1].found_disagree,
        "below,\nagrees": lambda row: row[1].missed_agree,
        "below,\nnot": lambda row: row[1].missed_disagree,
        "phi": lambda row: Value(row[1].phi.value),
        "Spearman\nrefined": lambda row: (
            Value(row[1].spearman.value),
            Value(row[1].refined.value),
        ),
    }
    title = "queries by the ranking measure and by whether the answer agrees"
    yield Page(title, (Table.of(metrics.relations.items(), columns, ids=(0,)), *notes(*lines)))


def _cases(metrics: AnswerMetrics, out: Path) -> Iterator[Text]:
    """Give an example of every case of failure."""
    for case, what in CASES.items():
        if found := [each for each in metrics.cases if each.case == case]:
            first = found[0]
            yield Text(f"case {case} ({len(found)}): {what}")
            for name, text in (
                ("question", first.question),
                ("gold", first.gold_answer),
                (first.run_id, first.answer),
            ):
                yield Text(f"{name}: {cut(' '.join(text.split()) or '–', 100)}", "item")
    if metrics.cases:
        yield Text(
            f"all {len(metrics.cases)} with their nuggets: {out / 'cases.jsonl'}; read them to be sure"
        )


def _answer_lines(metrics: AnswerMetrics, out: Path) -> Iterator[str]:
    answering, account = metrics.answering, metrics.account
    yield from _asked(
        {"answer": (account.model,), "gold_answer": (account.model,), **account.models},
        {
            ("gold_answer" if account.runs == account.systems else "answer"): "answered",
            "comparison": "compared",
            "assignment": "judged",
        },
    )
    if warning := grading_own_words(account.models):
        yield warning
    everything = (*answering.answers, *answering.gold_answers)
    if omitted := sum(len(each.omitted) for each in everything):
        yield (
            f"{counted(omitted, 'chunk')} not shown to the generator, for there was no room in the "
            "model's window, or no text; see omitted in answers.jsonl and gold_answers.jsonl"
        )
    if account.left_out:
        answers = counted(account.left_out, "answer")
        yield f"{answers} left out, to queries without a supported nugget"
    generated = (each for each in answering.answers if each.run_id not in account.systems)
    if empty := sum(each.status == "ok" and not each.is_answered for each in generated):
        yield f"{counted(empty, 'context')} in which the generator found no answer"
    if answering.failures:
        yield f"{counted(len(answering.failures), 'failure')}; see {out / 'failures.jsonl'}"


def _asked(models: dict[str, tuple[str, ...]], steps: dict[str, str]) -> Iterator[str]:
    """Say which models did what."""
    for step, what in steps.items():
        if step in models:
            names = (
                f"{name}, a word counter" if name == BASELINE else name for name in models[step]
            )
            yield f"{what} by {' and '.join(names)}"


# Contexts


@page_of.register
def contexts_page(table: ContextTable) -> Page:
    """Give the page of contexts and reports: Table 1 of CRUX."""
    means = {row: values.means for row, values in table.values.items()}
    names = list(dict.fromkeys(name for of_row in means.values() for name in of_row))
    names.sort(key=OF_REPORTS.__contains__)  # the bounds have these alone, and come first

    def mean(name: str) -> Any:
        return lambda row: means[row].get(name)

    columns: dict[str, Any] = {"context": str, **{name: mean(name) for name in names}}
    shown = _spread(means, names) if table.sampled else Table.of(means, columns, ids=(0,))
    chunks = {"mean": mean_redundancy(table.chunks.values())} if table.sampled else table.chunks
    return Page(
        f"{f'{DRY_RUN}. ' if table.dry_run else ''}contexts Z of {table.size}"
        f"{', reports y' if table.reports else ''}",
        (
            shown,
            *redundancy_table(chunks, "context"),
            *_correlations(table),
            *notes(*_context_lines(table)),
        ),
        data={
            "size": table.size,
            "threshold": table.threshold,
            "dry_run": table.dry_run,
            "means": means,
            "chunks": table.chunks,
            "correlations": table.correlations,
            "reports": table.reports,
        },
        rows=Table.of(
            means,
            columns
            | {
                kind: lambda row, kind=kind: table.chunks.get(row, {}).get(kind)
                for kind in get_args(ChunkKind)
            },
        ),
    )


def _spread(means: dict[str, dict[str, float]], names: list[str]) -> Table:
    """Show how far the means of many contexts lie apart."""
    columns = [[of_row[name] for of_row in means.values() if name in of_row] for name in names]
    rows: list[tuple[Cell, ...]] = [
        ("lowest", *map(min, columns)),
        ("mean", *map(fmean, columns)),
        ("highest", *map(max, columns)),
    ]
    return Table((f"of {len(means)}", *names), rows)


def _correlations(table: ContextTable) -> Iterator[Table]:
    if table.correlations:
        contexts = len(table.values.keys() - {*BOUNDS})
        what = f"{contexts} {'drawn contexts' if table.sampled else 'runs'}"
        yield Table(
            ("measure", *OF_REPORTS),
            [
                (measure, *(Value(tau.value, tau.low, tau.high) for tau in taus.values()))
                for measure, taus in table.correlations.items()
            ],
            f"Kendall's τ of the means of {what}, with its 95 % interval over queries",
        )


def _context_lines(table: ContextTable) -> Iterator[str]:
    if omitted := sum(len(report.omitted) for report in table.reports):
        chunks = counted(omitted, "chunk")
        yield f"{chunks} not shown to the writer, for there was no room or no text"
    if shortened := sum(report.cut_from is not None for report in table.reports):
        of_all = counted(len(table.reports), "report")
        yield f"{shortened} of {of_all} were cut to the tokens of the oracle context, as in the paper"
    if failed := sum(report.coverage is None for report in table.reports):
        yield f"{counted(failed, 'report')} without a rating, left out of Cov(y) and Den(y)"
    yield f"a sub-question is answered from a grade of {table.threshold} on (η)"
    yield from _asked(table.models, {"answer": "reports written", "assignment": "reports rated"})
    if warning := grading_own_words(table.models):
        yield warning
    yield table.labels_by
