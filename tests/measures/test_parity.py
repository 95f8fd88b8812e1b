"""Every mode that claims to equal a program, against that program, on random collections.

The numbers a program gives are compared to 1e-12; those that it prints rounded, exactly.
"""

import math
from collections.abc import Callable, Iterable

import pyndeval
import pytest
import pytrec_eval
from freshstack.retrieval.evaluation import EvaluateRetrieval

from freshstack_dspy.measures.evaluation import Evaluation, evaluate

from .at_random import Example, example

BY_DEFAULT, IN_ALL = 200, 20_000
NEAR_ENOUGH = 1e-12

PYNDEVAL = {
    "alpha_nDCG": "alpha-nDCG",
    "alpha_DCG": "alpha-DCG",
    "ERR_IA": "ERR-IA",
    "nERR_IA": "nERR-IA",
    "P_IA": "P-IA",
    "StRecall": "strec",
}
PYNDEVAL_WHOLE = {"NRBP": "NRBP", "nNRBP": "nNRBP", "AP_IA": "MAP-IA"}
TREC_EVAL = {
    "nDCG": "ndcg_cut",
    "P": "P",
    "Recall": "recall",
    "Success": "success",
    "AP": "map_cut",
}
TREC_EVAL_WHOLE = {"nDCG": "ndcg", "RR": "recip_rank", "AP": "map", "Rprec": "Rprec"}


def same(ours: Evaluation, theirs: dict[str, dict[str, float]], names: dict[str, str]) -> None:
    """Compare by query; theirs has no entry for what ours leaves out or counts 0.

    pyndeval divides 0 by 0 for nNRBP where nothing is relevant; here that is no value.
    """
    for query, values in ours.per_query.items():
        for name, their_name in names.items():
            value = theirs.get(query, {}).get(their_name, 0.0)
            if math.isnan(value):
                assert query in ours.without_relevant
                value = 0.0
            apart = abs(values.get(name, 0.0) - value)
            assert apart <= NEAR_ENOUGH, (query, name, values.get(name), value)


def as_pyndeval(of: Example) -> None:
    names = {
        f"{ours}@{k}": f"{theirs}@{k}" for ours, theirs in PYNDEVAL.items() for k in of.cutoffs
    }
    names |= PYNDEVAL_WHOLE
    if len(set(of.judgments)) < len(of.judgments):
        del names["AP_IA"]  # pyndeval counts a judgment that stands there twice as two documents
    ours = evaluate(of.qrels, of.run, list(names), conventions="pyndeval")
    names = {name: theirs for name, theirs in names.items() if name not in ours.beyond}
    judgments = [pyndeval.SubtopicQrel(*judgment) for judgment in of.judgments]
    found = [
        pyndeval.ScoredDoc(query, chunk, score)
        for query, scores in of.results.items()
        for chunk, score in scores.items()
    ]
    evaluator = pyndeval.RelevanceEvaluator(
        judgments, list(names.values()), relevance_level=of.qrels.threshold
    )

    theirs = evaluator.evaluate(found)

    same(ours, theirs, names)
    judged = {query for query, *_ in of.judgments}
    counted = {query for query, values in ours.per_query.items() if values}
    assert counted & judged == theirs.keys()
    # Of a query without any judgment pyndeval does not know that it is one.
    assert counted - judged <= set(ours.without_relevant)


def as_trec_eval(of: Example) -> None:
    names = {
        f"{ours}@{k}": f"{theirs}_{k}" for ours, theirs in TREC_EVAL.items() for k in of.cutoffs
    }
    names |= TREC_EVAL_WHOLE
    ours = evaluate(of.qrels, of.run, list(names), conventions="trec_eval")
    assert ours.beyond == ()
    evaluator = pytrec_eval.RelevanceEvaluator(grades(of), set(asked(of.cutoffs)))

    theirs = evaluator.evaluate(of.results)

    same(ours, theirs, names)
    counted = {query for query, values in ours.per_query.items() if values}
    assert counted == of.qrels.nuggets.keys() & of.results.keys()
    assert theirs.keys() <= counted


def asked(cutoffs: Iterable[int]) -> Iterable[str]:
    listed = ",".join(map(str, cutoffs))
    yield from (f"{name}.{listed}" for name in TREC_EVAL.values())
    yield from TREC_EVAL_WHOLE.values()


def grades(of: Example) -> dict[str, dict[str, int]]:
    """Sum the labels that count. Negative ones, which pytrec_eval writes out of bounds with, do
    not; to trec_eval they are as 0."""
    summed: dict[str, dict[str, int]] = {}
    for query, nuggets in of.qrels.nuggets.items():
        summed[query] = {}
        for nugget in nuggets:
            for chunk, label in of.qrels.labels[nugget].items():
                counts = label if label >= of.qrels.threshold else 0
                summed[query][chunk] = summed[query].get(chunk, 0) + counts
    return summed


def as_official(of: Example) -> None:
    """The official package raises KeyError for an empty ranking and for a query without labels."""
    labels, nuggets, counts = of.qrels.official()
    results = {
        query: found
        for query, found in of.results.items()
        if found and any(labels[nugget] for nugget in nuggets.get(query, ()))
    }
    if not results or not any(labels.values()):
        return
    cutoffs = list(of.cutoffs)
    official = EvaluateRetrieval(cutoffs)
    printed: dict[str, float] = {}
    for values in official.evaluate(labels, nuggets, counts, results):
        printed |= values
    names = {f"alpha_nDCG@{k}": f"alpha-nDCG@{k}" for k in cutoffs}
    names |= {
        f"{family}@{k}": f"{family}@{k}" for family in ("Coverage", "Recall") for k in cutoffs
    }
    printed |= official.evaluate_custom(counts, results, "ndcg")
    names |= {f"nDCG(grade='count')@{k}": f"NDCG@{k}" for k in cutoffs}

    ours = evaluate(of.qrels, of.run, list(names), conventions="freshstack")

    assert ours.beyond == ()
    assert {name: printed[theirs] for name, theirs in names.items()} == ours.means


def test_the_two_means_of_trec_eval_differ_in_the_queries_that_the_run_has_not() -> None:
    for seed in range(BY_DEFAULT):
        of = example(seed)
        in_both = evaluate(of.qrels, of.run, conventions="trec_eval")
        complete = evaluate(of.qrels, of.run, conventions="trec_eval -c")
        counted = sum(1 for values in in_both.per_query.values() if values)
        for name in in_both.measures:
            total = sum(in_both.values(name).values())
            assert in_both.means[name] == pytest.approx(total / counted)
            assert complete.means[name] == pytest.approx(total / len(of.qrels.nuggets))


PROGRAMS: list[Callable[[Example], None]] = [as_pyndeval, as_trec_eval, as_official]


@pytest.mark.parametrize("compare", PROGRAMS)
def test_the_mode_equals_the_program(compare: Callable[[Example], None]) -> None:
    for seed in range(BY_DEFAULT):
        compare(example(seed))


@pytest.mark.slow
@pytest.mark.parametrize("compare", PROGRAMS)
def test_the_mode_equals_the_program_on_thousands_of_collections(
    compare: Callable[[Example], None],
) -> None:
    """20,000 collections in all, the first of them by every program."""
    for seed in range(BY_DEFAULT, IN_ALL):
        if seed % len(PROGRAMS) == PROGRAMS.index(compare):
            compare(example(seed))
