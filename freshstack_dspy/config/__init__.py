"""The configuration of a build: one Pydantic model, read from TOML."""

from freshstack_dspy.config.inputs import (
    ChunkingConfig,
    CorpusConfig,
    KeptKind,
    QueriesConfig,
    QuerySource,
)
from freshstack_dspy.config.reading import load_config, load_judging, with_bundles
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
    ContaminationConfig,
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
from freshstack_dspy.config.synthesis import SynthesisConfig

__all__ = [
    "MODES",
    "RETRIEVERS",
    "BudgetConfig",
    "BuildConfig",
    "CacheConfig",
    "ChunkingConfig",
    "ContaminationConfig",
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
    "SynthesisConfig",
    "load_config",
    "load_judging",
    "with_bundles",
]
