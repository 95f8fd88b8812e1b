"""MTEB: the files of BEIR, and task.py, a retrieval task that reads them."""

from freshstack_dspy.formats.beir import BEIR, read_beir, write_beir
from freshstack_dspy.formats.format import Format
from freshstack_dspy.formats.selection import GRADES, Files, Selection

_HOW_TO_LOAD = f"""\
    from task import CollectionRetrieval  # with this folder on the path
    mteb.evaluate(mteb.get_model("model-name"), CollectionRetrieval())

{GRADES} The languages in `task.json` are undetermined: the collection does not record them."""


_MTEB_TASK = '''\
"""A retrieval task of MTEB, on the files next to this one."""

import csv
import json
from pathlib import Path

from datasets import Dataset
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.abstasks.task_metadata import TaskMetadata

FOLDER = Path(__file__).resolve().parent
VALUES = json.loads((FOLDER / "task.json").read_text(encoding="utf-8"))


def read(name, *fields):
    with (FOLDER / name).open(encoding="utf-8", newline="\\n") as file:
        rows = [json.loads(line) for line in file]
    return [{"id": row["_id"]} | {field: row[field] for field in fields} for row in rows]


class CollectionRetrieval(AbsTaskRetrieval):
    metadata = TaskMetadata(
        name=VALUES["name"],
        description=VALUES["description"],
        dataset={"path": str(FOLDER), "revision": VALUES["revision"]},
        type="Retrieval",
        category="t2t",
        modalities=["text"],
        eval_splits=["test"],
        eval_langs=VALUES["languages"],
        main_score="ndcg_at_10",
    )

    def load_data(self, num_proc=None, **kwargs):
        if self.data_loaded:
            return
        qrels = {}
        with (FOLDER / "qrels/test.tsv").open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file, delimiter="\\t"):
                qrels.setdefault(row["query-id"], {})[row["corpus-id"]] = int(row["score"])
        queries = [query for query in read("queries.jsonl", "text") if query["id"] in qrels]
        split = {
            "queries": Dataset.from_list(queries),
            "corpus": Dataset.from_list(read("corpus.jsonl", "title", "text")),
            "relevant_docs": qrels,
            "top_ranked": None,
        }
        self.dataset = {"default": {"test": split}}
        self.data_loaded = True
'''
"""The same for every collection: code is not made of other people's texts."""


def _write(selection: Selection) -> Files:
    yield from write_beir(selection)
    manifest = selection.collection.manifest
    values = {
        "name": manifest.name,
        "description": f"Questions of {manifest.name} and the chunks that support their answers.",
        "revision": manifest.content_hash,
        "languages": ["und"],
    }
    yield "task.json", values
    yield "task.py", _MTEB_TASK


MTEB = Format(
    name="mteb",
    how_to_load=_HOW_TO_LOAD,
    write=_write,
    read=read_beir,
    cannot_hold=BEIR.cannot_hold,
)
