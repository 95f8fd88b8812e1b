"""Queries from a Stack Exchange dump: questions with their accepted answers, as Markdown.

What may become a query is kept on disk while the dump is read, so that memory grows with the queries
and not with the dump.
"""

from collections import Counter
from typing import NamedTuple

from freshstack_dspy.config import QueriesConfig
from freshstack_dspy.errors import SourceError
from freshstack_dspy.records import Attribution, Query
from freshstack_dspy.sources.questions.attribution import author_of, site_address
from freshstack_dspy.sources.questions.candidates import Candidate, Candidates
from freshstack_dspy.sources.questions.dump import Dump
from freshstack_dspy.sources.questions.gathering import dump_tables, gather
from freshstack_dspy.sources.questions.lines import ReadProgress
from freshstack_dspy.sources.questions.posts import Post, date_of
from freshstack_dspy.sources.questions.selection import Selection


def read_stackexchange(
    config: QueriesConfig,
    selection: Selection,
    rejected: Counter[str],
    progress: ReadProgress | None = None,
) -> list[Query]:
    """Read the questions of a dump that pass the filters and have an accepted answer.

    Authors are named from the table of users, where there is one.

    Args:
        config: `path` is what `Dump.at` takes; `site` makes the links whole.
        selection: The filters.
        rejected: Reason to count of questions; added to.
        progress: Is told how the reading goes on.

    Returns:
        The queries in order of id, `config.limit` at most; the rest is counted as rejected.

    Raises:
        ConfigError: `site` is not a host.
        SourceError: A file is missing, damaged or hostile, or a post is there twice.
    """
    address = site_address(config.site)
    dump = Dump.at(config.location, progress)
    if config.duplicates == "drop" and "PostLinks" not in dump:
        raise SourceError(
            f"{config.location}: there is no PostLinks.xml, and duplicates are known from it alone; "
            'put it there, or set duplicates = "keep"'
        )
    with Candidates() as candidates:
        gather(dump, dump_tables(config), candidates, selection, rejected)
        queries: list[Query] = []
        for candidate in candidates:
            pair = _pair_of(candidate, config, selection, rejected)
            if pair is None:
                continue
            if len(queries) == config.limit:
                rejected["beyond limit"] += 1
            else:
                queries.append(_query_of(pair, address, candidates))
        return queries


class _Pair(NamedTuple):
    question: Post
    answer: Post


def _pair_of(
    candidate: Candidate, config: QueriesConfig, selection: Selection, rejected: Counter[str]
) -> _Pair | None:
    """Convert a candidate that has a good answer, or count it with the first reason against it."""
    if config.duplicates == "drop" and candidate.is_duplicate:
        rejected["closed as a duplicate"] += 1
        return None
    if candidate.answer is None:
        rejected["accepted answer is not in the dump"] += 1
        return None
    if date_of(candidate.answer) is None:
        rejected["malformed accepted answer"] += 1
        return None
    pair = _Pair(Post.of(candidate.question), Post.of(candidate.answer))
    reason = (
        (None if pair.answer.text else "empty answer")
        or selection.reason_against_answer(pair.answer.score)
        or selection.reason_against_licences(pair.question.licence, pair.answer.licence)
    )
    if reason is not None:
        rejected[reason] += 1
        return None
    return pair


def _query_of(pair: _Pair, address: str, candidates: Candidates) -> Query:
    question, answer = pair

    def source(post: Post, path: str) -> Attribution:
        name = post.owner_id and candidates.name_of(post.owner_id)
        author = author_of(post.owner_name, post.owner_id, name)
        url = f"{address}/{path}/{post.post_id}"
        return Attribution(author=author, url=url, licence=post.licence)

    return Query(
        query_id=str(question.post_id),
        title=question.title,
        body=question.text,
        answer_id=str(answer.post_id),
        answer=answer.text,
        tags=question.tags,
        asked_at=question.created,
        score=question.score,
        question_source=source(question, "questions"),
        answer_source=source(answer, "a"),
    )
