"""What the page asks of its server, and what is then in the labels file."""

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from freshstack_dspy import Collection, read_labels
from freshstack_dspy.errors import CollectionError, ConfigError
from freshstack_dspy.files import encode_records
from freshstack_dspy.labelling.server import ADDRESS
from freshstack_dspy.labelling.tasks import Tasks
from freshstack_dspy.records import LabelTask, SampleHeader, TaskKind
from tests.collection.small import A, B
from tests.labelling.conftest import Serve


def write_tasks(folder: Path, *tasks: LabelTask) -> Path:
    content = Collection.load(folder / "small").manifest.content_hash
    path = folder / "tasks.jsonl"
    path.write_bytes(encode_records([SampleHeader(collection="small", content=content), *tasks]))
    return path


def pair(nugget_id: str, chunk_id: str, kind: TaskKind = "support", **drawn: Any) -> LabelTask:
    query_id = nugget_id.split("_", maxsplit=1)[0]
    return LabelTask(kind=kind, query_id=query_id, nugget_id=nugget_id, chunk_id=chunk_id, **drawn)


def support(label: int, *evidence: tuple[int, int], note: str = "") -> list[dict[str, Any]]:
    return [{"kind": "support", "label": label, "evidence": evidence, "note": note}]


def written(client_folder: Path, annotator: str = "ana") -> list[dict[str, Any]]:
    lines = (client_folder / f"labels-{annotator}.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_without_the_token_nothing_is_answered(serve: Serve, collection: Path) -> None:
    client = serve(collection)
    paths = ["/", "/page.js", "/page.css", "/api/state", "/api/tasks/0", "/api/tasks/0/verdict"]

    assert {client.get(path).status_code for path in paths[:-1]} == {200}
    for headers in ({"X-Token": ""}, {"X-Token": "the-tokem"}):
        answers = [client.get(path, headers=headers) for path in paths]
        answers += [client.post(path, headers=headers) for path in ("/api/undo", "/api/tasks/0")]
        assert {answer.status_code for answer in answers} == {403}
    assert client.get("/?token=the-token", headers={"X-Token": ""}).status_code == 200
    assert client.get("/", headers={"Host": "elsewhere.example"}).status_code == 400
    for origin, status in ((f"http://{ADDRESS}", 200), ("http://127.0.0.1:1", 403), ("null", 403)):
        posted = client.post("/api/tasks/0", json=support(0), headers={"Origin": origin})
        assert posted.status_code == status
    policy = client.get("/").headers["Content-Security-Policy"]
    assert "default-src 'none'; script-src 'self'; style-src 'self';" in policy


def test_a_label_can_be_changed_and_undone_and_its_history_is_in_the_file(
    serve: Serve, collection: Path, tmp_path: Path
) -> None:
    """The second chunk is "bêta ", in bytes 0 to 6: its second character has two."""
    client = serve(write_tasks(tmp_path, pair("12_0", B, stratum="label 1", probability=0.5)))

    state = client.post("/api/tasks/0", json=support(0)).json()
    assert (state["done"], state["total"]) == ([0], 1)
    client.post("/api/tasks/0", json=support(1, (1, 4), note="mostly"))
    first, label = written(tmp_path)
    assert first["label"] == 0
    assert [one.label for one in read_labels(tmp_path / "labels-ana.jsonl")] == [1]
    assert label.pop("time").endswith("Z")
    assert {name: value for name, value in label.items() if value is not None} == {
        "query_id": "12", "nugget_id": "12_0", "chunk_id": B, "annotator": "ana", "note": "mostly",
        "kind": "support", "label": 1, "evidence": [[1, 5]], "stratum": "label 1",
        "probability": 0.5, "question": "How? It fails.", "nugget": "fact 12_0", "chunk": "bêta",
        "path": "docs/x", "marked": ["êta"],
    }  # fmt: skip
    [shown] = client.get("/api/tasks/0").json()["given"]
    assert (shown["label"], shown["evidence"]) == (1, [[1, 4]])

    assert client.post("/api/undo").json()["number"] == 0
    assert [label["label"] for label in written(tmp_path)] == [0]
    client.post("/api/undo")
    assert written(tmp_path) == []
    assert client.post("/api/undo").json()["number"] is None


def test_of_two_tabs_the_later_label_counts_and_says_that_it_replaces_one(
    serve: Serve, collection: Path, tmp_path: Path
) -> None:
    client = serve(collection)
    [shown] = client.post("/api/tasks/0?seen=", json=support(1)).json()["given"]

    later = client.post("/api/tasks/0?seen=", json=support(0)).json()
    [replaced], [counts] = later["replaced"], later["given"]
    knowing = client.post(f"/api/tasks/0?seen={counts['time']}", json=support(1)).json()

    assert (replaced["label"], replaced["time"], counts["label"]) == (1, shown["time"], 0)
    assert knowing["replaced"] == []
    assert [one["label"] for one in written(tmp_path)] == [1, 0, 1]
    [label] = read_labels(tmp_path / "labels-ana.jsonl")
    assert label.label == 1


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (support(2), "allowed: [0, 1]"),
        (support(1, (0, 99)), "not within the passage"),
        ([{"kind": "support"}], "not a label"),
        ([], "not all that is asked for"),
        ({"label": 1}, "not a list of labels"),
        ([{"kind": "support", "label": True}], "label: Input should be a valid integer"),
        ([{"kind": ["support"]}], "its kind is"),
        ([3], "not a list of labels"),
        (support(1, note="\ud800"), "not a list of labels"),
        ("[" * 100_000, "not a list of labels"),
    ],
)
def test_what_is_no_label_of_the_task_is_not_written(
    serve: Serve, collection: Path, tmp_path: Path, sent: Any, said: str
) -> None:
    client = serve(collection)

    content = sent if isinstance(sent, str) else json.dumps(sent)
    answer = client.post("/api/tasks/0", content=content)

    assert answer.status_code == 422
    assert said in answer.json()["error"]
    assert "\n" not in answer.json()["error"]
    assert client.post("/api/tasks/0", content=b"[" * (2 << 20)).status_code == 413
    assert not (tmp_path / "labels-ana.jsonl").exists()


def test_the_judges_label_is_shown_after_ones_own_and_to_the_blind_never(
    serve: Serve, collection: Path, tmp_path: Path
) -> None:
    for annotator, blind in (("ana", False), ("bo", True)):
        client = serve(write_tasks(tmp_path, pair("12_0", A)), annotator, blind=blind)
        shown = client.get("/api/tasks/0").json()
        assert "because" not in json.dumps(shown)
        assert client.get("/api/tasks/0/verdict").status_code == 409
        client.post("/api/tasks/0", json=support(1))
        answer = client.get("/api/tasks/0/verdict")
        assert answer.status_code == (409 if blind else 200)
    assert client.get("/api/state").json()["done"] == [0]


def test_labels_are_found_again_and_those_of_others_stay(
    serve: Serve, collection: Path, tmp_path: Path
) -> None:
    client = serve(collection)
    for number in range(3):
        client.post(f"/api/tasks/{number}", json=support(number % 2))
    before = (tmp_path / "labels-ana.jsonl").read_bytes()
    other = before.splitlines()[0].replace(b'"ana"', b'"bo"') + b"\n"
    (tmp_path / "labels-ana.jsonl").unlink()
    (tmp_path / "labels-cy.jsonl").write_bytes(
        other + before.replace(b'"ana"', b'"cy"') + b'{"query_id": "1'  # killed while it wrote
    )

    client = serve(collection, "cy")

    assert client.get("/api/state").json()["done"] == [0, 1, 2]
    assert client.post("/api/undo").json()["number"] is None  # it takes back what it wrote itself
    client.post("/api/tasks/0", json=support(1))
    labels = read_labels(tmp_path / "labels-cy.jsonl")
    assert sorted((one.annotator, one.label) for one in labels) == [
        ("bo", 0), ("cy", 0), ("cy", 1), ("cy", 1)
    ]  # fmt: skip


def test_a_file_is_held_by_one_process_and_by_labels_of_its_collection(
    serve: Serve, collection: Path, tmp_path: Path
) -> None:
    serve(collection)
    foreign = {"query_id": "77", "nugget_id": "7", "chunk_id": A, "label": 1, "annotator": "bo"}
    (tmp_path / "labels-bo.jsonl").write_text(json.dumps(foreign) + "\n")

    with pytest.raises(ConfigError, match="is being written by freshstack label"):
        serve(collection)
    with pytest.raises(CollectionError, match="no label is of 'small'"):
        serve(collection, "bo")
    (tmp_path / "labels-cy.jsonl").mkdir()
    with pytest.raises(ConfigError, match="cannot be opened: Is a directory"):
        serve(collection, "cy")


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """No file can be longer, as on a disk that gets full within a line."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_after_a_write_that_fails_the_file_is_as_it_was(
    serve: Serve, collection: Path, tmp_path: Path
) -> None:
    client = serve(collection)
    for number in (0, 1):
        client.post(f"/api/tasks/{number}", json=support(1))
    before = (tmp_path / "labels-ana.jsonl").read_bytes()
    others = sorted(tmp_path.iterdir())

    with room_for(len(before) + 9):
        answers = [client.post(f"/api/tasks/{task}", json=support(0)) for task in (0, 2)]

    assert {answer.status_code for answer in answers} == {507}
    assert "File too large" in answers[0].json()["error"]
    assert client.get("/api/state").json()["done"] == [0, 1]
    assert (tmp_path / "labels-ana.jsonl").read_bytes() == before
    assert sorted(tmp_path.iterdir()) == others
    client.post("/api/tasks/2", json=support(0))
    assert [one["label"] for one in written(tmp_path)] == [1, 1, 0]


@pytest.mark.parametrize("what", ["changed", "emptied", "replaced", "removed"])
def test_a_file_that_another_program_touched_is_noticed_and_can_be_put_back(
    serve: Serve, collection: Path, tmp_path: Path, what: str
) -> None:
    client = serve(collection)
    for number in (0, 1):
        client.post(f"/api/tasks/{number}", json=support(1))
    file = tmp_path / "labels-ana.jsonl"
    before = file.read_bytes()
    after = {"emptied": b"", "changed": before.replace(b'"label":1', b'"label":0')}
    file.unlink() if what in ("removed", "replaced") else None
    if what != "removed":
        file.write_bytes(after.get(what, before[: before.index(b"\n") + 1]))
    touched = file.read_bytes() if file.exists() else None

    posts = [
        client.post("/api/tasks/2", json=support(1)),
        client.post("/api/tasks/0", json=support(0)),
    ]
    posts += [client.post("/api/undo"), client.get("/api/state")]

    assert {post.status_code for post in posts} == {409}
    assert "labels-ana.jsonl.before" in posts[0].json()["error"]
    assert (file.read_bytes() if file.exists() else None) == touched
    Path(f"{file}.before").replace(file)
    assert client.post("/api/tasks/2", json=support(1)).json()["done"] == [0, 1, 2]
    assert file.read_bytes().startswith(before)


def test_nuggets_are_labelled_as_a_list_and_one_by_one(
    serve: Serve, collection: Path, tmp_path: Path
) -> None:
    task = LabelTask(kind="nuggets", query_id="12", stratum="answerable", probability=1)
    client = serve(write_tasks(tmp_path, task))
    shown = client.get("/api/tasks/0").json()
    assert [one["nugget_id"] for one in shown["nuggets"]] == ["12_0", "12_1"]
    said = {"precise": True, "grounded": False, "vital": True}
    quality = [{"kind": "nugget", "nugget_id": id_, **said} for id_ in ("12_0", "12_1")]
    merged = {"text": "both facts", "importance": "vital", "made_from": ["12_0", "12_1"]}
    listed = {"kind": "nugget_list", "nuggets": [merged]}

    assert client.post("/api/tasks/0", json=[listed, *quality[:1]]).status_code == 422
    client.post("/api/tasks/0", json=[listed, *quality])

    [found] = read_labels(tmp_path / "labels-ana.jsonl", "nugget_list")
    assert found.nuggets[0].made_from == ("12_0", "12_1")
    assert len(read_labels(tmp_path / "labels-ana.jsonl", "nugget")) == 2
    client.post("/api/undo")
    assert written(tmp_path) == []


def test_a_task_of_what_the_collection_lacks_is_named(collection: Path, tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path, pair("12_0", A), pair("12_0", "docs/gone.md_0_5"))
    with pytest.raises(CollectionError, match=r"tasks.jsonl:3: there is no chunk 'docs/gone"):
        Tasks.open(tasks)
    with pytest.raises(CollectionError, match="cannot be read"):
        Tasks.open(tmp_path / ("t" * 3000))


def test_answers_and_answerability_have_two_labels(
    serve: Serve, collection: Path, tmp_path: Path
) -> None:
    answer = LabelTask(
        kind="answer", query_id="12", run_id="bm25", answer="Yes.", gold_answer="No."
    )
    client = serve(write_tasks(tmp_path, answer, pair("12_0", A, "answerability")))

    client.post("/api/tasks/0", json=[{"kind": "answer", "agrees": False}])
    client.post("/api/tasks/1", json=[{"kind": "answerability", "label": 1}])

    first, second = written(tmp_path)
    assert (first["agrees"], first["gold_answer"], second["kind"]) == (
        False,
        "No.",
        "answerability",
    )


def test_numbers_of_thousands_of_digits_and_head_are_answered(
    serve: Serve, collection: Path, tmp_path: Path
) -> None:
    client = serve(collection)
    digits = "9" * 5000
    sent = f'[{{"kind": "support", "label": {digits}, "evidence": [], "note": ""}}]'

    assert client.get(f"/api/tasks/{digits}").status_code == 404
    assert client.get(f"/api/tasks/{digits}/verdict").status_code == 409
    assert client.get(f"/api/queries/{digits}").status_code == 200
    assert client.get(f"/api/judgments/{digits}?number={digits}").status_code == 200
    assert client.post("/api/tasks/0", content=sent).status_code == 422
    assert client.head("/api/tasks/0").status_code == 200


def test_the_token_is_not_among_the_arguments_of_the_browser(
    collection: Path, tmp_path: Path
) -> None:
    """They are seen by everybody on the machine; the file that leads to the page is not."""
    seen = tmp_path / "seen"
    browser = tmp_path / "browser"
    browser.write_text(
        f'#!/bin/sh\nfile="${{1#file://}}"\n(echo "$1"; stat -c %a "$file"; cat "$file") > {seen}.new\n'
        f"mv {seen}.new {seen}\n"
    )
    browser.chmod(0o755)
    command = [sys.executable, "-m", "freshstack_dspy", "label", str(collection)]
    with subprocess.Popen(
        [*command, "--annotator", "ana"],
        cwd=tmp_path,
        env={**os.environ, "BROWSER": f"{browser} %s"},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        until = monotonic() + 60
        while not seen.exists() and monotonic() < until:
            sleep(0.05)
        process.send_signal(signal.SIGINT)
    argument, mode, page = seen.read_text().split("\n", 2)

    assert address.split("token=")[1] not in argument
    assert mode == "600"
    assert address.split("token=")[1] in page
    assert not Path(argument.removeprefix("file://")).exists()
