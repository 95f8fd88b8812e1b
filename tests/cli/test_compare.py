"""`freshstack compare`: runs of a collection held against each other."""

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.measures.compare import ComparisonRules, compare
from freshstack_dspy.measures.evaluation import evaluate
from freshstack_dspy.measures.run import Run, read_run, write_run
from freshstack_dspy.recipes.build import build
from freshstack_dspy.records import ScoredChunk
from tests.recipes.domain import domain
from tests.recipes.scripted import ScriptedProvider

from .conftest import Command

MEASURES = ("alpha_nDCG@10", "Coverage@20", "Recall@50")


def write(collection: Path, path: Path, name: str, *, best_first: bool) -> Path:
    """Write a run that ranks what is judged to support a query first, or last."""
    qrels = Collection.load(collection).qrels()
    rankings = {}
    for query, nuggets in qrels.nuggets.items():
        support: dict[str, float] = {}
        for nugget in nuggets:
            for chunk, label in qrels.labels[nugget].items():
                support[chunk] = support.get(chunk, 0.0) + label
        sign = 1 if best_first else -1
        rankings[query] = tuple(ScoredChunk(chunk, sign * of) for chunk, of in support.items())
    path.parent.mkdir(exist_ok=True)
    write_run(Run(name, rankings), path)
    return path


@pytest.fixture
def runs(built: Path, tmp_path: Path) -> Sequence[Path]:
    """Two runs of one name, in files of one name."""
    return (
        write(built, tmp_path / "one" / "mine.run", "mine", best_first=False),
        write(built, tmp_path / "two" / "mine.run", "mine", best_first=True),
    )


def test_runs_of_one_name_in_files_of_one_name_stay_apart(
    freshstack: Command, built: Path, runs: Sequence[Path]
) -> None:
    done = freshstack("compare", built, *runs)

    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0] == "small: 2 queries"
    assert sum("A one/mine.run" in line for line in lines) == 1
    assert sum("B two/mine.run" in line for line in lines) == 1
    assert sum("B − A" in line for line in lines if line.startswith("│")) == 3
    assert [line for line in lines if line in MEASURES] == list(MEASURES)
    assert max(map(len, lines)) <= 80


def test_the_output_says_how_it_was_made_and_does_not_claim_equality(
    freshstack: Command, built: Path, runs: Sequence[Path]
) -> None:
    said = " ".join(freshstack("compare", built, *runs).out.split())

    assert "p of the paired permutation test, two-sided, adjusted by Holm over 3 tests" in said
    assert "Not found does not mean equal" in said
    assert "no difference was found, and none could be" in said
    assert "2 queries are few: the intervals are too narrow; go by p" in said


def test_json_holds_the_comparison_with_the_differences_by_query(
    freshstack: Command, built: Path, runs: Sequence[Path]
) -> None:
    options = ("--test", "t", "--correction", "bh", "--level", "0.9", "--seed", "7")
    done = freshstack("compare", built, *runs, "-m", "alpha_nDCG@5", *options, "--json")
    qrels = Collection.load(built).qrels()
    expected = compare(
        {
            f"{path.parent.name}/mine.run": evaluate(qrels, read_run(path), ["alpha_nDCG@5"])
            for path in runs
        },
        rules=ComparisonRules(test="t", correction="bh", level=0.9, seed=7),
    )
    found = json.loads(done.out)

    assert done.code == 0
    assert found["comparison"] == expected.model_dump(mode="json")
    assert set(found["comparison"]["differences"][0]["per_query"]) == set(qrels.nuggets)
    assert found["collection"] == "small"
    assert found["content_hash"] == Collection.load(built).manifest.content_hash
    assert freshstack("compare", built, *runs, "-m", "alpha_nDCG@5", *options, "--json") == done


def test_csv_has_a_row_for_each_difference(
    freshstack: Command, built: Path, runs: Sequence[Path]
) -> None:
    done = freshstack("compare", built, *runs, "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(done.out)))

    assert [(row["measure"], row["run"], row["against"]) for row in rows] == [
        (measure, "two/mine.run", "one/mine.run") for measure in MEASURES
    ]
    for row in rows:
        assert float(row["difference"]) == pytest.approx(
            float(row["mean_run"]) - float(row["mean_against"])
        )
        assert (row["test"], row["correction"], row["tests"]) == ("permutation", "holm", "3")


def test_latex_escapes_names(freshstack: Command, built: Path, runs: Sequence[Path]) -> None:
    done = freshstack("compare", built, *runs, "--format", "latex")

    assert r"alpha\_nDCG@10 & two/mine.run & one/mine.run" in done.out
    assert done.out.count(r"\\") == 4


@pytest.mark.parametrize("named", ["two/mine.run", "./two/../two/mine.run"])
def test_a_baseline_is_named_by_its_file(
    freshstack: Command, built: Path, runs: Sequence[Path], tmp_path: Path, named: str
) -> None:
    third = write(built, tmp_path / "third.run", "third", best_first=False)
    done = freshstack(
        "compare", built, *runs, third, "--baseline", named, "-m", "Recall@1", "--json"
    )
    found = json.loads(done.out)["comparison"]

    assert found["baseline"] == "two/mine.run"
    assert [(of["run"], of["against"]) for of in found["differences"]] == [
        ("one/mine.run", "two/mine.run"), ("third.run", "two/mine.run"),
    ]  # fmt: skip


def test_the_queries_with_the_largest_differences_are_listed(
    freshstack: Command, built: Path, runs: Sequence[Path]
) -> None:
    done = freshstack(
        "compare", built, *runs, "-m", "alpha_nDCG@1", "-m", "Recall@50", "--queries", 1
    )
    evaluations = [
        evaluate(Collection.load(built).qrels(), read_run(path), ["alpha_nDCG@1"]) for path in runs
    ]
    below, above = (evaluation.values("alpha_nDCG@1") for evaluation in evaluations)
    query = min(above, key=lambda query: (-abs(above[query] - below[query]), query))
    (title,) = (of.title for of in Collection.load(built).queries if of.query_id == query)
    table = done.out[done.out.index("the largest differences") :]
    (row,) = (line for line in table.splitlines() if query in line)

    assert f"{above[query] - below[query]:+.4f}" in row
    assert f"{above[query]:.4f}" in row
    assert title[:20] in row
    assert "Recall@50, B − A: the two have the same value on all queries" in done.out


def test_three_runs_also_say_how_alike_the_measures_order_them(
    freshstack: Command, built: Path, runs: Sequence[Path], tmp_path: Path
) -> None:
    third = write(built, tmp_path / "third.run", "third", best_first=False)
    done = freshstack("compare", built, *runs, third)

    assert "how alike the measures order the 3 runs:" in done.out
    assert "3 runs are few: any of these can come by chance." in done.out
    assert max(map(len, done.out.splitlines())) <= 80
    assert "how alike" not in freshstack("compare", built, *runs).out


def test_queries_that_a_run_lacks_are_named_and_count_as_zero(
    freshstack: Command, built: Path, runs: Sequence[Path], tmp_path: Path
) -> None:
    whole = read_run(runs[1])
    first = next(iter(whole.rankings))
    write_run(Run("short", {first: whole.rankings[first]}), tmp_path / "short.run")
    done = freshstack("compare", built, runs[1], "short.run")

    assert "B: 1 query absent (counts as 0), as " in done.out


def test_a_name_cannot_move_the_cursor(
    freshstack: Command, built: Path, runs: Sequence[Path], tmp_path: Path
) -> None:
    hostile = tmp_path / "a\x1b[2J[red]b\n.run"
    hostile.write_bytes(runs[0].read_bytes())
    done = freshstack("compare", built, hostile, runs[1], "--queries", 2)

    assert done.code == 0
    assert "\x1b" not in done.out
    assert "[red]" in done.out


def test_contaminated_queries_can_be_left_out(freshstack: Command, tmp_path: Path) -> None:
    provider = ScriptedProvider(AnswerClosedBook=lambda _: {"answer": "Call reset twice."})
    config = domain(tmp_path)
    build(config, provider=provider)
    paths = [
        write(config.out, tmp_path / f"{best}.run", f"{best}", best_first=best)
        for best in (False, True)
    ]
    done = freshstack("compare", config.out, *paths, "--exclude-contaminated")
    found = json.loads(
        freshstack("compare", config.out, *paths, "--exclude-contaminated", "--json").out
    )

    assert "without 1 of which 50% of the nuggets or more are known" in done.out
    assert "no test could be made: a paired test needs two queries, not 1" in " ".join(
        done.out.split()
    )
    assert (found["left_out"], found["contaminated_from"], found["queries"]) == (["10"], 0.5, 1)
    assert list(found["comparison"]["differences"][0]["per_query"]) == ["2"]


def test_words_that_make_no_sense_are_refused(
    freshstack: Command, built: Path, runs: Sequence[Path]
) -> None:
    for words, message in (
        ((runs[0],), "a comparison needs two runs; name another run file"),
        ((runs[0], runs[0]), "the run is named twice; name each run once"),
        ((*runs, "--level", "95"), "--level is between 0 and 1, not 95.0; type --level 0.95"),
        ((*runs, "--baseline", "x.run"), "--baseline x.run is none of the runs; it is one of "),
        ((*runs, "-m", "nope"), "there is no measure 'nope'"),
        ((runs[0], "absent.run"), "absent.run: the run cannot be read"),
    ):
        done = freshstack("compare", built, *words)
        assert done.code == 1
        assert done.out == ""
        assert done.err.startswith("error: ")
        assert message in done.err
        assert done.err.count("\n") == 1
