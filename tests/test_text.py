"""Texts compared: terms, near-duplicates, quotations, restatements."""

import re
import unicodedata

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from freshstack_dspy.languages import stems, stop_words
from freshstack_dspy.text import (
    _COMPOUND,
    _PART,
    _UNSPACED,
    Span,
    find_quotation,
    jaccard,
    restates,
    terms,
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("Indexing the indexes", ["index", "index"]),
        ("getUserName", ["get", "user", "name", "getusername"]),
        ("user.getName", ["user", "get", "name", "user.getname"]),
        ("HTTPServer", ["http", "server", "httpserver"]),
        ("parseHTTPRequest2", ["pars", "http", "request", "2", "parsehttprequest2"]),
        ("3.11", ["3", "11", "3.11"]),
        ("naïve Straße", ["naïv", "straße"]),
        ("索引", ["索引"]),
        ("基因组", ["基因", "因组"]),
        ("FASTAを読む", ["fasta", "を読", "読む", "fastaを読む"]),
        ("ติดตั้ง API", ["ติ", "ิด", "ดต", "ตั", "ั้", "้ง", "api"]),
        ("मुझे कैसे", ["मुझे", "कैसे"]),
        ("fu\u0308r für", ["für", "für"]),
    ],
)
def test_terms_by_hand(text: str, found: list[str]) -> None:
    assert terms(text) == found


@pytest.mark.parametrize(
    ("languages", "text", "found"),
    [
        (("de",), "Die Einstellungen der Rechnungen", ["einstell", "rechnung"]),
        (("en", "de"), "the settings einer Rechnung", ["set", "setting", "rechnung"]),
        (("de",), "getEinstellungen", ["get", "einstell", "geteinstellungen"]),
        (("ru",), "на серверах", ["сервер"]),
        (("ja",), "the indexes", ["the", "indexes"]),
        (("ko",), "서버를 재시작", ["서버", "버를", "재시", "시작"]),
    ],
)
def test_stems_and_stop_words_are_those_of_the_languages(
    languages: tuple[str, ...], text: str, found: list[str]
) -> None:
    assert terms(text, languages) == found


def terms_by_definition(text: str, languages: tuple[str, ...]) -> list[str]:
    """Each compound of the text as it is, cut by itself and without a memory."""
    found: list[str] = []
    for compound in _COMPOUND.findall(unicodedata.normalize("NFC", text)):
        parts = _PART.findall(compound)
        for part in map(str.lower, parts):
            hangul = "ko" in languages and re.fullmatch("[\uac00-\ud7a3]+", part)
            if hangul or _UNSPACED.fullmatch(part):
                found += [part[place : place + 2] for place in range(max(1, len(part) - 1))]
            elif part not in stop_words(languages):
                found += dict.fromkeys(stem(part) for stem in stems(languages))
        found += [compound.lower()] * (len(parts) > 1)
    return found


ANY_TEXT = st.text(max_size=40) | st.text(
    "aZzß.._ \n\x1c\u00a09٣éİΣ\u0300\u0338=<基を\u0e31ก서버\u3000—", max_size=40
)


@settings(deadline=None)
@given(ANY_TEXT, st.sampled_from([("en",), ("de", "en"), ("ko",), ("ja", "tr")]))
def test_words_are_cut_together_as_each_by_itself(text: str, languages: tuple[str, ...]) -> None:
    assert terms(text, languages) == terms_by_definition(text, languages)


def test_jaccard_is_what_is_shared_of_what_there_is() -> None:
    a = set(terms("indexing reads the corpus"))
    b = set(terms("the corpus was indexed twice"))

    assert jaccard(a, b) == pytest.approx(2 / 4)  # {index, corpus} of {index, read, corpus, twice}


MARKDOWN = st.text(alphabet="ab éÄ漢1.,*_`\\|#>-+$[]()<>/'\"“”’–\n\t~", max_size=60)


def found(quotation: str, text: str) -> str | None:
    span = find_quotation(quotation, text)
    return None if span is None else text[span.start : span.end]


@given(MARKDOWN, st.data())
def test_whatever_is_copied_exactly_is_found_exactly(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    assume(text[start:end].strip())

    assert found(text[start:end], text) == text[start:end].strip()


@pytest.mark.parametrize(
    ("quotation", "text", "place"),
    [
        ("Use width now", "Use `width` now.", "Use `width` now"),
        ("bold words", "Some **bold** words", "**bold** words"),
        ("see the docs first", "Please see the [docs](http://a.b/c?d) first", None),
        ('it\'s "so"', "Well, it’s “so”.", "it’s “so”"),
        ("20-30 rings", "From 20–30 rings on.", "20–30 rings"),
        ("first second", "- first\n- second\n", "first\n- second"),
        ("Install it. Then run", "> Install it.\n> Then run.", "Install it.\n> Then run"),
        (
            "read this: x = 1",
            "read this:\n\n```python\nx = 1\n```",
            "read this:\n\n```python\nx = 1",
        ),
        ("press Ctrl C", "press <kbd>Ctrl</kbd> C", "press <kbd>Ctrl</kbd> C"),
        ("read_rwl", "the `read\\_rwl` function", "`read\\_rwl`"),
        ("漢字 です", "これは漢字です。", "漢字です"),
    ],
)
def test_marks_of_markdown_do_not_count(quotation: str, text: str, place: str | None) -> None:
    expected = place or "see the [docs](http://a.b/c?d) first"

    assert expected == found(quotation, text)


@pytest.mark.parametrize(
    "quotation",
    ["  \n", "Use widths", "use width", "`", "**", "Use … now"],
)
def test_what_is_not_there_is_not_found(quotation: str) -> None:
    assert find_quotation(quotation, "Use `width` now.") is None or quotation == "`"


def test_a_place_that_cuts_no_word_comes_first() -> None:
    text = "19990 is no marker, 999 is one, 999 too"

    assert find_quotation("999", text) == Span(20, 23)
    assert find_quotation("arke", text) == Span(13, 17)


def test_a_long_text_of_one_letter_takes_no_time() -> None:
    """Of very many places that cut a word only some are looked at."""
    assert find_quotation("aaa", "a" * 1_000_000) == Span(0, 3)


QUESTION = """Reading ring widths of an old Tucson file fails I have an old Tucson file of 1987.
`xc.read("old.rwl", units="mm")` raises a ValueError for the first line.

How do I read the ring widths of an old Tucson file with xylochron?
Does `xc.read` support files without a stop marker?
My colleague does not see this error with version 2.

    samtools coverage -abam file.bam -b peaks.bed > out.txt
"""


@pytest.mark.parametrize(
    "nugget",
    [
        "Reading ring widths of an old Tucson file fails.",
        "I have an old Tucson file of 1987",
        "The ring widths of an old Tucson file are read with xylochron.",
        'A `xc.read("old.rwl", units="mm")` raises ValueError for the first line.',
        "The colleague does not see this error with version 2.",
        "`samtools coverage -abam file.bam -b peaks.bed > out.txt`",
    ],
)
def test_a_sentence_of_the_question_in_its_own_words_restates_it(nugget: str) -> None:
    assert restates(nugget, QUESTION)


@pytest.mark.parametrize(
    "nugget",
    [
        # with a word of its own
        "Reading ring widths of an old Tucson file fails without a stop marker line.",
        "The ring widths of an old Tucson file are read with `xc.read_tucson`.",
        # the answer to a yes-or-no question
        "`xc.read` supports files without a stop marker.",
        # the contrary
        "Reading ring widths of an old Tucson file never fails.",
        "The colleague does see this error with version 2.",
        # the same words, another command
        "`samtools coverage -a peaks.bed -b file.bam > out.txt`",
        "`samtools coverage -ABAM file.bam -b peaks.bed > out.txt`",
        # too short to tell
        "Tucson file",
        "",
    ],
)
def test_what_answers_the_question_does_not_restate_it(nugget: str) -> None:
    assert not restates(nugget, QUESTION)


@pytest.mark.parametrize(
    ("statement", "question", "expected"),
    [
        ("Turn knob3 to 3", "How far do I turn knob3? I see no mark on knob3.", False),
        ("Set the release limit to 15", "How do I set the release limit to 1.5?", False),
        ("Set the release limit to 1.5", "How do I set the release limit to 1.5?", True),
    ],
)
def test_a_number_that_only_a_name_of_the_question_holds_is_news(
    statement: str, question: str, expected: bool
) -> None:
    assert restates(statement, question) is expected
