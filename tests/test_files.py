"""Files: canonical lines, JSON of others, and writing whole or not at all."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy.errors import SourceError
from freshstack_dspy.files import canonical_json, canonical_line, json_file, read_lines, write_file
from freshstack_dspy.records import Query

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


@given(TEXTS, TEXTS)
def test_a_line_is_the_canonical_json_of_the_fields(one: str, other: str) -> None:
    """Pydantic writes it, and Python's own JSON is the oracle: any text, no space, no escape."""
    record = Query(query_id="q", title=one, body=other, answer="a", tags=(one, other))

    assert canonical_line(record) == canonical_json(record.model_dump()) + "\n"


def test_lines_are_bounded_and_a_byte_order_mark_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_bytes(b"\xef\xbb\xbf{}\n[]")
    heard: list[tuple[int, int]] = []

    assert list(read_lines(path, lambda *each: heard.append(each))) == [(1, b"{}\n"), (2, b"[]")]
    assert heard[-1] == (8, 8)
    monkeypatch.setattr("freshstack_dspy.files.LONGEST_LINE", 2)
    with pytest.raises(SourceError, match=r"lines\.jsonl:1: longer than"):
        list(read_lines(path))


@pytest.mark.parametrize("content", ["", "{", "NaN", "[" * 100_000])
def test_what_is_no_json_is_one_clean_error(tmp_path: Path, content: str) -> None:
    path = tmp_path / "value.json"
    path.write_text(content)

    with pytest.raises(SourceError, match=r"value\.json: not JSON"):
        json_file(path)


def test_a_file_is_written_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out.json"
    write_file(path, "old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_file(path, b"new")
    assert path.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["out.json"]
