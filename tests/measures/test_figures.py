"""All figures, pinned: whoever changes one is told what else to change."""

import hashlib
import json
import random
from collections.abc import Sequence
from typing import TypeVar

from freshstack_dspy.measures.conventions import CONVENTIONS
from freshstack_dspy.measures.evaluation import MEASURES_VERSION, evaluate
from freshstack_dspy.measures.measure import FAMILIES
from freshstack_dspy.measures.qrels import NuggetQrels
from freshstack_dspy.measures.run import Run
from freshstack_dspy.measures.statistics import macro_interval, mean_interval
from freshstack_dspy.records import ScoredChunk

T = TypeVar("T")

FIGURES = {1: "4b25f3be17763179"}
"""By the version of the measures, the digest of all figures below."""
CHANGED = (
    "a figure changed: raise MEASURES_VERSION in measures/version.py, say so in CHANGELOG, and "
    "give the new version its digest here"
)
PARAMETERS = {
    "alpha": (0.0, 0.3, 1.0),
    "beta": (0.8,),
    "dcg": ("exp-log2",),
    "grade": ("count", "max"),
    "of": ("answerable",),
    "w": (0.3,),
    "rel": (2,),
    "judged_only": (True,),
}


def one_of(chance: random.Random, choices: Sequence[T]) -> T:
    """Choose by `random` alone, which is the same in every version of Python."""
    return choices[int(chance.random() * len(choices))]


def collection() -> tuple[NuggetQrels, Run]:
    """Make 40 queries with ties, holes, graded labels, and some that have nothing."""
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


def test_no_figure_changes_within_a_version() -> None:
    qrels, run = collection()
    found: dict[str, object] = {}
    for conventions in CONVENTIONS:
        of = evaluate(qrels, run, names(), conventions=conventions)
        found[conventions] = [of.means, of.per_query]
    ours = evaluate(qrels, run, [f"{name}@5" for name in ("nDCG", "alpha_nDCG")], bounds=True)
    found["bounds"] = [each.model_dump() for each in ours.bounds]
    values = ours.values("nDCG@5")
    topics = {query: query[1:2] for query in values}
    found["intervals"] = [
        mean_interval(values, resamples=500).model_dump(),
        macro_interval(values, topics, resamples=500).model_dump(),
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
