"""The data format of the official leaderboard, and how its averages are made."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from freshstack_dspy.collection.leaderboard import (
    EntryInfo,
    compute,
    leaderboard_entry,
    write_results,
)
from freshstack_dspy.errors import ConfigError

from .boards import edit, write_small_board

OFFICIAL = Path(__file__).parents[4] / "shared/data/freshstack-official/leaderboard_data.json"
INFO = {
    "name": "A",
    "size": "9B",
    "type": "open_source",
    "date": "2026-01-31",
    "link": "https://example.org/a",
}
NAMES = ("alpha_nDCG@10", "Coverage@20", "Recall@50")


def means(*values: float) -> dict[str, float]:
    return dict(zip(NAMES, values, strict=True))


def test_an_entry_has_three_decimals_and_averages_of_unrounded_means() -> None:
    """The mean of .1004 and .2008 is .1506: .151; that of .100 and .201 would be .1505: .150."""
    of_topics = {"b": means(0.1004, 1, 0.3), "a": {**means(0.2008, 0, 0.4), "AP": 0.5}}
    entry = leaderboard_entry(EntryInfo.model_validate(INFO), of_topics)

    assert entry == {
        "info": INFO,
        "datasets": {
            "a": {"alpha_ndcg_10": 0.201, "coverage_20": 0, "recall_50": 0.4},
            "b": {"alpha_ndcg_10": 0.1, "coverage_20": 1, "recall_50": 0.3},
            "average": {"alpha_ndcg_10": 0.151, "coverage_20": 0.5, "recall_50": 0.35},
        },
    }
    with pytest.raises(ConfigError, match="topic 'a' has no Recall@50"):
        leaderboard_entry(
            EntryInfo.model_validate(INFO), {"a": {"alpha_nDCG@10": 0.1, "Coverage@20": 0.2}}
        )


def test_a_whole_leaderboard_has_the_official_shape(tmp_path: Path) -> None:
    folder = write_small_board(tmp_path / "board")
    write_results(folder, compute(folder))
    assert not (folder / "leaderboard_data.json").exists()
    edit(folder / "leaderboard.toml", 'measures = ["Coverage@1", "Recall@1"]\n', "")
    write_results(folder, compute(folder))

    data = json.loads((folder / "leaderboard_data.json").read_bytes())
    named = {entry["info"]["name"]: entry["datasets"] for entry in data["leaderboardData"]}
    assert {name: list(datasets) for name, datasets in named.items()} == {
        "ada": ["one", "two", "average"],
        "bob": ["one", "two", "average"],
        "eve": ["one"],
    }
    assert list(named["ada"]["average"]) == ["alpha_ndcg_10", "coverage_20", "recall_50"]


@pytest.mark.skipif(not OFFICIAL.exists(), reason="the official data are not there")
def test_official_entries_keep_their_info_and_topics() -> None:
    """113 of 120 averages are what the rounded values give; only unrounded ones explain all."""
    reproduced, off = 0, 0
    entries: list[Any] = json.loads(OFFICIAL.read_text())["leaderboardData"]
    for entry in entries:
        topics = {topic: of for topic, of in entry["datasets"].items() if topic != "average"}
        ours = leaderboard_entry(
            EntryInfo.model_validate(entry["info"]),
            {topic: means(*of.values()) for topic, of in topics.items()},
        )
        assert ours["info"] == entry["info"]
        assert {**ours["datasets"], "average": 0} == {**entry["datasets"], "average": 0}
        for key, average in entry["datasets"]["average"].items():
            mean = sum((Decimal(str(of[key])) for of in topics.values()), Decimal()) / len(topics)
            difference = abs(mean - Decimal(str(average)))
            assert difference <= Decimal("0.001")
            reproduced += difference <= Decimal("0.0005")
            off += difference > Decimal("0.0005")

    assert (reproduced, off) == (113, 7)
