"""The configuration of a build: one Pydantic model, read from TOML."""

from freshstack_dspy.config.inputs import (
    ChunkingConfig,
    CorpusConfig,
    KeptKind,
    QueriesConfig,
    QuerySource,
)
from freshstack_dspy.config.reading import load_config, with_bundles
from freshstack_dspy.config.search import (
    RETRIEVERS,
    EmbedderConfig,
    FusionConfig,
    FusionMethod,
    IndexConfig,
    RerankerConfig,
)
from freshstack_dspy.config.section import Section
from freshstack_dspy.config.sections import (
    MODES,
    BudgetConfig,
    BuildConfig,
    CacheConfig,
    FilterConfig,
    JudgeConfig,
    Mode,
    ModelConfig,
    NuggetsConfig,
    PoolConfig,
    PricesConfig,
    ProgramsConfig,
    SubQuestionsConfig,
)

__all__ = [
    "MODES",
    "RETRIEVERS",
    "BudgetConfig",
    "BuildConfig",
    "CacheConfig",
    "ChunkingConfig",
    "CorpusConfig",
    "EmbedderConfig",
    "FilterConfig",
    "FusionConfig",
    "FusionMethod",
    "IndexConfig",
    "JudgeConfig",
    "KeptKind",
    "Mode",
    "ModelConfig",
    "NuggetsConfig",
    "PoolConfig",
    "PricesConfig",
    "ProgramsConfig",
    "QueriesConfig",
    "QuerySource",
    "RerankerConfig",
    "Section",
    "SubQuestionsConfig",
    "load_config",
    "with_bundles",
]
