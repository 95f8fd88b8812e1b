"""`freshstack index`: what its commands print, and what they refuse."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.recipes.domain import write_domain

from .conftest import Command

EMBEDDER = '\n[[embedder]]\nname = "small"\nmodel = "openai/text-embedding-3-small"\n'


@pytest.fixture
def indexed(freshstack: Command, config: Path) -> Path:
    """A configuration whose index stands."""
    assert freshstack("index", "build", config).code == 0
    return config


def test_build_says_what_is_indexed_and_what_is_not(
    freshstack: Command, config: Path, tmp_path: Path
) -> None:
    done = freshstack("index", "build", config)

    assert done.code == 0
    assert done.out.splitlines() == [
        f"{tmp_path / 'index/small'}: 5 chunks of 5 files",
        "retrievers: bm25, lsa, hybrid",
        "1 files skipped (1 binary)",
    ]
    steps = [line.split("  ")[0] for line in done.err.splitlines()]
    assert steps[:2] == ["files", "chunks"]
    assert set(steps[2:]) == {"index: terms", "index: bm25", "index: lsa", "index: table"}


def test_update_says_what_has_changed(freshstack: Command, indexed: Path, tmp_path: Path) -> None:
    docs = tmp_path / "corpus/docs"
    (docs / "dial.md").write_text("# The dial\n\nIt shows the tide.\n")
    (docs / "crown.md").write_text("# The crown\n\nPull it.\n")
    (docs / "reset.md").unlink()

    done = freshstack("index", "update", indexed)
    again = freshstack("index", "update", indexed, "--refit")

    assert done.code == again.code == 0
    assert done.out.splitlines()[:2] == [
        "files: 1 added, 1 changed, 1 removed, 3 kept",
        "chunks: 2 added, 2 removed, 3 kept",
    ]
    assert again.out.splitlines()[:2] == [
        "files: 0 added, 0 changed, 0 removed, 5 kept",
        "chunks: 0 added, 0 removed, 5 kept",
    ]
    assert f"{tmp_path / 'index/small'}: 5 chunks of 5 files" in again.out.splitlines()


def test_search_prints_rank_score_id_and_the_line_with_the_words(
    freshstack: Command, indexed: Path
) -> None:
    done = freshstack("index", "search", indexed, "reset", "twice", "--retriever", "bm25")

    assert done.code == 0
    first, second = done.out.splitlines()[:2]
    rank, score, chunk_id = first.split("  ")[-3:]
    assert (rank.strip(), chunk_id.split("_")[0]) == ("1", "dial/docs/reset.md")
    assert float(score) > 0
    assert second == "     If the dial sticks, call reset twice."


def test_search_gives_whole_chunks_as_json(freshstack: Command, indexed: Path) -> None:
    done = freshstack("index", "search", indexed, "the dial", "--depth", 2, "--json")

    found = json.loads(done.out)
    assert (found["text"], found["retriever"]) == ("the dial", "hybrid")
    assert [chunk["rank"] for chunk in found["chunks"]] == [1, 2]
    assert found["chunks"][0]["path"] == "docs/dial.md"
    assert "phase of the moon" in found["chunks"][0]["text"]


def test_search_may_be_narrowed_by_a_filter(freshstack: Command, indexed: Path) -> None:
    words = ("index", "search", indexed, "dial", "--json")

    anywhere = json.loads(freshstack(*words).out)["chunks"]
    in_code = json.loads(freshstack(*words, "--where", "path LIKE 'src/%'").out)["chunks"]

    assert "docs/dial.md" in {chunk["path"] for chunk in anywhere}
    assert {chunk["path"] for chunk in in_code} == {"src/dial.py", "src/phase.py"}


def test_search_that_finds_nothing_says_so(freshstack: Command, indexed: Path) -> None:
    done = freshstack("index", "search", indexed, "zzz", "--retriever", "bm25")

    assert (done.code, done.out) == (0, "nothing found\n")


def test_what_is_found_moves_no_cursor(freshstack: Command, config: Path, tmp_path: Path) -> None:
    hostile = (
        "\n\n dial \x1b[2J\x1b[31m \x9b2J \u202e red\u2028 dial and more\n" + "Plain words.\n" * 40
    )
    (tmp_path / "corpus/docs/hostile.md").write_text(hostile, encoding="utf-8", newline="")
    freshstack("index", "build", config)

    plain = freshstack("index", "search", config, "red", "--retriever", "bm25").out
    as_json = freshstack("index", "search", config, "red", "--retriever", "bm25", "--json").out

    assert "hostile.md" in plain
    assert all(letter.isprintable() for letter in plain.replace("\n", ""))
    assert all(letter.isprintable() for letter in as_json.replace("\n", ""))
    assert "\x9b2J \u202e red" in json.loads(as_json)["chunks"][0]["text"]


def test_stats_say_what_is_there_and_how_large(
    freshstack: Command, indexed: Path, tmp_path: Path
) -> None:
    plain = freshstack("index", "stats", indexed)
    found = json.loads(freshstack("index", "stats", indexed, "--json").out)

    lines = plain.out.splitlines()
    assert lines[:2] == [f"{tmp_path / 'index/small'}: 5 chunks of 5 files", "dial: no revision"]
    assert "MB on disk: " in lines[-1]
    assert (found["chunks"], found["files"]) == (5, 5)
    assert found["path"] == str(tmp_path / "index/small")


@pytest.mark.parametrize("words", [("update",), ("search", "dial"), ("stats",)])
def test_without_an_index_one_is_told_how_to_build_it(
    freshstack: Command, config: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    command, *rest = words
    done = freshstack("index", command, config, *rest)

    assert (done.code, done.out) == (1, "")
    assert done.err.splitlines()[-1] == (
        f"error: {tmp_path / 'index/small'}: no index here; build it: "
        f"freshstack index build {config}"
    )


def test_an_update_after_other_settings_is_told_to_build(
    freshstack: Command, indexed: Path, tmp_path: Path
) -> None:
    config = write_domain(tmp_path, chunking={"max_tokens": 64})

    done = freshstack("index", "update", config)

    assert done.code == 1
    assert done.err.splitlines()[-1].endswith(f"build it: freshstack index build {config}")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--retriever", "bm52"), "unknown retriever 'bm52'; it must be one of bm25, lsa, hybrid"),
        (("--retriever", "hybrid+rerank"), "needs a reranker"),
        (("--where", "nonsense ="), "nonsense"),
    ],
)
def test_a_search_that_cannot_be_done_is_one_line(
    freshstack: Command, indexed: Path, words: tuple[str, ...], said: str
) -> None:
    done = freshstack("index", "search", indexed, "dial", *words)

    assert (done.code, done.out) == (1, "")
    assert len(done.err.splitlines()) == 1
    assert said in done.err


def test_bm25_needs_no_embedder_though_one_is_configured(
    freshstack: Command, indexed: Path, tmp_path: Path
) -> None:
    """And so no key, and no store."""
    indexed.write_text(indexed.read_text() + EMBEDDER)

    done = freshstack("index", "search", indexed, "dial", "--retriever", "bm25")

    assert done.code == 0
    assert not (tmp_path / "cache").exists()


def test_a_replay_asks_no_embedder(freshstack: Command, config: Path) -> None:
    config.write_text(config.read_text() + EMBEDDER)

    done = freshstack("index", "build", config, "--mode", "replay")

    assert (done.code, done.out) == (1, "")
    assert "small" in done.err.splitlines()[-1]


def test_a_repository_elsewhere_is_fetched_by_every_command(
    freshstack: Command, config: Path, tmp_path: Path
) -> None:
    corpus = tmp_path / "corpus"
    git = ("git", "-C", str(corpus), "-c", "user.name=a", "-c", "user.email=a@b")
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "1")):
        subprocess.run([*git, *words], check=True)
    text = config.read_text().replace('path = "corpus"', f'url = "file://{corpus}"')
    config.write_text(
        text.replace('[cache]\npath = "cache"', '[cache]\npath = "cache"\nclones = "clones"')
    )

    offline = freshstack("index", "build", config, "--mode", "replay")
    built = freshstack("index", "build", config)
    planned = freshstack("plan", config)
    (corpus / "docs/new.md").write_text("# News\n\nThere are some.\n")
    for words in (("add", "-A"), ("commit", "-qm", "2")):
        subprocess.run([*git, *words], check=True)
    updated = freshstack("index", "update", config)

    assert (offline.code, built.code, planned.code, updated.code) == (1, 0, 0, 0)
    assert "has not been fetched" in offline.err
    assert "files: 1 added, 0 changed, 0 removed, 5 kept" in updated.out
