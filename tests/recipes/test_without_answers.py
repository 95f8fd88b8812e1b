"""Questions without answers: nuggets are made from the passages that retrieval finds."""

import json
from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy import (
    BuildConfig,
    Collection,
    Query,
    build,
    diagnose,
    load_config,
    plan,
    refresh,
)
from freshstack_dspy.errors import (
    ConfigError,
    DeferredError,
    FatalModelError,
)
from freshstack_dspy.files import encode_records
from freshstack_dspy.recipes.known import edited_nuggets
from freshstack_dspy.records import ListedNugget, NuggetLabel, NuggetList
from tests.recipes.domain import QUESTIONS, afresh, files_of, write_domain
from tests.recipes.scripted import Inputs, Said, ScriptedProvider, question_of
from tests.recipes.test_extend import extended, written

WORDS = {"dial sticks": "dial", "install": "pip", "phase": "mars"}
"""Of each question, the word that makes a passage relevant to it; no passage speaks of Mars."""


def grade(inputs: Inputs) -> Any:
    word = next(word for marker, word in WORDS.items() if marker in question_of(inputs))
    return {
        "grades": [
            {
                "passage": one["number"],
                "reason": "whether the word is there",
                "grade": 3 if word in one["text"].lower() else 1,
            }
            for one in inputs["passages"]
        ]
    }


def update(inputs: Inputs) -> Any:
    """Keep the list, and add the last line of each passage, which may be there already."""
    found = [
        {"text": one["text"], "nuggets": [one["number"]], "passages": []}
        for one in inputs["nuggets"]
    ]
    for one in inputs["passages"]:
        text = one["text"].strip().splitlines()[-1].strip()
        same = [each for each in found if each["text"] == text]
        if same:
            same[0]["passages"].append(one["number"])
        else:
            found.append({"text": text, "nuggets": [], "passages": [one["number"]]})
    return {"found": found[: inputs["limit"]]}


def rate(inputs: Inputs) -> Any:
    return {
        "ratings": [
            {"nugget": one["number"], "importance": "okay" if "moon" in one["text"] else "vital"}
            for one in inputs["nuggets"]
        ]
    }


def scripted(**scripts: Any) -> ScriptedProvider:
    given = {"GradeRelevance": grade, "UpdateNuggets": update, "RateImportance": rate}
    return ScriptedProvider(**{**given, **scripts})


def unanswered(folder: Path, **sections: Any) -> BuildConfig:
    """The domain, its questions without their answers."""
    path = write_domain(folder, **{"pool": {"depth": 20, "top_k": 20}, **sections})
    path.write_text('recipe = "nuggets"\n' + path.read_text())
    rows = [{k: v for k, v in one.items() if k != "answer"} for one in QUESTIONS]
    (folder / "questions.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
    return load_config(path)


@pytest.fixture
def built(tmp_path: Path) -> Collection:
    return build(unanswered(tmp_path), provider=scripted())


def test_nuggets_come_from_relevant_passages_and_name_them(
    tmp_path: Path, built: Collection
) -> None:
    chunks = {chunk.chunk_id: chunk for chunk in built.chunks()}
    of = {one.query_id: one.slice for one in built.slices}

    assert of == {"10": "answerable", "2": "answerable", "x": "unanswerable"}
    assert not built.failures
    assert [one.text for one in built.nuggets if one.query_id == "2"] == [
        "Install it with pip. Python 3.11 is needed."
    ]
    assert {chunks[id_].path for one in built.nuggets for id_ in one.chunk_ids} == {
        "docs/install.md", "docs/reset.md", "docs/dial.md", "src/dial.py",
    }  # fmt: skip
    for one in built.nuggets:
        assert all(one.text in chunks[chunk_id].text for chunk_id in one.chunk_ids)
    rated = [one.importance for one in built.nuggets if one.query_id == "10"]
    assert rated == ["vital", "vital", "okay"]
    assert {one.relevance.grade for one in built.pool if one.relevance} == {1, 3}
    graded_by = {one.relevance.call_id for one in built.pool if one.relevance}
    assert graded_by.isdisjoint(built.manifest.reasked)  # which no record names
    assert "passages that retrieval found" in (tmp_path / "collection/README.md").read_text()


def test_a_replay_gives_the_same_bytes_and_the_plan_counts_the_calls(tmp_path: Path) -> None:
    config = unanswered(tmp_path, model={"name": "extractive/baseline"})
    planned = plan(config)
    collection = build(config)
    before = files_of(config.out)

    assert build(afresh(config), mode="replay").manifest.content_hash == (
        collection.manifest.content_hash
    )
    assert files_of(config.out).keys() == before.keys()
    assert {one.step: one.requests for one in planned.steps} == {
        name: one.calls for name, one in collection.manifest.ledger.items()
    }


def test_windows_pass_the_list_on_and_one_that_fails_leaves_it(tmp_path: Path) -> None:
    for number in range(14):
        path = tmp_path / f"corpus/docs/tip{number:02}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# Tip\n\nThe pip of number {number} is {'abcdefghijklmn'[number]}x.\n")
    seen: list[int] = []

    def failing_at_last(inputs: Inputs) -> Any:
        seen.append(len(inputs["nuggets"]))
        return update(inputs) if not inputs["nuggets"] else Said("no")

    config = unanswered(
        tmp_path, queries={"retired": ["10", "x"]}, nuggets={"limit": 3}, model={"reasks": 0}
    )
    made = build(config, provider=scripted(UpdateNuggets=failing_at_last))

    assert seen == [0, 7]
    assert [one.step for one in made.failures] == ["nuggets"]
    assert len(made.failures[0].chunk_ids) == 8
    assert [one.nugget_id for one in made.nuggets] == ["2_0", "2_1", "2_2"]


def test_all_ratings_of_a_query_are_deferred_at_once(tmp_path: Path) -> None:
    def twelve(_: Inputs) -> Any:
        texts = (f"Pip does {letter}." for letter in "abcdefghijkl")
        return {"found": [{"text": text, "nuggets": [], "passages": [1]} for text in texts]}

    down = scripted(UpdateNuggets=twelve, RateImportance=lambda _: FatalModelError("down"))
    config = unanswered(tmp_path, queries={"retired": ["10", "x"]})

    with pytest.raises(FatalModelError, match="down"):
        build(config, provider=down)
    with pytest.raises(DeferredError, match=r"^2 requests"):
        build(config, mode="defer")


def test_a_query_whose_grades_failed_is_not_called_unanswerable(tmp_path: Path) -> None:
    def failing(inputs: Inputs) -> Any:
        return Said("no") if "phase" in question_of(inputs) else grade(inputs)

    config = unanswered(tmp_path, model={"reasks": 0})
    made = build(config, provider=scripted(GradeRelevance=failing))

    assert {one.query_id: one.slice for one in made.slices}["x"] == "without_nuggets"
    assert {one.step for one in made.failures} == {"relevance"}


def test_a_refresh_does_not_grade_what_a_run_brought(tmp_path: Path) -> None:
    config = unanswered(tmp_path, pool={"depth": 2, "top_k": 1})
    ids = list(build(config, provider=scripted()).corpus.ids)
    run = written(tmp_path / "mine.run", {"2": ids, "10": ids})
    before = extended(config, [run], scripted()).collection
    assert {one.origin for one in before.pool} == {"pooled", "run"}
    provider = scripted()

    after = refresh(config, provider=provider).collection

    assert not provider.calls
    assert after.manifest.content_hash == before.manifest.content_hash


def test_edits_are_taken_and_only_what_is_new_is_asked(tmp_path: Path, built: Collection) -> None:
    rows = [
        json.loads(line)
        for line in (tmp_path / "collection/nuggets.jsonl").read_text().splitlines()
    ]
    first, *others = [row for row in rows if row["query_id"] == "10"]
    rows = [
        {**first, "text": "call reset twice"},
        others[0],
        {"query_id": "10", "text": "the dial"},
    ]
    (tmp_path / "mine.jsonl").write_text("\n".join(map(json.dumps, rows)))
    provider = scripted()

    config = unanswered(tmp_path, nuggets={"edited": "mine.jsonl"})
    found = refresh(config, provider=provider).collection

    texts = {one.nugget_id: one.text for one in found.nuggets if one.query_id == "10"}
    assert sorted(texts.values()) == sorted(["call reset twice", others[0]["text"], "the dial"])
    assert [one for one in found.nuggets if one.query_id == "2"] == [
        one for one in built.nuggets if one.query_id == "2"
    ]
    assert set(provider.calls) == {"JudgeSupportLevel"}
    shown = [inputs for inputs in provider.asked if "path" in inputs["chunks"][0]]
    assert {n["text"] for inputs in shown for n in inputs["nuggets"]} == {
        "call reset twice", "the dial",
    }  # fmt: skip
    assert len({one.nugget_id for one in found.nuggets}) == len(found.nuggets)


def test_lists_of_nuggets_from_a_labels_file_are_taken(tmp_path: Path) -> None:
    """Query x: one edited, one added, x_0 removed, whose id is not used again; query y: none."""
    edited = ListedNugget(nugget_id="x_1", text="call reset twice", importance="vital")
    added = ListedNugget(text="the dial is last")
    quality = {"precise": True, "grounded": True, "vital": False}
    labels: list[Any] = [
        NuggetList(query_id="x", annotator="ana", nuggets=(edited, added)),
        NuggetLabel(query_id="x", annotator="ana", nugget_id="x_0", **quality),
        NuggetList(query_id="y", annotator="ana", nuggets=()),
    ]
    path = tmp_path / "labels-ana.jsonl"
    path.write_bytes(encode_records(labels))
    queries = [Query(query_id=query_id, title="?", body="") for query_id in ("x", "y", "z")]

    found = edited_nuggets(path, queries, {})

    assert [(one.nugget_id, one.text, one.importance) for one in found["x"]] == [
        ("x_1", "call reset twice", "vital"),
        ("x_2", "the dial is last", None),
    ]
    assert found["y"] == ()
    assert "z" not in found
    path.write_bytes(encode_records([*labels, labels[2].model_copy(update={"annotator": "bo"})]))
    with pytest.raises(ConfigError, match="'ana' and 'bo' both have a list"):
        edited_nuggets(path, queries, {})


def test_a_query_whose_nuggets_were_all_removed_is_not_asked_about(tmp_path: Path) -> None:
    none = NuggetList(query_id="x", annotator="ana", nuggets=())
    (tmp_path / "mine.jsonl").write_bytes(encode_records([none]))
    config = load_config(write_domain(tmp_path, nuggets={"edited": "mine.jsonl"}))
    provider = ScriptedProvider()

    found = build(config, provider=provider)

    assert not [one for one in found.nuggets if one.query_id == "x"]
    assert next(one.slice for one in found.slices if one.query_id == "x") == "without_nuggets"


def test_what_the_nuggets_cannot_hold_is_estimated(built: Collection) -> None:
    """Query 10 has three relevant passages, query 2 one, and each holds a nugget of its own."""
    relevant: dict[str, set[str]] = {}
    for one in built.pool:
        if one.relevance is not None and one.relevance.grade >= 2:
            relevant.setdefault(one.query_id, set()).add(one.chunk_id)
    assert {query_id: len(ids) for query_id, ids in relevant.items()} == {"10": 3, "2": 1}

    found = diagnose(built).from_passages

    assert found is not None
    assert (found.nuggets, found.held_by_one) == (4, 4)
    # Of three passages one is left out: each of its three nuggets is lost with 1/3; of one, none.
    assert found.lost_without_half == pytest.approx((3 * 1 / 3) / 4)
    assert found.missing == pytest.approx(2 / 3 * 3 * 2 / 2)
