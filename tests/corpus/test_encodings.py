"""How the bytes of a file are read, and what is rather not guessed."""

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy.corpus.encodings import detect
from freshstack_dspy.corpus.tree import Skip

RUSSIAN = "Годичные кольца дерева показывают, сколько лет оно росло и какими были эти годы. " * 3
JAPANESE = (
    "年輪を見ると、その木が何年のあいだ育ったのか、そしてどんな年だったのかがわかります。" * 3
)
KOREAN = "나이테를 보면 그 나무가 몇 년 동안 자랐는지 그리고 어떤 해였는지 알 수 있습니다. " * 3
GREEK = "Οι δακτύλιοι του δέντρου δείχνουν πόσα χρόνια μεγάλωσε και πώς ήταν αυτά τα χρόνια. " * 3


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"plain", "utf-8"),
        ("café".encode(), "utf-8"),
        (codecs.BOM_UTF8 + b"x", "utf-8"),
        ("é".encode("utf-16"), "utf-16-le"),
        (codecs.BOM_UTF16_BE + "é".encode("utf-16-be"), "utf-16-be"),
        ("é".encode("utf-32"), "utf-32-le"),
        ("# a heading\nand text".encode("utf-16-le"), "utf-16-le"),
        ("# a heading\nand text".encode("utf-16-be"), "utf-16-be"),
        ("# a heading\nand text".encode("utf-32-le"), "utf-32-le"),
        ("# a heading\nand text".encode("utf-32-be"), "utf-32-be"),
        ("# by José Müller\n".encode("latin-1"), "cp1252"),
        (RUSSIAN.encode("cp1251"), "cp1251"),
        (RUSSIAN.encode("koi8-r"), "koi8-r"),
        (JAPANESE.encode("cp932"), "cp932"),
        (JAPANESE.encode("euc_jp"), "euc_jp"),
        (KOREAN.encode("cp949"), "cp949"),
        (GREEK.encode("cp1253"), "cp1253"),
        ("# -*- coding: koi8-r -*-\n# Да".encode("koi8-r"), "koi8-r"),
        ("#!/bin/sh\n# vim: set fileencoding=cp1251 :\n# Да".encode("cp1251"), "cp1251"),
        ("/* x */\n// Да\n// vim: fenc=cp1251".encode("cp1251"), "cp1251"),
        ('<?xml version="1.0" encoding="iso-8859-2"?><a>ľš</a>'.encode("iso8859-2"), "iso8859-2"),
        ("# coding: gb2312\n# 年輪朶".encode("gbk"), "gbk"),
        (b"# coding: latin-1\n# \x93quoted\x94", "cp1252"),
        ("# coding: latin-1\n# é".encode(), "utf-8"),
        (b"\x1b[31mred\x1b[0m", "utf-8"),
    ],
)
def test_an_encoding_is_told(data: bytes, name: str) -> None:
    found = detect(data, "x.py")

    assert isinstance(found, str)
    assert codecs.lookup(found) == codecs.lookup(name if name != "gbk" else "gb18030")


def test_a_page_declares_its_encoding_in_an_element() -> None:
    page = '<html><head><meta charset="windows-1251"></head>Да</html>'.encode("cp1251")

    assert detect(page, "a.html") == "cp1251"
    assert isinstance(detect(page, "a.py"), Skip)


@pytest.mark.parametrize(
    ("data", "kind", "reason"),
    [
        (b"a\0b", "binary", "binary (a NUL at byte 1)"),
        (bytes(range(256)), "binary", "binary (a NUL at byte 0)"),
        (b"\x01\x02\x03abc", "binary", "binary (control characters)"),
        (b"\x89PNG\r\n\x1a\n\x01\x02\xff", "binary", "binary (control characters)"),
        (b"\xe9\xf1\xfa", "undecodable", "not UTF-8; byte 0 is 0xe9"),
        ("Да".encode("cp1251"), "undecodable", "not UTF-8; byte 0 is 0xc4"),
        ("über größe schön".encode() + b"\xff", "undecodable", "damaged UTF-8; byte 20 is 0xff"),
        (b"\xff\xfea", "undecodable", "has the byte order mark of utf-16-le and is not"),
        (codecs.BOM_UTF8 + b"\xff", "undecodable", "has the byte order mark of utf-8 and is not"),
        ("年輪".encode("iso2022_jp"), "undecodable", "in ISO-2022-JP, whose bytes mean nothing"),
        ("# coding: utf-7\n# é".encode("utf-7"), "undecodable", "in utf-7, whose bytes mean"),
        (b"# coding: rot13\n\xff\xfe\xfd", "undecodable", "not UTF-8"),
    ],
)
def test_what_cannot_be_told_is_not_guessed(data: bytes, kind: str, reason: str) -> None:
    found = detect(data, "x.py")

    assert isinstance(found, Skip)
    assert found.kind == kind
    assert found.reason.startswith(reason)


@given(st.binary(max_size=200))
def test_what_is_told_decodes_the_whole_file(data: bytes) -> None:
    found = detect(data)

    assert found == detect(data)
    if isinstance(found, str):
        data.decode(found)


@pytest.mark.parametrize("name", ["cp1251", "koi8-r", "cp932", "euc_jp", "cp949"])
def test_any_run_of_whole_characters_decodes_alone(name: str) -> None:
    text = {"cp932": JAPANESE, "euc_jp": JAPANESE, "cp949": KOREAN}.get(name, RUSSIAN)
    data = text.encode(name)
    found = detect(data)
    assert isinstance(found, str)

    place = 0
    for letter in text:
        length = len(letter.encode(name))
        assert data[place : place + length].decode(found) == letter
        place += length
