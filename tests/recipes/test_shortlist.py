"""Runs of all retrievers that a configuration names: which they are, and that each is made once."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from freshstack_dspy import FreshstackError, compare, read_run, retrieve, retrieve_all
from freshstack_dspy.collection.collection import write_collection
from freshstack_dspy.config import load_judging
from freshstack_dspy.errors import ConfigError
from freshstack_dspy.recipes.opening import search_models
from tests.collection.small import CONTENTS, PROVENANCE, chunk, query
from tests.heard import Heard
from tests.lm.chat_server import ChatServer
from tests.lm.numbers_server import answer

BY_WORDS = """
[[retriever]]
name = "bm25"

[[retriever]]
name = "rrf"
retriever = "hybrid"
fusion = {method = "rrf"}
"""
OWN = """
def search(text, k):
    return ["docs/a.md_0_5"][:k]

def passages(text):
    return [{"path": "x", "source": "docs", "start": 1, "end": 4}]
"""


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer(answer).running() as running:
        yield running


@pytest.fixture
def collection(tmp_path: Path) -> Path:
    queries = (query("12", "alpha"), query("123", "def"), *CONTENTS.queries[2:])
    chunks = (
        chunk("docs/a.md_0_5", "alpha beta def"),
        chunk("docs/b c.md_0_6", "beta alpha alpha"),
        chunk("code/d.py_3_9", "def gamma: alpha", start=3),
    )
    contents = dataclasses.replace(CONTENTS, queries=queries)
    write_collection(tmp_path / "small", contents, chunks, PROVENANCE)
    return tmp_path / "small"


def configured(folder: Path, text: str) -> Path:
    path = folder / "short.toml"
    path.write_text(f'[index]\npath = "index"\n[cache]\npath = "cache"\n{text}')
    return path


def hosted(table: str, server: ChatServer, model: str) -> str:
    more = f'api_base = "{server.api_base}"\napi_key = "k"\nprice = 0.0\nretries = 0\n'
    return f'{table}\nmodel = "{model}"\n{more}'


def models_of(server: ChatServer) -> str:
    embedder = hosted("[[embedder]]", server, "openai/small") + 'name = "small"\n'
    return embedder + hosted("[reranker]", server, "hosted_vllm/judge")


def test_without_a_list_all_retrievers_of_the_models_are_run_over_one_index(
    collection: Path, tmp_path: Path, server: ChatServer
) -> None:
    config = configured(tmp_path, models_of(server) + '[fusion]\nmethod = "rrf"\n')
    heard = Heard()

    files = retrieve_all(collection, config, tmp_path / "runs", depth=2, progress=heard)

    names = ["bm25", "lsa", "small", "hybrid-rrf", "hybrid+rerank-rrf"]
    assert files == {name: tmp_path / "runs" / f"{name}.run" for name in names}
    assert [heard.started["runs"], len(list((tmp_path / "index").iterdir()))] == [5, 1]
    settings = load_judging(config)
    with search_models(settings) as models:
        for name, path in files.items():
            alone = retrieve(
                collection,
                name.removesuffix("-rrf"),
                depth=2,
                models=models,
                fusion=settings.fusion,
                index_path=settings.index.path,
            )
            found = {query: of for query, of in alone.rankings.items() if of}
            assert (read_run(path).name, read_run(path).rankings) == (name, found)
    assert set(compare(collection, list(files.values())).runs) >= {"bm25", "small"}


def test_a_list_names_fusions_rerankers_and_retrievers_of_ones_own(
    collection: Path, tmp_path: Path, server: ChatServer
) -> None:
    (tmp_path / "own_shortlist.py").write_text(OWN)
    other = hosted("[retriever.reranker]", server, "hosted_vllm/other") + "depth = 1\n"
    names = {
        "again": "hybrid+rerank",
        "mine": "own_shortlist:search",
        "cut": "own_shortlist:passages",
    }
    tables = [f'[[retriever]]\nname = "{name}"\nretriever = "{by}"\n' for name, by in names.items()]
    tables[0] += other
    tables.append(f'{tables[1]}with = "nuggets"\n')
    config = configured(tmp_path, models_of(server) + BY_WORDS + "".join(tables))

    files = retrieve_all(collection, config, tmp_path / "runs")

    assert [path.name for path in files.values()] == [
        "bm25.run", "rrf.run", "again.run", "mine.run", "cut.jsonl", "mine@nuggets.run",
    ]  # fmt: skip
    assert {len(of) for of in read_run(files["again"]).rankings.values()} == {1}
    assert read_run(files["rrf"]).name == "rrf"
    assert read_run(files["mine@nuggets"]).name == "mine@nuggets"
    assert "other" in {body["model"] for body in server.requests}


def test_runs_that_are_there_are_replaced_only_if_told(collection: Path, tmp_path: Path) -> None:
    config, runs = configured(tmp_path, BY_WORDS), tmp_path / "runs"
    runs.mkdir()
    (runs / "rrf.jsonl").write_text("mine\n")

    with pytest.raises(ConfigError, match=r"rrf.jsonl: there already"):
        retrieve_all(collection, config, runs)

    assert [path.name for path in runs.iterdir()] == ["rrf.jsonl"]
    retrieve_all(str(collection), str(config), str(runs), replace=True)
    assert {path.name for path in runs.iterdir()} == {"bm25.run", "rrf.run"}


def test_a_candidate_that_fails_leaves_what_is_finished(collection: Path, tmp_path: Path) -> None:
    module = tmp_path / "failing_shortlist.py"
    module.write_text('def search(text):\n    raise ValueError("down")\n')
    failing = '[[retriever]]\nname = "mine"\nretriever = "failing_shortlist:search"\n'
    config, runs = configured(tmp_path, BY_WORDS + failing), tmp_path / "runs"

    with pytest.raises(FreshstackError, match="ValueError: down"):
        retrieve_all(collection, config, runs)

    assert {path.name for path in runs.glob("*.*")} >= {"bm25.run", "rrf.run"}
