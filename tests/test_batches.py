"""Functions over Arrow batches: what came of each row is in its row."""

import functools
import json
import pickle
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest
import tenacity.nap

from freshstack_dspy import ModelConfig
from freshstack_dspy.batches import (
    ANSWERS,
    CHUNKS,
    FILES,
    FOUND,
    REQUESTS,
    VECTORS,
    answer_batch,
    chunk_batch,
    embed_batch,
    search_batch,
)
from freshstack_dspy.corpus.chunks import chunk_file
from freshstack_dspy.corpus.parquet import chunks_in
from freshstack_dspy.errors import ConfigError
from freshstack_dspy.lm.batch.deferred import answer_in
from freshstack_dspy.lm.request import canonical_json
from freshstack_dspy.records import ScoredChunk, SourceFile
from tests.lm.chat_server import ChatServer, Scripted
from tests.lm.recording import ask


def content(body: dict[str, Any]) -> str:
    return str(body["messages"][-1]["content"])


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    """Replies with what it is told; nobody waits between two attempts."""
    monkeypatch.setattr(tenacity.nap.sleep_using_event, "__call__", lambda *_: None)
    with ChatServer(lambda body: Scripted(f"re: {content(body)}")).running() as running:
        yield running


def model_at(server: ChatServer, **settings: Any) -> ModelConfig:
    return ModelConfig(name="openai/scripted", api_base=server.api_base, **settings)


def batch_of(*texts: str) -> pa.RecordBatch:
    rows = [{"custom_id": text, "body": canonical_json(ask(text).body())} for text in texts]
    return pa.RecordBatch.from_pylist(rows, REQUESTS)


def answers_to(requests: pa.RecordBatch, model: ModelConfig, **how: Any) -> dict[str, Any]:
    """The rows by their ids, as a worker gives them to whom it has the function from."""
    function = pickle.loads(pickle.dumps(functools.partial(answer_batch, model=model, **how)))
    answers = function(requests)
    assert answers.schema == ANSWERS
    return {row["custom_id"]: row for row in answers.to_pylist()}


def test_a_batch_is_answered_at_once_and_each_row_has_its_reply(server: ChatServer) -> None:
    server.script = lambda body: Scripted(f"re: {content(body)}", delay=0.2)
    texts = [f"zwölf {number}" for number in range(6)]
    rows = answers_to(batch_of(*texts), model_at(server, concurrency=6))

    assert server.at_once == 6
    for text in texts:
        body = json.loads(rows[text]["body"])
        assert body["choices"][0]["message"]["content"] == f"re: {text}"
        assert body["choices"][0]["finish_reason"] == "stop"
        assert body["usage"] == {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
        assert (rows[text]["status"], rows[text]["attempts"], rows[text]["lost"]) == ("ok", 1, 0)
        assert rows[text]["seconds"] > 0


def test_what_has_no_reply_is_a_row_that_says_why(server: ChatServer) -> None:
    left = {"busy": 2, "cut": 1}

    def script(body: dict[str, Any]) -> Scripted:
        text = content(body)
        if left.get(text, 0) > 0:
            left[text] -= 1
            return Scripted(drop=True) if text == "cut" else Scripted("later", status=429)
        if text == "filtered":
            return Scripted("content_filter: no", status=400)
        return Scripted("too long", status=400) if text == "refused" else Scripted("yes")

    server.script = script
    model = model_at(server, concurrency=1)
    rows = answers_to(batch_of("first", "busy", "cut", "refused", "filtered"), model)
    broken = pa.RecordBatch.from_pylist([{"custom_id": "x", "body": '{"n": 2}'}], REQUESTS)

    found = {name: (row["status"], row["attempts"], row["lost"]) for name, row in rows.items()}
    assert found == {
        "first": ("ok", 1, 0),
        "busy": ("ok", 3, 0),
        "cut": ("ok", 2, 1),
        "refused": ("failed", 1, 0),
        "filtered": ("refused", 1, 0),
    }
    assert "too long" in rows["refused"]["error"]
    assert rows["refused"]["body"] is None
    assert answers_to(broken, model)["x"]["status"] == "failed"


def test_a_reply_is_what_a_live_call_takes_of_it(server: ChatServer) -> None:
    """Half a surrogate pair is no text, and what is no count of tokens is none."""
    usage = {"prompt_tokens": 10**15, "completion_tokens": 10**15}
    server.script = lambda _: Scripted("\ud83d", finish_reason="length", usage=usage)
    row = answers_to(batch_of("a"), model_at(server))["a"]
    answer = answer_in("a", row["body"])

    assert (answer.text, answer.finish_reason) == ("\ufffd", "length")
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (None, None)

    server.script = lambda _: Scripted(None, refusal="I will not.")
    row = answers_to(batch_of("a"), model_at(server))["a"]
    answer = answer_in("a", row["body"])
    assert (answer.text, answer.finish_reason) == ("I will not.", "refusal")


def test_what_may_have_been_billed_is_not_repeated_where_it_must_not(server: ChatServer) -> None:
    server.script = lambda _: Scripted(drop=True)
    rows = answers_to(batch_of("a"), model_at(server), retry_lost=False)

    assert (rows["a"]["status"], rows["a"]["lost"]) == ("lost", 1)
    assert len(server.requests) == 1


def test_a_model_that_answers_nobody_is_said_of_each_row(server: ChatServer) -> None:
    server.script = lambda _: Scripted("who are you?", status=401)
    rows = answers_to(batch_of("a", "b"), model_at(server))
    server.script = lambda _: Scripted("down", status=500)
    down = answers_to(batch_of(*"abcd"), model_at(server, concurrency=1, retries=0))

    assert {row["status"] for row in rows.values()} == {"fatal"}
    assert "OPENAI_API_KEY" in rows["a"]["error"]
    assert [down[name]["status"] for name in "abcd"] == [
        "unanswered",
        "unanswered",
        "outage",
        "outage",
    ]


def test_files_are_cut_as_one_by_one_and_one_that_cannot_be_is_a_row_that_says_why() -> None:
    text = "".join(f"word{number} " for number in range(200)).encode()
    good = [
        SourceFile("repo", "a.md", text, "v1"),
        SourceFile("repo", "b.txt", text.decode().encode("utf-16-le"), None, "utf-16-le"),
    ]
    bad = SourceFile("repo", "c.py", b"\xff", "v1")
    rows = [file._asdict() for file in (good[0], bad, good[1])]

    cut = chunk_batch(pa.RecordBatch.from_pylist(rows, FILES), 64, {})

    faults = cut.column("fault").to_pylist()
    kept = cut.filter(pa.array([fault is None for fault in faults]))
    assert cut.schema == CHUNKS
    assert list(chunks_in(kept)) == [chunk for file in good for chunk in chunk_file(file, 64)]
    assert len(kept) > 2
    (fault,) = (row for row in cut.to_pylist() if row["fault"])
    assert (fault["source"], fault["path"], fault["text"]) == ("repo", "c.py", "")
    assert fault["fault"].startswith("cannot be cut: UnicodeDecodeError: 'utf-8' codec can't")


def test_texts_are_embedded_and_one_that_cannot_be_is_a_row_that_says_why() -> None:
    def encode(texts: Sequence[str]) -> list[dict[str, Any]]:
        return [{"vector": [1.0 / len(text), 2.0]} for text in texts]

    def unloadable(texts: Sequence[str]) -> list[dict[str, Any]]:
        raise ConfigError("no model")

    texts = pa.record_batch({"text": ["one", "", "three"]})

    found = embed_batch(texts, encode)

    assert found.schema == VECTORS
    assert found["vector"].to_pylist() == [pytest.approx([1 / 3, 2]), None, pytest.approx([0.2, 2])]
    assert found["fault"].to_pylist() == [None, "ZeroDivisionError: float division by zero", None]
    with pytest.raises(ConfigError):  # of the model, and so of all texts
        embed_batch(texts, unloadable)


def test_rankings_are_rows_that_name_their_question() -> None:
    ranking = [ScoredChunk("a", 2.5), ScoredChunk("b", 1.0)]
    questions = pa.record_batch({"query": [7, 8, 9], "text": ["x", "y", "z"]})

    found = search_batch(questions, lambda texts, _: [ranking[: "zyx".index(of)] for of in texts])

    assert found.schema == FOUND
    rows = [[*row.values()] for row in found.to_pylist()]
    assert rows == [[7, "a", 2.5], [7, "b", 1.0], [8, "a", 2.5]]
