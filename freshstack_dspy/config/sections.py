"""The sections of a build's configuration that are left, and all of them as one Pydantic model."""

from datetime import date
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from freshstack_dspy.config.inputs import ChunkingConfig, CorpusConfig, QueriesConfig
from freshstack_dspy.config.search import (
    RETRIEVERS,
    EmbedderConfig,
    FusionConfig,
    IndexConfig,
    RerankerConfig,
)
from freshstack_dspy.config.section import Section
from freshstack_dspy.records import SCALES, TECHNIQUES, Scale, ScaleName, Technique

Mode = Literal["live", "replay", "defer", "refresh"]
MODES: tuple[Mode, ...] = ("live", "replay", "defer", "refresh")


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
    context: int | None = Field(default=None, ge=1024)
    """Tokens that fit into one request with its reply; by default what LiteLLM knows of the model."""
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
    """Where replies, and copies of repositories, are kept."""

    path: Path = Path(".freshstack/cache")
    clones: Path = Path(".freshstack/clones")
    """Copies of the repositories that a corpus names by URL."""
    bundles: tuple[Path, ...] = ()
    """Recorded replies to read beside the store: JSON Lines files."""


class NuggetsConfig(Section):
    """How answers are cut into nuggets."""

    limit: int = Field(default=10, ge=1, le=50)
    importance: bool = False
    """Whether each nugget is rated vital or okay, by one more call for each query."""


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
    retrievers: tuple[str, ...] = ("bm25", "lsa")
    lists: Literal["concatenate", "fuse"] = "concatenate"
    """Whether the sub-questions, and the nuggets, of a query are one text to search with (the
    paper), or each is searched with and their rankings are fused."""

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

    shape: Literal["batch", "windowed", "pairwise"] = "batch"
    """What one call holds: all nuggets and several chunks (FreshStack), some nuggets and one chunk
    (nuggetizer), or one nugget and one chunk (CRUX, UMBRELA)."""
    batch: int = Field(default=20, ge=1, le=100)
    """Most chunks in one call of shape batch."""
    window: int = Field(default=10, ge=1, le=50)
    """Most nuggets in one call of shape windowed."""
    scale: ScaleName = "binary"
    threshold: int | None = Field(default=None, ge=1)
    """The lowest label that counts as support; by default that of the scale."""
    shuffle: int | None = Field(default=None, ge=0)
    """A seed to shuffle the chunks of each query by; None: in the order of their ids."""
    votes: int = Field(default=1, ge=1, le=15)
    """How often each pair is judged, each time with the chunks in another order; odd."""
    compare: int = Field(default=0, ge=0)
    """How many pooled chunks are also judged alone, to say how far batches agree with that."""

    @property
    def graded(self) -> Scale:
        """The scale with the threshold that holds."""
        return Scale(name=self.scale, threshold=self.threshold or SCALES[self.scale].threshold)

    @model_validator(mode="after")
    def _threshold_and_votes(self) -> Self:
        _ = self.graded
        if self.votes % 2 == 0:
            raise ValueError(
                f"votes is an odd number, so that there is a majority, not {self.votes}"
            )
        return self


class ContaminationConfig(Section):
    """What is looked at to tell how far a model knows the queries already."""

    score: bool = True
    """Whether the closed-book answers are judged against the nuggets: one more call for each
    query, where the pool has that technique."""
    cutoff: str | None = Field(default=None, pattern=r"^\d{4}-\d{2}-\d{2}$")
    """The ISO date up to which the model has read."""
    ngram: int = Field(default=8, ge=2, le=50)
    """Words of a run of words that a question and a supporting chunk share."""
    near_duplicate: float = Field(default=0.8, gt=0, le=1)
    """From which similarity on two questions ask nearly the same: Jaccard of their terms."""

    @field_validator("cutoff")
    @classmethod
    def _cutoff_is_a_day(cls, cutoff: str | None) -> str | None:
        try:
            _ = date.fromisoformat(cutoff) if cutoff is not None else None
        except ValueError as error:
            raise ValueError(f"{error}; cutoff is a day as 2024-06-30") from None
        return cutoff


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
    embedder: tuple[EmbedderConfig, ...] = ()
    reranker: RerankerConfig | None = None
    fusion: FusionConfig = FusionConfig()
    model: ModelConfig = ModelConfig()
    prices: PricesConfig = PricesConfig()
    budget: BudgetConfig = BudgetConfig()
    cache: CacheConfig = CacheConfig()
    nuggets: NuggetsConfig = NuggetsConfig()
    sub_questions: SubQuestionsConfig = SubQuestionsConfig()
    pool: PoolConfig = PoolConfig()
    judge: JudgeConfig = JudgeConfig()
    contamination: ContaminationConfig = ContaminationConfig()
    filters: FilterConfig = FilterConfig()
    programs: ProgramsConfig = ProgramsConfig()

    @model_validator(mode="after")
    def _corpus_names_differ(self) -> Self:
        names = [corpus.name for corpus in self.corpus]
        if len(set(names)) != len(names):
            raise ValueError(f"each [[corpus]] needs a name of its own, not {names}")
        return self

    @model_validator(mode="after")
    def _seeds_exist(self) -> Self:
        names = [corpus.name for corpus in self.corpus]
        if unknown := [name for name in self.queries.sources if name not in names]:
            raise ValueError(f"queries.sources names {unknown}; there are: {', '.join(names)}")
        least, most = self.queries.min_tokens, self.chunking.max_tokens
        if self.queries.is_synthetic and least > most:
            raise ValueError(
                f"queries.min_tokens ({least}) is above chunking.max_tokens ({most}), so no chunk "
                "could be sampled; lower it"
            )
        return self

    @model_validator(mode="after")
    def _retrievers_exist(self) -> Self:
        own = [embedder.name for embedder in self.embedder]
        if len(set(own)) != len(own):
            raise ValueError(f"each [[embedder]] needs a name of its own, not {own}")
        known = [*RETRIEVERS[:2], *own, "hybrid"] + ["hybrid+rerank"] * bool(self.reranker)
        for key, names in (
            ("pool.retrievers", self.pool.retrievers),
            ("fusion.weights", self.fusion.weights),
        ):
            unknown = [name for name in names if name not in known]
            if unknown:
                raise ValueError(f"{key} names {unknown}; there are: {', '.join(known)}")
        return self
