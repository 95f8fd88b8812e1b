"""A shortlist: the runs of all retrievers that a configuration names."""

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from freshstack_dspy.collection.retrieve import (
    Texts,
    open_index,
    own_retriever,
    queries_of,
    retrieve,
    retrieve_by,
    run_name,
    search,
    texts_of,
)
from freshstack_dspy.config import (
    RERANKED,
    BuildConfig,
    FusionConfig,
    Mode,
    RetrieverConfig,
    as_config,
    base_of,
    load_judging,
)
from freshstack_dspy.errors import ConfigError, argument
from freshstack_dspy.files import only_writer
from freshstack_dspy.index.building import BM25, LSA
from freshstack_dspy.index.hybrid import HYBRID
from freshstack_dspy.index.lsa import MOST_CHUNKS
from freshstack_dspy.index.models import NO_MODELS, Models
from freshstack_dspy.measures.run import PassageRun, Run, write_run
from freshstack_dspy.pages.page import counted
from freshstack_dspy.progress import Progress, showing
from freshstack_dspy.recipes.opening import search_models, with_models_for
from freshstack_dspy.records import Technique
from freshstack_dspy.registry import is_imported
from freshstack_dspy.stored.folder import StoredCollection
from freshstack_dspy.stored.passages import write_passages


class _Candidate(NamedTuple):
    """A retriever with all that it needs."""

    name: str
    by: str
    own: Any
    """One's own, imported; or None."""
    models: Models
    fusion: FusionConfig
    texts: Texts


def retrieve_with(
    config: BuildConfig,
    collection: StoredCollection,
    retriever: str,
    models: Models,
    **options: Any,
) -> Any:
    """Retrieve with the fusion and the index of a configuration; `options` are those of `retrieve`."""
    index = config.index
    return retrieve(
        collection,
        retriever,
        models=models,
        fusion=config.fusion,
        index_path=index.path,
        k1=index.k1,
        b=index.b,
        **options,
    )


def retrieve_all(
    collection: StoredCollection | Path | str,
    config: BuildConfig | Path | str,
    out: Path | str,
    *,
    with_: Technique = "question",
    depth: int = 100,
    replace: bool = False,
    mode: Mode = "live",
    progress: Progress | bool | None = None,
) -> dict[str, Path]:
    """Retrieve for the queries of a collection, by all retrievers of a configuration.

    Args:
        collection: A collection, or the path of its folder.
        config: Of a build, or the path of its TOML file, of which `[[retriever]]`, `[[embedder]]`,
            `[reranker]`, `[fusion]`, `[index]` and `[cache]` are read. Without `[[retriever]]`:
            `bm25`, `lsa`, each embedder, `hybrid`, and with a reranker `hybrid+rerank`.
        out: The folder of the runs: `NAME.run`, or `NAME.jsonl` where they are passages.
        with_: What is searched with, as in `retrieve`; a `[[retriever]]` with a `with` of its own is
            then left out.
        depth: How many chunks for each query.
        replace: Whether runs of these names that are there are replaced.
        mode: Of requests to models, as in `SessionOptions`.
        progress: As in `retrieve`.

    Returns:
        The files by the names of the runs, in the order of the configuration.

    Raises:
        ConfigError: The configuration is wrong, a model or module is not there, or a file of one of
            these names is; all of that before anything is retrieved.
        FreshstackError: As `retrieve`; what is finished by then stays.
    """
    settings = as_config(config, load_judging)
    collection, folder = StoredCollection.load(collection), Path(out)
    with ExitStack() as opened:
        open_models = partial(search_models, mode=mode, progress=progress)
        candidates = _candidates(
            settings,
            collection,
            with_,
            lambda needing: opened.enter_context(open_models(needing)),
        )
        if not replace:
            _check_free(folder, candidates)
        opened.enter_context(only_writer(folder, "freshstack retrieve"))
        shown = opened.enter_context(showing(progress))
        by_index = [each for each in candidates if each.own is None]
        index = None
        where = settings.index
        if by_index:
            alone = {each.by for each in by_index} == {BM25}
            by, models = (BM25, NO_MODELS) if alone else (HYBRID, by_index[0].models)
            index = open_index(collection, by, models, where.path, shown, k1=where.k1, b=where.b)
        shown.start("runs", len(candidates))
        files = {}
        for each in candidates:
            if index is None or each.own is not None:
                run = retrieve_by(
                    collection,
                    each.own,
                    each.texts,
                    depth,
                    each.name,
                    each.models if base_of(each.by) != each.by else NO_MODELS,
                    where.path,
                    shown,
                )
            else:
                searched = index.reranked_by(each.models.reranker, each.models.rerank_depth)
                run = search(searched, each.texts, each.by, depth, each.fusion)
            files[each.name] = _written(folder, run, each.name)
            shown.advance("runs", each.name)
        shown.finish("runs", counted(len(candidates), "run"))
    return files


def _candidates(
    settings: BuildConfig,
    collection: StoredCollection,
    with_: Technique,
    models_of: Callable[[BuildConfig], Models],
) -> list[_Candidate]:
    """Open all that the retrievers need: what is not there is found now."""
    listed = settings.retriever or _all_of(settings, collection.manifest.counts.chunks)
    if with_ != "question":
        asking = (each for each in listed if each.with_ == "question")
        listed = [each.model_copy(update={"with_": with_}) for each in asking]
    queries = queries_of(collection)
    techniques: dict[Technique, None] = dict.fromkeys(each.with_ for each in listed)
    texts = {technique: texts_of(collection, queries, technique) for technique in techniques}
    needed = [base_of(each.by) if each.reranker else each.by for each in listed]
    needed += [each.reranker.vectors or LSA for each in listed if each.reranker]
    settings = with_models_for(settings, needed)
    models = models_of(settings)
    candidates = []
    for each in listed:
        searching, own, base = models, None, base_of(each.by)
        if is_imported(base):
            own = own_retriever(base, f"retriever {each.name!r}:", settings.file.parent)
        if each.reranker:
            alone = settings.model_copy(update={"embedder": (), "reranker": each.reranker})
            searching = models_of(alone)._replace(embedders=models.embedders)
        fusion = each.fusion or settings.fusion
        candidates.append(_Candidate(each.run, each.by, own, searching, fusion, texts[each.with_]))
    return candidates


def _all_of(settings: BuildConfig, chunks: int) -> list[RetrieverConfig]:
    """All retrievers of an index of this size with these models."""
    has_lsa = settings.index.lexical == "bm25s" and chunks <= MOST_CHUNKS
    names = [BM25, *[LSA] * has_lsa, *(each.name for each in settings.embedder), HYBRID]
    names += [f"{HYBRID}{RERANKED}"] * (settings.reranker is not None)
    return [RetrieverConfig(name=run_name(name, settings.fusion), retriever=name) for name in names]


def _check_free(folder: Path, candidates: list[_Candidate]) -> None:
    """Check that no run has the name of one that is there."""
    names = [f"{each.name}{suffix}" for each in candidates for suffix in (".run", ".jsonl")]
    if there := [str(folder / name) for name in names if (folder / name).exists()]:
        raise ConfigError(
            f"{', '.join(there)}: there already; replace with {argument('replace')}, or name "
            "another folder"
        )


def _written(folder: Path, run: Run | PassageRun, name: str) -> Path:
    """Write a run, in the place of one that was of the other kind too."""
    file, other = folder / f"{name}.run", folder / f"{name}.jsonl"
    if isinstance(run, PassageRun):
        file, other = other, file
        write_passages(run, file)
    else:
        write_run(Run(name, run.scores), file)
    other.unlink(missing_ok=True)
    return file
