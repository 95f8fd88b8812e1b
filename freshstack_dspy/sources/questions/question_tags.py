"""The tags of the questions that a configuration would choose, with or without an answer."""

from collections.abc import Iterator

from freshstack_dspy.config import QueriesConfig
from freshstack_dspy.sources.questions.dump import Dump
from freshstack_dspy.sources.questions.lines import ReadProgress
from freshstack_dspy.sources.questions.posts import QUESTION, date_of, integer, tags_of
from freshstack_dspy.sources.questions.queries import read_queries
from freshstack_dspy.sources.questions.selection import Selection


def question_tags(
    config: QueriesConfig, *, accepted_only: bool = False, progress: ReadProgress | None = None
) -> Iterator[tuple[str, ...]]:
    """Give the tags of each question that passes the filters, but for `limit`.

    Of a Stack Exchange dump the questions alone are looked at: filters of answers, licences and
    duplicates do not count. Of other sources it is the queries that would be read.

    Args:
        config: The source and the filters.
        accepted_only: Whether questions of a dump without an accepted answer are left out.
        progress: Is told how the reading goes on.

    Raises:
        ConfigError: A filter cannot be understood.
        SourceError: The source cannot be read.
    """
    if config.source != "stackexchange":
        unlimited = config.model_copy(update={"limit": None})
        yield from (query.tags for query in read_queries(unlimited, progress).queries)
        return
    selection = Selection.of(config)
    for _, row in Dump.at(config.location, progress).rows(("Posts",)):
        if row.get("PostTypeId") != QUESTION or (accepted_only and "AcceptedAnswerId" not in row):
            continue
        tags = tags_of(row)
        if selection.reason_against(tags, date_of(row), integer(row.get("Score"))) is None:
            yield tags
