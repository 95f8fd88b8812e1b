"""Why a replay found no reply."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from freshstack_dspy.lm.misses import Misses, explain_miss
from freshstack_dspy.lm.request import ChatRequest
from freshstack_dspy.lm.store import ReplyStore
from tests.lm.recording import EMBEDDING, SEARCH, ask, every_entry, reply_to


def named(task: str, **parameters: Any) -> dict[str, Any]:
    return {"response_format": {"type": "json_schema", "name": task}, **parameters}


def explained(store: ReplyStore, asked: ChatRequest, *recorded: ChatRequest) -> str:
    for request in recorded:
        store.put(reply_to(request))
    return explain_miss(asked, store)


def test_the_same_question_is_nearer_than_a_similar_text(store: ReplyStore) -> None:
    same_task = ask("xxx", parameters=named("Judge"))
    same_text = ask("one and three", parameters={**named("Other"), "extra": {"name": "Judge"}})
    asked = ask("one and two", parameters=named("Judge"))

    assert f"request, {same_task.key[:12]}" in explained(store, asked, same_text, same_task)


def test_of_one_question_the_most_alike_text_is_nearest(store: ReplyStore) -> None:
    begins, ends = ask("one and three"), ask("no, one and two")

    message = explained(store, ask("one and two"), ask("none"), begins, ends)
    assert f"request, {ends.key[:12]}" in message


def test_differing_settings_are_named_with_both_values(store: ReplyStore) -> None:
    message = explained(store, ask(model="openai/other", sample=2), ask())

    assert "differs in model ('openai/gpt-4o' recorded, 'openai/other' asked)" in message
    assert "sample (None recorded, 2 asked)" in message
    assert message.startswith("no recorded reply for request ")


def test_where_nothing_is_recorded_it_says_so(store: ReplyStore) -> None:
    assert "nothing is recorded at all" in explained(store, ask())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=8), st.text(max_size=8))
def test_the_place_named_is_the_first_that_differs(
    tmp_path_factory: Any, one: str, other: str
) -> None:
    assume(one != other)
    assume(not any("\ud800" <= letter <= "\udfff" for letter in one + other))
    pairs = enumerate(zip(one, other, strict=False))
    place = next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))
    store = ReplyStore(tmp_path_factory.mktemp("store"))

    assert f"from character {place} on (" in explained(store, ask(one), ask(other))
    store.close()


def test_a_missing_vector_or_search_names_what_differs_of_its_kind(store: ReplyStore) -> None:
    for entry in every_entry():
        store.put(entry)
    vector = explain_miss(EMBEDDING.model_copy(update={"model": "n"}), store)
    search = explain_miss(SEARCH.model_copy(update={"settings": {"depth": 9}}), store)
    text = explain_miss(EMBEDDING.model_copy(update={"text": "0" * 64}), store)

    assert "differs in model ('m' recorded, 'n' asked)" in vector
    assert "differs in settings ({'depth': 5} recorded, {'depth': 9} asked)" in search
    assert "differs in the texts" in text


def test_threads_that_miss_at_once_search_once(store: ReplyStore) -> None:
    store.put(reply_to(ask("help")))
    misses, together = Misses(), threading.Barrier(8)

    def miss(number: int) -> str:
        together.wait()
        return misses.explain(ask(f"hello {number}"), store)

    with ThreadPoolExecutor(8) as pool:
        messages = list(pool.map(miss, range(8)))

    (first,) = [each for each in messages if ", nor for others" not in each]
    for number, message in enumerate(messages):
        assert message.startswith(f"no recorded reply for request {ask(f'hello {number}').key}")
        assert message.endswith(first)
