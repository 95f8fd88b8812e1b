"""What a pull request is told of a change of the retriever."""

from collections.abc import Iterator
from typing import Any

from freshstack_dspy.collection.analyze import Analysis, AnalyzedNugget, QueryAnalysis
from freshstack_dspy.measures.compare import Comparison
from freshstack_dspy.measures.evaluation import Evaluation
from freshstack_dspy.measures.measure import cutoff_of
from freshstack_dspy.pages.page import Page, Span, Table, Text, counted, cut, notes, p_value
from freshstack_dspy.views.measures import decision_parts, mean_cells

_SHOWN = 3
"""How many questions that lost nuggets are shown with the evidence."""
_QUESTION, _QUOTE = 90, 200
"""How many characters are shown of a question, and of a quote."""


def gate_page(comparison: Comparison, analysis: Analysis, *, worse: bool, judge: str) -> Page:
    """Give the decision, the two means, and the nuggets that the baseline found and the new run lost.

    Args:
        comparison: Of the new run with the baseline, in one measure.
        analysis: Of the new run against the baseline, of all queries.
        worse: Whether the change is refused.
        judge: What to type to judge what is unjudged.
    """
    (decision,), (pair,) = comparison.decisions, comparison.differences
    evaluations = comparison.evaluations
    about = next(iter(evaluations.values())).about
    parts: list[Text | Table | Page] = []
    if worse and decision.ship is None:
        parts.append(Text((Span("Worse", "strong"), f": {pair.conclusion}."), "decision"))
        if decision.blocked is not None:
            parts.append(Text(f"Before you trust it: {decision.why}."))
    else:
        parts += decision_parts(comparison)
    if decision.blocked == "unjudged":
        parts.append(Text(("to judge it: ", Span(judge, "code"))))
    rows = [
        (name, *mean_cells(evaluation.intervals, evaluation.unjudged_shares))
        for name, evaluation in evaluations.items()
    ]
    parts.append(Table(("run", pair.measure), rows))
    absent = [
        f"{name} has no results for {counted(len(ids), 'question')}, such as {ids[0]}: "
        "they count as 0"
        for name, evaluation in evaluations.items()
        if isinstance(evaluation, Evaluation) and (ids := evaluation.absent)
    ]
    p = "" if pair.adjusted_p is None else f"; p {p_value(pair.adjusted_p)} (permutation test)"
    parts += notes(
        f"new is better on {pair.wins:,}, equal on {pair.ties:,} and worse on {pair.losses:,} of "
        f"{counted(pair.queries, 'question')}{p}; in brackets: 95% intervals",
        *absent,
        *about.origin,
    )
    data: dict[str, Any] = {**about.identity, "comparison": comparison, "analysis": analysis}
    return Page(f"Retrieval: {analysis.collection}", (*parts, _losses(analysis)), data=data)


def _losses(analysis: Analysis) -> Page | Text:
    k = cutoff_of(analysis.measure)
    top = f"first {k}" if isinstance(k, int) else "top"
    lost = {query.query_id: nuggets for query in analysis.queries if (nuggets := _lost(query, k))}
    if not lost:
        return Text(f"Nothing is lost: the {top} of new support all that those of the baseline do.")
    shown = [query for query in analysis.queries if query.query_id in lost]
    pages = [
        Page(
            f"{query.query_id}: {cut(' '.join(query.question.split()), _QUESTION)}",
            tuple(_question(query, lost[query.query_id], analysis.measure)),
            anchor=query.query_id,
        )
        for query in shown[:_SHOWN]
    ]
    others = ", ".join(f"{each.query_id} ({len(lost[each.query_id])})" for each in shown[_SHOWN:])
    more = [Text(f"Lost nuggets of other questions: {others}")] if others else []
    number = counted(sum(map(len, lost.values())), "nugget")
    title = (
        f"Lost: {number} of {counted(len(lost), 'question')} that the {top} of the baseline support"
    )
    return Page(title, (*pages, *more))


def _lost(query: QueryAnalysis, k: object) -> list[AnalyzedNugget]:
    """The nuggets that the top of the baseline supports, and that of the run does not."""
    return [
        nugget
        for nugget in query.missed
        if nugget.against_rank is not None and (not isinstance(k, int) or nugget.against_rank <= k)
    ]


def _question(query: QueryAnalysis, lost: list[AnalyzedNugget], measure: str) -> Iterator[Text]:
    line = f"{len(lost)} of {counted(len(query.nuggets), 'nugget')} lost"
    if query.score is not None and query.against is not None:
        line += f"; {measure} {query.against:.2f} → {query.score:.2f}"
    yield Text(line)
    for nugget in lost:
        now = "not in the results" if nugget.rank is None else f"now rank {nugget.rank}"
        yield Text(f"{nugget.text} (was rank {nugget.against_rank}, {now})", "item")
        if nugget.support is not None:
            quotes: list[str | Span] = [Span(nugget.support.chunk_id, "code")]
            for quote in nugget.support.words:
                quotes += " “", Span(cut(quote, _QUOTE), "mark"), "”"
            yield Text(tuple(quotes), "item", 1)
