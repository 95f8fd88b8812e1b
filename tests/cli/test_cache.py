"""`freshstack cache`: replies out as a bundle, in again, and checked."""

import json
import shutil
from pathlib import Path

import pytest

from freshstack_dspy.lm.bundle import Bundle, write_bundle
from freshstack_dspy.lm.store import ReplyStore
from tests.lm.recording import reply, rows
from tests.recipes.domain import write_domain

from .conftest import BASELINE, Command


@pytest.fixture
def built(freshstack: Command, config: Path) -> Path:
    """The configuration of a collection that was built."""
    assert freshstack("build", config, "--save-replies", "saved.jsonl").code == 0
    return config


def change_replies(folder: Path, change: str) -> None:
    store = ReplyStore(folder)
    with rows(store) as table:
        table.execute(f"UPDATE Cache SET {change} WHERE key LIKE 'entry:%'")
    store.close()


@pytest.mark.parametrize("name", ["used.jsonl", "used.jsonl.zst"])
def test_export_writes_what_a_replay_elsewhere_needs(
    freshstack: Command, built: Path, tmp_path: Path, name: str
) -> None:
    done = freshstack("cache", "export", built, "--out", name)
    elsewhere = write_domain(tmp_path / "theirs", model=BASELINE, cache={"bundles": [f"../{name}"]})
    replayed = freshstack("build", elsewhere, "--mode", "replay")
    manifests = [
        json.loads((folder / "collection/manifest.json").read_text())["content_hash"]
        for folder in (tmp_path, tmp_path / "theirs")
    ]

    assert (done.code, done.out) == (0, f"{name}: {len(Bundle(tmp_path / name))} replies\n")
    assert replayed.code == 0
    assert manifests[0] == manifests[1]


def test_export_equals_what_the_build_saves(
    freshstack: Command, built: Path, tmp_path: Path
) -> None:
    freshstack("cache", "export", built, "--out", "used.jsonl")

    assert (tmp_path / "used.jsonl").read_bytes() == (tmp_path / "saved.jsonl").read_bytes()


def test_export_reads_bundles_where_there_is_no_store(
    freshstack: Command, built: Path, tmp_path: Path
) -> None:
    shutil.rmtree(tmp_path / "cache")
    config = write_domain(tmp_path, model=BASELINE, cache={"bundles": ["saved.jsonl"]})

    assert freshstack("cache", "export", config, "--out", "used.jsonl").code == 0
    assert (tmp_path / "used.jsonl").read_bytes() == (tmp_path / "saved.jsonl").read_bytes()
    over = freshstack("cache", "export", config, "--out", "saved.jsonl")
    assert (over.code, "is read by this command" in over.err) == (1, True)


def test_export_names_what_is_missing(freshstack: Command, built: Path, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "cache")
    done = freshstack("cache", "export", built, "--out", "used.jsonl")

    assert done.code == 1
    assert "is not recorded here" in done.err
    assert not (tmp_path / "used.jsonl").exists()


def test_import_adds_and_says_what_it_did(freshstack: Command, built: Path, tmp_path: Path) -> None:
    number = len(Bundle(tmp_path / "saved.jsonl"))
    shutil.rmtree(tmp_path / "cache")
    first = freshstack("cache", "import", "saved.jsonl", built)
    second = freshstack("cache", "import", "saved.jsonl", built)

    assert (first.code, first.out) == (0, f"{number} added, 0 there already\n")
    assert (second.code, second.out) == (0, f"0 added, {number} there already\n")
    shutil.rmtree(tmp_path / "collection")
    assert freshstack("build", built, "--mode", "replay").code == 0


def test_import_keeps_other_replies_unless_told_to_take_them(
    freshstack: Command, config: Path, tmp_path: Path
) -> None:
    store = ReplyStore(tmp_path / "cache")
    store.put(reply("ours"))
    write_bundle([reply("theirs")], tmp_path / "a.jsonl")
    key = reply().key
    kept = freshstack("cache", "import", "a.jsonl", config)
    served = store.get(key)
    taken = freshstack("cache", "import", "a.jsonl", config, "--replace")

    assert (kept.code, served) == (1, reply("ours"))
    assert f"1 conflicts ({key[:16]}): the store has other replies" in kept.out
    assert (taken.code, taken.out) == (0, f"0 added, 0 there already, 1 replaced ({key[:16]})\n")
    assert (store.get(key), store.replaced(key, 1)) == (reply("theirs"), reply("ours"))
    store.close()


def test_nothing_of_a_damaged_bundle_is_imported(
    freshstack: Command, config: Path, tmp_path: Path
) -> None:
    write_bundle([reply(to="one"), reply(to="two")], tmp_path / "a.jsonl")
    lines = (tmp_path / "a.jsonl").read_text().splitlines()
    (tmp_path / "a.jsonl").write_text(f"{lines[0]}\n{lines[1][:-9]}\n")
    done = freshstack("cache", "import", "a.jsonl", config)

    assert (done.code, "a.jsonl:2: not a recorded reply" in done.err) == (1, True)
    assert not (tmp_path / "cache").exists()


def test_verify_takes_a_configuration_a_store_or_a_bundle(
    freshstack: Command, built: Path, tmp_path: Path
) -> None:
    number = len(Bundle(tmp_path / "saved.jsonl"))
    config = write_domain(tmp_path, model=BASELINE, cache={"bundles": ["saved.jsonl"]})
    done = freshstack("cache", "verify", config)

    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[1] == f"{tmp_path}/saved.jsonl: {number} chat; 0 damaged"
    assert done.out.splitlines()[0].startswith(f"{tmp_path}/cache: 1 accounts, {number} chat")
    assert freshstack("cache", "verify", "cache").code == 0
    assert freshstack("cache", "verify", "saved.jsonl").code == 0


def test_verify_names_what_is_damaged(freshstack: Command, built: Path, tmp_path: Path) -> None:
    change_replies(tmp_path / "cache", """value = replace(value, '"ok"', '"no"')""")
    (tmp_path / "saved.jsonl").write_text("{}\n")
    store = freshstack("cache", "verify", built)
    bundle = freshstack("cache", "verify", "saved.jsonl")

    assert (store.code, bundle.code) == (1, 1)
    assert all(
        line.startswith("entry:") and "not a recorded reply" in line
        for line in store.err.splitlines()
    )
    assert bundle.out == "saved.jsonl: empty; 1 damaged\n"
    assert bundle.err.startswith("line 1: saved.jsonl:1: not a recorded reply")


def test_verify_says_in_one_line_what_is_no_store(
    freshstack: Command, built: Path, tmp_path: Path
) -> None:
    store = ReplyStore(tmp_path / "cache")
    with rows(store) as table:
        table.execute("UPDATE Cache SET value = '1' WHERE key = 'format'")
    store.close()
    for path, said in (
        ("cache", "a replies store of schema 1, and this version reads 3"),
        ("collection", "there is no replies store"),
        ("absent", "the bundle cannot be read: "),
    ):
        done = freshstack("cache", "verify", path)
        assert (done.code, len(done.err.splitlines())) == (1, 1)
        assert said in done.err
