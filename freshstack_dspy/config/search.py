"""The sections that say how chunks are indexed, embedded, ranked and fused."""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, SecretStr, model_validator

from freshstack_dspy.config.section import Section

FusionMethod = Literal["normalised_sum", "rrf", "weighted", "z_score", "isr", "comb_mnz"]
RETRIEVERS = ("bm25", "lsa", "hybrid", "hybrid+rerank")
"""The names of retrievers that every index has or that are made of others."""


class IndexConfig(Section):
    """How chunks are indexed."""

    path: Path = Path(".freshstack/index")
    dimensions: int = Field(default=256, ge=2, le=2048)
    """Dimensions of the `lsa` embedder; fewer where the corpus has fewer."""
    search: Literal["auto", "exact", "approximate"] = "auto"
    """How vectors are searched; `auto` is exact up to a size, and says which."""


_OF_PROVIDERS = ("api_base", "api_key", "price", "concurrency", "timeout", "retries")
"""Settings that a model in a folder has no use for."""


class SearchModelConfig(Section):
    """A model that embeds or reranks: one of LiteLLM's, or one in a folder."""

    model: str | None = None
    """As LiteLLM calls it: `openai/text-embedding-3-small`, `cohere/rerank-v3.5`."""
    path: Path | None = None
    """Or the folder of a sentence-transformers model or cross-encoder."""
    api_base: str | None = None
    api_key: SecretStr | None = None
    price: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """US dollars per million tokens, where LiteLLM's table of prices has none or is wrong."""
    concurrency: int = Field(default=8, ge=1, le=256)
    timeout: float = Field(default=120, gt=0, allow_inf_nan=False)
    retries: int = Field(default=4, ge=0, le=20)

    @model_validator(mode="after")
    def _one_model(self) -> Self:
        if (self.model is None) == (self.path is None):
            raise ValueError(
                "name either model, of LiteLLM, or path, a sentence-transformers folder"
            )
        unused = [name for name in _OF_PROVIDERS if name in self.model_fields_set]
        if self.path is not None and unused:
            raise ValueError(f"a model in a folder has no {', '.join(unused)}; leave them out")
        return self


class EmbedderConfig(SearchModelConfig):
    """A model that gives each chunk a vector; its name is that of the retriever."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=60)
    dimensions: int | None = Field(default=None, ge=2, le=8192)
    """Of the vectors, where the model can shorten them."""
    query_prefix: str = ""
    passage_prefix: str = ""
    max_tokens: int | None = Field(default=None, ge=16)
    """Longer texts are cut to so many tokens, prefix included; by default to what the model is
    known to take. Of a hosted model's texts the tokens are counted as cl100k_base."""
    batch: int = Field(default=64, ge=1, le=2048)
    """Most texts in one request."""

    @model_validator(mode="after")
    def _own_name(self) -> Self:
        if self.name in RETRIEVERS:
            raise ValueError(f"name is {self.name!r}, which is taken; call it otherwise")
        return self


class RerankerConfig(SearchModelConfig):
    """A model that scores the first chunks of the hybrid retriever anew: `hybrid+rerank`."""

    depth: int = Field(default=50, ge=1, le=1000)
    """How many chunks are scored for each text; no others are found."""


class FusionConfig(Section):
    """How the rankings of several retrievers become one."""

    method: FusionMethod = "normalised_sum"
    """See `index/fusion.py` for the formulas."""
    weights: dict[str, Annotated[float, Field(ge=0, allow_inf_nan=False)]] = Field(
        default_factory=dict
    )
    """Of each retriever, for `weighted`; those not named weigh 1, those of 0 are left out."""

    @model_validator(mode="after")
    def _weights_are_used(self) -> Self:
        if self.weights and self.method != "weighted":
            raise ValueError(f'weights are for method = "weighted", not {self.method!r}')
        return self
