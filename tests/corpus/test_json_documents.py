"""Documents in JSON Lines: their bytes, their ids, and lines that are none."""

from pathlib import Path

import pytest

from freshstack_dspy.corpus.documents import document_bytes
from freshstack_dspy.errors import SourceError

from .read_corpus import files, kinds, read, reasons


def lines(folder: Path, *texts: str, mark: bytes = b"") -> Path:
    path = folder / "corpus.jsonl"
    path.write_bytes(mark + "\n".join(texts).encode())
    return path


def test_each_line_is_a_document(tmp_path: Path) -> None:
    path = lines(
        tmp_path,
        '{"_id": "b", "title": "Rings", "text": "é one", "metadata": {"url": "x"}}',
        "",
        '{"id": "LICENSE", "text": "two"}',
        '{"path": "vendor/c.csv", "title": " ", "text": "three"}',
        '{"id": "blank", "text": " "}',
        '{"id": "line\\nbreak", "text": "x"}',
        mark=b"\xef\xbb\xbf",
    )

    found = read(path, exclude=("nothing",))

    assert files(found) == {
        "LICENSE": b"two",
        "b": "Rings\n\né one".encode(),
        "vendor/c.csv": b"three",
    }
    assert kinds(found) == {"blank": "empty", "line\\nbreak": "unreadable"}
    assert document_bytes("Rings", "é one") == files(found)["b"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "a document is"),
        ("{", "a document is"),
        ('{"text": "x"}', "path: Field required"),
        ('{"id": 1, "text": "x"}', "id: Input should be a valid string"),
        ('{"id": "a"}', "text: Field required"),
        ('{"id": "", "text": "x"}', "at least 1 character"),
        ("[" * 100_000, "a document is"),
        ('{"id": "a", "text": "\\ud800"}', "a document is"),
        ('{"id": "x", "text": "again"}', "the document 'x' is already on line 1"),
    ],
)
def test_a_line_that_is_no_document_is_named(tmp_path: Path, text: str, said: str) -> None:
    path = lines(tmp_path, '{"id": "x", "text": "x"}', text)

    with pytest.raises(SourceError) as error:
        read(path)

    assert str(error.value).startswith(f"{path}:2: ")
    assert said in str(error.value)


def test_an_id_that_is_too_long_is_skipped_and_shortened(tmp_path: Path) -> None:
    path = lines(
        tmp_path,
        f'{{"id": "{"a" * 4096}", "text": "one"}}',
        f'{{"id": "{"b" * 4096}c", "text": "two"}}',
    )

    found = read(path)

    assert files(found) == {"a" * 4096: b"one"}
    assert reasons(found) == {
        f"{'b' * 100}…{'b' * 99}c": "its path is longer than 4,096 bytes",
    }
