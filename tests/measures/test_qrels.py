"""Judgments, and files of qrels."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy import NuggetQrels, Run, read_qrels, write_run
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.measures.evaluation import evaluate
from freshstack_dspy.measures.label_columns import Coded, LabelColumns
from tests.collection.small import write_small
from tests.measures.five import LABELS, QRELS


def test_the_official_dictionaries_are_labels_nuggets_and_counts() -> None:
    assert QRELS.official() == (
        LABELS,
        {"q": ["n1", "n2", "n3"]},
        {"q": {"a": 2, "b": 1, "c": 0, "d": 1}},
    )


@pytest.mark.parametrize(
    ("nuggets", "message"),
    [
        ({"q": ()}, "query 'q' has no nuggets"),
        ({"q": ("n", "n")}, "nugget 'n' belongs to query 'q' and to 'q'"),
    ],
)
def test_a_nugget_belongs_to_one_query_once(
    nuggets: dict[str, tuple[str, ...]], message: str
) -> None:
    with pytest.raises(CollectionError, match=message):
        NuggetQrels(nuggets, {})
    with pytest.raises(CollectionError, match="have a label and a failed judgment"):
        NuggetQrels({"q": ("n",)}, {"n": {"a": 0}}, {"n": frozenset({"a"})})


words = st.text("ab09é/_.-:#🙂", min_size=1, max_size=6)
documents = st.text("ab0é/. \u3000\u2028\x85🙂", max_size=8).map(str.strip).filter(bool)
files = st.dictionaries(
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


def test_what_the_second_column_is_can_be_chosen(tmp_path: Path) -> None:
    path = written(tmp_path, "q 1 a 1\nq 2 b 1\n")
    same = written(tmp_path, "q 1 a 1\nr 1 b 1\n", "same.txt")

    assert read_qrels(path, subtopics=False) == NuggetQrels.from_qrels({"q": {"a": 1, "b": 1}})
    assert read_qrels(same, subtopics=True).nuggets == {"q": ("q 1",), "r": ("r 1",)}


@pytest.mark.parametrize("header", ["", "query-id\tcorpus-id\tscore\n"])
def test_a_table_of_beir_is_read_with_or_without_names(tmp_path: Path, header: str) -> None:
    path = written(tmp_path, f'{header}q 1\td 1\t2\nq2\t"d""\t2"\t1.0\n')

    assert read_qrels(path) == NuggetQrels.from_qrels({"q 1": {"d 1": 2}, "q2": {'d"\t2': 1}})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "qrels.txt: the qrels are empty; a line is: query 0 document grade"),
        (b"q 0 a 1\nq 0 a 2\n", r":2: query 'q', document 'a'"),
        (b"q 0 a 1\nq 0 b 0\nq 0 a 1\n", r":3: query 'q', document 'a'"),
        (b"\n\nq 0 a\n", ":3: 'q 0 a' is no line of qrels; a line is: query 0 document grade"),
        (b"q 0 a 1\nq 0 a 0.5\n", ":2: 'q 0 a 0.5' is no line of qrels"),
        (b"q\ta\t1\nq\tb\n", ":2: .* is no line of qrels"),
        (b"q 0 a 1\nq 0 \xff 1\n", "not UTF-8"),
    ],
)  # fmt: skip
def test_what_is_no_qrels_is_named_by_line(tmp_path: Path, text: bytes, message: str) -> None:
    with pytest.raises(CollectionError, match=message):
        read_qrels(written(tmp_path, text))


@given(files)
def test_what_is_written_reads_back(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, dict[str, dict[str, int]]]
) -> None:
    text = "".join(
        f"{query} {subtopic} {document} {grade}\n"
        for query, of in files.items()
        for subtopic, grades in of.items()
        for document, grade in grades.items()
    )
    path = written(tmp_path_factory.mktemp("qrels"), text)

    assert read_qrels(path, subtopics=True) == NuggetQrels.from_diversity_qrels(files)


PLAIN = {"q1": {"d1": 2, "d2": 0, "d3": 1}, "q2": {"d3": 1}}
BY_NUGGET = {"q": {"1": {"a": 1}, "2": {"a": 1, "b": 0}}}


def test_evaluate_takes_dictionaries_files_and_collections(tmp_path: Path) -> None:
    run = {"q1": {"d1": 2.0, "d3": 1.0}, "q2": {"d1": 2.0, "d3": 1.0}}
    path = written(tmp_path, "q1 0 d1 2\nq1 0 d2 0\nq1 0 d3 1\nq2 0 d3 1\n")
    write_run(Run.from_scores(run), tmp_path / "a.run")

    found = evaluate(PLAIN, run, "AP")

    assert found.per_query == {"q1": {"AP": 1.0}, "q2": {"AP": 0.5}}
    assert evaluate(path, tmp_path / "a.run", "AP") == found
    assert evaluate(BY_NUGGET, {"q": {"a": 1.0}}, "Coverage@1").means == {"Coverage@1": 1.0}
    collection = write_small(tmp_path / "small")
    scores = {query: {min(collection.qrels().judged(query).chunks): 1.0} for query in ("12", "123")}
    assert evaluate(collection, scores) == evaluate(collection.qrels(), Run.from_scores(scores))


def test_a_grade_is_a_whole_number() -> None:
    half: Any = {"q": {"d": 0.5}}
    whole: Any = {"q": {"d": 1.0}}

    assert NuggetQrels.from_qrels(whole).labels == {"q": {"d": 1}}
    with pytest.raises(CollectionError, match=r"the grade is 0\.5"):
        NuggetQrels.from_qrels(half)


@given(
    st.lists(
        st.tuples(
            st.sampled_from("nmo"), st.sampled_from("abcd"), st.sampled_from([0, 1, 2, None])
        ),
        unique_by=lambda row: row[:2],
    ),
    st.integers(1, 2),
)
def test_columns_of_labels_are_judged_as_dictionaries_are(
    rows: list[tuple[str, str, int | None]], rel: int
) -> None:
    def coded(place: int) -> Coded:
        values = [*dict.fromkeys(row[place] for row in rows)]
        return values, np.array([values.index(row[place]) for row in rows], np.int32)

    nuggets = {"p": ("n",), "q": ("m", "o")}
    labels: dict[str, dict[str, int]] = {nugget: {} for nugget in "nmo"}
    failed: dict[str, set[str]] = {nugget: set() for nugget in "nmo"}
    for nugget, chunk, label in rows:
        if label is None:
            failed[nugget].add(chunk)
        else:
            labels[nugget][chunk] = label
    chunks = {nugget: frozenset(ids) for nugget, ids in failed.items()}
    columns = LabelColumns(coded(0), coded(1), coded(2)).of("nmo")

    by_columns = NuggetQrels(nuggets, columns.without_failed(), chunks)
    by_dictionaries = NuggetQrels(nuggets, labels, chunks)

    assert dict(zip(columns, map(frozenset, columns.having(None)), strict=True)) == chunks
    assert by_columns == by_dictionaries
    assert by_columns.without("p") == by_dictionaries.without("p")
    for query in nuggets:
        ours, theirs = (each.judged(query, rel) for each in (by_columns, by_dictionaries))
        assert [*ours.supported.items()] == [*theirs.supported.items()]
        assert (ours.chunks, ours.labels) == (theirs.chunks, theirs.labels)
