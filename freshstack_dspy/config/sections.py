"""The sections of a build's configuration, and all of them as one Pydantic model."""

from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from freshstack_dspy.records import TECHNIQUES, Technique

Mode = Literal["live", "replay", "defer", "refresh"]
MODES: tuple[Mode, ...] = ("live", "replay", "defer", "refresh")
Retriever = Literal["bm25", "lsa", "hybrid"]


class Section(BaseModel):
    """The base of all sections: immutable, and a misspelt key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class QueriesConfig(Section):
    """Where the questions and their accepted answers come from."""

    source: Literal["stackexchange", "jsonl"] = "jsonl"
    path: Path
    site: str | None = None
    """Host of the Stack Exchange site, for the links of the attribution, as `stackoverflow.com`."""
    tags: tuple[str, ...] = ()
    """Keep questions with any of these; empty: all."""
    since: str | None = None
    """Keep questions asked on or after this ISO date; a date of TOML will do."""
    until: str | None = None
    """Keep questions asked before this ISO date."""
    min_score: int | None = None
    limit: int | None = Field(default=None, ge=1)


class CorpusConfig(Section):
    """One folder or git repository of documents."""

    name: str = Field(min_length=1, pattern=r"^[^/\s]+$")
    path: Path
    revision: str | None = None
    """A commit, tag or branch; makes `path` a git repository."""
    include: tuple[str, ...] = ()
    """Globs of paths to keep; empty: all."""
    exclude: tuple[str, ...] = ()
    """Globs of paths to leave out."""


class ChunkingConfig(Section):
    """How files are cut."""

    max_tokens: int = Field(default=512, ge=32, le=8192)
    max_file_bytes: int = Field(default=1_000_000, ge=1)


class IndexConfig(Section):
    """How chunks are indexed."""

    path: Path = Path(".freshstack/index")
    dimensions: int = Field(default=256, ge=2, le=2048)
    """Dimensions of the `lsa` embedder; fewer where the corpus has fewer."""


class ModelConfig(Section):
    """Which language model is asked, and how."""

    name: str = "extractive/baseline"
    temperature: float = Field(default=0.1, ge=0, le=2)
    max_tokens: int = Field(default=4096, ge=16)
    """Longest reply, in tokens."""
    api_base: str | None = None
    api_key: SecretStr | None = None
    """Better left to the provider's environment variable."""
    concurrency: int = Field(default=16, ge=1, le=256)
    """Most requests in flight; fewer while the provider answers that they are too many."""
    timeout: float = Field(default=120, gt=0, allow_inf_nan=False)
    """Seconds for one attempt, from its start to the last byte of the reply."""
    retries: int = Field(default=4, ge=0, le=20)
    """Attempts after the first on rate limits, timeouts and server errors."""
    reasks: int = Field(default=2, ge=0, le=10)
    """How often an invalid reply is sent back with its error."""
    structured: Literal["json_schema", "json_object", "none"] = "json_schema"
    """How the reply's shape is asked for; the prompt describes it in any case."""


class BudgetConfig(Section):
    """What a collection may cost in all, over all its runs; no entry: no cap."""

    dollars: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """US dollars."""
    tokens: int | None = Field(default=None, ge=0)
    """Input and output tokens."""
    calls: int | None = Field(default=None, ge=0)


class PricesConfig(Section):
    """What the model costs, in US dollars per million tokens, where LiteLLM's table is wrong."""

    input: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    output: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    batch_input: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Through the provider's batch API."""
    batch_output: float | None = Field(default=None, ge=0, allow_inf_nan=False)


class CacheConfig(Section):
    """Where replies are kept."""

    path: Path = Path(".freshstack/cache")
    bundles: tuple[Path, ...] = ()
    """Recorded replies to read beside the store: JSON Lines files."""


class NuggetsConfig(Section):
    """How answers are cut into nuggets."""

    limit: int = Field(default=10, ge=1, le=50)


class SubQuestionsConfig(Section):
    """How questions are decomposed."""

    limit: int = Field(default=5, ge=1, le=20)


class PoolConfig(Section):
    """Which chunks are judged."""

    depth: int = Field(default=100, ge=1)
    """How many chunks each retriever gives for each technique."""
    top_k: int = Field(default=20, ge=1)
    """How many chunks of each technique's fused list are judged."""
    techniques: tuple[Technique, ...] = TECHNIQUES
    retrievers: tuple[Retriever, ...] = ("bm25", "lsa")

    @model_validator(mode="after")
    def _something_to_pool(self) -> Self:
        for key, values in (("techniques", self.techniques), ("retrievers", self.retrievers)):
            if not values or len(set(values)) != len(values):
                raise ValueError(f"{key} takes at least one name, each once, not {list(values)}")
        if self.top_k > self.depth:
            raise ValueError(f"top_k ({self.top_k}) cannot be larger than depth ({self.depth})")
        return self


class JudgeConfig(Section):
    """How support is judged."""

    batch: int = Field(default=20, ge=1, le=100)
    """Most chunks in one call."""


class FilterConfig(Section):
    """Which queries the collection is evaluated on."""

    unsupported_nuggets: Literal["drop", "keep"] = "drop"
    """What becomes of a query with a nugget that no chunk supports (the paper drops it)."""


class ProgramsConfig(Section):
    """Optimized programs, saved by `freshstack optimize`, to use in place of the plain ones."""

    nuggetizer: Path | None = None
    question_decomposer: Path | None = None
    closed_book_answerer: Path | None = None
    support_judge: Path | None = None


class BuildConfig(Section):
    """All of a build."""

    name: str = Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    recipe: Literal["freshstack"] = "freshstack"
    out: Path
    queries: QueriesConfig
    corpus: tuple[CorpusConfig, ...] = Field(min_length=1)
    chunking: ChunkingConfig = ChunkingConfig()
    index: IndexConfig = IndexConfig()
    model: ModelConfig = ModelConfig()
    prices: PricesConfig = PricesConfig()
    budget: BudgetConfig = BudgetConfig()
    cache: CacheConfig = CacheConfig()
    nuggets: NuggetsConfig = NuggetsConfig()
    sub_questions: SubQuestionsConfig = SubQuestionsConfig()
    pool: PoolConfig = PoolConfig()
    judge: JudgeConfig = JudgeConfig()
    filters: FilterConfig = FilterConfig()
    programs: ProgramsConfig = ProgramsConfig()

    @model_validator(mode="after")
    def _corpus_names_differ(self) -> Self:
        names = [corpus.name for corpus in self.corpus]
        if len(set(names)) != len(names):
            raise ValueError(f"each [[corpus]] needs a name of its own, not {names}")
        return self
