"""BEIR (Thakur et al., 2021): corpus.jsonl, queries.jsonl and qrels/test.tsv; and MTEB.

MTEB's export has the files of BEIR, and task.py, a retrieval task that reads them.
"""

from itertools import chain
from pathlib import Path

from freshstack_dspy.errors import CollectionError, SourceError, argument
from freshstack_dspy.formats.format import Format
from freshstack_dspy.formats.imported import DATA_ENDINGS, Imported, query_fields, smallest_scale
from freshstack_dspy.formats.selection import (
    GRADES,
    Files,
    Selection,
    changed_ids,
    corpus_rows,
    query_rows,
    table_ids,
)
from freshstack_dspy.records import Scale
from freshstack_dspy.rows import Row

_BEIR = f"""\
    from beir.datasets.data_loader import GenericDataLoader
    corpus, queries, qrels = GenericDataLoader("path/to/this/folder").load(split="test")

{GRADES}"""
_MTEB = f"""\
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


_QRELS = (
    "qrels/*.tsv", "qrels/*.txt", "qrels/*.jsonl", "qrels/*.parquet", "qrels*.tsv", "qrels*.txt",
    "qrels*.jsonl", "*.qrels", "data/*.parquet", "default/*.parquet",
)  # fmt: skip
UNJUDGED = "not in the qrels"
"""Why a query of a BEIR collection is left out: it belongs to another split."""


def _write(selection: Selection) -> Files:
    """Write documents, queries and the grades of judged chunks."""
    chunks = table_ids(selection.collection.corpus.ids)
    queries = table_ids(query.query_id for query in selection.queries)
    # BEIR's evaluation passes over a chunk that is called as its query is.
    while not set(chunks.values()).isdisjoint(queries.values()):
        queries = {ours: f"query:{name}" for ours, name in queries.items()}
    grades = (f"{queries[q]}\t{chunks[c]}\t{grade}" for q, c, grade in selection.grades())
    yield "corpus.jsonl", corpus_rows(selection, chunks)
    yield "queries.jsonl", query_rows(selection, queries, "_id")
    yield "qrels/test.tsv", chain(["query-id\tcorpus-id\tscore"], grades)
    yield from changed_ids(queries=queries.items(), chunks=chunks.items())


def _write_mteb(selection: Selection) -> Files:
    yield from _write(selection)
    manifest = selection.collection.manifest
    values = {
        "name": manifest.name,
        "description": f"Questions of {manifest.name} and the chunks that support their answers.",
        "revision": manifest.content_hash,
        "languages": ["und"],
    }
    yield "task.json", values
    yield "task.py", _MTEB_TASK


def _read(imported: Imported) -> None:
    """Read queries, each with its text as its one nugget, and grades as labels.

    Grades are on the smallest scale that holds them. A grade below 0 is a judgment without a label.
    """
    rows: dict[str, Row] = {}
    patterns = [f"queries*{ending}" for ending in DATA_ENDINGS]
    file = imported.part("queries", *patterns, "queries")
    for row in imported.rows(file, ("_id", "id", "text", "title", "metadata")):
        text, about = row.text("text"), query_fields(row)
        query = imported.add_query(row, row.id("_id", "id"), text=text, **about)
        rows[query.query_id] = row
    qrels = _qrels(imported)
    highest = max((grade for grades in qrels.values() for grade in grades.values()), default=1)
    if (scale := smallest_scale(highest)) is None:
        raise SourceError(
            f"{imported.path}: grade {highest}: the highest that can be imported is 5"
        )
    imported.use_scale(Scale(name=scale, threshold=1))
    judged = {}
    for exported, grades in qrels.items():
        query_id = imported.ours("queries", exported)
        if query_id not in imported.queries:
            imported.unknown_queries[query_id] += len(grades)
            continue
        judged[query_id] = query = imported.queries[query_id]
        nugget = imported.add_nugget(rows[query_id], query_id, f"{query_id}_0", query.text)
        for document, grade in grades.items():
            if grade < 0:
                imported.judge(nugget, document, None, "failed", f"grade {grade}")
            else:
                imported.judge(nugget, document, grade)
    if unjudged := len(imported.queries) - len(judged):
        imported.rejected[UNJUDGED] = unjudged
    imported.queries = {id_: query for id_, query in imported.queries.items() if id_ in judged}
    imported.find_corpus("the corpus", "corpus*")


def _qrels_file(imported: Imported) -> Path:
    for pattern in _QRELS:
        splits = {}
        for file in sorted(imported.path.glob(pattern)):
            parts = [part for part in file.name.split(".")[:-1] if part != "qrels"]
            splits[".".join(parts) or file.stem] = file
        if imported.split is None and len(splits) == 1:
            return next(iter(splits.values()))
        if imported.split in splits:
            return splits[imported.split]
        if splits:
            names = ", ".join(argument("split", name) for name in splits)
            raise SourceError(f"{imported.path}: name a split, one of {names}")
    raise SourceError(f"{imported.path}: has no qrels; looked for {', '.join(_QRELS)}")


def _qrels(imported: Imported) -> dict[str, dict[str, int]]:
    """Read BEIR's table, TREC's lines, or rows of JSON Lines or Parquet."""
    from freshstack_dspy.measures.qrels import read_qrels

    file = _qrels_file(imported)
    if file.suffix not in (".jsonl", ".parquet"):
        imported.files.append(file)
        try:
            qrels = read_qrels(file)
        except CollectionError as error:
            raise SourceError(str(error)) from None
        if any(nuggets != (query,) for query, nuggets in qrels.nuggets.items()):
            raise SourceError(f"{file}: qrels of subtopics, whose texts are not known")
        return {query: dict(qrels.labels[query]) for query in qrels.nuggets}
    graded: dict[str, dict[str, int]] = {}
    for row in imported.rows(file, ("query-id", "corpus-id", "score")):
        query, document, score = row.id("query-id"), row.id("corpus-id"), row.values.get("score")
        if isinstance(score, bool) or not isinstance(score, int | float) or score != int(score):
            raise row.fault("score", "a whole number")
        imported.once(row, "judgment", query, document)
        graded.setdefault(query, {})[document] = int(score)
    return graded


BEIR = Format(
    name="beir",
    how_to_load=_BEIR,
    write=_write,
    read=_read,
    cannot_hold=(
        *("answers", "nuggets", "importance", "support", "labels", "failures", "evidence", "pool"),
    ),
)
MTEB = Format(
    name="mteb",
    how_to_load=_MTEB,
    write=_write_mteb,
    read=_read,
    cannot_hold=BEIR.cannot_hold,
)
