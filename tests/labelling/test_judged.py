"""A collection's judgments, as the page looks at them: found, shown, and corrected."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from freshstack_dspy import HumanLabel
from freshstack_dspy.files import encode_records
from freshstack_dspy.labelling.judged import Filters, JudgmentTasks
from tests.collection.small import CONTENTS, A, B, D, write_small
from tests.labelling.conftest import Serve
from tests.labelling.test_browser import start, stop
from tests.labelling.test_server import pair, support, write_tasks, written


def of_person(nugget_id: str, chunk_id: str, label: int, annotator: str = "bo") -> HumanLabel:
    query_id = nugget_id.split("_", maxsplit=1)[0]
    ids = {"query_id": query_id, "nugget_id": nugget_id, "chunk_id": chunk_id}
    return HumanLabel(**ids, label=label, annotator=annotator, note="seen")


def look(client: httpx.Client, **filters: str) -> list[tuple[str, str]]:
    """The nuggets and chunks of all that is found, a query at a time."""
    found, place = [], 0
    while True:
        answer = client.get(f"/api/judgments/{place}", params=filters).json()
        found += [(row["nugget"].removeprefix("fact "), row["chunk_id"]) for row in answer["rows"]]
        place = answer.get("end", 0)
        if place == answer["total"]:
            return found


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"text": "12"}, [("12_0", A), ("12_0", B), ("12_1", B), ("12_1", A)]),  # not 123
        ({"text": "X = 1"}, [("123_0", A), ("123_0", B), ("123_0", D)]),
        ({"label": "1"}, [("12_0", A), ("12_0", B), ("12_1", B), ("123_0", A)]),
        ({"label": "none"}, [("123_0", D)]),
        ({"technique": "question", "label": "0"}, [("12_1", A), ("5_0", A)]),
        ({"technique": "answer"}, []),
        ({"disputed": "1"}, [("12_0", B), ("12_1", B), ("123_0", D)]),
        ({"disputed": "1", "text": "12"}, [("12_0", B), ("12_1", B)]),
        ({"text": "no such words"}, []),
    ],
)
def test_judgments_are_found_by_filters(
    serve: Serve, collection: Path, tmp_path: Path, filters: dict[str, str], expected: Any
) -> None:
    """Of 12_0 and A all say 1; of 12_1 and B a person says 0, and of D people do not agree."""
    labels = [of_person("12_0", A, 2), of_person("12_0", B, 0), of_person("12_1", B, 1, "cy")]
    labels += [of_person("123_0", D, 1), of_person("123_0", D, 0, "cy")]
    (tmp_path / "labels-ana.jsonl").write_bytes(encode_records(labels))
    client = serve(collection)
    client.post("/api/tasks/2", json=support(0))  # of 12_1 and B

    assert look(client, **filters) == expected


def test_a_judgment_is_shown_with_all_that_is_said_of_it(serve: Serve, tmp_path: Path) -> None:
    """The second chunk is "bêta ", in bytes 0 to 6: its second character has two."""
    first, second, *others = CONTENTS.judgments
    marked = second.model_copy(update={"evidence": ((1, 5),)})
    write_small(tmp_path / "small", replace(CONTENTS, judgments=(first, marked, *others)))
    (tmp_path / "labels-ana.jsonl").write_bytes(encode_records([of_person("12_0", B, 0)]))
    client = serve(tmp_path / "small")
    [row] = client.get("/api/judgments/1", params={"text": "12"}).json()["rows"][1:2]

    shown = client.get(f"/api/tasks/{row['number']}").json()
    client.post(f"/api/tasks/{row['number']}", json=support(1, (0, 2), note="mine"))
    after = client.get(f"/api/tasks/{row['number']}").json()

    assert (row["label"], row["people"], row["disputed"]) == (1, [0], True)
    judged, [person] = shown["judged"], shown["people"]
    assert (judged["label"], judged["reason"], judged["evidence"]) == (1, "because", [[1, 4]])
    assert (person["annotator"], person["label"], person["note"]) == ("bo", 0, "seen")
    assert (shown["pooled_by"], shown["given"]) == ({"question": 1}, [])
    assert after["given"][0]["evidence"] == [[0, 2]]
    assert [one["annotator"] for one in written(tmp_path)] == ["bo", "ana"]
    client.post("/api/undo")
    assert [one["annotator"] for one in written(tmp_path)] == ["bo"]


def test_queries_are_listed_with_how_much_is_found_of_them(serve: Serve, collection: Path) -> None:
    client = serve(collection)

    listed = client.get("/api/queries/0", params={"label": "0"}).json()

    rows = [(row["query_id"], row["count"], row["place"]) for row in listed["rows"]]
    assert rows == [("12", 1, 0), ("123", 1, 1), ("5", 1, 2)]
    by_number = client.get("/api/judgments/0", params={"label": "0", "number": "7"}).json()
    assert (by_number["place"], by_number["rows"][0]["nugget"]) == (2, "fact 5_0")


def test_a_large_collection_is_sent_in_parts(tmp_path: Path) -> None:
    """A query with 450 judgments, and 450 queries with one each."""
    template, chunk_id = CONTENTS.judgments[0], "docs/a.md_0_5"
    queries = [CONTENTS.queries[0].model_copy(update={"query_id": f"{n:03}"}) for n in range(451)]
    nuggets = [
        CONTENTS.nuggets[0].model_copy(update={"query_id": f"{q:03}", "nugget_id": f"{q:03}_{n}"})
        for q in range(451)
        for n in range(450 if q == 0 else 1)
    ]
    small = write_small(tmp_path / "small")
    judgments = tuple(
        template.model_copy(update=one.model_dump(include={"query_id", "nugget_id"}))
        for one in nuggets
    )
    large = replace(
        small, queries=tuple(queries), nuggets=tuple(nuggets), judgments=judgments, pool=()
    )
    judged = JudgmentTasks(large)

    second = judged.around(Filters(), {}, 250)
    last = judged.around(Filters(), {}, 10_000)
    listed = judged.queries(Filters(), {}, 899)

    assert [row["chunk_id"] for row in second["rows"]] == [chunk_id] * 200
    assert (second["first"], second["begin"], second["end"], second["total"]) == (200, 0, 450, 900)
    assert (last["place"], len(last["rows"])) == (899, 1)
    assert (listed["first"], len(listed["rows"]), listed["total"]) == (400, 51, 451)


def test_without_an_annotator_nothing_is_written(collection: Path, tmp_path: Path) -> None:
    """Over a real connection, as `freshstack label COLLECTION` serves it."""
    (tmp_path / "people.jsonl").write_bytes(encode_records([of_person("12_0", A, 0)]))
    more = ("--labels", "people.jsonl", "--query", "12")
    process, address = start(tmp_path, None, "small", *more)
    url = httpx.URL(address)
    with httpx.Client(headers={"X-Token": url.params["token"]}) as client:
        state = client.get(url.join("/api/state")).json()
        posted = [
            client.post(url.join(path), json=support(1)) for path in ("/api/tasks/0", "/api/undo")
        ]
        found = client.get(url.join("/api/judgments/0?disputed=1")).json()
        foreign = client.get(url.join("/api/judgments/0"), headers={"X-Token": "other"})

    assert (url.params["text"], state["annotator"], state["file"]) == ("12", None, None)
    assert [answer.status_code for answer in posted] == [422, 422]
    assert [(row["label"], row["people"]) for row in found["rows"]] == [(1, [0])]
    assert foreign.status_code == 403
    assert stop(process) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["people.jsonl", "small"]


def test_a_file_of_tasks_is_no_collection(serve: Serve, collection: Path, tmp_path: Path) -> None:
    client = serve(write_tasks(tmp_path, pair("12_0", A)))
    assert client.get("/api/judgments/0").status_code == 404
    assert "judged" not in json.dumps(client.get("/api/tasks/0").json())
