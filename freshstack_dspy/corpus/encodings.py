"""Which encoding a file's text is in, if that can be told; a wrong guess is worse than none.

What comes out decodes the whole file strictly, and any run of whole characters of it alone: so
encodings that shift between states are refused, and none looks for a byte order mark.
"""

import codecs
import functools
import re
import unicodedata

from freshstack_dspy.corpus.tree import Skip

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


_MARKS = (  # the longer first: UTF-32's mark begins with that of UTF-16
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
    (b"\x84\x31\x95\x33", "gb18030"),
)
_SINGLE_BYTE = (
    "cp1250 cp1251 cp1252 cp1253 cp1254 cp1255 cp1256 cp1257 cp1258 cp437 cp850 cp852 cp866 "
    "cp874 iso8859-1 iso8859-2 iso8859-3 iso8859-4 iso8859-5 iso8859-6 iso8859-7 iso8859-8 "
    "iso8859-9 iso8859-10 iso8859-11 iso8859-13 iso8859-14 iso8859-15 iso8859-16 koi8-r koi8-u "
    "mac-roman mac-cyrillic mac-greek mac-latin2 mac-turkish tis-620 ptcp154 kz1048"
).split()
_MULTI_BYTE = (
    "shift_jis cp932 euc_jp gb2312 gbk gb18030 big5 cp950 big5hkscs euc_kr cp949 johab"
).split()
_STATELESS = frozenset(
    codecs.lookup(name).name
    for name in [*_SINGLE_BYTE, *_MULTI_BYTE, *"utf-8 utf-16-le utf-16-be".split()]
)
_LARGER = {
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "big5": "cp950",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
}
"""What texts that claim an encoding are often really in; each has all of the other's letters."""
_GUESSED = (
    "cp1252 cp1251 koi8_r cp1253 cp1255 cp1256 cp1250 iso8859_2 cp1254 cp874 cp866 "
    "cp932 euc_jp gb18030 big5 cp949"
).split()
_WESTERN = ("cp1252", "cp1250", "iso8859-1", "iso8859-2", "iso8859-15", "cp1254")

_MOST_CONTROLS = 0.01
_LEAST_TEXT = 0.7
_LEAST_LETTERS = 0.9
_FEWEST_LETTERS = 20
"""Letters outside of ASCII from which a language can be told by statistics."""
_SHORTEST_WITH_ZEROS = 16
_GUESSED_FROM = 20_000
_STATEFUL = re.compile(rb"\x1b\$[@AB(),]|\x1b\([IJ]")
_STATEFUL_NAMES = re.compile(r"(?i)utf-?7|hz(-gb-2312)?|iso-?2022.*|csiso2022.*")
_CONTROLS = bytes([*range(0x08), *range(0x0E, 0x1A), *range(0x1C, 0x20), 0x7F])
_NOT_TEXT = re.compile(r"[\x00-\x07\x0e-\x19\x1c-\x1f\x7f-\x84\x86-\x9f\ufdd0-\ufdef\ufffe\uffff]")


def detect(data: bytes, path: str = "") -> str | Skip:
    """Tell the encoding of a text.

    In this order: a byte order mark, UTF-8, UTF-16 and UTF-32 by their zero bytes, what the text
    declares, what all Western encodings agree on, and statistics of letters and languages.

    Args:
        data: All of the file.
        path: Of the file; a page may declare its encoding in a `meta` element.

    Returns:
        The name of a Python codec, or why there is none: the file is binary, or undecodable.
    """
    for mark, name in _MARKS:
        if data.startswith(mark):
            return _marked(data, name)
    nul = data.find(b"\0")
    if nul >= 0:
        return _with_zeros(data) or Skip("binary", f"binary (a NUL at byte {nul})")
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return _not_utf8(data, path, error)
    if _share_of_control_bytes(data) > _MOST_CONTROLS:
        return Skip("binary", "binary (control characters)")
    declared = (declared_encoding(data, path) or "") if data.isascii() else ""
    if (b"\x1b" in data and _STATEFUL.search(data)) or _STATEFUL_NAMES.fullmatch(declared):
        return _stateful(declared or "ISO-2022-JP")
    return "utf-8"


def _marked(data: bytes, name: str) -> str | Skip:
    text = _decoded(data, name)
    if text is None:
        return Skip("undecodable", f"has the byte order mark of {name} and is not")
    if _share_of_controls(text) > _MOST_CONTROLS:
        return Skip("binary", "binary (control characters)")
    return name


def _with_zeros(data: bytes) -> str | None:
    """Recognise UTF-16 and UTF-32 by where their zero bytes stand."""
    if len(data) < _SHORTEST_WITH_ZEROS:
        return None
    zeros = [data[place::4].count(0) / max(1, len(data) // 4) for place in range(4)]
    low, high = (zeros[0] + zeros[2]) / 2, (zeros[1] + zeros[3]) / 2
    for name, likely in (
        ("utf-32-le", zeros[2] > 0.9 and zeros[3] > 0.9),
        ("utf-32-be", zeros[0] > 0.9 and zeros[1] > 0.9),
        ("utf-16-le", high > 0.3 and low < 0.05),
        ("utf-16-be", low > 0.3 and high < 0.05),
    ):
        text = _decoded(data, name) if likely else None
        if text and not _NOT_TEXT.search(text) and _share_of_text(text) > _LEAST_TEXT:
            return name
    return None


def _not_utf8(data: bytes, path: str, error: UnicodeDecodeError) -> str | Skip:
    where = f"byte {error.start} is 0x{data[error.start]:02x}"
    if _share_of_control_bytes(data) > _MOST_CONTROLS:
        return Skip("binary", "binary (control characters)")
    declared = declared_encoding(data, path)
    if declared and _STATEFUL_NAMES.fullmatch(declared):
        return _stateful(declared)
    name = _as_declared(data, declared) if declared else None
    if name:
        return name
    damaged = data.decode(errors="replace")
    wrong = damaged.count("\ufffd")
    if sum(not letter.isascii() for letter in damaged) > 4 * wrong:
        return Skip("undecodable", f"damaged UTF-8; {where}")
    return _alike(data) or _guessed(data) or Skip("undecodable", f"not UTF-8; {where}")


def _as_declared(data: bytes, declared: str) -> str | None:
    try:
        name = codecs.lookup(declared).name
    except (LookupError, ValueError):
        return None
    for each in (name, _LARGER.get(name)):
        text = _decoded(data, each) if each in _STATELESS else None
        if each and text is not None and not _NOT_TEXT.search(text):
            return each
    return None


def _alike(data: bytes) -> str | None:
    """Take the Western encoding where all of them read the same text."""
    if set(data) - _bytes_alike():
        return None
    text = data.decode("cp1252")
    return "cp1252" if _looks_western(text) else None


@functools.cache
def _bytes_alike() -> frozenset[int]:
    return frozenset(
        byte
        for byte in range(256)
        if len({bytes([byte]).decode(name, "replace") for name in _WESTERN}) == 1
    )


def _looks_western(text: str) -> bool:
    """Say whether letters outside of ASCII stand where letters stand in Western languages."""
    for found in re.finditer(r"[^\x00-\x7f]+", text):
        run, around = found[0], text[max(0, found.start() - 1) : found.end() + 1]
        if run.isalpha() and (len(run) > 2 or not any("a" <= c.lower() <= "z" for c in around)):
            return False
    return True


def _guessed(data: bytes) -> str | None:
    """Ask statistics, and check that the answer is sure and makes words."""
    from charset_normalizer import from_bytes

    cut = data[:_GUESSED_FROM] if len(data) > _GUESSED_FROM else data
    cut = cut[: cut.rfind(b"\n") + 1] or cut
    best = from_bytes(cut, cp_isolation=list(_GUESSED), enable_fallback=False).best()
    if best is None:
        return None
    name = codecs.lookup(best.encoding).name
    text = _decoded(data, name)
    if text is None or name not in _STATELESS or _NOT_TEXT.search(text):
        return None
    foreign = [letter for letter in text if not letter.isascii()]
    letters = sum(unicodedata.category(letter)[0] in "LM" for letter in foreign)
    if letters < _FEWEST_LETTERS or letters < _LEAST_LETTERS * len(foreign):
        return None
    return name if best.percent_coherence > 0 or name in _multi_byte() else None


@functools.cache
def _multi_byte() -> frozenset[str]:
    return frozenset(codecs.lookup(name).name for name in _MULTI_BYTE)


def _decoded(data: bytes, name: str | None) -> str | None:
    try:
        return data.decode(name or "utf-8")
    except UnicodeDecodeError:
        return None


def _share_of_controls(text: str) -> float:
    return len(_NOT_TEXT.findall(text)) / max(1, len(text))


def _share_of_control_bytes(data: bytes) -> float:
    return (len(data) - len(data.translate(None, _CONTROLS))) / max(1, len(data))


def _share_of_text(text: str) -> float:
    good = sum(letter.isalnum() or letter.isspace() for letter in text)
    return good / len(text)


def _stateful(name: str) -> Skip:
    return Skip(
        "undecodable",
        f"in {name}, whose bytes mean nothing without those before them; convert it with: "
        f"iconv -f {name} -t UTF-8",
    )
