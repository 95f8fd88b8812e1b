"""What a server of embeddings and reranks says: numbers that are a hash of the text."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from tests.lm.chat_server import ChatServer, Scripted

DIMENSIONS = 8


def vector(text: str, dimensions: int = DIMENSIONS) -> list[float]:
    """The vector of a text: eighths between -16 and 16, which every float holds exactly."""
    digest = hashlib.sha256(text.encode()).digest() * (dimensions // 32 + 1)
    return [byte / 8 - 16 for byte in digest[:dimensions]]


def score(query: str, passage: str) -> float:
    """The score of a passage."""
    return float(hashlib.sha256(f"{query}\n{passage}".encode()).digest()[0]) / 255


def embeddings(
    body: dict[str, Any], vectors: Sequence[Sequence[float]] | None = None, **changes: Any
) -> Scripted:
    """What the embeddings protocol answers."""
    found = [vector(text, body.get("dimensions") or DIMENSIONS) for text in body["input"]]
    rows = found if vectors is None else vectors
    items = [
        {"object": "embedding", "index": index, "embedding": list(row)}
        for index, row in enumerate(rows)
    ]
    tokens = sum(len(text.split()) for text in body["input"])
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    said = {"object": "list", "model": "scripted", "data": items, "usage": usage, **changes}
    return Scripted(body=json.dumps(said).encode())


def reranked(body: dict[str, Any], **changes: Any) -> Scripted:
    """What the rerank protocol answers, best first."""
    items = [
        {"index": index, "relevance_score": score(body["query"], passage)}
        for index, passage in enumerate(body["documents"])
    ]
    items.sort(key=lambda item: -float(item["relevance_score"]))
    said = {"id": "1", "results": items, "usage": {"total_tokens": 9}, **changes}
    return Scripted(body=json.dumps(said).encode())


def answer(body: dict[str, Any]) -> Scripted:
    """What either protocol answers."""
    return reranked(body) if "documents" in body else embeddings(body)


def texts_asked(server: ChatServer) -> list[str]:
    """Every text that a server was asked to embed, in order, with repetitions."""
    return [text for body in server.requests for text in body.get("input", ())]
