"""The page of what a topic's questions are about: tags, links, and the corpora they suggest."""

from collections.abc import Mapping, Sequence

from freshstack_dspy.pages.page import Cell, Page, Span, Table, Text, Value, counted
from freshstack_dspy.questions.links import LinkKind
from freshstack_dspy.questions.tags import TagCoverage


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


def _covered(kind: str, coverage: TagCoverage) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (one.tag, one.questions, one.added, Value(one.coverage, form=".3f"))
        for one in coverage.tags
    ]
    return Table((kind, "questions", "added", "coverage"), rows, ids=(0,))
