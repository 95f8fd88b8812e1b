"""What hypothesis draws, and the same as ir_measures takes it."""

from collections import defaultdict
from pathlib import Path

import ir_measures
from hypothesis import strategies as st

NuggetLabels = dict[str, dict[str, int]]
CHUNKS = [*"abcdefgh", "A", "B10", "B9", "é", "with  two spaces", "with space"]
"""Ids whose byte order is not their natural order."""
UNJUDGED = ["u1", "u2", "u3"]
chunks = st.sampled_from(CHUNKS)
cutoffs = st.integers(1, 20)


def labels(max_label: int = 1) -> st.SearchStrategy[NuggetLabels]:
    """Labels of one to five nuggets; some may have none."""
    nugget = st.dictionaries(chunks, st.integers(0, max_label), max_size=8)
    return st.lists(nugget, min_size=1, max_size=5).map(
        lambda nuggets: {f"n{number}": nugget for number, nugget in enumerate(nuggets)}
    )


rankings = st.lists(st.sampled_from(CHUNKS + UNJUDGED), unique=True)
tied_scores = st.dictionaries(
    st.sampled_from(CHUNKS + UNJUDGED), st.sampled_from([0.0, 0.5, 1.0]), min_size=1
)
graded = st.lists(
    st.dictionaries(chunks, st.integers(-2, 3), max_size=8), min_size=1, max_size=5
).map(lambda nuggets: {f"n{number}": labels for number, labels in enumerate(nuggets)})
rels = st.sampled_from([1, 2, 3])


def by_subtopic(labels: NuggetLabels) -> list[ir_measures.Qrel]:
    """The qrels of diversity measures: a nugget is a subtopic."""
    return [
        ir_measures.Qrel("q", chunk, label, nugget)
        for nugget, judged in labels.items()
        for chunk, label in judged.items()
    ]


def by_chunk(labels: NuggetLabels) -> list[ir_measures.Qrel]:
    """The qrels of all other measures: a chunk's highest label for any nugget.

    A negative one is 0 there: pytrec_eval ends the process at some that are below 0.
    """
    highest: dict[str, int] = {}
    for judged in labels.values():
        for chunk, label in judged.items():
            highest[chunk] = max(label, highest.get(chunk, 0))
    return [ir_measures.Qrel("q", chunk, label) for chunk, label in highest.items()]


def scored(ranking: list[str]) -> list[ir_measures.ScoredDoc]:
    """A run without ties, in the order given."""
    return [ir_measures.ScoredDoc("q", chunk, float(-place)) for place, chunk in enumerate(ranking)]


def theirs(names: list[str], qrels: list[ir_measures.Qrel], ranking: list[str]) -> dict[str, float]:
    """What ir_measures gives for the query, by our names; 0 where it has nothing.

    Those with one list of parameters are asked for together: of several alphas it computes one.
    """
    found = dict.fromkeys(names, 0.0)
    groups: defaultdict[str, dict[ir_measures.Measure, str]] = defaultdict(dict)
    for name in names:
        groups[name.partition("(")[2].partition(")")[0]][ir_measures.parse_measure(name)] = name
    for measures in groups.values() if qrels and ranking else ():
        for metric in ir_measures.iter_calc(list(measures), qrels, scored(ranking)):
            found[measures[metric.measure]] = metric.value
    return found


SHARED = next(
    (
        folder / "shared" / "data"
        for folder in Path(__file__).resolve().parents
        if (folder / "shared" / "data").is_dir()
    ),
    Path("shared"),
)
"""Real judgments and runs; tests on them are skipped where they are not."""
