"""The terms of an index by the languages of its chunks."""

from pathlib import Path

import pytest

from freshstack_dspy import Chunk, HybridIndex
from freshstack_dspy.config import Lexical
from tests.index.pieces import CAMEL, GUIDE, SMALL, piece

GERMAN = piece(
    "de/anleitung.md", "Die Rechnungen werden in den Einstellungen des Servers exportiert."
).model_copy(update={"language": "de"})
ENGLISH = GUIDE.model_copy(update={"language": "en"})


def found(index: HybridIndex, text: str) -> list[str]:
    return [one.chunk_id for one in index.search("bm25", [text], 5)[0]]


@pytest.mark.parametrize("lexical", ["bm25s", "lance"])
def test_a_chunk_is_found_by_the_stems_of_its_language(tmp_path: Path, lexical: Lexical) -> None:
    chunks = [GERMAN, ENGLISH, CAMEL]
    plain = HybridIndex.build(tmp_path, "plain", chunks, lexical=lexical)
    index = HybridIndex.build(tmp_path, "both", chunks, lexical=lexical, languages=["de", "en"])

    assert found(plain, "eine Rechnung") == []
    for opened in (index, HybridIndex.open(index.path)):
        assert found(opened, "eine Rechnung") == [GERMAN.chunk_id]
        assert found(opened, "die Packages installieren") == [ENGLISH.chunk_id]
        assert found(opened, "wie und wo sind die") == []
        assert found(opened, "getUserName users") == [CAMEL.chunk_id]  # code: in none


def test_an_index_of_other_languages_is_built_again(tmp_path: Path) -> None:
    before = HybridIndex.build(tmp_path, "x", SMALL)

    same = HybridIndex.build(tmp_path, "x", SMALL, languages=["en"])
    german = HybridIndex.build(tmp_path, "x", SMALL, languages=["de"])

    assert before.manifest.key == same.manifest.key != german.manifest.key


@pytest.mark.parametrize("lexical", ["bm25s", "lance"])
@pytest.mark.parametrize(
    ("question", "path"),
    [("如何安装程序？", "zh.md"), ("วิธีติดตั้ง", "th.md"), ("प्रोग्राम कैसे", "hi.md")],
)
def test_questions_without_spaces_or_with_vowel_marks_find_words(
    tmp_path: Path, lexical: Lexical, question: str, path: str
) -> None:
    """Words of Thai and Hindi were cut at their vowels."""
    texts = {
        "zh.md": "请先安装依赖包，然后运行。",
        "th.md": "คู่มือการติดตั้งโปรแกรม",
        "hi.md": "यह प्रोग्राम तेज़ है",
        "other.md": "ที่นี่มีกาแฟ यहाँ चाय है 这里有咖啡",
    }
    chunks: list[Chunk] = [piece(name, text) for name, text in texts.items()]
    index = HybridIndex.build(tmp_path, "x", chunks, lexical=lexical, dimensions=2)

    assert found(index, question)[0].startswith(f"repo/{path}")
