"""Hosted rerankers, and cross-encoders in folders where the `transformers` extra is installed."""

from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy.config import RerankerConfig
from freshstack_dspy.errors import ConfigError
from freshstack_dspy.index.models import connected
from freshstack_dspy.index.rerankers import FolderReranker, HostedReranker
from freshstack_dspy.lm.store import ReplyStore
from freshstack_dspy.lm.vectors import Access, used_numbers
from tests.index.hosting import build_config
from tests.index.tiny_models import tiny_cross_encoder
from tests.lm.chat_server import ChatServer
from tests.lm.numbers_server import score


def test_a_build_opens_its_reranker_and_hands_on_what_it_used(
    server: ChatServer, store: ReplyStore
) -> None:
    settings = {"model": "infinity/scripted", "api_base": server.api_base, "depth": 7}
    with connected(build_config(reranker=settings), Access(store=store)) as models:
        assert models.reranker is not None
        found = models.reranker.scores("q", ["b", "a"])

    assert found == [score("q", "b"), score("q", "a")]
    assert models.rerank_depth == 7
    assert len(list(used_numbers([models.reranker]))) == 1


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"model": "infinity/other"}, False),
        ({"api_base": "http://127.0.0.1:2"}, False),
        ({"depth": 7}, True),
        ({"timeout": 5, "price": 1.0}, True),
    ],
)
def test_the_identity_is_the_model_and_where_it_is(change: dict[str, Any], same: bool) -> None:
    settings = {"model": "infinity/scripted", "api_base": "http://127.0.0.1:1"}
    one, other = (
        HostedReranker(RerankerConfig.model_validate(each), Access("replay"))
        for each in (settings, {**settings, **change})
    )

    assert (one.identity == other.identity) is same


@pytest.mark.filterwarnings("ignore")
def test_scores_of_a_folder_are_those_of_the_library(tmp_path: Path) -> None:
    library = pytest.importorskip("sentence_transformers", reason="needs the transformers extra")
    folder = tiny_cross_encoder(tmp_path / "tiny")
    passages = ["red", "green blue", "store"]
    model = library.CrossEncoder(str(folder), local_files_only=True)
    expected = model.predict([("query", passage) for passage in passages])
    reranker = FolderReranker(RerankerConfig(path=folder))

    assert reranker.scores("query", passages) == pytest.approx(expected.tolist(), abs=1e-5)
    assert reranker.scores("query", []) == []


@pytest.mark.filterwarnings("ignore")
def test_a_classifier_is_no_reranker(tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers", reason="needs the transformers extra")
    folder = tiny_cross_encoder(tmp_path / "tiny", labels=3)

    with pytest.raises(ConfigError, match="this model gives 3: it is a classifier"):
        FolderReranker(RerankerConfig(path=folder)).scores("query", ["red", "blue"])
