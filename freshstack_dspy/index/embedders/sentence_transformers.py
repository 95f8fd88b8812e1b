"""An embedder in a folder: a sentence-transformers model, read and run offline."""

import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from freshstack_dspy.config import EmbedderConfig
from freshstack_dspy.errors import IndexingError
from freshstack_dspy.index.embedders.model_folder import (
    checked_folder,
    hash_folder,
    loaded_model,
    require_sentence_transformers,
)
from freshstack_dspy.lm.request import sha256_of

_BATCHES_AT_ONCE = 16
"""Between two reports of progress; texts of like length are put together within so many."""
_log = logging.getLogger(__name__)


class SentenceTransformersEmbedder:
    """A model in a folder; see `Embedder`.

    Where no prefix is configured, the model's own prompts for queries and documents are used, if
    it has any. Its vectors are not recorded: whoever rebuilds needs the same folder.

    Attributes:
        shortened: How many texts were cut so far to what the model takes.
    """

    def __init__(self, config: EmbedderConfig) -> None:
        """Check and hash the folder; the model is loaded when it is first needed.

        Raises:
            ConfigError: The library is missing, it is no model's folder, or reading it could run
                code.
        """
        assert config.path is not None
        self.name = config.name
        self.shortened = 0
        self._config = config
        require_sentence_transformers()
        self._path = checked_folder(config.path)
        self._loaded: Any = None
        self.identity = sha256_of(
            {
                "kind": "sentence-transformers",
                "files": hash_folder(self._path),
                "dimensions": config.dimensions,
                "query_prefix": config.query_prefix,
                "passage_prefix": config.passage_prefix,
                "max_tokens": config.max_tokens,
            }
        )

    def embed_passages(
        self, texts: Sequence[str], progress: Callable[[float], None]
    ) -> NDArray[np.float32]:
        """Embed what is searched; see `Embedder`.

        Raises:
            ConfigError: The model cannot be loaded.
            IndexingError: It gives a vector that is not finite.
        """
        encode = self._model.encode_document
        return self._embedded(texts, encode, self._config.passage_prefix, progress)

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed what is searched for; see `Embedder`.

        Raises:
            ConfigError: The model cannot be loaded.
            IndexingError: It gives a vector that is not finite.
        """
        encode = self._model.encode_query
        return self._embedded(texts, encode, self._config.query_prefix, lambda _: None)

    def close(self) -> None:
        """Let the model go; the next texts load it again."""
        self._loaded = None

    @property
    def _model(self) -> Any:
        if self._loaded is None:
            self._loaded = loaded_model(
                self._path, "SentenceTransformer", truncate_dim=self._config.dimensions
            )
            most = self._config.max_tokens
            if most is not None:
                known = self._loaded.max_seq_length
                self._loaded.max_seq_length = min(most, known) if known else most
        return self._loaded

    def _embedded(
        self,
        texts: Sequence[str],
        encode: Callable[..., Any],
        prefix: str,
        progress: Callable[[float], None],
    ) -> NDArray[np.float32]:
        if not texts:
            return np.empty((0, 0), dtype=np.float32)
        self._count_shortened(texts, prefix)
        parts = []
        at_once = self._config.batch * _BATCHES_AT_ONCE
        for start in range(0, len(texts), at_once):
            part = encode(
                list(texts[start : start + at_once]),
                prompt=prefix or None,
                batch_size=self._config.batch,
                show_progress_bar=False,
                convert_to_numpy=True,
            )
            parts.append(np.asarray(part, dtype=np.float32))
            progress(min(1.0, (start + at_once) / len(texts)))
        vectors = np.concatenate(parts)
        if not np.isfinite(vectors).all():
            raise IndexingError(f"{self._path}: the model gives vectors that are not finite")
        return vectors

    def _count_shortened(self, texts: Sequence[str], prefix: str) -> None:
        """Say how many texts are longer than the model takes, which it cuts without a word."""
        most = self._model.max_seq_length
        if most is None:
            return
        # No token is shorter than a character or a byte, so short texts need not be counted.
        long = [prefix + text for text in texts if len((prefix + text).encode()) + 2 > most]
        shortened = sum(
            len(self._model.tokenizer(text, truncation=False, verbose=False)["input_ids"]) > most
            for text in long
        )
        if shortened:
            self.shortened += shortened
            _log.warning(
                "%s: %d of %d texts were cut to %d tokens, which is what the model takes",
                self.name,
                shortened,
                len(texts),
                most,
            )
