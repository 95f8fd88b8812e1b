"""A notebook, run by a kernel with its own event loop; and the same lines in threads."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest

TEN_LINES = """\
import pandas as pd
from freshstack_dspy import BuildConfig, build
questions = pd.DataFrame({"query_id": ["1", "2"],
    "title": ["How do I undo a commit?", "How do I rename a branch?"],
    "answer": ["Use `git reset HEAD~1`.", "Use `git branch -m`."]})
documents = [{"id": "undo", "text": "`git reset HEAD~1` removes the last commit."},
             {"id": "branches", "text": "`git branch -m new` renames the current branch."}]
config = BuildConfig(name="git", out=OUT, queries={"rows": questions},
                     corpus=[{"name": "manual", "documents": documents}])
collection = build(config)
"""
CELLS = (
    "import asyncio\nassert asyncio.get_running_loop().is_running()",
    f"OUT = 'made'\n{TEN_LINES}",
    "from freshstack_dspy import compare, retrieve\nrun = retrieve(collection, 'bm25')",
    "collection.evaluate(run)",
    "compare(collection, [run, retrieve(collection, 'lsa')])",
    "collection.analyze(run)",
    "collection.diagnose()",
    "judged = collection.judgments[0]\ncollection.explain(judged.query_id, judged.chunk_id)",
    (
        "from freshstack_dspy import HumanLabel, agree\n"
        "labels = [HumanLabel(query_id=one.query_id, nugget_id=one.nugget_id, chunk_id=one.chunk_id,\n"
        "    annotator='ana', label=one.label) for one in collection.judgments]\n"
        "agree(collection, labels)"
    ),
    "from freshstack_dspy import plan\nplan(config)",
    "collection",
)


SHOWN = {
    3: "alpha_nDCG@10",
    4: "A − B|B − A",
    5: "what bm25 misses",
    6: "pooled chunks",
    7: "support",
    8: "kappa",
    9: "requests",
    10: "How it was made",
}
"""What is in the HTML of a cell's result."""


@pytest.mark.slow
def test_a_notebook_builds_and_shows_results(tmp_path: Path) -> None:
    notebook = nbformat.v4.new_notebook(cells=[*map(nbformat.v4.new_code_cell, CELLS)])
    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources=resources
    ).execute()
    results = {
        number: output["data"]
        for number, cell in enumerate(notebook.cells)
        for output in cell.outputs
        if output.output_type == "execute_result"
    }

    for number, words in SHOWN.items():
        shown = results[number]
        assert re.search(words, shown["text/html"]), number
        assert "<script" not in shown["text/html"]
        assert len(shown["text/plain"]) < 300
    last = results[len(CELLS) - 1]["text/plain"]
    assert re.search(r"Collection git: 2 queries, \d nuggets, 2 chunks", last)


def test_the_same_lines_in_threads(tmp_path: Path) -> None:
    def made(out: Path) -> str:
        names: dict[str, Any] = {"OUT": str(out)}
        exec(TEN_LINES, names)
        return str(names["collection"].manifest.content_hash)

    with ThreadPoolExecutor(4) as threads:
        hashes = set(threads.map(made, [tmp_path / str(number) for number in range(4)]))

    assert len(hashes) == 1
