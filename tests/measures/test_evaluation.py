"""The evaluation of a run: means, what is missing, what is unjudged."""

import hashlib
import json
import random
from collections.abc import Sequence
from random import Random
from typing import Any, TypeVar, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy import NuggetQrels, Run
from freshstack_dspy.errors import CollectionError, ConfigError
from freshstack_dspy.measures.evaluation import MEASURES_VERSION, Conventions, evaluate
from freshstack_dspy.measures.measure import FAMILIES
from freshstack_dspy.measures.statistics import macro_interval, mean_interval
from freshstack_dspy.records import ScoredChunk
from tests.measures.five import QRELS, in_order, run
from tests.measures.strategies import NuggetLabels, labels, tied_scores

FOUR = NuggetQrels(
    {"found": ("n1",), "absent": ("n2",), "empty": ("n3",), "unsupported": ("n4", "n5")},
    {"n1": {"a": 1}, "n2": {"a": 1}, "n3": {"a": 1}, "n4": {"a": 0}},
)


def test_every_query_of_the_collection_counts_and_what_is_missing_is_named() -> None:
    evaluation = evaluate(
        FOUR,
        run(
            {"found": in_order("a"), "empty": {}, "unsupported": in_order("a"), "x": in_order("a")}
        ),
        ("alpha_nDCG@5", "Coverage@5", "Recall@5"),
    )

    assert evaluation.means == {"alpha_nDCG@5": 0.25, "Coverage@5": 0.25, "Recall@5": 0.25}
    assert list(evaluation.per_query) == ["found", "absent", "empty", "unsupported"]
    for query in ("absent", "empty", "unsupported"):
        assert set(evaluation.per_query[query].values()) == {0.0}
    assert evaluation.absent == ("absent",)
    assert evaluation.empty == ("empty",)
    assert evaluation.without_relevant == ("unsupported",)
    assert evaluation.unknown == ("x",)


def test_a_run_of_another_collection_is_refused_and_not_given_zeros() -> None:
    with pytest.raises(CollectionError, match=r"none of the 1 queries of run 'run'.*'other'.*'q'"):
        evaluate(QRELS, run({"other": in_order("a")}))


@pytest.mark.filterwarnings("ignore:no document of run")
@given(labels(), tied_scores, st.randoms(use_true_random=False))
def test_the_order_in_which_tied_chunks_are_given_changes_nothing(
    labels: NuggetLabels, scores: dict[str, float], rng: Random
) -> None:
    qrels = NuggetQrels({"q": tuple(labels)}, labels)
    found = [ScoredChunk(chunk, score) for chunk, score in scores.items()]
    shuffled = rng.sample(found, len(found))
    measures = ("alpha_nDCG@3", "Coverage@3", "Recall@3")

    first = evaluate(qrels, Run("run", {"q": tuple(found)}), measures)

    assert first == evaluate(qrels, Run("run", {"q": tuple(shuffled)}), measures)


def test_queries_without_a_value_are_named_by_measure() -> None:
    qrels = NuggetQrels({"q": ("n",), "r": ("m",)}, {"n": {"a": 3}, "m": {"b": 5}}, threshold=3)
    evaluation = evaluate(qrels, run({"q": {"a": 1.0}}), ["StRecall(rel=5)@10", "Recall@5"])

    assert evaluation.without_value == {"StRecall(rel=5)@10": {"q": "no relevant chunk"}}
    assert evaluation.without_relevant == ()


def test_failed_judgments_of_the_top_are_counted_by_pair() -> None:
    """A chunk whose every judgment failed has no label, so it is unjudged as well."""
    qrels = NuggetQrels(
        {"1": ("n", "m"), "2": ("o",)},
        {"n": {"a": 1}, "o": {"a": 0}},
        {"n": frozenset({"b", "deep"}), "m": frozenset({"a", "b"}), "o": frozenset({"z"})},
    )

    of = run({"1": in_order("a", "b", "deep"), "2": in_order("a")})
    (found,) = evaluate(qrels, of, "P@2").unjudged

    assert found.failed == {"1": 3}
    assert found.shares == {"1": 0.5, "2": 0.0}


TIED = run({"q": {"c": 1.0, "a": 1.00000001, "b": 1.0}})


def test_ties_go_by_id_and_trec_eval_puts_the_larger_first() -> None:
    """It keeps scores in single precision, in which these are all tied."""
    graded = {"q": {"a": 1, "b": 2, "c": 3}}

    assert evaluate(graded, TIED, "nDCG@1").means == {"nDCG@1": 1 / 3}
    assert evaluate(graded, TIED, "nDCG@1", conventions="trec_eval").means == {"nDCG@1": 1.0}
    assert evaluate(graded, TIED, "P@1", conventions="trec_eval").tied == ()
    strange: Any = "treceval"
    with pytest.raises(ConfigError, match=r"no conventions 'treceval'; there are .*'trec_eval'"):
        evaluate(QRELS, TIED, conventions=strange)


@pytest.mark.parametrize(
    ("conventions", "counted"),
    [
        ("ours", ["found", "absent", "empty", "unsupported"]),
        ("ndeval", ["found", "unsupported"]),
        ("trec_eval", ["found", "empty", "unsupported"]),
    ],
)
def test_what_is_missing_counts_nothing_or_is_left_out(
    conventions: Conventions, counted: list[str]
) -> None:
    of = run({"found": in_order("a"), "empty": {}, "unsupported": in_order("a")})

    evaluation = evaluate(FOUR, of, ["Recall@5"], conventions=conventions)

    assert list(evaluation.values("Recall@5")) == counted
    assert evaluation.means["Recall@5"] == 1 / len(counted)
    assert "unsupported" not in evaluation.values("Recall@5", only_defined=True)
    assert (evaluation.absent, evaluation.empty) == (("absent",), ("empty",))


T = TypeVar("T")
FIGURES = {2: "c6836f23a93f4b36"}
"""By the version of the measures, the digest of all values below."""
CHANGED = (
    "a figure changed: raise MEASURES_VERSION in measures/evaluation.py, say so in CHANGELOG, and "
    "give the new version its digest here"
)
PARAMETERS = {
    "alpha": (0.0, 0.3, 1.0),
    "beta": (0.8,),
    "dcg": ("exp-log2",),
    "grade": ("sum", "max"),
    "of": ("answerable",),
    "w": (0.3,),
    "p": (0.5,),
    "rel": (2,),
    "judged_only": (True,),
}


def one_of(chance: random.Random, choices: Sequence[T]) -> T:
    """Choose by `random` alone, which is the same in every version of Python."""
    return choices[int(chance.random() * len(choices))]


def collection() -> tuple[NuggetQrels, Run]:
    """Make 40 queries with ties, found, graded labels, and some that have nothing."""
    chance = random.Random("figures")
    nuggets, labels, rankings = {}, {}, {}
    tokens: dict[str, int] = {}
    for query in (f"q{number}" for number in range(40)):
        chunks = [f"{query} {number}" for number in range(30)]
        tokens |= {chunk: 20 + int(chance.random() * 500) for chunk in chunks}
        nuggets[query] = tuple(f"{query} n{number}" for number in range(one_of(chance, (1, 3, 6))))
        share = one_of(chance, (0.0, 0.1, 0.4))
        for nugget in nuggets[query]:
            labels[nugget] = {
                chunk: one_of(chance, (1, 1, 2, 3)) if chance.random() < share else 0
                for chunk in chunks
                if chance.random() < 0.7
            }
        found = [chunk for chunk in chunks if chance.random() < 0.8]
        rankings[query] = tuple(
            ScoredChunk(chunk, float(int(chance.random() * 40))) for chunk in found
        )
    rankings["q3"] = ()
    del rankings["q7"]
    return NuggetQrels(nuggets, labels, tokens=tokens), Run("run", rankings)


def names() -> list[str]:
    """Every family, with every parameter of its own and every family's, at three cut-offs."""
    listed = []
    for name, family in FAMILIES.items():
        if name.startswith("Byte"):  # of collections only
            continue
        cuts = {"required": ("@1", "@5", "@20"), "optional": ("", "@5", "@20"), "none": ("",)}
        given = ["", *(
            f"({word}={value!r})"
            for word in (*family.parameters, "rel", "judged_only")
            for value in PARAMETERS[word]
        )]  # fmt: skip
        listed += [
            f"{name}{parameters}{cut}" for parameters in given for cut in cuts[family.cutoff]
        ]
    return listed


def test_no_value_changes_within_a_version() -> None:
    qrels, run = collection()
    found: dict[str, object] = {}
    for conventions in get_args(Conventions):
        of = evaluate(qrels, run, names(), conventions=conventions)
        found[conventions] = [of.means, of.per_query]
    ours = evaluate(qrels, run, ["nDCG@5"])
    values = ours.values("nDCG@5")
    topics = {query: [query[1:2]] for query in values}
    found["intervals"] = [
        [of.value, of.low, of.high]
        for of in (
            mean_interval(values, resamples=500),
            macro_interval(values, topics, resamples=500),
        )
    ]
    written = json.dumps(rounded(found), sort_keys=True)
    digest = hashlib.sha256(written.encode()).hexdigest()[:16]

    assert FIGURES.get(MEASURES_VERSION) == digest, CHANGED


def rounded(value: object) -> object:
    """Round every number to nine decimals, in which machines agree."""
    if isinstance(value, float):
        return round(value, 9) + 0.0
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(each) for each in value]
    return value


def test_what_is_unjudged_is_counted_in_the_order_of_the_conventions() -> None:
    tied = {"q": {"a": 1.0, "b": 1.0}}
    for conventions, judged in (("ours", 0.0), ("trec_eval", 1.0)):
        qrels = {"q": {"b": 1, "c": 0}}
        evaluation = evaluate(qrels, tied, ["Judged@1"], conventions=conventions)  # type: ignore[arg-type]
        assert evaluation.means["Judged@1"] == judged
        assert evaluation.unjudged_shares == {1: 1 - judged}
