"""Why a replay found no reply."""

import hashlib
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy.errors import StoreError
from freshstack_dspy.lm.misses import Misses
from freshstack_dspy.lm.misses import explain_miss as explain_miss_among
from freshstack_dspy.lm.reply import Reply
from freshstack_dspy.lm.request import Ask, ChatMessage, canonical_json
from freshstack_dspy.lm.store import Line, ReplyStore
from tests.lm.recording import ask, reply, rows


class Replies:
    """Replies in memory, which count how often they are searched."""

    def __init__(self, replies: Iterable[Reply]) -> None:
        self._replies = {each.key: each for each in replies}
        self.searches = 0

    def get(self, key: str, /) -> Reply | None:
        return self._replies.get(key)

    def lines(self, holding: bytes = b"") -> Iterator[Line]:
        self.searches += 1
        for key, found in self._replies.items():
            line = canonical_json(found.model_dump(mode="json")).encode()
            if holding in line:
                yield Line(key, line)


def explain_miss(asked: Ask, replies: Iterable[Reply]) -> str:
    return explain_miss_among(asked, [Replies(replies)])


def recorded(**fields: Any) -> Reply:
    asked = ask(**fields)
    return Reply(
        key=asked.key,
        ask=asked,
        text="",
        finish_reason="stop",
        status="ok",
        received_at="2026-01-01T00:00:00+00:00",
        origin="live",
    )


def named(task: str, **parameters: Any) -> dict[str, Any]:
    return {"response_format": {"type": "json_schema", "name": task}, **parameters}


def nearest(asked: Ask, *replies: Reply) -> str:
    """Beginning of the key of the request that is named as the nearest."""
    return explain_miss(asked, replies).partition("nearest recorded request, ")[2][:12]


def test_the_same_question_is_nearer_than_a_similar_text() -> None:
    asked = ask("one and two", parameters=named("Judge"))
    same_task = recorded(text="xxx", parameters=named("Judge"))
    same_text = recorded(text="one and three", parameters=named("Nuggetize"))

    assert nearest(asked, same_text, same_task) == same_task.key[:12]


def test_of_one_question_the_most_alike_text_is_nearest() -> None:
    begins, ends = recorded(text="one and three"), recorded(text="no, one and two")

    assert nearest(ask("one and two"), recorded(text="none"), begins, ends) == ends.key[:12]


def test_of_one_text_the_most_alike_settings_are_nearest() -> None:
    one_off = recorded(parameters={"temperature": 0.5, "max_tokens": 8})
    two_off = recorded(parameters={"temperature": 0.1, "max_tokens": 8})

    assert nearest(ask(), two_off, one_off) == one_off.key[:12]
    assert nearest(ask(), one_off, two_off) == one_off.key[:12]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model": "openai/gpt-4"}, "model ('openai/gpt-4' recorded, 'openai/gpt-4o' asked)"),
        ({"endpoint": "http://a"}, "endpoint ('http://a' recorded, 'openai:default' asked)"),
        ({"sample": 3}, "sample (3 recorded, None asked)"),
        ({"parameters": {"temperature": 0.5}}, "max_tokens (None recorded, 9 asked)"),
        ({"text": "help"}, "message 1 (user) from character 3 on ('p' recorded, 'lo' asked)"),
        (
            {"messages": (ChatMessage(role="user", content="hello"),) * 3},
            "the messages (3 recorded, 1 asked)",
        ),
    ],
)
def test_every_field_that_differs_is_named(change: dict[str, Any], said: str) -> None:
    assert explain_miss(ask(), [recorded(**change)]).endswith(
        f"differs in {said}. Record it with --mode live"
    )


def test_long_texts_are_shown_from_where_they_part() -> None:
    said = explain_miss(ask("a" * 500 + "b" * 500), [recorded(text="a" * 500 + "c" * 500)])

    assert "from character 500 on ('ccc" in said
    assert len(said) < 500


@given(st.text(max_size=8), st.text(max_size=8))
def test_the_place_named_is_the_first_that_differs(one: str, other: str) -> None:
    if one == other:
        return
    place = next(
        (n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )

    assert f"from character {place} on (" in explain_miss(ask(one), [recorded(text=other)])


def test_among_settings_that_hold_the_name_of_the_question_it_is_still_the_same_question() -> None:
    asked = ask("a", parameters=named("Judge"))
    other = recorded(text="a", parameters={**named("Other"), "extra": {"name": "Judge"}})
    same = recorded(text="b", parameters=named("Judge"))

    assert nearest(asked, other, same) == same.key[:12]


def test_where_the_question_was_never_asked_the_most_alike_text_is_named() -> None:
    other = recorded(text="one and three", parameters=named("Other"))
    asked = ask("one and two", parameters=named("Judge"))

    assert nearest(asked, recorded(text="none"), other) == other.key[:12]


def test_where_nothing_is_recorded_it_says_so() -> None:
    assert "nothing is recorded at all" in explain_miss(ask(), [])


def test_damaged_entries_are_left_out_and_counted(store: ReplyStore) -> None:
    """A miss must not be hidden by a row that has nothing to do with it."""
    for text in ("hellp", "hell", "other"):
        store.put(reply(to=text))
    with rows(store) as table:
        for text, change in (("hellp", "mode = 4"), ("hell", "value = value || ' '")):
            key = f"reply:{ask(text).key}"
            table.execute(f"UPDATE Cache SET {change} WHERE key = ?", (key,))
    said = explain_miss_among(ask(), [store])

    assert f"the nearest recorded request, {ask('other').key[:12]}" in said
    assert said.endswith("(2 damaged entries were left out; freshstack cache verify lists them)")


def test_an_entry_that_is_sealed_and_still_no_reply_is_left_out(store: ReplyStore) -> None:
    """A seal is no signature: a stranger can make one."""
    for text, line in (("hellp", '{"ask":{"messages":[{"content":"hello"}],"parameters":{}}}'),
                       ("hell", "[" * 99999), ("help", '{"ask":7}')):  # fmt: skip
        store._cache.set(f"reply:{ask(text).key}", f"{_sha256(line)}\n{line}")
    store.put(reply(to="other"))
    said = explain_miss_among(ask(), [store])

    assert f"the nearest recorded request, {ask('other').key[:12]}" in said
    assert "1 damaged entries" in said


def _sha256(line: str) -> str:
    return hashlib.sha256(line.encode()).hexdigest()


def test_the_work_is_bounded_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("freshstack_dspy.lm.misses._MOST", 3)
    replies = [recorded(text=f"hello {number}") for number in range(4)]

    assert explain_miss(ask(), replies).endswith("(of 3 that were compared)")
    assert "compared" not in explain_miss(ask(), replies[:2])


def test_of_requests_that_are_equally_near_the_first_is_named() -> None:
    one, other = recorded(text="hello 1"), recorded(text="hello 2")

    assert nearest(ask(), one, other) == one.key[:12]
    assert nearest(ask(), other, one) == other.key[:12]


class Unreadable(Replies):
    def lines(self, holding: bytes = b"") -> Iterator[Line]:
        raise StoreError("the disk is gone")
        yield


def test_a_source_that_cannot_be_searched_hides_neither_the_miss_nor_the_others() -> None:
    said = explain_miss_among(ask(), [Unreadable([]), Replies([recorded(text="help")])])

    assert said.startswith(f"no recorded reply for request {ask().key}")
    assert "message 1 (user) from character 3 on" in said
    assert said.endswith("; the disk is gone")


def test_threads_that_miss_at_once_search_once_and_all_say_what_was_found() -> None:
    source, misses = Replies([recorded(text="help")]), Misses()
    together = threading.Barrier(8)

    def miss(number: int) -> str:
        together.wait()
        return misses.explain(ask(f"hello {number}"), [source])

    with ThreadPoolExecutor(8) as pool:
        said = list(pool.map(miss, range(8)))

    assert source.searches == 1
    (first,) = [each for each in said if ", nor for others" not in each]
    for number, each in enumerate(said):
        assert each.startswith(f"no recorded reply for request {ask(f'hello {number}').key}")
        assert each.endswith(first)
