"""Scores of answers and nuggets from the labels of judges or people.

Nugget recall and citation support (TREC RAG), agreement with answers from gold chunks (LLM-retEval),
and the quality of nuggets (FreshStack). Each is a function that gives the measures of one answer,
and a `score_…` that gives those of all answers and their means by run. An answer for which a
measure is undefined is left out of that mean, and counted.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, Literal, NamedTuple, get_args

from freshstack_dspy.errors import CollectionError
from freshstack_dspy.measures.statistics import (
    Estimate,
    Interval,
    mean_interval,
    spearman_rho,
)
from freshstack_dspy.records import Assignment, Case, Importance, Record

NOT_RETRIEVED = "not_retrieved"
"""The status of an answer for which nothing was retrieved: its query is absent."""


class AnswerScore(Record):
    """The scores of one answer."""

    run: str
    """Which system wrote it; of nuggets, who looked at them."""
    query_id: str
    values: dict[str, float]
    """By measure; none of those that have no value for it."""
    without: dict[str, str]
    """Of those that have none, why."""
    counts: dict[str, int]
    """What was counted in it, as `failed`."""


class RunScore(Record):
    """The means of one run."""

    run: str
    answers: int
    means: dict[str, Interval]
    """By measure, over its queries, each the same weight."""
    counts: dict[str, int]
    """The sums of what was counted in its answers."""
    absent: tuple[str, ...]
    """The queries that other runs answer and this one does not, and those for which it retrieved
    nothing; they are left out of the means."""


class Scores(Record):
    """The scores of a set of answers."""

    measures: tuple[str, ...]
    runs: tuple[RunScore, ...]
    """By name; runs are never mixed in one mean."""
    answers: tuple[AnswerScore, ...]
    """By run and query."""

    def __repr__(self) -> str:
        return f"Scores({', '.join(self.measures)}; {len(self.runs)} runs, {len(self.answers)} answers)"

    __str__ = __repr__


def _answer_score(
    run: str, query_id: str, found: Mapping[str, Estimate], counts: Mapping[str, int]
) -> AnswerScore:
    return AnswerScore(
        run=run,
        query_id=query_id,
        values={name: each.value for name, each in found.items() if each.value is not None},
        without={name: each.reason for name, each in found.items() if each.reason is not None},
        counts=dict(counts),
    )


def _summarise(
    measures: Sequence[str],
    answers: Iterable[AnswerScore],
    not_retrieved: Iterable[tuple[str, str]] = (),
) -> Scores:
    """Take the means of each run; `not_retrieved` are (run, query) without anything retrieved."""
    by_run: dict[str, dict[str, AnswerScore]] = {}
    for answer in answers:
        own = by_run.setdefault(answer.run, {})
        if answer.query_id in own:
            raise CollectionError(
                f"run {answer.run!r} has two answers to query {answer.query_id!r}; remove one"
            )
        own[answer.query_id] = answer
    if not by_run:
        raise CollectionError("there are no answers to score")
    queries = {query for own in by_run.values() for query in own}
    for run, query in not_retrieved:
        by_run.setdefault(run, {})
        queries.add(query)
    ordered = {run: dict(sorted(by_run[run].items())) for run in sorted(by_run)}
    return Scores(
        measures=tuple(measures),
        runs=tuple(_run_score(measures, run, own, queries) for run, own in ordered.items()),
        answers=tuple(answer for own in ordered.values() for answer in own.values()),
    )


def _run_score(
    measures: Sequence[str], run: str, answers: Mapping[str, AnswerScore], queries: set[str]
) -> RunScore:
    counts: Counter[str] = Counter()
    for answer in answers.values():
        counts.update(answer.counts)
    means = {}
    for name in measures:
        values = {query: of.values[name] for query, of in answers.items() if name in of.values}
        means[name] = mean_interval(values)
    return RunScore(
        run=run,
        answers=len(answers),
        means=means,
        counts=dict(counts),
        absent=tuple(sorted(queries - answers.keys())),
    )


def score_values(values: Mapping[tuple[str, str], Mapping[str, float]]) -> Scores:
    """Give scores of others, by run and query, with their means."""
    measures = dict.fromkeys(name for of in values.values() for name in of)
    scored = (
        AnswerScore(run=run, query_id=query, values=dict(of), without={}, counts={})
        for (run, query), of in values.items()
    )
    return _summarise(tuple(measures), scored)


ALL = "all"
"""What a leaderboard calls the mean of a run over its topics."""


def leaderboard_rows(scores: Scores) -> Iterator[tuple[str, str, dict[str, float]]]:
    """Give run, topic and values, and below them the mean of each run, as TREC Auto-Judge has them.

    An answer without a value has no row, and does not count. In these means, other than in ours, a
    topic that other runs answer and this one does not counts 0.
    """
    answered: dict[str, set[str]] = {name: set() for name in scores.measures}
    found: dict[str, dict[str, list[float]]] = {}
    for one in scores.answers:
        for name, value in one.values.items():
            answered[name].add(one.query_id)
            found.setdefault(one.run, {}).setdefault(name, []).append(value)
        if one.values:
            yield one.run, one.query_id, one.values
    for run in scores.runs:
        yield (
            run.run,
            ALL,
            {
                name: sum(values) / (len(values) + len(answered[name].intersection(run.absent)))
                for name, values in found.get(run.run, {}).items()
            },
        )


# Nugget recall


class NuggetAssignment(NamedTuple):
    """A nugget, and how far one answer supports it."""

    nugget: str
    """Its id or its text, which tells it from the other nuggets of its query."""
    importance: Importance | None
    """None where it was not rated."""
    assignment: Assignment | None


class AnswerAssignments(NamedTuple):
    """The nuggets of a query, assigned to the answer of one run."""

    run: str
    query_id: str
    nuggets: tuple[NuggetAssignment, ...]
    status: str | None = None
    """`not_retrieved` where there was nothing to answer from: the query is then absent."""


NUGGET_RECALLS = ("V_strict", "V", "A_strict", "A", "W_strict", "W")
"""As the TREC 2024 RAG track calls them; A_strict is All-Strict of FreshStack's second version."""
_CREDIT: Mapping[str | None, float] = {"support": 1.0, "partial_support": 0.5, "not_support": 0.0}
_WEIGHTS: Mapping[str, Mapping[Importance | None, float]] = {
    "V": {"vital": 1.0},
    "W": {"vital": 1.0, "okay": 0.5},
    "A": {"vital": 1.0, "okay": 1.0, None: 1.0},
}
_NO_NUGGETS = "the query has no nuggets"
_NOTHING = {"V": "no nugget is vital", "W": "no nugget has an importance", "A": _NO_NUGGETS}


def nugget_recall(nuggets: Sequence[NuggetAssignment], measure: str) -> Estimate:
    """Compute the share of a query's nuggets that an answer supports, or why there is no value.

        sum over n of weight(n) * credit(n) / sum over n of weight(n)

    with the credit 1 for support, 0 for none, and for partial support 0 (strict) or 1/2. The
    weight is 1 of every nugget (A), of the vital ones only (V), or 1 of vital and 1/2 of okay
    ones (W). A nugget without importance counts in A, and in V and W not at all.

    Source: Pradeep et al., Initial Nugget Evaluation Results for the TREC 2024 RAG Track with the
    AutoNuggetizer Framework, 2024 (arXiv 2411.09607), section 3.3.
    """
    over, _, strict = measure.partition("_")
    weights = _WEIGHTS[over]
    counted = [
        (weights[each.importance], each.assignment)
        for each in nuggets
        if each.importance in weights
    ]
    given = [(weight, _CREDIT[label]) for weight, label in counted if label in _CREDIT]
    if given:
        earned = [weight * (credit // 1 if strict else credit) for weight, credit in given]
        return Estimate(value=sum(earned) / sum(weight for weight, _ in given))
    if counted:
        return Estimate(reason=f"none of {len(counted)} nuggets has an assignment")
    return Estimate(reason=_NOTHING[over] if nuggets else _NO_NUGGETS)


def score_assignments(answers: Iterable[AnswerAssignments]) -> Scores:
    """Score answers, one for each run and query, by all six measures of nugget recall.

    A nugget without an assignment is left out of its answer. One that other answers to the query
    were assigned, and this one was not, is missing in this one: a list that came back too short
    does not score higher for it.

    Raises:
        CollectionError: There is no answer, a run answers a query twice, or a nugget of a query has
            two importances.
    """
    every = tuple(answers)
    given = [each for each in every if each.status != NOT_RETRIEVED]
    known = _nuggets_by_query(given)
    scored = []
    for run, query, own, _ in given:
        others = dict(known[query])
        for each in own:
            others.pop(each.nugget, None)
        nuggets = (*own, *(NuggetAssignment(*each, None) for each in others.items()))
        assignments = [each.assignment for each in nuggets]
        counts = {
            "nuggets": len(nuggets),
            **{name: assignments.count(name) for name in get_args(Assignment)},
            "missing": assignments.count(None),
            "unrated": sum(each.importance is None for each in nuggets),
        }
        found = {name: nugget_recall(nuggets, name) for name in NUGGET_RECALLS}
        scored.append(_answer_score(run, query, found, counts))
    not_retrieved = ((one.run, one.query_id) for one in every if one.status == NOT_RETRIEVED)
    return _summarise(NUGGET_RECALLS, scored, not_retrieved)


def _nuggets_by_query(
    answers: Sequence[AnswerAssignments],
) -> dict[str, dict[str, Importance | None]]:
    """Gather the nuggets of each query from all its answers."""
    known: dict[str, dict[str, Importance | None]] = {}
    for answer in answers:
        of_query = known.setdefault(answer.query_id, {})
        for nugget, importance, _ in answer.nuggets:
            if of_query.setdefault(nugget, importance) != importance:
                raise CollectionError(
                    f"run {answer.run!r}, query {answer.query_id!r}: nugget {nugget!r} is "
                    f"{importance or 'not rated'}, and {of_query[nugget] or 'not rated'} in "
                    "another answer to the query"
                )
    return known


# Citation support


Support = Literal[0, 1, 2]
"""No, partial, full support."""


class Citation(NamedTuple):
    """A passage that a sentence cites."""

    reference: str | None
    """Its id; None where it is not known."""
    support: Support | None
    """None where there is no label, or judging failed."""
    outside: bool = False
    """Whether it is not of the answer's references; it then supports nothing."""


class CitedAnswer(NamedTuple):
    """The answer of one run: of each sentence its citations, in order."""

    run: str
    query_id: str
    sentences: tuple[tuple[Citation, ...], ...]


CITATION_MEASURES = tuple(
    f"{weighting}_{of}_{citations}"
    for citations in ("first", "all")
    for weighting in ("weighted", "hard")
    for of in ("precision", "recall")
)
"""weighted_precision_first, …, hard_recall_all."""


def citation_support(sentences: Sequence[Sequence[Citation]], measure: str) -> Estimate:
    """Compute how far citations support the sentences of an answer, or why there is no value.

        precision = sum of the weights / number of sentences that cite
        recall    = sum of the weights / number of sentences

    with the weight 1 of full, 1/2 of partial (hard: 0) and 0 of no support. A sentence without
    citations only lowers recall. A sentence whose citation has no label leaves both denominators.
    Of several citations the first counts, as TREC judged them, or the mean of those with a label.

    Source: Thakur et al., Support Evaluation for the TREC 2024 RAG Track, 2025 (arXiv 2504.15205),
    section 3.4; the variants, and what a missing label counts, as in castorini's RAGDoll 0.1.0,
    where an answer without citations counts 0 rather than nothing.
    """
    weighting, of, citations = measure.split("_")
    cited = uncited = unlabelled = 0
    total = 0.0
    for sentence in sentences:
        counting = sentence[:1] if citations == "first" else sentence
        labels = [0 if each.outside else each.support for each in counting]
        weights = [
            float(label == 2) if weighting == "hard" else label / 2
            for label in labels
            if label is not None
        ]
        if weights:
            cited += 1
            total += sum(weights) / len(weights)
        elif counting:
            unlabelled += 1
        else:
            uncited += 1
    denominator = cited if of == "precision" else cited + uncited
    if denominator:
        return Estimate(value=total / denominator)
    if not sentences:
        return Estimate(reason="the answer has no sentences")
    if unlabelled:
        return Estimate(reason=f"{unlabelled} sentences cite, and no such citation has a label")
    return Estimate(reason="no sentence has a citation")


def score_citations(answers: Iterable[CitedAnswer]) -> Scores:
    """Score answers by all eight measures of citation support."""
    scored = []
    for run, query, sentences in answers:
        citations = [each for sentence in sentences for each in sentence]
        labels = [each.support for each in citations]
        counts = {
            "sentences": len(sentences),
            "uncited": sum(not sentence for sentence in sentences),
            "citations": len(citations),
            "full": labels.count(2),
            "partial": labels.count(1),
            "none": labels.count(0),
            "unlabelled": labels.count(None),
            "outside": sum(each.outside for each in citations),
        }
        found = {name: citation_support(sentences, name) for name in CITATION_MEASURES}
        scored.append(_answer_score(run, query, found, counts))
    return _summarise(CITATION_MEASURES, scored)


# Agreement with answers from gold chunks


class ComparedAnswer(NamedTuple):
    """The answer of one run, compared with the answers from the gold chunks."""

    run: str
    """Whose retrieved chunks it was written from."""
    query_id: str
    agrees: tuple[bool | None, ...]
    """One verdict on all gold answers together, or one on each; None where the comparison failed
    or did not decide."""
    reason: str | None = None
    """Of the verdict; where there is none, why."""
    status: str | None = None
    """Where there is no verdict, the kind of the reason, as `no_gold_answer`. One that is
    `not_retrieved` is no answer: its query is absent."""
    others: Mapping[str, bool] = {}
    """By comparer, whether it agrees."""


def agrees_with_any(verdicts: Sequence[bool | None]) -> bool | None:
    """Decide whether an answer agrees with any of the gold answers.

    It is not known where no verdict is yes and one is missing, or where there is none at all.
    """
    if True in verdicts:
        return True
    return None if None in verdicts or not verdicts else False


def score_agreement(answers: Iterable[ComparedAnswer]) -> Scores:
    """Compute the agreement rate of each run, which is what its retriever scores.

    The rate is the share of queries whose answer from the retrieved chunks agrees with any of the
    answers that the same model gave from the gold chunks. An answer without a verdict is left out.
    The rates of other comparers are by their names.

    Source: Alinejad, Kumar and Vahdat, Evaluating the Retrieval Component in LLM-Based Question
    Answering Systems, 2024 (arXiv 2406.06458), section 2.2.
    """
    scored, not_retrieved = [], []
    comparers: dict[str, None] = {}
    for run, query, verdicts, reason, status, others in answers:
        if status == NOT_RETRIEVED:
            not_retrieved.append((run, query))
            continue
        agrees = agrees_with_any(verdicts)
        found = Estimate(value=float(agrees is True))
        if agrees is None:
            found = Estimate(reason=reason or status or "no verdict, without a reason")
        counts = {
            "agree": int(agrees is True),
            "disagree": int(agrees is False),
            "undecided": int(agrees is None),
        }
        if agrees is None and status:
            counts[f"undecided: {status}"] = 1
        comparers |= dict.fromkeys(others)
        values = {name: Estimate(value=float(agrees)) for name, agrees in others.items()}
        scored.append(_answer_score(run, query, {"agreement": found, **values}, counts))
    return _summarise(("agreement", *comparers), scored, not_retrieved=not_retrieved)


def verdicts_of(scores: Scores, run: str) -> dict[str, bool | None]:
    """Give whether each answer of a run agrees, by query id, for `found_and_agrees`."""
    return {
        answer.query_id: None if answer.counts["undecided"] else bool(answer.counts["agree"])
        for answer in scores.answers
        if answer.run == run
    }


CASES: dict[Case, str] = {
    "A": "missed, and the answer agrees: a chunk without a label of support answers the query",
    "B": "missed, and the answer agrees: a cited chunk is another version of a gold one",
    "C": "found, and the answer lacks what a chunk of its context says: distracted",
    "D": "the gold answer is none, or supports no nugget",
    "E": "the answer disagrees, and supports all nuggets of the gold answer and more",
    "F": "the verdict is contrary to the nuggets that both answers support",
}
"""What they are here; A to C are failures of recall, D to F of answers and their comparison."""
RECALL_FAILS: tuple[Case, ...] = ("A", "B", "C")


def case_of(
    *,
    found: bool,
    agrees: bool | None,
    held: Set[str],
    gold: Set[str],
    retrieved: Set[str],
    version: bool = False,
) -> Case | None:
    """Tell which case of failure an answer is, from the nuggets that are supported.

    A person has to read to be sure; this says which case the labels speak for. There is none where
    recall and agreement are of one mind, or where the gold answer has more than the retrieved
    chunks hold: then recall is above 0, below 1, and the disagreement right.

    Source: Alinejad, Kumar and Vahdat, 2024 (arXiv 2406.06458), section 4.1.

    Args:
        found: Whether recall is above 0.
        agrees: The verdict; None: there was no gold answer to agree with.
        held: The nuggets that the answer supports.
        gold: Those that the gold answer supports.
        retrieved: Those that the chunks of the answer's context support.
        version: Whether the answer cites a chunk that is nearly a gold one.
    """
    if agrees is None or (found != agrees and not gold):
        return "D"
    if found == agrees:
        return None
    if agrees:
        if not held & gold:
            return "F"
        return "B" if version else "A"
    if held >= gold:
        return "E" if held > gold else "F"
    return "C" if (gold - held) & retrieved else None


class FoundAndAgrees(Record):
    """The table of two by two, and how far both sides go together, by query."""

    measure: str
    """The ranking measure."""
    queries: int
    """How many have a value of the measure and a verdict on the answer."""
    found_agree: int
    found_disagree: int
    """Here is where to look for distracting chunks (case C of the paper) and for errors of the
    models (cases D, E and F)."""
    missed_agree: int
    """Here is where to look for relevant chunks that are not annotated, or of another version
    (cases A and B), and for what the model knows itself."""
    cases: dict[Case, int]
    """How many queries are of which case of failure."""
    missed_disagree: int
    phi: Estimate
    """Correlation of found with agreeing."""
    spearman: Estimate
    """Correlation of the measure's values with agreeing, which the paper reports (ALL)."""
    refined: Estimate
    """The same without the failures of recall, cases A to C (Refined)."""
    without_value: tuple[str, ...]
    """Queries with a verdict and no value of the measure, ascending."""
    without_verdict: tuple[str, ...]
    """Queries with a value and no verdict, ascending."""


def found_and_agrees(
    values: Mapping[str, float],
    verdicts: Mapping[str, bool | None],
    *,
    measure: str,
    cases: Mapping[str, Case] | None = None,
) -> FoundAndAgrees:
    """Compare a ranking measure with whether the answers agree, query by query.

    A query counts as found where the measure's value is above 0. Only a person can be sure which
    case it is: the table shows where to look.

    Source: Alinejad, Kumar and Vahdat, 2024 (arXiv 2406.06458), section 4.1 (cases A to F) and
    4.2 (failures and correlation).

    Args:
        values: Of the measure, by query id.
        verdicts: Whether the answer agrees, by query id; None where it was not decided.
        measure: The name of the measure.
        cases: By query id, those that are failures; see `case_of`.
    """
    cases = cases or {}
    decided = {query: agrees for query, agrees in verdicts.items() if agrees is not None}
    both = sorted(decided.keys() & values.keys())
    given = {query: values[query] for query in both}
    agrees = {query: float(decided[query]) for query in both}
    refined = [query for query in both if cases.get(query) not in RECALL_FAILS]
    cells = Counter((given[query] > 0, decided[query]) for query in both)
    return FoundAndAgrees(
        measure=measure,
        queries=len(both),
        found_agree=cells[True, True],
        found_disagree=cells[True, False],
        missed_agree=cells[False, True],
        missed_disagree=cells[False, False],
        phi=_pearson([float(value > 0) for value in given.values()], agrees),
        cases=dict(sorted(Counter(cases.values()).items())),
        spearman=spearman_rho(given, agrees),
        refined=spearman_rho(
            {query: given[query] for query in refined}, {query: agrees[query] for query in refined}
        ),
        without_value=tuple(sorted(decided.keys() - values.keys())),
        without_verdict=tuple(sorted(values.keys() - decided.keys())),
    )


def _pearson(values: Sequence[float], agrees: Mapping[str, float]) -> Estimate:
    """Compute Pearson's correlation of two that are yes or no, which is phi."""
    from scipy.stats import pearsonr

    if len(values) < 2 or min(len(set(values)), len(set(agrees.values()))) < 2:
        return Estimate(reason="all queries have the same value, or all answers the same verdict")
    found: Any = pearsonr(values, list(agrees.values()))
    return Estimate(value=float(found.statistic))


# The quality of nuggets


class NuggetVerdict(NamedTuple):
    """The verdict of a person on one nugget; None where the question was not answered."""

    hallucinated: bool | None
    """Whether its content is not in the answer (the paper's A)."""
    redundant: bool | None
    """Whether it is minor, or repeats another (the paper's B)."""


class ReadNuggets(NamedTuple):
    """The nuggets of a query, as one person read them."""

    annotator: str
    query_id: str
    nuggets: tuple[NuggetVerdict, ...]
    additional: int | None
    """How many more nuggets all key ideas would take (the paper's C); None where the question was
    not answered."""


NUGGET_QUALITIES = ("precision", "recall", "groundedness")
"""As in Table 5 of the paper."""


def nugget_quality(read: Sequence[ReadNuggets]) -> dict[str, Estimate]:
    """Compute the quality of nuggets, each the same weight, or why there is no value.

        precision    = (|nuggets| - sum(B)) / |nuggets|           neither minor nor redundant
        recall       = (|nuggets| - sum(B)) / (|nuggets| - sum(B) + C)
        groundedness = (|nuggets| - sum(A)) / |nuggets|           all content is in the answer

    Source: Thakur et al., FreshStack, 2025 (arXiv 2504.13128), section 5.2.1, equations 2 to 4.
    """
    nuggets = [each for one in read for each in one.nuggets]
    redundant = [each.redundant for each in nuggets]
    precision = _share_without(redundant, "redundant")
    recall = precision
    if precision.value is not None:
        additional = [one.additional for one in read]
        needed = redundant.count(False) + sum(number or 0 for number in additional)
        if None in additional:
            recall = Estimate(reason="how many nuggets are missing was not answered")
        elif not needed:
            recall = Estimate(reason="no nugget is to the point, and none is missing")
        else:
            recall = Estimate(value=redundant.count(False) / needed)
    groundedness = _share_without([each.hallucinated for each in nuggets], "hallucinated")
    return {"precision": precision, "recall": recall, "groundedness": groundedness}


def _share_without(verdicts: Sequence[bool | None], question: str) -> Estimate:
    if not verdicts:
        return Estimate(reason="there are no nuggets")
    if missing := verdicts.count(None):
        return Estimate(reason=f"{missing} of {len(verdicts)} nuggets have no verdict: {question}")
    return Estimate(value=verdicts.count(False) / len(verdicts))


def score_nuggets(read: Iterable[ReadNuggets]) -> Scores:
    """Compute the quality of each query's nuggets, and the means of each annotator."""
    scored = []
    for one in read:
        answered = [value for each in one.nuggets for value in each] + [one.additional]
        counts = {
            "nuggets": len(one.nuggets),
            "hallucinated": sum(each.hallucinated is True for each in one.nuggets),
            "redundant": sum(each.redundant is True for each in one.nuggets),
            "additional": one.additional or 0,
            "unanswered": sum(value is None for value in answered),
        }
        scored.append(_answer_score(one.annotator, one.query_id, nugget_quality([one]), counts))
    return _summarise(NUGGET_QUALITIES, scored)
