"""The encoding that a text says it is in: Python, Emacs and Vim lines, XML, HTML."""

import re

_LINES = 2
_MODELINES = 5
_HEAD = 1024
_COOKIE = re.compile(
    rb"^[ \t\f]*(?:#|//|/\*|;|%|\"|--|<!--).{0,200}?coding[:=][ \t]*([-\w.]{1,40})"
)
_VIM = re.compile(rb"\bvim?:.{0,200}?\b(?:fileencoding|fenc)=([-\w.]{1,40})")
_XML = re.compile(rb"\s{0,200}<\?xml[^>]{0,200}?encoding\s{0,9}=\s{0,9}[\"']([-\w.]{1,40})[\"']")
_META = re.compile(rb"<meta[^>]{1,200}?charset\s{0,9}=\s{0,9}[\"']?([-\w.]{1,40})", re.IGNORECASE)
_DECLARING = (b"coding", b"fenc", b"charset")
"""One of these is part of every declaration."""
_PAGE = (".html", ".htm", ".xhtml", ".php", ".vue")


def declared_encoding(data: bytes, path: str) -> str | None:
    """Give the name that a text declares, as it stands there.

    It is looked for in the first two lines (PEP 263, which Emacs's lines also match), in Vim's
    modelines at either end, in an XML declaration, and in the `meta` elements of a page.

    Args:
        data: A text that has ASCII as it is.
        path: Of the file.
    """
    head, tail = data[:_HEAD], data[-_HEAD:]
    ends = (head + tail).lower()
    if not any(word in ends for word in _DECLARING):
        return None
    first, last = head.splitlines()[:_MODELINES], tail.splitlines()[-_MODELINES:]
    found = _XML.match(head)
    found = found or next(filter(None, map(_COOKIE.match, first[:_LINES])), None)
    found = found or next(filter(None, map(_VIM.search, first + last)), None)
    if not found and path.lower().endswith(_PAGE):
        found = _META.search(head)
    return found[1].decode("ascii", "replace") if found else None
