"""The rows of Posts.xml: what a question or an answer of a Stack Exchange dump holds."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple, Self

from freshstack_dspy.sources.html_markdown import html_to_markdown
from freshstack_dspy.sources.questions.attribution import licence_at
from freshstack_dspy.sources.questions.selection import instant

QUESTION, ANSWER = "1", "2"
"""Values of `PostTypeId`; the others are wikis of tags and the like."""
_INTEGER = re.compile(r"-?\d{1,18}", re.ASCII)
_TAG = re.compile(r"[^<>|]+")


class Post(NamedTuple):
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
    def of(cls, row: Mapping[str, str]) -> Self:
        """Convert a row whose id and dates are known to be good.

        Its licence is its `ContentLicense`, or else the one in force when it was last edited.
        """
        created = row["CreationDate"]
        return cls(
            post_id=int(row["Id"]),
            title=row.get("Title", "").strip(),
            text=html_to_markdown(row.get("Body", "")),
            tags=tags_of(row),
            created=created,
            score=integer(row.get("Score")),
            owner_id=row.get("OwnerUserId"),
            owner_name=row.get("OwnerDisplayName"),
            licence=row.get("ContentLicense")
            or licence_at(instant(row.get("LastEditDate", created))),
        )


def integer(text: str | None) -> int | None:
    """Read a number of the dump; None where there is none."""
    return int(text) if text is not None and _INTEGER.fullmatch(text) else None


def date_of(row: Mapping[str, str]) -> datetime | None:
    """Read when a row was created, if all its dates are good."""
    try:
        dates = [instant(row[key]) for key in ("CreationDate", "LastEditDate") if key in row]
    except ValueError:
        return None
    return dates[0] if "CreationDate" in row else None


def tags_of(row: Mapping[str, str]) -> tuple[str, ...]:
    """Read `<a><b>` and `|a|b|`."""
    return tuple(_TAG.findall(row.get("Tags", "")))
