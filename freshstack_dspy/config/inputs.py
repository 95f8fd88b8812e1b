"""The sections that say what a build reads: questions, documents, and how these are cut."""

import re
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from freshstack_dspy.config.section import Section
from freshstack_dspy.config.synthesis import SynthesisConfig

QuerySource = Literal[
    "stackexchange", "jsonl", "csv", "parquet", "huggingface", "freshstack", "synthetic"
]
QueryColumn = Literal[
    "query_id",
    "title",
    "body",
    "answer_id",
    "answer",
    "tags",
    "asked_at",
    "score",
    "question_author",
    "question_url",
    "question_licence",
    "answer_author",
    "answer_url",
    "answer_licence",
]
KeptKind = Literal["generated", "minified", "vendored", "data", "licence"]


_READ_ONLY = (
    "path",
    "site",
    "tags",
    "all_tags",
    "exclude_tags",
    "retired",
    "since",
    "until",
    "min_score",
    "licences",
    "limit",
)
"""Keys of `[queries]` that say nothing where questions are made."""

_SECRET = re.compile(r"(?i)https?://[^/]*@|\w+://[^/@]*:[^/@]*@|https?://[^?#]*[?#]")


class QueriesConfig(SynthesisConfig):
    """Where the questions and their accepted answers come from."""

    source: QuerySource = "jsonl"
    path: Path | None = None
    """A file; for stackexchange, parquet, huggingface and freshstack it may be a folder; for
    synthetic there is none."""
    site: str | None = None
    """Host of the Stack Exchange site, for the links of the attribution, as `stackoverflow.com`."""
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
    min_answer_score: int | None = None
    """For stackexchange: keep questions whose accepted answer has this score or a higher one."""
    licences: tuple[str, ...] = ()
    """Keep questions whose question and answer are both under one of these; empty: all."""
    duplicates: Literal["keep", "drop"] = "keep"
    """What becomes of questions that were closed as duplicates of another (PostLinks.xml)."""
    columns: dict[QueryColumn, str] = Field(default_factory=dict)
    """For jsonl, csv, parquet and huggingface: under which name each part of a query is there."""
    split: str | None = None
    """For huggingface and freshstack: which split of a dataset, where there are several."""
    limit: int | None = Field(default=None, ge=1)
    """Keep this many at most: the first in order of their ids."""

    @property
    def location(self) -> Path:
        """The file or folder that questions are read from; every source but synthetic has one."""
        assert self.path is not None
        return self.path

    @property
    def is_synthetic(self) -> bool:
        """Whether the questions are made from the documents, and none are read."""
        return self.source == "synthetic"

    @model_validator(mode="after")
    def _read_or_made(self) -> Self:
        if self.is_synthetic:
            if self.count is None:
                raise ValueError("count is missing: how many queries to make, as count = 100")
            others = [key for key in _READ_ONLY if self._is_set(key)]
            if others:
                raise ValueError(
                    f"{', '.join(others)}: for questions that are read, and source synthetic makes "
                    "them from the documents; leave it out"
                )
            return self
        if self.path is None:
            raise ValueError("path is missing")
        if made := [key for key in SynthesisConfig.model_fields if self._is_set(key)]:
            raise ValueError(
                f"{', '.join(made)}: for source synthetic alone, and this is {self.source}"
            )
        return self

    def _is_set(self, key: str) -> bool:
        field = QueriesConfig.model_fields[key]
        return bool(getattr(self, key) != field.get_default(call_default_factory=True))

    @model_validator(mode="after")
    def _only_what_the_source_has(self) -> Self:
        uses: tuple[tuple[str, object, tuple[QuerySource, ...]], ...] = (
            ("min_answer_score", self.min_answer_score is not None, ("stackexchange",)),
            ("duplicates", self.duplicates == "drop", ("stackexchange",)),
            ("columns", self.columns, ("jsonl", "csv", "parquet", "huggingface")),
            ("split", self.split is not None, ("huggingface", "freshstack")),
        )
        for key, used, sources in uses:
            if used and self.source not in sources:
                raise ValueError(
                    f"{key} is for source {' and '.join(sources)}, and this is {self.source}"
                )
        return self


class CorpusConfig(Section):
    """One set of documents: a folder, a git repository, a wheel, an installed package, JSON Lines."""

    name: str = Field(min_length=1, pattern=r"^[^/\s]+$")
    path: Path | None = None
    """A folder, a git repository (with `revision`), a wheel (`.whl`) or a JSON Lines file."""
    url: str | None = None
    """Or a git repository elsewhere, which is copied to `cache.clones`."""
    package: str | None = None
    """Or the name of an installed Python distribution."""
    revision: str | None = None
    """A commit, tag or branch; makes `path` a git repository. Of `url`, by default its HEAD."""
    include: tuple[str, ...] = ()
    """Globs of paths to keep; empty: all."""
    exclude: tuple[str, ...] = ()
    """Globs of paths to leave out."""
    keep: tuple[KeptKind, ...] = ()
    """Kinds of files that are left out otherwise."""
    pages: bool = False
    """Read HTML as pages, for what they say, and not as source code."""

    @field_validator("url")
    @classmethod
    def _without_password(cls, url: str | None) -> str | None:
        if url is not None and _SECRET.match(url):
            raise ValueError(
                "holds a name or password; leave them out, and let git ask its credential helper, "
                "or use an address of SSH, as git@host:path"
            )
        return url

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        places = [key for key in ("path", "url", "package") if getattr(self, key) is not None]
        if len(places) != 1:
            raise ValueError(f"name one of path, url and package, not {places or 'none'}")
        if self.package is not None and self.revision is not None:
            raise ValueError("a package has no revision; leave it out")
        suffix = self.path.suffix if self.path is not None else ""
        if self.revision is not None and suffix in (".whl", ".jsonl", ".ndjson"):
            raise ValueError(f"a {suffix} file has no revision; leave it out")
        return self


class ChunkingConfig(Section):
    """How files are cut."""

    max_tokens: int = Field(default=512, ge=32, le=8192)
    max_file_bytes: int = Field(default=1_000_000, ge=1)
