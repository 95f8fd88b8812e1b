"""What a plan says of the models that embed and rerank, and when it can search as a build does."""

from collections.abc import Sequence

from freshstack_dspy.config import BuildConfig
from freshstack_dspy.errors import IndexingError
from freshstack_dspy.index.embedders import EmbeddingEstimate, estimate_embedding
from freshstack_dspy.index.hybrid import HybridIndex
from freshstack_dspy.index.lexical import indexed_text
from freshstack_dspy.index.models import Models, is_recorded
from freshstack_dspy.lm.store import Recorded
from freshstack_dspy.recipes.corpus import (
    CutCorpora,
    cut_by,
    cut_corpora,
    index_corpora,
    open_index,
)
from freshstack_dspy.recipes.session import Progress
from freshstack_dspy.records import Query


def planned_embeddings(
    config: BuildConfig,
    queries: Sequence[Query],
    recorded: Sequence[Recorded | None],
    progress: Progress,
) -> tuple[EmbeddingEstimate, ...]:
    """What each `[[embedder]]` would be asked for: all chunks, and the questions and answers.

    The texts that a model has yet to write are not counted: a few for each question.

    Args:
        config: Of the build.
        queries: Of the build.
        recorded: Where vectors may be, as the store and the bundles.
        progress: Whom to tell how it goes.
    """
    if not config.embedder:
        return ()
    passages = [indexed_text(chunk) for chunk in cut_corpora(config, progress).chunks]
    texts = [text for query in queries for text in (query.text, query.answer)]
    return tuple(
        estimate_embedding(embedder, passages, texts, recorded=recorded)
        for embedder in config.embedder
    )


def index_without_asking(
    config: BuildConfig, corpora: CutCorpora, models: Models, progress: Progress
) -> HybridIndex | None:
    """The index as a build would search it, if nothing need be embedded for it.

    Recorded vectors are looked up; those of a model in a folder must stand in the index.

    Raises:
        ReplayMissError: A vector is not recorded.
    """
    if any(not is_recorded(embedder) for embedder in models.embedders):
        try:
            standing = open_index(config, Models(models.embedders))
        except IndexingError:
            return None
        if (standing.manifest.cut_by, list(standing.manifest.files)) != (
            cut_by(config),
            sorted(corpora.files),
        ):
            return None
    return index_corpora(config, corpora, models=models, progress=progress)
