"""What accounts have spent: written together with the replies, by many at once."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from freshstack_dspy.errors import DamagedReplyError, StoreError
from freshstack_dspy.lm.budget import Spent
from freshstack_dspy.lm.store import ReplyStore, _Put
from freshstack_dspy.lm.workers import map_in_order
from tests.lm.recording import reply, rows

ONE = Spent(calls=1, tokens=7, dollars=0.25)


def test_an_account_begins_with_nothing_spent(store: ReplyStore) -> None:
    assert store.spent("small") == Spent()


def test_a_reply_and_what_it_cost_are_written_together(store: ReplyStore) -> None:
    store.put(reply(), account="small", spent=ONE)
    store.charge("small", Spent(tokens=3))
    store.put(reply(to="free"))
    store.close()

    assert ReplyStore(store.path).spent("small") == Spent(calls=1, tokens=10, dollars=0.25)
    assert store.spent("other") == Spent()


def test_many_threads_lose_nothing(store: ReplyStore) -> None:
    def pay(number: int) -> None:
        store.put(reply(to=str(number)), account="a", spent=ONE)
        store.charge("b", ONE)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(pay, range(100)))

    assert store.spent("a") == store.spent("b") == Spent(calls=100, tokens=700, dollars=25.0)


def test_many_processes_lose_nothing(store: ReplyStore) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        f"sys.path.insert(0, {str(Path(__file__).parents[3])!r})\n"
        "from freshstack_dspy.lm.store import ReplyStore\n"
        "from freshstack_dspy.lm.budget import Spent\n"
        f"store = ReplyStore(Path({str(store.path)!r}))\n"
        "for _ in range(50): store.charge('a', Spent(calls=1, tokens=7, dollars=0.25))\n"
    )
    processes = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(3)]

    assert [process.wait(timeout=60) for process in processes] == [0, 0, 0]
    assert store.spent("a") == Spent(calls=150, tokens=1050, dollars=37.5)


@pytest.mark.parametrize("name", ["", "a:b", "../a", "a b", ".hidden", "a" * 101, "grün", "a\n"])
def test_a_name_that_could_be_anothers_entry_is_refused(store: ReplyStore, name: str) -> None:
    for use in (lambda: store.spent(name), lambda: store.charge(name, ONE)):
        with pytest.raises(StoreError, match="cannot name an account"):
            use()


@pytest.mark.parametrize("change", ["replace(value, '7', '1')", "'{}'", "replace(value, '{', '[')"])
def test_an_edited_account_is_noticed_and_never_begins_anew(store: ReplyStore, change: str) -> None:
    """An account that begins anew would let a build spend its budget twice."""
    store.charge("a", ONE)
    with rows(store) as table:
        table.execute(f"UPDATE Cache SET value = {change} WHERE key = 'spent:a'")

    with pytest.raises(DamagedReplyError, match="the account 'a' is damaged"):
        store.spent("a")
    with pytest.raises(DamagedReplyError, match="the account 'a' is damaged"):
        store.charge("a", ONE)


@pytest.mark.parametrize("account", ["a", "no name"])
def test_a_reply_that_was_paid_for_is_recorded_even_if_the_account_cannot_be_charged(
    store: ReplyStore, account: str
) -> None:
    store.charge("a", ONE)
    with rows(store) as table:
        table.execute("UPDATE Cache SET value = 'x' WHERE key = 'spent:a'")

    with pytest.raises(StoreError, match="account"):
        store.put(reply(), account=account, spent=ONE)
    assert store.get(reply().key) == reply()


def test_many_threads_write_together_and_lose_nothing(tmp_path: Path) -> None:
    """Replies that wait for the lock are written by whoever has it, equal keys one by one."""
    store = ReplyStore(tmp_path / "cache")
    spent = Spent(calls=1, tokens=2, dollars=0.25)

    def write(number: int) -> None:
        store.put(reply(f"{number}", to=f"question {number % 50}"), account="mine", spent=spent)

    map_in_order(write, range(400), workers=32)

    assert store.spent("mine") == Spent(calls=400, tokens=800, dollars=100.0)
    replies = list(store.replies())
    kept = [store.replaced(each.key, number) for each in replies for number in range(1, 8)]
    texts = [each.text for each in [*replies, *kept] if each is not None]
    assert sorted(texts, key=int) == [str(number) for number in range(400)]
    store.close()


def test_a_transaction_that_fails_is_no_failure_of_the_next(
    store: ReplyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reply to the same request waits before it, so that they are two transactions."""
    before = _Put(reply().key, "one", account=None, spent=None)
    store._puts.append(before)
    transact = store._cache.transact

    def failing_once() -> None:
        monkeypatch.setattr(store._cache, "transact", transact)
        raise OSError("no space left on device")

    monkeypatch.setattr(store._cache, "transact", failing_once)
    store.put(reply("two"), account="mine", spent=ONE)

    assert "no space left on device" in str(before.error)
    assert store.get(reply().key) == reply("two")
    assert store.spent("mine") == ONE


def test_a_reply_that_is_too_long_takes_no_other_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("freshstack_dspy.lm.store.LONGEST_ENTRY", 10_000)
    store = ReplyStore(tmp_path / "cache")

    def write(number: int) -> str:
        try:
            store.put(reply("x" * (20_000 if number % 5 == 0 else 10), to=f"question {number}"))
        except StoreError as error:
            return str(error)
        return "written"

    outcomes = map_in_order(write, range(50), workers=16)

    assert outcomes.count("written") == len(list(store.replies())) == 40
    assert all("10,000 bytes" in said for said in outcomes if said != "written")
    store.close()
