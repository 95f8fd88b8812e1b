"""The data format of the official leaderboard, and how its averages are made."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy.collection.leaderboard import (
    EntryInfo,
    compute,
    leaderboard_data,
    leaderboard_entry,
    read_board,
)
from freshstack_dspy.errors import ConfigError

from .boards import edit, write_small_board

OFFICIAL = Path(__file__).parents[4] / "shared/data/freshstack-official/leaderboard_data.json"
INFO = EntryInfo(
    name="A",
    size="9B",
    type="open_source",
    date="2026-01-31",
    link="https://example.org/a",
)
NAMES = ("alpha_nDCG@10", "Coverage@20", "Recall@50")


def means(*values: float) -> dict[str, float]:
    return dict(zip(NAMES, values, strict=True))


def test_an_entry_has_three_decimals_and_averages_of_unrounded_means() -> None:
    """The mean of .1004 and .2008 is .1506: .151; that of .100 and .201 would be .1505: .150."""
    entry = leaderboard_entry(
        INFO, {"b": means(0.1004, 1, 0.3), "a": {**means(0.2008, 0, 0.4), "AP": 0.5}}
    )

    assert entry == {
        "info": {
            "name": "A",
            "size": "9B",
            "type": "open_source",
            "date": "2026-01-31",
            "link": "https://example.org/a",
        },
        "datasets": {
            "a": {"alpha_ndcg_10": 0.201, "coverage_20": 0, "recall_50": 0.4},
            "b": {"alpha_ndcg_10": 0.1, "coverage_20": 1, "recall_50": 0.3},
            "average": {"alpha_ndcg_10": 0.151, "coverage_20": 0.5, "recall_50": 0.35},
        },
    }


def test_a_missing_topic_is_left_out_and_so_is_the_average() -> None:
    entry = leaderboard_entry(INFO, {"a": means(0.1, 0.2, 0.3)}, topics=("a", "b"))

    assert list(entry["datasets"]) == ["a"]


def test_a_measure_that_the_format_needs_must_be_there() -> None:
    with pytest.raises(ConfigError, match=r"topic 'a' has no Recall@50; an entry .* needs alpha_n"):
        leaderboard_entry(INFO, {"a": {"alpha_nDCG@10": 0.1, "Coverage@20": 0.2}})
    with pytest.raises(ConfigError, match="needs a topic"):
        leaderboard_entry(INFO, {})
    with pytest.raises(ConfigError, match="none called 'average'"):
        leaderboard_entry(INFO, {"average": means(0.1, 0.2, 0.3)})


def test_a_whole_leaderboard_has_the_official_shape(tmp_path: Path) -> None:
    folder = write_small_board(tmp_path / "board")
    edit(folder / "leaderboard.toml", 'measures = ["Coverage@1", "Recall@1"]\n', "")

    data = leaderboard_data(compute(folder, read_board(folder)))

    assert list(data) == ["leaderboardData"]
    named = {entry["info"]["name"]: entry["datasets"] for entry in data["leaderboardData"]}
    assert {name: list(datasets) for name, datasets in named.items()} == {
        "ada": ["one", "two", "average"],
        "bob": ["one", "two", "average"],
        "eve": ["one"],
    }
    assert list(named["ada"]["average"]) == ["alpha_ndcg_10", "coverage_20", "recall_50"]


@pytest.fixture
def official() -> list[Any]:
    if not OFFICIAL.exists():
        pytest.skip(f"{OFFICIAL} is not there")
    data: list[Any] = json.loads(OFFICIAL.read_text())["leaderboardData"]
    return data


def test_official_entries_keep_their_info_and_topics(official: list[Any]) -> None:
    for entry in official:
        of_topics = {
            topic: means(*of.values())
            for topic, of in entry["datasets"].items()
            if topic != "average"
        }

        ours = leaderboard_entry(EntryInfo.model_validate(entry["info"]), of_topics)

        assert ours["info"] == entry["info"]
        assert {**ours["datasets"], "average": 0} == {**entry["datasets"], "average": 0}


def test_official_averages_are_of_unrounded_means(official: list[Any]) -> None:
    """113 of 120 are also what the rounded figures give. 7 are not: only unrounded ones explain all."""
    reproduced, off = 0, []
    for entry in official:
        topics = [of for topic, of in entry["datasets"].items() if topic != "average"]
        for key, average in entry["datasets"]["average"].items():
            mean = sum((Decimal(str(of[key])) for of in topics), Decimal()) / len(topics)
            difference = abs(mean - Decimal(str(average)))
            # Both the average and each figure are rounded by half of .001 at most.
            assert difference <= Decimal("0.001")
            if difference <= Decimal("0.0005"):
                reproduced += 1
            else:
                off.append(entry["info"]["name"])

    assert (reproduced, len(off)) == (113, 7)
