import json
from pathlib import Path
from typing import Any

import pytest
from freshstack.datasets import DataLoader
from freshstack.retrieval.evaluation import EvaluateRetrieval

from freshstack_dspy import Collection, export_collection
from freshstack_dspy.measures.evaluation import evaluate
from tests.formats.odd import write_odd

PLAIN = "as in the official data"
CASES = {
    "one begins with the other": ("12", "123"),
    PLAIN: ("76185522", "76501723"),
    "odd but harmless": ('a "b" / c', "x" * 1000),
}
"""The ids of two queries."""
CHUNKS = ("docs/a.md_0_5", "docs/b c.md_0_6", "code/d.py_3_9")
CUTOFFS = [1, 2, 10]


@pytest.fixture(scope="module")
def exports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Collection, Path]]:
    place, outs = tmp_path_factory.mktemp("collections"), tmp_path_factory.mktemp("outs")
    made = {}
    for name, query_ids in CASES.items():
        made[name] = (write_odd(place / name, query_ids, CHUNKS), outs / name)
        export_collection(made[name][0], "freshstack", outs / name)
    return made


@pytest.fixture(scope="module")
def official(
    exports: dict[str, tuple[Collection, Path]], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """What the official loader reads of all exports.

    They have the same names and one cache, so an export must not be taken for another.
    """
    read = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path_factory.mktemp("cache"))
        for name, (_, out) in exports.items():
            for topic in (None, "odd") if name == PLAIN else (None,):
                loader = DataLoader(str(out / "queries"), str(out / "corpus"), topic=topic)
                corpus, queries, nuggets = loader.load()
                read[f"{name}/{topic}"] = {
                    "corpus": corpus,
                    "queries": queries,
                    "nuggets": nuggets,
                    "answers": loader.load_answers(),
                    "qrels": loader.load_qrels(),
                }
    return read


def back(out: Path, kind: str, exported: dict[str, Any]) -> dict[str, Any]:
    """Give what was exported by our ids."""
    file = out / "ids.json"
    ids = json.loads(file.read_bytes()).get(kind, {}) if file.exists() else {}
    return {ids.get(id_, id_): value for id_, value in exported.items()}


@pytest.mark.parametrize(("name", "topic"), [*((name, "None") for name in CASES), (PLAIN, "odd")])
def test_the_official_loader_reads_back_every_text(
    exports: dict[str, tuple[Collection, Path]], official: dict[str, Any], name: str, topic: str
) -> None:
    collection, out = exports[name]
    read = official[f"{name}/{topic}"]

    assert (out / "ids.json").exists() is (name == "one begins with the other")
    assert read["corpus"] == {
        chunk.chunk_id: {"text": chunk.text, "title": chunk.title} for chunk in collection.chunks()
    }
    assert back(out, "queries", read["queries"]) == {
        query.query_id: query.text for query in collection.queries
    }
    assert back(out, "queries", read["answers"]) == {
        query.query_id: query.answer for query in collection.queries
    }
    assert back(out, "nuggets", read["nuggets"]) == {
        nugget.nugget_id: nugget.text for nugget in collection.nuggets if nugget.text != "none"
    }


@pytest.mark.parametrize("name", CASES)
def test_the_official_evaluator_gives_our_numbers(
    exports: dict[str, tuple[Collection, Path]], official: dict[str, Any], name: str
) -> None:
    """Of a ranking for each query that is neither the best nor the worst."""
    collection, out = exports[name]
    first, second, third = CHUNKS
    found = ({third: 3.0, first: 2.0, second: 1.0}, {second: 2.0, first: 1.0})
    run = dict(zip(CASES[name], found, strict=True))
    qrels_nuggets, qrels_query, query_to_nuggets = official[f"{name}/None"]["qrels"]
    theirs = {id_: run[ours] for id_ in qrels_query for ours in back(out, "queries", {id_: 0})}

    alpha, coverage, recall = EvaluateRetrieval(CUTOFFS).evaluate(
        qrels_nuggets, query_to_nuggets, qrels_query, theirs
    )
    dicts = collection.qrels().official()
    assert (alpha, coverage, recall) == EvaluateRetrieval(CUTOFFS).evaluate(
        dicts.qrels_nuggets, dicts.query_to_nuggets, dicts.qrels_query, run
    )

    measured = evaluate(collection, run, ("alpha_nDCG@2", "Coverage@2", "Recall@2")).means
    assert measured == pytest.approx(
        {
            "alpha_nDCG@2": alpha["alpha-nDCG@2"],
            "Coverage@2": coverage["Coverage@2"],
            "Recall@2": recall["Recall@2"],
        },
        abs=1e-4,
    )
