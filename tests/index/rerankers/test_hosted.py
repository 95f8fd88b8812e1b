"""Hosted rerankers, as a build opens them."""

from typing import Any

import pytest

from freshstack_dspy.index.connecting import connect_reranker
from freshstack_dspy.index.models import Reranker
from freshstack_dspy.lm.store import ReplyStore
from freshstack_dspy.lm.vectors import Access, used_figures
from tests.index.embedders.hosting import build_config
from tests.lm.chat_server import ChatServer
from tests.lm.embedding.numbers_server import score


def test_a_build_without_a_reranker_has_none() -> None:
    assert connect_reranker(build_config(), Access()) is None


def test_a_build_opens_its_reranker_and_hands_on_what_it_used(
    server: ChatServer, store: ReplyStore
) -> None:
    settings = {"model": "infinity/scripted", "api_base": server.api_base}
    opened = connect_reranker(build_config(reranker=settings), Access(store=store))
    assert opened is not None
    checked: Reranker = opened

    assert checked.scores("q", ["b", "a"]) == [score("q", "b"), score("q", "a")]
    assert len(list(used_figures([opened]))) == 1
    opened.close()


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
    one = connect_reranker(build_config(reranker=settings), Access("replay"))
    other = connect_reranker(build_config(reranker={**settings, **change}), Access("replay"))

    assert one is not None
    assert other is not None
    assert (one.identity == other.identity) is same
