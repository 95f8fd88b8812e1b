"""Qrels read from files: both of TREC's, and BEIR's table."""

import gzip
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from freshstack_dspy.collection.exports import export_collection, word
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.measures.evaluation import evaluate
from freshstack_dspy.measures.qrels import LONGEST_LINE, NuggetQrels, read_qrels
from freshstack_dspy.measures.run import Run
from tests.collection.small import write_small

words = st.text("ab09é/_.-:#🙂", min_size=1, max_size=6)
documents = st.text("ab0é/. \u3000\u2028\x85🙂", max_size=8).map(str.strip).filter(bool)
graded = st.dictionaries(
    words,
    st.dictionaries(
        words,
        st.dictionaries(documents, st.integers(-2, 5), min_size=1, max_size=4),
        min_size=1,
        max_size=3,
    ),
    min_size=1,
    max_size=3,
)


def written(folder: Path, text: str | bytes, name: str = "qrels.txt") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_qrels_of_whole_queries_are_one_nugget_a_query(tmp_path: Path) -> None:
    path = written(tmp_path, "q1 0 d1 2\nq1\tQ0\td 1  b 0 \n\nq2 0 d1 -1\r\n")

    qrels = read_qrels(path)

    assert qrels == NuggetQrels.from_qrels({"q1": {"d1": 2, "d 1  b": 0}, "q2": {"d1": -1}})
    assert qrels.nuggets == {"q1": ("q1",), "q2": ("q2",)}


def test_a_second_column_that_varies_is_the_subtopic(tmp_path: Path) -> None:
    text = "q1 1 a 1\nq1 2 a 1\nq1 2 b c 1\nq2 1 a 0\n"

    assert read_qrels(written(tmp_path, text)) == NuggetQrels.from_diversity_qrels(
        {"q1": {"1": {"a": 1}, "2": {"a": 1, "b c": 1}}, "q2": {"1": {"a": 0}}}
    )


@pytest.mark.parametrize("second", ["0", "Q0", "q0", "1", "NIST"])
def test_a_second_column_that_is_the_same_everywhere_says_nothing(
    tmp_path: Path, second: str
) -> None:
    path = written(tmp_path, f"q1 {second} a 1\nq2 {second} b 1\n")

    assert read_qrels(path) == NuggetQrels.from_qrels({"q1": {"a": 1}, "q2": {"b": 1}})


def test_what_the_second_column_is_can_be_said(tmp_path: Path) -> None:
    path = written(tmp_path, "q 1 a 1\nq 2 b 1\n")
    same = written(tmp_path, "q 1 a 1\nr 1 b 1\n", "same.txt")

    assert read_qrels(path, subtopics=False) == NuggetQrels.from_qrels({"q": {"a": 1, "b": 1}})
    assert read_qrels(same, subtopics=True).nuggets == {"q": ("q 1",), "r": ("r 1",)}


def test_0_and_q0_are_not_two_subtopics(tmp_path: Path) -> None:
    assert read_qrels(written(tmp_path, "q 0 a 1\nq Q0 b 1\n")).nuggets == {"q": ("q",)}


@pytest.mark.parametrize("header", ["", "query-id\tcorpus-id\tscore\n", "Query_ID\tdocid\trel\n"])
def test_a_table_of_beir_is_read_with_or_without_names(tmp_path: Path, header: str) -> None:
    path = written(tmp_path, f'{header}q 1\td 1\t2\nq2\t"d""\t2"\t1.0\n')

    assert read_qrels(path) == NuggetQrels.from_qrels({"q 1": {"d 1": 2}, "q2": {'d"\t2': 1}})


def test_a_byte_order_mark_is_passed_over(tmp_path: Path) -> None:
    assert read_qrels(written(tmp_path, "\ufeffq 0 a 1\n")).nuggets == {"q": ("q",)}
    table = written(tmp_path, "\ufeffquery-id\tcorpus-id\tscore\nq\ta\t1\n")
    assert read_qrels(table).nuggets == {"q": ("q",)}


def test_a_line_that_stands_twice_with_one_grade_counts_once(tmp_path: Path) -> None:
    assert read_qrels(written(tmp_path, "q 0 a 1\nq 0 a 1\n")).labels == {"q": {"a": 1}}


def test_the_threshold_is_the_readers(tmp_path: Path) -> None:
    qrels = read_qrels(written(tmp_path, "q 0 a 1\nq 0 b 2\n"), threshold=2)

    assert qrels.judged("q").supported == {"b": (0,)}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "qrels.txt: the qrels are empty; a line is: query 0 document grade"),
        (b"\n \n", "the qrels are empty"),
        (b"query-id\tcorpus-id\tscore\n", "the qrels are empty"),
        (b"q 0 a 1\nq 0 a 2\n", r":2: query 'q', document 'a': the grade is 2, and 1 above; keep"),
        (b"q 1 a 1\nq 2 a 1\nq 2 a 0\n", ":3: query 'q', subtopic '2', document 'a'"),
        (b"q\ta\t1\n\nq\ta\t0\n", ":3: query 'q', document 'a'"),
        (b"\n\nq 0 a\n", ":3: not a line of qrels; a line is: query 0 document grade"),
        (b"q 0 a 1\nq 0 a 1 x\n", ":2: the grade is 'x'; allowed: a whole number, at the end"),
        (b"q 0 a 0.5\n", "the grade is '0.5'"),
        (b"q 0 a nan\n", "the grade is 'nan'"),
        (b"q 0 a 99999999999\n", "the grade is '99999999999'"),
        ("q 0 a ٣\n".encode(), "the grade is '٣'"),
        (b"q\ta\t1\nq\tb\n", ":2: 2 fields; a line is: query-id, corpus-id and score, with tabs"),
        (b"\nq\ta\t1\nq\t\"b\t1\n", ":3: not a table with tabs"),
        (b"q 0 a 1\nq 0 \xff 1\n", ":2: not UTF-8: byte 0xff at byte 5 of the line; save"),
        ("q 0 a 1\n".encode("utf-16"), ":1: not UTF-8"),
        (gzip.compress(b"q 0 a 1\n", mtime=0), ":1: the file is compressed; unpack it with gunzip"),
        (b"q 0 " + b"a" * LONGEST_LINE + b" 1\n", ":1: longer than 1 MiB"),
        (b"q Q0 a 1 2.5 bm25\n", "the grade is 'bm25'"),
        (b"\0" * 100, "not a line of qrels"),
    ],
)  # fmt: skip
def test_what_is_no_qrels_is_named_by_line(tmp_path: Path, text: bytes, said: str) -> None:
    with pytest.raises(CollectionError, match=said) as raised:
        read_qrels(written(tmp_path, text))

    assert len(str(raised.value)) < 600


def test_what_cannot_be_opened_is_named(tmp_path: Path) -> None:
    with pytest.raises(CollectionError, match="none: the qrels cannot be read: No such file"):
        read_qrels(tmp_path / "none")
    with pytest.raises(CollectionError, match="the qrels cannot be read: Is a directory"):
        read_qrels(tmp_path)


def test_a_table_has_no_subtopics(tmp_path: Path) -> None:
    with pytest.raises(CollectionError, match="a table of three columns has no subtopics"):
        read_qrels(written(tmp_path, "q\ta\t1\n"), subtopics=True)


@settings(max_examples=60, deadline=None)
@given(graded)
def test_what_is_written_reads_back(
    tmp_path_factory: pytest.TempPathFactory, graded: dict[str, dict[str, dict[str, int]]]
) -> None:
    text = "".join(
        f"{query} {subtopic} {document} {grade}\n"
        for query, of in graded.items()
        for subtopic, grades in of.items()
        for document, grade in grades.items()
    )
    path = written(tmp_path_factory.mktemp("qrels"), text)

    assert read_qrels(path, subtopics=True) == NuggetQrels.from_diversity_qrels(graded)


@settings(deadline=None)
@given(st.binary(max_size=80) | st.text("q0a1 \t\n\"'", max_size=40).map(str.encode))
def test_any_bytes_are_qrels_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = written(tmp_path_factory.mktemp("any"), data)
    with suppress(CollectionError):
        assert read_qrels(path).nuggets


def test_exported_qrels_give_the_figures_of_their_collection(tmp_path: Path) -> None:
    collection = write_small(tmp_path / "small")
    export_collection(collection, "trec", tmp_path / "trec")
    ours = collection.qrels()
    scores = {
        query: {chunk: -place for place, chunk in enumerate(sorted(ours.judged(query).chunks))}
        for query in ours.nuggets
    }
    run = Run.from_scores(scores)
    there = Run.from_scores(
        {
            query: {word(chunk): score for chunk, score in found.items()}
            for query, found in scores.items()
        }
    )

    names = ["alpha_nDCG@10", "Coverage@1", "StRecall@1", "AP", "nDCG", "Judged@5"]
    subtopics = read_qrels(tmp_path / "trec/diversity_qrels.txt", subtopics=True)
    assert evaluate(subtopics, there, names).per_query == evaluate(ours, run, names).per_query
    whole = read_qrels(tmp_path / "trec/qrels.txt")
    names = ["AP", "nDCG", "P@1", "RR"]
    assert evaluate(whole, there, names).per_query == evaluate(ours, run, names).per_query
