"""The page of answers from runs: how far they agree, what they hold, and what rankings say."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from freshstack_dspy.answering.cases import CASES
from freshstack_dspy.answering.scores_page import missing_lines, scores_tables
from freshstack_dspy.lm.request import BASELINE
from freshstack_dspy.lm.usage import grading_own_words
from freshstack_dspy.pages.page import Cell, Page, Table, Text, Value, counted, cut

if TYPE_CHECKING:
    from freshstack_dspy.answering.metrics import AnswerMetrics
    from freshstack_dspy.answering.scores import Scores

_GOLD = "gold"


def answers_page(found: "AnswerMetrics", out: Path) -> Page:
    """Give the page of answers, which were written to the folder `out`."""
    scores = {"agreement": found.agreement, "nuggets": found.nuggets, "citations": found.citations}
    rankings = {run: evaluation.means for run, evaluation in found.rankings.items()}
    data = {"account": found.account, **scores, "coverage": found.coverage, "rankings": rankings}
    parts = (_agreement(found), _nuggets(found), *_citations(found), *_rankings(found))
    return Page(
        f"{out}: {counted(len(found.answering.answers), 'answer')} from "
        f"{counted(len(found.account.runs), 'run')}",
        (*parts, *_relations(found), *_cases(found, out), *map(Text, _notes(found, out))),
        data={**data, "relations": found.relations},
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


def _section(title: str, scores: "Scores", names: list[str], *counts: str, note: str = "") -> Page:
    lines = [note] if note else []
    lines += missing_lines(scores, names)
    tables = scores_tables(scores, names, counts, last=_GOLD)
    return Page(title, (*tables, *(Text(line, "note") for line in lines)))


def _agreement(found: "AnswerMetrics") -> Page:
    depths = ", ".join(map(str, found.account.k))
    decides, *others = (f"{name} ≥ {least:g}" for name, least in found.account.comparers.items())
    note = f"agreement is by {decides}" + (f"; next to it {', '.join(others)}" if others else "")
    title = f"agreement with the answers from the gold chunks, top {depths} (LLM-retEval)"
    names = list(found.agreement.measures)
    return _section(title, found.agreement, names, "agree", "disagree", "undecided", note=note)


def _nuggets(found: "AnswerMetrics") -> Page:
    partly = found.account.scale.name != "binary"
    names = ["A_strict", "V_strict", "A"] if partly else ["A_strict", "V_strict"]
    measured = {"A_strict", *(name for one in found.nuggets.answers for name in one.values)}
    shown = [name for name in names if name in measured]
    title = "nuggets that the answers support; gold: the answers from the gold chunks"
    return _section(title, found.nuggets, shown, "nuggets", "failed")


def _citations(found: "AnswerMetrics") -> Iterator[Page]:
    if found.citations is not None:
        names = ["weighted_precision_first", "weighted_recall_first"]
        title = "support of the sentences by the first chunk that each cites (TREC RAG)"
        yield _section(title, found.citations, names, "uncited", "unlabelled")


def _rankings(found: "AnswerMetrics") -> Iterator[Page]:
    if not found.rankings:
        return
    measures = next(iter(found.rankings.values())).measures
    if len(found.account.k) > 1:  # each run has its own cut-off, which its name says
        measures = tuple(name.partition("@")[0] for name in measures)
    rows: list[tuple[Cell, ...]] = []
    for run in (*found.rankings, _GOLD):
        if (mean := found.coverage.get(run)) is not None:
            means = found.rankings[run].means.values() if run in found.rankings else ()
            without = [None] * (len(measures) - len(means))
            rows.append((run, Value(mean.value), mean.groups, *means, *without))
    header = ("run", "Cov(y)", "answers", *measures)
    title = "answerable nuggets that the answers support, next to the rankings"
    yield Page(title, (Table(header, rows, ids=(0,)),))


def _relations(found: "AnswerMetrics") -> Iterator[Page]:
    if not found.relations:
        return
    rows: list[tuple[Cell, ...]] = []
    lines = [
        "above: the measure's value is above 0; below: it is 0",
        "above, not: look for distracting chunks (case C of the paper), or model errors",
        "below, agrees: look for unjudged chunks (cases A, B), or what the model knows",
        "refined: without the queries on which recall seems to fail (cases A, B and C)",
    ]
    for run, each in found.relations.items():
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
    notes = (Text(line, "note") for line in lines)
    title = "queries by the ranking measure and by whether the answer agrees"
    yield Page(title, (Table(header, rows, ids=(0,)), *notes))


def _cases(found: "AnswerMetrics", out: Path) -> Iterator[Text]:
    """Give an example of every case of failure."""
    for case, what in CASES.items():
        if of := [one for one in found.cases if one.case == case]:
            yield Text(f"case {case} ({len(of)}): {what}")
            texts = {"question": of[0].question, "gold": of[0].gold_answer}
            for name, text in (*texts.items(), (of[0].run_id, of[0].answer)):
                yield Text(f"{name}: {cut(' '.join(text.split()) or '–', 100)}", "item")
    if found.cases:
        yield Text(
            f"all {len(found.cases)} with their nuggets: {out / 'cases.jsonl'}; read them to be sure"
        )


def _named(models: Sequence[str]) -> str:
    return " and ".join(f"{one}, a word counter" if one == BASELINE else one for one in models)


def _notes(found: "AnswerMetrics", out: Path) -> Iterator[str]:
    answering, models = found.answering, found.account.models
    yield f"answered by {_named([found.account.model])}"
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
        yield f"{counted(empty, 'context')} in which the generator found no answer"
    if answering.failures:
        yield f"{counted(len(answering.failures), 'failure')}; see {out / 'failures.jsonl'}"
