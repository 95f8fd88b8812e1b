"""A rerun of an unchanged build writes nothing, and a rerun of a changed one is a build."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy import BuildConfig, Collection, ReplyStore, build
from freshstack_dspy.config import Mode
from freshstack_dspy.errors import ConfigError
from freshstack_dspy.recipes.provenance import WITHOUT_EFFECT
from freshstack_dspy.recipes.stamp import Stamp

from .conftest import Built
from .domain import domain, files_of
from .scripted import Inputs, Said, ScriptedProvider, judge, nuggetize, when


@pytest.fixture
def config(copied: Callable[[str], BuildConfig]) -> BuildConfig:
    return copied("usual")


@pytest.mark.parametrize("mode", ["live", "replay", "defer"])
def test_a_rerun_of_an_unchanged_build_writes_nothing_and_asks_nothing(
    usual: Built, config: BuildConfig, mode: Mode, tmp_path: Path
) -> None:
    """Nor of one with other settings that leave no trace in a collection."""
    before, folder = files_of(config.out), config.out.stat().st_ino
    silent = ScriptedProvider()
    other = domain(
        tmp_path,
        model={"concurrency": 7, "timeout": 5, "retries": 3, "api_key": "sk-other"},
        budget={"dollars": 100},
        prices={"input": 1.0, "output": 2.0},
        index={"path": "other-index"},
    )

    for changed in (config, other):
        again = build(changed, mode=mode, provider=silent)

        assert again == usual.collection == Collection.load(config.out)
        assert (silent.calls.total(), files_of(config.out)) == (0, before)
        assert config.out.stat().st_ino == folder


def test_every_setting_without_effect_exists(tmp_path: Path) -> None:
    """And a setting that a later version adds is compared until somebody decides otherwise."""
    values = domain(tmp_path, judge={"model": "openai/other"}).resolved().model_dump()
    for name in WITHOUT_EFFECT:
        table, _, key = name.partition(".")
        assert table in BuildConfig.model_fields
        if table in ("index", "model"):
            assert key in {*values[table], "prices"}


@pytest.mark.usefixtures("config")
@pytest.mark.parametrize(
    "sections",
    [
        {"queries": {"limit": 2}},
        {"chunking": {"max_tokens": 64}},
        {"chunking": {"boundaries": "stable"}},
        {"model": {"name": "openai/other"}},
        {"pool": {"top_k": 4}},
        {"judge": {"batch": 4}},
        {"judge": {"model": "openai/other"}},
        {"nuggets.model": {"temperature": 0.5}},
    ],
    ids=str,
)
def test_a_build_with_any_other_setting_does_not_replace_it(
    tmp_path: Path, sections: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError, match="built with other settings"):
        build(domain(tmp_path, **sections), provider=ScriptedProvider())


def test_a_collection_from_before_stable_boundaries_was_packed(
    config: BuildConfig, tmp_path: Path
) -> None:
    manifest = config.out / "manifest.json"
    text = manifest.read_text()
    manifest.write_text(re.sub(r'"boundaries": ?"packed",\s*', "", text))
    assert manifest.read_text() != text
    (config.out / "SHA256SUMS").unlink()

    with pytest.raises(ConfigError, match=r"chunking\.boundaries = 'packed', now 'stable'"):
        build(domain(tmp_path, chunking={"boundaries": "stable"}), provider=ScriptedProvider())


@pytest.mark.parametrize("damage", ["a label", "the card"])
def test_a_damaged_folder_is_written_anew(config: BuildConfig, damage: str) -> None:
    before, path = files_of(config.out), config.out / "judgments.jsonl"
    if damage == "a label":
        path.write_bytes(path.read_bytes().replace(b'"label":2', b'"label":0', 1))
    else:
        (config.out / "README.md").unlink()

    build(config, mode="replay")

    after = files_of(config.out)
    assert after.keys() == before.keys()
    assert after["judgments.jsonl"] == before["judgments.jsonl"]


def test_a_reply_that_says_something_else_is_a_change(usual: Built, config: BuildConfig) -> None:
    store = ReplyStore(config.cache.path)
    for reply in list(store.replies()):
        store.put(reply.model_copy(update={"cost": 5.0}))
    assert build(config, mode="replay") == usual.collection, "what it cost says nothing"

    said = "whether the words are there"
    reply = next(one for one in store.replies() if said in one.text)
    store.put(reply.model_copy(update={"text": reply.text.replace(said, "as one sees")}))
    store.close()
    changed = build(config, mode="replay")

    assert changed.manifest.content_hash != usual.collection.manifest.content_hash


def test_what_failed_is_asked_again_where_that_is_said(tmp_path: Path) -> None:
    def no_json(_inputs: Inputs) -> Said:
        return Said("no JSON at all")

    config = domain(tmp_path)
    failing = ScriptedProvider(JudgeSupportLevel=when("sticks", no_json, judge))
    made = build(config, provider=failing)
    assert made.failures

    assert build(config, provider=ScriptedProvider()).failures == made.failures
    healed = build(config, mode="rerecord", failed=True, provider=ScriptedProvider())
    assert not healed.failures


# The short cut


@pytest.mark.parametrize(
    "name",
    [
        *("corpus/src/phase.py", "corpus/new.png", "questions.jsonl"),
        *("collection/judgments.jsonl", "collection/manifest.json", "the store"),
    ],
)
def test_any_change_of_what_a_build_depends_on_is_seen(
    config: BuildConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Also one of a file that keeps its size and time, as `cp -p` does."""
    build(config, mode="replay")
    own: Any = object()
    assert Stamp(config, {}).matches()
    assert not Stamp(config, {"recipe": own}).matches(), "no file tells of its changes"
    with monkeypatch.context() as patch:
        patch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
        assert not Stamp(config, {}).matches()

    path = tmp_path / name
    if name == "the store":
        store = ReplyStore(config.cache.path)
        store.put(next(store.replies()).model_copy(update={"cost": 5.0}))
        store.close()
    elif not path.exists():
        path.write_bytes(b"\0")
    else:
        data, state = path.read_bytes(), path.stat()
        path.write_bytes(data[:-2] + data[:1] + data[-1:])
        os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert not Stamp(config, {}).matches()


def test_a_build_that_recorded_replies_leaves_no_stamp(tmp_path: Path) -> None:
    """Nor one during which somebody else did."""
    config = domain(tmp_path)

    build(config, provider=ScriptedProvider())
    assert not Stamp(config, {}).matches()
    build(config, provider=ScriptedProvider())
    assert Stamp(config, {}).matches()


def test_an_input_that_changes_during_a_build_is_a_change_for_the_next(tmp_path: Path) -> None:
    def meddling(inputs: Inputs) -> Any:
        (tmp_path / "corpus/src/phase.py").write_text("changed = True\n")
        return nuggetize(inputs)

    config = domain(tmp_path)
    build(config, provider=ScriptedProvider(NuggetizeAnswer=meddling))

    assert not Stamp(config, {}).matches()


def test_a_build_in_which_nothing_changed_does_not_import_dspy(config: BuildConfig) -> None:
    build(config, mode="replay")
    code = f"import sys; from freshstack_dspy import build; build({str(config.file)!r}); sys.exit('dspy' in sys.modules)"

    subprocess.run([sys.executable, "-c", code], check=True, cwd=config.out.parent)
