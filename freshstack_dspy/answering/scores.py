"""Scores of answers from the labels of judges or people.

Nugget recall and citation support (TREC RAG), and agreement with answers from gold chunks
(LLM-retEval). Each has a function for the measures of one answer, and a `score_…` function for all
answers and their means by run. An answer for which a measure is undefined is left out of that mean,
and counted.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple, get_args

from freshstack_dspy.errors import CollectionError
from freshstack_dspy.measures.compare import Comparison, compare_evaluations
from freshstack_dspy.measures.evaluation import Values
from freshstack_dspy.measures.qrels import About
from freshstack_dspy.measures.statistics import Estimate
from freshstack_dspy.pages.shown import Shown
from freshstack_dspy.records import (
    Agreement,
    AssignedAnswer,
    AssignedNugget,
    Assignment,
    CheckedAnswer,
    Importance,
    JudgedAnswer,
    Record,
)

Combination = Literal["first", "any", "majority", "all"]
"""Which comparers an answer has to agree by: the first one, any, more than half of them, or all."""
NOT_RETRIEVED: Final = "not_retrieved"
"""The status of an answer for which nothing was retrieved: its query is absent."""


class RunScores(Values):
    """The scores of the answers of one run; in means, all its queries have the same weight."""

    counts: dict[str, dict[str, int]]
    """By query, the counts of its answer, such as `failed`."""
    absent: tuple[str, ...]
    """The queries that other runs answer and this run does not, and those for which it retrieved
    nothing; they are left out of the means."""

    @property
    def total(self) -> Counter[str]:
        """The sums of the counts over all answers."""
        total: Counter[str] = Counter()
        for counts in self.counts.values():
            total.update(counts)
        return total


class Scores(Record, Shown):
    """The scores of a set of answers."""

    measures: tuple[str, ...]
    runs: tuple[RunScores, ...]
    """By name; runs are never mixed in one mean."""

    def __repr__(self) -> str:
        answers = sum(len(run.per_query) for run in self.runs)
        return f"Scores({', '.join(self.measures)}; {len(self.runs)} runs, {answers} answers)"

    __str__ = __repr__

    def compare(self, baseline: str | None = None) -> Comparison:
        """Compare the runs with tests, as `freshstack_dspy.compare` compares retrievers.

        Args:
            baseline: The run that all others are compared with; by default every pair is compared.

        Raises:
            ConfigError: There are fewer than two runs, or no run has this name.
        """
        return compare_evaluations({run.run: run for run in self.runs}, baseline=baseline)


class _Scored(NamedTuple):
    """The scores of one answer; None if nothing was retrieved to answer from."""

    run: str
    query_id: str
    values: Mapping[str, Estimate] | None = None
    counts: Mapping[str, int] = {}


def _summarise(measures: Iterable[str], answers: Iterable[_Scored]) -> Scores:
    """Combine the scores of each run."""
    measures = tuple(measures)
    by_run: dict[str, dict[str, _Scored]] = {}
    for answer in answers:
        own = by_run.setdefault(answer.run, {})
        if answer.query_id in own:
            raise CollectionError(
                f"run {answer.run!r} has two answers to query {answer.query_id!r}; remove one"
            )
        own[answer.query_id] = answer
    if not any(answer.values is not None for own in by_run.values() for answer in own.values()):
        raise CollectionError("there are no answers to score")
    queries = {query for own in by_run.values() for query in own}
    about = About(name="answers", measured=len(queries), query_ids=frozenset(queries))
    runs = []
    for run, own in sorted(by_run.items()):
        scored = {query: own[query] for query in sorted(own) if own[query].values is not None}
        estimates = {query: answer.values or {} for query, answer in scored.items()}
        without: dict[str, dict[str, str]] = {}
        for query, values in estimates.items():
            for name, estimate in values.items():
                if estimate.value is None:
                    without.setdefault(name, {})[query] = estimate.reason or ""
        runs.append(
            RunScores(
                run=run,
                measures=measures,
                per_query={
                    query: {
                        name: estimate.value
                        for name, estimate in values.items()
                        if estimate.value is not None
                    }
                    for query, values in estimates.items()
                },
                without_value=without,
                counts={query: dict(answer.counts) for query, answer in scored.items()},
                absent=tuple(sorted(queries - scored.keys())),
                about=about,
            )
        )
    return Scores(measures=measures, runs=tuple(runs))


def score_values(values: Mapping[tuple[str, str], Mapping[str, float]]) -> Scores:
    """Make scores from existing values by run and query."""
    answers = [
        _Scored(run, query, {name: Estimate(value=value) for name, value in of_answer.items()})
        for (run, query), of_answer in values.items()
    ]
    return _summarise(dict.fromkeys(name for each in values.values() for name in each), answers)


ALL = "all"
"""What a leaderboard calls the mean of a run over its topics."""


def leaderboard_rows(scores: Scores) -> Iterator[tuple[str, str, dict[str, float]]]:
    """Give run, topic and values, followed by each run's mean, in the form of TREC Auto-Judge.

    An answer without a value has no row, and does not count. In these means, unlike in ours, a topic
    that other runs answer and this run does not counts 0.
    """
    answered = {
        name: {query for run in scores.runs for query in run.values(name)}
        for name in scores.measures
    }
    for run in scores.runs:
        for query, values in run.per_query.items():
            if values:
                yield run.run, query, values
    for run in scores.runs:
        columns = {name: run.values(name) for name in scores.measures}
        yield (
            run.run,
            ALL,
            {
                name: sum(column.values())
                / (len(column) + len(answered[name].intersection(run.absent)))
                for name, column in columns.items()
                if column
            },
        )


# Nugget recall


NUGGET_RECALLS = ("V_strict", "V", "A_strict", "A", "W_strict", "W")
"""The names of the TREC 2024 RAG track; A_strict is All-Strict of FreshStack's second version."""
_CREDIT: Mapping[str | None, float] = {"support": 1.0, "partial_support": 0.5, "not_support": 0.0}
_WEIGHTS: Mapping[str, Mapping[Importance | None, float]] = {
    "V": {"vital": 1.0},
    "W": {"vital": 1.0, "okay": 0.5},
    "A": {"vital": 1.0, "okay": 1.0, None: 1.0},
}
_NO_NUGGETS = "the query has no nuggets"
_NOTHING = {"V": "no nugget is vital", "W": "no nugget has an importance", "A": _NO_NUGGETS}


def nugget_recall(nuggets: Sequence[AssignedNugget], measure: str) -> Estimate:
    """Compute the share of a query's nuggets that an answer supports, or why there is no value.

        sum over n of weight(n) * credit(n) / sum over n of weight(n)

    where the credit is 1 for support, 0 for none, and for partial support 0 (strict) or 1/2. The
    weight is 1 for every nugget (A), 1 for vital ones only (V), or 1 for vital and 1/2 for okay
    nuggets (W). A nugget without importance counts in A, but not in V and W.

    Source: Pradeep et al., Initial Nugget Evaluation Results for the TREC 2024 RAG Track with the
    AutoNuggetizer Framework, 2024 (arXiv 2411.09607), section 3.3.
    """
    over, _, strict = measure.partition("_")
    weights = _WEIGHTS[over]
    counted = [
        (weights[each.rating], each.assignment) for each in nuggets if each.rating in weights
    ]
    assigned = [(weight, _CREDIT[label]) for weight, label in counted if label in _CREDIT]
    if assigned:
        earned = [weight * (credit // 1 if strict else credit) for weight, credit in assigned]
        return Estimate(value=sum(earned) / sum(weight for weight, _ in assigned))
    if counted:
        return Estimate(reason=f"none of {len(counted)} nuggets has an assignment")
    return Estimate(reason=_NOTHING[over] if nuggets else _NO_NUGGETS)


def score_assignments(answers: Iterable[AssignedAnswer]) -> Scores:
    """Score answers, one for each run and query, by all six measures of nugget recall.

    A nugget without an assignment is left out of its answer. If other answers to the query have a
    nugget that this one lacks, it counts as missing here, so that an incomplete list does not score
    higher.

    Raises:
        CollectionError: There is no answer, a run answers a query twice, or a nugget of a query has
            two importances.
    """
    answers = tuple(answers)
    nuggets_of = _nuggets_by_query([each for each in answers if each.status != NOT_RETRIEVED])
    scored = []
    for answer in answers:
        if answer.status == NOT_RETRIEVED:
            scored.append(_Scored(answer.run_id, answer.qid))
            continue
        query_nuggets = nuggets_of[answer.qid]
        missing = query_nuggets.keys() - {nugget.nugget_id for nugget in answer.nuggets}
        nuggets = (*answer.nuggets, *(query_nuggets[nugget_id] for nugget_id in sorted(missing)))
        assignments = [nugget.assignment for nugget in nuggets]
        counts = {
            "nuggets": len(nuggets),
            **{name: assignments.count(name) for name in get_args(Assignment)},
            "missing": assignments.count(None),
            "unrated": sum(not nugget.rated for nugget in nuggets),
        }
        values = {name: nugget_recall(nuggets, name) for name in NUGGET_RECALLS}
        scored.append(_Scored(answer.run_id, answer.qid, values, counts))
    return _summarise(NUGGET_RECALLS, scored)


def _nuggets_by_query(answers: Sequence[AssignedAnswer]) -> dict[str, dict[str, AssignedNugget]]:
    """Gather the nuggets of each query from all its answers, without their assignments."""
    by_query: dict[str, dict[str, AssignedNugget]] = {}
    for answer in answers:
        of_query = by_query.setdefault(answer.qid, {})
        for nugget in answer.nuggets:
            if nugget.nugget_id not in of_query:
                of_query[nugget.nugget_id] = nugget.model_copy(update={"assignment": None})
            elif (before := of_query[nugget.nugget_id].rating) != nugget.rating:
                raise CollectionError(
                    f"run {answer.run_id!r}, query {answer.qid!r}: nugget {nugget.nugget_id!r} is "
                    f"{nugget.rating or 'not rated'}, and {before or 'not rated'} in another answer "
                    "to the query"
                )
    return by_query


# Citation support


CITATION_MEASURES = tuple(
    f"{weighting}_{kind}_{citations}"
    for citations in ("first", "all", "best")
    for weighting in ("weighted", "hard")
    for kind in ("precision", "recall")
)
"""weighted_precision_first, …, hard_recall_best."""


def citation_support(answer: JudgedAnswer, measure: str) -> Estimate:
    """Compute how far citations support the sentences of an answer, or why there is no value.

        precision = sum of the weights / number of sentences that cite
        recall    = sum of the weights / number of sentences

    where the weight is 1 for full, 1/2 for partial (hard: 0) and 0 for no support. A sentence
    without citations only lowers recall. A sentence whose citations have no label is left out of
    both denominators. If there are several citations, either the first counts, as TREC judged them,
    or the mean or the best of those with a label. The best is for systems whose citations are of the
    whole answer.

    Source: Thakur et al., Support Evaluation for the TREC 2024 RAG Track, 2025 (arXiv 2504.15205),
    section 3.4. The variants and the treatment of missing labels follow castorini's RAGDoll 0.1.0,
    except that there an answer without citations counts 0.
    """
    weighting, kind, citations = measure.split("_")
    cited = uncited = unlabelled = 0
    total = 0.0
    for sentence in answer.sentences:
        counting = sentence.citations[:1] if citations == "first" else sentence.citations
        labels = [0 if answer.is_outside(each) else each.support for each in counting]
        weights = [
            float(label == 2) if weighting == "hard" else label / 2
            for label in labels
            if label >= 0
        ]
        if weights:
            cited += 1
            total += max(weights) if citations == "best" else sum(weights) / len(weights)
        elif counting:
            unlabelled += 1
        else:
            uncited += 1
    denominator = cited if kind == "precision" else cited + uncited
    if denominator:
        return Estimate(value=total / denominator)
    if not answer.sentences:
        return Estimate(reason="the answer has no sentences")
    if unlabelled:
        return Estimate(reason=f"{unlabelled} sentences cite, and no such citation has a label")
    return Estimate(reason="no sentence has a citation")


def score_citations(answers: Iterable[JudgedAnswer]) -> Scores:
    """Score answers by all measures of citation support."""
    scored = []
    for answer in answers:
        citations = [each for sentence in answer.sentences for each in sentence.citations]
        labels = [each.support for each in citations]
        counts = {
            "sentences": len(answer.sentences),
            "uncited": sum(not sentence.citations for sentence in answer.sentences),
            "citations": len(citations),
            "full": labels.count(2),
            "partial": labels.count(1),
            "none": labels.count(0),
            "unlabelled": labels.count(-1),
            "outside": sum(map(answer.is_outside, citations)),
        }
        values = {name: citation_support(answer, name) for name in CITATION_MEASURES}
        scored.append(_Scored(answer.run_id, answer.topic_id, values, counts))
    return _summarise(CITATION_MEASURES, scored)


# What answers contradict


CONTRADICTED = "contradicted"
"""The share of the nuggets that an answer contradicts; the lower, the better."""


def score_checks(answers: Iterable[CheckedAnswer]) -> Scores:
    """Compute the share of a query's nuggets that each answer contradicts, and count what it is.

    An answer without a text contradicts nothing, and has no value.
    """
    scored = []
    for answer in answers:
        if answer.kind == NOT_RETRIEVED:
            scored.append(_Scored(answer.run_id, answer.query_id))
            continue
        value = Estimate(reason=answer.reason or f"the answer is {answer.kind}")
        if answer.contradictions is not None:
            value = Estimate(value=len(answer.contradictions) / answer.nuggets)
        counts = {answer.kind: 1, "contradicting": int(bool(answer.contradictions))}
        scored.append(_Scored(answer.run_id, answer.query_id, {CONTRADICTED: value}, counts))
    return _summarise((CONTRADICTED,), scored)


# Agreement with answers from gold chunks


def agrees_with_any(verdicts: Sequence[bool | None]) -> bool | None:
    """Decide whether an answer agrees with any of the gold answers.

    It is undecided (None) if no verdict is yes and one is missing, or if there are no verdicts.
    """
    if True in verdicts:
        return True
    return None if None in verdicts or not verdicts else False


def score_agreement(
    answers: Iterable[Agreement],
    comparers: Mapping[str, float] | None = None,
    combine: Combination = "first",
) -> Scores:
    """Compute the agreement rate of each run, which is what its retriever scores.

    The rate is the share of queries whose answer from the retrieved chunks agrees with an answer
    from the gold chunks. An answer without a verdict is left out.

    Source: Alinejad, Kumar and Vahdat, Evaluating the Retrieval Component in LLM-Based Question
    Answering Systems, 2024 (arXiv 2406.06458), section 2.2.

    Args:
        answers: One for each run and query.
        comparers: The scores from which on answers agree, by comparer.
        combine: Which comparers an answer has to agree by. Where it is the first one, the rates of
            the others are reported under their names, else those of all.
    """
    scored = []
    others = dict([*(comparers or {}).items()][combine == "first" :])
    for answer in answers:
        if answer.status == NOT_RETRIEVED:
            scored.append(_Scored(answer.run_id, answer.query_id))
            continue
        verdicts = {"agree": True, "disagree": False, "undecided": None}
        counts = {name: int(answer.agrees is verdict) for name, verdict in verdicts.items()}
        if answer.agrees is None:
            why = answer.reason or answer.status or "no verdict, without a reason"
            values = {"agreement": Estimate(reason=why)}
            if answer.status:
                counts[f"undecided: {answer.status}"] = 1
        else:
            values = {"agreement": Estimate(value=float(answer.agrees))}
        for name, least in others.items():
            if name in answer.scores:
                values[name] = Estimate(value=float(answer.scores[name] >= least))
        scored.append(_Scored(answer.run_id, answer.query_id, values, counts))
    return _summarise(("agreement", *others), scored)
