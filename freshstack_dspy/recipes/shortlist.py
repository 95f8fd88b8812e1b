"""A shortlist: the runs of all retrievers that a configuration names, each made once."""

import dataclasses
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from freshstack_dspy.collection.retrieve import (
    open_index,
    queries_of,
    retrieve_by,
    run_name,
    search,
)
from freshstack_dspy.collection.retrievers import own_retriever
from freshstack_dspy.config import BuildConfig, FusionConfig, RetrieverConfig, load_judging
from freshstack_dspy.errors import ConfigError, argument
from freshstack_dspy.files import only_writer, write_file
from freshstack_dspy.index.building import BM25, LSA
from freshstack_dspy.index.hybrid import HYBRID, RERANKED
from freshstack_dspy.index.lsa import MOST_CHUNKS
from freshstack_dspy.index.models import NO_MODELS, Models
from freshstack_dspy.lm.request import sha256_of
from freshstack_dspy.measures.run import PassageRun, Run, write_run
from freshstack_dspy.progress import Progress, showing
from freshstack_dspy.recipes.code import code_sha256, file_sha256
from freshstack_dspy.recipes.corpus import search_models
from freshstack_dspy.records import Query, Record
from freshstack_dspy.registry import is_imported
from freshstack_dspy.stored.corpus import CORPUS_FILE
from freshstack_dspy.stored.folder import StoredCollection
from freshstack_dspy.stored.passage_runs import write_passages

MADE_FILE = ".retrieved.json"
"""Next to the runs: what they were made of."""


class _Made(Record):
    """A run that was written here."""

    of: str | None
    """SHA-256 of all that it depends on; None of a retriever of one's own, of which nobody knows."""
    sha256: str
    """Of its file."""


class _MadeRuns(Record):
    """What is in `MADE_FILE`."""

    runs: dict[str, _Made]
    """By the name of the file."""


class _Candidate(NamedTuple):
    """A retriever with all that it needs."""

    name: str
    by: str
    own: Any
    """One's own, imported; or None."""
    models: Models
    fusion: FusionConfig

    def depends_on(self) -> dict[str, Any]:
        """What decides its run, next to the corpus and the queries."""
        fuses = self.by in (HYBRID, RERANKED)
        models = [one for one in self.models.embedders if fuses or one.name == self.by]
        reranker = self.models.reranker if self.by == RERANKED else None
        return {
            "retriever": self.by,
            "fusion": self.fusion.model_dump(mode="json") if fuses else None,
            "embedders": {one.name: one.identity for one in models},
            "reranker": reranker and [reranker.identity, self.models.rerank_depth],
        }


def retrieve_all(
    collection: StoredCollection | Path | str,
    config: BuildConfig | Path | str,
    out: Path | str,
    *,
    depth: int = 100,
    replace: bool = False,
    progress: Progress | bool | None = None,
) -> dict[str, Path]:
    """Retrieve for the queries of a collection, by all retrievers of a configuration.

    A run that is there already, made of the same things, is not made again; so what was stopped
    goes on where it was. Of a retriever of one's own nobody knows what it depends on, and it is
    asked each time.

    Args:
        collection: A collection, or the path of its folder.
        config: Of a build, or the path of its TOML file, of which `[[retriever]]`, `[[embedder]]`,
            `[reranker]`, `[fusion]`, `[index]` and `[cache]` are read. Without `[[retriever]]`:
            `bm25`, `lsa`, each embedder, `hybrid`, and with a reranker `hybrid+rerank`.
        out: The folder of the runs: `NAME.run`, or `NAME.jsonl` where they are passages.
        depth: How many chunks for each query.
        replace: Whether files of these names that were not written here are replaced.
        progress: As in `retrieve`.

    Returns:
        The files by the names of the runs, in the order of the configuration.

    Raises:
        ConfigError: The configuration is wrong, a model or module is not there, or a file of one of
            these names is; all of that before anything is retrieved.
        FreshstackError: As `retrieve`; what is finished by then stays.
    """
    settings = config if isinstance(config, BuildConfig) else load_judging(config)
    collection, folder = StoredCollection.load(collection), Path(out)
    queries = queries_of(collection)
    index_settings: Any = collection.manifest.config.get("index") or {}
    shared = {
        "corpus": collection.manifest.files[CORPUS_FILE],
        "queries": [[query.query_id, query.text] for query in queries],
        "dimensions": index_settings.get("dimensions"),
        "code": code_sha256("index", "bm25s|PyStemmer|numpy|scipy|scikit-learn"),
        "depth": depth,
    }
    with ExitStack() as opened:
        candidates = _candidates(settings, opened, collection.manifest.counts.chunks)
        opened.enter_context(only_writer(folder, "freshstack retrieve"))
        of = {
            one.name: sha256_of(shared | one.depends_on()) if one.own is None else None
            for one in candidates
        }
        made = _made(folder, list(of), replace=replace)
        files = {
            Path(file).stem: folder / file
            for file, run in made.items()
            if run.of is not None and run.of == of.get(Path(file).stem)
        }
        missing = [one for one in candidates if one.name not in files]
        shown = opened.enter_context(showing(progress))
        search_by = _searches(collection, missing, settings.index.path, shown)
        shown.start("runs", len(missing))
        for one in missing:
            file = files[one.name] = _written(folder, search_by(one, queries, depth), one.name)
            made[file.name] = _Made(of=of[one.name], sha256=file_sha256(file))
            write_file(folder / MADE_FILE, _MadeRuns(runs=made).model_dump_json(indent=1))
            shown.advance("runs", one.name)
        shown.finish("runs", f"{len(missing)} of {len(of)} made")
    return {name: files[name] for name in of}


def _searches(
    collection: StoredCollection, candidates: list[_Candidate], root: Path | str, shown: Progress
) -> Callable[[_Candidate, list[Query], int], Run | PassageRun]:
    """Give what searches by any of these candidates: over one index, if one is needed."""
    by_index = [one for one in candidates if one.own is None]
    needed, models = HYBRID, by_index[0].models if by_index else NO_MODELS
    if {one.by for one in by_index} == {BM25}:
        needed, models = BM25, NO_MODELS
    index = open_index(collection, needed, models, root, shown) if by_index else None

    def search_by(one: _Candidate, queries: list[Query], depth: int) -> Run | PassageRun:
        if index is None or one.own is not None:
            return retrieve_by(collection, one.own, queries, depth, one.name, shown)
        searched = index.reranked_by(one.models.reranker, one.models.rerank_depth)
        return search(searched, queries, one.by, depth, one.fusion)

    return search_by


def _candidates(settings: BuildConfig, opened: ExitStack, chunks: int) -> list[_Candidate]:
    """Open all that the retrievers need: what is not there is found now."""
    listed = settings.retriever or _all_of(settings, chunks)
    used = {one.by for one in listed}
    if not used & {HYBRID, RERANKED}:
        named = tuple(one for one in settings.embedder if one.name in used)
        settings = settings.model_copy(update={"embedder": named, "reranker": None})
    models = opened.enter_context(search_models(settings))
    candidates = []
    for one in listed:
        of, own = models, None
        if is_imported(one.by):
            own = own_retriever(one.by, f"retriever {one.name!r}:", settings.file.parent)
        if one.reranker:
            alone = settings.model_copy(update={"embedder": (), "reranker": one.reranker})
            of = opened.enter_context(search_models(alone))._replace(embedders=models.embedders)
        fusion = one.fusion or settings.fusion
        candidates.append(_Candidate(one.name, one.by, own, of, fusion))
    return candidates


def _all_of(settings: BuildConfig, chunks: int) -> list[RetrieverConfig]:
    """All retrievers of an index of so many chunks with these models."""
    has_lsa = settings.index.lexical == "bm25s" and chunks <= MOST_CHUNKS
    names = [BM25, *[LSA] * has_lsa, *(one.name for one in settings.embedder), HYBRID]
    names += [RERANKED] * (settings.reranker is not None)
    return [RetrieverConfig(name=run_name(name, settings.fusion), retriever=name) for name in names]


def _made(folder: Path, names: list[str], *, replace: bool) -> dict[str, _Made]:
    """Read which runs in a folder were written here and are as they were.

    Raises:
        ConfigError: A file of one of the names is another, and not to be replaced.
    """
    try:
        written = _MadeRuns.model_validate_json((folder / MADE_FILE).read_bytes()).runs
    except (FileNotFoundError, ValidationError):
        written = {}
    except OSError as error:
        raise ConfigError(f"{folder}: no folder for runs: {error.strerror}") from None
    made = {
        name: one
        for name, one in written.items()
        if (folder / name).is_file() and file_sha256(folder / name) == one.sha256
    }
    files = (folder / f"{name}{suffix}" for name in names for suffix in (".run", ".jsonl"))
    others = [str(file) for file in files if file.exists() and file.name not in made]
    if others and not replace:
        raise ConfigError(
            f"{', '.join(others)}: there, and not as this wrote it; replace it with "
            f"{argument('replace')}, or name another folder"
        )
    return made


def _written(folder: Path, run: Run | PassageRun, name: str) -> Path:
    """Write a run, in the place of one that was of the other kind too."""
    file, other = folder / f"{name}.run", folder / f"{name}.jsonl"
    if isinstance(run, PassageRun):
        file, other = other, file
        write_passages(run, file)
    else:
        write_run(dataclasses.replace(run, name=name), file)
    other.unlink(missing_ok=True)
    return file
