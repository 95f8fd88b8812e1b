"""Functions over Arrow batches, which an engine's workers run as this process does.

They keep no state that a result depends on, and what is wrong with a row is said in its row.
"""

import dataclasses
import functools
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from freshstack_dspy.config import ModelConfig
from freshstack_dspy.corpus.parquet import chunk_schema
from freshstack_dspy.errors import (
    ConfigError,
    FreshstackError,
    ModelError,
    ReplyError,
    TransientModelError,
)
from freshstack_dspy.lm.engine import UNREADABLE, presentable, provider_for
from freshstack_dspy.lm.reply import UNANSWERED, encodable, tokens_in
from freshstack_dspy.lm.retry import Retries
from freshstack_dspy.records import Chunk, ScoredChunk, SourceFile

if TYPE_CHECKING:
    from dspy.lm15 import Request, Response

FILES = pa.schema(
    {
        "source": pa.string(),
        "path": pa.string(),
        "data": pa.large_binary(),
        "revision": pa.string(),
        "encoding": pa.string(),
    }
)
"""The fields of a `SourceFile`."""
CHUNKS = chunk_schema().append(pa.field("fault", pa.string()))
"""Chunks; and of a file that cannot be cut a row that says why, with no text and no id."""
REQUESTS = pa.schema({"custom_id": pa.string(), "body": pa.large_string()})
"""`body`: of a chat completion, as JSON text; structs of Arrow would give each row all fields."""
ANSWERS = pa.schema(
    {
        "custom_id": pa.string(),
        "status": pa.string(),
        "body": pa.large_string(),
        "error": pa.string(),
        "attempts": pa.int32(),
        "lost": pa.int32(),
        "seconds": pa.float64(),
    }
)
"""`status`: `ok`, and `body` is the chat completion; `refused` or `failed`, for good; `unanswered`, after
its retries, or `lost`, and it may be asked again; `outage` or `fatal`, and no other request would be answered. `lost`: attempts
that brought no reply and may have been billed."""
VECTORS = pa.schema({"vector": pa.list_(pa.float32()), "cut_to": pa.int32(), "fault": pa.string()})
"""`cut_to`: the tokens that the model takes, of a text that has more; `fault`: why there is no
vector."""
FOUND = pa.schema({"query": pa.int64(), "chunk_id": pa.string(), "score": pa.float64()})
"""What was found, the best first; `query` is the number that the batch has for it."""


class _LostError(ReplyError):
    """An attempt that may have been billed is not repeated here."""


def chunk_batch(
    files: pa.RecordBatch, max_tokens: int, languages: Mapping[str, Sequence[str]]
) -> pa.RecordBatch:
    """Cut files, rows of `FILES`, into chunks of at most so many tokens, rows of `CHUNKS`.

    Each is in one of the languages of its source, which may have none.
    """
    from freshstack_dspy.corpus.chunks import chunk_file

    rows: list[dict[str, Any]] = []
    for values in files.to_pylist():
        file = SourceFile(**values)
        try:
            chunks = chunk_file(file, max_tokens, languages.get(file.source, ()))
            rows += [chunk.model_dump() for chunk in chunks]
        except ConfigError:  # of the settings, and so of all files
            raise
        except Exception as error:  # noqa: BLE001 - one file ends no corpus
            fault = f"cannot be cut: {type(error).__name__}: {' '.join(str(error).split())}"
            none = Chunk(
                chunk_id="",
                source=file.source,
                path=file.path,
                start_byte=0,
                end_byte=0,
                text="",
                tokens=0,
            )
            rows.append({**none.model_dump(), "fault": fault})
    return pa.RecordBatch.from_pylist(rows, CHUNKS)


def embed_batch(
    texts: pa.RecordBatch, encode: Callable[[Sequence[str]], list[dict[str, Any]]]
) -> pa.RecordBatch:
    """Embed the column `text`; give a row of `VECTORS` for each, as `encode` makes them of texts.

    Where it raises, texts are embedded one by one, and those that cannot be are rows that say why.
    """
    values = texts["text"].to_pylist()
    try:
        rows = encode(values)
    except FreshstackError:  # of the model, and so of all texts
        raise
    except Exception as error:  # noqa: BLE001 - one text ends no corpus
        if len(values) > 1:
            alone = (embed_batch(texts.slice(row, 1), encode) for row in range(len(values)))
            return pa.Table.from_batches(alone).combine_chunks().to_batches()[0]
        rows = [{"fault": f"{type(error).__name__}: {' '.join(str(error).split())}"}]
    return pa.RecordBatch.from_pylist(rows, VECTORS)


def search_batch(
    questions: pa.RecordBatch, rank: Callable[..., Iterable[Sequence[ScoredChunk]]]
) -> pa.RecordBatch:
    """Give rows of `FOUND`: what `rank` makes of the columns `text` and, if it is there, `vector`.

    The column `query` numbers the questions.
    """
    vectors = None
    if "vector" in questions.schema.names:
        vectors = questions["vector"].flatten().to_numpy().reshape(len(questions), -1)
    found: dict[str, list[Any]] = {name: [] for name in FOUND.names}
    rankings = rank(questions["text"].to_pylist(), vectors)
    for query, ranking in zip(questions["query"].to_pylist(), rankings, strict=True):
        found["query"] += [query] * len(ranking)
        found["chunk_id"] += [one.chunk_id for one in ranking]
        found["score"] += [one.score for one in ranking]
    return pa.record_batch(found, FOUND)


def answer_batch(
    requests: pa.RecordBatch,
    model: ModelConfig,
    *,
    retry_lost: bool = True,
    retries: Retries | None = None,
) -> pa.RecordBatch:
    """Send requests to a model, `model.concurrency` at once; give a row of `ANSWERS` for each.

    Args:
        requests: Rows of `REQUESTS`.
        model: Who is asked, and how.
        retry_lost: Whether an attempt is repeated that brought no reply and may have been billed.
        retries: The way to the model; by default one that this process keeps.
    """
    kept: Any = _kept  # a configuration can be hashed: it is frozen
    way = retries or kept(model)
    rows = requests.to_pylist()
    ask = functools.partial(_answered, model, way, retry_lost)
    if len(rows) == 1:
        answers = [ask(rows[0])]
    else:
        with ThreadPoolExecutor(min(len(rows), model.concurrency) or 1) as pool:
            answers = list(pool.map(ask, rows))
    return pa.RecordBatch.from_pylist(answers, ANSWERS)


@functools.lru_cache(maxsize=4)
def _kept(model: ModelConfig) -> Retries:
    """The connections of a worker's process, which answers one batch after the other."""
    return Retries(model, functools.partial(provider_for, model))


def _answered(
    model: ModelConfig, way: Retries, retry_lost: bool, row: dict[str, str]
) -> dict[str, Any]:
    begun, lost = time.monotonic(), 0

    def notice() -> None:
        nonlocal lost
        lost += 1
        if not retry_lost:
            raise _LostError(f"{model.name} did not answer", status="unparsed", call_id=None)

    body, error, attempts = None, None, 1
    try:
        request = _request(row["body"], model)
        with way.asking():
            response, attempts = way.complete(request, notice)
        status, body = "ok", _completion(response)
    except ModelError as raised:
        error = str(raised)
        status, attempts = _status_of(raised), getattr(raised, "attempts", 1)
    return {
        "custom_id": row["custom_id"],
        "status": status,
        "body": body,
        "error": error,
        "attempts": attempts,
        "lost": lost,
        "seconds": time.monotonic() - begun,
    }


def _status_of(error: ModelError) -> str:
    if isinstance(error, _LostError):
        return "lost"
    if isinstance(error, ReplyError):
        return UNANSWERED if isinstance(error.__cause__, TransientModelError) else error.status
    return "outage" if isinstance(error, TransientModelError) else "fatal"


def _request(body: str, model: ModelConfig) -> "Request":
    """The request that a live call with this body sends."""
    from freshstack_dspy.lm.dspy_parts import lm15

    try:
        request = lm15.request_from_openai_chat(json.loads(body))
    except (*UNREADABLE, lm15.LM15Error) as error:
        why = f"the request cannot be sent: {presentable(str(error), model)}"
        raise ReplyError(why, status="failed", call_id=None) from None
    return dataclasses.replace(request, model=model.name)


def _completion(response: "Response") -> str:
    """A response as the body of a chat completion, with what is recorded of it."""
    refusals = [part.text for part in response.message.parts if part.type == "refusal"]
    text = encodable(response.text or "".join(refusals))
    message = {"role": "assistant", "content": text, "refusal": text if refusals else None}
    usage = response.usage
    counts = {
        "prompt_tokens": tokens_in(usage.input_tokens),
        "completion_tokens": tokens_in(usage.output_tokens),
        "total_tokens": tokens_in(usage.total_tokens),
    }
    choice = {"index": 0, "message": message, "finish_reason": str(response.finish_reason)}
    return json.dumps({"choices": [choice], "usage": counts}, ensure_ascii=False)
