"""Which encoding a file's text is in, and where its characters are among the file's bytes.

An encoding that is found decodes the whole file strictly, and any run of whole characters of it
alone; so none shifts between states, and none looks for a byte order mark.
"""

import codecs
import re
from array import array
from collections.abc import Sequence

from freshstack_dspy.corpus.tree import Skip

BOM = "\ufeff"
"""A byte order mark at the beginning of a file is a part of its bytes, and not of its text."""

_MARKS = (  # the longer first: UTF-32's mark begins with that of UTF-16
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_AFTER_MARK = {"utf-8": "utf-8-sig"} | {
    f"utf-{bits}-{order}": f"utf-{bits}" for bits in (16, 32) for order in ("le", "be")
}
"""The codec that takes a byte order mark for what it is."""
_GUESSED = (
    "cp1252 cp1251 koi8_r cp1253 cp1255 cp1256 cp1250 iso8859_2 cp1254 cp874 cp866 "
    "cp932 euc_jp gb18030 big5 cp949"
).split()
_MULTI_BYTE = frozenset(["cp932", "euc_jp", "gb18030", "big5", "cp949"])
_WESTERN = ("cp1252", "cp1250", "iso8859-1", "iso8859-2", "iso8859-15", "cp1254")
_KNOWN = frozenset(codecs.lookup(name).name for name in (*_GUESSED, *_WESTERN))
_DECLARED = re.compile(rb"(?:coding|charset)[ \t]*[:=][ \t]*[\"']?([-\w.]+)")
_GUESSED_FROM = 20_000
_FEWEST_LETTERS = 20
"""Letters outside of ASCII from which statistics can tell a language."""
_CONTROLS = bytes([*range(0x08), *range(0x0E, 0x1A), *range(0x1C, 0x20), 0x7F])
_MOST_CONTROLS = 0.01
_NOT_WESTERN = re.compile(r"[^\x00-\x7f]{3}|[^\x00-\x7f](?<!\w)")


def detect(data: bytes) -> str | Skip:
    """Tell the encoding of a text.

    By its byte order mark, as UTF-8, by what it declares at its head, or by statistics. A binary
    file is skipped, and one that could be in several encodings: a wrong guess is worse than none.
    """
    for mark, name in _MARKS:
        if data.startswith(mark):
            whole = _decodes(data, name)
            return name if whole else Skip("undecodable", f"has the byte order mark of {name} only")
    nul = data.find(b"\0")
    if nul >= 0:
        return Skip("binary", f"binary (a NUL at byte {nul})")
    if len(data) - len(data.translate(None, _CONTROLS)) > _MOST_CONTROLS * len(data):
        return Skip("binary", "binary (control characters)")
    try:
        data.decode()
    except UnicodeDecodeError as error:
        where = f"byte {error.start} is 0x{data[error.start]:02x}"
        found = _declared(data) or _guessed(data)
        return found or Skip("undecodable", f"not UTF-8; {where}")
    return "utf-8"


def _decodes(data: bytes, name: str) -> bool:
    try:
        data.decode(name)
    except UnicodeDecodeError:
        return False
    return True


def _declared(data: bytes) -> str | None:
    """Take the encoding that a comment, an XML declaration or a `meta` element names."""
    found = _DECLARED.search(data[:1024])
    try:
        name = codecs.lookup(found[1].decode()).name if found else ""
    except LookupError:
        return None
    return name if name in _KNOWN and _decodes(data, name) else None


def _guessed(data: bytes) -> str | None:
    """Take what all Western encodings read alike, else ask statistics."""
    western = {data.decode(name, "replace") for name in _WESTERN}
    if len(western) == 1 and not _NOT_WESTERN.search(western.pop()):
        return "cp1252"
    from charset_normalizer import from_bytes

    letters = sum(byte >= 0x80 for byte in data)
    cut = data[: data.rfind(b"\n", 0, _GUESSED_FROM) + 1] or data[:_GUESSED_FROM]
    best = from_bytes(cut, cp_isolation=[*_GUESSED], enable_fallback=False).best()
    if best is None or letters < _FEWEST_LETTERS or not _decodes(data, best.encoding):
        return None
    name = codecs.lookup(best.encoding).name
    return name if best.percent_coherence > 0 or best.encoding in _MULTI_BYTE else None


class FileText:
    """A decoded file: its text as UTF-8, without a byte order mark, and the way back."""

    def __init__(self, data: bytes, encoding: str) -> None:
        """Decode a file, whose encoding is `SourceFile.encoding`."""
        text = data.decode(encoding)
        name = codecs.lookup(encoding).name
        utf8 = data if name == "utf-8" else text.encode()
        self._characters_before = int(name in _AFTER_MARK and text.startswith(BOM))
        self.utf8 = utf8.removeprefix(BOM.encode()) if self._characters_before else utf8
        self._bytes_before = len(utf8) - len(self.utf8)
        self._starts = None if utf8 == data else _character_starts(data, encoding)

    def file_offsets(self, offsets: Sequence[int]) -> list[int]:
        """Give the offsets in the file of those in `utf8`, which ascend and part no character."""
        if self._starts is None:
            return [offset + self._bytes_before for offset in offsets]
        found, number, before = [], self._characters_before, 0
        for offset in offsets:
            number += len(self.utf8[before:offset].decode())
            found.append(self._starts[number])
            before = offset
        return found


def chunk_encoding(data: bytes, start: int, encoding: str) -> str:
    """Name the codec that reads a part of a file: at its start, one that knows byte order marks."""
    name = codecs.lookup(encoding).name if start == 0 else ""
    marked = name in _AFTER_MARK and data.startswith(BOM.encode(name))
    return _AFTER_MARK[name] if marked else encoding


def _character_starts(data: bytes, encoding: str) -> Sequence[int]:
    """Find the offset of each character."""
    if len(data.decode(encoding)) == len(data):
        return range(len(data))
    decoder = codecs.getincrementaldecoder(encoding)()
    starts, begin = array("q"), 0
    for offset in range(len(data)):
        characters = len(decoder.decode(data[offset : offset + 1]))
        if characters:
            starts.extend([begin] * characters)
            begin = offset + 1
    return starts
