"""`freshstack index`, `search`, `retrieve`, `fuse`, `topics`."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

import freshstack_dspy as fs
from freshstack_dspy.cli.command import (
    Asking,
    AtLeastOne,
    Form,
    Technique,
    Written,
    asking,
    check_out,
    command,
    names_of,
    to_type,
    wrote,
)
from freshstack_dspy.pages.page import Page, Text, counted
from freshstack_dspy.progress import ProgressBars

if TYPE_CHECKING:
    from freshstack_dspy.config import BuildConfig
    from freshstack_dspy.index.hybrid import HybridIndex
    from freshstack_dspy.recipes.corpus import ChunkedCorpora
    from freshstack_dspy.recipes.plan import Plan


@command
def index(config: Path) -> Page:
    """Bring the index of a build's corpora up to date, and print what is in it."""
    from freshstack_dspy.recipes.corpus import (
        check_index,
        chunk_corpora,
        index_corpora,
        with_repositories,
    )
    from freshstack_dspy.recipes.opening import search_models

    settings = fs.load_config(config)
    plain = settings.model_copy(update={"reranker": None})
    with search_models(plain) as models, ProgressBars() as bars:
        check_index(settings)
        settings = with_repositories(settings, "live", bars)
        corpora = chunk_corpora(settings, bars)
        indexed = index_corpora(settings, corpora, models=models, progress=bars)
    described = indexed.manifest.model_dump(mode="json")
    files = {"files": len(corpora.files), "skipped": len(corpora.skipped)}
    lines = map(Text, _index_lines(indexed, corpora))
    return Page("", tuple(lines), {"path": indexed.path, **described, **files})


def _index_lines(indexed: "HybridIndex", corpora: "ChunkedCorpora") -> Iterator[str]:
    from freshstack_dspy.stored.contents import count_kinds, listed

    manifest = indexed.manifest
    yield (
        f"{indexed.path}: {counted(manifest.chunks, 'chunk')} of "
        f"{counted(len(corpora.files), 'file')}, {counted(manifest.tokens, 'token')}"
    )
    for source, revision in manifest.revisions.items():
        yield f"{source}: {revision or 'no revision'}"
    for column in manifest.vectors:
        yield f"{column.name}: {column.dimensions} dimensions"
    yield f"retrievers: {', '.join(indexed.retrievers)}"
    if corpora.skipped:
        skipped = counted(len(corpora.skipped), "file")
        yield f"{skipped} skipped ({listed(count_kinds(corpora.skipped))})"
        for file in corpora.skipped:
            if file.kind in ("undecodable", "unreadable"):
                yield f"not read: {file.source}/{file.path}: {file.reason}"
    if corpora.licences:
        yield f"{counted(len(corpora.licences), 'licence file')} kept apart"


@command
def search(config: Path, text: list[str], *, retriever: str = "hybrid", k: AtLeastOne = 10) -> Page:
    """Search the index of a build for a text.

    Args:
        text: What to search for.
        retriever: bm25 (words), lsa (latent meanings), an embedder's name or hybrid; NAME+rerank
            reranks what one of them finds.
        k: Chunks to show.
    """
    from freshstack_dspy.recipes.corpus import open_index
    from freshstack_dspy.recipes.opening import search_models, with_models_for
    from freshstack_dspy.views.searching import search_page

    settings = with_models_for(fs.load_config(config), [retriever])
    words = " ".join(text)
    with search_models(settings) as models:
        opened = open_index(settings, models)
        (ranking,) = opened.search(retriever, [words], k, fusion=settings.fusion)
        chunks = opened.chunks_by_id(chunk_id for chunk_id, _ in ranking)
    scored_by = ""
    if retriever == "hybrid":
        fused = (name for name in opened.retrievers if not name.startswith("hybrid"))
        scored_by = f"{settings.fusion.method} of {' and '.join(fused)}"
    return search_page(words, ranking, chunks, scored_by)


@command
def retrieve(
    collection: Path,
    *,
    retriever: str | None = None,
    with_: Annotated[Technique, typer.Option("--with")] = "question",
    k: AtLeastOne = 100,
    embedder: Annotated[str | None, typer.Option(metavar="PATH|MODEL")] = None,
    config: Path | None = None,
    shortlist: Annotated[Path | None, typer.Option("--all", metavar="CONFIG")] = None,
    out: Path | None = None,
    replace: bool = False,
    plan: bool = False,
    how: Asking,
) -> Written:
    """Search for a collection's queries; write a TREC run, or passages (--out FILE.jsonl).

    Args:
        retriever: bm25 (words), lsa (latent meanings), an embedder's name or hybrid; NAME+rerank
            reranks what one of them finds. By default hybrid, or that of --embedder.
            package.module:name is one of your own: an object, a function from a text to results,
            or what can be called without arguments and gives one.
        with_: What to search with; with answer and nuggets it is an oracle, reachable with the
            answer known. The run's name says so, as hybrid@nuggets.
        k: Most results for each query.
        embedder: A sentence-transformers folder, or a model as LiteLLM names it.
        config: TOML file of a build: its [[embedder]], [reranker], [fusion] and [index].
        shortlist: TOML file of a build: run each [[retriever]], or without any all that there are,
            into the folder --out.
        plan: Say what a chat model that reranks would be asked, and its cost; nothing is sent.
    """
    if shortlist is not None:
        alone = retriever or embedder or config or plan
        if alone or out is None:
            takes = "takes no --retriever, --embedder, --config or --plan"
            raise typer.BadParameter(f"--all {takes if alone else 'needs --out, a folder'}")
        with ProgressBars() as bars:
            files = fs.retrieve_all(
                collection,
                shortlist,
                out,
                with_=with_,
                depth=k,
                replace=replace,
                mode=how.mode,
                progress=bars,
            )
        then = "evaluate" if with_ in ("answer", "nuggets") else "compare"
        hint = to_type(f"{then} them", f"freshstack {then} {collection} {out}/*")
        lines = [f"{file}: {name}" for name, file in files.items()]
        return wrote([*files.values()], *lines, runs=[*files])._replace(hints=[hint])
    from freshstack_dspy.recipes.opening import search_models, with_models_for
    from freshstack_dspy.recipes.shortlist import retrieve_with
    from freshstack_dspy.records import searched_with
    from freshstack_dspy.stored.passages import write_passages

    settings = _settings(config, embedder)
    name = retriever or (settings.embedder[-1].name if embedder else "hybrid")
    settings = with_models_for(settings, [name])
    if plan:
        return Written(_plan(fs.Collection.load(collection), name, settings, with_))
    run_name = searched_with(name.rpartition(":")[2], with_)
    run_path, passages_path = out or Path(f"{run_name}.run"), out or Path(f"{run_name}.jsonl")
    check_out(run_path, replace=replace)
    if ":" in name:
        check_out(passages_path, replace=replace)
    searched = fs.Collection.load(collection)
    with asking(how) as (options, bars), search_models(settings, **options) as models:
        run = retrieve_with(settings, searched, name, models, with_=with_, depth=k, progress=bars)
    if isinstance(run, fs.Run) and out is not None and out.suffix == ".jsonl":
        run = searched.files.passages_of(run)
    if isinstance(run, fs.Run):
        path = run_path
        fs.write_run(run, path)
        results = {query: len(ranking) for query, ranking in run.rankings.items()}
    else:
        path = passages_path
        write_passages(run, path)
        results = {
            query: len(passages) + len(run.unplaced.get(query, ()))
            for query, passages in run.passages.items()
        }
    line = f"{path}: {counted(len(results), 'query', 'queries')} by {run.name}"
    if ":" in name:  # where the retriever decides, it may be fewer than measures look at
        line += f", at most {counted(max(results.values()), 'result')} each"
    if not isinstance(run, fs.Run) and path.suffix != ".jsonl":
        line += "; they are passages, as JSON Lines"
    hint = to_type("measure it", f"freshstack evaluate {collection} {path}")
    about = {"run": run.name, "queries": len(results), "results": sum(results.values())}
    return wrote(path, line, **about)._replace(hints=[hint])


def _plan(
    collection: "fs.Collection", retriever: str, settings: "BuildConfig", with_: Technique
) -> "Plan":
    """Plan what a chat model that reranks would be asked, over results of `bm25` where it has to."""
    from freshstack_dspy.collection.retrieve import queries_of
    from freshstack_dspy.recipes.plan import plan_asking
    from freshstack_dspy.recipes.shortlist import retrieve_with

    if settings.reranker is None or not settings.reranker.asks_chat:
        raise typer.BadParameter(
            "--plan is for NAME+rerank by a chat model: [reranker] method listwise, setwise or "
            "pointwise"
        )
    free = not settings.embedder and ":" not in retriever
    name = retriever if free else "bm25+rerank"
    with ProgressBars() as bars:
        return plan_asking(
            settings,
            lambda session: retrieve_with(
                settings, collection, name, session.models, with_=with_, progress=bars
            ),
            name=collection.name,
            queries=len(queries_of(collection)),
            progress=bars,
        )


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


@command
def fuse(
    runs: list[Path],
    *,
    out: Path,
    method: Literal["normalised_sum", "rrf", "weighted"] | None = None,
    weight: Annotated[list[str] | None, typer.Option(metavar="RUN=NUMBER")] = None,
    k: AtLeastOne = 100,
    name: str | None = None,
    replace: bool = False,
) -> Written:
    """Fuse run files of any systems into one; no collection is needed.

    Args:
        runs: Two run files or more, in TREC's format.
        method: normalised_sum (the default), rrf, or weighted (the default with --weight).
        weight: The weight of a run by the name of its file, as bm25.run=2; others weigh 1.
        k: Most results of each run that count, and of the fused one, for each query.
        name: Of the fused run, in its last column; by default the method.
    """
    from pydantic import ValidationError

    from freshstack_dspy.config import FusionConfig
    from freshstack_dspy.errors import ConfigError
    from freshstack_dspy.faults import first_fault

    check_out(out, replace=replace)
    if wrong := [each for each in weight or () if "=" not in each]:
        raise typer.BadParameter(f"--weight {wrong[0]}: write it as RUN=NUMBER")
    weights = {run: number for run, _, number in (each.rpartition("=") for each in weight or ())}
    if len(weights) < len(weight or ()):
        raise typer.BadParameter("--weight names a run twice; give each run one weight")
    values = {"method": method or ("weighted" if weight else "normalised_sum"), "weights": weights}
    try:
        fusion = FusionConfig.model_validate(values)
    except ValidationError as error:
        raise ConfigError(first_fault(error)) from None
    if len(names := names_of(runs)) > len(set(names)):
        raise ConfigError(f"a run is named twice: {', '.join(names)}")
    fused = fs.fuse_runs(dict(zip(names, runs, strict=True)), fusion, depth=k, name=name)
    fs.write_run(fused, out)
    queries = counted(len(fused), "query", "queries")
    line = f"{out}: {queries} by {fused.name} of {' and '.join(names)}"
    return wrote(out, line, run=fused.name, queries=len(fused))


@command
def topics(
    collection: Path, *, out: Path | None = None, replace: bool = False, form: Form | None = None
) -> Written:
    """Write the queries for a system elsewhere: JSON Lines, or a table for --out FILE.tsv."""
    from freshstack_dspy.collection.retrieve import queries_of
    from freshstack_dspy.files import write_file

    check_out(out, replace=replace)
    queries = queries_of(fs.Collection.load(collection))
    rows = [{"query_id": query.query_id, "text": query.text} for query in queries]
    if out is not None and out.suffix == ".tsv":
        lines = [f"{query.query_id}\t{' '.join(query.text.split())}" for query in queries]
    else:
        lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    if out is None:
        if form is None:
            print("\n".join(lines))
        return Written(Page("", data=rows))
    write_file(out, "".join(f"{line}\n" for line in lines))
    number = len(queries)
    return wrote(out, f"{out}: {counted(number, 'query', 'queries')}", queries=number)
