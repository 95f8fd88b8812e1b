"""A leaderboard: a folder of stored runs, whose figures anybody can compute again."""

from freshstack_dspy.collection.leaderboard.board import (
    BOARD_FILE,
    Board,
    Entry,
    EntryInfo,
    TopicCollection,
    read_board,
)
from freshstack_dspy.collection.leaderboard.checking import computing_command, differences
from freshstack_dspy.collection.leaderboard.computing import compute
from freshstack_dspy.collection.leaderboard.freshstack_format import (
    OFFICIAL_KEYS,
    leaderboard_data,
    leaderboard_entry,
)
from freshstack_dspy.collection.leaderboard.results import (
    RESULTS_FILE,
    EntryResult,
    Figure,
    Results,
    TopicData,
    TopicResult,
    encode_results,
)
from freshstack_dspy.collection.leaderboard.writing import write_results

__all__ = [
    "BOARD_FILE",
    "OFFICIAL_KEYS",
    "RESULTS_FILE",
    "Board",
    "Entry",
    "EntryInfo",
    "EntryResult",
    "Figure",
    "Results",
    "TopicCollection",
    "TopicData",
    "TopicResult",
    "compute",
    "computing_command",
    "differences",
    "encode_results",
    "leaderboard_data",
    "leaderboard_entry",
    "read_board",
    "write_results",
]
