"""A reranker in a folder: a sentence-transformers cross-encoder, read and run offline."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from freshstack_dspy.config import RerankerConfig
from freshstack_dspy.errors import ConfigError, IndexingError
from freshstack_dspy.index.embedders.model_folder import (
    checked_folder,
    hash_folder,
    loaded_model,
    require_sentence_transformers,
)
from freshstack_dspy.lm.request import sha256_of

_BATCH = 32


class CrossEncoderReranker:
    """A cross-encoder in a folder; see `Reranker`.

    Its scores are not recorded: whoever rebuilds needs the same folder.
    """

    at_once = 1

    def __init__(self, config: RerankerConfig) -> None:
        """Check and hash the folder; the model is loaded when it is first needed.

        Raises:
            ConfigError: The library is missing, it is no model's folder, or reading it could run
                code.
        """
        assert config.path is not None
        require_sentence_transformers()
        self._path = checked_folder(config.path)
        self._loaded: Any = None
        self.identity = sha256_of({"kind": "cross-encoder", "files": hash_folder(self._path)})

    def scores(self, text: str, passages: Sequence[str]) -> list[float]:
        """Score each passage, in the given order; see `Reranker`.

        Raises:
            ConfigError: The model cannot be loaded, or gives several scores for a passage.
            IndexingError: A score is not finite.
        """
        if not passages:
            return []
        pairs = [(text, passage) for passage in passages]
        found = self._model.predict(
            pairs, batch_size=_BATCH, show_progress_bar=False, convert_to_numpy=True
        )
        scores = np.asarray(found, dtype=np.float64)
        if scores.shape != (len(passages),):
            raise ConfigError(
                f"{self._path}: a reranker gives one score for a passage, and this model gives "
                f"{scores.size // len(passages)}: it is a classifier"
            )
        if not np.isfinite(scores).all():
            raise IndexingError(f"{self._path}: the model gives a score that is not finite")
        return [float(score) for score in scores]

    def close(self) -> None:
        """Let the model go; the next text loads it again."""
        self._loaded = None

    @property
    def _model(self) -> Any:
        if self._loaded is None:
            self._loaded = loaded_model(self._path, "CrossEncoder")
        return self._loaded
