import gzip
from pathlib import Path

import pytest

from freshstack_dspy.collection.imports import import_collection
from freshstack_dspy.errors import CollectionError, SourceError

from .foreign import beir, json_lines


def labels_of(path: Path, out: Path, **words: object) -> dict[str, int | None]:
    collection = import_collection("beir", path, out, **words)  # type: ignore[arg-type]
    return {judgment.chunk_id: judgment.label for judgment in collection.judgments}


def test_a_query_becomes_one_nugget_of_its_text(tmp_path: Path) -> None:
    collection = import_collection("beir", beir(tmp_path / "b"), tmp_path / "c")

    (query,) = collection.queries
    (nugget,) = collection.nuggets
    assert (query.query_id, query.text, query.origin) == ("q1", "What is alpha?", "imported")
    assert (nugget.text, nugget.call_id) == ("What is alpha?", None)
    assert collection.manifest.counts.rejected == {"not in the qrels": 1}
    assert (collection.recipe, collection.manifest.model) == ("import:beir", "none")
    assert [candidate.origin for candidate in collection.pool] == ["imported", "imported"]


def test_documents_keep_title_text_address_and_their_length_in_bytes(tmp_path: Path) -> None:
    collection = import_collection("beir", beir(tmp_path / "b"), tmp_path / "c", name="mine")

    one, two = collection.chunks()
    assert (one.title, one.url, one.path, one.source) == ("One", "https://x.org/1", "d1", "mine")
    assert (two.text, two.start_byte, two.end_byte, two.url) == ("bêta", 0, 5, None)


@pytest.mark.parametrize(
    ("grade", "scale"),
    [(0, "binary"), (1, "binary"), (2, "support"), (3, "graded_3"), (5, "graded_5")],
)
def test_grades_stay_on_the_smallest_scale_that_holds_them(
    tmp_path: Path, grade: int, scale: str
) -> None:
    collection = import_collection(
        "beir",
        beir(tmp_path / "b", f"query-id\tcorpus-id\tscore\nq1\td1\t{grade}\n"),
        tmp_path / "c",
    )

    assert (scale, 1) == (collection.manifest.scale.name, collection.manifest.scale.threshold)
    assert [grade] == [judgment.label for judgment in collection.judgments]


def test_grades_that_no_scale_holds_need_a_threshold(tmp_path: Path) -> None:
    path = beir(tmp_path / "b", "q1 0 d1 7\nq1 0 d2 2\n")

    with pytest.raises(SourceError, match=r"grade 7 .* --threshold"):
        import_collection("beir", path, tmp_path / "c")

    assert labels_of(path, tmp_path / "c", threshold=3) == {"d1": 1, "d2": 0}


def test_a_grade_below_0_is_no_label(tmp_path: Path) -> None:
    """TREC's -2 is junk and BEIR's -1 nothing at all; neither is a judgment of no support."""
    path = beir(tmp_path / "b", "q1 0 d1 1\nq1 0 d2 -1\n")

    assert labels_of(path, tmp_path / "c") == {"d1": 1, "d2": None}


def test_trec_qrels_take_document_ids_with_spaces(tmp_path: Path) -> None:
    path = beir(tmp_path / "b", "q1 0 d 1  x 1\r\n")
    json_lines(path / "corpus.jsonl", [{"_id": "d 1  x", "text": "alpha"}])

    assert labels_of(path, tmp_path / "c") == {"d 1  x": 1}


def test_a_table_may_quote_its_ids(tmp_path: Path) -> None:
    path = beir(tmp_path / "b", 'query-id\tcorpus-id\tscore\r\nq1\t"d ""1""\t/"\t1\r\n')
    json_lines(path / "corpus.jsonl", [{"_id": 'd "1"\t/', "text": "alpha"}])

    assert labels_of(path, tmp_path / "c") == {'d "1"\t/': 1}


def test_what_the_corpus_lacks_is_refused_or_listed(tmp_path: Path) -> None:
    path = beir(tmp_path / "b", "q1 0 d1 1\nq1 0 gone 1\nnobody 0 d1 1\n")

    with pytest.raises(SourceError, match=r"1 queries that judgments name are not there.*'nobody'"):
        import_collection("beir", path, tmp_path / "c")

    collection = import_collection("beir", path, tmp_path / "c", missing="drop")
    assert [(each.source, each.path) for each in collection.skipped] == [
        ("corpus", "gone"),
        ("queries", "nobody"),
    ]
    assert [judgment.chunk_id for judgment in collection.judgments] == ["d1"]


@pytest.mark.parametrize(
    ("qrels", "said"),
    [
        ("q1 0 d1 1\nq1 0 d1 0\n", r"test\.tsv:2: query 'q1' and document 'd1' .*test\.tsv:1"),
        ("q1 1 d1 1\n", "qrels of whole queries have 0"),
        ("q1 0 d1 yes\n", "grade is 'yes'"),
        ("q1 d1\n", "not a line of qrels"),
        ("query-id\tcorpus-id\tscore\nq1\td1\n", r"test\.tsv:2: 2 fields"),
        ('query-id\tcorpus-id\tscore\n"q1\td1\t1\n', r"test\.tsv:2"),
        ("q1\td1\t0.5\nq1\td2\t1\n", r"test\.tsv:1: the grade is '0\.5'"),
        ("q1\td1\tyes\nq1\td2\t1\n", r"test\.tsv:1: the grade is 'yes'"),
        ("corpus-id\tquery-id\tscore\nd1\tq1\t1\n", r"test\.tsv:1: the grade is 'score'"),
        (f"{'q' * 140_000}\td1\t1\n", r"test\.tsv:1: not a table with tabs: field larger"),
        ("q1\td\r1\t1\n", r"test\.tsv:1: not a table with tabs: new-line"),
        ('{"query-id": "q1", "corpus-id": "d1", "score": 1e999}\n', r"test\.tsv:1: "),
    ],
)
def test_damaged_qrels_are_named_by_line(tmp_path: Path, qrels: str, said: str) -> None:
    with pytest.raises(SourceError, match=said):
        import_collection("beir", beir(tmp_path / "b", qrels), tmp_path / "c")

    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize(
    "header", ["", "\nquery-id\tcorpus-id\tscore\n", "query_id\tdoc_id\tlabel\n", "QID\tPID\trel\n"]
)
def test_a_table_may_have_a_line_of_names(tmp_path: Path, header: str) -> None:
    path = beir(tmp_path / "b", f"{header}q1\td1\t1\nq1\td2\t0\n")

    assert labels_of(path, tmp_path / "c") == {"d1": 1, "d2": 0}


@pytest.mark.parametrize("name", ["corpus.jsonl", "queries.jsonl", "qrels", "ids.json"])
def test_a_link_that_leads_out_of_the_folder_is_not_followed(tmp_path: Path, name: str) -> None:
    """As those of the Hugging Face cache do; and as one to a file of ours would."""
    path, outside = beir(tmp_path / "b"), tmp_path / "outside"
    if (path / name).exists():
        (path / name).rename(outside)
    else:
        outside.write_text("{}")
    (path / name).symlink_to(outside)

    with pytest.raises(SourceError, match=rf"{name}.*leads out of .*copy the files.*blobs"):
        import_collection("beir", path, tmp_path / "c")


def test_links_within_the_folder_and_to_it_are_followed(tmp_path: Path) -> None:
    path = beir(tmp_path / "b")
    (path / "corpus.jsonl").rename(path / "docs")
    (path / "corpus.jsonl").symlink_to("docs")
    (tmp_path / "link").symlink_to(path)

    assert labels_of(tmp_path / "link", tmp_path / "c") == {"d1": 1, "d2": 0}


def test_a_link_in_a_folder_of_rows_is_not_followed(tmp_path: Path) -> None:
    path = beir(tmp_path / "b")
    (path / "corpus").mkdir()
    (path / "corpus.jsonl").rename(tmp_path / "outside")
    (path / "corpus" / "0.jsonl").symlink_to(tmp_path / "outside")

    with pytest.raises(SourceError, match=r"0\.jsonl: a link that leads out"):
        import_collection("beir", path, tmp_path / "c")


def test_of_several_splits_one_must_be_named(tmp_path: Path) -> None:
    path = beir(tmp_path / "b")
    (path / "qrels" / "train.tsv").write_text("query-id\tcorpus-id\tscore\nq2\td1\t1\n")

    with pytest.raises(SourceError, match="several splits; allowed: --split test or train"):
        import_collection("beir", path, tmp_path / "c")

    collection = import_collection("beir", path, tmp_path / "c", split="train")
    assert [query.query_id for query in collection.queries] == ["q2"]


def test_two_queries_with_one_id_are_refused_with_both_lines(tmp_path: Path) -> None:
    path = beir(tmp_path / "b")
    json_lines(path / "queries.jsonl", [{"_id": "12", "text": "a"}, {"_id": 12, "text": "b"}])

    with pytest.raises(SourceError, match=r"queries\.jsonl:2: query '12' .*queries\.jsonl:1"):
        import_collection("beir", path, tmp_path / "c")


def test_ids_stay_as_they_are(tmp_path: Path) -> None:
    ids = ["12", "123", "0012", "a b/c\"d'", "x" * 1000, " padded ", "ä"]
    path = beir(tmp_path / "b", "".join(f"q1\t0\t{id_}\t1\n" for id_ in ids if id_ != " padded "))
    json_lines(path / "corpus.jsonl", [{"_id": id_, "text": "alpha"} for id_ in ids])

    collection = import_collection("beir", path, tmp_path / "c")

    assert sorted(ids) == [chunk.chunk_id for chunk in collection.chunks()]


def test_a_byte_order_mark_gzip_and_line_ends_of_windows_are_read(tmp_path: Path) -> None:
    path = beir(tmp_path / "b", "\ufeffquery-id\tcorpus-id\tscore\r\nq1\td1\t1\r\n")
    text = (path / "corpus.jsonl").read_bytes().replace(b"\n", b"\r\n")
    (path / "corpus.jsonl").unlink()
    (path / "corpus.jsonl.gz").write_bytes(gzip.compress(b"\xef\xbb\xbf" + text))

    assert labels_of(path, tmp_path / "c") == {"d1": 1}


@pytest.mark.slow
def test_a_file_that_unpacks_to_far_more_than_text_would_is_refused(tmp_path: Path) -> None:
    path = beir(tmp_path / "b")
    (path / "corpus.jsonl").write_bytes(gzip.compress((b" " * (1 << 20) + b"\n") * 100))

    with pytest.raises(SourceError, match="unpacks to more than 200 times its size"):
        import_collection("beir", path, tmp_path / "c")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"[" * 100_000, "not JSON|not a JSON object"),
        (b'{"_id": "d1", "text": 5}', r"text is 5; allowed: text"),
        (b'{"_id": "", "text": "a"}', "_id is ''"),
        (b'{"_id": true, "text": "a"}', "_id is True"),
        (b'{"_id": "d1", "text": "a", "metadata": []}', "metadata is"),
        (b'{"_id": "d1", "text": "\\ud800"}', "not JSON"),
        (b'{"_id": "d1", "text": "\xff"}', "not UTF-8"),
        (b'{"_id": "d1"}', "has no 'text'"),
        (b'{"_id": "d1", "text": "a", "_id": "d2"}', "has the name '_id' twice"),
    ],
)
def test_a_line_that_is_no_document_is_named(tmp_path: Path, line: bytes, said: str) -> None:
    path = beir(tmp_path / "b")
    (path / "corpus.jsonl").write_bytes(b'{"_id": "d0", "text": "a"}\n' + line + b"\n")

    with pytest.raises(SourceError, match=rf"corpus\.jsonl:2: .*({said})"):
        import_collection("beir", path, tmp_path / "c")


def test_a_folder_that_is_no_collection_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "mine.txt").write_text("mine")

    with pytest.raises(CollectionError, match="not a collection"):
        import_collection("beir", beir(tmp_path / "b"), tmp_path / "c")
