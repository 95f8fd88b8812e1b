"""What a build says of its queries."""

from pathlib import Path

import pytest

from freshstack_dspy.cli.query_lines import query_lines
from freshstack_dspy.collection.collection import Collection
from freshstack_dspy.collection.counts import ContaminationCounts, Counts
from freshstack_dspy.recipes.build import build
from tests.collection.small import write_small
from tests.recipes.domain import domain
from tests.recipes.scripted import ScriptedProvider


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collection whose closed-book answers hold half the nuggets of query 10, and none of 2's."""
    folder = tmp_path_factory.mktemp("known")
    provider = ScriptedProvider(AnswerClosedBook=lambda _: {"answer": "Call reset twice."})
    config = domain(folder)
    build(config, provider=provider)
    return config.out


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
