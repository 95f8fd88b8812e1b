"""The models that embed and rerank: hosted ones, whose replies are recorded, and model folders."""

import hashlib
import importlib
import importlib.util
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from freshstack_dspy.config import (
    BuildConfig,
    EmbedderConfig,
    EngineConfig,
    RerankerConfig,
    SearchModelConfig,
)
from freshstack_dspy.engines import mapper
from freshstack_dspy.errors import ConfigError, IndexingError
from freshstack_dspy.index.reranking import Mmr, Reranker
from freshstack_dspy.index.table import matrix_of
from freshstack_dspy.lm.capabilities import longest_input_of
from freshstack_dspy.lm.prices import Price, price_of, rerank_price_of
from freshstack_dspy.lm.reply import encodable
from freshstack_dspy.lm.request import KEY_VERSION, sha256_of
from freshstack_dspy.lm.store import FirstOf, Recorded
from freshstack_dspy.lm.tokens import count_tokens, cut
from freshstack_dspy.lm.vectors import (
    Access,
    EmbeddingClient,
    HostedModel,
    RerankClient,
    Wanted,
    input_types_of,
)
from freshstack_dspy.records import Record

_MILLION = 1_000_000
_BATCHES_AT_ONCE = 4
"""Batches of a model in a folder, between two reports of progress."""
_PAIRS_AT_ONCE = 32
HERE = EngineConfig()
_log = logging.getLogger(__name__)


class EmbeddingError(IndexingError):
    """A text cannot be embedded."""

    def __init__(self, embedder: str, text: str, why: str) -> None:
        super().__init__(f"embedder {embedder!r} cannot embed {text[:60]!r}: {why}")
        self.text, self.why = text, why


class Embedder(Protocol):
    """A model that gives texts vectors; the index compares these by their cosine."""

    @property
    def name(self) -> str:
        """The name of the retriever, and of the column of vectors."""
        ...

    @property
    def identity(self) -> str:
        """Everything its vectors depend on; another identity, and all chunks are embedded again."""
        ...

    def embed_passages(
        self, texts: Sequence[str], progress: Callable[[float], None]
    ) -> NDArray[np.float32]:
        """Embed what is searched: shape (texts, dimensions), rows of any length, none NaN."""
        ...

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed what is searched for: shape (texts, dimensions)."""
        ...


class Models(NamedTuple):
    """The models that an index is searched with, next to its own `bm25` and `lsa`."""

    embedders: Sequence[Embedder] = ()
    reranker: Reranker | Mmr | None = None
    """What `NAME+rerank` orders the first chunks of a retriever by."""
    rerank_depth: int = 50
    """How many chunks are reranked; no others are found."""
    engine: EngineConfig = HERE
    """Where texts are embedded, and questions searched for in an index at a URI."""


NO_MODELS = Models()


# Hosted models


class Role(NamedTuple):
    """What is sent to a hosted model with a text, and how many of the text's tokens."""

    prefix: str
    input_type: str | None
    room: int | None

    def prepared(self, text: str) -> str:
        """Put the prefix before a text, and cut the text to what the model takes."""
        text = encodable(text)
        return self.prefix + (text if self.room is None else cut(text, self.room))


class HostedEmbedder(EmbeddingClient):
    """A LiteLLM embedding model; see `Embedder`."""

    def __init__(self, config: EmbedderConfig, access: Access) -> None:
        assert config.model is not None
        self.name = config.name
        self._longest = config.max_tokens or longest_input_of(config.model)
        query, passage = input_types_of(config.model)
        self.passages = self._role(config.passage_prefix, passage)
        self.queries = self._role(config.query_prefix, query)
        super().__init__(
            _hosted_model(config, "[[embedder]]"),
            access,
            dimensions=config.dimensions,
            batch=config.batch,
            price=_own_price(config) or price_of(config.model),
        )
        self.identity = _identity(
            self,
            config,
            dimensions=config.dimensions,
            roles=[role[:2] for role in (self.passages, self.queries)],
            max_tokens=self._longest,
        )

    def embed_passages(
        self, texts: Sequence[str], progress: Callable[[float], None]
    ) -> NDArray[np.float32]:
        """Embed what is searched; vectors that came before a failure are recorded."""
        return self._embedded(texts, self.passages, progress)

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed what is searched for."""
        return self._embedded(texts, self.queries, lambda _: None)

    def wanted(self, passages: Iterable[str], queries: Iterable[str]) -> dict[str, Wanted]:
        """The texts whose vectors are needed, prepared, each once, by the key of its vector."""
        wanted = [
            Wanted(self.request_of(prepared, role.input_type), prepared)
            for texts, role in ((passages, self.passages), (queries, self.queries))
            for prepared in map(role.prepared, texts)
        ]
        return {each.request.key: each for each in wanted}

    def _embedded(
        self, texts: Sequence[str], role: Role, progress: Callable[[float], None]
    ) -> NDArray[np.float32]:
        ready = [role.prepared(text) for text in texts]
        shortened = sum(
            len(sent) < len(role.prefix + encodable(text))
            for sent, text in zip(ready, texts, strict=True)
        )
        _warn_of_cuts(self.name, shortened, len(texts), self._longest)
        return self.vectors(ready, input_type=role.input_type, progress=progress)

    def _role(self, prefix: str, input_type: str | None) -> Role:
        """With the tokens of a text that fit behind the prefix; None where no limit is known."""
        if self._longest is None:
            return Role(prefix, input_type, None)
        room = self._longest - (count_tokens(prefix) if prefix else 0)
        if room < 1:
            raise ConfigError(
                f"[[embedder]] {self.name!r}: the prefix {prefix[:40]!r} leaves no room in "
                f"{self._longest} tokens; shorten it, or raise max_tokens"
            )
        return Role(prefix, input_type, room)


class HostedReranker(RerankClient):
    """A LiteLLM rerank model; see `Reranker`."""

    def __init__(self, config: RerankerConfig, access: Access) -> None:
        price = _own_price(config) or rerank_price_of(str(config.model))
        super().__init__(_hosted_model(config, "[reranker]"), access, price=price)
        self.at_once = config.concurrency
        self.identity = _identity(self, config)


def _identity(
    client: EmbeddingClient | RerankClient, config: EmbedderConfig | RerankerConfig, **more: Any
) -> str:
    shared = {"model": config.model, "endpoint": client.endpoint}
    return sha256_of({"kind": "hosted", "key_version": KEY_VERSION, **shared, **more})


def _own_price(config: SearchModelConfig) -> Price | None:
    return None if config.price is None else Price(input=config.price / _MILLION)


def _hosted_model(config: EmbedderConfig | RerankerConfig, section: str) -> HostedModel:
    shared = ("api_base", "api_key", "concurrency", "timeout", "retries")
    settings = {name: getattr(config, name) for name in shared}
    return HostedModel(name=str(config.model), section=section, **settings)


def _warn_of_cuts(name: str, shortened: int, count: int, longest: int | None) -> None:
    if shortened:
        _log.warning(
            f"{name}: {shortened} of {count} texts were cut to {longest} tokens, "
            "which is what the model takes"
        )


# Models in folders. Their numbers are not recorded: whoever rebuilds needs the same folder.


class FolderEmbedder:
    """A sentence-transformers model in a folder; see `Embedder`.

    Where no prefix is configured, the model's own prompts for queries and documents are used, if
    it has any. Over an engine the folder is at the same path on every node.
    """

    def __init__(self, config: EmbedderConfig, engine: EngineConfig = HERE) -> None:
        assert config.path is not None
        self.name = config.name
        self._config, self._engine = config, engine
        settings = config.model_dump(
            include={"dimensions", "query_prefix", "passage_prefix", "max_tokens"}
        )
        self.identity = sha256_of(
            {"kind": "sentence-transformers", "files": _hash(config.path), **settings}
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _opened, (self._config,)

    def embed_passages(
        self, texts: Sequence[str], progress: Callable[[float], None]
    ) -> NDArray[np.float32]:
        """Embed what is searched."""
        return self._embedded(texts, progress, queries=False)

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed what is searched for."""
        return self._embedded(texts, lambda _: None, queries=True)

    def encode(self, texts: Sequence[str], *, queries: bool) -> list[dict[str, Any]]:
        """Embed texts in this process; see `batches.embed_batch`."""
        config, model = self._config, self._model
        prefix = config.query_prefix if queries else config.passage_prefix
        vectors = (model.encode_query if queries else model.encode_document)(
            texts,
            prompt=prefix or None,
            batch_size=config.batch,
            show_progress_bar=False,
            convert_to_numpy=True,
        )
        return [
            {"vector": vector, "cut_to": self._cut_to(prefix + text)}
            if np.isfinite(vector).all()
            else {"fault": "its vector is not finite"}
            for text, vector in zip(texts, np.asarray(vectors, np.float32), strict=True)
        ]

    @cached_property
    def _model(self) -> Any:
        assert self._config.path is not None
        model = _load(
            self._config.path, "SentenceTransformer", truncate_dim=self._config.dimensions
        )
        if self._config.max_tokens is not None:
            limits = (self._config.max_tokens, model.max_seq_length)
            model.max_seq_length = min(limit for limit in limits if limit)
        return model

    def _embedded(
        self, texts: Sequence[str], progress: Callable[[float], None], *, queries: bool
    ) -> NDArray[np.float32]:
        import pyarrow as pa

        from freshstack_dspy.arrow_batches import VECTORS, embed_batch

        size, engine = self._config.batch * _BATCHES_AT_ONCE, self._engine
        starts = range(0, len(texts), size)
        blocks = (map(encodable, texts[start : start + size]) for start in starts)
        batches = (pa.record_batch({"text": block}) for block in blocks)
        embed = partial(embed_batch, encode=partial(self.encode, queries=queries))
        here = engine.name == "local"
        done = map(embed, batches) if here else mapper(engine)(embed, batches, gpus=engine.gpus)
        parts: list[pa.RecordBatch] = []
        for part in done:
            parts.append(part)
            progress(len(parts) / len(starts))
        rows = pa.Table.from_batches(parts, VECTORS)
        for text, fault in zip(texts, rows["fault"].to_pylist(), strict=True):
            if fault is not None:
                raise EmbeddingError(self.name, text, fault)
        cut = rows["cut_to"].drop_null().to_pylist()
        _warn_of_cuts(self.name, len(cut), len(texts), max(cut, default=None))
        return matrix_of(rows["vector"])

    def _cut_to(self, text: str) -> int | None:
        """The tokens that the model takes, of a text that has more: the library cuts it unsaid."""
        most: int | None = self._model.max_seq_length
        # No token is shorter than a byte, so short texts need not be counted.
        if not most or len(text.encode()) + 2 <= most:
            return None
        tokens = self._model.tokenizer(text, truncation=False, verbose=False)["input_ids"]
        return most if len(tokens) > most else None


@lru_cache(maxsize=4)
def _opened(config: EmbedderConfig) -> FolderEmbedder:
    """The model of a worker's process, which embeds one batch after the other."""
    return FolderEmbedder(config)


class FolderReranker:
    """A sentence-transformers cross-encoder in a folder; see `Reranker`."""

    at_once = 1

    def __init__(self, config: RerankerConfig) -> None:
        assert config.path is not None
        self._path = config.path
        self.identity = sha256_of({"kind": "cross-encoder", "files": _hash(self._path)})

    def scores(self, text: str, passages: Sequence[str]) -> list[float]:
        """Score each passage, in the given order."""
        pairs = [(text, passage) for passage in passages]
        scores = self._model.predict(
            pairs, batch_size=_PAIRS_AT_ONCE, show_progress_bar=False, convert_to_numpy=True
        )
        return [float(score) for score in np.ravel(scores)]

    @cached_property
    def _model(self) -> Any:
        return _load(self._path, "CrossEncoder")


def _hash(path: Path) -> str:
    """SHA-256 of the names and contents of a model folder's files, but for hidden ones."""
    if importlib.util.find_spec("sentence_transformers") is None:
        raise ConfigError(
            "a model in a folder needs sentence-transformers; install it with: "
            "pip install 'freshstack_dspy[transformers]'"
        )
    if not any((path / name).is_file() for name in ("config.json", "modules.json")):
        raise ConfigError(
            f"{path}: no model: a sentence-transformers folder has config.json or modules.json"
        )
    hashes = {}
    for file in sorted(path.rglob("*")):
        name = file.relative_to(path)
        if file.is_file() and not any(part.startswith(".") for part in name.parts):
            with file.open("rb") as opened:
                hashes[name.as_posix()] = hashlib.file_digest(opened, "sha256").hexdigest()
    return sha256_of(hashes)


def _load(path: Path, kind: str, **settings: Any) -> Any:
    """Load a `SentenceTransformer` or `CrossEncoder` from a folder, offline."""
    library = importlib.import_module("sentence_transformers")
    try:
        return getattr(library, kind)(str(path), local_files_only=True, **settings)
    except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise ConfigError(f"{path}: the model cannot be loaded: {error}") from error


# What a configuration names


@contextmanager
def connected(config: BuildConfig, access: Access) -> Iterator[Models]:
    """Open the models of `[[embedder]]` and `[reranker]`, and close hosted ones at the end."""
    with ExitStack() as opened:
        embedders = [
            opened.enter_context(closing(HostedEmbedder(each, access)))
            if each.path is None
            else FolderEmbedder(each, config.engine)
            for each in config.embedder
        ]
        models = Models(embedders, engine=config.engine)
        if (settings := config.reranker) is not None:
            models = models._replace(rerank_depth=settings.depth)
            if settings.method == "mmr":
                weight = {} if settings.mmr_lambda is None else {"weight": settings.mmr_lambda}
                models = models._replace(reranker=Mmr(settings.vectors or "lsa", **weight))
            elif settings.path is not None:
                models = models._replace(reranker=FolderReranker(settings))
            elif not settings.asks_chat:  # a session opens the programs that ask a chat model
                hosted = opened.enter_context(closing(HostedReranker(settings, access)))
                models = models._replace(reranker=hosted)
        yield models


class EmbeddingEstimate(Record):
    """What one embedder would be asked for."""

    name: str
    texts: int = Field(default=0, ge=0)
    """Different texts whose vectors are not recorded."""
    recorded: int = Field(default=0, ge=0)
    """Different texts whose vectors are."""
    requests: int = Field(default=0, ge=0)
    tokens: int = Field(default=0, ge=0)
    """Tokens of the texts, as cl100k_base counts; other tokenizers make up to a third more of them."""
    dollars: float | None = 0.0
    """None where no price is known; 0 of a model in a folder."""


def estimate_embedding(
    config: EmbedderConfig,
    passages: Sequence[str],
    queries: Sequence[str] = (),
    *,
    recorded: Iterable[Recorded | None] = (),
) -> EmbeddingEstimate:
    """Find which texts a hosted embedder would be asked for, and what that costs.

    `recorded` are the store and the bundles that may hold vectors.
    """
    if config.model is None:
        return EmbeddingEstimate(name=config.name)
    store = FirstOf(*recorded)
    embedder = HostedEmbedder(config, Access(mode="replay"))
    wanted = embedder.wanted(passages, queries)
    missing = [each for key, each in wanted.items() if store.read(key) is None]
    tokens = sum(count_tokens(each.text) for each in missing)
    return EmbeddingEstimate(
        name=config.name,
        texts=len(missing),
        recorded=len(wanted) - len(missing),
        requests=len(embedder.requests(missing)),
        tokens=tokens,
        dollars=tokens * embedder.price.input if embedder.price else None,
    )
