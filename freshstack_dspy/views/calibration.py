"""The pages on people's labels: agreement, samples, corrected values, optimized programs."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from freshstack_dspy.calibration.agreement import AgreementReport, Disagreement, NuggetRatings
from freshstack_dspy.calibration.correction import Correction
from freshstack_dspy.calibration.optimization import TUNED, OptimizationReport
from freshstack_dspy.calibration.sampling import Sample
from freshstack_dspy.calibration.scoring import LEAST_QUERIES
from freshstack_dspy.measures.decision import labelling_time
from freshstack_dspy.measures.ppi import FEWEST_ITEMS, Corrected
from freshstack_dspy.measures.statistics import Interval
from freshstack_dspy.pages.page import (
    Cell,
    Page,
    Span,
    Table,
    Text,
    Value,
    counted,
    cut,
    interval,
    located,
    marked,
    money,
    names_by,
    notes,
)
from freshstack_dspy.pages.shown import page_of

_WHAT = {
    "support": "judge compared with {people}",
    "answerability": "judge compared with {people}, on whether a chunk answers a sub-question",
    "report": "judge compared with {people}, on whether reports answer sub-questions",
    "answer": "comparer compared with {people}, on whether answers agree, here called support",
}
_PAPER = {"precise": 0.901, "grounded": 0.964, "recall": 0.966}
"""Table 5 of FreshStack: GPT-4o's nuggets of 60 questions about LangChain."""
_CRUX = (
    "CRUX, §4.3, on 30 reports: Fleiss' κ of three people .52; Pearson's r of the model with each of "
    "them .90, .82, .79; Spearman's rho at least .8"
)
_OF_SLICES = {
    "kappa": "kappa",
    "precision of support": "precision",
    "recall of support": "recall",
}
_COLUMNS = ("metric", "rater", "value", "low", "high")
_AROUND = 200
"""How many characters of a passage are shown around its evidence."""


# Agreement


@page_of.register
def agreement_page(report: AgreementReport, disagreements: int = 5) -> Page:
    """Give the page of a judge compared with people, with its worst disagreements."""
    people = counted(len(report.annotators), "annotator")
    pairs, labels = counted(report.pairs, "pair"), counted(report.labels, "label")
    title = f"{_WHAT[report.kind].format(people=people)}: {pairs}, {labels}"
    if report.kind == "support":
        title += f", support from {report.threshold} on"
    worst = report.disagreements[:disagreements]
    parts = [
        *_left_out(report),
        *metrics_parts(report),
        *notes(*_read_as(report)),
        confusion_table(report, "judge", "people"),
        *_coverage_parts(report),
    ]
    if report.slices:
        rows: list[tuple[Cell, ...]] = [
            (
                part.name,
                part.pairs,
                *(interval(part.metrics.get(name), ".3f") for name in _OF_SLICES),
            )
            for part in report.slices
        ]
        parts.append(Table(("part", "pairs", *_OF_SLICES.values()), rows))
    hint = Span('[trust] labels = "FILE"', "code")
    if report.kind == "support" and report.trust is None:
        build = (
            "to have every result say so, name the labels in the configuration, and build again: "
        )
        parts.append(Text((build, hint)))
    return Page(
        title,
        (*parts, *(_disagreement(each, report.kind) for each in worst), *notes(report.labels_by)),
        data=report.model_copy(update={"disagreements": worst}),
        rows=_rows(
            (metric, rater, getattr(compared, rater))
            for metric, compared in report.metrics.items()
            for rater in ("judge", "people")
        ),
    )


def metrics_parts(report: AgreementReport) -> Iterator[Table | Text]:
    """Give the metrics of a judge, and of people with each other if they share labelled pairs."""
    raters = ["judge", "people"] if report.shared else ["judge"]
    metrics = {
        name: [getattr(compared, rater) for rater in raters]
        for name, compared in report.metrics.items()
    }
    yield from _table(("metric", *raters), metrics)


def confusion_table(report: AgreementReport, judge: str, person: str) -> Table:
    """Give how often each pair of labels occurs."""
    names = report.confusion.labels
    rows: list[tuple[Cell, ...]] = [
        (f"{judge} {name}", *counts)
        for name, counts in zip(names, report.confusion.counts, strict=True)
    ]
    return Table(("labels", *(f"{person} {name}" for name in names)), rows)


def _table(
    header: tuple[str, ...], intervals: Mapping[str, list[Interval | None]]
) -> Iterator[Table | Text]:
    """Make a row for each name with values and intervals, and notes on missing intervals."""
    rows: list[tuple[Cell, ...]] = []
    reasons = list[tuple[str, str]]()
    for name, values in intervals.items():
        cells = [interval(value, ".3f") for value in values]
        rows.append((name, *(each for cell in cells for each in (cell.number, cell.interval))))
        without = dict.fromkeys(value.reason for value in values if value and value.reason)
        reasons += ((reason, name) for reason in without)
    key, *columns = header
    yield Table((key, *(name for column in columns for name in (column, "95 %"))), rows)
    for reason, names in sorted(names_by(reasons).items()):
        yield Text(f"no interval for {', '.join(names)}: {reason}", "note")


def _read_as(report: AgreementReport) -> Iterator[str]:
    if any(name.startswith("kappa from") for name in report.metrics):
        yield "kappa from N on: only labels from N on count as support"
    counts = "for the judged pairs that it was sampled from" if report.weighted else "the same"
    yield f"each pair counts {counts}"
    if report.shared:
        pairs = counted(report.shared, "pair")
        yield f"people: the mean of each two, on {pairs} that several labelled"


def _left_out(report: AgreementReport) -> Iterator[Text]:
    """Say how many labels are not in the tables, and why."""
    left_out = {
        "of pairs that were not judged": report.unjudged,
        "of pairs whose judgment failed": report.failed,
        **report.lost,
    }
    number = sum(map(len, left_out.values()))
    if number:
        labels = counted(report.labels + number, "label")
        yield Text(f"{number:,} of {labels} left out, so that the tables say less:", "warning")
    for what, items in left_out.items():
        if items:
            yield Text(
                f"{len(items):,} {what}: the first is of {_named(items[0], report.kind)}", "item"
            )


def _coverage_parts(report: AgreementReport) -> Iterator[Table | Text]:
    """Show how people's and the judge's Cov(y) correlate, and their means by run."""
    if report.coverage is None:
        return
    header = "Cov(y) by", "reports", *report.coverage.correlated[0].correlations
    rows: list[tuple[Cell, ...]] = [
        (
            each.raters,
            each.reports,
            *(interval(value, ".2f") for value in each.correlations.values()),
        )
        for each in report.coverage.correlated
    ]
    yield Table(header, rows)
    values = (each for by in report.coverage.correlated for each in by.correlations.values())
    for reason in dict.fromkeys(each.reason for each in values if each.reason):
        yield Text(f"no interval: {reason}", "note")
    means: list[tuple[Cell, ...]] = [
        (each.run_id, each.judge.groups, interval(each.judge, ".3f"), interval(each.people, ".3f"))
        for each in report.coverage.runs
    ]
    yield Table(("Cov(y) of run", "reports", "judge", "people"), means, ids=(0,))
    if report.coverage.over_runs:
        tau = interval(report.coverage.over_runs, ".2f")
        yield from notes(f"Kendall's tau-b of these means, by judge and by people: {tau}")
    if report.coverage.left_out:
        number = counted(report.coverage.left_out, "report")
        yield from notes(f"Cov(y) leaves out {number} labelled in part, or with a failed rating")
    yield from notes(_CRUX)


def _disagreement(each: Disagreement, kind: str) -> Page:
    parts = [
        Text(f"{name}: {cut(text, 300)}", "item")
        for name, text in (("question", each.question), ("nugget", each.nugget))
        if text
    ]
    sides = (
        ("judge", each.judge, each.reason, each.evidence),
        (each.annotator, each.person, each.note, each.marked),
    )
    for who, label, why, words in sides:
        parts.append(Text(f"{who} {label}: {cut(why, 600) or 'no reason'}", "item"))
        if words:
            places = located(each.passage, words)
            parts.append(Text(tuple(marked(each.passage, places, _AROUND)), "excerpt", 1))
    if each.passage and not (each.evidence or each.marked):
        parts.append(Text("the passage begins:", "item"))
        parts.append(Text(tuple(marked(each.passage, (), _AROUND)), "excerpt", 1))
    said = f"judge {each.judge}, {each.annotator} {each.person}"
    return Page(f"{_named(each.item, kind)}: {said}", (*parts,))


def _named(item: tuple[str, ...], kind: str) -> str:
    last = "run" if kind in ("answer", "report") else "chunk"
    kinds = ("query", last) if kind == "answer" else ("query", "nugget", last)
    return ", ".join(f"{kind} {id_!r}" for kind, id_ in zip(kinds, item, strict=True))


@page_of.register
def ratings_page(ratings: NuggetRatings) -> Page:
    """Give the page of people's labels of nuggets."""
    people = counted(len(ratings.annotators), "annotator")
    shares: dict[str, list[Interval | None]] = {
        name: [share] for name, share in ratings.shares.items()
    }
    paper = ", ".join(f"{name} {share:.3f}" for name, share in _PAPER.items())
    lines = [f"FreshStack, Table 5, of GPT-4o's nuggets: {paper}"]
    if ratings.left_out:
        labels = counted(ratings.left_out, "label")
        lines.append(f"{labels} left out, of nuggets that are not in the collection")
    columns: dict[str, Any] = {
        "place in the list": "place",
        "nuggets": "nuggets",
        "imprecise": lambda each: Value(each.imprecise, form=".1f"),
        "ungrounded": lambda each: Value(each.ungrounded, form=".1f"),
    }
    places = Table.of(ratings.by_place, columns)
    paper = "almost half of GPT-4o's imprecise nuggets were the last, the others first or second"
    return Page(
        f"{counted(ratings.nuggets, 'nugget')} by {people}, {counted(ratings.labels, 'label')}",
        (
            *_table(("share of nuggets", "people"), shares),
            *notes(*lines),
            places,
            *notes(f"FreshStack, §5.2.1: {paper}"),
        ),
        data=ratings,
        rows=_rows((name, "people", share) for name, share in ratings.shares.items()),
    )


def _rows(named_intervals: Iterable[tuple[str, str, Interval | None]]) -> Table:
    return Table(
        _COLUMNS,
        [
            (*names, mean.value, mean.low, mean.high)
            for *names, mean in named_intervals
            if mean is not None
        ],
    )


def pages_together(title: str, pages: Mapping[str, Page]) -> Page:
    """Combine the pages for several kinds of labels into one."""
    rows = [(kind, *row) for kind, page in pages.items() for row in (page.rows or _rows([])).rows]
    data = {kind: page.data for kind, page in pages.items()}
    return Page(title, tuple(pages.values()), data=data, rows=Table(("labels", *_COLUMNS), rows))


# Samples


@page_of.register
def sample_page(sample: Sample, name: str = "sample") -> Page:
    """Give the page of a sample that was written to a file."""
    what = {"nuggets": "queries", "answer": "answers", "report": "reports"}.get(
        sample.kind, "pairs"
    )
    if sample.purpose == "runs":
        what = "queries"
    rows = [(part, size, drawn, drawn / size) for part, (size, drawn) in sample.strata.items()]
    lines = []
    if sample.kept:
        lines.append(f"{sample.kept:,} of them were there before, and stay")
    number = sum(drawn for _, drawn in sample.strata.values())
    if sample.purpose != "runs" and number < sample.limit:
        lines.append(f"there are no more {what}")
    if sample.half_width is not None:
        lines.append(_tells(sample))
    return Page(
        f"{name}: {counted(len(sample.tasks), 'task')} of kind {sample.kind}",
        (Table(("part", what, "drawn", "probability"), rows), *map(Text, lines)),
        data={"strata": sample.strata, "kept": sample.kept, "half_width": sample.half_width},
    )


def _tells(sample: Sample) -> str:
    """Say in a line what the sampled labels will tell."""
    about, number = f"about ±{sample.half_width:.2f}", len(sample.tasks)
    hours = f"{counted(number, 'label')}, {labelling_time(number, sample.seconds)}"
    if sample.purpose != "runs":
        of_agreement = sample.purpose == "agreement"
        what = "agreement" if of_agreement else "the share of pairs that support"
        expected = f"kappa to {about}" if of_agreement else f"it to {about}"
        return (
            f"for {what} ({hours}): expect {expected}; they do not tell the value of a run, which "
            "takes --for runs"
        )
    queries = sum(drawn for _, drawn in sample.strata.values())
    if queries < FEWEST_ITEMS:
        return f"for runs ({hours}): {queries} queries are too few, {FEWEST_ITEMS} are needed"
    return (
        f"for runs ({hours}): expect a run's alpha_nDCG@10 to {about}; of measures that most queries "
        "have at 1, such as RR, it can take 40 queries or more"
    )


# Corrected values


@page_of.register
def correction_page(correction: Correction) -> Page:
    """Give the page of corrected rates, means and differences, with the labels behind them."""
    rows: dict[str, list[tuple[tuple[str, ...], Corrected]]] = {
        "share of pairs that support": [
            ((name,), estimate) for name, estimate in correction.rates.items()
        ],
        "run": [
            ((run, name), estimate)
            for run, by_measure in correction.means.items()
            for name, estimate in by_measure.items()
        ],
        "difference": [
            ((f"{each.run}\n− {each.against}", each.measure), each.difference)
            for each in correction.differences
        ],
    }
    left_out = [note for note in correction.notes if note.endswith("left out")]
    parts: list[Table | Text] = [Text(line, "warning") for line in left_out]
    reasons = list[tuple[str, str]]()
    for key, estimates in rows.items():
        if any(estimate.value is not None for _, estimate in estimates):
            keys = (key, "measure")[: len(estimates[0][0])]
            header = (*keys, "judge", "corrected", "95 %: these queries\n95 %: new queries")
            sign = "+" if key == "difference" else ""
            cells = [(*named, *_cells(estimate, sign)) for named, estimate in estimates]
            parts.append(Table(header, cells, keys=len(keys), ids=(0,)))
        for names, estimate in estimates:
            if estimate.reason:
                what = "no interval" if estimate.value is not None else "not corrected"
                name = ", ".join(names[::-1]).replace("\n", " ")
                reasons.append((f"{what}: {estimate.reason}", name))
    lines = [
        (
            "corrected: had people made all labels; its first interval is for these queries, where only "
            "the labels are a sample, the second for new queries of the same kind"
        )
    ]
    for reason, values in names_by(reasons).items():
        more = f" and {len(values) - 2} more" if len(values) > 2 else ""
        lines.append(f"{reason} ({'; '.join(values[:2])}{more})")
    resting = [f"labels of people of {counted(correction.pairs, 'judged pair')}"]
    if correction.whole_queries:
        resting.append(f"{counted(correction.whole_queries, 'query', 'queries')} labelled in full")
    resting += [note for note in correction.notes if note not in left_out]
    parts += notes(*lines, "; ".join(resting))
    return Page("corrected by labels of people", tuple(parts), data=correction)


def _cells(estimate: Corrected, sign: str) -> tuple[Cell, ...]:
    form, ends = f"{sign}.4f", f"{sign}.3f"
    narrow = Value(estimate.value, estimate.low, estimate.high, form, ends)
    wide = Value(estimate.value, estimate.wide_low, estimate.wide_high, form, ends)
    return Value(estimate.judge, form=form), narrow.number, (narrow.interval, wide.interval)


# Optimization


@page_of.register
def optimization_page(
    report: OptimizationReport, program: str = "program", path: Path | None = None
) -> Page:
    """Give the page of an optimized program with this name, which was written to a file."""
    queries = report.queries
    rows = [
        (
            name,
            Value(result.before.value, form=".3f"),
            Value(result.after.value, form=".3f"),
            interval(result.difference, "+.3f", "+.3f"),
        )
        for name, result in report.test.items()
        if name != "answered" or any(report.failed)
    ]
    left_out = (
        Text(f"{counted(number, 'label')} left out, {why}", "warning")
        for why, number in report.left_out.items()
    )
    table = Table(("on the test split", "before", "after", "difference"), rows)
    return Page(
        f"{report.optimizer} for {report.model}: {queries['train']} queries to train, "
        f"{queries['dev']} to choose by, {queries['test']} to test "
        f"({counted(report.pairs, 'pair' if program in TUNED else 'example')})",
        (*left_out, table, *map(Text, _optimization_lines(report, program, path))),
        data=report,
    )


def _optimization_lines(
    report: OptimizationReport, program: str, path: Path | None
) -> Iterator[str]:
    if report.labels_by:
        yield "against NAME: before is the order of NAME itself, without a reranker"
        yield "against the best order: about the highest value that these passages allow"
        yield f"tuned and tested on {report.labels_by}"
    if report.unchanged is not None:
        yield f"the plain program stays: {report.unchanged}"
    if any(report.failed):
        before, after = (
            f"{sum(counts.values())} ({', '.join(f'{n} {status}' for status, n in counts.items())})"
            for counts in report.failures
        )
        yield (
            f"test examples without an answer: {before} before, {after} after; all rows but the "
            "last are of those that both programs answered"
        ).replace(" ()", "")
    if report.unwritten:
        yield (
            f"{counted(report.unwritten, 'question')} of the optimizer itself brought no valid "
            "reply: a prompt model of its own, or more max_tokens, may write instructions"
        )
    tested = report.queries["test"]
    if tested < LEAST_QUERIES:
        yield (
            f"caution: {counted(tested, 'test query', 'test queries')} tell little and have no "
            f"interval; one needs {LEAST_QUERIES}, of some {LEAST_QUERIES * 5 // 2} labelled queries"
        )
    facts = [
        (
            f"with {'new' if report.new_instructions else 'the plain'} instructions and "
            f"{counted(report.demonstrations, 'demonstration')}"
        ),
        "new settings" if report.new_settings else "",
        f"{report.calls:,} calls" if report.calls else "",
        f"{report.tokens:,} tokens of replies" if report.tokens else "",
        money(report.cost) if report.cost else "",
    ]
    what = ", ".join(filter(None, facts))
    if path is None:
        yield what
        return
    named = f'{program} = "{path}"'
    if ":" in program:
        named = f'NAME = {{program = "{program}", state = "{path}"}}'
    yield f"{path} written, {what}; name it in a build as [programs] {named}"
