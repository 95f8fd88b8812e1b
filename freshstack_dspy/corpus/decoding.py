"""The text of a file in any encoding, and where its characters stand among the file's bytes."""

import codecs
from array import array
from collections.abc import Sequence

BOM = "\ufeff"
"""A byte order mark at the beginning of a file is a part of its bytes, and not of its text."""


class FileText:
    """A decoded file: its text as UTF-8, without a byte order mark, and the way back."""

    def __init__(self, data: bytes, encoding: str) -> None:
        """Decode a file.

        Args:
            data: All of it.
            encoding: As `SourceFile.encoding`.

        Raises:
            UnicodeDecodeError: The data is not in this encoding.
            LookupError: Python has no such encoding.
        """
        text = data.decode(encoding)
        utf8 = data if codecs.lookup(encoding).name == "utf-8" else text.encode()
        self.utf8 = utf8.removeprefix(BOM.encode())
        self.inseparable: frozenset[int] = frozenset()
        """Offsets in `utf8` between characters that share their bytes in the file."""
        self._data, self._encoding = data, encoding
        self._characters_before = int(text.startswith(BOM))
        self._bytes_before = len(utf8) - len(self.utf8)
        self._starts: Sequence[int] | None = None
        if utf8 != data:
            self._starts, inside = _character_starts(data, encoding)
            self.inseparable = frozenset(
                len(text[self._characters_before : number].encode()) for number in inside
            )

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

    def utf8_offset(self, offset: int) -> int:
        """Give the offset in `utf8` of one in the file, at the start of a character."""
        if self._starts is not None:
            offset = len(self._data[:offset].decode(self._encoding).encode())
        return max(0, offset - self._bytes_before)


def decode_part(data: bytes, start: int, end: int, encoding: str) -> str:
    """Decode a run of whole characters of a file; without the byte order mark at its beginning."""
    text = data[start:end].decode(encoding)
    return text.removeprefix(BOM) if start == 0 else text


def _character_starts(data: bytes, encoding: str) -> tuple[Sequence[int], list[int]]:
    """Find where each character begins.

    Returns:
        The offset of each character; and the numbers of those that have no bytes of their own,
        as some encodings of Asia have one code for two characters of Unicode.
    """
    if _is_one_byte_each(data, encoding):
        return range(len(data)), []
    decoder = codecs.getincrementaldecoder(encoding)()
    starts, begin = array("q"), 0
    inside: list[int] = []
    for offset in range(len(data)):
        characters = len(decoder.decode(data[offset : offset + 1]))
        if characters:
            inside += range(len(starts) + 1, len(starts) + characters)
            starts.extend([begin] * characters)
            begin = offset + 1
    return starts, inside


def _is_one_byte_each(data: bytes, encoding: str) -> bool:
    try:
        return all(len(bytes([value]).decode(encoding)) == 1 for value in set(data))
    except UnicodeDecodeError:
        return False
