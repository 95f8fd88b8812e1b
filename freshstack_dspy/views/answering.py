"""What is shown of answers next to rankings, and of contexts."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, get_args

from freshstack_dspy.answering.cases import CASES
from freshstack_dspy.answering.contexts import BOUNDS, OF_REPORTS, ContextTable
from freshstack_dspy.answering.metrics import (
    FAMILIES,
    AnswerFindings,
    AnsweringAccount,
    AnswerMetrics,
)
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
    items,
    notes,
    p_value,
)
from freshstack_dspy.pages.shown import page_of
from freshstack_dspy.records import DRY_RUN, is_oracle
from freshstack_dspy.views.measures import redundancy_table
from freshstack_dspy.views.scores import GOLD, means_by_run, missing_lines

_SHOWN = 3
"""How many examples of one kind are shown."""


# Answers from runs


@page_of.register
def answers_page(metrics: AnswerMetrics, out: Path = Path(), limit: int = 10) -> Page:
    """Give the page of answers, which were written to the folder `out`.

    Args:
        metrics: The answers and their metrics.
        out: The folder.
        limit: How many answers of systems are listed, the worst first.
    """
    account, findings = metrics.account, metrics.by_answer()
    scores = {
        "agreement": metrics.agreement,
        "nuggets": metrics.nuggets,
        "citations": metrics.citations,
        "accepted": metrics.accepted,
        "checks": metrics.checks,
    }
    return Page(
        f"{f'{DRY_RUN}. ' if metrics.dry_run else ''}{out}: "
        f"{counted(metrics.number, 'answer')} from {_sources(account)}",
        (
            *_by_answer(findings, account, limit),
            *_systems(metrics),
            *_means(metrics),
            *_rankings(metrics),
            *_compared(metrics),
            *_relations(metrics),
            *_cases(metrics, out),
            *map(Text, _answer_lines(metrics, out)),
        ),
        data={
            "account": account,
            "by_answer": findings,
            **{name: each for name, each in scores.items() if each is not None},
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


def _by_answer(
    findings: Sequence[AnswerFindings], account: AnsweringAccount, limit: int
) -> Iterator[Page]:
    """List answers of systems, and what is wrong with them."""
    if not findings or not limit:
        return

    def right(answer: AnswerFindings) -> str:
        agrees = {True: "yes", False: "no", None: "–"}[answer.agrees]
        return agrees if answer.kind == "answer" else f"{agrees}, {answer.kind}"

    def supported(number: int, *without: Sequence[str]) -> str:
        return f"{number - sum(map(len, without))} of {number}"

    several = len(account.systems) > 1
    columns: dict[str, Any] = {"question": "query_id", **({"system": "run"} if several else {})}
    columns |= {
        "right": right,
        "nuggets": lambda each: supported(each.nuggets, each.missing, each.partly),
        "contradicted": lambda each: len(each.contradictions),
        "sentences\nsupported": lambda each: supported(each.sentences, each.unsupported),
    }
    listed = findings[:limit]
    parts: list[Table | Text] = [Table.of(listed, columns, keys=1 + several, ids=(0,))]
    for answer in listed:
        details = (
            *(
                Text(f"contradicts: {cut(each.nugget)} – “{cut(each.quote)}”", "item")
                for each in answer.contradictions[:_SHOWN]
            ),
            *items([f"misses: {cut(text, 100)}" for text in answer.missing], _SHOWN),
            *items([f"has in part: {cut(text, 100)}" for text in answer.partly], _SHOWN),
            *items([f"not supported: {cut(text, 100)}" for text in answer.unsupported], _SHOWN),
        )
        if details:
            system = f" ({cut(answer.run)})" if several else ""
            parts += [Text(f"{cut(answer.query_id)}{system}: {cut(answer.question)}"), *details]
    against = "the accepted answer"
    if account.gold_answers:
        against += ", or without one with an answer from the gold chunks"
    more = len(findings) - len(listed)
    parts += notes(
        f"right: it agrees with {against}; nuggets: those that it supports; sentences: those that "
        "something they cite supports",
        f"{more:,} more: --limit N lists N, --json all" if more else "",
    )
    yield Page("by answer, the worst first", tuple(parts))


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
    yield Page("the answers of systems", (table, *notes(*meanings), *_outside(metrics)))


def _outside(metrics: AnswerMetrics) -> Iterator[Text]:
    """Show citations that are not in the corpus."""
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


def _means(metrics: AnswerMetrics) -> Iterator[Page]:
    """The means of agreement, of the nuggets in the answers and of citation support, by run."""
    account = metrics.account
    each = [f"{name} ≥ {least:g}" for name, least in account.comparers.items()]
    by = f"{account.combine} of {', '.join(each)}"
    if account.combine == "first":
        by = f"{each[0]}; next to it {', '.join(each[1:])}" if each[1:] else each[0]
    measured = {
        name for run in metrics.nuggets.runs for of in run.per_query.values() for name in of
    }
    partly = ["A"] if account.scale.name != "binary" else []
    recalls = [
        name for name in ("A_strict", "V_strict", *partly) if name in measured | {"A_strict"}
    ]
    support = ["weighted_precision_first", "weighted_recall_first"]
    support += ["weighted_recall_best"] * bool(account.systems)
    rows: list[tuple[Cell, ...]] = []
    lines: list[str] = []

    def add(scores: Scores | None, names: Sequence[str], meaning: str, prefix: str = "") -> None:
        if scores is None:
            return
        names = names or scores.measures
        for name, run, mean in means_by_run(scores, names):
            rows.append((prefix + name, *mean, len(run.values(name))))
        lines.extend((meaning, *missing_lines(scores, names)))

    depths = ", ".join(map(str, account.k))
    add(
        metrics.agreement,
        (),
        f"agreement: with the answers from the gold chunks, top {depths} (LLM-retEval), by {by}",
    )
    add(metrics.accepted, (), f"accepted: with the accepted answers, by {by}", "accepted ")
    add(
        metrics.nuggets,
        recalls,
        "A_strict, V_strict: the share of all nuggets and of vital ones that the answers support",
    )
    add(
        metrics.citations,
        support,
        "weighted: support of the sentences by the first chunk that each cites (TREC RAG)",
    )
    table = Table(("measure", "run", "mean", "95 %", "answers"), rows, keys=2, ids=(1,))
    gold = "gold: the answers from the gold chunks" if account.gold_answers else ""
    yield Page("means over the answers", (table, *notes(*dict.fromkeys([*lines, gold]))))


def _rankings(metrics: AnswerMetrics) -> Iterator[Page]:
    if not metrics.rankings:
        return
    measures = next(iter(metrics.rankings.values())).measures
    if metrics.account.systems or len(metrics.account.k) > 1:
        measures = FAMILIES  # each has its own cut-off, which its name says, or none
    rows: list[tuple[Cell, ...]] = []
    for run in (*metrics.rankings, GOLD):
        mean = metrics.coverage.get(run)
        ranking = metrics.gold_context if run == GOLD else metrics.rankings[run]
        if mean is not None or ranking is not None:
            means = ranking.means.values() if ranking is not None else ()
            without = [None] * (len(measures) - len(means))
            coverage = (None, None) if mean is None else (Value(mean.value), mean.groups)
            rows.append((run, *coverage, *means, *without))
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
    step = "gold_answer" if account.runs == account.systems else "answer"
    asks = step == "answer" or account.gold_answers
    yield from _asked(
        {**({step: (account.model,)} if asks else {}), **account.models},
        {
            step: "answered",
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
