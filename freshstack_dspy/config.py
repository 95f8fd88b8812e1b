"""The configuration of a build: one Pydantic model, read from TOML."""

import difflib
import hashlib
import json
import operator
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date
from importlib.metadata import distributions
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    PrivateAttr,
    SecretStr,
    SerializerFunctionWrapHandler,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)
from pydantic_core import PydanticKnownError

from freshstack_dspy.errors import ConfigError
from freshstack_dspy.faults import in_one_line
from freshstack_dspy.files import Uri, path_or_uri
from freshstack_dspy.records import (
    MIN_KAPPA,
    OF_THE_QUESTION,
    SCALES,
    TECHNIQUES,
    LanguageCode,
    Scale,
    ScaleName,
    Technique,
    searched_with,
)
from freshstack_dspy.registry import IMPORTED, Registry, is_imported, name_of
from freshstack_dspy.rows import rows_of

NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Section(BaseModel):
    """The base of all sections: immutable, and a misspelt key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        self._complete()
        for fault in self._faults():
            raise ValueError(fault)
        return self

    def _complete(self) -> None:
        """Set the defaults that depend on other keys."""

    def _faults(self) -> Iterator[str]:
        """What does not go together, the first of which is said."""
        yield from ()


def _given(value: Any, info: ValidationInfo) -> Any:
    """Take rows in any of their forms; a TOML file names a path."""
    if info.mode == "json":
        raise ValueError("is for Python, which has the rows in memory; name a path")
    return rows_of(value)


def _content_hash(rows: tuple[dict[str, Any], ...]) -> str:
    """SHA-256 of rows as JSON, which stands for them wherever a path would stand for its file."""
    return hashlib.sha256(json.dumps(rows, sort_keys=True, default=str).encode()).hexdigest()


GivenRows = Annotated[
    tuple[dict[str, Any], ...], BeforeValidator(_given), PlainSerializer(_content_hash)
]
"""Rows in memory: dictionaries, records, or a data frame. Written down, they are their hash."""


OTHER_SOURCES = Registry("freshstack_dspy.sources", "source of questions", {})
"""Sources of other packages: functions of `path`, which give a dictionary for each question."""
QueryColumn = Literal[
    "query_id",
    "title",
    "body",
    "answer_id",
    "answer",
    "tags",
    "asked_at",
    "score",
    "language",
    "weight",
    "question_author",
    "question_url",
    "question_licence",
    "answer_author",
    "answer_url",
    "answer_licence",
]
LogColumn = Literal["title", "weight", "results", "clicks", "scores", "session", "asked_at"]
"""What the columns of a log hold: `title` is the query, `weight` how often it was asked."""
KeptKind = Literal["generated", "minified", "vendored", "data", "licence"]


_SECRET = re.compile(r"(?i)https?://[^/]*@|\w+://[^/@]*:[^/@]*@|https?://[^?#]*[?#]")


def _is_none(value: object) -> bool:
    return value is None


def _is_unset(value: object) -> bool:
    """Tell defaults that are not written down, so that manifests without them are equal."""
    return value in (RoleConfig(), "bm25s", APPROXIMATE_ABOVE, "cross_encoder", {})


class QueriesConfig(Section):
    """Where the questions and their accepted answers come from, and which of them are kept.

    `source` says how they are read, and decides which of the other keys it takes.
    """

    source: str = "jsonl"
    """`jsonl`, `csv`, `parquet`, `stackexchange` (an unpacked dump: `Posts.xml` or its folder),
    `log` (searches, or exported traces: what users asked), `synthetic` (a model makes them from the documents), or one of an installed package; see
    `OTHER_SOURCES`."""
    path: Path | None = None
    """A file or a folder; for all sources but `synthetic`."""
    rows: GivenRows | None = Field(default=None, repr=False, exclude_if=_is_none)
    """Or, in Python, the questions themselves: a list of dictionaries or records, or a data frame."""
    language: LanguageCode | None = Field(default=None, exclude_if=_is_none)
    """That all are in, one of `languages`; None: each is looked at."""
    tags: tuple[str, ...] = ()
    """Keep questions with any of these; empty: all."""
    all_tags: tuple[str, ...] = ()
    """Keep questions that have every one of these."""
    exclude_tags: tuple[str, ...] = ()
    """Leave out questions with any of these."""
    retired: tuple[str, ...] = ()
    """Leave out the questions with these ids."""
    since: str | None = None
    """Keep questions asked on or after this ISO date; a date of TOML will do."""
    until: str | None = None
    """Keep questions asked before this ISO date."""
    min_score: int | None = None
    """Keep questions with this score or a higher one."""
    licences: tuple[str, ...] = ()
    """Keep questions whose question and answer are both under one of these; empty: all."""
    min_corpus_overlap: float | None = Field(default=None, ge=0, le=1)
    """Leave out questions with a smaller share of their rare terms in the corpus, as 0.7."""
    images: Literal["keep", "drop"] = "keep"
    """What becomes of questions whose content is in an image, which no step is shown."""
    limit: int | None = Field(default=None, ge=1)
    """Keep this many at most: the first in order of their ids."""
    columns: dict[QueryColumn | LogColumn, str] = Field(default_factory=dict)
    """For tables and logs: the column that holds each part of a query."""
    fields: tuple[str, ...] | None = None
    """For tables: which other columns are kept with a query, as groups; None: all."""
    site: str | None = None
    """For `stackexchange`: the site's host, for the links of the attribution, as
    `stackoverflow.com`."""
    min_answer_score: int | None = None
    """For `stackexchange`: keep questions whose accepted answer has this score or a higher one."""
    duplicates: Literal["keep", "drop"] = "keep"
    """For `stackexchange`: what becomes of questions that were closed as duplicates of another
    (PostLinks.xml)."""
    count: int | None = Field(default=None, ge=1, le=100_000)
    """For `synthetic`: exactly how many queries to make."""
    per_seed: int = Field(default=2, ge=1, le=20)
    """For `synthetic`: questions asked for in one request."""
    sample: int | None = Field(default=None, ge=1, exclude_if=_is_none)
    """For `log`: how many of its questions to draw; None: all. See `sample_questions`."""
    mask: dict[str, str | Literal[False]] | Literal[False] = Field(
        default_factory=dict, exclude_if=_is_unset
    )
    """For `log`: your own regular expressions by name, masked as personal data is, or `false` to turn
    a rule off; `mask = false` masks nothing."""
    seed: int = 0
    """For `synthetic`: decides in which order chunks are sampled. For `log`: what is sampled."""
    chunks: int = Field(default=1, ge=1, le=10)
    """For `synthetic`: chunks that each question is made from; related ones, of which it needs more
    than one."""
    min_tokens: int = Field(default=64, ge=1)
    """For `synthetic`: tokens of the shortest chunk that is sampled."""
    sources: tuple[str, ...] = ()
    """For `synthetic`: names of the `[[corpus]]` to sample from; empty: all."""
    style: Path | None = None
    """For `synthetic`: a file with questions whose style and length to follow, one a line, or JSON
    Lines."""

    @property
    def place(self) -> str:
        """Where the questions are, for messages."""
        return "queries.rows" if self.path is None else str(self.path)

    @property
    def file(self) -> Path:
        """The file or folder of a source that has one."""
        assert self.path is not None
        return self.path

    @field_validator("source")
    @classmethod
    def _exists(cls, source: str) -> str:
        if source not in SOURCES and source not in (others := OTHER_SOURCES.names()):
            allowed = ", ".join((*SOURCES, *others))
            raise ValueError(f"there is none of the name {source!r}; allowed: {allowed}")
        return source

    def _faults(self) -> Iterator[str]:
        synthetic = self.source == "synthetic"
        allowed = {"source", "language", *(_SYNTHETIC if synthetic else (*_FILTERS, "path"))}
        allowed |= set(_OF_SOURCE.get(self.source, () if synthetic else _TABLE))
        allowed -= _NOT_OF_LOGS if self.source == "log" else set()
        if others := sorted(self.model_fields_set - allowed - {"rows"}):
            allowed_here = ", ".join(sorted(allowed))
            yield f"source {self.source} has no key {others[0]}; allowed here: {allowed_here}"
        needed = "count" if synthetic else "path"
        if getattr(self, needed) is None and self.rows is None:
            yield f"{needed} is missing"
        parts = get_args(LogColumn if self.source == "log" else QueryColumn)
        if unknown := [part for part in self.columns if part not in parts]:
            yield f"columns: {unknown[0]} is no part of these questions; allowed: {', '.join(parts)}"
        if self.rows is not None and (self.source not in ("jsonl", "log") or self.path is not None):
            yield "rows take the place of path, and have no other source"


SOURCES = ("stackexchange", "jsonl", "csv", "parquet", "log", "synthetic")
_TABLE = ("columns", "fields")
_SYNTHETIC = ("count", "per_seed", "seed", "chunks", "min_tokens", "sources", "style")
_OF_SOURCE: dict[str, tuple[str, ...]] = {
    "stackexchange": ("site", "min_answer_score", "duplicates"),
    "log": ("columns", "sample", "seed", "mask"),
}
"""The keys that not every source of questions takes."""
_FILTERS = (
    *("tags", "all_tags", "exclude_tags", "retired", "since", "until", "min_score"),
    *("licences", "min_corpus_overlap", "images", "limit"),
)


_NOT_OF_LOGS = {"tags", "all_tags", "exclude_tags", "min_score", "licences", "images", "limit"}


class CorpusConfig(Section):
    """One set of documents: a folder, a git repository, an installed package, JSON Lines."""

    name: str = Field(min_length=1, pattern=r"^[^/\s]+$")
    path: Path | None = None
    """A folder, a git repository (with `revision`) or a JSON Lines file."""
    url: str | None = None
    """Or a git repository elsewhere, which is copied to `cache.clones`."""
    package: str | None = None
    """Or the name of an installed Python distribution."""
    documents: GivenRows | None = Field(default=None, repr=False, exclude_if=_is_none)
    """Or, in Python, the documents themselves, each with `id` (or `path`), `text` and perhaps
    `title`: a list of dictionaries or records, or a data frame."""
    revision: str | None = None
    """A commit, tag or branch; makes `path` a git repository. The default for a `url` is its HEAD."""
    include: tuple[str, ...] = ()
    """Globs of paths to keep; empty: all."""
    exclude: tuple[str, ...] = ()
    """Globs of paths to leave out."""
    keep: tuple[KeptKind, ...] = ()
    """Kinds of files that are left out otherwise."""
    language: LanguageCode | None = Field(default=None, exclude_if=_is_none)
    """That all of its documents are in, one of `languages`; None: each is looked at."""
    pages: bool = False
    """Read HTML as pages, for what they say, and not as source code."""

    @field_validator("url")
    @classmethod
    def _without_password(cls, url: str | None) -> str | None:
        if url is not None and _SECRET.match(url):
            raise ValueError(
                "holds a name or password; leave them out, and let git ask its credential helper, "
                "or use an address of SSH, such as git@host:path"
            )
        return url

    def _faults(self) -> Iterator[str]:
        known = ("path", "url", "package", "documents")
        places = [key for key in known if getattr(self, key) is not None]
        if len(places) != 1:
            named = places or "none"
            yield f"name one of path, url and package, or in Python documents, not {named}"
        if self.package is not None and self.revision is not None:
            yield "a package has no revision; leave it out"


Boundaries = Literal["packed", "stable"]


class ChunkingConfig(Section):
    """How files are cut."""

    max_tokens: int = Field(default=512, ge=32, le=8192)
    boundaries: Boundaries = "packed"
    """`packed`: each chunk is as long as it may be. `stable`: a change of a file moves only the
    boundaries near it; chunks are 5 to 10 % shorter."""
    max_file_bytes: int = Field(default=1_000_000, ge=1)


FusionMethod = Literal["normalised_sum", "rrf", "weighted"]
RETRIEVERS = ("bm25", "lsa", "hybrid")
"""The names of retrievers that every index has or that are made of others."""
RERANKED = "+rerank"
"""The end of the name of a retriever whose first results are reranked."""


def base_of(retriever: str) -> str:
    """The retriever whose results another reranks, or itself."""
    return retriever.removesuffix(RERANKED)


def reranked_names(names: Sequence[str], reranker: object) -> list[str]:
    """Retrievers, and with a reranker each of them reranked."""
    return [*names, *(f"{name}{RERANKED}" for name in names if reranker is not None)]


Lexical = Literal["bm25s", "lance"]
"""What the retriever `bm25` is: files of bm25s, or LanceDB's full-text index."""
DIMENSIONS, APPROXIMATE_ABOVE = 256, 200_000
K1, B = 1.2, 0.75
"""Lucene's defaults. On SciFact and on search for functions by their docstrings they are better
than Anserini's .9 and .4."""


def _place(value: Any) -> Path | Uri:
    """Take a path, or the URI of an object store."""
    if not isinstance(value, str | Path):
        raise ValueError("is a path, or a URI as s3://bucket/name")  # noqa: TRY004 - for pydantic
    place = path_or_uri(value)
    if isinstance(place, Uri):
        scheme, _, name = place.partition("://")
        if scheme in ("db", "file", "memory", "shared-memory", "http", "https"):
            raise ValueError(
                f"is no object store ({scheme}://); name a folder, s3://, gs:// or az://"
            )
        if "@" in name.partition("/")[0] and not scheme.startswith("abfs"):
            raise ValueError("holds a name or password; set them in the environment")
        if not name.strip("/"):
            raise ValueError("names no bucket; write it as s3://bucket/name")
    return place


class IndexConfig(Section):
    """How chunks are indexed."""

    path: Annotated[Path | Uri, PlainValidator(_place), PlainSerializer(str, when_used="json")] = (
        Path(".freshstack/index")
    )
    """A folder, or the URI of an object store that LanceDB takes, such as `s3://bucket/name`."""
    dimensions: int = Field(default=DIMENSIONS, ge=2, le=2048)
    """Dimensions of the `lsa` embedder; fewer where the corpus has fewer."""
    lexical: Lexical = Field(default="bm25s", exclude_if=_is_unset)
    """What `bm25` is: `bm25s`, fast and in memory while it is built; or `lance`, LanceDB's
    full-text index over the same terms, for corpora that outgrow memory. It has no `lsa`."""
    approximate_above: int = Field(default=APPROXIMATE_ABOVE, ge=0, exclude_if=_is_unset)
    """With more chunks an embedder's vectors are searched by an approximate index."""
    k1: NotNegative | None = Field(default=None, exclude_if=_is_none)
    """How slowly a repeated term saturates in `bm25`; None: 1.2. `lance` has no other."""
    b: float | None = Field(default=None, ge=0, le=1, exclude_if=_is_none)
    """How far `bm25` normalises by a chunk's length, from 0 to 1; None: 0.75. `lance` has no other."""

    def _faults(self) -> Iterator[str]:
        if isinstance(self.path, Uri) and self.lexical == "bm25s":
            yield f'path is {self.path}, and bm25s needs a folder; write lexical = "lance"'
        if self.lexical == "lance" and (self.k1, self.b) != (None, None):
            yield 'k1 and b are for lexical = "bm25s"; the full-text index of LanceDB takes neither'


class ProviderConfig(Section):
    """How a provider of models is asked."""

    api_base: str | None = None
    api_key: SecretStr | None = None
    """Better left to the provider's environment variable."""
    concurrency: int = Field(default=16, ge=1, le=1024)
    """Most requests in flight; fewer while the provider answers that they are too many."""
    timeout: float = Field(default=120, gt=0, allow_inf_nan=False)
    """Seconds for one attempt, from its start to the last byte of the reply."""
    retries: int = Field(default=4, ge=0, le=20)
    """Attempts after the first on rate limits, timeouts and server errors."""


class SearchModelConfig(ProviderConfig):
    """A model that embeds or reranks: one of LiteLLM's, or one in a folder."""

    path: Path | None = None
    """The folder of a sentence-transformers model or cross-encoder, in place of `model`."""
    price: NotNegative | None = None
    """US dollars per million tokens, where LiteLLM's table of prices has none or is wrong."""
    concurrency: int = Field(default=8, ge=1, le=256)


_MODEL_OR_PATH = "name either model, of LiteLLM, or path, a sentence-transformers folder"


class EmbedderConfig(SearchModelConfig):
    """A model that gives each chunk a vector; its name is that of the retriever."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=60)
    model: str | None = None
    """As LiteLLM calls it: `openai/text-embedding-3-small`."""
    dimensions: int | None = Field(default=None, ge=2, le=8192)
    """The length of the vectors, where the model can shorten them."""
    query_prefix: str = ""
    passage_prefix: str = ""
    max_tokens: int | None = Field(default=None, ge=16)
    """Longer texts are cut to this many tokens, prefix included; by default to what the model is
    known to take. For a hosted model, tokens are counted as cl100k_base."""
    batch: int = Field(default=64, ge=1, le=2048)
    """Most texts in one request."""

    def _faults(self) -> Iterator[str]:
        if (self.model is None) == (self.path is None):
            yield _MODEL_OR_PATH
        if self.name in RETRIEVERS:
            yield f"name is {self.name!r}, which is taken; call it otherwise"


class FusionConfig(Section):
    """How the rankings of several retrievers become one."""

    method: FusionMethod = "normalised_sum"
    """The formulas are in `docs/retrieval.md`."""
    weights: dict[str, NotNegative] = Field(default_factory=dict)
    """The weight of each retriever, for `weighted`; those not named weigh 1, those of 0 are left out."""

    def _faults(self) -> Iterator[str]:
        if self.weights and self.method != "weighted":
            yield f'weights are for method = "weighted", not {self.method!r}'


Mode = Literal["live", "replay", "defer", "rerecord"]
MODES: tuple[Mode, ...] = get_args(Mode)


Structured = Literal["json_schema", "json_object", "none"]
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


class PricesConfig(Section):
    """What a model costs, in US dollars per million tokens, where LiteLLM's table is wrong."""

    input: NotNegative | None = None
    output: NotNegative | None = None
    batch_input: NotNegative | None = None
    """Through the provider's batch API."""
    batch_output: NotNegative | None = None


class ModelConfig(ProviderConfig):
    """Which language model is asked, and how."""

    name: str = "extractive/baseline"
    temperature: float | None = Field(default=None, ge=0, le=2)
    """None, as for the next three: what fits the model. It is 0.1, and the provider's own where the
    model thinks or takes none."""
    top_p: float | None = Field(default=None, gt=0, le=1)
    max_tokens: int | None = Field(default=None, ge=16)
    """Longest reply, in tokens, thoughts included. None: what the answer to each question needs, and
    room for thoughts where the model thinks; never more than it can write."""
    reasoning_effort: Effort | None = None
    """How much the model thinks before it answers. None: as much as it does by itself."""
    reasks: int = Field(default=2, ge=0, le=10)
    """How often an invalid reply is sent back with its error."""
    context: int | None = Field(default=None, ge=1024)
    """Tokens that fit into one request with its reply; by default what LiteLLM knows of the model."""
    structured: Structured | None = None
    """How the reply's shape is asked for; the prompt describes it in any case. None: as strictly as
    the provider enforces it."""
    prices: PricesConfig | None = Field(default=None, exclude_if=_is_none)
    """What it costs; None: what `[prices]` says, which is of the model that `[model]` names."""
    _provider: Any = PrivateAttr(None)
    _section: str = PrivateAttr("[model]")

    @property
    def provider(self) -> Any:
        """What answers in place of what the name chooses: the engine of the LM that it was made of."""
        return self._provider

    @property
    def section(self) -> str:
        """Where it is configured, for messages."""
        return self._section

    def answered_by(self, provider: Any) -> Self:
        """A copy that this answers."""
        copied = self.model_copy()
        copied._provider = provider  # noqa: SLF001 - its own
        return copied


TRANSPORT = frozenset(["api_key", "concurrency", "timeout", "retries", "prices"])
"""Keys of a model that change none of its answers."""


def _named(value: Any) -> Any:
    return {"name": value} if isinstance(value, str) else value


RoleModel = Annotated[ModelConfig | None, BeforeValidator(_named)]
"""The model of a role: a name, or a table with the keys of `[model]`; None: `[model]`.

A table without a name is `[model]` with other settings; one with a name starts from the defaults.
"""
Role = Literal["judge", "nuggets", "synthesis", "generator", "gold_generator", "reranker"]
"""Who may have a model of their own, by the section that names it."""


RerankMethod = Literal["cross_encoder", "listwise", "setwise", "pointwise", "mmr"]
_HOSTED = ("model", "path", "price", *ProviderConfig.model_fields)
_OF_METHOD: dict[str, tuple[str, ...]] = {
    "cross_encoder": _HOSTED,
    "listwise": ("model", "window", "step"),
    "setwise": ("model", "window", "top_k"),
    "pointwise": ("model",),
    "mmr": ("vectors", "mmr_lambda"),
}
"""The keys of `[reranker]` that not every method takes."""


class RerankerConfig(SearchModelConfig):
    """What reranks the first chunks of a retriever: `NAME+rerank`."""

    depth: int = Field(default=50, ge=1, le=1000)
    """How many chunks are reranked for each text; no others are found."""
    method: RerankMethod = Field(default="cross_encoder", exclude_if=_is_unset)
    """`cross_encoder`: a model in a folder or of LiteLLM's rerank scores each chunk. `listwise`,
    `setwise`, `pointwise`: a chat model orders, chooses or grades them. `mmr`: vectors of the index,
    and no model."""
    model: str | ModelConfig | None = None
    """For `cross_encoder` as LiteLLM calls it, `cohere/rerank-v3.5`. For a chat model its name or a
    table with the keys of `[model]`; None: `[model]`."""
    window: int | None = Field(default=None, ge=2, le=100, exclude_if=_is_none)
    """Chunks in one call; by default 20 for `listwise`, 4 for `setwise`."""
    step: int | None = Field(default=None, ge=1, le=100, exclude_if=_is_none)
    """For `listwise`: by how many chunks the window moves; by default half the window."""
    top_k: int | None = Field(default=None, ge=1, le=1000, exclude_if=_is_none)
    """For `setwise`: how many of the best are looked for; by default 10."""
    vectors: str | None = Field(default=None, exclude_if=_is_none)
    """For `mmr`: `lsa`, the default, or the name of an embedder."""
    mmr_lambda: float | None = Field(default=None, ge=0, le=1, exclude_if=_is_none)
    """For `mmr`: 1 ranks by similarity to the query alone, 0 by novelty alone; by default 0.7."""

    @property
    def asks_chat(self) -> bool:
        """Whether a chat model reranks, by a program."""
        return self.method in ("listwise", "setwise", "pointwise")

    @field_validator("model", mode="before")
    @classmethod
    def _chat_model(cls, value: Any, info: ValidationInfo) -> Any:
        return (
            value if info.data.get("method", "cross_encoder") == "cross_encoder" else _named(value)
        )

    def _faults(self) -> Iterator[str]:
        allowed = {"depth", "method", *_OF_METHOD[self.method]}
        if others := sorted(self.model_fields_set - allowed):
            hint = "; it belongs into [reranker.model]" * (self.asks_chat and others[0] in _HOSTED)
            yield (
                f"method {self.method} has no key {others[0]}{hint}; allowed here: "
                f"{', '.join(sorted(allowed))}"
            )
        if self.method == "cross_encoder":
            if isinstance(self.model, ModelConfig):
                yield 'model is a table, which goes with method = "listwise", "setwise" or "pointwise"'
            if (self.model is None) == (self.path is None):
                yield f"{_MODEL_OR_PATH}, or a method that needs none: listwise, setwise, pointwise, mmr"
        if self.step and self.step > (self.window or 20):
            yield f"step ({self.step}) cannot be larger than window ({self.window or 20})"


class RetrieverConfig(Section):
    """A retriever that `retrieve --all` runs."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*$", max_length=100)
    """The name of the run, and of its file; followed by `@` and `with`, where that is given."""
    with_: Technique = Field(default="question", alias="with")
    """What is searched with, as `retrieve --with`."""
    retriever: str | None = None
    """As `retrieve --retriever`; None: what it is called."""
    fusion: FusionConfig | None = None
    """For `hybrid` and `hybrid+rerank`, in place of `[fusion]`."""
    reranker: RerankerConfig | None = None
    """For `NAME+rerank`, in place of `[reranker]`."""

    @property
    def run(self) -> str:
        """The name of its run."""
        return searched_with(self.name, self.with_)

    @property
    def by(self) -> str:
        """What it runs."""
        return self.retriever or self.name

    def _faults(self) -> Iterator[str]:
        if self.fusion and base_of(self.by) != "hybrid":
            yield f"fusion is for hybrid and hybrid+rerank, and this is {self.by!r}"
        if self.reranker and base_of(self.by) == self.by:
            yield f"reranker is for a retriever NAME{RERANKED}, and this is {self.by!r}"


class BudgetConfig(Section):
    """What a collection may cost in all, over all its runs; no entry: no cap."""

    dollars: NotNegative | None = None
    """US dollars."""
    tokens: int | None = Field(default=None, ge=0)
    """Input and output tokens."""
    calls: int | None = Field(default=None, ge=0)


class CacheConfig(Section):
    """Where replies, and copies of repositories, are kept."""

    path: Path = Path(".freshstack/cache")
    clones: Path = Path(".freshstack/clones")
    """Copies of the repositories that a corpus names by URL."""
    bundles: tuple[Path, ...] = ()
    """Recorded replies to read next to the store: JSON Lines files."""


class EngineConfig(Section):
    """Where the work is done that can be done elsewhere; what is made does not depend on it."""

    name: Literal["local", "ray"] = "local"
    """`local`: in this process. `ray`: over a cluster."""
    address: str = Field(default="auto", pattern=r"^(auto|[^/\s]+:\d+)$")
    """The address of the cluster, such as `10.0.0.1:6379`; `auto`: the one that this machine is a node of."""
    gpus: NotNegative = 0.0
    """GPUs for each model in a folder that embeds, on a node of the cluster."""


class NuggetsConfig(Section):
    """How answers are cut into nuggets."""

    limit: int = Field(default=10, ge=1, le=50)
    """With recipe = "nuggets", by default 20."""
    edited: Path | None = None
    """Nuggets that people edited, as lines of `nuggets.jsonl` or a labels file with lists of
    nuggets: each query that the file names has these and no others."""
    model: RoleModel = Field(default=None, exclude_if=_is_none)
    """The model that makes and rates nuggets."""


class RoleConfig(Section):
    """Who does what one role does: `[synthesis]`, `[generator]` and `[gold_generator]`."""

    model: RoleModel = Field(default=None, exclude_if=_is_none)
    """The model that does."""


class SubQuestionsConfig(Section):
    """How questions are decomposed."""

    limit: int = Field(default=5, ge=1, le=20)


class CruxConfig(Section):
    """How `recipe = "crux"` makes a collection of reports and their documents."""

    sub_questions: int = Field(default=10, ge=1, le=50)
    """How many sub-questions each report is asked for, exactly. The paper has 10 for Multi-News and 15 for DUC."""
    passages: int = Field(default=3, ge=1, le=20)
    """The most that are written from one piece of a document, of at most 1,024 tokens."""
    distractors: Literal["chunks", "passages"] = "chunks"
    """What is searched of each [[corpus]] next to the passages: its chunks, or passages that are
    written from each chunk, as in the paper."""
    min_words: int = Field(default=0, ge=0)
    """Leave out reports with fewer words."""


def _pool_retriever(value: Any, info: ValidationInfo) -> Any:
    """Take a name, a run file, or in Python a retriever."""
    if not isinstance(value, str):
        if info.mode == "json" or value is None:
            raise ValueError("is the name of a retriever, of an object to import, or of a run file")
        return value
    return Path(value) if "/" in value or value.endswith((".run", ".jsonl")) else value


def _pool_retriever_name(value: Any) -> str:
    """What a retriever of a pool is called: a run file by its file name, on every machine alike."""
    if isinstance(value, Path):
        return value.name
    return value if isinstance(value, str) else name_of(value)


PoolRetriever = Annotated[
    Any, BeforeValidator(_pool_retriever), PlainSerializer(_pool_retriever_name)
]


class PoolConfig(Section):
    """Which chunks are judged."""

    depth: int = Field(default=100, ge=1)
    """How many chunks each retriever gives for each technique."""
    top_k: int = Field(default=20, ge=1)
    """How many chunks of each technique's fused list are judged."""
    per_file: int | None = Field(default=None, ge=1)
    """How many of them may be from one file; None: any number."""
    techniques: tuple[Technique, ...] = TECHNIQUES
    retrievers: tuple[PoolRetriever, ...] = ("bm25", "lsa")
    """Names of the index's, and one's own: an object to import, such as `mine.search:qdrant`; a run file,
    which counts for the technique `question`; or, in Python, what `retrieve` takes."""
    lists: Literal["concatenate", "fuse"] = "concatenate"
    """Whether the sub-questions, and the nuggets, of a query are one text to search with (the
    paper), or each is searched with and their rankings are fused."""

    @property
    def names(self) -> tuple[str, ...]:
        """What the retrievers are called."""
        return tuple(map(_pool_retriever_name, self.retrievers))

    @property
    def own(self) -> dict[str, Any]:
        """One's own retrievers by name: a path, the name of an object to import, or an object."""
        named = zip(self.names, self.retrievers, strict=True)
        return {
            name: base_of(retriever) if isinstance(retriever, str) else retriever
            for name, retriever in named
            if not isinstance(retriever, str) or is_imported(base_of(retriever))
        }

    @property
    def reranks(self) -> bool:
        """Whether the results of any of them are reranked."""
        return any(base_of(name) != name for name in self.names)

    def _faults(self) -> Iterator[str]:
        for key, values in (("techniques", self.techniques), ("retrievers", self.names)):
            if not values or len(set(values)) != len(values):
                yield f"{key} takes at least one name, each once, not {list(values)}"
        files = [one.name for one in self.retrievers if isinstance(one, Path)]
        if files and "question" not in self.techniques:
            yield f'retrievers: {files[0]} is a run, and counts for the technique "question" alone'
        if len(files) == len(self.names) and self.techniques != ("question",):
            yield (
                "retrievers are runs alone, which count for the question; write techniques = "
                '["question"], or name another retriever'
            )
        if self.top_k > self.depth:
            yield f"top_k ({self.top_k}) cannot be larger than depth ({self.depth})"


class JudgeConfig(Section):
    """How support is judged; of recipe crux on scale graded_5 where none is named."""

    shape: Literal["batch", "windowed", "pairwise"] = "batch"
    """What one call holds: all nuggets and several chunks (FreshStack), some nuggets and one chunk
    (nuggetizer), or one nugget and one chunk (CRUX, UMBRELA)."""
    batch: int = Field(default=20, ge=1, le=100)
    """Most chunks in one call of shape batch."""
    window: int = Field(default=10, ge=1, le=50)
    """Most nuggets in one call of shape windowed."""
    scale: ScaleName = "support"
    threshold: int | None = Field(default=None, ge=1)
    """The lowest label that counts as support; by default that of the scale."""
    shuffle: int | None = Field(default=None, ge=0)
    """A seed to shuffle the chunks of each query by; None: in the order of their ids."""
    votes: int = Field(default=1, ge=1, le=15)
    """How often each pair is judged, each time with the chunks in another order; odd."""
    duplicates: Literal["share", "judge"] = "share"
    """Whether pooled chunks of one query that say the same share one judgment, or each is judged."""
    edited: Literal["follow", "judge"] = Field(default="follow", exclude_if="follow".__eq__)
    """What happens to a label of support if its chunk was edited around the quoted words: `follow`
    keeps it with the words, `judge` judges the chunk again."""
    model: RoleModel = Field(default=None, exclude_if=_is_none)
    """The model that judges support and relevance, and rates and compares answers."""

    @property
    def graded(self) -> Scale:
        """The scale with the threshold that holds."""
        return Scale(name=self.scale, threshold=self.threshold or SCALES[self.scale].threshold)

    def _faults(self) -> Iterator[str]:
        if "scale" in self.model_fields_set:  # else the recipe decides the scale
            _ = self.graded  # a threshold that the scale lacks is an error of its own
        if self.votes % 2 == 0:
            yield f"votes is an odd number, so that there is a majority, not {self.votes}"


Day = Annotated[str, AfterValidator(lambda day: date.fromisoformat(day).isoformat())]


class ContaminationConfig(Section):
    """How far a model knows the queries already."""

    score: bool = True
    """Whether the closed-book answers are judged against the nuggets: one more call for each
    query, where the pool has that technique."""
    cutoff: Day | None = None
    """The ISO date up to which the model has read."""
    ngram: int = Field(default=8, ge=2, le=50)
    """Words of a run of words that a question and a supporting chunk share."""
    near_duplicate: float = Field(default=0.8, gt=0, le=1)
    """From which similarity on two questions ask nearly the same: Jaccard of their terms."""


_DEFAULTS: dict[str, dict[str, dict[str, Any]]] = {
    "crux": {"judge": {"scale": "graded_5"}},
    "nuggets": {"pool": {"techniques": OF_THE_QUESTION}, "nuggets": {"limit": 20}},
}
"""By recipe and section, the defaults that differ."""


Imported = Annotated[str, Field(pattern=IMPORTED)]
"""An object to import, such as `mine.steps:MyNuggetizer`."""


OF_ANSWERS = frozenset(["comparer", "contradiction_finder"])
"""The programs that no recipe has: `freshstack answer` asks them."""


class ProgramConfig(Section):
    """A program in place of the one that a recipe makes: another class, a saved state, or both."""

    program: Imported | None = None
    """A `dspy.Module`, or what gives one when it is called; None: the recipe's own."""
    state: Path | None = None
    """What `freshstack optimize` or DSPy's `save` wrote of it."""

    @model_validator(mode="before")
    @classmethod
    def _name_or_file_alone(cls, value: Any) -> Any:
        if not isinstance(value, str | Path):
            return value
        return {"program": value} if is_imported(value) else {"state": value}


class ProgramsConfig(Section):
    """Programs to use in place of the plain ones: own ones, and optimized ones."""

    nuggetizer: ProgramConfig | None = None
    question_decomposer: ProgramConfig | None = None
    closed_book_answerer: ProgramConfig | None = None
    support_judge: ProgramConfig | None = None
    comparer: ProgramConfig | None = None
    """The program of `yes_no` comparisons of answers (LLM-retEval)."""
    contradiction_finder: ProgramConfig | None = None
    """The program that finds the nuggets which an answer of a system contradicts."""
    reranker: ProgramConfig | None = None
    """The program of a `[reranker]` that asks a chat model."""

    @property
    def named(self) -> dict[str, ProgramConfig]:
        """Those that are set, by name."""
        return {name: of for name, of in self if of is not None}


def _one_or_several(value: Any) -> Any:
    """Take one path for a list of it; a list becomes what a strict model takes."""
    paths = [value] if isinstance(value, str) else value
    return tuple(paths) if isinstance(paths, list) else value


class TrustConfig(Section):
    """From which agreement with people on a collection is called calibrated."""

    min_kappa: float = Field(default=MIN_KAPPA, ge=0, le=1)
    """What the lower end of the interval of Cohen's kappa has to reach, of labels read as support
    or none."""
    labels: Annotated[tuple[Path, ...], BeforeValidator(_one_or_several)] = ()
    """A file of people's labels, or several; without one nothing is measured."""


RECIPES = ("freshstack", "crux", "nuggets")


def _recipe(name: str) -> str:
    if name not in RECIPES and not is_imported(name):
        near = difflib.get_close_matches(name, RECIPES, 1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise ValueError(
            f"there is none of the name {name!r}; {hint}allowed: {', '.join(RECIPES)}, or one of "
            "your own, such as mine.recipes:MyRecipe"
        )
    return name


class RecipeConfig(Section):
    """Which recipe is run."""

    program: Annotated[str, AfterValidator(_recipe)] = "freshstack"
    """`nuggets`: for questions without answers; or one of your own, as
    `mine.recipes:MyRecipe`."""
    state: Path | None = None
    """What `freshstack optimize` or DSPy's `save` wrote of all its programs."""

    @model_validator(mode="before")
    @classmethod
    def _name_alone(cls, value: Any) -> Any:
        return {"program": value} if isinstance(value, str) else value

    @model_serializer(mode="wrap")
    def _by_name(self, handler: SerializerFunctionWrapHandler) -> Any:
        return self.program if self.state is None else handler(self)


class BuildConfig(Section):
    """All of a build."""

    name: str = Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    recipe: RecipeConfig = RecipeConfig()
    out: Path
    languages: tuple[LanguageCode, ...] = Field(default=(), exclude_if=operator.not_)
    """Those of the questions and documents, such as `["de", "en"]`: which one each is in is recorded,
    and the terms of `bm25` and `lsa` are made by it. Empty: nothing is recorded, and terms are
    English ones."""
    queries: QueriesConfig
    corpus: tuple[CorpusConfig, ...] = Field(default=(), validate_default=True)
    """The documents; of `crux` those that no report was written from, and that may lack."""
    chunking: ChunkingConfig = ChunkingConfig()
    index: IndexConfig = IndexConfig()
    embedder: tuple[EmbedderConfig, ...] = ()
    reranker: RerankerConfig | None = None
    fusion: FusionConfig = FusionConfig()
    retriever: tuple[RetrieverConfig, ...] = Field(default=(), exclude=True)
    """Those that `retrieve --all` runs, in place of all; no build depends on them."""
    model: ModelConfig = ModelConfig()
    prices: PricesConfig = PricesConfig()
    budget: BudgetConfig = BudgetConfig()
    cache: CacheConfig = CacheConfig()
    engine: EngineConfig = Field(default=EngineConfig(), exclude=True)
    """Where requests are answered; no record of a collection depends on it."""
    nuggets: NuggetsConfig = NuggetsConfig()
    crux: CruxConfig = CruxConfig()
    sub_questions: SubQuestionsConfig = SubQuestionsConfig()
    pool: PoolConfig = PoolConfig()
    judge: JudgeConfig = JudgeConfig()
    synthesis: RoleConfig = Field(default=RoleConfig(), exclude_if=_is_unset)
    """Who makes synthetic questions, and the passages and requests of recipe `crux`."""
    generator: RoleConfig = Field(default=RoleConfig(), exclude_if=_is_unset)
    """Who writes the answers of `answer` and the reports of `contexts`."""
    gold_generator: RoleConfig = Field(default=RoleConfig(), exclude_if=_is_unset)
    """Who writes the answers from gold chunks; by default the model of `[generator]`."""
    contamination: ContaminationConfig = ContaminationConfig()
    programs: ProgramsConfig = ProgramsConfig()
    trust: TrustConfig = TrustConfig()
    _file: Path = PrivateAttr(Path("CONFIG"))

    @property
    def file(self) -> Path:
        """The TOML file it was read from, for messages that say what to type."""
        return self._file

    def model_of(self, role: Role | None) -> ModelConfig:
        """The model of a role; that of `[model]` for None, and where the role names none.

        The default of `gold_generator` is the model of `generator`.
        """
        own = self.own_model(role) if role else None
        default = self.model_of("generator") if role == "gold_generator" else self.model
        if own is None:
            return default
        settings = {name: getattr(own, name) for name in own.model_fields_set}
        if "name" in settings:
            prices = own.prices or (self.prices if own.name == self.model.name else PricesConfig())
            own = own.model_copy(update={"prices": prices})
        else:
            own = default.model_copy(update=settings)
        own._section = f"[{role}.model]"  # noqa: SLF001 - of this module
        return own

    def own_model(self, role: Role) -> ModelConfig | None:
        """What a role says of a chat model of its own, if it does."""
        model = getattr(getattr(self, role), "model", None)
        return model if isinstance(model, ModelConfig) else None

    @property
    def models(self) -> tuple[ModelConfig, ...]:
        """Every model that is named, once for each name and address; `[model]` first."""
        roles: tuple[Role | None, ...] = (None, *get_args(Role))
        named = {(one.name, one.api_base): one for one in map(self.model_of, reversed(roles))}
        return tuple(reversed(named.values()))

    def resolved(self) -> Self:
        """A copy in which every role that names a model has all its settings."""
        sections = {
            role: getattr(self, role).model_copy(update={"model": self.model_of(role)})
            for role in get_args(Role)
            if self.own_model(role) is not None
        }
        return self.model_copy(update=sections)

    @property
    def chunks_folder(self) -> Path:
        """Where chunks and what was seen in files are kept on this machine, next to the indexes.

        With an index in an object store it is next to the replies.
        """
        path = self.index.path
        return path if isinstance(path, Path) else self.cache.path.parent / "index"

    @field_validator("corpus")
    @classmethod
    def _corpus_where_needed(
        cls, corpus: tuple[CorpusConfig, ...], info: ValidationInfo
    ) -> tuple[CorpusConfig, ...]:
        if not corpus and info.data.get("recipe") != RecipeConfig(program="crux"):
            raise PydanticKnownError("missing")
        return corpus

    def _complete(self) -> None:
        for name, defaults in _DEFAULTS.get(self.recipe.program, {}).items():
            section = getattr(self, name)
            unset = {
                key: one for key, one in defaults.items() if key not in section.model_fields_set
            }
            if unset:
                given = section.model_dump(exclude_unset=True)
                vars(self)[name] = type(section).model_validate({**given, **unset})

    def _faults(self) -> Iterator[str]:
        queries, recipe = self.queries, self.recipe.program
        _ = self.judge.graded  # of a scale that is not set
        synthetic = queries.source == "synthetic"
        if recipe == "crux" and queries.source not in ("jsonl", "stackexchange"):
            yield (
                "recipe crux reads queries of source jsonl or stackexchange, and this is "
                f"{queries.source}"
            )
        if recipe == "crux" and self.judge.scale == "support":
            yield (
                "recipe crux has passages that a model wrote, in which words cannot be placed in "
                "the document; take judge.scale graded_5, graded_3 or binary"
            )
        answered = [name for name in self.pool.techniques if name in ("answer", "nuggets")]
        if recipe == "nuggets" and answered:
            yield (
                f'pool.techniques names {answered}, and with recipe = "nuggets" these are not '
                f"there before the pool; allowed: {', '.join(OF_THE_QUESTION)}"
            )
        if recipe == "nuggets" and (synthetic or self.programs.nuggetizer):
            what = "queries.source synthetic" if synthetic else "programs.nuggetizer"
            yield f'{what} needs answers; take it with recipe = "freshstack"'
        named = {"queries": queries.language}
        named |= {f"corpus {corpus.name!r}:": corpus.language for corpus in self.corpus}
        for key, language in named.items():
            if language is not None and language not in self.languages:
                yield (
                    f"{key} language is {language!r}, which languages lacks; write "
                    f"languages = {json.dumps([*self.languages, language])}"
                )
        stated = [name for name, program in self.programs.named.items() if program.state]
        if self.recipe.state is not None and (twice := [*{*stated} - OF_ANSWERS]):
            yield f"recipe.state is the state of every program; leave out that of programs: {twice}"
        yield from self._unknown_names()

    def _unknown_names(self) -> Iterator[str]:
        """What is named twice, or names no table."""
        sources = [corpus.name for corpus in self.corpus]
        own = [embedder.name for embedder in self.embedder]
        runs = [retriever.run.casefold() for retriever in self.retriever]
        for table, names in (("corpus", sources), ("embedder", own), ("retriever", runs)):
            if len(set(names)) != len(names):
                yield f"each [[{table}]] needs a name of its own, not {names}"
        words = RETRIEVERS[:2] if self.index.lexical == "bm25s" else ("bm25",)
        plain, rerankers = [*words, *own, "hybrid"], {"reranker": self.reranker}
        retrievers = reranked_names(plain, self.reranker)
        mine = self.pool.own
        if taken := sorted(mine.keys() & {*RETRIEVERS, *own, "fusion"}):
            yield f"pool.retrievers: {taken[0]!r} is the name of another; set its __name__"
        pooled = [name for name in self.pool.names if name not in mine or base_of(name) != name]
        checked: list[tuple[str, Iterable[str], list[str]]] = [
            ("queries.sources", self.queries.sources, sources),
            (
                "pool.retrievers",
                pooled,
                reranked_names([*plain, *map(base_of, mine)], self.reranker),
            ),
            ("fusion.weights", self.fusion.weights, [*retrievers, *mine]),
        ]
        for each in self.retriever:
            imported = filter(is_imported, [base_of(each.by)])
            weighed = each.fusion.weights if each.fusion else ()
            known = reranked_names([*plain, *imported], each.reranker or self.reranker)
            checked.append((f"retriever {each.name!r}", [each.by, *weighed], known))
            rerankers[f"retriever {each.name!r}: reranker"] = each.reranker
        checked += [
            (f"{key}.vectors", [reranker.vectors or "lsa"], [*words[1:], *own])
            for key, reranker in rerankers.items()
            if reranker and reranker.method == "mmr"
        ]
        for key, names_given, known in checked:
            if unknown := [name for name in names_given if name not in known]:
                hint = '; lsa is made where index.lexical is "bm25s"' * ("lsa" in unknown)
                hint += "; NAME+rerank needs a [reranker]" * any(base_of(n) != n for n in unknown)
                hint += "; your own is module:name or a run file, such as ./mine.run" * (
                    key == "pool.retrievers"
                )
                yield f"{key} names {unknown}; there are: {', '.join(known)}{hint}"


def load_config(path: Path | str) -> BuildConfig:
    """Read a TOML configuration.

    Raises:
        ConfigError: In one line with the file, the key, what was found and what is allowed.
    """
    config = _loaded(_values_of(Path(path)), Path(path))
    return _checked(config, [*_missing_inputs(config), *_outputs_in_the_corpus(config)])


def as_config(
    config: BuildConfig | Path | str, read: Callable[[Path | str], BuildConfig] = load_config
) -> BuildConfig:
    """Take a configuration, or read that of a TOML file."""
    if isinstance(config, BuildConfig):
        return config
    if not isinstance(config, Path | str):
        raise ConfigError(
            f"the configuration is {type(config).__name__}; give a BuildConfig, or the path of its "
            "TOML file"
        )
    return read(config)


def load_judging(
    path: Path | str | None,
    needed: tuple[str, ...] = ("cache.bundles ", "programs.", "trust.labels "),
) -> BuildConfig:
    """Read a TOML configuration for what it says of the models alone; None: the defaults.

    Judging for an existing collection needs no questions and no documents: `[queries]`,
    `[[corpus]]`, `name` and `out` may lack, and files may, but those of keys that begin as `needed`.

    Raises:
        ConfigError: As for `load_config`.
    """
    values: dict[str, Any] = {
        "name": "judging",
        "out": "collection",
        "queries": {"path": "questions.jsonl"},
        "corpus": [{"name": "corpus", "path": "corpus"}],
    }
    if path is not None:
        values |= _values_of(Path(path))
    config = _loaded(values, Path(path or "CONFIG"))
    return _checked(config, [one for one in _missing_inputs(config) if one.startswith(needed)])


def _loaded(values: dict[str, Any], path: Path) -> BuildConfig:
    # As JSON, so that dates are text and nothing else is silently made into another type.
    text = json.dumps(values, default=lambda moment: moment.isoformat())
    try:
        config: BuildConfig = _resolved(
            BuildConfig.model_validate_json(text, strict=True), path.parent
        )
    except ValidationError as error:
        raise ConfigError(f"{path}: {in_one_line(error, BuildConfig)}") from None
    except (OSError, RuntimeError, ValueError) as error:  # no path, or an unknown home
        raise ConfigError(f"{path}: {error}") from None
    config._file = path  # noqa: SLF001 - of this module
    return config


def _checked(config: BuildConfig, faults: list[str]) -> BuildConfig:
    if faults:
        raise ConfigError(f"{config.file}: {'; '.join(faults)}")
    return config


def _values_of(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        why = f"no such file; write a commented example with: freshstack init {path}"
    except tomllib.TOMLDecodeError as error:
        why = f"not valid TOML: {error}"
    except IsADirectoryError:
        why = "a folder; name the TOML file of a build"
    except (OSError, UnicodeDecodeError) as error:
        why = f"cannot be read: {error}"
    raise ConfigError(f"{path}: {why}")


def _resolved(value: Any, folder: Path) -> Any:
    """Resolve every path of a configuration against the folder of its file."""
    if isinstance(value, Path):
        path = (folder / value.expanduser()).resolve()
        path.exists()  # an error where no path can be so long
        return path
    if isinstance(value, Section):
        fields = {name: _resolved(field, folder) for name, field in value}
        changed = {name: one for name, one in fields.items() if one != getattr(value, name)}
        return value.model_copy(update=changed)  # the others stay as set or as unset
    return tuple(_resolved(one, folder) for one in value) if isinstance(value, tuple) else value


def _missing_inputs(config: BuildConfig) -> Iterator[str]:
    inputs = [
        *((f"queries.{key}", one) for key, one in config.queries if isinstance(one, Path)),
        *((f"corpus {corpus.name!r}: path", corpus.path) for corpus in config.corpus),
        *((f"embedder {one.name!r}: path", one.path) for one in config.embedder),
        ("reranker.path", config.reranker.path if config.reranker else None),
        ("recipe.state", config.recipe.state),
        ("nuggets.edited", config.nuggets.edited),
        *(("cache.bundles", bundle) for bundle in config.cache.bundles),
        *((f"programs.{name}", one.state) for name, one in config.programs.named.items()),
        *(("trust.labels", path) for path in config.trust.labels),
    ]
    for key, value in inputs:
        if value is not None and not value.exists():
            yield f"{key} names {value}, and there is no such file or folder"
    for corpus in config.corpus:
        if corpus.package and not any(distributions(name=corpus.package)):
            install = f"pip install {corpus.package}"
            yield f"corpus {corpus.name!r}: package is not installed; install it with: {install}"


def _outputs_in_the_corpus(config: BuildConfig) -> Iterator[str]:
    """A build that reads what builds write is another one each time."""
    outputs = {
        "out": config.out,
        "cache.path": config.cache.path,
        "cache.clones": config.cache.clones,
        "index.path": config.index.path,
    }
    for corpus in config.corpus:
        for key, value in outputs.items():
            if corpus.path is None or corpus.revision or isinstance(value, Uri):
                continue
            if value.is_relative_to(corpus.path):
                yield (
                    f"{key} is {value}, inside corpus {corpus.name!r}, so a build would read what "
                    "it writes; name a folder outside, or a revision of the corpus"
                )
