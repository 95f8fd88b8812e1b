"""`freshstack index`: the index of a configuration's corpora."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from freshstack_dspy.cli.asking import typed
from freshstack_dspy.cli.lines import one_line, say

if TYPE_CHECKING:
    from freshstack_dspy.index.difference import Difference
    from freshstack_dspy.recipes.indexing import Indexing
    from freshstack_dspy.records import Chunk, ScoredChunk

app = typer.Typer(
    help="The index of a configuration's corpora: built, updated, searched.", no_args_is_help=True
)

ConfigArgument = Annotated[Path, typer.Argument(help="The build's TOML file.")]
ModeOption = Annotated[
    Literal["live", "replay"],
    typer.Option(
        help="live: ask embedders and the reranker for what is not recorded. replay: no network."
    ),
]
_LONGEST_LINE = 100
_TOLD = ("undecodable", "unreadable")
_MOST_TOLD = 5
"""A build's collection lists every skipped file in skipped.jsonl."""
_WITHOUT_MODELS = ("bm25", "lsa")


@app.command("build")
def build_index(config: ConfigArgument, mode: ModeOption = "live") -> None:
    """Read and cut all files, and index their chunks, from nothing."""
    from freshstack_dspy.cli.bars import Bars
    from freshstack_dspy.config import load_config
    from freshstack_dspy.recipes import indexing
    from freshstack_dspy.recipes.fetching import with_repositories
    from freshstack_dspy.recipes.models import search_models

    settings = load_config(config)
    with typed(config), search_models(settings, mode) as models, Bars() as bars:
        built = indexing.build_index(
            with_repositories(settings, mode, bars),
            embedders=models.embedders,
            reranker=models.reranker,
            progress=bars,
        )
    _summary(built)


@app.command("update")
def update_index(
    config: ConfigArgument,
    refit: Annotated[bool, typer.Option("--refit", help="Fit lsa again, as a build does.")] = False,
    mode: ModeOption = "live",
) -> None:
    """Bring the index to the state of the files: only what has changed is cut and embedded."""
    from freshstack_dspy.cli.bars import Bars
    from freshstack_dspy.config import load_config
    from freshstack_dspy.recipes import indexing
    from freshstack_dspy.recipes.fetching import with_repositories
    from freshstack_dspy.recipes.models import search_models

    settings = load_config(config)
    with typed(config), search_models(settings, mode) as models, Bars() as bars:
        updated = indexing.update_index(
            with_repositories(settings, mode, bars),
            embedders=models.embedders,
            reranker=models.reranker,
            refit_lsa=refit or None,
            progress=bars,
        )
    if updated.difference is not None:
        _changes(updated.difference)
    _summary(updated)


@app.command("search")
def search_index(
    config: ConfigArgument,
    text: Annotated[
        list[str], typer.Argument(help="What to search for; several words are one text.")
    ],
    retriever: Annotated[
        str, typer.Option(help="bm25, lsa, the name of an [[embedder]], hybrid or hybrid+rerank.")
    ] = "hybrid",
    depth: Annotated[int, typer.Option(min=1, help="Most chunks to show.")] = 10,
    where: Annotated[
        str | None, typer.Option(help="SQL filter, as: path LIKE 'docs/%' AND source = 'api'.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Whole chunks, as JSON.")] = False,
    mode: ModeOption = "live",
) -> None:
    """Search the index for a text."""
    from freshstack_dspy.config import load_config
    from freshstack_dspy.recipes import indexing
    from freshstack_dspy.recipes.models import search_models

    settings = load_config(config)
    if retriever in _WITHOUT_MODELS:
        settings = settings.model_copy(update={"embedder": (), "reranker": None})
    searched = " ".join(text)
    with typed(config), search_models(settings, mode) as models:
        index = indexing.open_index(settings, embedders=models.embedders, reranker=models.reranker)
        (ranking,) = index.search(retriever, [searched], depth, where=where, fusion=settings.fusion)
        chunks = index.chunks_by_id(chunk_id for chunk_id, _ in ranking)
    if as_json:
        _print_json(searched, retriever, ranking, chunks)
    else:
        _print_ranking(searched, ranking, chunks)


@app.command("stats")
def index_stats(
    config: ConfigArgument,
    as_json: Annotated[bool, typer.Option("--json", help="Everything, as JSON.")] = False,
) -> None:
    """Say what is in the index, and how large it is."""
    from freshstack_dspy.config import load_config
    from freshstack_dspy.recipes import indexing

    with typed(config):
        index = indexing.open_index(load_config(config))
        stats = index.stats()
    if as_json:
        print(json.dumps({"path": str(index.path), **stats.model_dump(mode="json")}, indent=2))
        return
    say(f"{index.path}: {stats.chunks:,} chunks of {stats.files:,} files")
    for source, revision in stats.sources.items():
        say(f"{source}: {revision or 'no revision'}")
    say(f"{stats.tokens:,} tokens, {stats.terms:,} different terms")
    for column in stats.vectors:
        say(f"{column.name}: {column.dimensions} dimensions, {column.search} search")
    say(f"lsa: {stats.lsa_changed:.1%} of the chunks changed since it was fitted")
    sizes = ", ".join(f"{name} {size / 1e6:,.1f}" for name, size in stats.bytes.items())
    say(f"{sum(stats.bytes.values()) / 1e6:,.1f} MB on disk: {sizes}")


def _summary(made: "Indexing") -> None:
    index = made.index
    say(f"{index.path}: {len(index):,} chunks of {made.files:,} files")
    say(f"retrievers: {', '.join(index.retrievers)}")
    if made.skipped:
        from freshstack_dspy.collection.counts import count_kinds, listed

        say(f"{len(made.skipped):,} files skipped ({listed(count_kinds(made.skipped))})")
        for file in [file for file in made.skipped if file.kind in _TOLD][:_MOST_TOLD]:
            say(f"not read: {file.source}/{file.path}: {file.reason}")
    if made.licences:
        say(f"{len(made.licences):,} licence files kept apart")


def _changes(difference: "Difference") -> None:
    say(
        f"files: {difference.files_added:,} added, {difference.files_changed:,} changed, "
        f"{difference.files_removed:,} removed, {difference.files_kept:,} kept"
    )
    say(
        f"chunks: {difference.added:,} added, {difference.removed:,} removed, "
        f"{difference.kept:,} kept"
    )
    for name, number in difference.embedded.items():
        say(f"{name}: {number:,} chunks embedded")
    say(f"lsa: {difference.lsa}; {difference.lsa_changed:.1%} of the chunks changed since its fit")


def _print_ranking(text: str, ranking: "Sequence[ScoredChunk]", chunks: "dict[str, Chunk]") -> None:
    from freshstack_dspy.text import terms

    wanted = set(terms(text))
    if not ranking:
        say("nothing found")
    for rank, (chunk_id, score) in enumerate(ranking, 1):
        # The line that has the most of the words; the first of such.
        lines = chunks[chunk_id].passage.splitlines() or [""]
        line = max(lines, key=lambda line: len(wanted.intersection(terms(line))))
        shown = one_line(line).strip()
        short = shown if len(shown) <= _LONGEST_LINE else f"{shown[: _LONGEST_LINE - 1]}…"
        say(f"{rank:>3}  {score:.6f}  {chunk_id}")
        say(f"     {short}")


def _print_json(
    text: str, retriever: str, ranking: "Sequence[ScoredChunk]", chunks: "dict[str, Chunk]"
) -> None:
    """Print JSON in ASCII: what stands in a file of others moves no cursor."""
    found = [
        {"rank": rank, "score": score, **chunks[chunk_id].model_dump(mode="json")}
        for rank, (chunk_id, score) in enumerate(ranking, 1)
    ]
    print(json.dumps({"text": text, "retriever": retriever, "chunks": found}, indent=2))
