"""Embedders, rerankers and retrievers."""

from pathlib import Path

import pytest

from freshstack_dspy.config import load_config

from .least import LEAST, refused, written

EMBEDDER = '[[embedder]]\nname = "small"\nmodel = "openai/text-embedding-3-small"\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[pool]\nretrievers = ["bm25", "large"]', "pool.retrievers names ['large']; there are: bm25, lsa, hybrid"),
        ('[pool]\nretrievers = ["hybrid+rerank"]', "pool.retrievers names ['hybrid+rerank']"),
        ('[fusion]\nmethod = "weighted"\nweights = {large = 2}', "fusion.weights names ['large']"),
        (EMBEDDER + EMBEDDER, "each [[embedder]] needs a name of its own"),
        ('[[embedder]]\nname = "bm25"\nmodel = "openai/e"', "name is 'bm25', which is taken"),
        ('[[embedder]]\nname = "small"', "name either model, of LiteLLM, or path"),
        ("[reranker]\ndepth = 5", "name either model, of LiteLLM, or path"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_retrievers_is_said(folder: Path, text: str, said: str) -> None:
    assert said in refused(written(folder, LEAST + text))


def test_an_embedder_is_a_retriever_by_its_name(folder: Path) -> None:
    config = load_config(
        written(folder, LEAST + EMBEDDER + '[pool]\nretrievers = ["bm25", "small", "hybrid"]')
    )

    assert config.pool.retrievers == ("bm25", "small", "hybrid")


def test_a_reranker_makes_a_retriever(folder: Path) -> None:
    text = '[reranker]\nmodel = "cohere/rerank-v3.5"\n[pool]\nretrievers = ["hybrid+rerank"]'

    assert load_config(written(folder, LEAST + text)).reranker is not None
