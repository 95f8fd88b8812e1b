"""`freshstack build`, `retrieve`."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from freshstack_dspy.cli.slices import SlicesOption, slices_of

CollectionArgument = Annotated[Path, typer.Argument(help="Folder of a collection.")]
ModeName = Literal["live", "replay", "defer", "rerecord"]
FusionName = Literal["normalised_sum", "rrf", "weighted", "z_score", "isr", "comb_mnz"]


def build(
    config: Annotated[Path, typer.Argument(help="TOML file; `freshstack init` writes an example.")],
    mode: Annotated[
        ModeName,
        typer.Option(
            help="live: ask for what is not recorded. replay: recorded replies only, no network. "
            "defer: write missing requests to a file. refresh: ask everything again."
        ),
    ] = "live",
    requests: Annotated[
        Path | None, typer.Option(help="With defer: the file of missing requests.")
    ] = None,
    cache: Annotated[
        list[Path] | None,
        typer.Option(help="Bundle of recorded replies to read too; may be repeated."),
    ] = None,
    save_replies: Annotated[
        Path | None, typer.Option(help="Write the replies that were used to this bundle.")
    ] = None,
    log: Annotated[
        Path | None, typer.Option(help="Append one JSON line for each request to this file.")
    ] = None,
    trace: Annotated[
        bool, typer.Option("--trace", help="One OpenTelemetry span for each request.")
    ] = False,
) -> None:
    """Build a judged collection; run it again to resume."""
    from freshstack_dspy.cli.asking import typed
    from freshstack_dspy.cli.bars import Bars
    from freshstack_dspy.cli.listening import listening
    from freshstack_dspy.cli.outputs import check_collection, check_inputs, inputs_of
    from freshstack_dspy.cli.tables import build_summary
    from freshstack_dspy.config import load_config, with_bundles
    from freshstack_dspy.recipes.build import NOTHING_TO_DO
    from freshstack_dspy.recipes.build import build as build_collection

    settings = with_bundles(load_config(config), cache or ())
    for output in (save_replies, requests, log):
        check_inputs(output, config, *inputs_of(settings))
        check_collection(output, settings.out)
    with typed(config), Bars() as bars, listening(log, trace=trace) as callback:
        collection = build_collection(
            settings,
            mode=mode,
            progress=bars,
            requests_file=requests,
            replies_file=save_replies,
            callback=callback,
        )
    build_summary(collection, settings.out, unchanged=NOTHING_TO_DO in bars.steps)


def retrieve(
    collection: CollectionArgument,
    retriever: Annotated[
        str, typer.Option(help="bm25, lsa, the name of an [[embedder]], hybrid or hybrid+rerank.")
    ] = "hybrid",
    out: Annotated[Path | None, typer.Option(help="Run file; by default RETRIEVER.run.")] = None,
    depth: Annotated[int, typer.Option(min=1, help="Chunks for each question.")] = 100,
    slices: SlicesOption = "evaluated",
    index: Annotated[Path, typer.Option(help="Folder where indexes are kept.")] = Path(
        ".freshstack/index"
    ),
    fusion: Annotated[
        FusionName | None,
        typer.Option(help="How hybrid fuses; by default as CONFIG says, or normalised_sum."),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(help="A build's TOML file, for its [[embedder]], [reranker] and [fusion]."),
    ] = None,
) -> None:
    """Search for a collection's questions; write a TREC run."""
    from contextlib import nullcontext

    from freshstack_dspy.cli.bars import Bars
    from freshstack_dspy.collection.collection import Collection
    from freshstack_dspy.collection.retrieve import retrieve as run_retriever
    from freshstack_dspy.config import FusionConfig, load_config
    from freshstack_dspy.index.searching import Models
    from freshstack_dspy.measures.run import write_run
    from freshstack_dspy.recipes.indexing import Stages
    from freshstack_dspy.recipes.models import search_models

    settings = load_config(config) if config else None
    fused = settings.fusion if settings else FusionConfig()
    if fusion is not None and fusion != fused.method:
        fused = FusionConfig(method=fusion)
    opened = search_models(settings) if settings else nullcontext(Models())
    with opened as models, Bars() as bars:
        loaded = Collection.load(collection)
        run = run_retriever(
            loaded,
            retriever,
            depth=depth,
            slices=slices_of(slices, loaded),
            index_path=index,
            fusion=fused,
            embedders=models.embedders,
            reranker=models.reranker,
            rerank_depth=models.rerank_depth,
            progress=Stages(bars),
        )
    if slices != "evaluated":  # two runs over other queries are not the same run
        run = replace(run, name=f"{run.name}-{slices}")
    path = out or Path(f"{retriever}.run")
    write_run(run, path)
    typer.echo(f"{path}: {len(run.rankings)} questions by {retriever}")
