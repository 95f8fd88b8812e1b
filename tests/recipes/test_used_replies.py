"""The replies that a collection was made from, as a bundle that rebuilds it elsewhere."""

import threading
from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.config import BuildConfig
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.lm.bundle import Bundle, write_bundle
from freshstack_dspy.lm.store import ReplyStore
from freshstack_dspy.recipes.build import build
from freshstack_dspy.recipes.provenance import used_replies
from tests.lm.recording import rows

from .domain import domain
from .scripted import (
    Inputs,
    Said,
    Script,
    ScriptedProvider,
    answer_closed_book,
    decompose,
    judge,
    nuggetize,
    when,
)

DIAL, PHASE = "The dial sticks", "phase of the dial"


def stammering(script: Script, times: int) -> Script:
    """Give an invalid reply a few times to each question before the right one."""
    guard, said = threading.Lock(), dict[str, int]()

    def answer(inputs: Inputs) -> Any:
        with guard:
            count = said[inputs["question"]] = said.get(inputs["question"], 0) + 1
        return Said("Well, it depends.") if count <= times else script(inputs)

    return answer


def provider() -> ScriptedProvider:
    """Answers some questions late, some never, and one with a refusal."""
    return ScriptedProvider(
        NuggetizeAnswer=stammering(nuggetize, 2),
        DecomposeQuestion=when(DIAL, lambda _: Said("I will not.", "content_filter"), decompose),
        AnswerClosedBook=when(PHASE, lambda _: Said("Never."), answer_closed_book),
        JudgeSupport=when(DIAL, stammering(judge, 1), judge),
    )


@pytest.fixture
def config(tmp_path: Path) -> BuildConfig:
    return domain(tmp_path / "here", model={"concurrency": 1})


def export(config: BuildConfig, bundle: Path) -> int:
    store = ReplyStore(config.cache.path, read_only=True)
    try:
        return write_bundle(used_replies(Collection.load(config.out), [store]), bundle)
    finally:
        store.close()


def test_a_collection_is_rebuilt_elsewhere_from_its_bundle_alone(
    config: BuildConfig, tmp_path: Path
) -> None:
    built = build(config, provider=provider(), replies_file=tmp_path / "saved.jsonl")
    written = export(config, tmp_path / "used.jsonl.zst")
    there = domain(tmp_path / "there", cache={"bundles": ["../used.jsonl.zst"]})

    rebuilt = build(there, mode="replay")

    assert {failure.status for failure in built.failures} == {"refused", "unparsed"}
    assert rebuilt.manifest.content_hash == built.manifest.content_hash
    assert not there.cache.path.exists()
    statuses = [each.status for each in Bundle(tmp_path / "used.jsonl.zst").replies()]
    assert len(statuses) == written - 3, "and a search for each question"
    assert statuses.count("unparsed") > 6, "those that were sent back are there too"


def test_it_is_exactly_what_the_build_says_that_it_used(
    config: BuildConfig, tmp_path: Path
) -> None:
    build(config, provider=provider(), replies_file=tmp_path / "saved.jsonl")
    export(config, tmp_path / "used.jsonl")

    assert (tmp_path / "used.jsonl").read_bytes() == (tmp_path / "saved.jsonl").read_bytes()


def test_a_reply_that_is_not_recorded_here_is_named(config: BuildConfig, tmp_path: Path) -> None:
    collection = build(config, provider=provider())
    missing = collection.nuggets[0].call_id
    store = ReplyStore(config.cache.path)
    with rows(store) as table:
        table.execute("DELETE FROM Cache WHERE key = ?", (f"entry:{missing}",))
    store.close()

    with pytest.raises(CollectionError, match=f"the reply {missing} .* is not recorded here"):
        export(config, tmp_path / "a.jsonl")
    assert not (tmp_path / "a.jsonl").exists()
