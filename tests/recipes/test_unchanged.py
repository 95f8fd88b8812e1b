"""A rerun of an unchanged build does nothing, and a rerun of a changed one is a build."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.config import BuildConfig, Mode
from freshstack_dspy.lm.bundle import Bundle, Bundles, write_bundle
from freshstack_dspy.lm.store import Recorded, ReplyStore
from freshstack_dspy.recipes.build import build
from freshstack_dspy.recipes.provenance import fingerprint_inputs, unchanged
from freshstack_dspy.recipes.session import Replies
from tests.lm.recording import every_value, rows

from .domain import domain, files_of
from .scripted import Inputs, Said, ScriptedProvider, judge, nuggetize, when


def found_unchanged(
    config: BuildConfig, mode: Mode = "live", recorded: Recorded | None = None
) -> Collection | None:
    """What a rerun would find unchanged."""
    store = ReplyStore(config.cache.path)
    try:
        replies: Any = (store, recorded or Bundles())
        found = unchanged(config, mode, fingerprint_inputs(config), Replies(*replies))
    finally:
        store.close()
    return found.collection if found else None


def rebuilt(config: BuildConfig, mode: Mode = "live") -> bool:
    """Whether a rerun is a build: a build writes the folder anew, and a skip leaves it alone."""
    before = config.out.stat().st_ino
    build(config, mode=mode, provider=ScriptedProvider())
    return config.out.stat().st_ino != before


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a build, to be copied."""
    folder = tmp_path_factory.mktemp("built")
    build(domain(folder), provider=ScriptedProvider())
    return folder


@pytest.fixture
def copied(built: Path, tmp_path: Path) -> BuildConfig:
    """A build that is done, elsewhere: nothing in it depends on where it stands."""
    shutil.copytree(built, tmp_path, dirs_exist_ok=True)
    config = domain(tmp_path)
    assert found_unchanged(config) is not None
    return config


def no_json(_inputs: Inputs) -> Said:
    """A reply that is no answer."""
    return Said("no JSON at all")


class OnceInvalid:
    """Nuggets that come only when they are asked for again."""

    def __init__(self) -> None:
        self._asked: set[str] = set()

    def __call__(self, inputs: Inputs) -> Any:
        if inputs["question"] in self._asked:
            return nuggetize(inputs)
        self._asked.add(inputs["question"])
        return Said("no JSON at all")


@pytest.mark.parametrize("mode", ["live", "replay", "defer"])
def test_a_rerun_of_an_unchanged_build_writes_nothing_and_asks_nothing(
    tmp_path: Path, mode: Mode
) -> None:
    config = domain(tmp_path)
    made = build(config, provider=ScriptedProvider())
    before, folder = files_of(config.out), config.out.stat().st_ino
    silent = ScriptedProvider()

    again = build(config, mode=mode, provider=silent)

    assert again == made == Collection.load(config.out)
    assert again.qrels() == made.qrels()
    assert (silent.calls.total(), files_of(config.out)) == (0, before)
    assert config.out.stat().st_ino == folder


def test_refresh_is_never_skipped(copied: BuildConfig) -> None:
    assert found_unchanged(copied, "rerecord") is None
    assert rebuilt(copied, "rerecord")


@pytest.mark.usefixtures("copied")
def test_what_leaves_no_trace_in_a_collection_is_no_change(tmp_path: Path) -> None:
    shutil.copytree(tmp_path / "cache", tmp_path / "elsewhere")

    changed = domain(
        tmp_path,
        model={"concurrency": 7, "timeout": 5, "retries": 3, "api_key": "sk-other"},
        budget={"dollars": 100},
        prices={"input": 1.0, "output": 2.0},
        index={"path": "other-index"},
        cache={"path": "elsewhere"},
    )

    assert found_unchanged(changed) is not None


@pytest.mark.parametrize(
    "sections",
    [
        {"queries": {"limit": 2}},
        {"chunking": {"max_tokens": 64}},
        {"model": {"name": "openai/other"}},
        {"model": {"api_base": "http://127.0.0.1:9/v1"}},
        {"pool": {"top_k": 4}},
        {"judge": {"batch": 4}},
    ],
    ids=str,
)
def test_any_other_setting_is_a_change(
    copied: BuildConfig, tmp_path: Path, sections: dict[str, Any]
) -> None:
    assert found_unchanged(domain(tmp_path, **sections)) is None
    assert found_unchanged(domain(tmp_path)) == Collection.load(copied.out)


def _edited(path: Path, old: bytes, new: bytes) -> None:
    data = path.read_bytes()
    assert old in data
    path.write_bytes(data.replace(old, new))


CHANGES: dict[str, Callable[[Path], object]] = {
    "a file of the corpus": lambda folder: (folder / "corpus/src/phase.py").write_text("pass\n"),
    "a new file that is skipped": lambda folder: (folder / "corpus/b.png").write_bytes(b"\0"),
    "a question": lambda folder: _edited(folder / "questions.jsonl", b"sticks", b"hangs"),
    "a label": lambda folder: _edited(
        folder / "collection/judgments.jsonl", b'"label":1', b'"label":0'
    ),
    "no card": lambda folder: (folder / "collection/README.md").unlink(),
    "no collection": lambda folder: shutil.rmtree(folder / "collection"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_any_change_of_an_input_or_of_the_folder_is_seen(
    copied: BuildConfig, tmp_path: Path, change: Callable[[Path], object]
) -> None:
    change(tmp_path)

    assert found_unchanged(copied) is None


def test_a_reply_that_says_something_else_is_a_change(copied: BuildConfig) -> None:
    config = copied
    store = ReplyStore(config.cache.path)
    for reply in list(store.replies()):
        store.put(reply.model_copy(update={"cost": 5.0}))
    assert found_unchanged(config) is not None, "what it cost says nothing"

    reply = next(store.replies())
    store.put(reply.model_copy(update={"text": reply.text + " "}))

    assert found_unchanged(config) is None
    assert found_unchanged(config, "replay") is None


def test_an_invalid_reply_that_was_sent_back_counts_too(tmp_path: Path) -> None:
    """No record names it, and another one in its place could have been valid."""
    config = domain(tmp_path)
    made = build(config, provider=ScriptedProvider(NuggetizeAnswer=OnceInvalid()))
    assert len(made.manifest.reasked) == 3 + 3, "and what the searches returned"
    assert found_unchanged(config) is not None
    store = ReplyStore(config.cache.path)
    reply = store.get(made.manifest.reasked[0])
    assert reply is not None

    store.put(
        reply.model_copy(update={"text": '{"nuggets": [{"quote": "", "text": "It works."}]}'})
    )

    assert found_unchanged(config) is None


def test_a_reply_that_is_gone_or_damaged_is_a_change(copied: BuildConfig) -> None:
    config = copied
    store = ReplyStore(config.cache.path)
    name = f"entry:{Collection.load(config.out).nuggets[0].call_id}"
    entry = every_value(store)[name]

    for text, same in ((entry.replace("?", "!"), False), (entry, True)):
        with rows(store) as table:
            table.execute("UPDATE Cache SET value = ? WHERE key = ?", (text, name))
        assert (found_unchanged(config) is not None) == same
    with rows(store) as table:
        table.execute("DELETE FROM Cache WHERE key = ?", (name,))
    assert found_unchanged(config, "replay") is None


def test_replies_of_a_bundle_are_as_good_as_those_of_the_store(tmp_path: Path) -> None:
    config, bundle = domain(tmp_path), tmp_path / "replies.jsonl"
    made = build(config, provider=ScriptedProvider(), replies_file=bundle)
    shutil.rmtree(config.cache.path)
    replies = Bundle(bundle)
    assert found_unchanged(config, "replay", replies) == made

    write_bundle(list(replies.entries())[1:], tmp_path / "without.jsonl")

    assert found_unchanged(config, "replay", Bundle(tmp_path / "without.jsonl")) is None


def test_what_failed_is_tried_again_unless_it_is_a_replay(tmp_path: Path) -> None:
    config = domain(tmp_path)
    failing = ScriptedProvider(JudgeSupport=when("sticks", no_json, judge))
    made = build(config, provider=failing)
    assert made.failures

    assert found_unchanged(config, "live") is None
    assert found_unchanged(config, "defer") is None
    assert found_unchanged(config, "replay") == made
    assert not build(config, provider=ScriptedProvider()).failures


def test_an_input_that_changes_during_a_build_is_a_change_for_the_next(tmp_path: Path) -> None:
    config = domain(tmp_path)

    def meddling(inputs: Inputs) -> Any:
        (tmp_path / "corpus/src/phase.py").write_text("changed = True\n")
        return nuggetize(inputs)

    build(config, provider=ScriptedProvider(NuggetizeAnswer=meddling))

    assert found_unchanged(config) is None
