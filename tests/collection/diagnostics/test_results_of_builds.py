"""The pooling results of a build by the baseline, against retrieving with its index."""

from pathlib import Path

import pytest

from freshstack_dspy.collection.diagnose import pooled, pooling_results
from freshstack_dspy.collection.retrieve import retrieve
from freshstack_dspy.config import load_config
from freshstack_dspy.measures.evaluation import evaluate
from freshstack_dspy.recipes.build import build
from freshstack_dspy.records import SliceName

SAMPLE = Path(__file__).parents[3] / "examples" / "quickstart"
SLICES: tuple[SliceName, ...] = ("answerable", "partly_supported")
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
depth = 20
top_k = 3
"""


@pytest.mark.slow
def test_the_question_is_evaluated_as_a_run_of_the_retriever_is(tmp_path: Path) -> None:
    """Only pooled chunks were judged, so the places of all others are all that must be known."""
    (tmp_path / "build.toml").write_text(CONFIG)
    collection = build(load_config(tmp_path / "build.toml"))
    measures = ("alpha_nDCG@10", "Coverage@5", "Coverage@20", "Recall@10", "Recall@50")

    results = {
        each.retriever: each.means
        for each in pooling_results(pooled(collection, SLICES), measures)
        if each.technique == "question"
    }

    assert any(each.ranked_below for each in collection.pool), "else the test would be none"
    for name, retriever in (("bm25", "bm25"), ("lsa", "lsa"), ("fusion", "hybrid")):
        run = retrieve(
            collection, retriever, depth=20, index_path=tmp_path / "index", slices=SLICES
        )
        assert results[name] == evaluate(collection.qrels(SLICES), run, measures).means
        assert results[name]["Recall@50"] > 0
