"""Retrievers of LangChain, LlamaIndex, Haystack and PyTerrier, by the frameworks themselves."""

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy.collection.retrieve import run_retriever
from freshstack_dspy.corpus.chunks import chunk_file
from freshstack_dspy.records import SourceFile
from freshstack_dspy.stored.passages import Files
from tests.formats.loading import needs

PAGE = "# Größe\n\n" + "".join(
    f"Rule {n}: a ring is {n} µm wide.\n\nIt is so.\n\n" for n in range(40)
)
DATA = {"docs/page.md": PAGE.encode(), "docs/windows.md": PAGE.replace("\n", "\r\n").encode()}
FILES = Files(
    chunk for path, data in DATA.items() for chunk in chunk_file(SourceFile("lib", path, data), 64)
)
TEXTS = {"1": "Which rule?", "2": "a ring of 20"}
pytestmark = [pytest.mark.formats, pytest.mark.filterwarnings("ignore")]


def embed(text: str) -> list[float]:
    """Count words by a hash of each."""
    words = [zlib.crc32(word.encode()) % 64 for word in text.split()]
    return [float(words.count(place)) for place in range(64)]


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files on disk."""
    monkeypatch.setenv("HAYSTACK_TELEMETRY_ENABLED", "False")
    for path, data in DATA.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes(data)
    return [tmp_path / path for path in DATA]


def langchain(paths: list[Path]) -> Any:
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
    from langchain_core.vectorstores import InMemoryVectorStore
    from langchain_text_splitters import RecursiveCharacterTextSplitter

    class Hashed(Embeddings):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return [embed(text) for text in texts]

        def embed_query(self, text: str) -> list[float]:
            return embed(text)

    documents = [Document(path.read_text(), metadata={"source": str(path)}) for path in paths]
    splitter = RecursiveCharacterTextSplitter(
        chunk_size=120, chunk_overlap=40, add_start_index=True
    )
    store = InMemoryVectorStore(Hashed())
    store.add_documents(splitter.split_documents(documents))
    return store.as_retriever()


def llama_index(paths: list[Path]) -> Any:
    from llama_index.core import SimpleDirectoryReader, VectorStoreIndex
    from llama_index.core.embeddings import BaseEmbedding
    from llama_index.core.node_parser import SentenceSplitter

    class Hashed(BaseEmbedding):  # type: ignore[misc,unused-ignore]
        def _get_text_embedding(self, text: str) -> list[float]:
            return embed(text)

        def _get_query_embedding(self, query: str) -> list[float]:
            return embed(query)

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return embed(query)

    index = VectorStoreIndex.from_documents(
        SimpleDirectoryReader(input_files=paths).load_data(),
        embed_model=Hashed(),
        transformations=[SentenceSplitter(chunk_size=100, chunk_overlap=20)],
    )
    return index.as_retriever(similarity_top_k=12)


def haystack(paths: list[Path]) -> Any:
    from haystack.components.converters import TextFileToDocument
    from haystack.components.preprocessors import DocumentSplitter
    from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
    from haystack.document_stores.in_memory import InMemoryDocumentStore

    documents = TextFileToDocument(store_full_path=True).run(sources=paths)["documents"]
    splitter = DocumentSplitter(split_by="word", split_length=20, split_overlap=5)
    splitter.warm_up()
    store = InMemoryDocumentStore()
    store.write_documents(splitter.run(documents=documents)["documents"])
    return InMemoryBM25Retriever(store, top_k=3)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(langchain, marks=needs("langchain_text_splitters")),
        pytest.param(llama_index, marks=needs("llama_index")),
        pytest.param(haystack, marks=needs("haystack")),
    ],
)
def test_what_a_framework_finds_in_its_own_chunks_is_placed(
    make: Callable[[list[Path]], Any], paths: list[Path]
) -> None:
    """In each file, and with its text, whatever the splitter says of offsets."""
    found = run_retriever(make(paths), TEXTS, 12)

    places = []
    for hits in found.values():
        assert len(hits) == 12
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        for hit in hits:
            place = FILES.find(hit)
            assert place is not None, hit
            assert hit.text is not None
            text = DATA[place.path][place.start : place.end].decode()
            assert text.split() == hit.text.split()
            places.append(place)
    assert {place.path for place in places} == set(DATA)


@needs("pyterrier")
def test_a_transformer_of_pyterrier_is_asked_and_may_have_paths() -> None:
    import pandas as pd
    import pyterrier as pt

    def find(queries: pd.DataFrame) -> pd.DataFrame:
        rows = [
            {"qid": row.qid, "query": row.query, "docno": docno, "score": score}
            | {"path": "docs/page.md", "text": f"Rule {rule}: a ring is {rule} µm wide."}
            for row in queries.itertuples()
            for docno, rule, score in (("d1", 7, 0.5), ("d2", 20, 1.5))
        ]
        return pt.model.add_ranks(pd.DataFrame(rows))

    found = run_retriever(pt.apply.generic(find) % 2, TEXTS, 12)

    for hits in found.values():
        assert [(hit.chunk_id, hit.score) for hit in hits] == [("d2", 1.5), ("d1", 0.5)]
        assert all(FILES.find(hit) is not None for hit in hits)


@needs("llama_index")
def test_an_index_is_no_retriever_and_the_message_says_what_is(paths: list[Path]) -> None:
    from freshstack_dspy.errors import CollectionError

    index = llama_index(paths)._index
    with pytest.raises(CollectionError, match="did you mean its"):
        run_retriever(index, TEXTS, 12)
