"""`freshstack plan`, `build`, `extend`, `stale`, `refresh` and `rejudge`, as they are typed."""

import json
from pathlib import Path

from freshstack_dspy import build, load_config
from tests.recipes.domain import write_domain
from tests.recipes.scripted import Said, ScriptedProvider, judge, when
from tests.recipes.test_failures import DIAL

from .conftest import Command


def test_a_plan_is_a_table_or_json(freshstack: Command, config: Path) -> None:
    table = freshstack("plan", config)
    found = json.loads(freshstack("plan", config, "--json").out)

    assert table.code == 0, table.err
    assert "small: 3 questions for extractive/baseline" in table.out
    assert "1 of 3 questions use words that the corpus lacks: x (" in table.out
    assert found["little_overlap"] == {"x": 0.4}
    steps = ["nuggets", "sub_questions", "closed_book_answer", "support", "contamination"]
    assert [step["step"] for step in found["steps"]] == steps
    assert found["total"]["requests"] == sum(step["requests"] for step in found["steps"])


def test_a_build_with_other_settings_needs_to_be_told_to_replace(
    freshstack: Command, built_config: Path
) -> None:
    built_config.write_text(built_config.read_text().replace("top_k = 5", "top_k = 4"))

    refused = freshstack("build", built_config)

    assert (refused.code, "pool.top_k = 5, now 4" in refused.err) == (1, True)
    assert freshstack("build", built_config, "--replace").code == 0


def test_after_the_last_reply_the_command_that_deferred_is_repeated(
    freshstack: Command, config: Path, tmp_path: Path
) -> None:
    config.write_text(config.read_text().replace("depth = 5\ntop_k = 5", "depth = 1\ntop_k = 1"))
    assert freshstack("build", config).code == 0
    assert freshstack("retrieve", "collection", "--retriever", "bm25").code == 0
    judge = '[model]\nname = "agent/me"\n[cache]\npath = "own/cache"\n'
    Path("judge.toml").write_text(judge)
    words = ("extend", "collection", "bm25.run", "--config", "judge.toml", "--keep-labels")
    assert freshstack(*words, "--mode", "defer").code == 3
    (file,) = (tmp_path / "own/requests").glob("*.jsonl")
    ids = [json.loads(line)["custom_id"] for line in file.read_text().splitlines()]
    batch = {"body": {"choices": [{"message": {"content": "{}"}}]}}
    replies = [json.dumps({"custom_id": each, "response": batch}) for each in ids]

    hints = []
    for some in (replies[:1], replies[1:]):
        Path("replies.jsonl").write_text("\n".join(some))
        done = freshstack("requests", "answer", "judge.toml", "--from", "replies.jsonl")
        hints.append(" ".join(done.out.split()))

    assert "freshstack requests next judge.toml" in hints[0]
    assert "freshstack extend" not in hints[0]
    assert hints[1].endswith(f"freshstack {' '.join(words)} --mode defer")


def test_a_run_is_extended_and_again_there_is_nothing_to_add(
    freshstack: Command, config: Path
) -> None:
    """Neither the questions nor a configuration of them need be there."""
    config.write_text(config.read_text().replace("depth = 5\ntop_k = 5", "depth = 1\ntop_k = 1"))
    assert freshstack("build", config).code == 0
    assert freshstack("retrieve", "collection", "--retriever", "bm25").code == 0
    Path("judge.toml").write_text('[model]\nname = "extractive/baseline"\n')
    words = ("extend", "collection", "bm25.run", "--config", "judge.toml")

    planned = json.loads(freshstack(*words, "--plan", "--json").out)
    first, again = freshstack(*words), freshstack(*words)
    as_json = freshstack(*words, "--json")
    refused = freshstack("build", config)

    assert first.code == 0, first.err
    assert f"pairs in {planned['total']['requests']} requests, 0 recorded; about" in first.err
    assert "pairs judged in its top 20" in first.out
    assert again.out == "collection: nothing to add, so nothing was written\n"
    assert json.loads(as_json.out)["changed"] is False
    assert f"type: freshstack refresh {config}, which reuses them" in refused.err


def test_a_refresh_says_what_became_of_the_collection(
    freshstack: Command, built_config: Path
) -> None:
    nothing = freshstack("refresh", built_config)
    retired = built_config.read_text().replace("[queries]", '[queries]\nretired = ["x"]')
    built_config.write_text(retired)
    Path("corpus/docs/dial.md").write_text("# The dial\n\nThe dial shows the phase of Mars.\n")

    done = json.loads(freshstack("refresh", built_config, "--json").out)

    assert nothing.out.splitlines()[-1] == "nothing differs, so nothing was written"
    assert done["changed"]
    counts = {name: done["difference"][name] for name in ("queries", "chunks")}
    assert counts["queries"] == {"kept": 2, "added": 0, "dropped": 1, "changed": 0}
    assert counts["chunks"] == {"kept": 4, "added": 1, "dropped": 1, "changed": 0}
    assert Path("collection.changes.jsonl").is_file()


def test_a_collection_is_rejudged_into_another_folder_or_by_a_sample(
    freshstack: Command, built_config: Path
) -> None:
    words = ("rejudge", "collection", "--config", built_config)

    planned = json.loads(freshstack(*words, "--plan", "--json").out)
    assert sum(step["requests"] for step in planned["steps"]) > 0
    assert not Path("new").exists()
    whole = freshstack(*words, "--out", "new")
    sample = freshstack(*words, "--sample", 4)
    as_json = freshstack(*words, "--sample", 4, "--json")
    both = freshstack(*words, "--sample", 4, "--out", "newer")

    assert whole.code == 0, whole.err
    assert "0 pairs have another label than before: new.changes.jsonl" in whole.out
    assert Path("new/manifest.json").is_file()
    assert "│ share agreed " in sample.out
    metrics = json.loads(as_json.out)["agreement"]["metrics"]
    assert metrics["share agreed"]["judge"]["value"] == 1
    assert (both.code, "either out" in both.err) == (1, True)


def test_a_build_that_ends_with_pairs_without_a_label_exits_with_1(
    freshstack: Command, tmp_path: Path
) -> None:
    """The judge fails on one question of three; the rest is written."""
    config = write_domain(tmp_path)
    failing = when(DIAL, lambda _: Said("I would rather not.", "content_filter"), judge)
    build(load_config(config), provider=ScriptedProvider(JudgeSupportLevel=failing))

    again, replayed = (
        freshstack("build", config, "--mode", "replay"),
        freshstack("validate", "collection"),
    )

    assert again.code == 1
    assert "without a label" in again.out
    assert replayed.code == 0


def test_stale_labels_over_a_share_are_a_failure(freshstack: Command, built_config: Path) -> None:
    fresh = freshstack("stale", built_config, "--fail-over", "0")
    Path("corpus/docs/reset.md").write_text("# Resetting the dial\n\nIt cannot be reset.\n")
    shown = freshstack("stale", built_config, "--fail-over", "0.9")
    failed = freshstack("stale", built_config, "--fail-over", "0.1", "--json")
    found = json.loads(failed.out)

    assert (fresh.code, shown.code, failed.code) == (0, 0, 1)
    assert "small: 0 (0.0%) of the labels of support are stale" in fresh.out
    assert "nuggets left without support: 1" in shown.out
    assert "what a refresh would ask" in shown.out
    assert failed.err.splitlines()[-1].startswith(f"failed: {found['share']:.4g} of the labels")
    assert [one["change"] for one in found["labels"]] == ["gone"] * len(found["labels"])
    assert freshstack("stale", built_config, "--fail-over", "2").code == 2
