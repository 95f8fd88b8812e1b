import json
from dataclasses import replace
from pathlib import Path

from freshstack_dspy import Collection, export_collection, import_collection
from tests.collection.small import CONTENTS, A, B, D, write_small
from tests.formats.loading import METADATA, lines_of
from tests.formats.odd import ODD_IDS, write_odd


def words_of(path: Path) -> list[list[str]]:
    """The lines of qrels, taken apart as CRUX does."""
    return [line.split() for line in path.read_text(encoding="utf-8").split("\n")[:-1]]


def test_the_files_by_hand(tmp_path: Path) -> None:
    """Of query 123, chunk D has no rating: that it is redundant cannot be told."""
    export_collection(write_small(tmp_path / "c"), "crux", tmp_path / "out")
    ranking = tmp_path / "out/ranking_1"

    assert lines_of(ranking / "test_topics.jsonl")[0] == {
        "example_id": "12",
        "topic": "How? It fails.",
        "questions": ["fact 12_0", "fact 12_1"],
        "report": "Call `run()` twice.",
        "nugget_ids": ["12_0", "12_1"],
        "metadata": METADATA,
    }
    assert lines_of(ranking / "test_judgements.jsonl") == [
        {"example_id": "12", "pid": "12:0#0", "rating": [1, 0]},
        {"example_id": "12", "pid": "12:0#1", "rating": [1, 1]},
        {"example_id": "123", "pid": "123:0#0", "rating": [-2]},
        {"example_id": "123", "pid": "123:1#1", "rating": [1]},
        {"example_id": "123", "pid": "123:1#2", "rating": [0]},
    ]
    assert words_of(ranking / "test_div_qrels_pr.txt") == [
        ["12", "1", "12:0#0", "1"],
        ["12", "2", "12:0#0", "0"],
        ["12", "1", "12:0#1", "1"],
        ["12", "2", "12:0#1", "1"],
        ["123", "1", "123:1#1", "1"],
        ["123", "1", "123:1#2", "0"],
    ]
    assert words_of(ranking / "test_qrels_oracle_context_pr.txt") == [
        ["12", "0", "12:0#1", "3"],
        ["12", "0", "12:0#0", "2"],
        ["123", "0", "123:1#1", "3"],
        ["123", "0", "123:1#2", "1"],
    ]
    assert words_of(ranking / "test_qrels_oracle_adhoc_dr.txt") == [
        ["12", "0", "12:0", "1"],
        ["123", "0", "123:1", "1"],
    ]
    assert (ranking / "test_topics.tsv").read_text() == (
        "12\tHow? It fails.\n123\tHow? ``` x = 1 ```\n"
    )
    assert json.loads((tmp_path / "out/ids.json").read_bytes()) == {
        "chunks": {"12:0#0": A, "12:0#1": B, "123:0#0": D, "123:1#1": A, "123:1#2": B}
    }


def test_every_chunk_is_a_passage_of_each_topic_that_judged_it_or_of_none(tmp_path: Path) -> None:
    collection, out = write_odd(tmp_path / "c"), tmp_path / "out"
    export_collection(collection, "crux", out)
    passages = {line["id"]: line["contents"] for line in lines_of(out / "passages/test_psgs.jsonl")}
    chunks = json.loads((out / "ids.json").read_bytes())["chunks"]
    texts = {chunk.chunk_id: chunk.titled for chunk in collection.chunks()}
    rest = [pid for pid in passages if pid.startswith("!corpus:")]

    assert passages == {pid: texts[chunk_id] for pid, chunk_id in chunks.items()}
    assert set(chunks.values()) == set(texts)
    assert len(passages) == 3 * len(collection.queries) + len(rest)
    assert len(rest) == len(ODD_IDS) - 3


def test_pairs_that_were_not_judged_come_back_as_such(tmp_path: Path) -> None:
    """And those that failed as failures: both are in no qrels, and measures tell them apart."""
    judged = tuple(
        one for one in CONTENTS.judgments if (one.nugget_id, one.chunk_id) != ("12_1", A)
    )
    collection = write_small(tmp_path / "c", replace(CONTENTS, judgments=judged))
    export_collection(collection, "crux", tmp_path / "out")

    back = import_collection("crux", tmp_path / "out", tmp_path / "back")

    def by_pair(of: Collection) -> dict[tuple[str, str], int | None]:
        return {(one.nugget_id, one.chunk_id): one.label for one in of.judgments}

    measured = collection.qrels().labels.keys()
    assert by_pair(back) == {
        pair: label for pair, label in by_pair(collection).items() if pair[0] in measured
    }
