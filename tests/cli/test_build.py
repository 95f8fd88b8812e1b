"""`freshstack plan`, `build`, `extend`, `refresh` and `rejudge`, as they are typed."""

import json
from pathlib import Path

from .conftest import Command


def test_a_run_is_extended_and_again_there_is_nothing_to_add(
    freshstack: Command, config: Path
) -> None:
    config.write_text(config.read_text().replace("depth = 5\ntop_k = 5", "depth = 1\ntop_k = 1"))
    assert freshstack("build", config).code == 0
    assert freshstack("retrieve", "collection", "--retriever", "bm25").code == 0

    first = freshstack("extend", "collection", "bm25.run", "--config", config)
    again = freshstack("extend", "collection", "bm25.run", "--config", config)
    as_json = freshstack("extend", "collection", "bm25.run", "--config", config, "--json")

    assert first.code == 0, first.err
    assert "bm25: " in first.out
    assert "pairs judged in its top 20" in first.out
    assert again.out == "collection: nothing to add, so nothing was written\n"
    assert json.loads(as_json.out)["changed"] is False
    evaluated = freshstack("evaluate", "collection", "bm25.run", "--json")
    refused = freshstack("build", config)
    assert evaluated.code == 0
    assert refused.code == 1
    assert f"type: freshstack refresh {config}, which reuses them" in refused.err


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
    config.write_text(config.read_text().replace("[queries]", '[queries]\nretired = ["x"]'))
    Path("corpus/docs/dial.md").write_text("# The dial\n\nThe dial shows the phase of Mars.\n")

    done = freshstack("refresh", config)

    assert nothing.code == 0, nothing.err
    assert nothing.out.splitlines()[-1] == "nothing differs, so nothing was written"
    assert done.code == 0, done.err
    rows = {line.split()[1]: line.split() for line in done.out.splitlines() if "│" in line}
    assert [row for row in rows["queries"] if row.isdigit()] == ["2", "0", "1", "0"]
    assert [row for row in rows["chunks"] if row.isdigit()] == ["4", "1", "1", "0"]
    changes = [
        json.loads(line) for line in Path("collection.changes.jsonl").read_text().splitlines()
    ]
    assert {(one["kind"], one["change"]) for one in changes} >= {
        ("query", "dropped"),
        ("judgment", "added"),
        ("judgment", "dropped"),
    }
    again = json.loads(freshstack("refresh", config, "--json").out)
    assert (again["changed"], again["difference"]["queries"]["kept"]) == (False, 2)
    assert f"all changes: {Path.cwd() / 'collection.changes.jsonl'}" in done.out


def test_a_plan_is_a_table_or_json(freshstack: Command, config: Path) -> None:
    table = freshstack("plan", config)
    found = json.loads(freshstack("plan", config, "--json").out)

    assert table.code == 0, table.err
    assert "small: 3 questions for extractive/baseline" in table.out
    assert [step["step"] for step in found["steps"]] == [
        "nuggets",
        "sub_questions",
        "closed_book_answer",
        "support",
        "contamination",
    ]
    assert found["total"]["requests"] == sum(step["requests"] for step in found["steps"])


def test_a_build_with_other_settings_needs_to_be_told_to_replace(
    freshstack: Command, config: Path
) -> None:
    assert freshstack("build", config).code == 0
    config.write_text(config.read_text().replace("top_k = 5", "top_k = 4"))

    refused = freshstack("build", config)
    replaced = freshstack("build", config, "--replace", "--json")

    assert refused.code == 1
    assert "built with other settings: pool.top_k = 5, now 4; replace it with --replace" in (
        refused.err
    )
    assert json.loads(replaced.out)["config"]["pool"]["top_k"] == 4


def test_whoever_judged_is_named(freshstack: Command, config: Path) -> None:
    built = freshstack("build", config)

    assert "labels by extractive/baseline, a word counter" in built.out.splitlines()


def test_a_sample_is_judged_one_by_one(freshstack: Command, config: Path) -> None:
    assert freshstack("build", config).code == 0

    done = freshstack(
        "rejudge", "collection", "--config", config, "--shape", "pairwise", "--sample", 4
    )
    both = freshstack("rejudge", "collection", "--config", config, "--sample", 4, "--out", "new")

    assert done.code == 0, done.err
    assert "same label: " in done.out
    as_json = freshstack("rejudge", "collection", "--config", config, "--sample", 4, "--json")
    assert json.loads(as_json.out)["agreement"]["exact"]["value"] == 1
    assert (both.code, "either --out" in both.err) == (1, True)


def test_a_collection_is_rejudged_into_another_folder(freshstack: Command, config: Path) -> None:
    assert freshstack("build", config).code == 0

    done = freshstack("rejudge", "collection", "--config", config, "--out", "new")

    assert done.code == 0, done.err
    assert "0 pairs have another label than before: new.changes.jsonl" in done.out
    assert Path("new/manifest.json").is_file()
