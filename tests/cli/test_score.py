"""`freshstack score`."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.measures.evaluation import evaluate
from freshstack_dspy.measures.run import Run, write_run
from freshstack_dspy.records import ScoredChunk

from .conftest import Command


def write(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def assigned(run: str, query: str, *pairs: tuple[str, str | None]) -> dict[str, Any]:
    nuggets = [
        {"text": f"n{place}", "importance": importance, "assignment": assignment}
        for place, (importance, assignment) in enumerate(pairs)
    ]
    return {"run_id": run, "qid": query, "nuggets": nuggets}


@pytest.fixture
def assignments(tmp_path: Path) -> Path:
    return write(
        tmp_path / "assignments.jsonl",
        assigned("a", "1", ("vital", "support"), ("okay", "not_support")),
        assigned("a", "2", ("vital", "failed"), ("okay", "support")),
        assigned("b", "1", ("vital", "partial_support"), ("okay", "not_support")),
    )


def rows_of(text: str) -> list[list[str]]:
    lines = [line.replace("┃", "│") for line in text.splitlines()]
    return [line.strip("│").replace("│", " ").split() for line in lines if line.startswith("│")]


def test_assignments_have_a_row_for_each_run_and_what_was_missing(
    freshstack: Command, assignments: Path
) -> None:
    done = freshstack("score", "assignments", assignments)

    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0] == "2 runs, 2 queries; each query the same weight"
    first = next(row for row in rows_of(done.out) if row[0] == "a")
    assert first[:4] == ["a", "2", "1.0000", "1.0000"]
    assert "nuggets without an assignment: 1; they do not count (--missing leave_out)" in lines
    assert (
        "absent, of queries that other runs answer or that nothing was retrieved for: 1; they do "
        "not count (--absent skip), as of 'b' to query '2'"
    ) in lines
    assert "no V_strict, V: 1, as of 'a' to query '2': none of 1 nuggets has an assignment" in lines


def test_as_nuggetizer_counts(freshstack: Command, assignments: Path) -> None:
    done = freshstack("score", "assignments", assignments, "--compat", "nuggetizer", "--json")

    scores = json.loads(done.out)
    assert scores["choices"] == {
        "missing": "zero",
        "empty": "zero",
        "nuggets": "answer",
        "absent": "skip",
    }
    assert scores["runs"][0]["means"]["V"]["value"] == 0.5
    assert scores["answers"][1]["values"]["A_strict"] == 0.5
    refused = freshstack(
        "score", "assignments", assignments, "--compat", "nuggetizer", "--missing", "zero"
    )
    assert refused.code == 1
    assert "--compat nuggetizer says --missing and --empty" in refused.err


@pytest.mark.parametrize(
    ("by", "header", "number"),
    [
        ("run", ["run", "answers", "V_strict", "V_strict_low"], 2),
        ("query", ["query_id", "answers", "V_strict", "V"], 2),
        ("answer", ["run", "query_id", "V_strict", "V"], 3),
    ],
)
def test_csv_has_a_row_for_each_of_what_was_asked(
    freshstack: Command, assignments: Path, by: str, header: list[str], number: int
) -> None:
    done = freshstack("score", "assignments", assignments, "--csv", "--by", by)

    first, *rows = csv.reader(io.StringIO(done.out))
    assert first[:4] == header
    assert len(rows) == number
    assert freshstack("score", "assignments", assignments, "--by", by).code == 0


def test_json_and_csv_are_not_given_together(freshstack: Command, assignments: Path) -> None:
    done = freshstack("score", "assignments", assignments, "--csv", "--json")

    assert done == (1, "", "error: --json and --csv are two formats; give one of them\n")


def test_a_damaged_file_is_one_line(freshstack: Command, tmp_path: Path) -> None:
    damaged = write(tmp_path / "a.jsonl", assigned("a", "1", ("vital", "yes")))

    done = freshstack("score", "assignments", damaged)

    assert done.code == 1
    assert done.err == (
        f"error: {damaged}:1: assignment is 'yes'; allowed: support, partial_support, "
        "not_support, failed or null\n"
    )


def test_citations(freshstack: Command, tmp_path: Path) -> None:
    cited = [[{"reference": "d", "support": 1}], [{"reference": None, "support": 2}], []]
    sentences = [{"sentenceID": place, "citations": each} for place, each in enumerate(cited)]
    path = write(
        tmp_path / "support.jsonl", {"run_id": "r", "topic_id": "1", "sentences": sentences}
    )

    shown = freshstack("score", "citations", path)
    chosen = freshstack("score", "citations", path, "--outside", "leave_out", "--csv")
    every = freshstack("score", "citations", path, "--citations", "all", "--csv")

    assert "citations outside of the references: 1; they support nothing" in shown.out
    (row,) = csv.DictReader(io.StringIO(chosen.out))
    assert (row["weighted_precision_first"], row["weighted_recall_first"]) == ("0.5", "0.25")
    (row,) = csv.DictReader(io.StringIO(every.out))
    assert row["weighted_precision_all"] == "0.25"


def test_nuggets(freshstack: Command, tmp_path: Path) -> None:
    verdicts = [{"hallucinated": False, "redundant": place == 0} for place in range(4)]
    path = write(
        tmp_path / "nuggets.jsonl",
        {"annotator": "ada", "query_id": "1", "nuggets": verdicts, "additional": 1},
        {"annotator": "bob", "query_id": "2", "nuggets": verdicts, "additional": None},
    )

    done = freshstack("score", "nuggets", path)

    assert "ada, each nugget the same weight: precision 0.7500, recall 0.7500" in done.out
    assert "recall – (how many nuggets are missing was not answered)" in done.out
    assert "absent, of" not in done.out
    as_json = json.loads(freshstack("score", "nuggets", path, "--json").out)
    assert as_json["pooled"]["ada"]["groundedness"]["value"] == 1


def test_of_many_reasons_the_commonest_are_told(freshstack: Command, tmp_path: Path) -> None:
    rows = [
        {"run_id": "r", "query_id": str(place), "agrees": None, "reason": f"\x1b[2J{place}" * 999}
        for place in range(20)
    ]
    path = write(tmp_path / "agreement.jsonl", *rows)

    done = freshstack("score", "agreement", path)

    assert "and 15 more reasons; --json has them all" in done.out
    assert "\x1b" not in done.out
    assert len(done.out) < 4000


def test_agreement_stands_beside_a_ranking(
    freshstack: Command, built: Path, tmp_path: Path
) -> None:
    collection = Collection.load(built)
    qrels = collection.qrels()
    queries = sorted(qrels.nuggets)
    found = {
        query: (ScoredChunk(min(qrels.judged(query).supported or {"none": ()}), 1.0),)
        for query in queries[1:]
    }
    run = tmp_path / "bm25.run"
    write_run(Run("bm25", found), run)
    verdicts = write(
        tmp_path / "agreement.jsonl",
        *(
            {"run_id": "bm25", "query_id": query, "agrees": place < 2, "reason": "r"}
            for place, query in enumerate(queries)
        ),
    )
    words = ("score", "agreement", verdicts, "--collection", built, "--ranking", run)

    shown = freshstack(*words, "--measure", "Recall@5")
    told = json.loads(freshstack(*words, "--measure", "Recall@5", "--json").out)

    assert shown.code == 0
    assert "queries by the ranking measure and by whether the answer agrees" in shown.out
    (relation,) = told["relations"]["bm25"]
    values = evaluate(qrels, Run("bm25", found), ["Recall@5"], undefined="skip").values("Recall@5")
    assert relation["queries"] == len(values)
    assert relation["missed_agree"] == (queries[0] in values) + (values.get(queries[1]) == 0)
    assert relation["found_agree"] + relation["found_disagree"] == sum(
        value > 0 for value in values.values()
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--collection", "c"), "--collection and --ranking go together"),
        (("--ranking", "r"), "--collection and --ranking go together"),
        (("--measure", "Recall@5"), "give --ranking RUN too"),
        (("--found-from", "1"), "give --ranking RUN too"),
        (("--collection", "c", "--ranking", "r", "--csv"), "--csv has no place"),
    ],
)
def test_options_of_a_ranking_go_together(
    freshstack: Command, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    path = write(tmp_path / "a.jsonl", {"run_id": "r", "query_id": "1", "agrees": True})

    done = freshstack("score", "agreement", path, *words)

    assert done.code == 1
    assert said in done.err


def test_a_ranking_of_a_run_without_verdicts_is_refused(
    freshstack: Command, built: Path, tmp_path: Path
) -> None:
    query = next(iter(Collection.load(built).qrels().nuggets))
    run = tmp_path / "x.run"
    write_run(Run("x", {query: (ScoredChunk("c", 1.0),)}), run)
    rows = [{"run_id": name, "query_id": query, "agrees": True} for name in ("a", "b")]
    path = write(tmp_path / "a.jsonl", *rows)

    done = freshstack("score", "agreement", path, "--collection", built, "--ranking", run)

    assert done.code == 1
    assert "run 'x' has no verdicts; the verdicts are of 'a', 'b'" in done.err


def test_in_compat_mode_each_line_is_counted_by_its_own_nuggets(
    freshstack: Command, tmp_path: Path
) -> None:
    """nuggetizer sees one line at a time, and no `rated`."""
    nugget = {"text": "a", "importance": "vital", "assignment": "support", "rated": False}
    other = {"text": "b", "importance": "okay", "assignment": "support"}
    path = write(
        tmp_path / "a.jsonl",
        {"run_id": "x", "qid": "1", "nuggets": [nugget]},
        {"run_id": "y", "qid": "1", "nuggets": [nugget, other | {"importance": "vital"}]},
        {"run_id": "z", "qid": "1", "nuggets": [other]},
    )
    words = ("score", "assignments", path, "--json")

    told = json.loads(freshstack(*words, "--compat", "nuggetizer").out)

    values = {one["run"]: one["values"] for one in told["answers"]}
    assert [values[run]["V_strict"] for run in "xyz"] == [1, 1, 0]
    assert [values[run]["A_strict"] for run in "xyz"] == [1, 1, 1]
    assert "in another answer" in freshstack(*words).err


def test_answers_without_labels_are_told_from_labels(freshstack: Command, tmp_path: Path) -> None:
    path = write(
        tmp_path / "answers.jsonl",
        {"run_id": "r", "topic_id": "1", "references": [], "answer": []},
    )

    done = freshstack("score", "citations", path)

    assert done.code == 1
    assert "an answer with its citations, and no label of any; label them first" in done.err


def test_what_was_not_retrieved_is_absent(freshstack: Command, tmp_path: Path) -> None:
    agreement = write(
        tmp_path / "agreement.jsonl",
        {"run_id": "r", "query_id": "1", "agrees": True, "status": "ok"},
        {"run_id": "r", "query_id": "2", "agrees": None, "status": "not_retrieved"},
    )
    nugget = {"text": "a", "importance": "vital", "assignment": "support"}
    assignments = write(
        tmp_path / "assignments.jsonl",
        {"run_id": "r", "qid": "1", "nuggets": [nugget], "status": "ok"},
        {
            "run_id": "r",
            "qid": "2",
            "nuggets": [nugget | {"assignment": "failed"}],
            "status": "not_retrieved",
        },
    )

    for words, name in (
        (("agreement", agreement), "agreement"),
        (("assignments", assignments), "V_strict"),
    ):
        for absent, value in (("skip", 1.0), ("zero", 0.5)):
            told = json.loads(freshstack("score", *words, "--json", "--absent", absent).out)
            (run,) = told["runs"]
            assert (run["means"][name]["value"], run["absent"]) == (value, ["2"])


def test_tables_fit_80_columns(freshstack: Command, tmp_path: Path) -> None:
    nugget = {"text": "a", "importance": "vital", "assignment": "support"}
    path = write(
        tmp_path / "a.jsonl",
        *({"run_id": run, "qid": "1", "nuggets": [nugget]} for run in ("a", "hybrid.rrf")),
    )

    done = freshstack("score", "assignments", path)

    assert all(len(line) <= 80 for line in done.out.splitlines() if line[:1] in "┏┃│└")
    assert all(name in done.out for name in ("V_strict", "W", "missing", "absent"))
