"""`freshstack show`, `explain`, `diagnose`: what is in a collection, and how it came about."""

import sys
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from freshstack_dspy.cli.options import (
    CollectionArgument,
    JsonOption,
    LimitOption,
    SlicesOption,
)
from freshstack_dspy.cli.printing import (
    Cell,
    Table,
    counted,
    cut,
    labels_by,
    one_line,
    say,
    say_wrapped,
    show_json,
    width,
)
from freshstack_dspy.cli.printing import show as show_table

if TYPE_CHECKING:
    from freshstack_dspy.collection.collection import Collection
    from freshstack_dspy.collection.diagnose import (
        Diagnosis,
        Finders,
        Losses,
        MissingSupport,
        PoolingResult,
    )
    from freshstack_dspy.collection.explain import Call, Explanation, JudgedNugget
    from freshstack_dspy.lm.store import Recorded
    from freshstack_dspy.measures.statistics import Estimate
    from freshstack_dspy.records import Candidate, Query

_FIRST_LINES = 6
"""How many lines of a chunk are shown."""
_LISTED = 50
"""How many queries, or chunks of a query, are listed without --limit."""


def show(
    collection: CollectionArgument,
    query: Annotated[str | None, typer.Argument(help="Id of a query.")] = None,
    limit: LimitOption = None,
    slices: SlicesOption = "all",
    as_json: JsonOption = False,
) -> None:
    """List the queries, or one query with its nuggets and chunks."""
    from freshstack_dspy.collection.collection import Collection
    from freshstack_dspy.collection.explain import find_query

    loaded = Collection.load(collection)
    if query is None:
        found: Any = _queries(loaded, slices)
    else:
        found = _one_query(loaded, find_query(loaded, query))
    if as_json:
        show_json(found)
    elif query is None:
        _print_queries(loaded, found, limit or _LISTED)
    else:
        _print_query(loaded, found, limit or _LISTED)


def _queries(collection: "Collection", slices: Any) -> list[dict[str, Any]]:
    from freshstack_dspy.collection.slices import slices_of

    titles = {query.query_id: query.title or query.body for query in collection.queries}
    return [
        {
            "query_id": part.query_id,
            "title": one_line(titles[part.query_id]),
            "nuggets": part.nuggets,
            "supported": part.supported,
            "slice": part.slice,
        }
        for part in collection.slices
        if part.slice in slices_of(slices)
    ]


def _print_queries(collection: "Collection", found: list[dict[str, Any]], limit: int) -> None:
    title = max(20, width() - 54)
    rows = [
        (one["query_id"], cut(one["title"], title), one["nuggets"], one["supported"], one["slice"])
        for one in found[:limit]
    ]
    number = counted(len(found), "query", "queries")
    shown = f"the first {limit} of {number}" if len(found) > limit else number
    header = ("query", "title", "nuggets", "supported", "slice")
    show_table(Table(header, rows, title=f"{collection.name}: {shown}", keys=2))
    say(labels_by(collection))
    say("one of them: freshstack show COLLECTION QUERY")


def _one_query(collection: "Collection", query: "Query") -> dict[str, Any]:
    from freshstack_dspy.collection.contents import nuggets_by_query

    supports: dict[str, list[str]] = {}
    for one in collection.judgments:
        if one.query_id == query.query_id and collection.supports(one):
            supports.setdefault(one.chunk_id, []).append(one.nugget_id)
    ranks = {
        one.chunk_id: min((by.rank for by in one.pooled_by), default=None)
        for one in collection.pool
        if one.query_id == query.query_id
    }
    chunks: list[dict[str, Any]] = [
        {"chunk_id": id_, "best_rank": ranks.get(id_), "supports": supports.get(id_, [])}
        for id_ in sorted({*supports, *ranks})
    ]
    chunks.sort(key=lambda one: (-len(one["supports"]), one["best_rank"] or sys.maxsize))
    nuggets = [
        {
            "nugget_id": nugget.nugget_id,
            "text": nugget.text,
            "importance": nugget.importance,
            "supported_by": sum(nugget.nugget_id in ids for ids in supports.values()),
        }
        for nugget in nuggets_by_query(collection.nuggets).get(query.query_id, [])
    ]
    part = next(part for part in collection.slices if part.query_id == query.query_id)
    return {"query": query, "slice": part.slice, "nuggets": nuggets, "chunks": chunks}


def _print_query(collection: "Collection", found: dict[str, Any], limit: int) -> None:
    query, chunks = found["query"], found["chunks"]
    _print_title(query, found["slice"])
    say(f"nuggets ({len(found['nuggets'])})")
    for nugget in found["nuggets"]:
        rated = f", {nugget['importance']}" if nugget["importance"] else ""
        by = counted(nugget["supported_by"], "chunk")
        say_wrapped(f"{nugget['nugget_id']}{rated}, supported by {by}: {nugget['text']}", 2)
    print()
    rows = [
        (one["chunk_id"], one["best_rank"], ", ".join(one["supports"])) for one in chunks[:limit]
    ]
    title = f"chunks pooled or judged ({min(limit, len(chunks)):,} of {len(chunks):,})"
    show_table(Table(("chunk", "best rank", "supports"), rows, title=title))
    say(labels_by(collection))
    say(f"one of them: freshstack explain COLLECTION {query.query_id} CHUNK")


def _print_title(query: "Query", slice_: str) -> None:
    say_wrapped(f"query {query.query_id}: {cut(query.title or query.body, 400)}")
    tags = f", tags {', '.join(query.tags)}" if query.tags else ""
    say_wrapped(f"slice {slice_}, origin {query.origin}{tags}", 2)
    print()


# explain


def explain(
    collection: CollectionArgument,
    query: Annotated[str, typer.Argument(help="Id of a query; `freshstack show` lists them.")],
    chunk: Annotated[str, typer.Argument(help="Id of a chunk that was pooled or judged for it.")],
    config: Annotated[
        Path | None,
        typer.Option(help="The build's TOML file: its [cache] says where replies are recorded."),
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(help="JSON Lines of human labels, to show with them.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Say what found a chunk for a query, who judged it, and why."""
    from freshstack_dspy.calibration.labels import read_labels
    from freshstack_dspy.collection.collection import Collection
    from freshstack_dspy.collection.explain import explain as explain_pair

    loaded = Collection.load(collection)
    given = read_labels(labels) if labels else ()
    with ExitStack() as opened:
        replies = _recorded(config, opened) if config else ()
        found = explain_pair(loaded, query, chunk, replies=replies, labels=given)
    if as_json:
        show_json(found)
        return
    _print_explanation(found)
    say(labels_by(loaded))


def _recorded(config: Path, opened: ExitStack) -> "tuple[Recorded, ...]":
    """The store of a build, where there is one, and its bundles; nothing is written."""
    from freshstack_dspy.config import load_config
    from freshstack_dspy.lm.bundle import Bundles
    from freshstack_dspy.lm.store import ReplyStore, holds_store

    cache = load_config(config).cache
    recorded: list[Recorded] = []
    if holds_store(cache.path):
        recorded.append(opened.enter_context(closing(ReplyStore(cache.path, read_only=True))))
    recorded.append(opened.enter_context(closing(Bundles(cache.bundles))))
    return tuple(recorded)


def _print_explanation(found: "Explanation") -> None:
    _print_title(found.query, found.slice.slice)
    chunk, scale = found.chunk, found.scale
    say_wrapped(f"chunk {chunk.chunk_id}")
    revision = f", revision {chunk.revision}" if chunk.revision else ""
    say_wrapped(
        f"{chunk.path} of {chunk.source}{revision}, bytes {chunk.start_byte:,} to "
        f"{chunk.end_byte:,}, {chunk.tokens:,} tokens {chunk.url or ''}",
        2,
    )
    lines = [line for line in chunk.titled.splitlines() if line.strip()]
    for line in lines[:_FIRST_LINES]:
        say(f"  | {cut(line.rstrip(), width() - 4)}")
    if len(lines) > _FIRST_LINES:
        say(f"  | … and {len(lines) - _FIRST_LINES:,} more lines")
    print()
    _print_candidate(found)
    print()
    say_wrapped(
        f"judgments of {len(found.nuggets)} nuggets (scale {scale.name}, support from "
        f"{scale.threshold} on)"
    )
    before = ""
    for nugget in found.nuggets:
        _print_nugget(nugget, before)
        before = nugget.judgment.reason if nugget.judgment else ""
    for failure in found.failures:
        why = f"failed in step {failure.step}, {failure.status}: {failure.message}"
        say_wrapped(f"{why}{_by(failure.call_id)}", 2)
    print()
    _print_calls(found)


_ORIGINS = {
    "pooled": "pooled by",
    "run": "added for a run, pooled by no technique",
    "seed": "the query was made from it, pooled by no technique",
    "carried": "judged before a refresh, and pooled no more",
    "imported": "imported: the format does not say what found it",
}


def _print_candidate(found: "Explanation") -> None:
    candidate = found.candidate
    if candidate is None:
        say("judged without being a candidate: what found it is not known")
        return
    say(_ORIGINS[candidate.origin])
    if found.is_seed and candidate.origin != "seed":
        say("  the query was made from it")
    for line in _ranks(candidate):
        say_wrapped(line, 2)
    for run in candidate.runs:
        say_wrapped(f"run {run.run}: rank {run.rank:,}", 2)
    if candidate.lost_without:
        say_wrapped(f"not pooled without {', nor without '.join(candidate.lost_without)}", 2)


def _ranks(candidate: "Candidate") -> Iterable[str]:
    """Each technique's fused rank, and the ranks in its retrievers' lists."""
    from freshstack_dspy.records import TECHNIQUES

    fused: dict[str, str] = {
        **{by.technique: f"{by.rank:,} (below the pool)" for by in candidate.ranked_below},
        **{by.technique: f"{by.rank:,}" for by in candidate.pooled_by},
    }
    lists: dict[str, list[str]] = {}
    for each in candidate.found_by:
        lists.setdefault(each.technique, []).append(f"{each.retriever} {each.rank:,}")
    for technique in TECHNIQUES:
        if technique in fused or technique in lists:
            ranks = ", ".join(lists.get(technique, ["in no retriever's list"]))
            yield f"{technique}: rank {fused.get(technique, '–')}; {ranks}"


def _print_nugget(judged: "JudgedNugget", before: str) -> None:
    """Print one nugget; a reason that is the one before is repeated only where there is support."""
    nugget, judgment = judged.nugget, judged.judgment
    verdict = {True: "supports", False: "does not support", None: "no label"}[judged.supports]
    if judgment is None:
        verdict = "not judged"
    else:
        verdict += f" ({judgment.status if judgment.label is None else judgment.label})"
    rated = f", {nugget.importance}" if nugget.importance else ""
    number = f", nugget {judged.number} in its call" if judged.number else ""
    say_wrapped(f"{nugget.nugget_id}{rated}: {verdict}{number}", 2)
    say_wrapped(nugget.text, 4)
    if judgment is not None:
        parts = f", in {judgment.parts} parts" if judgment.parts > 1 else ""
        reason = f"{judgment.reason or '(none)'}{parts}{_by(judgment.call_id)}"
        same = judgment.reason == before and not judged.supports
        say_wrapped(f"reason: {'as above' if before and same else reason}", 4)
        for vote in judgment.votes:
            part = f", part {vote.part}" if judgment.parts > 1 else ""
            label = f"label {vote.label}" if vote.label is not None else f"no label ({vote.status})"
            say_wrapped(f"vote {vote.vote}{part}: {label}; {vote.reason}{_by(vote.call_id)}", 6)
    for human in judged.labels:
        time = f" at {human.time}" if human.time else ""
        say_wrapped(f"human label {human.label} by {human.annotator}{time}", 4)


def _print_calls(found: "Explanation") -> None:
    if not found.calls:
        say("calls: no reply is named by these judgments")
        return
    say("calls")
    for call in found.calls:
        say_wrapped(call.call_id, 2)
        say_wrapped("; ".join(_facts(call, looked_up=found.looked_up)), 4)
    if not found.looked_up:
        say_wrapped("for their replies, name the store and the bundles: --config BUILD.toml", 2)


def _facts(call: "Call", *, looked_up: bool) -> Iterable[str]:
    if call.recorded:
        yield f"{call.model}, {call.task or 'no named task'}"
        if call.input_tokens is not None and call.output_tokens is not None:
            yield f"{call.input_tokens:,} + {call.output_tokens:,} tokens"
        yield "cost unknown" if call.cost is None else f"${call.cost:.4f}"
        yield f"{call.status}, finish reason {call.finish_reason}, {call.received_at}"
    elif looked_up:
        yield "not recorded in this store or these bundles"
    yield f"{call.judgments:,} judgments of the collection name it"


def _by(call_id: str | None) -> str:
    return "" if call_id is None else f" [call {cut(call_id, 12)}]"


# diagnose


def diagnose(
    collection: CollectionArgument,
    slices: SlicesOption = "supported",
    as_json: JsonOption = False,
) -> None:
    """Say what each technique and retriever gave to the pool, and what it may lack."""
    from freshstack_dspy.collection.collection import Collection

    loaded = Collection.load(collection)
    found = loaded.diagnose(slices)
    if as_json:
        manifest = loaded.manifest
        about = {"collection": loaded.name, "content_hash": manifest.content_hash}
        show_json({**about, "left_out": loaded.left_out(slices), "diagnosis": found})
        return
    _print_diagnosis(loaded, found)
    if line := loaded.left_out(slices):
        say_wrapped(f"diagnosed: {line}")
    say(labels_by(loaded))


def _print_diagnosis(collection: "Collection", found: "Diagnosis") -> None:
    queries = counted(found.queries, "query", "queries")
    say_wrapped(f"{collection.name}: {queries} ({', '.join(found.slices)})")
    say(f"{found.pooled:,} pooled chunks, {found.relevant:,} relevant ones, query by query")
    if found.outside:
        outside = ", ".join(f"{number:,} {origin}" for origin, number in found.outside.items())
        say(f"candidates that no technique pooled: {outside}")
    if found.relevant_outside:
        say(f"relevant chunks that no technique pooled: {found.relevant_outside:,}")
    if found.unknown:
        say_wrapped(f"who found what is not known: {found.unknown}")
    for table, note in _tables(found):
        print()
        show_table(table)
        say_wrapped(note)
    if votes := found.votes:
        print()
        say_wrapped(
            f"{votes.pairs:,} pairs with several votes: two votes agree on "
            f"{_percent(votes.agreement)}, all votes on {_percent(votes.unanimous)}; "
            f"{votes.failed_votes:,} failed votes"
        )


def _tables(found: "Diagnosis") -> Iterable[tuple[Table, str]]:
    """Each table of a diagnosis, with what is to be said below it."""
    if found.finders and found.losses and found.missing:
        yield _finders(found.finders)
        yield _losses(found.losses)
        rows = [
            (
                f"{one.depth}",
                _share(one.chunks, one.chunk_share),
                _share(one.relevant, one.relevant_share),
                _share(one.nuggets, one.nugget_share),
            )
            for one in found.depths
            if one.depth in (1, 2, 3, 5, 10, 20, 50, 100) or one is found.depths[-1]
        ]
        header = ("depth", "chunks", "relevant", "nuggets")
        yield Table(header, rows, title="What a pool of each depth would hold"), ""
        yield _results(found.results)
        yield _missing(found.missing)


def _finders(found: "Finders") -> tuple[Table, str]:
    rows = [
        (one.technique, one.retriever, one.found, f"{one.first:,.1f}", one.alone)
        for one in found.finders
    ]
    title = f"Who found the {found.relevant:,} relevant chunks of the pool"
    note = (
        f"found: among its first {found.top_k}. first: nobody ranks it better, ties are "
        f"shared. alone: among nobody else's first {found.top_k}. {found.by_fusion:,} are among "
        f"nobody's first {found.top_k}: only fusion raised them."
    )
    header = ("technique", "retriever", "found", "first", "alone")
    return Table(header, rows, title=title, keys=2), note


def _losses(found: "Losses") -> tuple[Table, str]:
    names = ("chunks", "relevant", "nuggets", "queries")
    rows: list[Sequence[Cell]] = [
        (
            one.without,
            one.kind,
            *(_part(getattr(one, name), getattr(found, name)) for name in names),
        )
        for one in found.without
    ]
    rows.append(("(there are)", "", *(f"{getattr(found, name):,}" for name in names)))
    title = "What would be lost without one technique, or without one retriever"
    note = "nuggets: they lose all their support. queries: answerable ones that lose a nugget."
    return Table(("without", "a", *names), rows, title=title, keys=2), note


def _results(results: "Sequence[PoolingResult]") -> tuple[Table, str]:
    measures = tuple(results[0].means)
    rows: list[Sequence[Cell]] = [
        (
            one.technique,
            "question" if one.setting == "inference" else "answer",
            one.retriever or "fusion",
            *one.means.values(),
        )
        for one in results
    ]
    header = ("technique", "knows", "retriever", *measures)
    title = "Pooling results, as Table 4 of the FreshStack paper"
    note = (
        "fusion: of all retrievers, from which the pool is taken. A query without results counts 0."
    )
    return Table(header, rows, title=title, digits=3, keys=3), note


def _missing(missing: "MissingSupport") -> tuple[Table, str]:
    rows: list[Sequence[Cell]] = [
        (f"{one.rank}", one.chunks, one.relevant, f"{one.rate:.1%}")
        for one in missing.rates
        if one.rank == 1 or one.rank >= missing.bottom_from
    ]
    by = ", ".join(f"{number:,} by {n}" for n, number in missing.by_techniques.items())
    note = (
        f"only at ranks {missing.bottom_from} to {missing.top_k}: "
        f"{_part(missing.bottom_relevant, missing.relevant)} relevant chunks, and all support of "
        f"{missing.bottom_nuggets:,} nuggets. Relevant chunks by how many techniques pooled them: "
        f"{by}. Chao1, a lower bound of what the techniques could reach: "
        f"{_estimated(missing.chao1, missing.relevant)}; bias-corrected: "
        f"{_estimated(missing.chao1_corrected, missing.relevant)}."
    )
    header = ("best rank", "chunks", "relevant", "rate")
    return Table(header, rows, title="Signs of support below the pool"), note


def _part(number: int, of: int) -> str:
    return _share(number, number / of if of else None)


def _share(number: int, share: float | None) -> str:
    return f"{number:,}" if share is None else f"{number:,} ({share:.1%})"


def _estimated(estimate: "Estimate", found: int) -> str:
    if estimate.value is None:
        return f"none, for {estimate.reason}"
    missing = estimate.value - found
    share = f" ({missing / estimate.value:.1%})" if estimate.value else ""
    return f"{estimate.value:,.0f} in all, so {missing:,.0f} missing{share}"


def _percent(share: "Estimate") -> str:
    return "–" if share.value is None else f"{share.value:.1%}"
