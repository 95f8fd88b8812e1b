"""What packages of others get wrong: one line each, which says what to type."""

from pathlib import Path

import pytest

from freshstack_dspy import export_collection
from freshstack_dspy.config import QueriesConfig
from freshstack_dspy.errors import ConfigError, SourceError
from freshstack_dspy.formats import FORMATS
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
        ("syntax", r"wrong_syntax\.py:1"),
        ("raises", r"wrong_import\.py:2: NameError"),
        ("nowhere", "wrong_nowhere"),
        ("module", "wrong:NAME"),
        ("none", "None"),
        ("twice", r"wrong:NONE, wrong:THREE"),
        (3, "3"),
    ],
)
def test_a_format_that_cannot_be_one_is_named(tmp_path: Path, name: str, said: str) -> None:
    assert {"syntax", "twice", "beir"} <= set(FORMATS.names())
    with pytest.raises(ConfigError, match=said):
        export_collection(write_small(tmp_path / "c"), name, tmp_path / "e")


@pytest.mark.parametrize("source", ["nameless", "texts", "nothing", "three"])
def test_a_source_that_gives_no_questions_is_named(tmp_path: Path, source: str) -> None:
    with pytest.raises((ConfigError, SourceError), match=source):
        read_queries(QueriesConfig(source=source, path=tmp_path / "forum.txt"))
