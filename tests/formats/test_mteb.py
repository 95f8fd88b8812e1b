import json
import math
from pathlib import Path

import pytest

from freshstack_dspy import export_collection
from tests.formats.loading import loaded, needs
from tests.formats.odd import ODD_IDS, write_odd

# A model that ranks chunks by the number at their end, but the one numbered 2 above all.
EVALUATION = """
import json, sys
sys.path.insert(0, sys.argv[1])
import mteb, numpy
from mteb.models.model_meta import ModelMeta
from task import CollectionRetrieval

class Toy:
    mteb_model_meta = ModelMeta.create_empty(overwrites={"name": "test/toy", "revision": "1"})

    def encode(self, inputs, **kwargs):
        rows = []
        for batch in inputs:
            for text in batch["text"]:
                last = text.split()[-1]
                place = {"2": 0, "0": 1, "1": 2}.get(last, last)
                rows.append([-float(place) if last.isdigit() else 1.0])
        return numpy.array(rows)

    def similarity(self, ones, others):
        return numpy.asarray(ones) @ numpy.asarray(others).T

    def similarity_pairwise(self, ones, others):
        return (numpy.asarray(ones) * numpy.asarray(others)).sum(axis=1)

task = CollectionRetrieval()
task.load_data()
data = task.dataset["default"]["test"]
read = {
    "queries": {row["id"]: row["text"] for row in data["queries"]},
    "corpus": {row["id"]: [row["title"], row["text"]] for row in data["corpus"]},
    "qrels": data["relevant_docs"],
}
done = mteb.evaluate(Toy(), task, cache=None, show_progress_bar=False)
scores = done.task_results[0].scores["test"][0]
print(json.dumps({**read,
    "name": task.metadata.name, "revision": task.metadata.dataset["revision"],
    "main": scores["main_score"], "ndcg": scores["ndcg_at_10"],
}))
"""


@pytest.mark.formats
@pytest.mark.slow
@needs("mteb")
def test_mteb_evaluates_a_model_on_the_task(tmp_path: Path) -> None:
    collection = write_odd(tmp_path / "c")
    export_collection(collection, "mteb", tmp_path / "out")
    read = loaded(EVALUATION, tmp_path / "home", tmp_path / "out")
    ids = json.loads((tmp_path / "out/ids.json").read_bytes())

    assert read["name"] == "odd"
    assert read["revision"] == collection.manifest.content_hash
    # Chunks 0 and 1 have the grade 1, and are found at ranks 2 and 3.
    best, found = 1 + 1 / math.log2(3), 1 / math.log2(3) + 1 / math.log2(4)
    assert read["main"] == read["ndcg"] == pytest.approx(found / best, abs=1e-5)
    assert {ids["queries"].get(id_, id_): text for id_, text in read["queries"].items()} == {
        query.query_id: query.text for query in collection.queries
    }
    assert {ids["chunks"].get(id_, id_): text for id_, text in read["corpus"].items()} == {
        chunk.chunk_id: [chunk.title, chunk.text] for chunk in collection.chunks()
    }
    assert sum(map(len, read["qrels"].values())) == 2 * len(ODD_IDS)
