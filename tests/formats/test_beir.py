import csv
import json
from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy import export_collection
from freshstack_dspy.formats.selection import word
from tests.collection.small import A, B, write_small
from tests.formats.loading import METADATA, lines_of, loaded, needs
from tests.formats.odd import ODD_IDS, write_odd

LOADER = """
import json, sys
from beir.datasets.data_loader import GenericDataLoader

print(json.dumps(GenericDataLoader(sys.argv[1]).load(split="test")))
"""
ORDINARY = [id_ for id_ in ODD_IDS if id_.isprintable() and '"' not in id_]


def read(folder: Path) -> tuple[dict[str, Any], dict[str, Any], dict[str, dict[str, int]]]:
    """Corpus, queries and qrels, as anyone may read them."""
    corpus = {line["_id"]: line for line in lines_of(folder / "corpus.jsonl")}
    queries = {line["_id"]: line for line in lines_of(folder / "queries.jsonl")}
    qrels: dict[str, dict[str, int]] = {}
    with (folder / "qrels/test.tsv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            qrels.setdefault(row["query-id"], {})[row["corpus-id"]] = int(row["score"])
    return corpus, queries, qrels


def test_the_files_by_hand(tmp_path: Path) -> None:
    export_collection(write_small(tmp_path / "c"), "beir", tmp_path / "out")
    corpus, queries, qrels = read(tmp_path / "out")

    assert corpus[B] == {
        "_id": B,
        "title": "",
        "text": "bêta ",
        "metadata": {
            "url": "",
            "start_byte": 0,
            "end_byte": 6,
            "commit_id": "",
            "source": "docs",
            "path": "x",
            "encoding": "utf-8",
        },
    }
    assert queries["12"] == {
        "_id": "12",
        "text": "How? It fails.",
        "metadata": METADATA,
    }
    # Of the third chunk of query 123 nothing is known: its only judgment failed.
    assert qrels == {"12": {A: 1, B: 2}, "123": {A: 1, B: 0}}


def test_a_grade_counts_the_nuggets_that_reach_the_threshold(tmp_path: Path) -> None:
    """Labels are 3 and 1, then 0 and 2, then 0 and a failure; the threshold is 2."""
    export_collection(write_odd(tmp_path / "c", ["q1", "q2"]), "beir", tmp_path / "out")
    _, queries, qrels = read(tmp_path / "out")

    assert qrels == {query: {"12": 1, "123": 1} for query in ("q1", "q2")}
    assert [each["metadata"]["origin"] for each in queries.values()] == ["community", "synthetic"]


@pytest.mark.parametrize(("ids", "kept"), [(ORDINARY, True), (ODD_IDS, False)])
def test_ids_are_kept_as_they_are_unless_one_of_them_cannot_be(
    tmp_path: Path, ids: list[str], kept: bool
) -> None:
    chunk_ids = [f"docs/{id_}" for id_ in ids]
    export_collection(write_odd(tmp_path / "c", ids, chunk_ids), "beir", tmp_path / "out")
    corpus, queries, _ = read(tmp_path / "out")

    assert set(queries) == {id_ if kept else word(id_) for id_ in ids}
    assert set(corpus) == {id_ if kept else word(id_) for id_ in chunk_ids}
    assert (tmp_path / "out/ids.json").exists() is not kept


def test_no_query_is_called_as_a_chunk_is(tmp_path: Path) -> None:
    """BEIR's evaluation would pass over that chunk in what was found for the query."""
    chunk_ids = ["12", "query:12", "other"]
    export_collection(write_odd(tmp_path / "c", ["12", "13"], chunk_ids), "beir", tmp_path / "out")
    corpus, queries, _ = read(tmp_path / "out")

    assert set(corpus) == set(chunk_ids)
    assert json.loads((tmp_path / "out/ids.json").read_bytes()) == {
        "queries": {"query:query:12": "12", "query:query:13": "13"}
    }
    assert set(queries) == {"query:query:12", "query:query:13"}


@pytest.mark.formats
@needs("beir")
@pytest.mark.parametrize("ids", [ORDINARY, ODD_IDS])
def test_the_loader_of_beir_reads_back_everything(tmp_path: Path, ids: list[str]) -> None:
    collection = write_odd(tmp_path / "c", ids, ids)
    export_collection(collection, "beir", tmp_path / "out")
    corpus, queries, qrels = loaded(LOADER, tmp_path / "home", tmp_path / "out")
    file = tmp_path / "out/ids.json"
    renamed: dict[str, dict[str, str]] = json.loads(file.read_bytes())

    def ours(kind: str, id_: str) -> str:
        return renamed.get(kind, {}).get(id_, id_)

    assert {ours("chunks", id_): each for id_, each in corpus.items()} == {
        chunk.chunk_id: {"title": chunk.title, "text": chunk.text} for chunk in collection.chunks()
    }
    assert {ours("queries", id_): text for id_, text in queries.items()} == {
        query.query_id: query.text for query in collection.queries
    }
    assert {ours("queries", id_): len(found) for id_, found in qrels.items()} == dict.fromkeys(
        ids, 2
    )
