"""`freshstack index`, `search`, `retrieve`, `topics`."""

import dataclasses
import json
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from freshstack_dspy.cli.command import command, complain, say
from freshstack_dspy.cli.options import (
    CollectionArgument,
    ConfigArgument,
    OutOption,
    ReplaceOption,
    check_out,
)
from freshstack_dspy.pages.page import Page, Text, counted
from freshstack_dspy.progress import ProgressBars

if TYPE_CHECKING:
    from freshstack_dspy.config import BuildConfig
    from freshstack_dspy.index.hybrid import HybridIndex
    from freshstack_dspy.recipes.chunking import ChunkedCorpora

RetrieverHelp = "bm25 (words), lsa (latent meanings), an embedder's name, hybrid or hybrid+rerank."


@command
def index(config: ConfigArgument) -> Page:
    """Bring the index of a build's corpora up to date, and print what is in it."""
    from freshstack_dspy.config import load_config
    from freshstack_dspy.recipes.chunking import chunk_corpora
    from freshstack_dspy.recipes.corpus import (
        check_index,
        index_corpora,
        search_models,
        with_repositories,
    )

    settings = load_config(config)
    with search_models(settings) as models, ProgressBars() as bars:
        check_index(settings)
        settings = with_repositories(settings, "live", bars)
        corpora = chunk_corpora(settings, bars)
        made = index_corpora(settings, corpora, models=models, progress=bars)
    described = made.manifest.model_dump(mode="json")
    files = {"files": len(corpora.files), "skipped": len(corpora.skipped)}
    lines = map(Text, _index_lines(made, corpora))
    return Page("", tuple(lines), {"path": made.path, **described, **files})


@command
def search(
    config: ConfigArgument,
    text: Annotated[list[str], typer.Argument(help="What to search for.")],
    retriever: Annotated[str, typer.Option(help=RetrieverHelp)] = "hybrid",
    k: Annotated[int, typer.Option("--k", min=1, help="Chunks to show.")] = 10,
) -> Page:
    """Search the index of a build for a text."""
    from freshstack_dspy.config import load_config
    from freshstack_dspy.recipes.corpus import open_index, search_models
    from freshstack_dspy.views.searching import search_page

    settings = _without_unused(load_config(config), retriever)
    searched = " ".join(text)
    with search_models(settings) as models:
        opened = open_index(settings, models)
        (ranking,) = opened.search(retriever, [searched], k, fusion=settings.fusion)
        chunks = opened.chunks_by_id(chunk_id for chunk_id, _ in ranking)
    scored_by = ""
    if retriever == "hybrid":
        fused = (name for name in opened.retrievers if not name.startswith("hybrid"))
        scored_by = f"{settings.fusion.method} of {' and '.join(fused)}"
    return search_page(searched, ranking, chunks, scored_by)


def retrieve(
    collection: CollectionArgument,
    retriever: Annotated[
        str | None,
        typer.Option(
            help=f"{RetrieverHelp} By default hybrid, or that of --embedder. package.module:name "
            "is one of your own: an object, a function from a text to results, or what can be "
            "called without arguments and gives one."
        ),
    ] = None,
    k: Annotated[int, typer.Option("--k", min=1, help="Most results for each query.")] = 100,
    embedder: Annotated[
        str | None,
        typer.Option(
            metavar="PATH|MODEL",
            help="A sentence-transformers folder, or a model as LiteLLM names it.",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(help="TOML file of a build: its [[embedder]], [reranker] and [fusion]."),
    ] = None,
    shortlist: Annotated[
        Path | None,
        typer.Option(
            "--all",
            metavar="CONFIG",
            help="TOML file of a build: run each [[retriever]], or without any all that there are, "
            "into the folder --out.",
        ),
    ] = None,
    out: OutOption = None,
    replace: ReplaceOption = False,
) -> None:
    """Search for a collection's queries; write a TREC run, or passages (--out FILE.jsonl)."""
    if shortlist is not None:
        alone = retriever or embedder or config
        _retrieve_all(collection, shortlist, out, k, replace=replace, alone=alone)
        return
    from freshstack_dspy.collection.collection import Collection
    from freshstack_dspy.collection.retrieve import retrieve as run_retriever
    from freshstack_dspy.collection.retrievers import own_retriever
    from freshstack_dspy.measures.run import PassageRun, Run, write_run
    from freshstack_dspy.recipes.corpus import search_models
    from freshstack_dspy.stored.passage_runs import passages_of, write_passages

    settings = _settings(config, embedder)
    name = retriever or (settings.embedder[-1].name if embedder else "hybrid")
    module, _, own = name.rpartition(":")
    run_path = out or Path(f"{own}.run")
    passages_path = out or Path(f"{own}.jsonl")
    check_out(run_path, replace=replace)
    if module:
        check_out(passages_path, replace=replace)
    searched = Collection.load(collection)
    with (
        search_models(_without_unused(settings, name)) as models,
        _warnings_at_end(),
        ProgressBars() as bars,
    ):
        run: Run | PassageRun = run_retriever(
            searched,
            own_retriever(name, "--retriever", Path.cwd()) if module else name,
            depth=k,
            models=models,
            fusion=settings.fusion,
            index_path=settings.index.path,
            progress=bars,
        )
    if isinstance(run, Run) and out is not None and out.suffix == ".jsonl":
        run = passages_of(searched.chunks(), run)
    if isinstance(run, PassageRun):
        write_passages(run, path := passages_path)
        found = {
            query: len(of) + len(run.unplaced.get(query, ())) for query, of in run.passages.items()
        }
    else:
        path, run = run_path, dataclasses.replace(run, name=own if module else run.name)
        write_run(run, path)
        found = {query: len(ranking) for query, ranking in run.rankings.items()}
    line = f"{path}: {counted(len(found), 'query', 'queries')} by {own if module else run.name}"
    if module:  # where the retriever decides, it may be fewer than measures look at
        line += f", at most {counted(max(found.values()), 'result')} each"
    say(line)
    say(f"measure it: freshstack evaluate {collection} {path}")


@contextmanager
def _warnings_at_end() -> Iterator[None]:
    """Print warnings for users below what is done, each once."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("ignore")  # a framework may have many about itself
        warnings.simplefilter("always", UserWarning)
        yield
    for message in dict.fromkeys(str(one.message) for one in warned):
        complain(f"warning: {message}")


def _retrieve_all(
    collection: Path, config: Path, out: Path | None, k: int, *, replace: bool, alone: object
) -> None:
    from freshstack_dspy.errors import ConfigError
    from freshstack_dspy.recipes.shortlist import retrieve_all

    if alone is not None or out is None:
        wrong = (
            "needs --out, a folder"
            if out is None
            else "takes no --retriever, --embedder or --config"
        )
        raise ConfigError(f"--all {wrong}")
    with _warnings_at_end(), ProgressBars() as bars:
        files = retrieve_all(collection, config, out, depth=k, replace=replace, progress=bars)
    for name, file in files.items():
        say(f"{file}: {name}")
    say(f"compare them: freshstack compare {collection} {out}/*")


def topics(
    collection: CollectionArgument, out: OutOption = None, replace: ReplaceOption = False
) -> None:
    """Write the queries for a system elsewhere: JSON Lines, or a table for --out FILE.tsv."""
    from freshstack_dspy.collection.collection import Collection
    from freshstack_dspy.collection.retrieve import queries_of
    from freshstack_dspy.files import write_file

    check_out(out, replace=replace)
    queries = queries_of(Collection.load(collection))
    if out is not None and out.suffix == ".tsv":
        lines = [f"{query.query_id}\t{' '.join(query.text.split())}" for query in queries]
    else:
        lines = [
            json.dumps({"query_id": query.query_id, "text": query.text}, ensure_ascii=False)
            for query in queries
        ]
    if out is None:
        print("\n".join(lines))
        return
    write_file(out, "".join(f"{line}\n" for line in lines))
    say(f"{out}: {counted(len(queries), 'query', 'queries')}")


def _settings(config: Path | None, embedder: str | None) -> "BuildConfig":
    """The models, fusion and index folder of a configuration, or defaults; with an embedder more."""
    from freshstack_dspy.config import EmbedderConfig, load_judging

    settings = load_judging(config)
    if embedder is None:
        return settings
    place = Path(embedder)
    name = re.sub(r"[^\w.-]", "-", (place.resolve() if place.is_dir() else place).name)
    where = {"path": place} if place.is_dir() else {"model": embedder}
    added = EmbedderConfig.model_validate({"name": name, **where})
    return settings.model_copy(update={"embedder": (*settings.embedder, added)})


def _without_unused(settings: "BuildConfig", retriever: str) -> "BuildConfig":
    """Leave out models that a retriever does not need."""
    if retriever in ("bm25", "lsa") or ":" in retriever:
        return settings.model_copy(update={"embedder": (), "reranker": None})
    return settings


def _index_lines(made: "HybridIndex", corpora: "ChunkedCorpora") -> Iterator[str]:
    from freshstack_dspy.stored.counts import count_kinds, listed

    held = made.manifest
    yield (
        f"{made.path}: {counted(held.chunks, 'chunk')} of {counted(len(corpora.files), 'file')}, "
        f"{counted(held.tokens, 'token')}"
    )
    for source, revision in held.revisions.items():
        yield f"{source}: {revision or 'no revision'}"
    for column in held.vectors:
        yield f"{column.name}: {column.dimensions} dimensions"
    yield f"retrievers: {', '.join(made.retrievers)}"
    if corpora.skipped:
        skipped = counted(len(corpora.skipped), "file")
        yield f"{skipped} skipped ({listed(count_kinds(corpora.skipped))})"
        for file in corpora.skipped:
            if file.kind in ("undecodable", "unreadable"):
                yield f"not read: {file.source}/{file.path}: {file.reason}"
    if corpora.licences:
        yield f"{counted(len(corpora.licences), 'licence file')} kept apart"
