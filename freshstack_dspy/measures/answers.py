"""Citation support: whether the passages that an answer cites say what it says."""

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from types import MappingProxyType
from typing import Literal, NamedTuple, Protocol, get_args

from freshstack_dspy.errors import CollectionError
from freshstack_dspy.measures.statistics import (
    Estimate,
    Interval,
    kendall_tau,
    mean_interval,
    spearman_rho,
)
from freshstack_dspy.records import Assignment, Importance, Record

Empty = Literal["skip", "zero"]
"""What an answer counts in a measure that it has nothing for: it is left out, or 0."""
Absent = Literal["skip", "zero"]
"""What a query counts that other runs answer and this one does not, or for which it retrieved
nothing to answer from: it is left out, or 0."""
NOT_RETRIEVED = "not_retrieved"
"""The status of such an answer: nobody was asked for one."""


class Sampling(NamedTuple):
    """How the bootstrap intervals of the means are drawn."""

    level: float = 0.95
    resamples: int = 2_000
    seed: int = 0


class AnswerScore(Record):
    """What one answer scored.

    Attributes:
        run: Which system wrote it; of nuggets, who looked at them.
        query_id: Which question it answers.
        values: By measure; none of those that have no value for it.
        without: Of those that have none, why.
        counts: What was counted in it, as `failed`, whatever the measures make of it.
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
            retrieved nothing, ascending.
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
    """What a set of answers scored.

    Attributes:
        measures: Their names, in order.
        choices: What was chosen where there is a choice, as `missing` is `leave_out`.
        runs: By name; runs are never mixed in one mean.
        queries: By id.
        answers: By run and query.
    """

    measures: tuple[str, ...]
    choices: dict[str, str]
    runs: tuple[RunScore, ...]
    queries: tuple[QueryScore, ...]
    answers: tuple[AnswerScore, ...]

    def values(self, run: str, measure: str) -> dict[str, float]:
        """Give the values of one run's answers in one measure, by query id."""
        return {
            answer.query_id: answer.values[measure]
            for answer in self.answers
            if answer.run == run and measure in answer.values
        }


def answer_score(
    run: str, query_id: str, figures: Mapping[str, Estimate], counts: Mapping[str, int]
) -> AnswerScore:
    """Keep the figures of one answer, those without a value by their reason."""
    return AnswerScore(
        run=run,
        query_id=query_id,
        values={name: each.value for name, each in figures.items() if each.value is not None},
        without={name: each.reason for name, each in figures.items() if each.reason is not None},
        counts=dict(counts),
    )


def summarise(
    measures: Sequence[str],
    answers: Iterable[AnswerScore],
    *,
    choices: Mapping[str, str],
    absent: Absent = "skip",
    not_retrieved: Iterable[tuple[str, str]] = (),
    sampling: Sampling = Sampling(),  # noqa: B008  it cannot change
) -> Scores:
    """Take the means of each run, with bootstrap intervals over queries, and of each query.

    Args:
        measures: Their names, in order.
        answers: One for each run and query.
        choices: What was chosen, to be kept beside the figures.
        absent: What a query counts that a run does not answer.
        not_retrieved: Runs and queries for which there was nothing to answer from.
        sampling: Of the intervals.

    Raises:
        CollectionError: There is no answer, or a run answers a query twice.
    """
    by_run: dict[str, dict[str, AnswerScore]] = {}
    for answer in answers:
        own = by_run.setdefault(answer.run, {})
        if answer.query_id in own:
            raise CollectionError(
                f"run {answer.run!r} has two answers to query {answer.query_id!r}; keep one"
            )
        own[answer.query_id] = answer
    if not by_run:
        raise CollectionError("there are no answers to score")
    nothing: dict[str, set[str]] = {}
    for run, query in not_retrieved:
        if query in by_run.setdefault(run, {}):
            raise CollectionError(
                f"run {run!r} has an answer to query {query!r} and retrieved nothing for it; keep one"
            )
        nothing.setdefault(run, set()).add(query)
    named = [*by_run.values(), *nothing.values()]
    queries = sorted({query for own in named for query in own})
    ordered = tuple(by_run[run][query] for run in sorted(by_run) for query in sorted(by_run[run]))
    return Scores(
        measures=tuple(measures),
        choices={**choices, "absent": absent},
        runs=tuple(
            _run_score(measures, run, by_run[run], queries, absent, sampling)
            for run in sorted(by_run)
        ),
        queries=tuple(
            _query_score(measures, query, [own[query] for own in by_run.values() if query in own])
            for query in queries
        ),
        answers=ordered,
    )


def _run_score(
    measures: Sequence[str],
    run: str,
    answers: Mapping[str, AnswerScore],
    queries: Sequence[str],
    absent: Absent,
    sampling: Sampling,
) -> RunScore:
    missing = tuple(query for query in queries if query not in answers)
    means, without = {}, {}
    for measure in measures:
        values = {
            query: answer.values[measure]
            for query, answer in answers.items()
            if measure in answer.values
        }
        if left_out := tuple(query for query in sorted(answers) if query not in values):
            without[measure] = left_out
        if absent == "zero":
            values |= dict.fromkeys(missing, 0.0)
        means[measure] = mean_interval(values, *sampling)
    return RunScore(
        run=run,
        answers=len(answers),
        means=means,
        counts=add_counts(answer.counts for answer in answers.values()),
        without=without,
        absent=missing,
    )


def _query_score(measures: Sequence[str], query: str, answers: Sequence[AnswerScore]) -> QueryScore:
    values = {
        name: [each.values[name] for each in answers if name in each.values] for name in measures
    }
    return QueryScore(
        query_id=query,
        answers=len(answers),
        means={name: fmean(given) for name, given in values.items() if given},
    )


def add_counts(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Add up what was counted, name by name."""
    total: dict[str, int] = {}
    for each in counts:
        for name, number in each.items():
            total[name] = total.get(name, 0) + number
    return total


Support = Literal[0, 1, 2]
"""No, partial, full support."""
CitationsCounted = Literal["first", "all"]
"""Of each sentence the first citation, or the mean of all that have a label."""
Outside = Literal["no_support", "leave_out", "uncited"]
"""What a citation counts that is not of the answer's references: it supports nothing, it is as
one without a label, or as if it were not there."""


class Citation(NamedTuple):
    """A passage that a sentence cites.

    Attributes:
        reference: Its id; None where it is not known.
        support: None where there is no label, or judging failed.
        outside: Whether it is not of the answer's references.
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
        citations: Which citations of a sentence count.
    """

    of: Literal["precision", "recall"]
    hard: bool
    citations: CitationsCounted


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
    outside: Outside = "no_support",
    empty: Empty = "skip",
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
        outside: What a citation counts that is not of the answer's references.
        empty: What an answer counts whose denominator is 0. RAGDoll gives 0.

    Returns:
        From 0 to 1, or why there is no value.
    """
    cited = uncited = unlabelled = 0
    total = 0.0
    for sentence in sentences:
        counting = [each for each in sentence if outside != "uncited" or not each.outside]
        if measure.citations == "first":
            counting = counting[:1]
        weights = [
            weight
            for each in counting
            if (weight := _weight(each, outside, hard=measure.hard)) is not None
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
    if empty == "zero":
        return Estimate(value=0.0)
    if not sentences:
        return Estimate(reason="the answer has no sentences")
    if unlabelled:
        return Estimate(reason=f"{unlabelled} sentences cite, and no such citation has a label")
    return Estimate(reason="no sentence has a citation")


def score_citations(
    answers: Iterable[CitedAnswer],
    *,
    outside: Outside = "no_support",
    empty: Empty = "skip",
    absent: Absent = "skip",
    sampling: Sampling = Sampling(),  # noqa: B008  it cannot change
) -> Scores:
    """Score answers by all eight measures.

    Args:
        answers: One for each run and query.
        outside: As for `citation_support`.
        empty: As for `citation_support`.
        absent: What a query counts that other runs have and this one has not.
        sampling: Of the intervals.

    Raises:
        CollectionError: There is no answer, or a run answers a query twice.
    """
    choices = {"outside": outside, "empty": empty}
    scored = (_score(answer, outside, empty) for answer in answers)
    return summarise(
        tuple(CITATION_MEASURES), scored, choices=choices, absent=absent, sampling=sampling
    )


def _score(answer: CitedAnswer, outside: Outside, empty: Empty) -> AnswerScore:
    citations = [each for sentence in answer.sentences for each in sentence]
    labels = [each.support for each in citations]
    return answer_score(
        answer.run,
        answer.query_id,
        {
            name: citation_support(answer.sentences, measure, outside=outside, empty=empty)
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


def _weight(citation: Citation, outside: Outside, *, hard: bool) -> float | None:
    if citation.outside:
        return 0.0 if outside == "no_support" else None
    if citation.support is None:
        return None
    return float(citation.support == 2) if hard else citation.support / 2


class FoundAndAgrees(Record):
    """The table of two by two, and how far both sides go together, by query.

    Attributes:
        measure: The ranking measure.
        found_from: The value from which on the measure says that the retriever found it.
        queries: How many have a value of the measure and a verdict on the answer.
        found_agree: Found, and the answer agrees.
        found_disagree: Found, and it does not: where case C (distracting chunks) is to be looked
            for, beside the errors of the models (cases D, E and F).
        missed_agree: Not found, and yet the answer agrees: where cases A and B (relevant chunks
            that nobody annotated, or of another version) are to be looked for, beside what the
            model knows itself.
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

    Only a person can say which case a query is: the table says where to look.

    Source: Alinejad, Kumar and Vahdat, 2024 (arXiv 2406.06458), section 4.1 (cases A to F) and
    4.2 (failures and correlation).

    Args:
        values: Of the measure, by query id.
        verdicts: Whether the answer agrees with any of the gold answers, by query id; None where
            nobody could say.
        measure: What the measure is called.
        found_from: The value from which on it says found; None: every value above 0.

    Raises:
        ValueError: A value is not a finite number.
    """
    for query, value in values.items():
        if not math.isfinite(value):
            raise ValueError(f"query {query!r}: a value is a finite number, not {value!r}")
    decided = {query: agrees for query, agrees in verdicts.items() if agrees is not None}
    both = sorted(decided.keys() & values.keys())
    least = math.ulp(0.0) if found_from is None else found_from
    found = [values[query] >= least for query in both]
    agrees = [decided[query] for query in both]
    cells = {
        (one, other): sum(pair == (one, other) for pair in zip(found, agrees, strict=True))
        for one in (True, False)
        for other in (True, False)
    }
    given = {query: values[query] for query in both}
    said = {query: float(decided[query]) for query in both}
    fault = _undefined([*given.values()], agrees, measure)
    differ = cells[False, True] + cells[True, False]
    return FoundAndAgrees(
        measure=measure,
        found_from=0.0 if found_from is None else found_from,
        queries=len(both),
        found_agree=cells[True, True],
        found_disagree=cells[True, False],
        missed_agree=cells[False, True],
        missed_disagree=cells[False, False],
        unannotated_share=_share(cells[False, True], differ),
        distracted_share=_share(cells[True, False], differ),
        phi=_correlation(found, agrees, f"{measure}, above or below,"),
        point_biserial=_correlation([*given.values()], agrees, measure),
        tau_b=fault or kendall_tau(given, said),
        spearman=fault or spearman_rho(given, said),
        without_value=tuple(sorted(decided.keys() - values.keys())),
        without_verdict=tuple(sorted(values.keys() - decided.keys())),
    )


def verdicts_of(scores: Scores, run: str) -> dict[str, bool | None]:
    """Give whether each answer of a run agrees, by query id, for `found_and_agrees`.

    Args:
        scores: Of the agreement. Where an absent query counts 0, its answer does not agree.
        run: Its name.
    """
    verdicts: dict[str, bool | None] = {
        answer.query_id: None if answer.counts["undecided"] else bool(answer.counts["agree"])
        for answer in scores.answers
        if answer.run == run
    }
    if scores.choices["absent"] == "zero":
        for each in scores.runs:
            if each.run == run:
                verdicts |= dict.fromkeys(each.absent, False)
    return verdicts


def _share(part: int, whole: int) -> Estimate:
    if not whole:
        return Estimate(reason="the measure and the answers never differ")
    return Estimate(value=part / whole)


def _undefined(values: Sequence[float], agrees: Sequence[bool], measure: str) -> Estimate | None:
    if len(set(agrees)) < 2:
        said = "all agree" if agrees and agrees[0] else "none agrees"
        return Estimate(reason=f"of {len(agrees)} answers {said}")
    if len(set(values)) < 2:
        return Estimate(reason=f"{measure} is the same for all {len(values)} queries")
    return None


def _correlation(values: Sequence[float], agrees: Sequence[bool], measure: str) -> Estimate:
    """Compute Pearson's correlation with a yes or no: point-biserial, or phi of two of them."""
    if fault := _undefined(values, agrees, measure):
        return fault
    mean, rate = fmean(values), fmean(agrees)
    together = math.fsum((x - mean) * (y - rate) for x, y in zip(values, agrees, strict=True))
    spread = math.fsum((x - mean) ** 2 for x in values) * math.fsum((y - rate) ** 2 for y in agrees)
    if not spread:  # the values differ by less than a float can square
        return Estimate(reason=f"{measure} is nearly the same for all {len(values)} queries")
    return Estimate(value=max(-1.0, min(1.0, together / math.sqrt(spread))))


AGREEMENT = "agreement"
Undecided = Literal["leave_out", "disagrees"]
"""What an answer counts that nobody could compare: it is left out, or it does not agree."""


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
    undecided: Undecided = "leave_out",
    absent: Absent = "skip",
    sampling: Sampling = Sampling(),  # noqa: B008  it cannot change
) -> Scores:
    """Compute the agreement rate of each run, which is what its retriever scores.

    The rate is the share of queries whose answer from the retrieved chunks agrees with any of the
    answers that the same model gave from the gold chunks. It is the mean of 1 and 0 by query.

    Source: Alinejad, Kumar and Vahdat, Evaluating the Retrieval Component in LLM-Based Question
    Answering Systems, 2024 (arXiv 2406.06458), section 2.2.

    Args:
        answers: One for each run and query.
        undecided: What an answer counts that has no verdict.
        absent: What a query counts that other runs answer and this one does not, or for which it
            retrieved nothing.
        sampling: Of the intervals.

    Raises:
        CollectionError: There is no answer, or a run answers a query twice.
    """
    given = tuple(answers)
    return summarise(
        (AGREEMENT,),
        (
            _score_gold_agreement(answer, undecided)
            for answer in given
            if answer.status != NOT_RETRIEVED
        ),
        choices={"undecided": undecided},
        absent=absent,
        not_retrieved=((one.run, one.query_id) for one in given if one.status == NOT_RETRIEVED),
        sampling=sampling,
    )


def _score_gold_agreement(answer: ComparedAnswer, undecided: Undecided) -> AnswerScore:
    agrees = agrees_with_any(answer.agrees)
    if agrees is None and undecided == "leave_out":
        why = answer.reason or answer.status or "no verdict, and no reason given"
        figure = Estimate(reason=why)
    else:
        figure = Estimate(value=float(agrees is True))
    counts = {
        "agree": int(agrees is True),
        "disagree": int(agrees is False),
        "undecided": int(agrees is None),
    }
    if agrees is None and answer.status:
        counts[f"undecided: {answer.status}"] = 1
    return answer_score(answer.run, answer.query_id, {AGREEMENT: figure}, counts)


class NuggetVerdict(NamedTuple):
    """What a person said of one nugget; None where the question was not answered.

    Attributes:
        hallucinated: Whether it says what is not in the answer (the paper's A).
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


class NuggetQuality(Protocol):
    """A measure of the nuggets of one or more queries."""

    def __call__(self, read: Sequence[ReadNuggets]) -> Estimate:
        """Compute it of all nuggets together."""
        ...


def nugget_precision(read: Sequence[ReadNuggets]) -> Estimate:
    """Compute the share of nuggets that are neither minor nor redundant.

        (|nuggets| - sum(B)) / |nuggets|

    Source: Thakur et al., FreshStack, 2025 (arXiv 2504.13128), section 5.2.1, equation 2.
    """
    redundant = [each.redundant for one in read for each in one.nuggets]
    return _unanswered(redundant, "redundant") or _share_nugget_quality(redundant)


def nugget_completeness(read: Sequence[ReadNuggets]) -> Estimate:
    """Compute the share of the nuggets needed that are there: the paper's recall.

        (|nuggets| - sum(B)) / (|nuggets| - sum(B) + C)

    Source: FreshStack, section 5.2.1, equation 3.
    """
    redundant = [each.redundant for one in read for each in one.nuggets]
    if fault := _unanswered(redundant, "redundant"):
        return fault
    additional = [one.additional for one in read]
    if None in additional:
        return Estimate(reason="how many nuggets are missing was not answered")
    good = redundant.count(False)
    needed = good + sum(number or 0 for number in additional)
    if not needed:
        return Estimate(reason="no nugget is to the point, and none is missing")
    return Estimate(value=good / needed)


def nugget_groundedness(read: Sequence[ReadNuggets]) -> Estimate:
    """Compute the share of nuggets that say nothing beyond the answer.

        (|nuggets| - sum(A)) / |nuggets|

    Source: FreshStack, section 5.2.1, equation 4.
    """
    hallucinated = [each.hallucinated for one in read for each in one.nuggets]
    return _unanswered(hallucinated, "hallucinated") or _share_nugget_quality(hallucinated)


NUGGET_QUALITIES: Mapping[str, NuggetQuality] = MappingProxyType(
    {
        "precision": nugget_precision,
        "recall": nugget_completeness,
        "groundedness": nugget_groundedness,
    }
)
"""As in Table 5 of the paper."""


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
        answer_score(
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
    return summarise(tuple(NUGGET_QUALITIES), scored, choices={}, sampling=sampling)


def pooled_nugget_quality(read: Sequence[ReadNuggets]) -> dict[str, Estimate]:
    """Compute the three figures over the nuggets of all queries together, each the same weight."""
    return {name: measure(read) for name, measure in NUGGET_QUALITIES.items()}


def _unanswered(verdicts: Sequence[bool | None], question: str) -> Estimate | None:
    if not verdicts:
        return Estimate(reason="there are no nuggets")
    if open_ := verdicts.count(None):
        return Estimate(reason=f"{open_} of {len(verdicts)} nuggets have no verdict: {question}")
    return None


def _share_nugget_quality(faults: Sequence[bool | None]) -> Estimate:
    return Estimate(value=faults.count(False) / len(faults))


MissingAssignment = Literal["leave_out", "zero", "no_value"]
"""What a nugget counts whose assignment failed or is not there: it leaves numerator and
denominator, it is not supported, or the answer has no value."""
NuggetsCounted = Literal["query", "answer"]
"""Which nuggets an answer has: all that some answer to its query has, or its own."""
Over = Literal["vital", "all", "weighted"]
"""Over which nuggets: the vital ones, all alike, or vital ones 1 and okay ones a half."""

_CREDIT: Mapping[Assignment, float] = {"support": 1.0, "partial_support": 0.5, "not_support": 0.0}


class NuggetAssignment(NamedTuple):
    """A nugget, and how far one answer holds it.

    Attributes:
        nugget: Its id, or its text: what it is known by among the nuggets of its query.
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
        over: Which nuggets count, and how much.
        strict: Whether partial support counts 0 and not a half.
    """

    over: Over
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


def nugget_recall(
    nuggets: Sequence[NuggetAssignment],
    measure: NuggetRecall,
    *,
    missing: MissingAssignment = "leave_out",
    empty: Empty = "skip",
) -> Estimate:
    """Compute the share of the nuggets that an answer supports.

        sum over n of weight(n) * credit(n) / sum over n of weight(n)

    with the credit 1 for support, 0 for none, and for partial support 0 (strict) or 1/2. The
    weight is 1 of every nugget (A), of the vital ones only (V), or 1 of vital and 1/2 of okay
    ones (W). A nugget without importance counts in A, and in V and W not at all.

    Source: Pradeep et al., Initial Nugget Evaluation Results for the TREC 2024 RAG Track with the
    AutoNuggetizer Framework, 2024 (arXiv 2411.09607), section 3.3: V, V_strict, A, A_strict, W,
    W_strict.

    Args:
        nuggets: All of the query.
        measure: One of `NUGGET_RECALLS`.
        missing: What a nugget counts whose assignment failed or is not there. castorini's
            nuggetizer 0.0.6 counts it 0 (`zero`).
        empty: What an answer counts where no nugget counts, as none is vital. nuggetizer gives 0.

    Returns:
        From 0 to 1, or why there is no value.
    """
    counted: list[tuple[float, Assignment | None]] = [
        (weight, nugget.assignment)
        for nugget in nuggets
        if (weight := _weight_nugget_recall(nugget, measure.over))
    ]
    if not counted:
        if empty == "zero":
            return Estimate(value=0.0)
        return Estimate(reason=_NOTHING[measure.over] if nuggets else "the query has no nuggets")
    given = [
        (weight, _credit(assignment, measure))
        for weight, assignment in counted
        if assignment in _CREDIT
    ]
    unknown = len(counted) - len(given)
    if missing == "no_value" and unknown:
        return Estimate(reason=f"{unknown} of {len(counted)} nuggets have no assignment")
    if not given and missing == "leave_out":
        return Estimate(reason=f"none of {len(counted)} nuggets has an assignment")
    total = sum(weight for weight, _ in (counted if missing == "zero" else given))
    return Estimate(value=sum(weight * credit for weight, credit in given) / total)


def score_assignments(
    answers: Iterable[AnswerAssignments],
    *,
    missing: MissingAssignment = "leave_out",
    empty: Empty = "skip",
    absent: Absent = "skip",
    counted: NuggetsCounted = "query",
    sampling: Sampling = Sampling(),  # noqa: B008  it cannot change
) -> Scores:
    """Score answers by all six measures.

    With `missing="zero", empty="zero", counted="answer"` every answer has what nuggetizer 0.0.6
    gives it: strict_vital_score, vital_score, strict_all_score and all_score are V_strict, V,
    A_strict, A. Its last line mixes all runs of a file in one mean; here each run has its own.

    A nugget that other answers to the same query were assigned, and this one was not, is missing
    in this one: a list that came back too short does not score higher for it. nuggetizer looks at
    the answer's own list only.

    Args:
        answers: One for each run and query.
        missing: As for `nugget_recall`.
        empty: As for `nugget_recall`.
        absent: What a query counts that other runs answer and this one does not, or for which it
            retrieved nothing.
        counted: Whether the nuggets of an answer are all that an answer to its query has, or its
            own.
        sampling: Of the intervals.

    Raises:
        CollectionError: There is no answer, a run answers a query twice, an answer has a nugget
            twice, or a nugget of a query has two importances.
    """
    every = tuple(answers)
    given = [each for each in every if each.status != NOT_RETRIEVED]
    known = _nuggets_by_query(given) if counted == "query" else {}
    for each in given:
        _check_twice(each)
    return summarise(
        tuple(NUGGET_RECALLS),
        (
            _score_nugget_recall(each, known.get(each.query_id, {}), missing, empty)
            for each in given
        ),
        choices={"missing": missing, "empty": empty, "nuggets": counted},
        absent=absent,
        not_retrieved=((one.run, one.query_id) for one in every if one.status == NOT_RETRIEVED),
        sampling=sampling,
    )


_NOTHING: Mapping[Over, str] = {
    "vital": "no nugget is vital",
    "weighted": "no nugget has an importance",
    "all": "the query has no nuggets",
}


def _score_nugget_recall(
    answer: AnswerAssignments,
    known: Mapping[str, Importance | None],
    missing: MissingAssignment,
    empty: Empty,
) -> AnswerScore:
    own = {each.nugget for each in answer.nuggets}
    others = (
        NuggetAssignment(nugget, importance, None)
        for nugget, importance in known.items()
        if nugget not in own
    )
    nuggets = (*answer.nuggets, *others)
    assignments = [each.assignment for each in nuggets]
    return answer_score(
        answer.run,
        answer.query_id,
        {
            name: nugget_recall(nuggets, measure, missing=missing, empty=empty)
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
                    f"run {answer.run!r}, query {answer.query_id!r}: nugget {nugget!r} is {importance or 'not rated'}, and "
                    f"{of_query[nugget] or 'not rated'} in another answer to the query; score "
                    "answers that were assigned the same nuggets"
                )
    return known


def _check_twice(answer: AnswerAssignments) -> None:
    own = set()
    for nugget, _, _ in answer.nuggets:
        if nugget in own:
            raise CollectionError(
                f"run {answer.run!r}, query {answer.query_id!r}: nugget {nugget!r} stands twice; "
                "keep one"
            )
        own.add(nugget)


def _weight_nugget_recall(nugget: NuggetAssignment, over: Over) -> float:
    if over == "all" or nugget.importance == "vital":
        return 1.0
    return 0.5 if over == "weighted" and nugget.importance == "okay" else 0.0


def _credit(assignment: Assignment | None, measure: NuggetRecall) -> float:
    if assignment is None or (measure.strict and assignment == "partial_support"):
        return 0.0
    return _CREDIT[assignment]
