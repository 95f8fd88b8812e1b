"""Fingerprints of what a build is made from, and whether it would make the same collection again.

Two builds whose fingerprints are equal make the same requests; given the same replies, they make
the same collection. Content is hashed, not its date, and whatever is not in `WITHOUT_EFFECT` is
taken to matter. Those of a collection are in its manifest.
"""

import functools
import hashlib
import platform
import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

from freshstack_dspy.collection.manifest import read_manifest
from freshstack_dspy.collection.writing import Intact, intact_collection
from freshstack_dspy.config import BuildConfig, CorpusConfig, Mode
from freshstack_dspy.corpus.files import read_files
from freshstack_dspy.corpus.git import Repository
from freshstack_dspy.errors import CollectionError, FreshstackError, StoreError
from freshstack_dspy.lm.request import endpoint_identity, sha256_of
from freshstack_dspy.lm.store import fingerprint
from freshstack_dspy.lm.vectors import Access
from freshstack_dspy.questions.reading import query_files
from freshstack_dspy.recipes.session import Replies
from freshstack_dspy.records import LicenceFile, SourceFile

WITHOUT_EFFECT: dict[str, Any] = {
    "out": True,
    "index": {"path"},
    "cache": True,
    "budget": True,
    "prices": True,
    "model": {"api_key", "concurrency", "timeout", "retries"},
}
"""Settings that change no record of a collection, in the form of Pydantic's `exclude`."""

_ELSEWHERE: dict[str, Any] = {
    "queries": True,
    "corpus": True,
    "chunking": True,
    "programs": True,
    "embedder": True,
    "reranker": True,
}
"""Settings that are fingerprinted together with the files they name."""

_REPLIES = "replies"
_PACKAGE = "freshstack_dspy"
_READS_PDF = "pypdf"
"""Of an extra: whether it is installed decides whether pages are read."""


def fingerprint_inputs(config: BuildConfig) -> dict[str, str]:
    """Fingerprint what a build would be made from now.

    Returns:
        SHA-256 by part (`code`, `settings`, `queries`, `corpus`); nothing at all where an input
        cannot be read, for the build itself then says what is wrong with it.
    """
    try:
        return {
            "code": _code(),
            "settings": sha256_of(_settings(config)),
            "queries": sha256_of(_queries(config)),
            "corpus": sha256_of(_corpus(config)),
        }
    except (OSError, FreshstackError):
        return {}


def unchanged(
    config: BuildConfig, mode: Mode, inputs: Mapping[str, str], replies: Replies
) -> Intact | None:
    """The collection at `out`, where a build would make the same again, or None.

    Its settings and inputs must be those of now, every byte of its folder as it was written, and
    every reply that it was made from recorded, with the same content. Never in mode `rerecord`,
    nor where something failed and the mode may ask again.
    """
    try:
        manifest = read_manifest(config.out)
    except CollectionError:
        return None
    if mode == "rerecord" or (mode != "replay" and manifest.counts.failures):
        return None
    if not inputs or any(manifest.fingerprints.get(part) != inputs[part] for part in inputs):
        return None
    found = intact_collection(config.out, manifest)
    if found is None:
        return None
    try:
        now = fingerprint(found.call_ids, replies)
    except StoreError:
        return None
    return found if now == manifest.fingerprints.get(_REPLIES) else None


def fingerprints(
    config: BuildConfig, inputs: Mapping[str, str], used: Mapping[str, str]
) -> dict[str, str]:
    """The fingerprints of a build that is about to be written.

    Args:
        config: Of the build.
        inputs: As `fingerprint_inputs` gave them before anything was read.
        used: A hash of each reply when it was used, by key.

    Returns:
        By part; none where an input changed meanwhile, for nobody knows which state was read.
    """
    if not inputs or fingerprint_inputs(config) != dict(inputs):
        return {}
    return {**inputs, _REPLIES: sha256_of(dict(used))}


@functools.cache
def _code() -> str:
    """Every file of this package, and the versions of Python and of what the package requires."""
    root = Path(__file__).parents[1]
    files = sorted(path for path in root.rglob("*") if path.is_file() and path.suffix != ".pyc")
    required = [line for line in requires(_PACKAGE) or () if "extra ==" not in line]
    versions = {line: _version(re.split(r"[^\w.-]", line)[0]) for line in required}
    return sha256_of(
        {
            "files": {path.relative_to(root).as_posix(): _sha256(path) for path in files},
            "python": platform.python_version_tuple()[:2],
            "versions": {**versions, _READS_PDF: _version(_READS_PDF)},
        }
    )


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None  # not needed on this system


def _settings(config: BuildConfig) -> dict[str, Any]:
    without = {**_ELSEWHERE, **WITHOUT_EFFECT}
    without["model"] = without["model"] | {"api_base"}  # its credentials do not matter
    return {
        "config": config.model_dump(mode="json", exclude=without),
        "endpoint": endpoint_identity(config.model.name, config.model.api_base),
        "programs": {name: path and _sha256(path) for name, path in config.programs},
        "models": _models(config),
    }


def _models(config: BuildConfig) -> list[Any]:
    """What the vectors and the scores of a configuration's models depend on."""
    if not config.embedder and config.reranker is None:
        return []
    from freshstack_dspy.index.models import connected

    with connected(config, Access("replay")) as models:
        embedders = [[embedder.name, embedder.identity] for embedder in models.embedders]
        reranker = models.reranker and [models.reranker.identity, models.rerank_depth]
        return [embedders, reranker]


def _queries(config: BuildConfig) -> dict[str, Any]:
    return {
        "config": config.queries.model_dump(mode="json", exclude={"path", "style"}),
        "files": [_sha256(path) for path in query_files(config.queries)],
    }


def _corpus(config: BuildConfig) -> dict[str, Any]:
    most = config.chunking.max_file_bytes
    return {
        "chunking": config.chunking.model_dump(mode="json"),
        "corpora": [
            [corpus.name, _commit(corpus) if corpus.revision else list(_files(corpus, most))]
            for corpus in config.corpus
        ],
    }


def _commit(corpus: CorpusConfig) -> dict[str, Any]:
    """A commit names its content, so none of it need be read."""
    assert corpus.path is not None
    with closing(Repository(corpus.path, str(corpus.revision))) as repository:
        chosen = corpus.model_dump(mode="json", include={"include", "exclude", "keep", "pages"})
        return {"commit": repository.revision, **chosen}


def _files(corpus: CorpusConfig, most: int) -> Iterator[tuple[str, ...]]:
    """The files that would be read and those that would not, as the build itself finds them."""
    for file in read_files(corpus, most):
        if isinstance(file, SourceFile):
            content = hashlib.sha256(file.data).hexdigest()
            yield "read", file.path, file.encoding, file.revision or "", content
        elif isinstance(file, LicenceFile):
            yield "licence", file.path, hashlib.sha256(file.text.encode()).hexdigest()
        else:
            yield "skipped", file.path, file.reason


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
