import dataclasses
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from freshstack_dspy import Collection, export_collection
from tests.collection.small import CONTENTS, A, B, D, write_small
from tests.formats.loading import loaded
from tests.formats.odd import write_odd

LOADER = """
import json, sys
from datasets import get_dataset_config_names, load_dataset

read = {}
for folder in sys.argv[1:]:
    configs = get_dataset_config_names(folder)
    rows = {config: load_dataset(folder, config, split="test").to_list() for config in configs}
    read[folder] = {"configs": configs, "rows": rows}
print(json.dumps(read))
"""


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Collection, Any, Path]]:
    """Two collections, and what `datasets` reads of their exports."""
    place = tmp_path_factory.mktemp("hf")
    collections = {"small": write_small(place / "small"), "odd": write_odd(place / "odd")}
    outs = {name: place / f"{name}-out" for name in collections}
    for name, collection in collections.items():
        export_collection(collection, "hf", outs[name])
    read = loaded(LOADER, place / "home", *outs.values())
    return {
        name: (collection, read[str(outs[name])], outs[name])
        for name, collection in collections.items()
    }


def plain(records: Any) -> Any:
    """Records as JSON has them; a table has every field, also one that a line leaves out."""
    return [
        {**dict.fromkeys(type(record).model_fields), **json.loads(record.model_dump_json())}
        for record in records
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["small", "odd"])
def test_datasets_loads_every_configuration(
    exported: dict[str, tuple[Collection, Any, Path]], name: str
) -> None:
    collection, read, _ = exported[name]
    evaluated = set(collection.query_ids())

    assert set(read["configs"]) == {"queries", "nuggets", "corpus", "qrels", "judgments", "pool"}
    for config in ("queries", "nuggets", "judgments", "pool"):
        records = [one for one in getattr(collection, config) if one.query_id in evaluated]
        assert read["rows"][config] == plain(records), config
    assert read["rows"]["corpus"] == plain(collection.chunks())


@pytest.mark.slow
def test_qrels_are_grades_and_failures_are_none(
    exported: dict[str, tuple[Collection, Any, Path]],
) -> None:
    _, read, _ = exported["small"]
    qrels = {(row["query_id"], row["chunk_id"]): row["score"] for row in read["rows"]["qrels"]}
    labels = {(one["nugget_id"], one["chunk_id"]): one for one in read["rows"]["judgments"]}

    assert qrels == {("12", A): 1, ("12", B): 2, ("123", A): 1, ("123", B): 0}
    assert labels["123_0", D]["label"] is None
    assert labels["123_0", D]["status"] == "refused"


def test_the_fields_of_queries_are_a_column(tmp_path: Path) -> None:
    first, *others = CONTENTS.queries
    named = first.model_copy(update={"fields": {"product": "Atlas", "team": "a"}})
    contents = dataclasses.replace(CONTENTS, queries=(named, *others))

    export_collection(write_small(tmp_path / "small", contents), "hf", tmp_path / "out")

    (file,) = (tmp_path / "out" / "queries").iterdir()
    rows = {row["query_id"]: row["fields"] for row in pq.read_table(file).to_pylist()}
    assert rows == {first.query_id: dict(named.fields), "123": None}
