"""`freshstack extend` and `freshstack refresh`, as they are typed."""

import json
from pathlib import Path

from freshstack_dspy.collection.collection import Collection

from .conftest import Command


def test_a_run_is_extended_and_again_there_is_nothing_to_add(
    freshstack: Command, config: Path
) -> None:
    config.write_text(config.read_text().replace("depth = 5\ntop_k = 5", "depth = 1\ntop_k = 1"))
    assert freshstack("build", config).code == 0
    assert freshstack("retrieve", "collection", "--retriever", "bm25").code == 0

    first = freshstack("extend", "collection", "bm25.run", "--config", config)
    again = freshstack("extend", "collection", "bm25.run", "--config", config)

    assert first.code == 0, first.err
    assert "holes in the top 20: " in first.out
    assert "bm25: " in first.out
    assert "pairs judged in its top 20" in first.out
    assert again.out.splitlines()[-2:] == [
        "holes in the top 20: 0 chunks of queries",
        "collection: nothing to add, so nothing was written",
    ]
    evaluated = freshstack("evaluate", "collection", "bm25.run", "--json")
    refused = freshstack("build", config)
    assert evaluated.code == 0
    assert refused.code == 1
    assert f"type: freshstack refresh {config}, which keeps them" in refused.err


def test_what_a_run_names_and_the_collection_lacks_is_said(
    freshstack: Command, config: Path, tmp_path: Path
) -> None:
    assert freshstack("build", config).code == 0
    chunk_id = next(iter(Collection.load(tmp_path / "collection").corpus.rows))
    lines = [("2", chunk_id, 3), ("2", "gone", 2), ("77", chunk_id, 1)]
    Path("a.run").write_text("".join(f"{q} Q0 {c} 0 {s} a\n" for q, c, s in lines))

    refused = freshstack("extend", "collection", "a.run", "--config", config)
    passed = freshstack("extend", "collection", "a.run", "--config", config, "--unknown", "skip")

    assert refused.code == 1
    assert "a.run: 1 chunks in its top 20 are not in the corpus of small" in refused.err
    assert passed.code == 0, passed.err
    assert "a: 1 of its queries are not in the collection or have no nuggets: 77" in passed.out
    assert (
        "a: nothing for 2 queries: 10, x (freshstack retrieve takes them in with --slices all)"
        in passed.out
    )
    assert "a: 1 chunks passed over, not in the corpus: gone for 2" in passed.out


def test_to_extend_neither_questions_nor_documents_need_be_there(
    freshstack: Command, config: Path, tmp_path: Path
) -> None:
    assert freshstack("build", config).code == 0
    assert freshstack("retrieve", "collection", "--retriever", "bm25").code == 0
    Path("judge.toml").write_text('[model]\nname = "extractive/baseline"\n')
    (tmp_path / "questions.jsonl").unlink()

    done = freshstack("extend", "collection", "bm25.run", "--config", "judge.toml")

    assert done.code == 0, done.err


def test_a_refresh_says_what_became_of_the_collection(freshstack: Command, config: Path) -> None:
    assert freshstack("build", config).code == 0
    nothing = freshstack("refresh", config)
    Path("corpus/docs/dial.md").write_text("# The dial\n\nThe dial shows the phase of Mars.\n")

    done = freshstack("refresh", config, "--retire", "x")

    assert nothing.code == 0, nothing.err
    assert nothing.out.splitlines()[-1] == "nothing differs, so nothing was written"
    assert done.code == 0, done.err
    rows = {line.split()[1]: line.split() for line in done.out.splitlines() if "│" in line}
    assert [row for row in rows["queries"] if row.isdigit()] == ["2", "0", "1", "0"]
    assert [row for row in rows["chunks"] if row.isdigit()] == ["4", "1", "1", "0"]
    assert "retired for this refresh alone: x" in done.out
    changes = [
        json.loads(line) for line in Path("collection.changes.jsonl").read_text().splitlines()
    ]
    assert {(one["kind"], one["change"]) for one in changes} >= {
        ("query", "dropped"),
        ("judgment", "added"),
        ("judgment", "dropped"),
    }
    assert f"all changes: {Path.cwd() / 'collection.changes.jsonl'}" in done.out


def test_a_file_inside_the_collection_or_an_input_is_not_written_over(
    freshstack: Command, config: Path
) -> None:
    assert freshstack("build", config).code == 0

    inside = freshstack("refresh", config, "--difference", "collection/changes.jsonl")
    over = freshstack("refresh", config, "--difference", "questions.jsonl")

    assert inside.code == over.code == 1
    assert "is inside" in inside.err
    assert "is read by this command" in over.err


def test_a_run_over_all_slices_lacks_no_query(freshstack: Command, config: Path) -> None:
    assert freshstack("build", config).code == 0
    search = ("retrieve", "collection", "--retriever", "bm25")
    assert freshstack(*search, "--slices", "answerable", "--out", "some.run").code == 0
    some = freshstack("extend", "collection", "some.run", "--config", config)

    assert freshstack(*search, "--slices", "all", "--out", "all.run").code == 0
    every = freshstack("extend", "collection", "all.run", "--config", config)

    assert "--slices all" in some.out
    assert every.code == 0, every.err
    assert "nothing for" not in every.out
