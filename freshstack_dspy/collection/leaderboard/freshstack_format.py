"""The data format of the official FreshStack leaderboard (`leaderboard_data.json`).

`{"leaderboardData": [{"info": {name, size, type, date, link}, "datasets": {topic: {alpha_ndcg_10,
coverage_20, recall_50}, …, "average": {…}}}, …]}`, figures with three decimals.
"""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from freshstack_dspy.collection.leaderboard.board import AVERAGE, EntryInfo
from freshstack_dspy.collection.leaderboard.results import Results
from freshstack_dspy.errors import ConfigError

OFFICIAL_KEYS = {
    "alpha_nDCG@10": "alpha_ndcg_10",
    "Coverage@20": "coverage_20",
    "Recall@50": "recall_50",
}
"""What the official leaderboard calls its measures; it has no others."""
_DECIMALS = 3


def leaderboard_entry(
    info: EntryInfo,
    means: Mapping[str, Mapping[str, float]],
    topics: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Give the entry of one system.

    Averages are means of the unrounded means of the topics. So are the official ones: of its 120
    averages (40 systems) 113 are also what the rounded figures give, and the 7 others differ from
    that by .001, as only unrounded ones can.

    Args:
        info: What is told of the system.
        means: By topic and measure, not rounded. Measures that the format lacks are left out.
        topics: All topics of the leaderboard; None: those of `means`. Where the system lacks one,
            it is not in the entry, nor is there an average.

    Raises:
        ConfigError: A measure of the format is missing for a topic, there is no topic, or one is
            called as the average is.
    """
    if not means or AVERAGE in means:
        raise ConfigError(
            f"an entry of the FreshStack leaderboard needs a topic, and none called {AVERAGE!r}"
        )
    for topic, of_topic in means.items():
        if lacking := [name for name in OFFICIAL_KEYS if name not in of_topic]:
            raise ConfigError(
                f"topic {topic!r} has no {lacking[0]}; an entry of the FreshStack leaderboard "
                f"needs {', '.join(OFFICIAL_KEYS)}"
            )
    datasets = {topic: _rounded(means[topic]) for topic in sorted(means)}
    if set(topics or means) <= means.keys():
        average = {
            name: fmean(of_topic[name] for _, of_topic in sorted(means.items()))
            for name in OFFICIAL_KEYS
        }
        datasets[AVERAGE] = _rounded(average)
    return {"info": info.model_dump(include=set(EntryInfo.model_fields)), "datasets": datasets}


def leaderboard_data(results: Results) -> dict[str, Any]:
    """Give a whole leaderboard, entries in the order of its table.

    Raises:
        ConfigError: The leaderboard lacks a measure of the format.
    """
    topics = sorted(results.collections)
    entries = []
    for entry in results.ranked():
        means = {
            topic: {name: figure.value for name, figure in found.figures.items()}
            for topic, found in entry.topics.items()
        }
        entries.append(leaderboard_entry(entry.info, means, topics))
    return {"leaderboardData": entries}


def _rounded(means: Mapping[str, float]) -> dict[str, float]:
    return {key: round(means[name], _DECIMALS) for name, key in OFFICIAL_KEYS.items()}
