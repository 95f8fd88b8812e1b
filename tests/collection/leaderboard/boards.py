"""A leaderboard small enough to check by hand: two topics, three entries.

topic one is `small`; in topic two docs/b c.md supports the nugget of query 123 as well.

entry  topics    its first chunk for 12, for 123   Coverage@1 one, two   Recall@1 one, two
ada    one, two  b c, a                            1, 1                  3/4, 1/2
bob    one, two  a, b c                            1/4, 3/4              1/4, 1/2
eve    one       a, a                              3/4                   3/4
"""

import dataclasses
from pathlib import Path

from freshstack_dspy.stored.contents import Contents
from tests.collection.small import CONTENTS, A, B, judgment, write_small

TWO: Contents = dataclasses.replace(
    CONTENTS,
    judgments=tuple(
        judgment("123_0", B, 1) if (each.nugget_id, each.chunk_id) == ("123_0", B) else each
        for each in CONTENTS.judgments
    ),
)
FIRST = {"ada": (B, A), "bob": (A, B), "eve": (A, A)}
BOARD = """\
name = "Small"
measures = ["Coverage@1", "Recall@1"]

[collections.two]
path = "two"
content_hash = "{two}"

[collections.one]
path = "one"
content_hash = "{one}"

[[entries]]
name = "eve"
type = "open_source"
date = 2026-01-31
runs = {{ one = "runs/eve.run" }}

[[entries]]
name = "bob"
size = "9B"
type = "proprietary"
date = "2025-12-31"
link = "https://example.org/bob"
runs = {{ one = "runs/bob.run", two = "runs/bob.run" }}

[[entries]]
name = "ada"
type = "upper_baseline"
date = 2026-01-31
runs = {{ one = "runs/ada.run", two = "runs/ada.run" }}
"""


def write_small_board(folder: Path) -> Path:
    """Write a whole leaderboard, but for its results."""
    hashes = {
        topic: write_small(folder / topic, contents).manifest.content_hash
        for topic, contents in (("one", CONTENTS), ("two", TWO))
    }
    (folder / "leaderboard.toml").write_text(BOARD.format(**hashes))
    (folder / "runs").mkdir()
    for name, (first, second) in FIRST.items():
        write_lists(folder / f"runs/{name}.run", name, {"12": first, "123": second})
    return folder


def write_lists(path: Path, name: str, first: dict[str, str]) -> None:
    """Write a run of one chunk for each query."""
    lines = [f"{query} Q0 {chunk} 1 1.5 {name}\n" for query, chunk in first.items()]
    path.write_text("".join(lines))


def edit(path: Path, old: str, new: str) -> None:
    """Change a file in one place."""
    text = path.read_text()
    assert text.count(old) == 1, text.count(old)
    path.write_text(text.replace(old, new))
