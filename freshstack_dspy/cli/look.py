"""`freshstack show`, `explain`, `diagnose`, `diff`: what is in a collection, and how it came about."""

import sys
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from freshstack_dspy.cli.options import (
    CollectionArgument,
    FormatOption,
    JsonOption,
    SlicesOption,
)
from freshstack_dspy.cli.printing import (
    Table,
    counted,
    cut,
    one_line,
    present,
    say,
    say_wrapped,
    show_json,
    width,
)
from freshstack_dspy.cli.printing import show as show_table

if TYPE_CHECKING:
    from freshstack_dspy.collection.collection import Collection
    from freshstack_dspy.collection.diff import JudgmentChange, NuggetChange
    from freshstack_dspy.collection.explain import Explanation
    from freshstack_dspy.lm.store import Recorded
    from freshstack_dspy.records import Candidate, Chunk, Query


_SUPPORTS = 24
"""How many characters of nugget ids are in a line of a table."""


def show(
    collection: CollectionArgument,
    query: Annotated[str | None, typer.Argument(help="Id of a query.")] = None,
    slices: SlicesOption = "all",
    as_json: JsonOption = False,
) -> None:
    """List the queries, or one query with its nuggets and chunks."""
    from freshstack_dspy.collection.collection import Collection
    from freshstack_dspy.collection.explain import find_query

    loaded = Collection.load(collection)
    if query is None:
        _show_queries(loaded, slices, as_json=as_json)
    else:
        _show_query(loaded, find_query(loaded, query), as_json=as_json)


def _show_queries(collection: "Collection", slices: Any, *, as_json: bool) -> None:
    from freshstack_dspy.stored.manifest import NOT_MEASURED
    from freshstack_dspy.stored.slices import slices_of

    titles = {query.query_id: query.title or query.body for query in collection.queries}
    parts = [part for part in collection.slices if part.slice in slices_of(slices)]
    header = ("query_id", "title", "nuggets", "supported", "slice")
    rows = [
        (part.query_id, one_line(titles[part.query_id]), part.nuggets, part.supported, part.slice)
        for part in parts
    ]
    if as_json:
        show_json([dict(zip(header, row, strict=True)) for row in rows])
        return
    longest = max(20, width() - 49 - max((len(part.query_id) for part in parts), default=0))
    title = f"{collection.name}: {counted(len(rows), 'query', 'queries')}"
    shown = [(id_, cut(text, longest), *others) for id_, text, *others in rows]
    show_table(Table(header, shown, title=title, keys=2))
    say_wrapped(collection.labels_by)
    if collection.manifest.trust is None:
        say(NOT_MEASURED)
    say("one query: freshstack show COLLECTION QUERY")


def _show_query(collection: "Collection", query: "Query", *, as_json: bool) -> None:
    from freshstack_dspy.stored.contents import nuggets_by_query

    supports: dict[str, list[str]] = {}
    for judgment in collection.judgments:
        if judgment.query_id == query.query_id and collection.supports(judgment):
            supports.setdefault(judgment.chunk_id, []).append(judgment.nugget_id)
    ranks = {
        each.chunk_id: min((by.rank for by in each.pooled_by), default=None)
        for each in collection.pool
        if each.query_id == query.query_id
    }
    chunks: list[dict[str, Any]] = [
        {"chunk_id": id_, "best_rank": ranks.get(id_), "supports": supports.get(id_, [])}
        for id_ in sorted({*supports, *ranks})
    ]
    chunks.sort(key=lambda one: (-len(one["supports"]), one["best_rank"] or sys.maxsize))
    nuggets = [
        each.model_dump(include={"nugget_id", "text", "importance", "doubtful"})
        | {"supported_by": sum(each.nugget_id in ids for ids in supports.values())}
        for each in nuggets_by_query(collection.nuggets, doubtful=True).get(query.query_id, [])
    ]
    slice_ = next(part.slice for part in collection.slices if part.query_id == query.query_id)
    if as_json:
        show_json({"query": query, "slice": slice_, "nuggets": nuggets, "chunks": chunks})
        return
    _print_title(query, slice_)
    say(f"nuggets ({len(nuggets)})")
    for one in nuggets:
        rated = f", {one['importance']}" if one["importance"] else ""
        by = f"supported by {counted(one['supported_by'], 'chunk')}"
        supported = "doubtful, so not judged" if one["doubtful"] else by
        say_wrapped(f"{one['nugget_id']}{rated}, {supported}: {one['text']}", 2)
    rows = [
        (one["chunk_id"], one["best_rank"], textwrap.fill(", ".join(one["supports"]), _SUPPORTS))
        for one in chunks
    ]
    print()
    title = f"chunks pooled or judged ({len(chunks):,})"
    show_table(Table(("chunk", "best rank", "supports"), rows, title, ids=(0,)))
    say_wrapped(collection.labels_by)
    say(f"one chunk: freshstack explain COLLECTION {query.query_id} CHUNK")


def _print_title(query: "Query", slice_: str) -> None:
    say_wrapped(f"query {query.query_id}: {cut(query.title or query.body, 400)}")
    tags = f", tags {', '.join(query.tags)}" if query.tags else ""
    fields = "".join(f", {name} {value}" for name, value in query.fields.items())
    say_wrapped(f"slice {slice_}, origin {query.origin}{tags}{fields}", 2)
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
    as_json: JsonOption = False,
) -> None:
    """Say what found a chunk for a query, who judged it, and why."""
    from freshstack_dspy.collection.collection import Collection
    from freshstack_dspy.collection.explain import explain as explain_pair

    loaded = Collection.load(collection)
    with ExitStack() as opened:
        replies: Sequence[Recorded | None] = ()
        if config is not None:
            from freshstack_dspy.config import load_config
            from freshstack_dspy.recipes.session import open_replies

            replies = opened.enter_context(open_replies(load_config(config), "replay"))
        found = explain_pair(loaded, query, chunk, replies=replies)
    if as_json:
        show_json(found)
        return
    _print_title(found.query, found.slice.slice)
    _print_chunk(found.chunk)
    _print_candidate(found.candidate)
    _print_judgments(found)
    _print_calls(found, config)
    say_wrapped(loaded.labels_by)


def _print_chunk(chunk: "Chunk") -> None:
    say_wrapped(f"chunk {chunk.chunk_id}")
    revision = f", revision {chunk.revision}" if chunk.revision else ""
    say_wrapped(
        f"{chunk.path} of {chunk.source}{revision}, bytes {chunk.start_byte:,} to "
        f"{chunk.end_byte:,}, {chunk.tokens:,} tokens {chunk.url or ''}",
        2,
    )
    if chunk.headings:
        say_wrapped(f"below {' > '.join(chunk.headings)}", 2)
    for line in chunk.titled.splitlines():
        say(f"  | {line.rstrip().expandtabs(4)}".rstrip())
    print()


_ORIGINS = {
    "pooled": "pooled by",
    "run": "added for a run, pooled by no technique",
    "seed": "the query was made from it, pooled by no technique",
    "document": "of the documents that the report was written from",
    "reused": "judged before a refresh, and pooled no more",
    "imported": "imported: the format does not say what found it",
}


def _print_candidate(candidate: "Candidate | None") -> None:
    """What found a chunk: each technique's fused rank, and the ranks in its retrievers' lists."""
    from freshstack_dspy.records import TECHNIQUES

    if candidate is None:
        say("judged without being a candidate: what found it is not known\n")
        return
    say(_ORIGINS[candidate.origin])
    fused = {by.technique: f"{by.rank:,}" for by in candidate.pooled_by}
    fused |= {by.technique: f"{by.rank:,} (below the pool)" for by in candidate.ranked_below}
    for technique in TECHNIQUES:
        lists = [by for by in candidate.found_by if by.technique == technique]
        if technique in fused or lists:
            ranks = ", ".join(f"{by.retriever} {by.rank:,}" for by in lists)
            ranks = ranks or "in no retriever's list"
            say_wrapped(f"{technique}: rank {fused.get(technique, '–')}; {ranks}", 2)
    for run in candidate.runs:
        say_wrapped(f"run {run.run}: rank {run.rank:,}", 2)
    if candidate.lost_without:
        say_wrapped(f"not pooled without {', nor without '.join(candidate.lost_without)}", 2)
    print()


def _print_judgments(found: "Explanation") -> None:
    say_wrapped(
        f"judgments of {len(found.nuggets)} nuggets (scale {found.scale.name}, support from "
        f"{found.scale.threshold} on)"
    )
    for judged in found.nuggets:
        nugget, judgment = judged.nugget, judged.judgment
        name = f"{nugget.nugget_id}, {nugget.importance}" if nugget.importance else nugget.nugget_id
        if judgment is None:
            why = "doubtful, so not judged" if nugget.doubtful else "not judged"
            say_wrapped(f"{name}: {why}: {nugget.text}", 2)
            continue
        verdict = {True: "supports", False: "does not support", None: "no label"}[judged.supports]
        label = judgment.status if judgment.label is None else judgment.label
        number = f", nugget {judged.number} in its call" if judged.number else ""
        say_wrapped(f"{name}: {verdict} ({label}){number}", 2)
        say_wrapped(nugget.text, 4)
        if judgment.same_as:
            say_wrapped(f"judged as {judgment.same_as}, which says the same", 4)
        for (start, end), words in zip(judgment.evidence, judged.evidence, strict=True):
            say_wrapped(f"bytes {start:,} to {end:,}: “{' '.join(words.split())}”", 4)
        for vote in judgment.votes:
            part = f", part {vote.part}" if judgment.parts > 1 else ""
            given = f"label {vote.label}" if vote.label is not None else f"no label ({vote.status})"
            say_wrapped(f"vote {vote.vote}{part}: {given}{_by(vote.call_id)}", 6)
    for one in found.reasons:
        ids = one.nugget_ids
        of = f"nugget {ids[0]}" if len(ids) == 1 else f"the chunk as a whole, {len(ids)} nuggets"
        say_wrapped(f"reason for {of}: {one.text}{_by(one.call_id)}", 2)
    for failure in found.failures:
        why = f"failed in step {failure.step}, {failure.status}: {failure.message}"
        say_wrapped(f"{why}{_by(failure.call_id)}", 2)
    print()


def _print_calls(found: "Explanation", config: Path | None) -> None:
    say("calls" if found.calls else "calls: no reply is named by these judgments")
    for call in found.calls:
        say_wrapped(call.call_id, 2)
        facts = f"no reply found where {config} says"
        if config is None:
            facts = "--config BUILD.toml shows the call; with --json also its prompt and reply"
        if reply := call.reply:
            cost = "cost unknown" if reply.cost is None else f"${reply.cost:.4f}"
            tokens = "tokens unknown"
            if reply.input_tokens is not None:
                tokens = f"{reply.input_tokens} + {reply.output_tokens} tokens"
            facts = (
                f"{reply.request.model}, {reply.request.task or 'no named task'}; "
                f"{tokens}, {cost}; {reply.status}, "
                f"finish reason {reply.finish_reason}, {reply.received_at}"
            )
        say_wrapped(f"{facts}; {call.judgments:,} judgments of the collection name it", 4)


def _by(call_id: str | None) -> str:
    return "" if call_id is None else f" [call {cut(call_id, 12)}]"


# diagnose


def diagnose(
    collection: CollectionArgument, form: FormatOption = None, as_json: JsonOption = False
) -> None:
    """Say what each technique and retriever gave to the pool, and what it may lack."""
    from freshstack_dspy.collection.collection import Collection

    present(Collection.load(collection).diagnose().page(), form, as_json=as_json)


# diff


def diff(
    before: Annotated[Path, typer.Argument(help="Folder of a collection.")],
    after: Annotated[Path, typer.Argument(help="Folder of another, or of a later state of it.")],
    limit: Annotated[
        int, typer.Option(min=0, help="List at most so many nuggets and labels of each kind.")
    ] = 5,
    as_json: JsonOption = False,
) -> None:
    """Show which queries, nuggets, labels and evidence differ between two collections."""
    from freshstack_dspy.collection.collection import Collection
    from freshstack_dspy.collection.diff import (
        JudgmentChange,
        NuggetChange,
        QueryChange,
        difference,
    )

    one, other = Collection.load(before), Collection.load(after)
    found = difference(one, other, list(one.chunks()), list(other.chunks()))
    if as_json:
        show_json(found)
        return
    kinds = ("queries", "nuggets", "chunks", "pool", "judgments")
    tallies = [(kind, getattr(found, kind)) for kind in kinds]
    rows = [(kind, of.kept, of.added, of.dropped, of.changed) for kind, of in tallies]
    show_table(Table(("", "same", "added", "dropped", "changed"), rows, f"{before} → {after}"))
    nuggets = [change for change in found.changes if isinstance(change, NuggetChange)]
    labels = [change for change in found.changes if isinstance(change, JudgmentChange)]
    queries = [change for change in found.changes if isinstance(change, QueryChange)]
    slices = Counter(
        f"{change.slice_before} → {change.slice_after}"
        for change in queries
        if change.slice_before and change.slice_after
        if change.slice_before != change.slice_after
    )
    if slices:
        moved = ", ".join(f"{number:,} {move}" for move, number in sorted(slices.items()))
        say_wrapped(f"slices of queries: {moved}")
    titles = {query.query_id: query.title or query.body for query in (*other.queries, *one.queries)}
    for kind in ("added", "dropped", "edited"):
        ids = [change.query_id for change in queries if change.change == kind]
        _list_changes(f"queries {kind}", [f"{id_}: {titles[id_]}" for id_ in ids], limit)
    for kind in ("added", "dropped", "changed"):
        of_kind = [change for change in nuggets if change.change == kind]
        _list_changes(f"nuggets {kind}", [_nugget_line(change) for change in of_kind], limit)
    texts = {nugget.nugget_id: nugget.text for nugget in (*other.nuggets, *one.nuggets)}
    for move in ("up", "down", "new", "gone"):
        of_move = [change for change in labels if change.move == move]
        _list_changes(f"labels {move}", [_label_line(each, texts) for each in of_move], limit)
    elsewhere = [_label_line(change, texts) for change in labels if change.change == "evidence"]
    _list_changes("same label, other evidence", elsewhere, limit)


def _list_changes(title: str, lines: Sequence[str], limit: int) -> None:
    if not lines:
        return
    say(f"{title}: {len(lines):,}")
    for line in lines[:limit]:
        say(f"  {cut(line, width() - 2)}")
    if 0 < limit < len(lines):
        say(f"  … and {len(lines) - limit:,} more; --limit {len(lines)} lists all")


def _nugget_line(change: "NuggetChange") -> str:
    nugget = change.after or change.before
    assert nugget is not None
    if not change.fields:
        return f"{nugget.nugget_id}: {nugget.text}"
    moves = (f"{getattr(change.before, name)} → {getattr(nugget, name)}" for name in change.fields)
    return f"{nugget.nugget_id}: {'; '.join(moves)}"


def _label_line(change: "JudgmentChange", texts: Mapping[str, str]) -> str:
    judgment = change.after or change.before
    assert judgment is not None
    sides = (change.before, change.after)
    if change.change == "evidence":  # where it is in the file, in bytes
        spans = [one.evidence if one else () for one in sides]
        ends = [" ".join(f"{start}–{end}" for start, end in each) or "none" for each in spans]
    else:
        ends = ["–" if one is None or one.label is None else str(one.label) for one in sides]
    return (
        f"{' → '.join(ends)}  {judgment.nugget_id} in {judgment.chunk_id}: "
        f"{texts[judgment.nugget_id]}"
    )
