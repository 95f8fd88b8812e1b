"""Which chunks are sampled, in which order, and which belong together."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy import Chunk, Query
from freshstack_dspy.config import QueriesConfig
from freshstack_dspy.recipes.pooling import with_seeds
from freshstack_dspy.recipes.synthesis import sampled
from freshstack_dspy.records import Candidate


def chunk(source: str, number: int, tokens: int = 100) -> Chunk:
    return Chunk(
        chunk_id=f"{source}/{number}.md_0_9",
        source=source,
        path=f"{number}.md",
        start_byte=0,
        end_byte=9,
        text=f"{source} {number}",
        tokens=tokens,
    )


def settings(**keys: object) -> QueriesConfig:
    return QueriesConfig.model_validate({"source": "synthetic", "count": 1, **keys})


def made_from(query_id: str, *chunk_ids: str) -> Query:
    return Query(
        query_id=query_id,
        title="t",
        body="",
        answer="a",
        origin="synthetic",
        seed_chunk_ids=chunk_ids,
    )


NUMBERS = st.lists(st.integers(0, 99), unique=True, min_size=1)


@given(NUMBERS, st.data())
def test_chunks_keep_their_order_when_others_come_or_go(
    numbers: list[int], data: st.DataObject
) -> None:
    """So a corpus that grows gives mostly the questions that it gave."""
    fewer = data.draw(st.sets(st.sampled_from(numbers), min_size=1))

    order = sampled(settings(), [chunk("a", n) for n in sorted(numbers)])
    left = sampled(settings(), [chunk("a", n) for n in sorted(fewer)])

    assert left == [chunk_id for chunk_id in order if chunk_id in left]


def test_sources_take_turns_in_an_order_of_the_seed() -> None:
    chunks = [chunk("small", n) for n in range(3)] + [chunk("large", n) for n in range(97)]

    one, other = sampled(settings(), chunks), sampled(settings(seed=1), chunks)

    assert Counter(each.partition("/")[0] for each in one[:6]) == {"small": 3, "large": 3}
    assert one != other
    assert set(one) == set(other)


def test_only_what_the_configuration_names_is_sampled() -> None:
    chunks = [chunk(source, n, tokens=50 * n) for source in ("a", "b") for n in range(4)]
    config = settings(sources=["a"], min_tokens=100)

    assert {*sampled(config, chunks)} == {"a/2.md_0_9", "a/3.md_0_9"}


def test_seeds_are_added_to_pools_once_and_queries_without_a_pool_get_none() -> None:
    pooled = [
        Candidate(query_id="q", chunk_id=chunk_id, origin="reused") for chunk_id in ("a", "c")
    ]
    queries = [made_from("q", "b", "c"), made_from("without", "z")]

    found = with_seeds(queries, pooled)

    assert [(one.query_id, one.chunk_id, one.origin) for one in found] == [
        ("q", "a", "reused"),
        ("q", "b", "seed"),
        ("q", "c", "reused"),
    ]
    assert with_seeds([], pooled) == pooled
