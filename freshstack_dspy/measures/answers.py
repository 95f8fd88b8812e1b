"""Scores of answers and nuggets from the labels of judges or people.

Nugget recall and citation support (TREC RAG), agreement with answers from gold chunks (LLM-retEval),
and the quality of nuggets (FreshStack). An answer for which a measure is undefined is left out of
that mean, and counted.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from types import MappingProxyType
from typing import Literal, NamedTuple, get_args

from freshstack_dspy.errors import CollectionError
from freshstack_dspy.measures.statistics import (
    Estimate,
    Interval,
    kendall_tau,
    mean_interval,
    spearman_rho,
)
from freshstack_dspy.records import Assignment, Importance, Record

AnswerConventions = Literal["ours", "nuggetizer", "ragdoll"]
"""What counts for a nugget or citation without a label, and for an answer without any.

`ours`: a nugget without an assignment is left out of its answer, a nugget that only other answers
of the query were assigned is missing, and an answer without a value is left out of the mean.
`nuggetizer`, castorini's 0.0.6: such nuggets count 0, each answer has its own nuggets only, and an
answer without a value counts 0. `ragdoll`, castorini's 0.1.0: an answer without citations counts 0.
"""
NOT_RETRIEVED = "not_retrieved"
"""The status of an answer for which nothing was retrieved: its query is absent."""


class Sampling(NamedTuple):
    """How the bootstrap intervals of the means are drawn."""

    level: float = 0.95
    resamples: int = 2_000
    seed: int = 0


class AnswerScore(Record):
    """The scores of one answer.

    Attributes:
        run: Which system wrote it; of nuggets, who looked at them.
        query_id: Which question it answers.
        values: By measure; none of those that have no value for it.
        without: Of those that have none, why.
        counts: What was counted in it, as `failed`.
    """

    run: str
    query_id: str
    values: dict[str, float]
    without: dict[str, str]
    counts: dict[str, int]


class RunScore(Record):
    """The means of one run.

    Attributes:
        run: Its name.
        answers: How many answers it has.
        means: By measure, the mean over its queries, each the same weight, with its interval.
        counts: The sums of what was counted in its answers.
        without: By measure, the queries whose answer has no value.
        absent: The queries that other runs answer and this one does not, and those for which it
            retrieved nothing, ascending; they are left out of the means.
    """

    run: str
    answers: int
    means: dict[str, Interval]
    counts: dict[str, int]
    without: dict[str, tuple[str, ...]]
    absent: tuple[str, ...]


class QueryScore(Record):
    """The means of one query over the runs that have a value.

    Attributes:
        query_id: The query.
        answers: How many runs answer it.
        means: By measure; none of those without any value.
    """

    query_id: str
    answers: int
    means: dict[str, float]


class Scores(Record):
    """The scores of a set of answers.

    Attributes:
        measures: Their names, in order.
        conventions: By which labels that are missing are counted.
        runs: By name; runs are never mixed in one mean.
        queries: By id.
        answers: By run and query.
    """

    measures: tuple[str, ...]
    conventions: AnswerConventions
    runs: tuple[RunScore, ...]
    queries: tuple[QueryScore, ...]
    answers: tuple[AnswerScore, ...]

    def __repr__(self) -> str:
        return f"Scores({', '.join(self.measures)}; {len(self.runs)} runs, {len(self.answers)} answers)"

    __str__ = __repr__

    def values(self, run: str, measure: str) -> dict[str, float]:
        """Give the values of one run's answers in one measure, by query id."""
        return {
            answer.query_id: answer.values[measure]
            for answer in self.answers
            if answer.run == run and measure in answer.values
        }


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
    measures: Iterable[str],
    answers: Iterable[AnswerScore],
    *,
    conventions: AnswerConventions = "ours",
    not_retrieved: Iterable[tuple[str, str]] = (),
    sampling: Sampling,
) -> Scores:
    """Take the means of each run, with bootstrap intervals over queries, and of each query.

    Args:
        measures: Their names, in order.
        answers: One for each run and query.
        conventions: By which they were scored.
        not_retrieved: Runs and queries for which there was nothing to answer from.
        sampling: Of the intervals.

    Raises:
        CollectionError: There is no answer, or a run answers a query twice.
    """
    names = tuple(measures)
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
    return Scores(
        measures=names,
        conventions=conventions,
        runs=tuple(
            _run_score(names, run, by_run[run], sorted(queries), sampling) for run in sorted(by_run)
        ),
        queries=tuple(
            _query_score(names, query, [own[query] for own in by_run.values() if query in own])
            for query in sorted(queries)
        ),
        answers=tuple(
            by_run[run][query] for run in sorted(by_run) for query in sorted(by_run[run])
        ),
    )


def _run_score(
    measures: tuple[str, ...],
    run: str,
    answers: Mapping[str, AnswerScore],
    queries: Sequence[str],
    sampling: Sampling,
) -> RunScore:
    means, without = {}, {}
    for measure in measures:
        values = {
            query: answer.values[measure]
            for query, answer in answers.items()
            if measure in answer.values
        }
        if left_out := tuple(query for query in sorted(answers) if query not in values):
            without[measure] = left_out
        means[measure] = mean_interval(values, *sampling)
    counts: Counter[str] = Counter()
    for answer in answers.values():
        counts.update(answer.counts)
    return RunScore(
        run=run,
        answers=len(answers),
        means=means,
        counts=dict(counts),
        without=without,
        absent=tuple(query for query in queries if query not in answers),
    )


def _query_score(
    measures: tuple[str, ...], query: str, answers: Sequence[AnswerScore]
) -> QueryScore:
    values = {
        name: [each.values[name] for each in answers if name in each.values] for name in measures
    }
    return QueryScore(
        query_id=query,
        answers=len(answers),
        means={name: fmean(given) for name, given in values.items() if given},
    )


# Nugget recall


class NuggetAssignment(NamedTuple):
    """A nugget, and how far one answer supports it.

    Attributes:
        nugget: Its id or its text, which tells it from the other nuggets of its query.
        importance: None where it was not rated.
        assignment: None where there is none.
    """

    nugget: str
    importance: Importance | None
    assignment: Assignment | None


class AnswerAssignments(NamedTuple):
    """The nuggets of a query, assigned to the answer of one run."""

    run: str
    query_id: str
    nuggets: tuple[NuggetAssignment, ...]
    status: str | None = None
    """`not_retrieved` where there was nothing to answer from: the query is then absent."""


class NuggetRecall(NamedTuple):
    """One of the six measures.

    Attributes:
        over: Over which nuggets: the vital ones, all alike, or vital ones 1 and okay ones a half.
        strict: Whether partial support counts 0 and not a half.
    """

    over: Literal["vital", "all", "weighted"]
    strict: bool


NUGGET_RECALLS: Mapping[str, NuggetRecall] = MappingProxyType(
    {
        "V_strict": NuggetRecall("vital", strict=True),
        "V": NuggetRecall("vital", strict=False),
        "A_strict": NuggetRecall("all", strict=True),
        "A": NuggetRecall("all", strict=False),
        "W_strict": NuggetRecall("weighted", strict=True),
        "W": NuggetRecall("weighted", strict=False),
    }
)
"""As the TREC 2024 RAG track calls them; A_strict is All-Strict of FreshStack's second version."""
_CREDIT: Mapping[Assignment | None, float] = {
    "support": 1.0,
    "partial_support": 0.5,
    "not_support": 0.0,
}
_WEIGHTS: Mapping[str, Mapping[Importance | None, float]] = {
    "vital": {"vital": 1.0},
    "weighted": {"vital": 1.0, "okay": 0.5},
    "all": {"vital": 1.0, "okay": 1.0, None: 1.0},
}
_NOTHING = {
    "vital": "no nugget is vital",
    "weighted": "no nugget has an importance",
    "all": "the query has no nuggets",
}


def nugget_recall(
    nuggets: Sequence[NuggetAssignment],
    measure: NuggetRecall,
    *,
    conventions: AnswerConventions = "ours",
) -> Estimate:
    """Compute the share of the nuggets that an answer supports.

        sum over n of weight(n) * credit(n) / sum over n of weight(n)

    with the credit 1 for support, 0 for none, and for partial support 0 (strict) or 1/2. The
    weight is 1 of every nugget (A), of the vital ones only (V), or 1 of vital and 1/2 of okay
    ones (W). A nugget without importance counts in A, and in V and W not at all.

    Source: Pradeep et al., Initial Nugget Evaluation Results for the TREC 2024 RAG Track with the
    AutoNuggetizer Framework, 2024 (arXiv 2411.09607), section 3.3.

    Args:
        nuggets: All of the query.
        measure: One of `NUGGET_RECALLS`.
        conventions: What nuggets without an assignment count.

    Returns:
        From 0 to 1, or why there is no value.
    """
    weights = _WEIGHTS[measure.over]
    weighed = [(weights.get(each.importance, 0.0), each.assignment) for each in nuggets]
    counted = [(weight, assignment) for weight, assignment in weighed if weight]
    given = [(weight, assignment) for weight, assignment in counted if assignment in _CREDIT]
    of = counted if conventions == "nuggetizer" else given
    if not of:
        if conventions == "nuggetizer":
            return Estimate(value=0.0)
        if counted:
            return Estimate(reason=f"none of {len(counted)} nuggets has an assignment")
        return Estimate(reason=_NOTHING[measure.over] if nuggets else _NOTHING["all"])
    earned = [
        weight * (_CREDIT[assignment] // 1 if measure.strict else _CREDIT[assignment])
        for weight, assignment in given
    ]
    return Estimate(value=sum(earned) / sum(weight for weight, _ in of))


def score_assignments(
    answers: Iterable[AnswerAssignments],
    *,
    conventions: AnswerConventions = "ours",
    sampling: Sampling = Sampling(),  # noqa: B008  it cannot change
) -> Scores:
    """Score answers by all six measures of nugget recall.

    By the conventions of nuggetizer every answer has the values of nuggetizer 0.0.6:
    strict_vital_score, vital_score, strict_all_score and all_score are V_strict, V, A_strict, A.
    Its last line mixes all runs of a file in one mean; here each run has its own.

    Args:
        answers: One for each run and query.
        conventions: What nuggets without an assignment count: `ours` or `nuggetizer`. By ours a
            nugget that other answers to the query were assigned, and this one was not, is missing
            in this one: a list that came back too short does not score higher for it.
        sampling: Of the intervals.

    Raises:
        CollectionError: There is no answer, a run answers a query twice, or a nugget of a query has
            two importances.
    """
    every = tuple(answers)
    given = [each for each in every if each.status != NOT_RETRIEVED]
    known = {} if conventions == "nuggetizer" else _nuggets_by_query(given)
    return _summarise(
        NUGGET_RECALLS,
        (_score_assignments(each, known.get(each.query_id, {}), conventions) for each in given),
        conventions=conventions,
        not_retrieved=((one.run, one.query_id) for one in every if one.status == NOT_RETRIEVED),
        sampling=sampling,
    )


def _score_assignments(
    answer: AnswerAssignments,
    known: Mapping[str, Importance | None],
    conventions: AnswerConventions,
) -> AnswerScore:
    own = {each.nugget for each in answer.nuggets}
    others = (
        NuggetAssignment(nugget, importance, None)
        for nugget, importance in known.items()
        if nugget not in own
    )
    nuggets = (*answer.nuggets, *others)
    assignments = [each.assignment for each in nuggets]
    return _answer_score(
        answer.run,
        answer.query_id,
        {
            name: nugget_recall(nuggets, measure, conventions=conventions)
            for name, measure in NUGGET_RECALLS.items()
        },
        {
            "nuggets": len(nuggets),
            **{name: assignments.count(name) for name in get_args(Assignment)},
            "missing": assignments.count(None),
            "unrated": sum(each.importance is None for each in nuggets),
        },
    )


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
    """A passage that a sentence cites.

    Attributes:
        reference: Its id; None where it is not known.
        support: None where there is no label, or judging failed.
        outside: Whether it is not of the answer's references; it then supports nothing.
    """

    reference: str | None
    support: Support | None
    outside: bool = False


class CitedAnswer(NamedTuple):
    """The answer of one run: of each sentence its citations, in order."""

    run: str
    query_id: str
    sentences: tuple[tuple[Citation, ...], ...]


class CitationMeasure(NamedTuple):
    """One of the eight measures.

    Attributes:
        of: Precision, over sentences that cite, or recall, over all sentences.
        hard: Whether partial support counts 0 and not a half.
        citations: Of each sentence the first citation, or the mean of all that have a label.
    """

    of: Literal["precision", "recall"]
    hard: bool
    citations: Literal["first", "all"]


CITATION_MEASURES: Mapping[str, CitationMeasure] = MappingProxyType(
    {
        f"{'hard' if hard else 'weighted'}_{of}_{citations}": CitationMeasure(of, hard, citations)
        for citations in ("first", "all")
        for hard in (False, True)
        for of in ("precision", "recall")
    }
)
"""weighted_precision_first, …, hard_recall_all."""


def citation_support(
    sentences: Sequence[Sequence[Citation]],
    measure: CitationMeasure,
    *,
    conventions: AnswerConventions = "ours",
) -> Estimate:
    """Compute how far the citations of an answer support its sentences.

        precision = sum of the weights / number of sentences that cite
        recall    = sum of the weights / number of sentences

    with the weight 1 of full, 1/2 of partial (hard: 0) and 0 of no support. A sentence without
    citations only lowers recall. A sentence whose citation has no label leaves both denominators.
    Of several citations the first counts, as TREC judged them, or the mean of those with a label.

    Source: Thakur et al., Support Evaluation for the TREC 2024 RAG Track, 2025 (arXiv 2504.15205),
    section 3.4; the variants, and what a missing label counts, as in castorini's RAGDoll 0.1.0.

    Args:
        sentences: Of each sentence its citations, in order.
        measure: One of `CITATION_MEASURES`.
        conventions: `ours`, or `ragdoll`: an answer whose denominator is 0 counts 0.

    Returns:
        From 0 to 1, or why there is no value.
    """
    cited = uncited = unlabelled = 0
    total = 0.0
    for sentence in sentences:
        counting = sentence[:1] if measure.citations == "first" else sentence
        weights = [
            weight for each in counting if (weight := _weight(each, measure.hard)) is not None
        ]
        if weights:
            cited += 1
            total += sum(weights) / len(weights)
        elif counting:
            unlabelled += 1
        else:
            uncited += 1
    denominator = cited if measure.of == "precision" else cited + uncited
    if denominator:
        return Estimate(value=total / denominator)
    if conventions == "ragdoll":
        return Estimate(value=0.0)
    if not sentences:
        return Estimate(reason="the answer has no sentences")
    if unlabelled:
        return Estimate(reason=f"{unlabelled} sentences cite, and no such citation has a label")
    return Estimate(reason="no sentence has a citation")


def _weight(citation: Citation, hard: bool) -> float | None:
    if citation.outside:
        return 0.0
    if citation.support is None:
        return None
    return float(citation.support == 2) if hard else citation.support / 2


def score_citations(
    answers: Iterable[CitedAnswer],
    *,
    conventions: AnswerConventions = "ours",
    sampling: Sampling = Sampling(),  # noqa: B008  it cannot change
) -> Scores:
    """Score answers by all eight measures of citation support.

    Args:
        answers: One for each run and query.
        conventions: As for `citation_support`.
        sampling: Of the intervals.

    Raises:
        CollectionError: There is no answer, or a run answers a query twice.
    """
    scored = (_score_citations(answer, conventions) for answer in answers)
    return _summarise(CITATION_MEASURES, scored, conventions=conventions, sampling=sampling)


def _score_citations(answer: CitedAnswer, conventions: AnswerConventions) -> AnswerScore:
    citations = [each for sentence in answer.sentences for each in sentence]
    labels = [each.support for each in citations]
    return _answer_score(
        answer.run,
        answer.query_id,
        {
            name: citation_support(answer.sentences, measure, conventions=conventions)
            for name, measure in CITATION_MEASURES.items()
        },
        {
            "sentences": len(answer.sentences),
            "uncited": sum(not sentence for sentence in answer.sentences),
            "citations": len(citations),
            "full": labels.count(2),
            "partial": labels.count(1),
            "none": labels.count(0),
            "unlabelled": labels.count(None),
            "outside": sum(each.outside for each in citations),
        },
    )


# Agreement with answers from gold chunks


AGREEMENT = "agreement"


class ComparedAnswer(NamedTuple):
    """The answer of one run, compared with the answers from the gold chunks.

    Attributes:
        run: Whose retrieved chunks it was written from.
        query_id: The question.
        agrees: One verdict on all gold answers together, or one on each; None where the
            comparison failed or did not decide.
        reason: Of the verdict; where there is none, why.
        status: Where there is no verdict, the kind of the reason, as `no_gold_context`. One that is
            `not_retrieved` is no answer: its query is absent.
    """

    run: str
    query_id: str
    agrees: tuple[bool | None, ...]
    reason: str | None = None
    status: str | None = None


def agrees_with_any(verdicts: Sequence[bool | None]) -> bool | None:
    """Tell whether an answer agrees with any of the gold answers.

    It is not known where no verdict is yes and one is missing, or where there is none at all.
    """
    if True in verdicts:
        return True
    return None if None in verdicts or not verdicts else False


def score_agreement(
    answers: Iterable[ComparedAnswer],
    *,
    sampling: Sampling = Sampling(),  # noqa: B008  it cannot change
) -> Scores:
    """Compute the agreement rate of each run, which is what its retriever scores.

    The rate is the share of queries whose answer from the retrieved chunks agrees with any of the
    answers that the same model gave from the gold chunks. An answer without a verdict is left out.

    Source: Alinejad, Kumar and Vahdat, Evaluating the Retrieval Component in LLM-Based Question
    Answering Systems, 2024 (arXiv 2406.06458), section 2.2.

    Args:
        answers: One for each run and query.
        sampling: Of the intervals.

    Raises:
        CollectionError: There is no answer, or a run answers a query twice.
    """
    every = tuple(answers)
    return _summarise(
        (AGREEMENT,),
        (_score_agreement(answer) for answer in every if answer.status != NOT_RETRIEVED),
        not_retrieved=((one.run, one.query_id) for one in every if one.status == NOT_RETRIEVED),
        sampling=sampling,
    )


def _score_agreement(answer: ComparedAnswer) -> AnswerScore:
    agrees = agrees_with_any(answer.agrees)
    found = Estimate(value=float(agrees is True))
    if agrees is None:
        found = Estimate(reason=answer.reason or answer.status or "no verdict, without a reason")
    counts = {
        "agree": int(agrees is True),
        "disagree": int(agrees is False),
        "undecided": int(agrees is None),
    }
    if agrees is None and answer.status:
        counts[f"undecided: {answer.status}"] = 1
    return _answer_score(answer.run, answer.query_id, {AGREEMENT: found}, counts)


def verdicts_of(scores: Scores, run: str) -> dict[str, bool | None]:
    """Give whether each answer of a run agrees, by query id, for `found_and_agrees`."""
    return {
        answer.query_id: None if answer.counts["undecided"] else bool(answer.counts["agree"])
        for answer in scores.answers
        if answer.run == run
    }


class FoundAndAgrees(Record):
    """The table of two by two, and how far both sides go together, by query.

    Attributes:
        measure: The ranking measure.
        found_from: The value from which on a query counts as found by the retriever.
        queries: How many have a value of the measure and a verdict on the answer.
        found_agree: Found, and the answer agrees.
        found_disagree: Found, and it does not: here is where to look for case C (distracting
            chunks) and for errors of the models (cases D, E and F).
        missed_agree: Not found, and yet the answer agrees: here is where to look for cases A and B
            (relevant chunks that nobody annotated, or of another version) and for what the model
            knows itself.
        missed_disagree: Not found, and it does not agree.
        unannotated_share: Of the queries where both sides differ, the share not found that agree.
        distracted_share: Of these, the share found that do not agree.
        phi: Correlation of found with agreeing.
        point_biserial: Correlation of the measure's values with agreeing.
        tau_b: Kendall's rank correlation of the same.
        spearman: Spearman's, which the paper reports.
        without_value: Queries with a verdict and no value of the measure, ascending.
        without_verdict: Queries with a value and no verdict, ascending.
    """

    measure: str
    found_from: float
    queries: int
    found_agree: int
    found_disagree: int
    missed_agree: int
    missed_disagree: int
    unannotated_share: Estimate
    distracted_share: Estimate
    phi: Estimate
    point_biserial: Estimate
    tau_b: Estimate
    spearman: Estimate
    without_value: tuple[str, ...]
    without_verdict: tuple[str, ...]


def found_and_agrees(
    values: Mapping[str, float],
    verdicts: Mapping[str, bool | None],
    *,
    measure: str,
    found_from: float | None = None,
) -> FoundAndAgrees:
    """Compare a ranking measure with whether the answers agree, query by query.

    Only a person can tell which case a query is: the table tells where to look.

    Source: Alinejad, Kumar and Vahdat, 2024 (arXiv 2406.06458), section 4.1 (cases A to F) and
    4.2 (failures and correlation).

    Args:
        values: Of the measure, by query id.
        verdicts: Whether the answer agrees with any of the gold answers, by query id; None where
            it was not decided.
        measure: The name of the measure.
        found_from: The value from which on it counts as found; None: every value above 0.
    """
    decided = {query: agrees for query, agrees in verdicts.items() if agrees is not None}
    both = sorted(decided.keys() & values.keys())
    found = {
        query: values[query] > 0 if found_from is None else values[query] >= found_from
        for query in both
    }
    cells = Counter((found[query], decided[query]) for query in both)
    differ = cells[False, True] + cells[True, False]
    given = {query: values[query] for query in both}
    agrees = {query: float(decided[query]) for query in both}

    def share(part: int) -> Estimate:
        if not differ:
            return Estimate(reason="the measure and the answers never differ")
        return Estimate(value=part / differ)

    return FoundAndAgrees(
        measure=measure,
        found_from=found_from or 0.0,
        queries=len(both),
        found_agree=cells[True, True],
        found_disagree=cells[True, False],
        missed_agree=cells[False, True],
        missed_disagree=cells[False, False],
        unannotated_share=share(cells[False, True]),
        distracted_share=share(cells[True, False]),
        phi=_pearson({query: float(of) for query, of in found.items()}, agrees),
        point_biserial=_pearson(given, agrees),
        tau_b=kendall_tau(given, agrees),
        spearman=spearman_rho(given, agrees),
        without_value=tuple(sorted(decided.keys() - values.keys())),
        without_verdict=tuple(sorted(values.keys() - decided.keys())),
    )


def _pearson(values: Mapping[str, float], agrees: Mapping[str, float]) -> Estimate:
    """Compute Pearson's correlation with a yes or no: point-biserial, or phi of two of them."""
    from scipy.stats import pearsonr

    if len(values) < 2 or min(len(set(values.values())), len(set(agrees.values()))) < 2:
        return Estimate(reason="all queries have the same value, or all answers the same verdict")
    found = pearsonr(list(values.values()), [agrees[query] for query in values])
    return Estimate(value=float(found.statistic))


# The quality of nuggets


class NuggetVerdict(NamedTuple):
    """The verdict of a person on one nugget; None where the question was not answered.

    Attributes:
        hallucinated: Whether its content is not in the answer (the paper's A).
        redundant: Whether it is minor, or repeats another (the paper's B).
    """

    hallucinated: bool | None
    redundant: bool | None


class ReadNuggets(NamedTuple):
    """The nuggets of a query, as one person read them.

    Attributes:
        annotator: Who.
        query_id: Of which query.
        nuggets: The verdicts, one for each nugget.
        additional: How many more nuggets all key ideas would take (the paper's C); None where
            the question was not answered.
    """

    annotator: str
    query_id: str
    nuggets: tuple[NuggetVerdict, ...]
    additional: int | None


def nugget_precision(read: Sequence[ReadNuggets]) -> Estimate:
    """Compute the share of nuggets that are neither minor nor redundant.

        (|nuggets| - sum(B)) / |nuggets|

    Source: Thakur et al., FreshStack, 2025 (arXiv 2504.13128), section 5.2.1, equation 2.
    """
    return _share_without([each.redundant for one in read for each in one.nuggets], "redundant")


def nugget_completeness(read: Sequence[ReadNuggets]) -> Estimate:
    """Compute the share of the nuggets needed that are there: the paper's recall.

        (|nuggets| - sum(B)) / (|nuggets| - sum(B) + C)

    Source: FreshStack, section 5.2.1, equation 3.
    """
    precision = nugget_precision(read)
    if precision.value is None:
        return precision
    additional = [one.additional for one in read]
    if None in additional:
        return Estimate(reason="how many nuggets are missing was not answered")
    good = sum(each.redundant is False for one in read for each in one.nuggets)
    needed = good + sum(number or 0 for number in additional)
    if not needed:
        return Estimate(reason="no nugget is to the point, and none is missing")
    return Estimate(value=good / needed)


def nugget_groundedness(read: Sequence[ReadNuggets]) -> Estimate:
    """Compute the share of nuggets whose content is all in the answer.

        (|nuggets| - sum(A)) / |nuggets|

    Source: FreshStack, section 5.2.1, equation 4.
    """
    verdicts = [each.hallucinated for one in read for each in one.nuggets]
    return _share_without(verdicts, "hallucinated")


def _share_without(verdicts: Sequence[bool | None], question: str) -> Estimate:
    if not verdicts:
        return Estimate(reason="there are no nuggets")
    if open_ := verdicts.count(None):
        return Estimate(reason=f"{open_} of {len(verdicts)} nuggets have no verdict: {question}")
    return Estimate(value=verdicts.count(False) / len(verdicts))


NUGGET_QUALITIES: Mapping[str, Callable[[Sequence[ReadNuggets]], Estimate]] = MappingProxyType(
    {
        "precision": nugget_precision,
        "recall": nugget_completeness,
        "groundedness": nugget_groundedness,
    }
)
"""As in Table 5 of the paper; each of the nuggets of one or more queries."""


def score_nuggets(
    read: Iterable[ReadNuggets],
    *,
    sampling: Sampling = Sampling(),  # noqa: B008  it cannot change
) -> Scores:
    """Compute the quality of each query's nuggets, and the means of each annotator.

    Raises:
        CollectionError: There are no nuggets, or an annotator read a query's twice.
    """
    scored = (
        _answer_score(
            one.annotator,
            one.query_id,
            {name: measure([one]) for name, measure in NUGGET_QUALITIES.items()},
            {
                "nuggets": len(one.nuggets),
                "hallucinated": sum(each.hallucinated is True for each in one.nuggets),
                "redundant": sum(each.redundant is True for each in one.nuggets),
                "additional": one.additional or 0,
                "unanswered": sum(value is None for each in one.nuggets for value in each)
                + (one.additional is None),
            },
        )
        for one in read
    )
    return _summarise(NUGGET_QUALITIES, scored, sampling=sampling)


def pooled_nugget_quality(read: Sequence[ReadNuggets]) -> dict[str, Estimate]:
    """Compute the three measures over the nuggets of all queries together, each the same weight."""
    return {name: measure(read) for name, measure in NUGGET_QUALITIES.items()}
