"""The records of vectors and scores: compact, and believed only when they are whole."""

import base64
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as drawn
from pydantic import ValidationError

from freshstack_dspy.errors import StoreError
from freshstack_dspy.lm.reply import (
    EmbeddingAsk,
    Figures,
    RerankAsk,
    figures_from_json,
    receive_figures,
    text_hash,
)
from freshstack_dspy.lm.request import canonical_json

ASK = EmbeddingAsk(model="m", endpoint="e", text=text_hash("a"))
RERANK = RerankAsk(model="m", endpoint="e", query=text_hash("q"), passages=text_hash("p"), count=2)


def record(values: Any, ask: EmbeddingAsk | RerankAsk = ASK) -> Figures:
    return receive_figures(ask, np.array(values), tokens=3, counted=True, cost=0.5)


finite = st.floats(allow_nan=False, allow_infinity=False, width=32)


@given(drawn.arrays(np.float32, st.integers(1, 40), elements=finite).filter(lambda row: row.any()))
def test_what_is_written_is_read_back_to_the_bit(vector: Any) -> None:
    line = canonical_json(record(vector).model_dump(mode="json"))

    read = figures_from_json(line, "here")

    assert read.array().tobytes() == vector.astype("<f4").tobytes()


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2, max_size=2))
def test_scores_keep_all_their_digits(scores: list[float]) -> None:
    assert record(scores, RERANK).array().tolist() == scores


def test_values_are_little_endian_floats() -> None:
    assert base64.b64decode(record([1.0, -2.0]).values).hex() == "0000803f000000c0"


@pytest.mark.parametrize(("dimensions", "most"), [(384, 2_500), (1536, 8_700), (3072, 16_900)])
def test_a_vector_takes_little_more_than_its_base64(dimensions: int, most: int) -> None:
    vector = np.random.default_rng(0).normal(size=dimensions)
    line = canonical_json(record(vector).model_dump(mode="json"))

    assert dimensions * 4 * 4 / 3 < len(line) < most
    assert len(line) < len(json.dumps(vector.tolist())) / 2


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"values": "AAAA!"}, "values are no base64"),
        ({"values": "AAAA"}, "no base64 of floats"),
        ({"values": ""}, "are a vector of 0 numbers"),
        ({"values": base64.b64encode(b"\0" * 8).decode()}, "are all zero"),
        ({"values": base64.b64encode(b"\0\0\xc0\x7f").decode()}, "not finite"),
        ({"values": base64.b64encode(b"\1" * 4 * 65_537).decode()}, "a vector of 65537 numbers"),
        ({"key": "0" * 64}, "is not the key of the request beside it"),
        ({"tokens": -1}, "tokens"),
        ({"tokens": 2**41}, "tokens"),
        ({"cost": float("inf")}, "cost"),
        ({"text": "a"}, "text"),
        ({"request": {**ASK.model_dump(), "kind": "chat"}}, "request"),
        ({"request": {**ASK.model_dump(), "text": "A" * 64}}, "request.embedding.text"),
        ({"request": RERANK.model_dump(), "key": RERANK.key}, "are 0 scores|no base64 of floats"),
    ],
)
def test_what_is_not_whole_is_refused(change: dict[str, Any], said: str) -> None:
    fields = {**record([1.0]).model_dump(mode="json"), **change}

    with pytest.raises(StoreError, match=said) as raised:
        figures_from_json(json.dumps(fields), "bundle:7")
    assert str(raised.value).startswith("bundle:7: no recorded vector or scores: ")


@pytest.mark.parametrize("count", [1, 3])
def test_scores_are_as_many_as_passages(count: int) -> None:
    with pytest.raises(ValidationError, match=f"are {count} scores for 2 passages"):
        record([0.5] * count, RERANK)


def test_a_vector_is_as_long_as_was_asked_for() -> None:
    ask = ASK.model_copy(update={"dimensions": 2})
    vars(ask).pop("key", None)

    with pytest.raises(ValidationError, match="a vector of 3 numbers, not of the 2 asked for"):
        record([1.0, 2.0, 3.0], ask)


def test_a_line_is_no_place_for_the_text() -> None:
    assert "a" not in json.loads(canonical_json(record([1.0]).model_dump(mode="json"))).values()
