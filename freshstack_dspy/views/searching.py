"""What is shown of a search, and of what a topic's questions are about."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from freshstack_dspy.pages.page import Page, Span, Table, Text, Value, counted, cut, notes
from freshstack_dspy.questions.topics import LinkKind, NewTopic, TagCoverage
from freshstack_dspy.records import Chunk
from freshstack_dspy.text import terms

_LINE_WIDTH = 100


def search_page(
    searched: str,
    ranking: Sequence[tuple[str, float]],
    chunks: Mapping[str, Chunk],
    scored_by: str = "",
) -> Page:
    """Give the page of the chunks that were found; `scored_by` says what their scores are."""
    hits = [(rank, *one) for rank, one in enumerate(ranking, 1)]
    about = f"score: {scored_by}; not to be compared between searches" if scored_by and hits else ""
    return Page(
        "" if hits else "nothing found",
        (*_hits(set(terms(searched)), hits, chunks), *notes(about)),
        data=[
            {"rank": rank, "score": score, **chunks[chunk_id].model_dump(mode="json")}
            for rank, chunk_id, score in hits
        ],
        rows=Table(
            ("rank", "score", "chunk_id"), [(rank, score, id_) for rank, id_, score in hits]
        ),
    )


def _hits(
    wanted: set[str], found: Sequence[tuple[int, str, float]], chunks: Mapping[str, Chunk]
) -> Iterator[Text]:
    for rank, chunk_id, score in found:
        # The first of the lines that have the most of the words.
        lines = chunks[chunk_id].passage.splitlines() or [""]
        line = max(lines, key=lambda line: len(wanted.intersection(terms(line))))
        yield Text((f"{rank}  {Value(score, form='.6f')}  ", Span(chunk_id, "code")))
        yield Text(cut(line.strip(), _LINE_WIDTH), "item", 1)


def suggest_page(
    tags: TagCoverage,
    links: Mapping[LinkKind, TagCoverage],
    entries: Sequence[str],
    *,
    topic: Sequence[str],
    answered: int,
    of_dump: bool,
) -> Page:
    """Give the page of tags and links that cover a topic's questions.

    Args:
        tags: That stand next to the topic's own.
        links: By kind, what the questions name.
        entries: Lines of a configuration, with the corpora that are named.
        topic: The tags of the topic.
        answered: How many questions have an accepted answer.
        of_dump: Whether links are those of questions with accepted answers alone.
    """
    title = counted(tags.questions, "question") + (f" with {', '.join(topic)}" if topic else "")
    title += f", {answered:,} with an accepted answer"
    parts: list[Text | Page | Table] = []
    if tags.distinct:
        number = counted(tags.without, "question")
        parts = [
            _covered("tag", tags),
            Text(f"{counted(tags.distinct, 'tag')} to choose from; {number} without any of them"),
        ]
    else:
        title += "; none has a tag"
    for kind, coverage in links.items():
        if coverage.tags:
            linking = counted(coverage.questions - coverage.without, "question")
            which = " with accepted answers" if of_dump else ""
            named = f"{linking} of {coverage.questions:,}{which} name a {kind}"
            parts.append(Page(named, (_covered(kind, coverage),)))
    parts += (Text(Span(line, "code")) for line in entries if line)
    return Page(title, tuple(parts), data={**tags.model_dump(), "links": links})


def new_topics_page(
    topics: Sequence[NewTopic], since: str, at_least: int, *, limit: int, source: str
) -> Page:
    """Give the page of the tags that are new since a date."""
    columns: dict[str, Any] = {
        "tag": "tag",
        "questions": "questions",
        "with an accepted answer": "answered",
        "earlier": "earlier",
        "first": "first",
    }
    title = (
        f"{counted(len(topics), 'tag')} new since {since} with at least "
        f"{counted(at_least, 'question')} with an accepted answer"
    )
    table = [Table.of(topics[:limit], columns, ids=(0,))] if topics else []
    more = f"… and {len(topics) - limit:,} more" if len(topics) > limit else ""
    typed = f"freshstack suggest {source} --tag {topics[0].tag}" if topics else ""
    then = [Text(("documents for one: ", Span(typed, "code")))] if topics else []
    return Page(title, (*table, *notes(more), *then), data=topics)


def _covered(kind: str, coverage: TagCoverage) -> Table:
    columns: dict[str, Any] = {
        kind: "tag",
        "questions": "questions",
        "added": "added",
        "coverage": lambda each: Value(each.coverage, form=".3f"),
    }
    return Table.of(coverage.tags, columns, ids=(0,))
