"""What is exported of a collection: queries, nuggets, labels and grades, and their rows."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, TypeVar

from freshstack_dspy.formats.imported import IDS_FILE, LICENCES_FILE
from freshstack_dspy.pages.markdown import escape, page_markdown
from freshstack_dspy.records import Candidate, Chunk, Judgment, Nugget, Query
from freshstack_dspy.stored.card import attribution, baseline_warning
from freshstack_dspy.stored.contents import NuggetsName, Slices, slices_of
from freshstack_dspy.stored.folder import StoredCollection
from freshstack_dspy.stored.manifest import makers
from freshstack_dspy.stored.record_files import rows

R = TypeVar("R", Query, Nugget, Judgment, Candidate)
Ids = Mapping[str, str]
"""Our id -> the exported one."""


Files = Iterator[tuple[str, Any]]
"""The files of a layout: each path, and what is written there, as `format` takes it: bytes, a text, an
object (`.json`), objects (`.jsonl`) or lines; or the path of a file to move there."""


class Selection:
    """The queries of some slices with all that belongs to them.

    A query is exported with the nuggets that it is measured on; `every_nugget` has all.

    Attributes:
        queries: Ascending by id.
        nuggets: Of each query, by query id.
        labels: Nugget id -> chunk id -> label, None where the judgment failed.
        support: Nugget id -> chunk id -> 1 where the label is support, else 0. A chunk that supports
            nothing, and of which a judgment failed, is left out, as the measures take it.
        notes: What a layout says of what it wrote, a line each.
    """

    def __init__(
        self,
        collection: StoredCollection,
        slices: Slices,
        nuggets: NuggetsName,
        *,
        every_nugget: bool = False,
        pooled_chunks_only: bool = False,
    ) -> None:
        self.collection, self.slices = collection, slices_of(slices)
        self.every_nugget, self.pooled_chunks_only = every_nugget, pooled_chunks_only
        self.measured_on: NuggetsName = nuggets
        self.threshold = collection.threshold
        collection.check_any(self.slices)
        measured, self.labels = collection.measured(
            self.slices, "all" if every_nugget else nuggets, doubtful=every_nugget
        )
        self.support: dict[str, dict[str, int]] = {}
        for ids in measured.values():
            rated = [self.labels[nugget_id] for nugget_id in ids]
            pairs = [pair for labels in rated for pair in labels.items()]
            supporting = {chunk for chunk, label in pairs if (label or 0) >= self.threshold}
            failed = {chunk for chunk, label in pairs if label is None} - supporting
            for nugget_id, labels in zip(ids, rated, strict=True):
                self.support[nugget_id] = {
                    chunk_id: int(label >= self.threshold)
                    for chunk_id, label in labels.items()
                    if label is not None and chunk_id not in failed
                }
        by_id = {nugget.nugget_id: nugget for nugget in collection.nuggets}
        self.nuggets = {query: [by_id[id_] for id_ in ids] for query, ids in measured.items()}
        self.queries = list(self.of_queries(collection.queries))
        self.notes: list[str] = []

    def of_queries(self, records: Iterable[R]) -> Iterator[R]:
        """Choose the records that belong to the exported queries."""
        return (record for record in records if record.query_id in self.nuggets)

    def by_chunk(self, query_id: str) -> dict[str, dict[str, int | None]]:
        """Give the labels of a query: chunk id -> nugget id -> label, or None if it failed."""
        labels: dict[str, dict[str, int | None]] = defaultdict(dict)
        for nugget in self.nuggets[query_id]:
            for chunk_id, label in self.labels[nugget.nugget_id].items():
                labels[chunk_id][nugget.nugget_id] = label
        return dict(sorted(labels.items()))

    def grades(self) -> Iterator[tuple[str, str, int]]:
        """Grade each judged chunk of each query as `Judged.grades` does, 0 where it supports nothing."""
        for query_id, nuggets in self.nuggets.items():
            grades: Counter[str] = Counter()
            for nugget in nuggets:
                for chunk_id, supports in self.support[nugget.nugget_id].items():
                    label = self.labels[nugget.nugget_id][chunk_id] or 0
                    grades[chunk_id] += supports * (label if self.collection.plain else 1)
            for chunk_id in sorted(grades):
                yield query_id, chunk_id, grades[chunk_id]

    @cached_property
    def counts(self) -> dict[str, int]:
        """How much is exported."""
        labels = [label for judged in self.labels.values() for label in judged.values()]
        chunks: Any = self.collection.corpus.ids
        if self.pooled_chunks_only:
            pool = rows(self.collection.pool, "query_id", "chunk_id")
            pooled = {chunk_id for query_id, chunk_id in pool if query_id in self.nuggets}
            chunks = pooled.union(*self.labels.values())
        return {
            "queries": len(self.queries),
            "synthetic_queries": sum(query.origin == "synthetic" for query in self.queries),
            "nuggets": len(self.labels),
            "nuggets_without_judgment": sum(not judged for judged in self.labels.values()),
            "chunks": len(chunks),
            "judgments": len(labels),
            "supported": sum(sum(chunks.values()) for chunks in self.support.values()),
            "judgments_without_label": labels.count(None),
        }

    def left_out(self) -> tuple[str, ...]:
        """Say what of the collection is not exported."""
        queries = self.collection.left_out(self.slices, self.measured_on)
        if self.every_nugget:
            others = len(self.collection.queries) - len(self.queries)
            queries = f"{others:,} queries of other slices are left out" if others else ""
        chunks = len(self.collection.corpus.ids) - self.counts["chunks"]
        unjudged = f"{chunks:,} chunks that were not pooled or judged are left out"
        return tuple(line for line in (queries, unjudged if chunks else "") if line)

    def readme(self, how_to_load: str) -> str:
        """Write the README: what the export is, how a tool loads it, the authors and licences."""
        manifest, scale = self.collection.manifest, self.collection.manifest.scale
        numbers = (f"{number:,} {name.replace('_', ' ')}" for name, number in self.counts.items())
        warning = baseline_warning(manifest)
        parts = [f"# {escape(manifest.name)}", f"**{escape(warning)}**" if warning else ""]
        parts.append(
            f"An export of the collection with the content hash `{manifest.content_hash}`, by the "
            f"recipe {escape(manifest.recipe)}: its queries in the slices {', '.join(self.slices)}.\n"
            f"It has {', '.join(numbers)}.\n"
            f"Labels by {', '.join(map(escape, makers(manifest))) or 'others'}, on the scale "
            f"{scale.name}; {scale.threshold} or more is support."
        )
        if synthetic := self.counts["synthetic_queries"]:
            parts.append(
                f"**{synthetic} of the queries are synthetic: a language model wrote them, no "
                "person asked them.**"
            )
        if self.collection.plain:
            how_to_load = how_to_load.replace(_NUMBER, "the grade that it was imported with")
        parts.append(f"## How to load it\n\n{how_to_load}")
        licences = f"in `{LICENCES_FILE}`" if self.collection.licences else "not recorded"
        parts.append(f"The licences and notices of the corpus are {licences}.")
        return "\n\n".join([*filter(None, parts), page_markdown(attribution(self.queries), 2)])


_NUMBER = "the number of the query's nuggets that it supports"
GRADES = (
    f"The score of a chunk is {_NUMBER}. It is 0 where the chunk was judged and supports none; where "
    "a judgment of it failed, it has no line."
)


# Rows


QUERY_SOURCES = ("question_source", "answer_source")


def query_metadata(query: Query) -> dict[str, Any]:
    """What of a query a format has no room for."""
    sources = zip(QUERY_SOURCES, (query.question_source, query.answer_source), strict=True)
    return {
        "title": query.title,
        "origin": query.origin,
        "date": query.asked_at or "",
        "tags": list(query.tags),
        **{name: source.model_dump() for name, source in sources if source},
    }


def chunk_metadata(chunk: Chunk) -> dict[str, Any]:
    """FreshStack's four fields, and ours that it has no room for."""
    return {
        "url": chunk.url or "",
        "start_byte": chunk.start_byte,
        "end_byte": chunk.end_byte,
        "commit_id": chunk.revision or "",
        "source": chunk.source,
        "path": chunk.path,
        "encoding": chunk.encoding,
    }


def query_rows(selection: Selection, ids: Ids, key: str) -> Iterator[dict[str, Any]]:
    """Give each query as BEIR has it, with its id under a key."""
    for query in selection.queries:
        metadata = query_metadata(query)
        yield {key: ids[query.query_id], "text": query.text, "metadata": metadata}


def corpus_rows(selection: Selection, ids: Ids) -> Iterator[dict[str, Any]]:
    """Give each chunk as BEIR and FreshStack have it; ids that are not given stay."""
    for chunk in selection.collection.chunks():
        id_ = ids.get(chunk.chunk_id, chunk.chunk_id)
        metadata = chunk_metadata(chunk)
        yield {"_id": id_, "title": chunk.title, "text": chunk.text, "metadata": metadata}


def judgment_rows(selection: Selection) -> Iterator[dict[str, Any]]:
    """Give the judgments under our ids, for `Imported.take_judgments`."""
    for judgment in selection.collection.judgments:
        if judgment.nugget_id in selection.labels:
            yield judgment.model_dump(
                exclude={"call_id", "same_as", "parts", "votes", "followed_from"}
            )


def topic_lines(selection: Selection, ids: Ids) -> Iterator[str]:
    """Give each query in a line, under its exported id."""
    for query in selection.queries:
        yield f"{ids[query.query_id]}\t{' '.join(query.text.split())}"


# Ids


_LOW, _HIGH = '"', "~"
_PLAIN = re.compile("[#-}]+")
_IN_A_TABLE = re.compile('[^\\x00-\\x1f"\\x7f-\\x9f\u2028\u2029\ufeff]+')


def word(id_: str) -> str:
    """Give an id as one word of visible ASCII: `a b` is `a!20b`, and `ä` is `~0000E4`.

    No two ids have the same word, words sort as their ids do, and most ids are words already.
    """
    if _PLAIN.fullmatch(id_):
        return id_
    escaped = (
        char if _LOW < char < _HIGH else f"!{ord(char):02X}" if char <= _LOW else f"~{ord(char):06X}"
        for char in id_
    )  # fmt: skip
    return "".join(escaped) or "!"


def table_ids(ids: Iterable[str]) -> dict[str, str]:
    """Name ids in a table with tabs: all as they are, or, where one cannot be, all by words."""
    ids = list(ids)
    plain = all(map(_IN_A_TABLE.fullmatch, ids))
    return {id_: id_ if plain else word(id_) for id_ in ids}


def changed_ids(**kinds: Iterable[tuple[str, str]]) -> Files:
    """Give `ids.json`, if an id is called differently, of pairs of ours and the exported one."""
    changed = {
        kind: {exported: ours for ours, exported in ids if exported != ours}
        for kind, ids in kinds.items()
    }
    if changed := {kind: ids for kind, ids in changed.items() if ids}:
        yield IDS_FILE, changed
