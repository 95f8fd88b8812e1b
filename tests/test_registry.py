"""What packages of others get wrong: one line each, which says what to type."""

from pathlib import Path

import pytest

from freshstack_dspy import export_collection
from freshstack_dspy.config import QueriesConfig
from freshstack_dspy.errors import ConfigError, SourceError
from freshstack_dspy.formats import FORMATS
from freshstack_dspy.measures.measure import OTHER_FAMILIES
from freshstack_dspy.questions.reading import read_queries
from tests.collection.small import write_small

ENTRY_POINTS = """
[freshstack_dspy.formats]
syntax = wrong_syntax:LINES
raises = wrong_import:LINES
nowhere = wrong_nowhere:LINES
module = wrong
none = wrong:NONE
twice = wrong:NONE

[freshstack_dspy.measures]
Three = wrong:THREE

[freshstack_dspy.sources]
nameless = wrong:nameless
texts = wrong:texts
nothing = wrong:nothing
three = wrong:THREE
"""
WRONG = """
NONE, THREE = None, 3

def nameless(path):
    yield {"title": "How?", "body": "", "answer": "So."}

def texts(path):
    yield "How?"

def nothing(path):
    pass
"""


@pytest.fixture(autouse=True)
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = {"wrong": ENTRY_POINTS, "other": "[freshstack_dspy.formats]\ntwice = wrong:THREE\n"}
    for name, entry_points in entries.items():
        folder = tmp_path / "site" / f"{name}-1.0.dist-info"
        folder.mkdir(parents=True)
        (folder / "entry_points.txt").write_text(entry_points)
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (tmp_path / "site/wrong.py").write_text(WRONG)
    (tmp_path / "site/wrong_syntax.py").write_text("def f(:\n")
    (tmp_path / "site/wrong_import.py").write_text("\nLINES = lines()\n")
    monkeypatch.syspath_prepend(tmp_path / "site")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("syntax", r"format syntax wrong_syntax:LINES: .*wrong_syntax.py:1: invalid syntax"),
        ("raises", r"wrong_import.py:2: NameError: name 'lines' is not defined"),
        ("nowhere", r"No module named 'wrong_nowhere': it is not installed"),
        ("module", r"'wrong', and names no object; write it as wrong:NAME"),
        ("none", r"format none is None, and no format"),
        ("twice", r"several packages have one of this name \(wrong:NONE, wrong:THREE\); uninstall"),
        (3, r"format 3 is 3, and no format"),
    ],
)
def test_a_format_that_cannot_be_one_is_named(tmp_path: Path, name: str, said: str) -> None:
    assert {"syntax", "twice", "beir"} <= set(FORMATS.names())
    with pytest.raises(ConfigError, match=said):
        export_collection(write_small(tmp_path / "c"), name, tmp_path / "e")


def test_a_measure_that_cannot_be_one_is_named() -> None:
    with pytest.raises(ConfigError, match="measure Three is 3, and no measure"):
        OTHER_FAMILIES.get("Three")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("nameless", r"forum.txt, by source nameless\[0\]: has no value of 'query_id'"),
        ("texts", r"by source texts\[0\]: is 'How\?'; it has to be a dictionary"),
        ("nothing", r"source nothing gave None; it has to give a dictionary for each question"),
        ("three", r"three is 3, and no source of questions"),
    ],
)
def test_a_source_that_gives_no_questions_is_named(tmp_path: Path, source: str, said: str) -> None:
    with pytest.raises((ConfigError, SourceError), match=said):
        read_queries(QueriesConfig(source=source, path=tmp_path / "forum.txt"))
