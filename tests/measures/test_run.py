import gzip
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from freshstack_dspy.errors import CollectionError
from freshstack_dspy.measures.run import Run, read_run, write_run
from freshstack_dspy.records import ScoredChunk

from .five import run

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


def test_a_ranking_is_kept_by_score_then_id_however_it_is_given() -> None:
    ranking = run({"q": {"b": 1.0, "z": 0.5, "a": 1.0, "top": 2.0}}).rankings["q"]

    assert [chunk.chunk_id for chunk in ranking] == ["top", "a", "b", "z"]


def test_a_run_does_not_change_with_the_mapping_it_was_made_of() -> None:
    rankings: dict[str, tuple[ScoredChunk, ...]] = {"q": (ScoredChunk("a", 1.0),)}
    kept = Run("run", rankings)
    rankings["other"] = ()

    assert list(kept.rankings) == ["q"]


def test_a_chunk_twice_in_a_ranking_is_refused() -> None:
    with pytest.raises(CollectionError, match="'q': a chunk stands twice"):
        Run("run", {"q": (ScoredChunk("a", 1.0), ScoredChunk("a", 0.5))})


@pytest.mark.parametrize("score", [float("nan"), float("inf"), float("-inf")])
def test_a_score_that_is_no_finite_number_is_refused(score: float) -> None:
    with pytest.raises(CollectionError, match="scores are finite numbers"):
        run({"q": {"a": score}})


@given(written_run=runs)
@settings(max_examples=100, deadline=None)
def test_a_run_reads_back_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, written_run: Run
) -> None:
    path = tmp_path_factory.getbasetemp() / "round_trip.run"
    write_run(written_run, path)

    assert written_run == read_run(path)


@pytest.mark.parametrize("chunk", ["docs/my file.md_0_9", "docs/my  file.md_0_9", "a  b   c"])
def test_spaces_inside_an_id_survive(tmp_path: Path, chunk: str) -> None:
    path = tmp_path / "spaces.run"
    write_run(run({"q": {chunk: 1.0}}), path)

    assert f"q Q0 {chunk} 1 1.0 run\n" == path.read_text(encoding="utf-8")
    assert (ScoredChunk(chunk, 1.0),) == read_run(path).rankings["q"]


def test_scores_are_written_so_that_near_ones_do_not_become_ties(tmp_path: Path) -> None:
    path = tmp_path / "near.run"
    write_run(run({"q": {"b": 0.1 + 0.2, "a": 0.3}}), path)

    assert (
        path.read_text(encoding="utf-8") == "q Q0 b 1 0.30000000000000004 run\nq Q0 a 2 0.3 run\n"
    )


def test_the_scores_of_numpy_are_written_as_plain_numbers(tmp_path: Path) -> None:
    import numpy as np

    path = tmp_path / "numpy.run"
    write_run(run({"q": {"a": np.float64(0.5)}}), path)

    assert path.read_text(encoding="utf-8") == "q Q0 a 1 0.5 run\n"


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


@given(
    chunk=st.lists(st.text("ab09é/_.-", min_size=1, max_size=4), min_size=1, max_size=5),
    score=scores,
    between=st.sampled_from([" ", "\t"]),
    end=st.sampled_from(["\n", "\r\n", ""]),
)
def test_a_line_is_read_as_the_official_package_reads_it(
    tmp_path_factory: pytest.TempPathFactory, chunk: list[str], score: float, between: str, end: str
) -> None:
    """It splits at white space; of seven words or more, the id is those from the third on."""
    name = " ".join(chunk)
    line = between.join(["q", "Q0", name, "0", repr(score), "bm25"]) + end
    words = line.split()
    path = tmp_path_factory.getbasetemp() / "official.run"
    path.write_bytes(line.encode())

    official = ScoredChunk(" ".join(words[2:-3]), float(words[-2]))
    assert (official,) == read_run(path).rankings["q"]


@pytest.mark.parametrize("score", ["1e-05", "1E-5", "-1e-05", ".5", "5.", "+3", "0e0", "-0"])
def test_a_score_may_be_written_in_any_usual_way(tmp_path: Path, score: str) -> None:
    path = written(tmp_path, f"q Q0 a 0 {score} bm25\n")

    assert (ScoredChunk("a", float(score)),) == read_run(path).rankings["q"]


def test_a_compressed_run_is_refused_with_the_way_out(tmp_path: Path) -> None:
    path = tmp_path / "bm25.run.gz"
    path.write_bytes(gzip.compress(b"q Q0 a 1 0.5 bm25\n"))

    with pytest.raises(CollectionError, match=r"bm25\.run\.gz:1: .*unpack it with gunzip"):
        read_run(path)


def test_the_queries_of_a_file_may_be_mixed(tmp_path: Path) -> None:
    path = written(tmp_path, "1 Q0 a 1 2 r\n2 Q0 a 1 2 r\n1 Q0 b 2 1 r\n")

    assert run({"1": {"a": 2, "b": 1}, "2": {"a": 2}}, "r") == read_run(path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("q a 1 0.5 bm25", "too few fields; a line is: query_id Q0 chunk_id rank score run_name"),
        ("q Q0", "too few fields"),
        ("q Q0 a one 0.5 bm25", "rank 'one' is not a whole number"),
        ("q Q0 a 1.5 0.5 bm25", "rank '1.5' is not a whole number"),
        ("q Q0 a -- 0.5 bm25", "rank '--' is not a whole number"),
        ("q Q0 a 1 high bm25", "score 'high' is not a finite number"),
        ("q Q0 a 1 nan bm25", "score 'nan' is not a finite number"),
        ("q Q0 a 1 -inf bm25", "score '-inf' is not a finite number"),
        ("q Q0 a 1 Infinity bm25", "score 'Infinity' is not a finite number"),
        ("q Q0 a 1 0x1p3 bm25", "score '0x1p3' is not a finite number"),
        ("q Q0 a 1 1e999 bm25", "score '1e999' is not a finite number"),
        ("q Q0 a 1 1_000 bm25", "score '1_000' is not a finite number"),
        ("q Q0 a 1 \u0661 bm25", "is not a finite number"),
        ("q Q0 a 1 0.5 my model", "the name in one word"),
        ("q Q0 a\tb 1 0.5 bm25", "holds a tab"),
        ("q Q0 first 1 0.5 bm25", "chunk 'first' stands twice for query 'q'"),
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


def test_bytes_that_are_no_text_are_named_by_their_line(tmp_path: Path) -> None:
    path = tmp_path / "run.txt"
    path.write_bytes(b"q Q0 a 1 0.9 r\nq Q0 \xff 2 0.8 r\n")

    with pytest.raises(CollectionError, match=r"run\.txt:2: not UTF-8: byte 0xff at byte 6"):
        read_run(path)


def test_a_line_of_millions_of_characters_is_refused_as_any_other(tmp_path: Path) -> None:
    path = written(tmp_path, "q Q0 a" + " " * 1_000_000 + "b 1 " + "1" * 1_000_000 + "x r")

    with pytest.raises(CollectionError, match="is not a finite number"):
        read_run(path)


@pytest.mark.parametrize("text", ["", "\n \n"])
def test_an_empty_file_is_no_run(tmp_path: Path, text: str) -> None:
    with pytest.raises(CollectionError, match="the run is empty"):
        read_run(written(tmp_path, text))


def test_a_file_that_is_not_there_is_a_plain_error(tmp_path: Path) -> None:
    with pytest.raises(CollectionError, match="cannot be read: No such file"):
        read_run(tmp_path / "none.run")


@pytest.mark.parametrize("chunk", ["", " a", "a ", "a\nb", "a\tb", "a\rb", "\u3000a", "\ufeffa"])
def test_a_chunk_id_that_would_not_read_back_is_refused(tmp_path: Path, chunk: str) -> None:
    path = tmp_path / "none.run"

    with pytest.raises(CollectionError, match="cannot stand in a TREC run"):
        write_run(run({"q": {chunk: 1.0}}), path)

    assert not path.exists()


@pytest.mark.parametrize("word", ["", "two words", "a\n", "a\tb", "\ufeffa"])
def test_query_ids_and_run_names_are_one_word(tmp_path: Path, word: str) -> None:
    with pytest.raises(CollectionError, match=r"query id .* is one word"):
        write_run(run({word: {"a": 1.0}}), tmp_path / "none.run")
    with pytest.raises(CollectionError, match=r"run name .* is one word"):
        write_run(run({"q": {"a": 1.0}}, word), tmp_path / "none.run")


def test_an_id_that_is_no_unicode_text_is_refused(tmp_path: Path) -> None:
    """A file name that is not UTF-8 reaches Python with lone surrogates."""
    path = tmp_path / "none.run"

    with pytest.raises(CollectionError, match="cannot be written as UTF-8"):
        write_run(run({"q": {"a": 2.0, "a\udcff": 1.0}}), path)
    with pytest.raises(CollectionError, match=r"query id .* Unicode text"):
        write_run(run({"q\udcff": {"a": 1.0}}), path)

    assert not path.exists()


def test_a_run_without_any_result_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(CollectionError, match="has no results"):
        write_run(run({"q": {}}), tmp_path / "none.run")


def test_a_query_without_results_is_absent_when_read_back(tmp_path: Path) -> None:
    path = tmp_path / "half.run"
    write_run(run({"1": {"a": 1.0}, "2": {}}), path)

    assert run({"1": {"a": 1.0}}) == read_run(path)


def test_a_folder_that_is_not_there_is_a_plain_error(tmp_path: Path) -> None:
    with pytest.raises(CollectionError, match="cannot be written: No such file"):
        write_run(run({"q": {"a": 1.0}}), tmp_path / "none" / "a.run")
