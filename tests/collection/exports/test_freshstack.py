import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from freshstack.retrieval.evaluation import EvaluateRetrieval

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.collection.contents import RECORD_FILES, Contents
from freshstack_dspy.collection.exports import export_collection
from freshstack_dspy.collection.writing import write_collection
from freshstack_dspy.measures.evaluation import evaluate
from freshstack_dspy.measures.run import Run
from freshstack_dspy.records import ScoredChunk
from tests.collection.small import CHUNKS, CONTENTS, PROVENANCE, A, B, D

FOUND: dict[str, dict[str, float]] = {"12": {D: 3.0, A: 2.0, B: 1.0}, "123": {B: 2.0, A: 1.0}}
"""A ranking for each of the two evaluated queries, that is neither the best nor the worst."""
CUTOFFS = [1, 2, 10]


def renamed(names: dict[str, str]) -> Contents:
    """The small collection with other query ids, and nugget ids made of them."""

    def new(record: Any) -> Any:
        query_id = names.get(record.query_id, record.query_id)
        update = {"query_id": query_id}
        if hasattr(record, "nugget_id"):
            position = record.nugget_id.split("_")[1]
            update["nugget_id"] = f"{query_id}_{position}"
        return record.model_copy(update=update)

    records: Any = {
        file.name: tuple(
            new(record) if hasattr(record, "query_id") else record
            for record in getattr(CONTENTS, file.name)
        )
        for file in RECORD_FILES
    }
    return Contents(**{**records, "contamination": ()})


PLAIN = "as in the official data"
CASES: dict[str, tuple[dict[str, str], bool]] = {
    "one begins with the other": ({}, True),
    PLAIN: ({"12": "76185522", "123": "76501723"}, False),
    "odd but harmless": ({"12": 'a "b" / c', "123": "x" * 1000}, False),
}
"""New query ids, and whether the export has to change them."""

OFFICIAL = """
import json, sys
from freshstack.datasets import DataLoader
from pathlib import Path

read = {}
for out in Path(sys.argv[1]).iterdir():
    for topic in (None, "small") if out.name == sys.argv[3] else (None,):
        loader = DataLoader(str(out / "queries"), str(out / "corpus"), topic=topic)
        corpus, queries, nuggets = loader.load()
        read[f"{out.name}/{topic}"] = {
            "corpus": corpus, "queries": queries, "nuggets": nuggets,
            "answers": loader.load_answers(), "qrels": loader.load_qrels(),
        }
Path(sys.argv[2]).write_text(json.dumps(read))
"""


@pytest.fixture(scope="module")
def collections() -> dict[str, Contents]:
    return {name: renamed(names) for name, (names, _) in CASES.items()}


@pytest.fixture(scope="module")
def exports(
    collections: dict[str, Contents], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[Collection, Path]]:
    place = tmp_path_factory.mktemp("collections")
    outs = tmp_path_factory.mktemp("outs")
    made = {}
    for name, contents in collections.items():
        collection = write_collection(place / name, contents, CHUNKS, PROVENANCE)
        export_collection(collection, "freshstack", outs / name)
        made[name] = (collection, outs / name)
    return made


@pytest.fixture(scope="module")
def official(
    exports: dict[str, tuple[Collection, Path]], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """What the official loader reads of all exports, in a process with the hub off.

    They have the same names and one cache, so an export must not be taken for another.
    """
    home = tmp_path_factory.mktemp("home")
    outs = next(iter(exports.values()))[1].parent
    subprocess.run(
        [sys.executable, "-c", OFFICIAL, outs, home / "read.json", PLAIN],
        check=True,
        timeout=120,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(home), "HOME": str(home)},
    )
    read: dict[str, Any] = json.loads((home / "read.json").read_bytes())
    return read


def back(out: Path, kind: str) -> dict[str, str]:
    """The exported ids of a kind that are called differently, and our names for them."""
    file = out / "ids.json"
    ids: dict[str, str] = json.loads(file.read_bytes()).get(kind, {}) if file.exists() else {}
    return ids


@pytest.mark.parametrize(("name", "topic"), [*((name, "None") for name in CASES), (PLAIN, "small")])
def test_the_official_loader_reads_back_every_text(
    exports: dict[str, tuple[Collection, Path]], official: dict[str, Any], name: str, topic: str
) -> None:
    collection, out = exports[name]
    read = official[f"{name}/{topic}"]
    queries, nuggets = back(out, "queries"), back(out, "nuggets")
    evaluated = {q.query_id: q for q in collection.queries if q.query_id in collection.query_ids()}

    assert read["corpus"] == {chunk.chunk_id: {"text": chunk.text, "title": ""} for chunk in CHUNKS}
    assert {queries.get(key, key): text for key, text in read["queries"].items()} == {
        query_id: query.text for query_id, query in evaluated.items()
    }
    assert {queries.get(key, key): text for key, text in read["answers"].items()} == {
        query_id: query.answer for query_id, query in evaluated.items()
    }
    assert {nuggets.get(key, key): text for key, text in read["nuggets"].items()} == {
        nugget.nugget_id: nugget.text
        for nugget in collection.nuggets
        if nugget.query_id in evaluated
    }


@pytest.mark.parametrize("name", CASES)
def test_the_official_evaluator_gives_our_numbers(
    exports: dict[str, tuple[Collection, Path]], official: dict[str, Any], name: str
) -> None:
    collection, out = exports[name]
    qrels_nuggets, qrels_query, query_to_nuggets = official[f"{name}/None"]["qrels"]
    names = CASES[name][0]
    ours = {names.get(query, query): scores for query, scores in FOUND.items()}
    exported = {ours_: theirs for theirs, ours_ in back(out, "queries").items()}
    theirs = {exported.get(query, query): scores for query, scores in ours.items()}
    dicts = collection.qrels().official()
    official_values = EvaluateRetrieval(CUTOFFS).evaluate(
        qrels_nuggets, query_to_nuggets, qrels_query, theirs
    )

    assert official_values == EvaluateRetrieval(CUTOFFS).evaluate(
        dicts.qrels_nuggets, dicts.query_to_nuggets, dicts.qrels_query, ours
    )

    run = Run(
        "r",
        {
            query: tuple(ScoredChunk(chunk, score) for chunk, score in scores.items())
            for query, scores in ours.items()
        },
    )
    measured = evaluate(collection.qrels(), run, ("alpha_nDCG@2", "Coverage@2", "Recall@2")).means
    alpha, coverage, recall = official_values
    assert measured == pytest.approx(
        {
            "alpha_nDCG@2": alpha["alpha-nDCG@2"],
            "Coverage@2": coverage["Coverage@2"],
            "Recall@2": recall["Recall@2"],
        },
        abs=1e-4,
    )
