"""Runs of passages: read, placed, and measured by where the evidence is."""

import json
from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy.collection.passages import place_all, read_passages
from freshstack_dspy.collection.placing import Files, Hit
from freshstack_dspy.corpus.chunks import chunk_file
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.measures.spans import Place
from freshstack_dspy.records import SourceFile

TEXT = "Größe: how large it is.\n\nThe rest of the page is about colours.\n" * 3
FILES = Files(
    chunk
    for path in ("docs/size.md", "docs/old/notes.md", "docs/new/notes.md")
    for chunk in chunk_file(SourceFile("lib", path, TEXT.encode()), 16)
)
LINE = {"query_id": "q", "source": "lib", "path": "docs/size.md", "score": 1.0}


def written(folder: Path, *lines: dict[str, Any] | str) -> Path:
    path = folder / "mine.jsonl"
    texts = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    path.write_text("\n".join(texts), encoding="utf-8")
    return path


def test_bytes_characters_and_texts_give_the_same_place(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        LINE | {"query_id": "a", "start": 0, "end": 8},
        LINE | {"query_id": "b", "start": 0, "end": 6, "unit": "chars"},
        LINE | {"query_id": "c", "start": 0, "text": "Größe:", "unit": "chars"},
    )
    run = place_all(FILES, read_passages(path, FILES), "mine")

    expected = {Place("lib", "docs/size.md", 0, 8): 1.0}
    assert run.passages == {"a": expected, "b": expected, "c": expected}
    assert run.placed_share == 1


def test_of_two_results_at_one_place_the_better_score_counts() -> None:
    hit = Hit(1.0, path="docs/size.md", start=0, end=8, unit="bytes")
    run = place_all(FILES, {"q": [hit, hit._replace(score=3.0)]}, "mine")

    assert list(run.passages["q"].values()) == [3.0]
    assert run.repeated == 1


def test_a_text_that_is_in_no_file_is_counted_as_unplaced(tmp_path: Path) -> None:
    path = written(tmp_path, LINE | {"start": 0, "end": 8}, LINE | {"text": "Nothing of the kind."})
    run = place_all(FILES, read_passages(path, FILES), "mine")

    assert run.unplaced == {"q": 1}
    assert run.placed_share == 0.5


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"query_id": "q"', "mine.jsonl:2: Invalid JSON"),
        (LINE | {"start": -1, "end": 8}, "mine.jsonl:2: start: Input should be greater than"),
        (LINE | {"start": 8, "end": 8}, "starts at 8 and ends at 8"),
        (LINE, "neither text nor start and end"),
        (LINE | {"start": 0, "end": 9999}, "ends at 9999, and 'docs/size.md' has 198 bytes"),
        (LINE | {"start": 0, "end": 8, "path": "docs/sizes.md"}, "the nearest is docs/size.md"),
        (LINE | {"start": 0, "end": 8, "path": "notes.md"}, "may be lib/docs/"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, line: Any, message: str) -> None:
    path = written(tmp_path, LINE | {"start": 0, "end": 8}, line)

    with pytest.raises(CollectionError, match=message):
        read_passages(path, FILES)
