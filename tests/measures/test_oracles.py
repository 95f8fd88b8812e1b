"""The measures against independent implementations: freshstack, pyndeval, pytrec_eval."""

import random
from fractions import Fraction
from math import log2
from statistics import fmean

import pyndeval
import pytest
import pytrec_eval
from freshstack.retrieval.evaluation import EvaluateRetrieval
from hypothesis import given, settings
from hypothesis import strategies as st

from freshstack_dspy.measures.diversity import alpha_ndcg
from freshstack_dspy.measures.evaluation import evaluate
from freshstack_dspy.measures.qrels import Judged, NuggetQrels
from freshstack_dspy.measures.ranking import recall
from freshstack_dspy.measures.run import Run
from freshstack_dspy.records import ranked

from .five import run
from .strategies import NuggetLabels, cutoffs, labels, rankings, tied_scores


def random_collection(seed: int) -> tuple[NuggetQrels, Run]:
    """Make a collection with unsupported nuggets, holes and absent queries, and a tie-free run."""
    rng = random.Random(seed)
    nuggets, judged, found = {}, {}, {}
    for query in (f"query{number}" for number in range(rng.randint(3, 25))):
        nuggets[query] = tuple(f"{query}_{number}" for number in range(rng.randint(1, 5)))
        pool = [f"{rng.choice('abC')}{rng.randrange(1000)}" for _ in range(rng.randint(5, 60))]
        share = rng.choice([0.0, 0.1, 0.4])
        for nugget in nuggets[query]:
            judged[nugget] = {chunk: int(rng.random() < share) for chunk in pool}
        if rng.random() < 0.9:
            chunks = sorted({*rng.sample(pool, len(pool) // 2), "new 1", "new 2"})
            found[query] = {chunk: rng.random() for chunk in chunks}
    found["unknown"] = {"a1": 1.0}
    found["query0"] = {"new 1": 0.5, **found.get("query0", {})}
    return NuggetQrels(nuggets, judged), run(found)


@pytest.mark.parametrize("seed", range(25))
def test_means_equal_those_of_the_official_package_to_four_decimals(seed: int) -> None:
    qrels, ours = random_collection(seed)
    cut_offs = [1, 3, 10, 20, 50]
    results = {query: dict(ranking) for query, ranking in ours.rankings.items()}

    alpha, covered, recalled = EvaluateRetrieval(cut_offs).evaluate(*qrels.official(), results)
    names = [f"{family}@{k}" for family in ("alpha_nDCG", "Coverage", "Recall") for k in cut_offs]
    evaluation = evaluate(qrels, ours, names)

    for k in cut_offs:
        # The official package rounds coverage per query before it takes the mean.
        rounded = fmean(round(of[f"Coverage@{k}"], 5) for of in evaluation.per_query.values())
        assert covered[f"Coverage@{k}"] == round(rounded, 4)
        assert recalled[f"Recall@{k}"] == round(evaluation.means[f"Recall@{k}"], 4)
        if k <= 20:
            assert alpha[f"alpha-nDCG@{k}"] == round(evaluation.means[f"alpha_nDCG@{k}"], 4)
        assert covered[f"Coverage@{k}"] == pytest.approx(
            evaluation.means[f"Coverage@{k}"], abs=6e-5
        )


@given(labels(max_label=2), tied_scores, cutoffs)
@settings(max_examples=300, deadline=None)
def test_alpha_ndcg_of_a_query_equals_that_of_pyndeval_with_ties(
    labels: NuggetLabels, scores: dict[str, float], k: int
) -> None:
    qrels = [
        pyndeval.SubtopicQrel("q", nugget, chunk, label)
        for nugget, judged in labels.items()
        for chunk, label in judged.items()
    ]
    found = [pyndeval.ScoredDoc("q", chunk, score) for chunk, score in scores.items()]
    name = f"alpha-nDCG@{k}"

    theirs = pyndeval.RelevanceEvaluator(qrels, [name]).evaluate(found)
    ours = alpha_ndcg([chunk.chunk_id for chunk in ranked(scores)], Judged(labels), k)

    if ours is None:
        assert theirs in ({}, {"q": {name: 0.0}})
    else:
        assert theirs["q"][name] == pytest.approx(ours, abs=1e-12)


def by_definition(ranking: list[str], labels: NuggetLabels, k: int, alpha: float) -> float:
    """Alpha-nDCG written down as it is defined, with exact gains and no care for speed."""
    supporting = {chunk for judged in labels.values() for chunk in judged if judged[chunk] >= 1}

    def gain(chunk: str, above: list[str]) -> Fraction:
        return sum(
            (
                Fraction(1 - alpha) ** sum(judged.get(other, 0) >= 1 for other in above)
                for judged in labels.values()
                if judged.get(chunk, 0) >= 1
            ),
            Fraction(0),
        )

    def dcg(chunks: list[str]) -> float:
        return sum(gain(c, chunks[:place]) / log2(place + 2) for place, c in enumerate(chunks))

    ideal: list[str] = []
    while len(ideal) < k and len(ideal) < len(supporting):
        ideal.append(max(supporting - set(ideal), key=lambda chunk: (gain(chunk, ideal), chunk)))
    return dcg(ranking[:k]) / dcg(ideal)


@given(labels(max_label=2), rankings, st.integers(1, 100), st.sampled_from([0.0, 0.5, 0.75, 1.0]))
@settings(max_examples=150, deadline=None)
def test_alpha_ndcg_is_what_its_definition_says_at_any_depth_and_alpha(
    labels: NuggetLabels, ranking: list[str], k: int, alpha: float
) -> None:
    ours = alpha_ndcg(ranking, Judged(labels), k, alpha=alpha)

    if ours is not None:
        assert by_definition(ranking, labels, k, alpha) == pytest.approx(ours, abs=1e-12)


@given(labels(), tied_scores, cutoffs)
@settings(max_examples=150, deadline=None)
def test_recall_of_a_query_equals_that_of_trec_eval_without_ties(
    labels: NuggetLabels, scores: dict[str, float], k: int
) -> None:
    ranking = [chunk.chunk_id for chunk in ranked(scores)]
    without_ties = {chunk: float(-place) for place, chunk in enumerate(ranking)}
    counts = NuggetQrels({"q": tuple(labels)}, labels).official().qrels_query

    ours = recall(ranking, Judged(labels), k)
    evaluator = pytrec_eval.RelevanceEvaluator(counts, {f"recall.{k}"})
    theirs = evaluator.evaluate({"q": without_ties}).get("q", {f"recall_{k}": 0.0})

    assert theirs[f"recall_{k}"] == pytest.approx(ours or 0.0, abs=1e-12)
