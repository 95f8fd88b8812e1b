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
from freshstack_dspy.errors import ConfigError
from freshstack_dspy.lm.prices import (
    Price,
    longest_input_of,
    price_of,
    rerank_price_of,
)
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
"""Of a model in a folder, between two reports of progress."""
_PAIRS_AT_ONCE = 32
_log = logging.getLogger(__name__)


class Embedder(Protocol):
    """A model that gives texts vectors; the index compares these by their cosine."""

    @property
    def name(self) -> str:
        """Of the retriever, and of the column of vectors."""
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


class Reranker(Protocol):
    """A model that scores passages for a text, each by itself."""

    @property
    def at_once(self) -> int:
        """How many texts it may be asked about at the same time, by threads."""
        ...

    @property
    def identity(self) -> str:
        """Everything its scores depend on."""
        ...

    def scores(self, text: str, passages: Sequence[str]) -> list[float]:
        """Score each passage, in the given order; higher is better."""
        ...


class Models(NamedTuple):
    """The models that an index is searched with, next to its own `bm25` and `lsa`."""

    embedders: Sequence[Embedder] = ()
    reranker: Reranker | None = None
    rerank_depth: int = 50
    """How many chunks of the hybrid ranking are scored anew; no others are found."""


NO_MODELS = Models()


# Hosted models


class Role(NamedTuple):
    """What is sent to a hosted model with a text, and how many of the text's tokens."""

    prefix: str
    input_type: str | None
    room: int | None


class HostedEmbedder(EmbeddingClient):
    """A LiteLLM embedding model; see `Embedder`."""

    def __init__(self, config: EmbedderConfig, access: Access) -> None:
        assert config.model is not None
        self.name = config.name
        self._longest = config.max_tokens or longest_input_of(config.model)
        query, passage = input_types_of(config.model)
        self.passages = self._role(config.passage_prefix, passage)
        self.queries = self._role(config.query_prefix, query)
        model = _hosted_model(config, "[[embedder]]")
        super().__init__(
            model,
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

    def prepared(self, text: str, role: Role) -> str:
        """Put the prefix before a text, and cut the text to what the model takes."""
        text = encodable(text)
        return role.prefix + (text if role.room is None else cut(text, role.room))

    def wanted(self, passages: Iterable[str], queries: Iterable[str]) -> dict[str, Wanted]:
        """The texts whose vectors are needed, prepared, each once, by the key of its vector."""
        wanted: dict[str, Wanted] = {}
        for texts, role in ((passages, self.passages), (queries, self.queries)):
            for text in texts:
                prepared = self.prepared(text, role)
                request = self.request_of(prepared, role.input_type)
                wanted[request.key] = Wanted(request, prepared)
        return wanted

    def _embedded(
        self, texts: Sequence[str], role: Role, progress: Callable[[float], None]
    ) -> NDArray[np.float32]:
        ready = [self.prepared(text, role) for text in texts]
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
        assert config.model is not None
        price = _own_price(config) or rerank_price_of(config.model)
        super().__init__(_hosted_model(config, "[reranker]"), access, price=price)
        self.at_once = config.concurrency
        self.identity = _identity(self, config)


def _identity(
    client: EmbeddingClient | RerankClient, config: SearchModelConfig, **more: Any
) -> str:
    shared = {"model": config.model, "endpoint": client.endpoint}
    return sha256_of({"kind": "hosted", "key_version": KEY_VERSION, **shared, **more})


def _own_price(config: SearchModelConfig) -> Price | None:
    return None if config.price is None else Price(input=config.price / _MILLION)


def _hosted_model(config: SearchModelConfig, section: str) -> HostedModel:
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
    it has any.
    """

    def __init__(self, config: EmbedderConfig) -> None:
        assert config.path is not None
        self.name = config.name
        self._config = config
        settings = config.model_dump(
            include={"dimensions", "query_prefix", "passage_prefix", "max_tokens"}
        )
        self.identity = sha256_of(
            {"kind": "sentence-transformers", "files": _hash(config.path), **settings}
        )

    def embed_passages(
        self, texts: Sequence[str], progress: Callable[[float], None]
    ) -> NDArray[np.float32]:
        """Embed what is searched."""
        return self._embedded("encode_document", self._config.passage_prefix, texts, progress)

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed what is searched for."""
        return self._embedded("encode_query", self._config.query_prefix, texts, lambda _: None)

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
        self, encode: str, prefix: str, texts: Sequence[str], progress: Callable[[float], None]
    ) -> NDArray[np.float32]:
        self._warn_of_cuts([prefix + text for text in texts])
        parts = []
        at_once = self._config.batch * _BATCHES_AT_ONCE
        for start in range(0, len(texts), at_once):
            part = getattr(self._model, encode)(
                list(texts[start : start + at_once]),
                prompt=prefix or None,
                batch_size=self._config.batch,
                show_progress_bar=False,
                convert_to_numpy=True,
            )
            parts.append(np.asarray(part, np.float32))
            progress(min(1.0, (start + at_once) / len(texts)))
        return np.concatenate(parts)

    def _warn_of_cuts(self, texts: Sequence[str]) -> None:
        """The library cuts long texts without a word."""
        most = self._model.max_seq_length
        # No token is shorter than a byte, so short texts need not be counted.
        long = [text for text in texts if most and len(text.encode()) + 2 > most]
        tokenized = (self._model.tokenizer(text, truncation=False, verbose=False) for text in long)
        shortened = sum(len(tokens["input_ids"]) > most for tokens in tokenized)
        _warn_of_cuts(self.name, shortened, len(texts), most)


class EngineEmbedder:
    """A model in a folder, which is there on every node of an engine and opened there."""

    def __init__(self, config: EmbedderConfig, engine: EngineConfig) -> None:
        self.name, self.identity = config.name, FolderEmbedder(config).identity
        self._config, self._engine = config, engine

    def embed_passages(
        self, texts: Sequence[str], progress: Callable[[float], None]
    ) -> NDArray[np.float32]:
        """Embed what is searched."""
        return self._embedded(texts, progress, queries=False)

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed what is searched for."""
        return self._embedded(texts, lambda _: None, queries=True)

    def _embedded(
        self, texts: Sequence[str], progress: Callable[[float], None], *, queries: bool
    ) -> NDArray[np.float32]:
        from freshstack_dspy.engines.ray import map_batches

        size = self._config.batch * _BATCHES_AT_ONCE
        starts = range(0, len(texts), size)
        embed = partial(_embed_on_a_node, self._config, queries=queries)
        blocks = (list(texts[start : start + size]) for start in starts)
        parts: list[NDArray[np.float32]] = []
        for part in map_batches(self._engine, embed, blocks, gpus=self._engine.gpus):
            parts.append(part)
            progress(len(parts) / len(starts))
        return np.concatenate(parts)


def _embed_on_a_node(
    config: EmbedderConfig, texts: list[str], *, queries: bool
) -> NDArray[np.float32]:
    opened: Any = opened_model  # a configuration can be hashed: it is frozen
    embedder: FolderEmbedder = opened(config)
    if queries:
        return embedder.embed_queries(texts)
    return embedder.embed_passages(texts, lambda _: None)


@lru_cache(maxsize=4)
def opened_model(config: EmbedderConfig) -> FolderEmbedder:
    """Give the model of a worker's process, which embeds one batch after the other."""
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
        found = self._model.predict(
            pairs, batch_size=_PAIRS_AT_ONCE, show_progress_bar=False, convert_to_numpy=True
        )
        return [float(score) for score in np.ravel(found)]

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
            else FolderEmbedder(each)
            if config.engine.name == "local"
            else EngineEmbedder(each, config.engine)
            for each in config.embedder
        ]
        if config.reranker is None:
            yield Models(embedders)
        elif config.reranker.path is not None:
            yield Models(embedders, FolderReranker(config.reranker), config.reranker.depth)
        else:
            reranker = opened.enter_context(closing(HostedReranker(config.reranker, access)))
            yield Models(embedders, reranker, config.reranker.depth)


class EmbeddingEstimate(Record):
    """What one embedder would be asked for."""

    name: str
    texts: int = Field(ge=0)
    """Different texts whose vectors are not recorded."""
    recorded: int = Field(ge=0)
    """Different texts whose vectors are."""
    requests: int = Field(ge=0)
    tokens: int = Field(ge=0)
    """Of the texts, as cl100k_base counts; other tokenizers make up to a third more of them."""
    dollars: float | None
    """None where no price is known; 0 of a model in a folder."""


def estimate_embedding(
    config: EmbedderConfig,
    passages: Sequence[str],
    queries: Sequence[str] = (),
    *,
    recorded: Iterable[Recorded | None] = (),
) -> EmbeddingEstimate:
    """Find which texts a hosted embedder would be asked for, and what that costs.

    `recorded` are the store and the bundles that may hold vectors. A model in a folder costs nothing.
    """
    if config.model is None:
        return EmbeddingEstimate(
            name=config.name, texts=0, recorded=0, requests=0, tokens=0, dollars=0.0
        )
    known = FirstOf(*recorded)
    embedder = HostedEmbedder(config, Access(mode="replay"))
    wanted = embedder.wanted(passages, queries)
    missing = [one for key, one in wanted.items() if known.read(key) is None]
    tokens = sum(count_tokens(one.text) for one in missing)
    return EmbeddingEstimate(
        name=config.name,
        texts=len(missing),
        recorded=len(wanted) - len(missing),
        requests=len(embedder.requests(missing)),
        tokens=tokens,
        dollars=tokens * embedder.price.input if embedder.price else None,
    )
