"""alpha-nDCG against what NIST's ndeval printed for two runs of the TREC 2012 Web track."""

import csv
from collections import defaultdict
from pathlib import Path

import pytest

from freshstack_dspy.measures import NuggetQrels, evaluate

from .five import in_order, run

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "data" / "trec-web-2012-diversity"
CUT_OFFS = (5, 10, 20)

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason=f"there is no folder {FOLDER}")


def read_qrels() -> NuggetQrels:
    nuggets: defaultdict[str, dict[str, None]] = defaultdict(dict)
    labels: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for line in (FOLDER / "qrels.diversity.txt").read_text(encoding="utf-8").splitlines():
        topic, subtopic, document, label = line.split()
        nuggets[topic][f"{topic}/{subtopic}"] = None
        labels[f"{topic}/{subtopic}"][document] = int(label)
    return NuggetQrels({topic: tuple(ids) for topic, ids in nuggets.items()}, labels)


def read_by_rank(path: Path) -> dict[str, dict[str, float]]:
    """Read a run by its rank column, which ndeval keeps on ties, as strictly falling scores."""
    ranks: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
    for line in path.read_text(encoding="utf-8").splitlines():
        topic, _, document, rank, _, _ = line.split()
        ranks[topic].append((int(rank), document))
    return {topic: in_order(*(name for _, name in sorted(ranks[topic]))) for topic in ranks}


@pytest.mark.parametrize("name", ["ql_results-cata-filtered", "rm_results-catb-filtered"])
def test_alpha_ndcg_of_every_topic_is_that_of_ndeval(name: str) -> None:
    names = [f"alpha_nDCG@{k}" for k in CUT_OFFS]
    evaluation = evaluate(read_qrels(), run(read_by_rank(FOLDER / f"{name}.run")), names)
    with (FOLDER / f"{name}.ndeval.csv").open(encoding="utf-8") as file:
        rows = {row["topic"]: row for row in csv.DictReader(file)}
    means = rows.pop("amean")

    assert set(rows) == set(evaluation.per_query)
    for k in CUT_OFFS:
        theirs = {topic: float(row[f"alpha-nDCG@{k}"]) for topic, row in rows.items()}
        ours = {topic: of[f"alpha_nDCG@{k}"] for topic, of in evaluation.per_query.items()}
        assert theirs == pytest.approx(ours, rel=0, abs=5.1e-7)
        assert float(means[f"alpha-nDCG@{k}"]) == pytest.approx(
            evaluation.means[f"alpha_nDCG@{k}"], rel=0, abs=5.1e-7
        )
