"""The pooling results of the sample, built by the baseline, against retrieving with its index."""

from pathlib import Path

import pytest

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.collection.diagnose import pooling_results
from freshstack_dspy.collection.retrieve import retrieve
from freshstack_dspy.config import load_config
from freshstack_dspy.measures.evaluation import evaluate
from freshstack_dspy.recipes.build import build
from freshstack_dspy.records import SliceName

SAMPLE = Path(__file__).parents[3] / "examples" / "quickstart"
SLICES: tuple[SliceName, ...] = ("answerable", "partly_supported")
DEPTH = 20
CONFIG = f"""
name = "sample"
out = "collection"
[queries]
source = "jsonl"
path = "{SAMPLE / "questions.jsonl"}"
limit = 8
[[corpus]]
name = "xylochron"
path = "{SAMPLE / "corpus" / "xylochron"}"
[chunking]
max_tokens = 100
[index]
path = "index"
dimensions = 16
[cache]
path = "cache"
[pool]
depth = {DEPTH}
top_k = 3
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not SAMPLE.is_dir(), reason="the tests stand outside of the repository"),
]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Collection, Path]:
    folder = tmp_path_factory.mktemp("built")
    (folder / "build.toml").write_text(CONFIG)
    return build(load_config(folder / "build.toml")), folder


@pytest.mark.parametrize("retriever", ["bm25", "lsa", None])
def test_the_question_is_evaluated_as_a_run_of_the_retriever_is(
    built: tuple[Collection, Path], retriever: str | None
) -> None:
    """Only pooled chunks were judged, so the places of all others are all that must be known."""
    collection, folder = built
    measures = ("alpha_nDCG@10", "Coverage@5", "Coverage@20", "Recall@10", "Recall@50")
    run = retrieve(
        collection, retriever or "hybrid", depth=DEPTH, index_path=folder / "index", slices=SLICES
    )

    (result,) = (
        each
        for each in pooling_results(collection, SLICES, measures)
        if (each.technique, each.retriever) == ("question", retriever)
    )

    assert result.means == evaluate(collection.qrels(SLICES), run, measures).means
    assert result.means["Recall@50"] > 0


def test_the_lists_of_the_pool_have_gaps(built: tuple[Collection, Path]) -> None:
    """So the test above is one: chunks that were not pooled stand between those that were."""
    collection, _ = built
    ranks = {
        (each.query_id, by.rank)
        for each in collection.pool
        for by in each.found_by
        if (by.technique, by.retriever) == ("question", "bm25")
    }

    assert any((query_id, rank - 1) not in ranks for query_id, rank in ranks if rank > 1)
    assert any(each.ranked_below for each in collection.pool)
    assert {name for each in collection.pool for name in each.lost_without} == {"bm25", "lsa"}
