"""`freshstack evaluate`: intervals, groups, formats, conventions."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.measures.evaluation import evaluate
from freshstack_dspy.measures.groups import grouped, read_groups
from freshstack_dspy.measures.run import Run, read_run, write_run
from freshstack_dspy.measures.statistics import mean_intervals
from freshstack_dspy.records import ScoredChunk
from tests.collection.small import CONTENTS, write_small

from .conftest import Command

LONG = "a-run-with-the-very-long-name-of-a-model-and-of-its-settings-k1-0.9-b-0.4.run"


@pytest.fixture
def small(tmp_path: Path) -> Collection:
    """A collection of queries 12 and 123 in `small`, and `a.run`."""
    collection = write_small(tmp_path / "small")
    scored = tuple(
        ScoredChunk(chunk.chunk_id, 1.0 / place)
        for place, chunk in enumerate(sorted(collection.chunks(), key=str), start=1)
    )
    write_run(Run("a", {"12": scored, "123": scored[1:]}), tmp_path / "a.run")
    return collection


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_every_mean_stands_above_its_interval(freshstack: Command, built: Path) -> None:
    freshstack("retrieve", built, "--retriever", "bm25")

    lines = freshstack("evaluate", built, "bm25.run").out.splitlines()

    evaluation = evaluate(Collection.load(built).qrels(), read_run("bm25.run"))
    place = next(place for place, line in enumerate(lines) if "bm25.run" in line)
    cells = [cell.strip() for cell in lines[place + 1].split("│")[2:-1]]
    intervals = mean_intervals(evaluation).values()
    assert cells == [
        "–" if each.low is None else f"{each.low:.3f}–{each.high:.3f}" for each in intervals
    ]
    holes = [cell.strip() for cell in lines[place + 2].split("│")[2:-1]]
    assert holes == [f"unjudged {each.mean_unjudged:.3f}" for each in evaluation.holes]


@pytest.mark.parametrize("measures", [[], ["AP", "RR"], ["Density@5"]])
@pytest.mark.parametrize("grouping", [[], ["--by", "tag", "--by", "slice"]])
def test_the_tables_fit_eighty_columns_however_long_the_names(
    freshstack: Command, built: Path, tmp_path: Path, measures: list[str], grouping: list[str]
) -> None:
    freshstack("retrieve", built, "--retriever", "bm25", "--out", LONG)
    (tmp_path / "b.run").write_text((tmp_path / LONG).read_text())
    words = [word for measure in measures for word in ("-m", measure)]

    for runs in ([LONG], [LONG, "b.run"]):
        done = freshstack("evaluate", built, *runs, *words, *grouping)

        assert done.code == 0, done.err
        assert max(map(len, done.out.splitlines())) <= 80
        letters = "".join(
            line.split("│")[1].strip() for line in done.out.splitlines() if "│" in line
        )
        assert LONG in letters


def test_measures_that_do_not_fit_side_by_side_stand_below_each_other(
    freshstack: Command, small: Collection
) -> None:
    names = ["alpha_nDCG(alpha=0.9)@10", "Coverage@20", "Recall@50", "AP", "nDCG@10"]
    done = freshstack("evaluate", "small", "a.run", *(w for name in names for w in ("-m", name)))

    found = [line.split("│")[2:-1] for line in done.out.splitlines() if line.startswith("│")]
    assert [cells[0].strip() for cells in found] == names
    means = evaluate(small.qrels(), read_run("a.run"), names).means
    assert [cells[1].strip() for cells in found] == [f"{mean:.4f}" for mean in means.values()]
    assert [cells[3].strip() == "–" for cells in found] == [False, False, False, True, False]


def test_measures_without_a_cut_off_have_no_column_of_holes(
    freshstack: Command, small: Collection
) -> None:
    done = freshstack("evaluate", "small", "a.run", "-m", "AP", "-m", "RR")

    assert done.code == 0
    assert "unjudged" not in done.out


def test_groups_are_shown_with_their_sizes_beside_both_averages(
    freshstack: Command, small: Collection
) -> None:
    done = freshstack("evaluate", "small", "a.run", "--slices", "all", "--by", "slice")

    of = grouped(
        evaluate(small.qrels(("answerable", "unanswerable")), read_run("a.run")),
        small.groups("slice"),
    )
    assert done.code == 0, done.err
    cells = [line.split("│")[1].strip() for line in done.out.splitlines() if line.startswith("│")]
    assert [cell for cell in cells if cell][1:] == [
        *("answerable", "2 queries"),
        *("unanswerable", "1 query, 1 absent, 1", "without relevant"),
        *("macro-average", "2 groups"),
        *("all", "3 queries"),
    ]
    macro = next(line for line in done.out.splitlines() if "macro-average" in line)
    assert macro.split("│")[2].strip() == f"{of.macro['alpha_nDCG@10'].value:.4f}"
    slices = "answerable, partly_supported, unanswerable, undetermined"
    assert done.out.startswith(f"small: 3 queries ({slices})\n")
    assert "3 queries are few: the intervals of fewer than 30 are too narrow" in done.out
    assert "1 group without an evaluated query: undetermined" in done.out


def test_groups_of_ones_own_are_read(
    freshstack: Command, small: Collection, tmp_path: Path
) -> None:
    (tmp_path / "mine.csv").write_text("query_id,group\n12,[b]x[/b]\n")

    done = freshstack("evaluate", "small", "a.run", "a2.run", "--groups", "mine.csv")
    assert "a2.run: the run cannot be read" in done.err
    (tmp_path / "a2.run").write_text((tmp_path / "a.run").read_text())
    done = freshstack("evaluate", "small", "a.run", "a2.run", "--groups", "mine.csv")

    assert done.code == 0, done.err
    assert "by mine: as the file says" in done.out.splitlines()
    assert "[b]x[/b]: 1 query" in done.out
    assert "1 query in no group, and not in the macro-average, as 123" in done.out.splitlines()
    assert read_groups("mine.csv", ["12"]).members == {"[b]x[/b]": ("12",)}


def test_only_the_largest_groups_are_listed(
    freshstack: Command, tmp_path: Path, small: Collection
) -> None:
    queries = [
        one.model_copy(update={"tags": ("api", f"only-{one.query_id}")}) for one in CONTENTS.queries
    ]
    write_small(tmp_path / "tagged", replace(CONTENTS, queries=tuple(queries)))

    done = freshstack("evaluate", "tagged", "a.run", "--by", "tag", "--top", "1")

    assert "only-12" not in "\n".join(line for line in done.out.splitlines() if "│" in line)
    assert "3 groups: the 1 largest are listed; --top 3 lists all" in done.out.splitlines()
    assert "2 queries in several groups, counted in each" in done.out.splitlines()


def test_json_has_the_intervals_and_the_groups(freshstack: Command, small: Collection) -> None:
    by = ("--by", "slice", "--by", "date=2026-01-01")
    found = json.loads(freshstack("evaluate", "small", "a.run", *by, "--format", "json").out)

    (of,) = found["evaluations"]
    evaluation = evaluate(small.qrels(), read_run("a.run"))
    assert found["slices"] == ["answerable", "partly_supported"]
    assert of["per_query"] == evaluation.per_query
    assert of["intervals"]["Recall@50"] == mean_intervals(evaluation)["Recall@50"].model_dump()
    assert [groups["by"] for groups in of["groups"]] == ["slice", "date=2026-01-01"]
    assert [each["group"] for each in of["groups"][1]["groups"]] == ["after 2026-01-01"]
    same = freshstack("evaluate", "small", "a.run", *by, "--json").out
    assert json.loads(same) == found


def test_csv_has_a_row_for_each_mean(freshstack: Command, small: Collection) -> None:
    done = freshstack(
        "evaluate", "small", "a.run", "--by", "slice", "-m", "AP", "-m", "P@2", "--bounds",
        "--exclude-contaminated", "--format", "csv",
    )  # fmt: skip

    rows = rows_of(done.out)
    assert [(row["by"], row["group"], row["average"], row["measure"]) for row in rows] == [
        ("", "", "micro", "AP"),
        ("", "", "micro", "P@2"),
        ("slice", "answerable", "micro", "AP"),
        ("slice", "answerable", "micro", "P@2"),
        ("slice", "", "macro", "AP"),
        ("slice", "", "macro", "P@2"),
        ("without_contaminated", "0.5", "micro", "AP"),
        ("without_contaminated", "0.5", "micro", "P@2"),
    ]
    evaluation = evaluate(small.qrels(), read_run("a.run"), ["AP", "P@2"], bounds=True)
    assert float(rows[0]["mean"]) == evaluation.means["AP"]
    assert float(rows[1]["unjudged_at_k"]) == evaluation.holes[0].mean_unjudged
    assert float(rows[1]["highest"]) == evaluation.bounds[1].mean_highest
    assert [row["queries"] for row in rows] == ["2"] * 6 + ["1"] * 2
    assert rows[0]["k"] == rows[0]["unjudged_at_k"] == ""


def test_latex_says_what_is_missing_in_the_caption(
    freshstack: Command, small: Collection, tmp_path: Path
) -> None:
    write_run(Run("b", {"12": (ScoredChunk("x", 1.0),)}), tmp_path / "b_1.run")

    done = freshstack("evaluate", "small", "b_1.run", "--by", "slice", "--format", "latex")

    assert done.out.count(r"\begin{tabular}") == done.out.count(r"\bottomrule") == 2
    assert r"b\_1.run: 1 absent." in done.out
    assert "macro-average of 1 group " in done.out


def test_values_by_query_are_a_table_with_the_groups(
    freshstack: Command, small: Collection
) -> None:
    done = freshstack(
        "evaluate", "small", "a.run", "--by", "tag", "--by", "slice", "-m", "AP", "-m", "P@2",
        "--per-query", "values.csv",
    )  # fmt: skip

    rows = rows_of(Path("values.csv").read_text())
    evaluation = evaluate(small.qrels(), read_run("a.run"), ["AP", "P@2"])
    assert done.err == "values.csv: 4 rows\n"
    assert {(row["query_id"], row["measure"]): float(row["value"]) for row in rows} == {
        (query, name): value
        for query, values in evaluation.per_query.items()
        for name, value in values.items()
    }
    assert {(row["file"], row["run"], row["tag"], row["slice"]) for row in rows} == {
        ("a.run", "a", "api", "answerable")
    }


def test_a_skipped_query_has_an_empty_cell(freshstack: Command, small: Collection) -> None:
    done = freshstack(
        "evaluate", "small", "a.run", "--slices", "all", "--undefined", "skip", "-m", "Recall@5",
        "--per-query", "values.csv",
    )  # fmt: skip

    assert "a.run: 1 query without relevant (left out where undefined), as 5" in done.out
    assert [row["value"] == "" for row in rows_of(Path("values.csv").read_text())] == [
        False,
        False,
        True,
    ]


def test_runs_of_one_name_in_two_folders_stay_apart(
    freshstack: Command, small: Collection, tmp_path: Path
) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.run").write_text((tmp_path / "a.run").read_text())

    done = freshstack("evaluate", "small", "one/a.run", "two/a.run", "--json")

    assert [each["file"] for each in json.loads(done.out)["evaluations"]] == [
        "one/a.run",
        "two/a.run",
    ]


def test_the_figures_of_other_programs_are_named_after_them(
    freshstack: Command, small: Collection
) -> None:
    done = freshstack(
        "evaluate", "small", "a.run", "--conventions", "trec_eval", "-m", "Coverage@5"
    )

    assert "ties and what is missing as in trec_eval" in done.out.splitlines()
    assert (
        "trec_eval does not have, or rounds otherwise, Coverage@5: computed by its rules"
        in done.out.splitlines()
    )


def test_bounds_are_printed_beside_the_means(freshstack: Command, small: Collection) -> None:
    done = freshstack("evaluate", "small", "a.run", "--bounds", "-m", "Recall@2")

    (bounds,) = evaluate(small.qrels(), read_run("a.run"), ["Recall@2"], bounds=True).bounds
    row = done.out.split("if the unjudged chunks of the top k were judged:")[1].split("│")
    figures = (bounds.mean_lowest, bounds.mean_highest, bounds.mean_none_relevant)
    assert [cell.strip() for cell in row[4:7]] == [f"{figure:.4f}" for figure in figures]


def test_a_run_is_an_entry_of_the_official_leaderboard(
    freshstack: Command, small: Collection
) -> None:
    told = ("--info", "type=open_source", "--info", "date=2026-01-31", "--info", "size=9B")
    done = freshstack("evaluate", "small", "a.run", "--format", "freshstack-entry", *told)

    (entry,) = json.loads(done.out)["leaderboardData"]
    assert entry["info"] == {
        "name": "a",
        "size": "9B",
        "type": "open_source",
        "date": "2026-01-31",
        "link": "",
    }
    mean = evaluate(small.qrels(), read_run("a.run")).means["Coverage@20"]
    assert entry["datasets"]["small"]["coverage_20"] == round(mean, 3)
    assert entry["datasets"].keys() == {"small", "average"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("a.run ./a.run", "a.run: the run is named twice"),
        ("a.run --by topic", "grouped by tag, slice, date, cutoff"),
        ("a.run --by tag=1", "not by tag"),
        ("a.run --by date=", "'' is not a date; type one as 2024-06-30"),
        ("a.run --groups a.run", "a file of groups ends with .csv, .tsv or .jsonl"),
        ("a.run --groups strange.csv", "strange.csv:2: there is no query '99' in the collection"),
        ("a.run --per-query a.run", "a.run is read by this command, and would be lost"),
        ("a.run --per-query small/a.csv", "is inside small, where the collection is"),
        ("a.run --per-query no/a.csv", "no/a.csv: cannot be written: No such file"),
        ("a.run --per-query .", "'.' is a folder; name a file"),
        (
            "a.run --per-query strange.csv",
            "strange.csv stands there and does not begin with file,run,",
        ),
        ("a.run --per-query linked.run", "linked.run is read by this command"),
        ("a.run --per-query loop", "loop: cannot be written: Too many levels of symbolic links"),
        ("loop", "loop: the run cannot be read: Too many levels of symbolic links"),
        ("a.run --by tag --groups tag.csv", "two columns would be called 'tag'; rename"),
        ("a.run --groups value.csv", "two columns would be called 'value'; rename"),
        ("a.run --conventions trec", "there are no conventions 'trec'; there are"),
        ("a.run --json --format csv", "--json and --format csv ask for two formats"),
        ("a.run --format freshstack-entry --bounds", "the means of all queries only"),
        ("a.run --info name=x", "--info is told of the entries of --format freshstack-entry"),
        ("a.run --format freshstack-entry", "lacks the type and the date of the systems; type as"),
        ("a.run --format freshstack-entry --info date=2026-01-31", "lacks the type of the systems"),
        ("a.run --format freshstack-entry --info x", "--info 'x': a name and its value"),
        ("a.run --format freshstack-entry --info date=no", "type as --info type=open_source"),
        ("a.run stranger.run", "stranger.run: none of the 1 queries of run 's' is in the"),
    ],
)
def test_wrong_words_are_told_in_one_line(
    freshstack: Command, small: Collection, tmp_path: Path, words: str, said: str
) -> None:
    (tmp_path / "strange.csv").write_text("query_id,group\n99,x\n")
    (tmp_path / "stranger.run").write_text("99 Q0 x 1 1.0 s\n")
    (tmp_path / "linked.run").hardlink_to(tmp_path / "a.run")
    (tmp_path / "loop").symlink_to("loop")
    for name in ("tag.csv", "value.csv"):
        (tmp_path / name).write_text("query_id,group\n12,x\n")
    before = (tmp_path / "a.run").read_text()

    done = freshstack("evaluate", "small", *words.split())

    assert done.code == 1
    assert "error: " in done.err
    assert done.err.count("\n") == 1
    assert said in done.err
    assert (tmp_path / "a.run").read_text() == before
