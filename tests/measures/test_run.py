"""Runs and their files."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshstack_dspy import Run, read_run, write_run
from freshstack_dspy.errors import CollectionError
from freshstack_dspy.records import ScoredChunk
from tests.measures.five import run

words = st.text("ab09é/_.-:#\u200b🙂", min_size=1, max_size=8)
ids_with_spaces = st.text("ab0é/._  \u3000\u2028\x0b\x1c\x85🙂").map(str.strip).filter(bool)
scores = st.floats(allow_nan=False, allow_infinity=False)
runs = st.builds(
    lambda name, found: run(found, name),
    words,
    st.dictionaries(
        words,
        st.dictionaries(ids_with_spaces, scores, min_size=1, max_size=4),
        min_size=1,
        max_size=3,
    ),
)


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "run.txt"
    path.write_bytes(text.encode())
    return path


def test_a_chunk_is_once_in_a_ranking_and_has_a_finite_score() -> None:
    with pytest.raises(CollectionError, match="scores are finite numbers"):
        run({"q": {"a": float("nan")}})
    with pytest.raises(CollectionError, match="'q': chunk 'a' is twice"):
        Run("run", {"q": (ScoredChunk("a", 1.0), ScoredChunk("a", 0.5))})


@given(written_run=runs)
def test_a_run_reads_back_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, written_run: Run
) -> None:
    path = tmp_path_factory.getbasetemp() / "round_trip.run"
    write_run(written_run, path)

    assert written_run == read_run(path)


def test_scores_decide_and_not_the_rank_column(tmp_path: Path) -> None:
    """The official package writes rank 0 in every line."""
    path = written(tmp_path, "q Q0 a 0 0.1 bm25\nq Q0 b 0 0.9 bm25\nq Q0 c 1 0.5 bm25\n")

    read = read_run(path)

    assert read.name == "bm25"
    assert [chunk.chunk_id for chunk in read.rankings["q"]] == ["b", "c", "a"]


@pytest.mark.parametrize(
    "line",
    [
        "q\tQ0\tmy  file\t1\t0.5\tbm25\n",
        "q  Q0  my  file   1   5e-1   bm25  \n",
        "q Q0 my  file 1 .5 bm25\r\n",
        "\ufeffq Q0 my  file 1 +0.5 bm25",
        "\nq Q0 my  file 1 0.50 bm25\n\n",
    ],
)
def test_tabs_columns_windows_lines_and_blank_lines_are_read(tmp_path: Path, line: str) -> None:
    assert run({"q": {"my  file": 0.5}}, "bm25") == read_run(written(tmp_path, line))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "q a 1 0.5 bm25",
            "is no line of a run; a line is: query_id Q0 chunk_id rank score run_name",
        ),
        ("q Q0 a 1 0.5 my model", "the name in one word"),
        ("q Q0 a 1 NaN bm25", "has the score NaN, and a score is a finite number"),
        ("q Q0 first 1 0.5 bm25", "chunk 'first' is twice in query 'q'"),
        ("q Q0 a 1 0.5 dense", "run name 'dense' after 'bm25'"),
    ],
)
def test_a_line_that_is_wrong_is_named_and_explained(
    tmp_path: Path, line: str, message: str
) -> None:
    path = written(tmp_path, f"q Q0 first 1 0.9 bm25\n{line}\n")

    with pytest.raises(CollectionError) as caught:
        read_run(path)

    assert str(caught.value).startswith(f"{path}:2: ")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("query", "chunk", "name"),
    [
        *(("q", chunk, "run") for chunk in ("", " a", "a\nb", "\u3000a")),
        *((word, "a", "run") for word in ("", "two words")),
        *(("q", "a", word) for word in ("", "two words")),
    ],
)
def test_what_would_not_read_back_is_not_written(
    tmp_path: Path, query: str, chunk: str, name: str
) -> None:
    path = tmp_path / "none.run"

    with pytest.raises(CollectionError, match="cannot be in a TREC run"):
        write_run(run({query: {chunk: 1.0}}, name), path)
    assert not path.exists()
