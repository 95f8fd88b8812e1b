"""How the bytes of a file are read, and what is rather not guessed."""

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy.corpus.encodings import detect
from freshstack_dspy.corpus.tree import Skip
from tests.corpus.exactness import chunks_of

RUSSIAN = "Годичные кольца дерева показывают, сколько лет оно росло и какими были эти годы. " * 3
JAPANESE = (
    "年輪を見ると、その木が何年のあいだ育ったのか、そしてどんな年だったのかがわかります。" * 3
)


@pytest.mark.parametrize(
    ("data", "name"),
    [
        ("café".encode(), "utf-8"),
        (codecs.BOM_UTF8 + b"x", "utf-8"),
        ("é".encode("utf-16"), "utf-16-le"),
        ("é".encode("utf-32"), "utf-32-le"),
        ("# by José Müller\n".encode("latin-1"), "cp1252"),
        (RUSSIAN.encode("cp1251"), "cp1251"),
        (RUSSIAN.encode("koi8-r"), "koi8-r"),
        (JAPANESE.encode("cp932"), "cp932"),
        (JAPANESE.encode("euc_jp"), "euc_jp"),
        ("# -*- coding: koi8-r -*-\n# Да".encode("koi8-r"), "koi8-r"),
        ('<?xml version="1.0" encoding="iso-8859-2"?><a>ľš</a>'.encode("iso8859-2"), "iso8859-2"),
        (b"\x1b[31mred\x1b[0m", "utf-8"),
    ],
)
def test_an_encoding_is_told(data: bytes, name: str) -> None:
    found = detect(data)

    assert isinstance(found, str)
    assert codecs.lookup(found) == codecs.lookup(name)


@pytest.mark.parametrize(
    ("data", "kind", "reason"),
    [
        (b"a\0b", "binary", "binary (a NUL at byte 1)"),
        (b"\x01\x02\x03abc", "binary", "binary (control characters)"),
        (b"\x89PNG\r\n\x1a\n\x01\x02\xff", "binary", "binary (control characters)"),
        (b"\xe9\xf1\xfa", "undecodable", "not UTF-8; byte 0 is 0xe9"),
        ("Да".encode("cp1251"), "undecodable", "not UTF-8; byte 0 is 0xc4"),
        (b"\xff\xfea", "undecodable", "has the byte order mark of utf-16-le only"),
        (codecs.BOM_UTF8 + b"\xff", "undecodable", "has the byte order mark of utf-8 only"),
    ],
)
def test_what_cannot_be_told_is_not_guessed(data: bytes, kind: str, reason: str) -> None:
    found = detect(data)

    assert isinstance(found, Skip)
    assert found.kind == kind
    assert found.reason.startswith(reason)


# Offsets are of the bytes of the file

SAMPLES = {
    "ascii": "plain text",
    "utf-8": "\ufeffäöü 中文 👍",
    "utf-16-le": "äöü 中文 👍",
    "utf-16-be": "\ufeffäöü 中文 👍",
    "utf-32-le": "\ufeffäöü 中文 👍",
    "cp1252": "Größe €",
    "latin-1": "Größe\x85",
    "koi8-r": "размер",
    "cp932": "日本語の文字。①",
    "euc_jp": "日本語の文字。",
    "gb18030": "中文字。€👍äé",
    "big5": "中文字。",
    "cp949": "한국어 똠",
}


@given(st.sampled_from(sorted(SAMPLES)), st.data(), st.integers(16, 30))
def test_any_mixture_is_cut_between_its_characters(
    encoding: str, data: st.DataObject, most: int
) -> None:
    units = st.sampled_from([*SAMPLES[encoding].split(" "), " ", "\n", "a", "\n\n", ". "])
    text = "".join(data.draw(st.lists(units, max_size=40)))

    chunks_of("a.txt", text, most, encoding)
