"""The diversity measures against what NIST's ndeval printed for two runs of the TREC 2012 Web track.

It printed them with `-c`, and in its default mode, which goes by the rank column.
"""

import csv
from collections import defaultdict
from pathlib import Path

import pytest

from freshstack_dspy.measures.conventions import CONVENTIONS
from freshstack_dspy.measures.evaluation import evaluate
from freshstack_dspy.measures.measure import parse_measure
from freshstack_dspy.measures.qrels import NuggetQrels
from freshstack_dspy.measures.run import read_run

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "data" / "trec-web-2012-diversity"
CUT_OFFS = (5, 10, 20)
PRINTED = 5.1e-7
"""Half of the last of the six decimals that it prints."""
NAMES = {
    f"{ours}@{k}": f"{theirs}@{k}"
    for k in CUT_OFFS
    for ours, theirs in {
        "alpha_nDCG": "alpha-nDCG",
        "alpha_DCG": "alpha-DCG",
        "ERR_IA": "ERR-IA",
        "nERR_IA": "nERR-IA",
        "P_IA": "P-IA",
        "StRecall": "strec",
    }.items()
} | {"NRBP": "NRBP", "nNRBP": "nNRBP", "AP_IA": "MAP-IA"}
RUNS = ["ql_results-cata-filtered", "rm_results-catb-filtered"]

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason=f"there is no folder {FOLDER}")


@pytest.fixture(scope="module")
def qrels() -> NuggetQrels:
    nuggets: defaultdict[str, dict[str, None]] = defaultdict(dict)
    labels: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for line in (FOLDER / "qrels.diversity.txt").read_text(encoding="utf-8").splitlines():
        topic, subtopic, document, label = line.split()
        nuggets[topic][f"{topic}/{subtopic}"] = None
        labels[f"{topic}/{subtopic}"][document] = int(label)
    return NuggetQrels({topic: tuple(ids) for topic, ids in nuggets.items()}, labels)


def printed(name: str) -> dict[str, dict[str, str]]:
    with (FOLDER / f"{name}.ndeval.csv").open(encoding="utf-8") as file:
        return {row["topic"]: row for row in csv.DictReader(file)}


@pytest.mark.parametrize("name", RUNS)
def test_every_value_of_every_topic_and_its_mean_are_those_of_ndeval(
    name: str, qrels: NuggetQrels
) -> None:
    evaluation = evaluate(
        qrels, read_run(FOLDER / f"{name}.run"), list(NAMES), conventions="ndeval -c"
    )
    rows = printed(name)
    means = rows.pop("amean")

    assert evaluation.beyond == ()
    assert set(rows) == set(evaluation.per_query)
    for ours, theirs in NAMES.items():
        values = {topic: float(row[theirs]) for topic, row in rows.items()}
        assert evaluation.values(ours) == pytest.approx(values, rel=0, abs=PRINTED)
        mean = pytest.approx(float(means[theirs]), rel=0, abs=PRINTED)
        assert evaluation.means[ours] == mean


@pytest.mark.parametrize("name", RUNS)
def test_the_scores_of_these_runs_give_other_values_than_the_ranks_that_ndeval_keeps(
    name: str, qrels: NuggetQrels
) -> None:
    """Were there no tie that matters, the test above would not show whose order was taken."""
    of = read_run(FOLDER / f"{name}.run")
    measure = parse_measure("P_IA@20")
    by_rank, by_score = (
        CONVENTIONS[each].order_of(measure, [20]) for each in ("ndeval", "pyndeval")
    )

    tops = [
        (list(by_rank.chunks(of, topic)[:20]), list(by_score.chunks(of, topic)[:20]))
        for topic in qrels.nuggets
    ]

    assert any(ranked != scored for ranked, scored in tops)
