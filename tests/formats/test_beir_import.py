import gzip
from pathlib import Path

import pytest

from freshstack_dspy import import_collection
from freshstack_dspy.errors import SourceError

from .foreign import beir, json_lines


def labels_of(path: Path, out: Path, **words: object) -> dict[str, int | None]:
    collection = import_collection("beir", path, out, **words)  # type: ignore[arg-type]
    return {judgment.chunk_id: judgment.label for judgment in collection.judgments}


def test_a_query_becomes_one_nugget_of_its_text(tmp_path: Path) -> None:
    collection = import_collection("beir", beir(tmp_path / "b"), tmp_path / "c")

    (query,), (nugget,), (one, two) = collection.queries, collection.nuggets, collection.chunks()
    assert (collection.name, collection.recipe, collection.manifest.model) == (
        "c", "import:beir", "none",
    )  # fmt: skip
    assert (query.query_id, query.text, query.origin) == ("q1", "What is alpha?", "imported")
    assert (nugget.text, nugget.call_id) == ("What is alpha?", None)
    assert collection.manifest.counts.rejected == {"not in the qrels": 1}
    assert (one.title, one.url, one.path, one.source) == ("One", "https://x.org/1", "d1", "b")
    assert (two.text, two.start_byte, two.end_byte, two.url) == ("bêta", 0, 5, None)


@pytest.mark.parametrize(
    ("grade", "scale"),
    [(0, "binary"), (1, "binary"), (2, "support"), (3, "graded_3"), (5, "graded_5")],
)
def test_grades_stay_on_the_smallest_scale_that_holds_them(
    tmp_path: Path, grade: int, scale: str
) -> None:
    """TREC's -2 is junk and BEIR's -1 nothing at all; neither is a judgment of no support."""
    path = beir(tmp_path / "b", f"q1 0 d1 {grade}\nq1 0 d2 -1\n")
    collection = import_collection("beir", path, tmp_path / "c")

    assert (scale, 1) == (collection.manifest.scale.name, collection.manifest.scale.threshold)
    assert [grade, None] == [judgment.label for judgment in collection.judgments]


def test_grades_that_no_scale_holds_are_refused(tmp_path: Path) -> None:
    path = beir(tmp_path / "b", "q1 0 d1 6\nq1 0 d2 2\n")

    with pytest.raises(SourceError, match="grade 6"):
        import_collection("beir", path, tmp_path / "c")


@pytest.mark.parametrize(
    "qrels",
    [
        "query-id\tcorpus-id\tscore\nq1\td1\t1\nq1\td2\t0\n",
        "\ufeffquery-id\tcorpus-id\tscore\r\nq1\td1\t1\r\nq1\td2\t0\r\n",
        "q1 0 d1 1\nq1 0 d2 0\n",
    ],
)
def test_tables_and_lines_of_trec_are_read(tmp_path: Path, qrels: str) -> None:
    path = beir(tmp_path / "b", qrels)
    corpus = (path / "corpus.jsonl").read_bytes().replace(b"\n", b"\r\n")
    (path / "corpus.jsonl").unlink()
    (path / "corpus.jsonl.gz").write_bytes(gzip.compress(b"\xef\xbb\xbf" + corpus))

    assert labels_of(path, tmp_path / "c") == {"d1": 1, "d2": 0}


def test_qrels_may_be_rows(tmp_path: Path) -> None:
    path = beir(tmp_path / "b")
    (path / "qrels/test.tsv").unlink()
    json_lines(path / "qrels/test.jsonl", [{"query-id": "q1", "corpus-id": "d1", "score": 1.0}])

    assert labels_of(path, tmp_path / "c") == {"d1": 1}


def test_unknown_ids_are_an_error_or_dropped_and_listed(tmp_path: Path) -> None:
    path = beir(tmp_path / "b", "q1 0 d1 1\nq1 0 gone 1\nnobody 0 d1 1\n")

    with pytest.raises(SourceError, match=r"1 queries of 1 judgments do not exist.*'nobody'"):
        import_collection("beir", path, tmp_path / "c")
    collection = import_collection("beir", path, tmp_path / "c", unknown_ids="drop")
    assert [(each.source, each.path) for each in collection.skipped] == [
        ("corpus", "gone"),
        ("queries", "nobody"),
    ]
    assert [judgment.chunk_id for judgment in collection.judgments] == ["d1"]


def test_of_several_splits_one_must_be_named(tmp_path: Path) -> None:
    path = beir(tmp_path / "b")
    (path / "qrels" / "train.tsv").write_text("query-id\tcorpus-id\tscore\nq2\td1\t1\n")

    with pytest.raises(SourceError, match=r"split='test', split='train'"):
        import_collection("beir", path, tmp_path / "c")
    collection = import_collection("beir", path, tmp_path / "c", split="train")
    assert [query.query_id for query in collection.queries] == ["q2"]


@pytest.mark.slow
def test_a_file_that_unpacks_to_far_more_than_text_would_is_refused(tmp_path: Path) -> None:
    path = beir(tmp_path / "b")
    (path / "corpus.jsonl").write_bytes(gzip.compress((b" " * (1 << 20) + b"\n") * 100))

    with pytest.raises(SourceError, match="unpacks to more than 200 times its size"):
        import_collection("beir", path, tmp_path / "c")


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("corpus.jsonl", b"[" * 100_000),
        ("corpus.jsonl", b'{"_id": "d1", "text": 5}'),
        ("corpus.jsonl", b'{"_id": "", "text": "a"}'),
        ("corpus.jsonl", b'{"_id": "d1", "text": "\\ud800"}'),
        ("corpus.jsonl", b'{"_id": "d1", "text": "\xff"}'),
        ("corpus.jsonl", b'{"_id": "d0", "text": "b"}'),
        ("qrels/test.tsv", b"q1\td1\tyes"),
    ],
)
def test_a_damaged_line_is_named_and_nothing_is_written(
    tmp_path: Path, name: str, data: bytes
) -> None:
    path = beir(tmp_path / "b")
    first = (path / name).read_bytes().splitlines()[0].replace(b"d1", b"d0")
    (path / name).write_bytes(first + b"\n" + data + b"\n")

    with pytest.raises(SourceError, match=rf"{name}:2: "):
        import_collection("beir", path, tmp_path / "c")
    assert not (tmp_path / "c").exists()
