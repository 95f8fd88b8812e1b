"""Small Stack Exchange dumps for tests."""

from pathlib import Path
from xml.sax.saxutils import quoteattr

Row = dict[str, object]


def question(post_id: int, accepted: int | None = None, **changes: object) -> Row:
    row: Row = {
        "Id": post_id,
        "PostTypeId": 1,
        "CreationDate": "2017-05-16T18:01:06.383",
        "Score": 4,
        "Title": f"Question {post_id}",
        "Body": f"<p>Body {post_id}</p>",
        "Tags": "<bam><python>",
        "OwnerUserId": 43,
    }
    return row | ({} if accepted is None else {"AcceptedAnswerId": accepted}) | changes


def answer(post_id: int, parent: int, **changes: object) -> Row:
    row: Row = {
        "Id": post_id,
        "PostTypeId": 2,
        "ParentId": parent,
        "CreationDate": "2017-05-17T18:01:06.383",
        "Score": 1,
        "Body": f"<p>Answer {post_id}</p>",
        "OwnerUserId": 44,
    }
    return row | changes


def write_dump(path: Path, *rows: Row, root: str = "posts") -> Path:
    """Write rows as the dumps do; a value of None leaves the attribute out."""
    lines = [
        "  <row "
        + " ".join(f"{name}={quoteattr(str(v))}" for name, v in row.items() if v is not None)
        + " />"
        for row in rows
    ]
    text = "\n".join(['<?xml version="1.0" encoding="utf-8"?>', f"<{root}>", *lines, f"</{root}>"])
    path.write_text("\ufeff" + text, encoding="utf-8")
    return path
