"""A rerun of an unchanged build does nothing, and a rerun of a changed one is a build."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy import BuildConfig, Collection, ReplyStore, build
from freshstack_dspy.config import Mode
from freshstack_dspy.lm.bundle import Bundle, Bundles
from freshstack_dspy.lm.store import Recorded
from freshstack_dspy.recipes.provenance import WITHOUT_EFFECT, fingerprint_inputs, unchanged
from freshstack_dspy.recipes.session import Replies
from tests.lm.recording import write_bundle

from .conftest import Built
from .domain import domain, files_of
from .scripted import Inputs, Said, ScriptedProvider, judge, nuggetize, when


@pytest.fixture
def config(copied: Callable[[str], BuildConfig]) -> BuildConfig:
    return copied("usual")


def found_unchanged(
    config: BuildConfig, mode: Mode = "live", recorded: Recorded | None = None
) -> Collection | None:
    """What a rerun would find unchanged."""
    store = ReplyStore(config.cache.path)
    try:
        replies: Any = (store, recorded or Bundles())
        return unchanged(config, mode, fingerprint_inputs(config), Replies(*replies))
    finally:
        store.close()


def no_json(_inputs: Inputs) -> Said:
    """A reply that is no answer."""
    return Said("no JSON at all")


@pytest.mark.parametrize("mode", ["live", "replay", "defer"])
def test_a_rerun_of_an_unchanged_build_writes_nothing_and_asks_nothing(
    usual: Built, config: BuildConfig, mode: Mode
) -> None:
    before, folder = files_of(config.out), config.out.stat().st_ino
    silent = ScriptedProvider()

    again = build(config, mode=mode, provider=silent)

    assert again == usual.collection == Collection.load(config.out)
    assert (silent.calls.total(), files_of(config.out)) == (0, before)
    assert config.out.stat().st_ino == folder


def test_what_leaves_no_trace_in_a_collection_is_no_change(
    config: BuildConfig, tmp_path: Path
) -> None:
    shutil.copytree(config.cache.path, tmp_path / "elsewhere")

    changed = domain(
        tmp_path,
        model={"concurrency": 7, "timeout": 5, "retries": 3, "api_key": "sk-other"},
        budget={"dollars": 100},
        prices={"input": 1.0, "output": 2.0},
        index={"path": "other-index"},
        cache={"path": "elsewhere"},
    )

    assert found_unchanged(changed) is not None


def test_every_section_is_compared_or_named_as_without_effect(tmp_path: Path) -> None:
    """A section that a later version adds is compared until somebody decides otherwise."""
    assert WITHOUT_EFFECT.keys() <= BuildConfig.model_fields.keys()
    for name, excluded in WITHOUT_EFFECT.items():
        if excluded is not True:
            section = getattr(domain(tmp_path), name)
            assert set(excluded) <= type(section).model_fields.keys()


@pytest.mark.usefixtures("config")
@pytest.mark.parametrize(
    "sections",
    [
        {"queries": {"limit": 2}},
        {"chunking": {"max_tokens": 64}},
        {"model": {"name": "openai/other"}},
        {"model": {"api_base": "http://127.0.0.1:9/v1"}},
        {"pool": {"top_k": 4}},
        {"judge": {"batch": 4}},
        {"judge": {"model": "openai/other"}},
        {"judge.model": {"api_base": "http://127.0.0.1:9/v1"}},
        {"nuggets.model": {"temperature": 0.5}},
    ],
    ids=str,
)
def test_any_other_setting_is_a_change(tmp_path: Path, sections: dict[str, Any]) -> None:
    assert found_unchanged(domain(tmp_path, **sections)) is None
    assert found_unchanged(domain(tmp_path)) is not None


def _edited(path: Path, old: bytes, new: bytes) -> None:
    data = path.read_bytes()
    assert old in data
    path.write_bytes(data.replace(old, new))


CHANGES: dict[str, Callable[[Path], object]] = {
    "a file of the corpus": lambda folder: (folder / "corpus/src/phase.py").write_text("pass\n"),
    "a new file that is skipped": lambda folder: (folder / "corpus/b.png").write_bytes(b"\0"),
    "a question": lambda folder: _edited(folder / "questions.jsonl", b"sticks", b"hangs"),
    "a label": lambda folder: _edited(
        folder / "collection/judgments.jsonl", b'"label":2', b'"label":0'
    ),
    "no card": lambda folder: (folder / "collection/README.md").unlink(),
    "no collection": lambda folder: shutil.rmtree(folder / "collection"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_any_change_of_an_input_or_of_the_folder_is_seen(
    config: BuildConfig, tmp_path: Path, change: Callable[[Path], object]
) -> None:
    change(tmp_path)

    assert found_unchanged(config) is None


def test_an_input_that_changes_during_a_build_is_a_change_for_the_next(tmp_path: Path) -> None:
    config = domain(tmp_path)

    def meddling(inputs: Inputs) -> Any:
        (tmp_path / "corpus/src/phase.py").write_text("changed = True\n")
        return nuggetize(inputs)

    build(config, provider=ScriptedProvider(NuggetizeAnswer=meddling))

    assert found_unchanged(config) is None


def test_a_reply_that_says_something_else_or_is_gone_is_a_change(
    usual: Built, config: BuildConfig
) -> None:
    store = ReplyStore(config.cache.path)
    for reply in list(store.replies()):
        store.put(reply.model_copy(update={"cost": 5.0}))
    assert found_unchanged(config) is not None, "what it cost says nothing"

    reply = next(store.replies())
    store.put(reply.model_copy(update={"text": reply.text + " "}))
    store.close()
    assert found_unchanged(config) is None

    shutil.rmtree(config.cache.path)
    assert found_unchanged(config, "replay") is None
    assert found_unchanged(config, "replay", Bundle(usual.bundle)) == usual.collection
    write_bundle(list(Bundle(usual.bundle).entries())[1:], config.out.with_name("without.jsonl"))
    without = Bundle(config.out.with_name("without.jsonl"))
    assert found_unchanged(config, "replay", without) is None


def test_what_failed_may_be_tried_again_unless_it_is_a_replay(tmp_path: Path) -> None:
    config = domain(tmp_path)
    failing = ScriptedProvider(JudgeSupportLevel=when("sticks", no_json, judge))
    made = build(config, provider=failing)
    assert made.failures

    assert found_unchanged(config, "live") is None
    assert found_unchanged(config, "defer") is None
    assert found_unchanged(config, "replay") == made
    assert build(config, provider=ScriptedProvider()).failures == made.failures
    healed = build(config, mode="rerecord", failed=True, provider=ScriptedProvider())
    assert not healed.failures


# Fingerprints of the inputs


@pytest.mark.parametrize("api_base", ["http://10.0.0.1/v1", "ftp://10.0.0.1"])
def test_an_endpoint_counts_without_its_password(tmp_path: Path, api_base: str) -> None:
    plain = fingerprint_inputs(domain(tmp_path, model={"api_base": api_base}))
    secret = api_base.replace("//", "//me:secret@")

    assert fingerprint_inputs(domain(tmp_path, model={"api_base": secret})) == plain
    assert bool(plain) == api_base.startswith("http"), "a bad address is for the build to refuse"
