"""From where the questions and the corpus come."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import datetime

from freshstack_dspy.collection.card.attribution import UNKNOWN
from freshstack_dspy.collection.card.told import Told, said, section, sections
from freshstack_dspy.collection.contents import Contents
from freshstack_dspy.collection.makers import exported_from
from freshstack_dspy.collection.manifest import Manifest
from freshstack_dspy.collection.markdown import escape, link, table
from freshstack_dspy.collection.skipped import count_kinds, listed
from freshstack_dspy.records import Chunk, Query, SkippedFile

_TAGS = 10
_CHOSEN = (
    "path", "site", "split", "tags", "all_tags", "exclude_tags", "since", "until", "min_score",
    "min_answer_score", "licences", "limit",
)  # fmt: skip
"""What of the query source's settings the card says, where it is set."""

_EXPORTED = {
    "collection": "exported from the collection",
    "content_hash": "its content hash",
    "recipe": "its recipe",
    "model": "the model that it asked",
}


def queries_section(contents: Contents, manifest: Manifest) -> str:
    """Say where the questions come from, from when they are, and what they are about."""
    queries = contents.queries
    told = section(manifest, "queries")
    rows = [("source", said(told.get("source")) or UNKNOWN)]
    rows += [(name, said(told[name])) for name in _CHOSEN if said(told.get(name))]
    imported = section(manifest, "import")
    if imported:
        rows = [("imported from the format", said(imported.get("format")) or UNKNOWN)]
        rows += [(_EXPORTED[name], escape(one)) for name, one in exported_from(manifest).items()]
    days = _days(queries)
    rows.append(("asked", f"{days[0]} to {days[-1]}" if days else UNKNOWN))
    if len(days) < len(queries) and days:
        rows.append(("without a date", str(len(queries) - len(days))))
    tags = Counter(tag for query in queries for tag in query.tags)
    if tags:
        most = sorted(tags, key=lambda tag: (-tags[tag], tag))[:_TAGS]
        named = ", ".join(f"{escape(tag)} ({tags[tag]})" for tag in most)
        others = f" and {len(tags) - _TAGS} others" if len(tags) > _TAGS else ""
        rows.append(("tags", named + others))
    rows.append(("queries", str(len(queries))))
    rows.append(("synthetic queries", str(manifest.counts.synthetic)))
    for reason, number in sorted(manifest.counts.rejected.items()):
        rows.append((f"questions left out: {escape(reason)}", str(number)))
    note = (
        "\nA synthetic query was made by the model from chunks of the corpus, and nobody asked it: "
        "its `origin` is `synthetic`, and its `seed_chunk_ids` name the chunks.\n"
        if manifest.counts.synthetic
        else ""
    )
    return f"## Source of the queries\n\n{table(('what', 'value'), rows)}{note}"


def corpus_section(contents: Contents, chunks: Sequence[Chunk], manifest: Manifest) -> str:
    """Say where each part of the corpus comes from, and under which licence."""
    told = {str(each.get("name")): each for each in sections(manifest, "corpus")}
    revisions: dict[str, set[str]] = defaultdict(set)
    counted: Counter[str] = Counter()
    for chunk in chunks:
        counted[chunk.source] += 1
        revisions[chunk.source].add(chunk.revision or UNKNOWN)
    skipped: dict[str, list[SkippedFile]] = defaultdict(list)
    for file in contents.skipped:
        skipped[file.source].append(file)
    rows = [
        (
            escape(name),
            _place(told.get(name, {})),
            ", ".join(map(escape, sorted(revisions[name] or {UNKNOWN}))),
            f"{counted[name]:,}",
            listed(count_kinds(skipped[name])),
            ", ".join(escape(file.path) for file in contents.licences if file.source == name),
        )
        for name in sorted({*told, *counted, *skipped})
    ]
    header = ("source", "from", "revision", "chunks", "files left out", "licences and notices")
    return (
        "## Sources of the corpus\n\n"
        "Each is under its own licence; the texts of the files named here stand in "
        "licences.jsonl. Why a file was left out is in skipped.jsonl.\n\n"
        f"{table(header, rows)}"
    )


def _place(told: Told) -> str:
    if url := told.get("url"):
        return link(str(url))
    if package := told.get("package"):
        return f"package {said(package)}"
    if path := told.get("path"):
        return f"{'repository' if told.get('revision') else 'path'} {said(path)}"
    return UNKNOWN


def _days(queries: Sequence[Query]) -> list[str]:
    """The days on which questions were asked, in order; what is no date is left out."""
    days = []
    for query in queries:
        try:
            days.append(datetime.fromisoformat(query.asked_at or "").date().isoformat())
        except ValueError:
            continue
    return sorted(days)
