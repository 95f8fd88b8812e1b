"""Conventions and measures against the programs they are named after."""

import csv
import math
import subprocess
import sys
from collections.abc import Callable, Iterable
from fractions import Fraction
from math import log2

import pyndeval
import pytest
import pytrec_eval
from freshstack.retrieval.evaluation import EvaluateRetrieval
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy import read_qrels
from freshstack_dspy.measures.evaluation import Evaluation, evaluate
from freshstack_dspy.measures.qrels import Judged, NuggetQrels
from tests.measures.at_random import Example, example
from tests.measures.five import value
from tests.measures.strategies import SHARED, NuggetLabels, labels, rankings

pytestmark = pytest.mark.filterwarnings("ignore:no document of run")

BY_DEFAULT, IN_ALL = 60, 20_000
NEAR_ENOUGH = 1e-12
OFFICIAL = 5.6e-5
"""Half of the last of four decimals; the values of a query, or their mean, are rounded to five."""
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
TREC_EVAL_WHOLE = {
    "nDCG": "ndcg",
    "RR": "recip_rank",
    "AP": "map",
    "Rprec": "Rprec",
    "Bpref": "bpref",
}


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
    for family in ("alpha_DCG", "ERR_IA"):
        names.pop(f"{family}@1", None)  # where ndeval leaves the division out
    if len(set(of.judgments)) < len(of.judgments):
        del names["AP_IA"]  # pyndeval counts a judgment given twice as two documents
    ours = evaluate(of.qrels, of.run, list(names), conventions="ndeval")
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
    """Count the nuggets that a chunk supports. A chunk whose labels are all below 0, with which
    pytrec_eval writes out of bounds, is left out."""
    counted: dict[str, dict[str, int]] = {}
    for query, nuggets in of.qrels.nuggets.items():
        counted[query] = {}
        for nugget in nuggets:
            for chunk, label in of.qrels.labels[nugget].items():
                if label >= 0:
                    supports = int(label >= of.qrels.threshold)
                    counted[query][chunk] = counted[query].get(chunk, 0) + supports
    return counted


def as_official(of: Example) -> None:
    """Means rounded to four decimals, without ties, which it breaks otherwise for each measure.

    The official package raises KeyError for an empty ranking and for a query without labels.
    """
    labels, nuggets, counts = of.qrels.official()
    run = {
        query: {chunk: float(-place) for place, chunk in enumerate(of.run.ids[query])}
        for query in of.results
    }
    results = {
        query: found
        for query, found in run.items()
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
    names |= {f"nDCG@{k}": f"NDCG@{k}" for k in cutoffs}

    ours = evaluate(of.qrels, run, list(names)).means

    assert ours == pytest.approx({n: printed[their] for n, their in names.items()}, abs=OFFICIAL)


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


_NEGATIVE = """
import random, sys
import pytrec_eval
from freshstack_dspy import evaluate

for seed in range(200):
    chance = random.Random(seed)
    documents = [f"d{number}" for number in range(12)]
    qrels = {"q": {one: chance.randint(int(sys.argv[1]), 2) for one in chance.sample(documents, 8)}}
    run = {"q": {one: chance.random() for one in chance.sample(documents, 9)}}
    theirs = pytrec_eval.RelevanceEvaluator(qrels, {"bpref", "map", "ndcg"}).evaluate(run)["q"]
    ours = evaluate(qrels, run, ["Bpref", "AP", "nDCG"]).means
    for name, their_name in {"Bpref": "bpref", "AP": "map", "nDCG": "ndcg"}.items():
        assert abs(ours[name] - theirs[their_name]) < 1e-12, (seed, name, ours, theirs)
"""


@pytest.mark.parametrize("lowest", [-1, -2])
def test_grades_below_0_are_taken_as_trec_eval_takes_them(lowest: int) -> None:
    """In a process of its own, as pytrec_eval writes out of bounds with them."""
    done = subprocess.run(
        [sys.executable, "-c", _NEGATIVE, str(lowest)], check=False, capture_output=True, text=True
    )

    if done.returncode < 0:
        pytest.skip("pytrec_eval ended the process")
    assert done.returncode == 0, done.stderr


def test_the_lowest_relevant_grade_changes_no_ndcg_of_trec_eval() -> None:
    graded = {"q": {"a": 1, "b": 2, "c": 3, "d": 0}}
    found = {"q": {"a": 4.0, "b": 3.0, "d": 2.0, "c": 1.0}}
    measures = {"nDCG": "ndcg", "nDCG@3": "ndcg_cut_3", "P@3": "P_3", "AP": "map"}
    evaluator = pytrec_eval.RelevanceEvaluator(
        graded, {"ndcg", "ndcg_cut.3", "P.3", "map"}, relevance_level=2
    )
    theirs = evaluator.evaluate(found)["q"]

    qrels = NuggetQrels.from_qrels(graded, threshold=2)
    ours = evaluate(qrels, found, [*measures], conventions="trec_eval").means

    assert ours == pytest.approx({name: theirs[their] for name, their in measures.items()})
    assert evaluate(qrels, found, "nDCG").means["nDCG"] != pytest.approx(ours["nDCG"])


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
def test_alpha_ndcg_is_what_its_definition_says_at_any_depth_and_alpha(
    labels: NuggetLabels, ranking: list[str], k: int, alpha: float
) -> None:
    ours = value(f"alpha_nDCG(alpha={alpha})@{k}", ranking, Judged(labels))

    if ours is not None:
        assert by_definition(ranking, labels, k, alpha) == pytest.approx(ours, abs=1e-12)


FOLDER = SHARED / "trec-web-2012-diversity"
PRINTED = 5.1e-7
"""Half of the last of the six decimals that it prints."""
NAMES = {
    f"{ours}@{k}": f"{theirs}@{k}" for k in (5, 10, 20) for ours, theirs in PYNDEVAL.items()
} | PYNDEVAL_WHOLE
RUNS = ["ql_results-cata-filtered", "rm_results-catb-filtered"]


def printed(name: str) -> dict[str, dict[str, str]]:
    with (FOLDER / f"{name}.ndeval.csv").open(encoding="utf-8") as file:
        return {row["topic"]: row for row in csv.DictReader(file)}


@pytest.mark.skipif(not FOLDER.is_dir(), reason=f"there is no folder {FOLDER}")
@pytest.mark.parametrize("name", RUNS)
def test_every_value_of_every_topic_and_its_mean_are_those_of_ndeval(
    name: str,
) -> None:
    qrels = read_qrels(FOLDER / "qrels.diversity.txt", subtopics=True)
    lines = map(str.split, (FOLDER / f"{name}.run").read_text(encoding="utf-8").splitlines())
    ranked: dict[str, dict[str, float]] = {}
    for topic, _, document, rank, *_ in lines:  # ndeval goes by the ranks
        ranked.setdefault(topic, {})[document] = -float(rank)
    evaluation = evaluate(qrels, ranked, list(NAMES), conventions="ndeval")
    rows = printed(name)
    means = rows.pop("amean")  # with -c: a topic that the run lacks counts 0

    for ours, theirs in NAMES.items():
        values = {topic: float(row[theirs]) for topic, row in rows.items()}
        found = {topic: evaluation.per_query[topic].get(ours, 0.0) for topic in values}
        assert found == pytest.approx(values, rel=0, abs=PRINTED)
        mean = pytest.approx(float(means[theirs]), rel=0, abs=PRINTED)
        assert sum(found.values()) / len(found) == mean
