"""`freshstack evaluate --exclude-contaminated`, and what a build says of its queries."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from freshstack_dspy.cli.query_lines import query_lines
from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.collection.counts import ContaminationCounts, Counts
from freshstack_dspy.recipes.build import build
from tests.collection.small import CONTENTS, write_small
from tests.recipes.domain import domain
from tests.recipes.scripted import ScriptedProvider

from .conftest import Command


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collection whose closed-book answers hold half the nuggets of query 10, and none of 2's."""
    folder = tmp_path_factory.mktemp("known")
    provider = ScriptedProvider(AnswerClosedBook=lambda _: {"answer": "Call reset twice."})
    config = domain(folder)
    build(config, provider=provider)
    return config.out


def test_a_run_is_evaluated_with_and_without_them(freshstack: Command, known: Path) -> None:
    freshstack("retrieve", known, "--retriever", "bm25")

    table = freshstack("evaluate", known, "bm25.run", "--exclude-contaminated")
    as_json = freshstack("evaluate", known, "bm25.run", "--exclude-contaminated", "--json")

    assert table.code == 0
    assert table.out.count("│ bm25.run") == 2
    assert "without the 1 of which 50% of the nuggets or more are known: 1 query" in table.out
    found = json.loads(as_json.out)["without_contaminated"]
    assert (found["coverage"], found["left_out"]) == (0.5, ["10"])
    (clean,) = found["evaluations"]
    (whole,) = json.loads(as_json.out)["evaluations"]
    assert clean["per_query"] == {"2": whole["per_query"]["2"]}
    assert clean["means"] == whole["per_query"]["2"]


def test_where_all_are_contaminated_nothing_is_measured(freshstack: Command, known: Path) -> None:
    freshstack("retrieve", known, "--retriever", "bm25")
    done = freshstack(
        "evaluate", known, "bm25.run", "--exclude-contaminated", "--contaminated-from", "0"
    )

    assert done.code != 0
    assert "raise --contaminated-from" in done.err


def test_without_judged_answers_it_says_how_to_get_them(
    freshstack: Command, tmp_path: Path
) -> None:
    write_small(tmp_path / "small", replace(CONTENTS, contamination=()))
    (tmp_path / "a.run").write_text("12 Q0 docs/a.md_0_5 1 1.0 a\n")

    done = freshstack("evaluate", "small", "a.run", "--exclude-contaminated")

    assert done.code != 0
    assert "no closed-book answer of this collection was judged" in done.err


def test_the_summary_names_filters_and_contamination(known: Path) -> None:
    lines = list(query_lines(Collection.load(known).manifest.counts))

    assert lines == [
        "known closed-book: 20.0% of nuggets, half or more of 1 (33.3%)",
    ]


def test_every_line_of_the_summary_fits_a_terminal(tmp_path: Path) -> None:
    counts = write_small(tmp_path / "small").manifest.counts
    many: dict[str, object] = dict.fromkeys(ContaminationCounts.model_fields, 10000)
    full = Counts.model_validate(
        counts.model_dump() | {"queries": 10_000, "synthetic": 10_000, "contamination": many}
    )

    lines = list(query_lines(full))

    assert len(lines) == 4
    assert max(map(len, lines)) <= 80
