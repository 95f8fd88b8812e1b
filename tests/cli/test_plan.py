"""`freshstack plan`: what it prints."""

import json
from pathlib import Path

import pytest

from freshstack_dspy.cli.plan import plan
from freshstack_dspy.cli.plan_tables import error_table, plan_table
from freshstack_dspy.collection.manifest import EstimateError
from freshstack_dspy.config import load_config
from freshstack_dspy.errors import FatalModelError
from freshstack_dspy.recipes.build import build
from freshstack_dspy.recipes.planning.planned import Plan
from tests.recipes.domain import write_domain

from .conftest import BASELINE

Captured = pytest.CaptureFixture[str]


def rows_of(text: str) -> dict[str, list[str]]:
    """The cells of all printed tables, by the first; those of a later table follow."""
    rows: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.startswith("│"):
            name, *cells = (cell.strip() for cell in line.strip("│").split("│"))
            rows.setdefault(name, []).extend(cells)
    return rows


def test_one_row_for_each_step_and_their_sum(capsys: Captured, tmp_path: Path) -> None:
    plan(write_domain(tmp_path, prices={"input": 1000.0, "output": 1.0}))
    said = capsys.readouterr()
    rows = rows_of(said.out)

    assert said.out.splitlines()[0] == "small: 3 questions for openai/scripted"
    steps = ["nuggets", "sub_questions", "closed_book_answer", "support", "contamination"]
    assert list(rows) == [*steps, "total"]
    assert [cells[4] for cells in rows.values()] == ["exact"] * 3 + ["estimated"] * 2 + [""]
    assert rows["nuggets"][:2] == ["3", "0"]
    live, batch, worst = rows["total"][5:8]
    assert live.startswith("$")
    assert worst.startswith("$")
    assert batch == "–"
    assert "cl100k_base" in said.out
    assert "support is estimated" in said.out


def test_the_line_to_type_where_the_price_is_unknown(capsys: Captured, tmp_path: Path) -> None:
    plan(write_domain(tmp_path))
    said = capsys.readouterr().out

    assert rows_of(said)["total"][5] == "unknown"
    assert "nobody says what openai/scripted costs: set [prices] input = … and output = …" in said


def test_a_finished_build_has_nothing_to_ask(capsys: Captured, tmp_path: Path) -> None:
    path = write_domain(tmp_path, model=BASELINE)
    build(load_config(path))

    plan(path)
    said = capsys.readouterr().out

    assert rows_of(said)["total"][2:7] == ["0", "0", "", "$0.0000", "$0.0000"]
    assert "support is estimated" not in said


@pytest.mark.parametrize(
    ("calls", "verdict"), [(5, "too much; a build stops at the cap"), (1000, "enough")]
)
def test_a_cap_gets_a_verdict(capsys: Captured, tmp_path: Path, calls: int, verdict: str) -> None:
    plan(write_domain(tmp_path, model=BASELINE, budget={"calls": calls}))
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("[budget]")]

    assert line.startswith(f"[budget] calls: 0 of {calls:,} spent; the plan takes ")
    assert verdict in line


def test_a_cap_that_holds_only_if_replies_are_short_says_so(
    capsys: Captured, tmp_path: Path
) -> None:
    plan(write_domain(tmp_path, model=BASELINE, budget={"tokens": 30_000}))

    assert "enough by the estimate, and not at worst" in capsys.readouterr().out


def test_a_cap_in_dollars_without_a_price_is_unknown(capsys: Captured, tmp_path: Path) -> None:
    plan(write_domain(tmp_path, budget={"dollars": 1.0}))

    assert (
        "[budget] dollars: $0.0000 of $1.00 spent; what the plan takes is unknown"
        in capsys.readouterr().out
    )


def test_everything_is_there_as_json(capsys: Captured, tmp_path: Path) -> None:
    plan(write_domain(tmp_path), as_json=True)
    said = capsys.readouterr()
    found = Plan.model_validate_json(said.out)

    assert json.loads(said.out)["steps"][0]["step"] == "nuggets"
    assert found.queries == 3
    assert found.total.requests == sum(step.requests for step in found.steps)


def test_the_tables_fit_a_screen_of_80_columns(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    most = {
        "requests": 999_999,
        "recorded": 999_999,
        "input_tokens": 987_654_321,
        "output_tokens": 87_654_321,
        "worst_output_tokens": 987_654_321,
        **dict.fromkeys(("cost", "batch_cost", "worst_cost"), 12_345.0),
    }
    found = Plan.model_validate(
        {
            "name": "large",
            "model": "openai/scripted",
            "queries": 999,
            "longest_reply": 4096,
            "steps": [{"step": "closed_book_answer", "exact": False, **most}],
            "total": most,
            "embeddings": [],
            "budget": [],
        }
    )
    error = {"step": "closed_book_answer", "requests": 999_999, "made": 1, "tokens": 987_654_321}

    plan_table(found)
    error_table(
        [EstimateError.model_validate({**error, "used": 1, "cost": 12_345.0, "paid": 1_234.0})]
    )

    rows = [line for line in capsys.readouterr().out.splitlines() if line[0] in "┏┃┡│└├"]
    assert len(rows) == 2 * 7 + 2 * 5
    assert max(map(len, rows)) <= 80


def test_every_step_of_an_estimate_has_its_error(capsys: Captured) -> None:
    step = {"step": "support", "requests": 110, "made": 100, "tokens": 1200, "used": 1000}
    uncounted = {"step": "nuggets", "requests": 3, "made": 3, "tokens": 1200, "used": 0}

    error_table(
        [
            EstimateError.model_validate({**step, "cost": 2.0, "paid": 0.5}),
            EstimateError.model_validate({**uncounted, "cost": None, "paid": 0.0}),
        ]
    )

    assert rows_of(capsys.readouterr().out) == {
        "support": ["110", "100", "+10.0%", "$2.00", "$0.5000", "1,200", "1,000", "+20.0%"],
        "nuggets": ["3", "3", "+0.0%", "unknown", "$0.0000", "1,200", "0", "–"],
    }


def test_questions_that_do_not_fit_are_said(capsys: Captured, tmp_path: Path) -> None:
    model = {**BASELINE, "context": 1024, "max_tokens": 400}
    path = write_domain(tmp_path, model=model, judge={"compare": 2})
    with pytest.raises(FatalModelError, match="leaves no room for a chunk"):
        build(load_config(path))

    plan(path)

    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines if "no room" in line] == ["support"]
    assert any(line.startswith("support: 3 questions leave no room for a chunk") for line in lines)
