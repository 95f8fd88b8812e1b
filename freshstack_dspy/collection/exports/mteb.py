"""A task of MTEB: the layout of BEIR with a Python file that defines the task.

    out/task.py       a retrieval task that reads the files beside it, without any network
    out/task.json     its name, description and revision
    out/corpus.jsonl, out/queries.jsonl, out/qrels/test.tsv     as BEIR's

Nothing of the collection stands in `task.py`, which is the same for all: code is not made of
other people's texts.
"""

from pathlib import Path

from freshstack_dspy.collection.exports.beir import GRADES, write_beir_data
from freshstack_dspy.collection.exports.layout import (
    Selection,
    write_about,
    write_json,
    write_readme,
    write_text,
)
from freshstack_dspy.collection.layouts import MTEB_TASK, MTEB_TASK_VALUES

_TASK = '''\
"""A retrieval task of MTEB, on the files beside this one."""

import csv
import json
from pathlib import Path

from datasets import Dataset
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.abstasks.task_metadata import TaskMetadata

FOLDER = Path(__file__).resolve().parent
VALUES = json.loads((FOLDER / "task.json").read_text(encoding="utf-8"))


def read_lines(name):
    with (FOLDER / name).open(encoding="utf-8", newline="\\n") as file:
        for line in file:
            yield json.loads(line)


def read_qrels(name):
    qrels = {}
    with (FOLDER / name).open(encoding="utf-8", newline="") as file:
        rows = csv.reader(file, delimiter="\\t")
        next(rows)
        for query_id, chunk_id, score in rows:
            qrels.setdefault(query_id, {})[chunk_id] = int(score)
    return qrels


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
        queries = [
            {"id": line["_id"], "text": line["text"]} for line in read_lines("queries.jsonl")
        ]
        corpus = [
            {"id": line["_id"], "title": line["title"], "text": line["text"]}
            for line in read_lines("corpus.jsonl")
        ]
        qrels = read_qrels("qrels/test.tsv")
        self.dataset = {
            "default": {
                "test": {
                    "queries": Dataset.from_list([one for one in queries if one["id"] in qrels]),
                    "corpus": Dataset.from_list(corpus),
                    "relevant_docs": qrels,
                    "top_ranked": None,
                }
            }
        }
        self.data_loaded = True
'''
_HOW_TO_LOAD = f"""
```python
import mteb
from task import CollectionRetrieval  # with this folder on the path

mteb.evaluate(mteb.get_model("model-name"), CollectionRetrieval())
```

{GRADES} The main score is nDCG@10.
The languages in `{MTEB_TASK_VALUES}` are undetermined (`und`): the collection does not record them.
"""


def write_mteb(folder: Path, selection: Selection) -> None:
    """Write BEIR's three files, the task that reads them, and what they are."""
    names = write_beir_data(folder, selection)
    manifest = selection.collection.manifest
    values = {
        "name": manifest.name,
        "description": f"Questions of {manifest.name} and the chunks that support their answers.",
        "revision": manifest.content_hash,
        "languages": ["und"],
    }
    write_json(folder / MTEB_TASK_VALUES, values)
    write_text(folder / MTEB_TASK, _TASK)
    write_readme(folder, selection, _HOW_TO_LOAD)
    write_about(folder, selection, "mteb", names.changed())
