"""`freshstack evaluate` and `compare`."""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from freshstack_dspy import Collection, Run, read_run, write_run
from freshstack_dspy.collection.collection import write_collection
from freshstack_dspy.measures.compare import compare
from freshstack_dspy.measures.evaluation import evaluate
from freshstack_dspy.records import ScoredChunk
from tests.collection.small import (
    CHUNKS,
    CONTENTS,
    PROVENANCE,
    write_small,
)
from tests.recipes.domain import domain
from tests.recipes.scripted import ScriptedProvider

from .conftest import Command

LONG = "a-run-with-the-very-long-name-of-a-model-and-of-its-settings-k1-0.9-b-0.4.run"


@pytest.fixture
def small(tmp_path: Path) -> Collection:
    """A collection of queries 12 and 123 in `small`, `a.run` and `b.run`."""
    collection = write_small(tmp_path / "small")
    chunks = sorted(collection.chunks(), key=str)
    scored = tuple(ScoredChunk(chunk.chunk_id, 1.0 / n) for n, chunk in enumerate(chunks, start=1))
    write_run(Run("a", {"12": scored, "123": scored[1:]}), tmp_path / "a.run")
    write_run(Run("b", {"12": scored[::-1][:1], "123": scored[:1]}), tmp_path / "b.run")
    return collection


def cells_of(out: str) -> Iterator[list[str]]:
    for line in out.splitlines():
        if line.startswith("│"):
            yield [cell.strip() for cell in line.split("│")[1:-1]]


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


# evaluate


def test_each_mean_has_its_interval_and_what_is_unjudged(
    freshstack: Command, small: Collection
) -> None:
    done = freshstack("evaluate", "small", "a.run")

    evaluation = evaluate(small, "a.run")
    columns = [*zip(*list(cells_of(done.out))[:3], strict=True)]
    assert columns[0][0] == "a.run"
    for column, each, of in zip(
        columns[1:], evaluation.intervals.values(), evaluation.unjudged, strict=True
    ):
        ends = [] if each.low is None else [f"[{each.low:.3f}, {each.high:.3f}]"]
        lines = [f"{each.value:.4f}", *ends, f"unjudged {of.mean:.1%}"]
        assert [*filter(None, column)] == lines
    assert "measured on 2 of 4 queries (left out: 1 unanswerable" in " ".join(done.out.split())
    assert "labels " in done.out
    every = freshstack("evaluate", "small", "a.run", "--slices", "all").out
    assert every.startswith("small: 3 queries (all)\n")


@pytest.mark.usefixtures("small")
def test_tables_fit_eighty_columns_however_long_the_names(
    freshstack: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")  # a pipe gets whole names
    (tmp_path / LONG).write_text((tmp_path / "a.run").read_text())

    for words in ([LONG], [LONG, "b.run", "-m", "AP", "--by", "tag", "--by", "slice"]):
        done = freshstack("evaluate", "small", *words)

        assert done.code == 0, done.err
        lines = [line for line in done.out.splitlines() if "freshstack analyze" not in line]
        assert max(map(len, lines)) <= 80  # what is to be typed is whole
        assert any(
            LONG[:6] in cell and LONG[-6:] in cell for of in cells_of(done.out) for cell in of
        )


def test_json_csv_and_tables_to_paste(freshstack: Command, small: Collection) -> None:
    words = ("evaluate", "small", "a.run", "--by", "slice", "--by", "query")
    evaluation = evaluate(small, "a.run")

    (found,) = json.loads(freshstack(*words, "--json").out)["evaluations"]
    rows = rows_of(freshstack(*words, "--format", "csv").out)

    assert found["per_query"] == evaluation.per_query
    assert found["intervals"]["Recall@50"] == evaluation.intervals["Recall@50"].model_dump()
    assert [groups["by"] for groups in found["groups"]] == ["slice", "query"]
    assert float(rows[0]["mean"]) == evaluation.means["alpha_nDCG@10"]
    assert float(rows[0]["unjudged_at_k"]) == evaluation.unjudged[0].mean
    by_query = {
        (row["group"], row["measure"]): float(row["mean"])
        for row in rows
        if (row["by"], row["average"]) == ("query", "micro")
    }
    assert by_query == {
        (query, name): value
        for query, values in evaluation.per_query.items()
        for name, value in values.items()
    }
    assert "| answerable 2 queries |" in freshstack(*words, "--format", "markdown").out
    assert r"\toprule" in freshstack(*words, "--format", "latex").out


def test_an_oracle_is_known_by_its_lines_and_set_apart(
    freshstack: Command, small: Collection, tmp_path: Path
) -> None:
    write_run(Run("a@nuggets", read_run("a.run").scores), tmp_path / "renamed.run")
    words = ("evaluate", "small", "renamed.run", "b.run")

    done, found = freshstack(*words), json.loads(freshstack(*words, "--json").out)

    assert [cells[0] for cells in cells_of(done.out) if ".run" in cells[0]] == [
        "b.run", "renamed.run", "b.run",
    ]  # fmt: skip
    assert "oracle: nuggets" in done.out
    assert found["oracles"] == ["renamed.run"]
    means = {each["file"]: each["means"] for each in found["evaluations"]}
    for each in found["headroom"]:
        assert (each["run"], each["oracle"]) == ("b.run", "renamed.run")
        difference = means["renamed.run"][each["measure"]] - means["b.run"][each["measure"]]
        assert each["interval"]["value"] == pytest.approx(difference)
    assert "oracles" not in json.loads(freshstack("evaluate", "small", "b.run", "--json").out)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("command", [("evaluate",), ("compare", "a.run")])
def test_chunks_that_are_not_in_the_corpus_are_an_error(
    freshstack: Command, command: tuple[str, ...], tmp_path: Path
) -> None:
    """Such a run had 0.0000 everywhere, and exit code 0."""
    known, unknown = ScoredChunk("docs/a.md_0_5", 1.0), ScoredChunk("x", 2.0)
    write_run(Run("s", {"12": (unknown, known), "123": ()}), tmp_path / "s.run")
    words = (command[0], "small", *command[1:], "s.run")

    refused = freshstack(*words)
    dropped = freshstack(*words, "--unknown-ids", "drop", "-m", "RR")

    assert refused.code == 1
    assert "1 of 2 chunk ids of run 's' are not in the corpus, such as 'x'" in refused.err
    assert "--unknown-ids drop" in refused.err
    assert dropped.code == 0, dropped.err
    assert "1 result dropped, not in the corpus" in dropped.out
    assert "1 query absent from the run (counts as 0): 123" in dropped.out


def test_qrels_without_a_collection(freshstack: Command, tmp_path: Path) -> None:
    (tmp_path / "qrels.txt").write_text("1 x a 1\n1 y b 1\n2 x a 1\n")
    (tmp_path / "r.run").write_text("1 Q0 a 1 2.0 r\n2 Q0 b 1 2.0 r\n")

    done = freshstack("evaluate", "qrels.txt", "r.run", "-m", "StRecall@5")

    assert "qrels.txt: 2 queries" in done.out
    assert "0.2500" in done.out
    assert "needs a collection" in freshstack("evaluate", "qrels.txt", "r.run", "--by", "tag").err


def test_contaminated_queries_are_left_out(freshstack: Command, tmp_path: Path) -> None:
    """The closed-book answers hold half the nuggets of query 10, and none of 2's."""
    from freshstack_dspy.recipes.make import build

    provider = ScriptedProvider(AnswerClosedBook=lambda _: {"answer": "Call reset twice."})
    known = domain(tmp_path)
    qrels = build(known, provider=provider).qrels()
    found = {query: (ScoredChunk(min(qrels.judged(query).chunks), 1.0),) for query in qrels.nuggets}
    write_run(Run("r", found), "r.run")

    done = freshstack("evaluate", known.out, "r.run", "--exclude-contaminated", "0.5")

    assert done.code == 0, done.err
    assert ", without 1 contaminated" in done.out.splitlines()[0]
    write_run(Run("s", found), "s.run")
    compared = freshstack("compare", known.out, "r.run", "s.run", "--exclude-contaminated", "0.5")
    assert ", without 1 contaminated" in compared.out.splitlines()[0]
    freshstack("report", known.out, "r.run", "s.run", "--exclude-contaminated", "0.5")
    assert ", without 1 contaminated" in Path("report.html").read_text()
    every = freshstack("evaluate", known.out, "r.run", "--exclude-contaminated", "0")
    assert "raise --exclude-contaminated" in every.err


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("a.run a.run", "a.run: the run is named twice"),
        ("a.run --by difficult", "did you mean difficulty? allowed: tag, slice, date, cutoff"),
        ("a.run --by strange.csv", "strange.csv:2: there is no query '99' in the collection"),
        ("a.run -m RBP(q=1)", "RBP has no parameter 'q'"),
        ("a.run stranger.run", "stranger.run: none of the 1 queries of run 's' has judgments"),
        ("none.run", "none.run: no such file"),
        ("a.run --fail-under AP", "--fail-under AP: allowed: MEASURE=BOUND"),
        ("a.run --fail-under APP=.5", "there is no measure 'APP'"),
    ],
)
def test_wrong_words_are_one_line(
    freshstack: Command, tmp_path: Path, words: str, message: str
) -> None:
    (tmp_path / "strange.csv").write_text("query_id,group\n99,x\n")
    (tmp_path / "stranger.run").write_text("99 Q0 x 1 1.0 s\n")

    done = freshstack("evaluate", "small", *words.split())

    assert (done.code, done.err.count("\n")) == (1, 1)
    assert message in done.err


@pytest.mark.usefixtures("small")
def test_a_mean_below_its_bound_fails_after_all_was_printed(
    freshstack: Command, small: Collection
) -> None:
    words = ("evaluate", "small", "a.run", "b.run", "-m", "AP")
    recall = {run: evaluate(small, run, "Recall@1").means["Recall@1"] for run in ("a.run", "b.run")}
    low, high = sorted(recall, key=recall.__getitem__)
    assert recall[low] < recall[high]

    met = freshstack(*words, "--fail-under", f"recall@1={recall[low]}")
    missed = freshstack(
        *words, "--json", "--fail-under", f"Recall@1={recall[high]}", "--fail-under", "AP=1e-9"
    )

    assert (met.code, met.err) == (0, "")
    assert missed.code == 1
    assert missed.err == (
        f"failed: {low}: Recall@1 is {recall[low]:.6g}, below {recall[high]:.6g} (--fail-under)\n"
    )
    measures = json.loads(missed.out)["evaluations"][0]["measures"]
    assert measures == ["AP", "Recall@1"]


def test_values_are_corrected_by_labels_of_people(freshstack: Command, small: Collection) -> None:
    """All pairs are labelled here, and 12_1 is supported by nothing but a failed judgment."""
    lines = [
        {"query_id": each.query_id, "nugget_id": each.nugget_id, "chunk_id": each.chunk_id}
        | {"label": each.label * (each.nugget_id != "12_1"), "annotator": "ada"}
        for each in small.judgments
        if each.label is not None
    ]
    Path("labels.jsonl").write_text("\n".join(map(json.dumps, lines)))
    Path("q.txt").write_text("12 0 d 1\n")
    words = ("small", "a.run", "b.run", "-m", "AP", "--labels", "labels.jsonl")
    evaluated, compared = freshstack("evaluate", *words), freshstack("compare", *words)
    as_json = json.loads(freshstack("evaluate", *words, "--json").out)["corrected"]

    mean, rate = as_json["means"]["a.run"]["AP"], as_json["rates"]["all judged pairs"]
    assert [rate["judge"], rate["value"]] == pytest.approx([4 / 7, 3 / 7])
    cells = ["a.run", "AP", f"{mean['judge']:.4f}", f"{mean['value']:.4f}"]
    assert cells in [row[:4] for row in cells_of(evaluated.out)]
    assert "− a.run" in [row[0] for row in cells_of(compared.out)]
    assert max(map(len, (evaluated.out + compared.out).splitlines())) <= 80
    assert freshstack("evaluate", *words, "--format", "csv").code == 1
    assert "needs a collection" in freshstack("evaluate", "q.txt", *words[1:]).err


# compare


def test_differences_are_shown_with_interval_p_and_power(
    freshstack: Command, small: Collection, tmp_path: Path
) -> None:
    (tmp_path / "c.run").write_text((tmp_path / "b.run").read_text().replace(" b\n", " c\n"))
    done = freshstack("compare", "small", "a.run", "b.run", "c.run", "-m", "AP", "--limit", "2")

    comparison = compare(small, {"A": "a.run", "B": "b.run", "C": "c.run"}, "AP")
    first = comparison.differences[0]
    pair = next(cells for cells in cells_of(done.out) if cells[0] == "B − A")
    assert pair[1] == f"{first.interval.value:+.4f}"
    assert pair[-1] == first.verdict
    text = " ".join(done.out.split())
    assert "adjusted by Holm over 3 tests" in text
    assert "the two have the same value on all 2 queries" in text
    assert "the largest differences" in text
    assert max(map(len, done.out.splitlines())) <= 80
    two = freshstack("compare", "small", "a.run", "b.run", "c.run", "-m", "AP", "-m", "RR").out
    assert "how alike the measures order the 3 runs" in two


@pytest.mark.usefixtures("small")
def test_one_run_is_no_comparison(freshstack: Command) -> None:
    assert "a comparison needs two runs" in freshstack("compare", "small", "a.run").err
    done = freshstack("compare", "small", "a.run", "b.run", "--fail-on-regression")
    assert (done.code, "--baseline RUN" in done.err) == (1, True)


def test_a_difference_that_is_found_fails_and_noise_does_not(
    freshstack: Command, tmp_path: Path
) -> None:
    queries = [f"q{number}" for number in range(12)]
    relevant = "".join(f"{query} 0 d 1\n" for query in queries)
    (tmp_path / "qrels.txt").write_text(relevant)
    first, second = "{0} Q0 d 1 2 r\n{0} Q0 x 2 1 r\n", "{0} Q0 x 1 2 r\n{0} Q0 d 2 1 r\n"
    (tmp_path / "main.run").write_text("".join(map(first.format, queries)))
    (tmp_path / "worse.run").write_text("".join(map(second.format, queries)))
    noise = [*map(second.format, queries[:3]), *map(first.format, queries[3:])]
    (tmp_path / "noise.run").write_text("".join(noise))
    gate = ("-m", "RR", "--fail-on-regression", "--baseline")

    worse = freshstack("compare", "qrels.txt", "worse.run", "noise.run", *gate, "main.run")

    assert (worse.code, worse.err.count("\n")) == (1, 1)
    assert "failed: worse.run: RR is 0.5, below 1 of main.run (adjusted p " in worse.err
    assert "noise.run" not in worse.err
    assert freshstack("compare", "qrels.txt", "noise.run", *gate, "main.run").code == 0
    assert freshstack("compare", "qrels.txt", "main.run", *gate, "worse.run").code == 0


def test_a_gate_decides_nothing_on_a_dry_run_nor_by_what_is_unjudged(
    freshstack: Command, tmp_path: Path
) -> None:
    """One line says so, and names what would decide it."""
    queries = [f"q{number:02}" for number in range(12)]
    (tmp_path / "qrels.txt").write_text("".join(f"{one} 0 d 1\n{one} 0 e 0\n" for one in queries))
    run = "{0} Q0 d 1 2 r\n{0} Q0 e 2 1 r\n"
    (tmp_path / "main.run").write_text("".join(map(run.format, queries)))
    (tmp_path / "new.run").write_text("".join(f"{one} Q0 x 0 3 r\n" for one in queries))
    with (tmp_path / "new.run").open("a") as file:
        file.write("".join(map(run.format, queries)))
    gate = ("-m", "RR", "--fail-on-regression", "--baseline", "main.run")

    done = freshstack("compare", "qrels.txt", "new.run", *gate)

    assert (done.code, done.err.count("\n")) == (0, 1)
    assert "not decided: new.run, RR: depends on what is unjudged" in done.err
    assert "freshstack extend COLLECTION main.run new.run --config FILE" in " ".join(
        done.out.split()
    )
    assert max(map(len, (line for line in done.out.splitlines() if "extend" not in line))) <= 80
    found = json.loads(freshstack("compare", "qrels.txt", "new.run", *gate, "--json").out)
    [difference] = found["comparison"]["differences"]
    assert (difference["verdict"], difference["judged_only"]["value"]) == (
        "depends on what is unjudged",
        0.0,
    )
    several = freshstack("evaluate", "qrels.txt", "main.run", "new.run", "-m", "RR").out
    assert "depends on what is unjudged" in several


# What is chosen, and what is not concluded


@pytest.mark.usefixtures("small")
def test_of_a_word_counters_labels_nothing_is_concluded(
    freshstack: Command, tmp_path: Path
) -> None:
    made = PROVENANCE.model_copy(update={"model": "extractive/baseline"})
    write_collection(tmp_path / "dry", CONTENTS, CHUNKS, made)
    runs = ("dry", "a.run", "b.run")

    evaluated = freshstack("evaluate", *runs, "--by", "slice", "--fail-under", "AP=1")
    compared = freshstack("compare", *runs)
    as_json = json.loads(freshstack("compare", *runs, "--json").out)
    rows = rows_of(freshstack("compare", *runs, "--format", "csv").out)

    assert evaluated.out.startswith("dry run: labels by a word counter. small: 2 queries\n")
    assert "dry run: labels by a word counter. small, by slice" in evaluated.out
    assert "(--fail-under; dry run: labels by a word counter)" in evaluated.err
    assert "dry run: labels by a word counter. alpha_nDCG@10\n" in compared.out
    assert "So no run is called better." in compared.out
    assert [name for name in ("found", "Holm", "detectable") if name in compared.out] == []
    assert as_json["dry_run"] is as_json["comparison"]["dry_run"] is True
    assert {(row["verdict"], row["p"]) for row in rows} == {("dry run", "")}
    assert "dry run" not in freshstack("compare", "small", "a.run", "b.run").out
    assert freshstack("diagnose", "dry").out.startswith("dry run: labels by a word counter. small:")
