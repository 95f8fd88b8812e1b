"""`freshstack evaluate` and `compare`: what a reader could be misled by, and hostile names."""

import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.measures.run import Run, write_run
from freshstack_dspy.records import Query, ScoredChunk
from tests.collection.small import CONTENTS, write_small

from .conftest import Command

LONG = "q" * 10**6


@pytest.fixture
def small(tmp_path: Path) -> Collection:
    """A collection of queries 12 and 123 in `small`, `a.run` and `b.run`."""
    collection = write_small(tmp_path / "small")
    chunks = sorted(collection.chunks(), key=str)
    scored = tuple(ScoredChunk(chunk.chunk_id, 1.0 / n) for n, chunk in enumerate(chunks, start=1))
    for name in ("a", "b"):
        write_run(Run(name, {"12": scored, "123": scored[1:]}), tmp_path / f"{name}.run")
    return collection


def tagged(path: Path, tags: dict[str, tuple[str, ...]]) -> None:
    def with_tags(query: Query) -> Query:
        return query.model_copy(update={"tags": tags[query.query_id]})

    write_small(path, replace(CONTENTS, queries=tuple(map(with_tags, CONTENTS.queries))))


def test_a_table_by_query_replaces_its_own_kind_but_not_another_name_of_the_old(
    freshstack: Command, small: Collection, tmp_path: Path
) -> None:
    words = ("evaluate", "small", "a.run", "--per-query", "values.csv")
    assert freshstack(*words, "-m", "AP").code == 0
    (tmp_path / "kept.csv").hardlink_to(tmp_path / "values.csv")
    old = (tmp_path / "kept.csv").read_text()

    done = freshstack(*words, "-m", "RR")

    assert done.code == 0, done.err
    assert "RR" in (tmp_path / "values.csv").read_text()
    assert (tmp_path / "kept.csv").read_text() == old
    assert not list(tmp_path.glob(".*partial"))


def test_a_link_to_nothing_yet_and_a_device_can_be_written_to(
    freshstack: Command, small: Collection, tmp_path: Path
) -> None:
    (tmp_path / "link.csv").symlink_to("target.csv")

    for out in ("link.csv", "/dev/null"):
        assert freshstack("evaluate", "small", "a.run", "--per-query", out).code == 0

    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "target.csv").read_text().startswith("file,run,query_id")


@pytest.mark.parametrize("command", ["evaluate loop a.run", "compare small a.run loop.run"])
def test_a_loop_of_links_is_one_line(
    freshstack: Command, small: Collection, tmp_path: Path, command: str
) -> None:
    for name in ("loop", "loop.run"):
        (tmp_path / name).symlink_to(name)

    done = freshstack(*command.split())

    assert (done.code, done.err.count("\n")) == (1, 1)
    assert "Too many levels of symbolic links" in done.err


def test_ties_that_ids_broke_are_counted(
    freshstack: Command, small: Collection, tmp_path: Path
) -> None:
    scores = {"x": 3.0, "y": 2.0, "z": 2.0, "u": 1.0}
    ranking = tuple(ScoredChunk(*each) for each in scores.items())
    write_run(Run("t", {"12": ranking, "123": ranking[:2]}), tmp_path / "t.run")

    def said(*words: str) -> bool:
        out = freshstack("evaluate", "small", "t.run", *words).out
        return "1 query with equal scores" in out

    assert said("-m", "AP")
    assert said("-m", "P@2")
    assert not said("-m", "P@1")
    assert "in the top 2 (in the order of the ids), as 12" in " ".join(
        freshstack("evaluate", "small", "t.run", "-m", "P@2").out.split()
    )


def test_a_run_of_which_hardly_anything_is_judged_is_named(
    freshstack: Command, small: Collection, tmp_path: Path
) -> None:
    strange = tuple(ScoredChunk(f"c{n}", 1.0 / (n + 2)) for n in range(9))
    qrels = small.qrels()
    known = ScoredChunk(next(iter(qrels.labels[qrels.nuggets["12"][0]])), 1.0)
    write_run(Run("s", {"12": strange, "123": strange}), tmp_path / "s.run")
    write_run(Run("p", {"12": (known, *strange), "123": strange}), tmp_path / "p.run")

    out = " ".join(freshstack("evaluate", "small", "a.run", "s.run", "p.run").out.split())

    assert "s.run: nothing of the top 50 is judged; is it a run of this collection?" in out
    assert re.search(r"p\.run: 9\d(\.\d)?% of the top 10 is unjudged and counts as not", out)
    assert "a.run: nothing" not in out
    assert "a.run: 9" not in out


def test_ids_and_groups_of_any_length_are_cut(
    freshstack: Command, small: Collection, tmp_path: Path
) -> None:
    with (tmp_path / "a.run").open("a") as file:
        file.write(f"{LONG} Q0 x 1 1.0 a\n")
    (tmp_path / "mine.csv").write_text(f"query_id,group\n12,{LONG[:100_000]}\n")

    for words in (
        ("evaluate", "small", "a.run", "--groups", "mine.csv"),
        ("evaluate", "small", "a.run", "--groups", "mine.csv", "--format", "latex"),
        ("compare", "small", "a.run", "b.run"),
    ):
        done = freshstack(*words)
        assert done.code == 0, done.err
        assert len(done.out) < 20_000
        assert words[-1] == "latex" or max(map(len, done.out.splitlines())) <= 84


def test_no_group_can_be_taken_for_an_average(
    freshstack: Command, small: Collection, tmp_path: Path
) -> None:
    (tmp_path / "mine.csv").write_text("query_id,topic\n12,all\n123,Macro-average\n")

    for runs in (["a.run"], ["a.run", "b.run"]):
        out = freshstack("evaluate", "small", *runs, "--groups", "mine.csv").out
        rows = [line.split("│")[1].strip() for line in out.splitlines() if line.startswith("│")]
        firsts = [row.split(":")[0] for row in rows]
        assert [firsts.count(name) for name in ('"all"', '"Macro-average"', "all")] == [1, 1, 1]
        assert out.count("by topic") == 1

    latex = freshstack(
        "evaluate", "small", "a.run", "--groups", "mine.csv", "--format", "latex"
    ).out
    assert 'a.run & "all" & 1' in latex
    assert "a.run & all & 2" in latex


def test_of_many_groups_those_of_one_query_are_only_counted(
    freshstack: Command, small: Collection, tmp_path: Path
) -> None:
    for number, several in ((5, True), (4, False)):
        tags = {
            query.query_id: (
                *(["both"] if several else []),
                *(f"{query.query_id}-{n}" for n in range(number + 2)),
            )
            for query in CONTENTS.queries
        }
        tagged(tmp_path / f"tagged{number}", tags)

        out = freshstack("evaluate", f"tagged{number}", "a.run", "--by", "tag").out
        every = freshstack("evaluate", f"tagged{number}", "a.run", "--by", "tag", "--top", "99").out

        said = "15 groups: the 1 largest are listed; --top 15 lists all"
        none = "12 groups: each of one query; --top 12 lists all"
        assert (said if several else none) in out
        assert ("│ both" in out) == several
        assert "│ 12-0" not in out
        assert "│ 12-0" in every


def test_a_level_is_shown_as_it_was_given(freshstack: Command, small: Collection) -> None:
    out = freshstack("compare", "small", "a.run", "b.run", "--level", "0.999999").out

    assert "Interval: 99.9999% bootstrap" in " ".join(out.split())
    assert "100%" not in out


def test_a_name_that_is_no_utf8_is_json_that_strict_parsers_take(
    freshstack: Command, small: Collection, tmp_path: Path
) -> None:
    name = os.fsdecode(b"x\xff.run")
    (tmp_path / name).write_bytes((tmp_path / "a.run").read_bytes())

    for command in ("evaluate", "compare"):
        out = freshstack(command, "small", name, "b.run", "--json").out
        assert "\\udcff" not in out
        json.loads(out)
        assert "x\\\\xff.run" in out


def test_a_run_that_is_no_utf8_is_told_in_plain_words(
    freshstack: Command, small: Collection, tmp_path: Path
) -> None:
    (tmp_path / "latin.run").write_bytes("12 Q0 é 1 1.0 a\n".encode("latin-1"))

    done = freshstack("evaluate", "small", "latin.run")

    assert done.err == (
        "error: latin.run:1: not UTF-8: byte 0xe9 at byte 7 of the line; save the file as UTF-8\n"
    )


def test_tables_for_papers_have_figures_flush_right_and_three_decimals(
    freshstack: Command, small: Collection
) -> None:
    latex = freshstack("compare", "small", "a.run", "b.run", "--format", "latex").out
    markdown = freshstack("compare", "small", "a.run", "b.run", "--format", "markdown").out
    means = freshstack("evaluate", "small", "a.run", "--by", "slice", "--format", "markdown").out

    assert r"\begin{tabular}{lllrrrl}" in latex
    assert "| --- | --- | --- | ---: | ---: | ---: | --- |" in markdown
    assert "| --- | ---: | ---: | ---: | ---: | ---: | ---: |" in means
    assert "| a.run | all | 2 |" in means
    for text in (latex, markdown, means):
        assert not re.search(r"\d\.\d{4}", text)
        assert re.search(r"\d\.\d{3}\b", text)


@pytest.mark.parametrize("command", ["evaluate", "compare"])
def test_a_run_of_another_collection_is_named_by_its_file(
    freshstack: Command, small: Collection, tmp_path: Path, command: str
) -> None:
    (tmp_path / "other.run").write_text(f"{LONG} Q0 x 1 1.0 a\n")

    done = freshstack(command, "small", "a.run", "other.run")

    assert done.err.startswith("error: other.run: none of the 1 queries of run 'a' is in the")
    assert len(done.err) < 700


def test_nothing_of_a_comparison_is_wider_than_the_screen(
    freshstack: Command, small: Collection, tmp_path: Path
) -> None:
    names = [f"{'n' * 200}.run", *(f"{number}.run" for number in range(27))]
    for name in names:
        (tmp_path / name).write_bytes((tmp_path / "a.run").read_bytes())

    out = freshstack("compare", "small", *names, "--baseline", "0.run", "-m", "AP").out

    assert max(map(len, out.splitlines())) <= 80
