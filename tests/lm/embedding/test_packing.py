"""How texts are put together into requests, and what these cost at worst."""

from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy.lm.prices import Price
from freshstack_dspy.lm.request import EmbeddingRequest, text_hash
from freshstack_dspy.lm.vectors import MOST_BYTES, Wanted, packed, shares, worst_of


def wanted(text: str) -> Wanted:
    return Wanted(EmbeddingRequest(model="m", endpoint="e", text=text_hash(text)), text)


@given(st.lists(st.integers(0, 2 * MOST_BYTES), max_size=12), st.integers(1, 5))
def test_requests_hold_every_text_once_in_order_within_bounds(sizes: list[int], most: int) -> None:
    texts = [wanted("x" * size) for size in sizes]

    packs = list(packed(texts, most))

    assert [one for pack in packs for one in pack] == texts
    for pack in packs:
        assert 1 <= len(pack) <= most
        assert len(pack) == 1 or sum(one.size for one in pack) <= MOST_BYTES


@given(st.integers(0, 10**9), st.lists(st.integers(0, 10**6), min_size=1, max_size=20))
def test_shares_are_whole_and_add_up(total: int, sizes: list[int]) -> None:
    parts = shares(total, sizes)

    assert sum(parts) == total
    assert len(parts) == len(sizes)
    assert min(parts) >= 0


def test_the_worst_is_a_token_for_each_byte_and_a_few_around_each_text() -> None:
    worst = worst_of([wanted("äb"), wanted("c")], Price(input=0.5, output=9))

    assert (worst.calls, worst.tokens, worst.dollars) == (1, 3 + 1 + 2 * 8, 10.0)
