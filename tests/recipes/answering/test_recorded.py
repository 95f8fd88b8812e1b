"""Answers from recorded replies: replayed, deferred, stopped by a budget."""

import json
from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy.errors import BudgetError, DeferredError, ReplayMissError
from freshstack_dspy.lm.batch.deferred import import_replies
from freshstack_dspy.lm.store import ReplyStore
from freshstack_dspy.recipes.answering import writing
from tests.recipes.domain import files_of
from tests.recipes.scripted import inputs_of, judge

from .domain_runs import answer, answering, compare, provider
from .found import agreed, write_to


def test_replay_is_offline_and_gives_the_same_bytes(
    collection: Path, files: list[Path], tmp_path: Path
) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    for mode, folder in zip(("live", "replay"), folders, strict=True):
        path = tmp_path / "answer.toml"
        model = provider()
        found = answering(collection, files, model, tmp_path, mode=mode)
        assert (mode == "live") == bool(model.asked)
        write_to(folder, found, path, collection, files)

    assert files_of(folders[0]) == files_of(folders[1])
    assert set(files_of(folders[0])) == set(writing.FILES)


def test_a_reply_that_is_not_recorded_stops_a_replay(
    collection: Path, files: list[Path], tmp_path: Path
) -> None:
    answering(collection, files[:1], provider(), tmp_path)

    with pytest.raises(ReplayMissError):
        answering(collection, files, provider(), tmp_path, mode="replay")


def test_deferred_requests_take_two_rounds(
    collection: Path, files: list[Path], tmp_path: Path
) -> None:
    scripts: dict[str, Any] = {
        "AnswerQuestion": answer,
        "CompareAnswers": compare,
        "JudgeSupport": judge,
    }
    file = tmp_path / "requests.jsonl"
    rounds = []
    for _ in range(2):
        with pytest.raises(DeferredError, match="same command again"):
            answering(collection, files, provider(), tmp_path, mode="defer", requests=file)
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        rounds.append(sorted(task(line) for line in lines))
        hand_in(tmp_path, lines, scripts)

    found = answering(collection, files, provider(), tmp_path, mode="defer", requests=file)

    assert rounds == [
        ["AnswerQuestion"] * 4,
        ["CompareAnswers", "JudgeSupport", "JudgeSupport", "JudgeSupport"],
    ]
    assert agreed(found)["good", "10"] == (True, "ok")


def test_what_was_answered_before_a_budget_ran_out_is_not_asked_again(
    collection: Path, files: list[Path], tmp_path: Path
) -> None:
    model = '[model]\nname = "openai/scripted"\nretries = 0\nconcurrency = 1\n'
    first, second = provider(), provider()

    with pytest.raises(BudgetError, match="Done in this run: gold_answer"):
        answering(collection, files, first, tmp_path, text=f"{model}[budget]\ncalls = 3\n")
    answering(collection, files, second, tmp_path, text=model)

    assert sum(first.calls.values()) == 3
    assert sum(second.calls.values()) == 5


def task(request: Any) -> str:
    return str(request["body"]["response_format"]["json_schema"]["name"])


def hand_in(folder: Path, requests: list[Any], scripts: dict[str, Any]) -> None:
    replies = []
    for request in requests:
        inputs = inputs_of([turn["content"] for turn in request["body"]["messages"]])
        content = json.dumps(scripts[task(request)](inputs))
        replies.append({"custom_id": request["custom_id"], "content": content})
    file = folder / "replies.jsonl"
    file.write_text("".join(json.dumps(reply) + "\n" for reply in replies))
    store = ReplyStore(folder / ".freshstack" / "cache")
    try:
        import_replies(store, file)
    finally:
        store.close()
