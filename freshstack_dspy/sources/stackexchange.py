"""Queries from a Stack Exchange dump: questions with their accepted answers, as Markdown.

The dump is streamed three times, so that memory grows with what is kept and not with the file:
once for the questions that pass the filters (ids only), once for their accepted answers, once
for the text of the questions that are left.
"""

import re
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, Self

from freshstack_dspy.config import QueriesConfig
from freshstack_dspy.errors import SourceError
from freshstack_dspy.records import Attribution, Query
from freshstack_dspy.sources.attribution import author_of, licence_at, site_address
from freshstack_dspy.sources.html_markdown import html_to_markdown
from freshstack_dspy.sources.selection import Selection, instant
from freshstack_dspy.sources.xml_rows import read_rows

_QUESTION, _ANSWER = "1", "2"
_MALFORMED = "malformed row"


class _Post(NamedTuple):
    """What is kept of a row."""

    post_id: int
    title: str
    text: str
    """Markdown."""
    tags: tuple[str, ...]
    created: str
    score: int | None
    owner_id: str | None
    owner_name: str | None
    licence: str

    @classmethod
    def of(cls, post_id: int, row: dict[str, str]) -> Self:
        """Convert a row whose dates are known to be good."""
        created = row["CreationDate"]
        licence = row.get("ContentLicense")
        return cls(
            post_id=post_id,
            title=row.get("Title", "").strip(),
            text=html_to_markdown(row.get("Body", "")),
            tags=_tags(row),
            created=created,
            score=_integer(row.get("Score")),
            owner_id=row.get("OwnerUserId"),
            owner_name=row.get("OwnerDisplayName"),
            licence=licence or licence_at(instant(row.get("LastEditDate", created))),
        )


def read_stackexchange(
    config: QueriesConfig, selection: Selection, rejected: Counter[str]
) -> list[Query]:
    """Read the questions of a dump that pass the filters and have an accepted answer.

    Authors are named from `Users.xml` beside the posts, where it exists. A row's licence is its
    `ContentLicense`, or else the one in force when the post was last edited.

    Args:
        config: `path` is `Posts.xml` or its folder; `site` makes the links whole.
        selection: The filters.
        rejected: Reason to count of questions; added to.

    Returns:
        The queries in order of id, `config.limit` at most; the rest is counted as rejected.

    Raises:
        ConfigError: `site` is not a host.
        SourceError: A file is missing, damaged or hostile, or a post is there twice.
    """
    address = site_address(config.site)
    posts = config.path / "Posts.xml" if config.path.is_dir() else config.path
    accepted = _accepted_answers(posts, selection, rejected)
    answers = _answers(posts, accepted, config.limit, rejected)
    questions = _questions(posts, answers)
    names = _user_names(posts.with_name("Users.xml"), [*answers.values(), *questions.values()])

    def source(post: _Post, path: str) -> Attribution:
        author = author_of(post.owner_name, post.owner_id, names)
        url = f"{address}/{path}/{post.post_id}"
        return Attribution(author=author, url=url, licence=post.licence)

    return [
        Query(
            query_id=str(question_id),
            title=question.title,
            body=question.text,
            answer_id=str(answers[question_id].post_id),
            answer=answers[question_id].text,
            tags=question.tags,
            asked_at=question.created,
            score=question.score,
            question_source=source(question, "questions"),
            answer_source=source(answers[question_id], "a"),
        )
        for question_id, question in sorted(questions.items())
    ]


def _accepted_answers(posts: Path, selection: Selection, rejected: Counter[str]) -> dict[int, int]:
    """Map each question that passes the filters to the id of its accepted answer."""
    accepted: dict[int, int] = {}
    last_id, ascending = -1, True
    for row in read_rows(posts, "posts"):
        post_id = _integer(row.get("Id"))
        kind = row.get("PostTypeId")
        if post_id is not None:
            ascending = ascending and post_id > last_id
            last_id = post_id
        if kind not in (_QUESTION, None):
            continue
        asked = _date(row)
        if post_id is None or kind is None or asked is None or not row.get("Title", "").strip():
            rejected[_MALFORMED] += 1
            continue
        reason = selection.reason_against(_tags(row), asked, _integer(row.get("Score")))
        answer_id = _integer(row.get("AcceptedAnswerId"))
        if reason is None and answer_id is not None:
            accepted[post_id] = answer_id
        else:
            rejected[reason or "no accepted answer"] += 1
    if not ascending:
        _refuse_duplicates(posts)
    return accepted


def _refuse_duplicates(posts: Path) -> None:
    """Look for an id that is there twice; needed only where a dump is not in order of id."""
    seen: set[int] = set()
    for row in read_rows(posts, "posts"):
        post_id = _integer(row.get("Id"))
        if post_id in seen:
            raise SourceError(
                f"{posts}: two posts have the Id {post_id}; give one dump, not several joined"
            )
        if post_id is not None:
            seen.add(post_id)


def _answers(
    posts: Path, accepted: dict[int, int], limit: int | None, rejected: Counter[str]
) -> dict[int, _Post]:
    """Read the accepted answers, by question; the first `limit` in order of the question's id."""
    awaited = dict(accepted)
    answers: dict[int, _Post] = {}
    found = 0
    for row in read_rows(posts, "posts"):
        question_id, post_id = _integer(row.get("ParentId")), _integer(row.get("Id"))
        if question_id is None or post_id is None or row.get("PostTypeId") != _ANSWER:
            continue
        if awaited.get(question_id) != post_id:
            continue
        del awaited[question_id]
        if _date(row) is None:
            rejected["malformed accepted answer"] += 1
            continue
        answer = _Post.of(post_id, row)
        if not answer.text:
            rejected["empty answer"] += 1
            continue
        found += 1
        answers[question_id] = answer
        if limit is not None and len(answers) > 2 * limit:
            answers = _first(answers, limit)
    rejected["accepted answer is not in the dump"] += len(awaited)
    answers = _first(answers, limit)
    rejected["beyond limit"] += found - len(answers)
    return answers


def _first(answers: dict[int, _Post], limit: int | None) -> dict[int, _Post]:
    return dict(sorted(answers.items())[:limit])


def _questions(posts: Path, wanted: Iterable[int]) -> dict[int, _Post]:
    ids = frozenset(wanted)
    questions = {}
    for row in read_rows(posts, "posts"):
        post_id = _integer(row.get("Id"))
        if post_id in ids and post_id is not None:
            questions[post_id] = _Post.of(post_id, row)
    return questions


def _user_names(users: Path, posts: list[_Post]) -> dict[str, str]:
    """Read the display names of the posts' owners; none where there is no user list."""
    wanted = {post.owner_id for post in posts if not post.owner_name}
    if not users.exists():
        return {}
    return {
        row["Id"]: row["DisplayName"].strip()
        for row in read_rows(users, "users")
        if row.get("Id") in wanted and row.get("DisplayName", "").strip()
    }


def _integer(text: str | None) -> int | None:
    """Read a number of the dump; None where there is none."""
    if text is None or not re.fullmatch(r"-?\d{1,18}", text, re.ASCII):
        return None
    return int(text)


def _date(row: dict[str, str]) -> datetime | None:
    """Read when a row was created, if all its dates are good."""
    try:
        dates = [instant(row[key]) for key in ("CreationDate", "LastEditDate") if key in row]
    except ValueError:
        return None
    return dates[0] if "CreationDate" in row else None


def _tags(row: dict[str, str]) -> tuple[str, ...]:
    """Read `<a><b>` and `|a|b|`."""
    return tuple(re.findall(r"[^<>|]+", row.get("Tags", "")))
