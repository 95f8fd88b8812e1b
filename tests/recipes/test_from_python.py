"""Queries and documents that are in memory: the same collection as of files that hold them."""

import json
from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy import BuildConfig, Collection, build
from freshstack_dspy.errors import ConfigError

from .workshop import TOOLS, page, question

QUESTIONS = [
    {
        "query_id": number,
        "title": question(tool),
        "answer": f"Set its {tool}dial to {len(tool)}0. Hold it firmly.",
        "product": "hot" if number % 2 else "cold",
    }
    for number, tool in enumerate(TOOLS)
]
DOCUMENTS = [{"id": tool, "title": tool, "text": page(tool)} for tool in TOOLS]


def config(folder: Path, queries: Any = QUESTIONS, documents: Any = DOCUMENTS) -> BuildConfig:
    return BuildConfig.model_validate(
        {
            "name": "tools",
            "out": folder / "collection",
            "queries": {"rows": queries},
            "corpus": [{"name": "pages", "documents": documents}],
            "index": {"path": folder / "index", "dimensions": 4},
            "cache": {"path": folder / "cache"},
        }
    )


@pytest.fixture
def of_files(tmp_path: Path) -> Collection:
    folder = tmp_path / "files"
    folder.mkdir()
    for name, rows in (("questions", QUESTIONS), ("documents", DOCUMENTS)):
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (folder / "build.toml").write_text(
        'name = "tools"\nout = "collection"\n[queries]\npath = "questions.jsonl"\n'
        '[[corpus]]\nname = "pages"\npath = "documents.jsonl"\n'
        '[index]\npath = "index"\ndimensions = 4\n[cache]\npath = "cache"\n'
    )
    return build(folder / "build.toml")


def test_a_collection_of_rows_is_that_of_files(of_files: Collection, tmp_path: Path) -> None:
    made = build(config(tmp_path))

    assert made.manifest.content_hash == of_files.manifest.content_hash
    assert {query.fields["product"] for query in made.queries} == {"hot", "cold"}


def test_the_hash_of_rows_stands_for_a_path(tmp_path: Path) -> None:
    made = build(config(tmp_path))
    settings = json.loads((tmp_path / "collection/manifest.json").read_text())["config"]
    written = (tmp_path / "collection/manifest.json").stat().st_mtime_ns

    assert len(settings["queries"]["rows"]) == len(settings["corpus"][0]["documents"]) == 64
    assert build(config(tmp_path)) == made  # unchanged
    assert (tmp_path / "collection/manifest.json").stat().st_mtime_ns == written
    with pytest.raises(ConfigError, match=r"queries\.rows"):
        build(config(tmp_path, QUESTIONS[1:]))
    documents = [*DOCUMENTS, {"id": "new", "text": "Another page."}]
    assert build(config(tmp_path, documents=documents)).manifest.counts.chunks == len(documents)
