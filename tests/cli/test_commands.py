"""Every command, from its words to what it prints and writes."""

import json
from importlib.metadata import version
from pathlib import Path

from freshstack_dspy import Collection

from .conftest import Command


def test_init_writes_an_example_and_never_over_a_file(freshstack: Command, tmp_path: Path) -> None:
    first = freshstack("init", "mine.toml")
    example = (tmp_path / "mine.toml").read_text()
    (tmp_path / "mine.toml").write_text("changed")
    second = freshstack("init", "mine.toml")

    assert (first.code, first.err) == (0, "")
    assert "freshstack plan mine.toml" in first.out
    assert "[queries]" in example
    assert second.code == 1
    assert second.err.startswith("error: mine.toml exists")
    assert (tmp_path / "mine.toml").read_text() == "changed"


def test_init_writes_a_topic_of_the_paper(freshstack: Command, tmp_path: Path) -> None:
    assert freshstack("init", "--topic", "godot").code == 0
    assert "godotengine/godot-docs" in (tmp_path / "godot.toml").read_text()
    assert "'laravel', 'angular'" in freshstack("init", "--topic", "rails").err


def test_build_says_what_it_did(freshstack: Command, config: Path, tmp_path: Path) -> None:
    done = freshstack("build", config)
    collection = Collection.load(tmp_path / "collection")

    assert done.code == 0
    lines, text = done.out.splitlines(), " ".join(done.out.split())
    steps = [line.split()[1] for line in lines if line.startswith("│")]
    assert steps == ["nuggets", "sub_questions", "closed_book_answer", "support", "contamination"]
    assert "3 queries" in done.out
    assert f"1 file skipped (1 binary); see {tmp_path / 'collection/skipped.jsonl'}" in text
    assert f"content hash {collection.manifest.content_hash}" in lines
    assert lines[-1].endswith(f"freshstack retrieve {tmp_path / 'collection'}")
    shown = [line.split("  ")[0] for line in done.err.splitlines()]
    assert shown[:3] == ["questions", "files", "chunks"]
    judged = [step for step in shown if step in {"support judgments", "contamination"}]
    assert judged == ["support judgments", "contamination"]  # what follows shows if it is slow


def test_deferred_requests_are_written_answered_imported_and_built_from(
    freshstack: Command, config: Path, tmp_path: Path
) -> None:
    first = freshstack("build", config, "--mode", "defer")
    lines = (tmp_path / "requests/small.jsonl").read_text().splitlines()
    body = {"choices": [{"message": {"content": "{}"}}]}
    (tmp_path / "replies.jsonl").write_text(
        json.dumps({"custom_id": json.loads(lines[0])["custom_id"], "response": {"body": body}})
        + '\n{"custom_id": "unknown", "content": "{}"}\n'
    )
    imported = freshstack("requests", "answer", config, "--from", "replies.jsonl")

    assert first.code == 3
    (said,) = (line for line in first.err.splitlines() if "requests were written" in line)
    assert said.startswith(f"9 requests were written to {tmp_path}/requests/small.jsonl; ")
    assert imported.code == 1, "one line was unknown"
    assert " ".join(imported.out.split()) == (
        "1 imported; 1 unknown (unknown); 8 still waiting "
        "line 2: no such request waits, or was answered, here "
        f"the next requests: freshstack requests next {config}"
    )


def test_synthesize_and_decontextualize_write_json_lines(
    freshstack: Command, tmp_path: Path
) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/dial.md").write_text("# Dials\n\nA dial shows the phase of the moon.\n")
    (tmp_path / "docs/logo.png").write_bytes(b"\x00")
    (tmp_path / "m.toml").write_text(
        '[model]\nname = "openai/nobody"\n[synthesis]\nmodel = "extractive/baseline"\n'
    )

    made = freshstack("synthesize", "docs", "--config", "m.toml", "--out", "q.jsonl")
    cut = freshstack(
        "decontextualize", "docs/dial.md", "--config", "m.toml", "--out", "p.jsonl", "--limit", 1
    )

    questions = [json.loads(line) for line in (tmp_path / "q.jsonl").read_text().splitlines()]
    passages = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    assert (made.code, made.out) == (0, f"q.jsonl: {len(questions)} questions\n")
    assert "1 files skipped, such as logo.png: binary" in made.err
    assert (cut.code, cut.out) == (0, f"p.jsonl: {len(passages)} passages\n")
    assert questions
    assert {question["origin"] for question in questions} == {"synthetic"}
    assert all("docs/dial.md" in question["seed_chunk_ids"][0] for question in questions)
    assert len(passages) == 1


def test_the_version_is_that_of_the_package(freshstack: Command) -> None:
    assert freshstack("--version") == (0, version("freshstack_dspy") + "\n", "")
