"""Files in any encoding: the offsets are of their bytes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from freshstack_dspy.corpus.chunks import chunk_file
from freshstack_dspy.records import SourceFile
from tests.corpus.exactness import chunks_of

SAMPLES = {
    "ascii": "plain text",
    "utf-8": "äöü 中文 👍",
    "utf-16-le": "äöü 中文 👍",
    "utf-16-be": "\ufeffäöü 中文 👍",
    "utf-32-le": "\ufeffäöü 中文 👍",
    "utf-32-be": "äöü 中文 👍",
    "cp1252": "Größe €",
    "latin-1": "Größe\x85",
    "koi8-r": "размер",
    "cp437": "Größe",
    "shift_jis": "日本語の文字。ｱｲｳ",
    "cp932": "日本語の文字。①",
    "euc_jp": "日本語の文字。",
    "gb18030": "\ufeff中文字。€👍äé",
    "gbk": "中文字。",
    "big5": "中文字。",
    "euc_kr": "한국어",
    "cp949": "한국어 똠",
    "big5hkscs": "Ê̄Ê̌ê̄ê̌中文",
    "shift_jis_2004": "か゚き゚日本語",
    "euc_jis_2004": "か゚き゚日本語",
}
"""Of the last three, some codes stand for two characters each."""


@pytest.mark.parametrize("encoding", SAMPLES)
@pytest.mark.parametrize("unit", ["{}", "{} ", "x = '{}'\n", "{}\r\n\r\n"])
def test_any_encoding_is_cut_between_its_characters(encoding: str, unit: str) -> None:
    text = (unit.format(SAMPLES[encoding])) * 40

    chunks = chunks_of("a.py", text, 20, encoding)

    assert len(chunks) > 2


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(sorted(SAMPLES)), st.data(), st.integers(16, 30))
def test_any_mixture_is_cut_between_its_characters(
    encoding: str, data: st.DataObject, most: int
) -> None:
    units = st.sampled_from([*SAMPLES[encoding].split(" "), " ", "\n", "a", "\n\n", ". "])
    text = "".join(data.draw(st.lists(units, max_size=40)))

    chunks_of("a.txt", text, most, encoding)


def test_a_byte_order_mark_is_in_the_first_chunk_and_not_in_its_text() -> None:
    text = f"\ufeff{'ä ' * 16}\n\n{'ö ' * 16}"

    first, second = chunks_of("a.txt", text, 30, "utf-16-le")

    assert first.text == "ä " * 16 + "\n\n"
    assert (first.start_byte, first.end_byte) == (0, 2 * (1 + 34))
    assert second.text == "ö " * 16


def test_a_second_byte_order_mark_is_text() -> None:
    [chunk] = chunks_of("a.txt", "\ufeff\ufeffa", 16)

    assert chunk.text == "\ufeffa"


def test_data_in_another_encoding_is_an_error() -> None:
    with pytest.raises(UnicodeDecodeError):
        chunk_file(SourceFile("lib", "a.txt", b"\x81", None, "shift_jis"), 16)


def test_an_unknown_encoding_is_an_error() -> None:
    with pytest.raises(LookupError, match="unknown encoding: klingon"):
        chunk_file(SourceFile("lib", "a.txt", b"a", None, "klingon"), 16)
