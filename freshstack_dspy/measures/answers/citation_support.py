"""Citation support: whether the passages that an answer cites say what it says."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal, NamedTuple

from freshstack_dspy.measures.answers.scores import (
    Absent,
    AnswerScore,
    Empty,
    Sampling,
    Scores,
    answer_score,
    summarise,
)
from freshstack_dspy.measures.estimate import Estimate

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
