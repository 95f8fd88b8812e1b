"""The files that hold CRUX's ratings: one, or the shards that several machines wrote."""

import re
from pathlib import Path

from freshstack_dspy.collection.imports.layout import inside, the_part
from freshstack_dspy.errors import SourceError

_RATINGS = ("ranking_*/*judg*.jsonl", "*judg*.jsonl", "ratings*.jsonl", "*ratings*.json")
_SHARD = re.compile(r"(?P<judge>ratings\..+)\.(?P<shard>[0-9]{1,6})-(?P<total>[0-9]{1,6})\.jsonl")


def rating_files(folder: Path) -> tuple[Path, ...]:
    """Find the ratings of a folder.

    CRUX's `gen_ratings.py` writes a shard of the topics to `ratings.{model}.{shard}-{total}.jsonl`,
    from 0 on; the last shards may have no topic, and then no file.

    Returns:
        One file, or all shards of one model in their order.

    Raises:
        SourceError: There is none, there are several of different kinds, a shard is missing before
            another, or a link leads out of the folder.
    """
    shards = _shards(folder)
    if len(shards) < 2 or any(any(folder.glob(pattern)) for pattern in _RATINGS[:2]):
        return (the_part(folder, "ratings", _RATINGS),)
    for number, path in enumerate(shards.values()):
        if number not in shards:
            raise SourceError(
                f"{folder}: the ratings of shard {number} are missing, and those of shard "
                f"{max(shards)} are there; put them beside, or name the shards from 0 on"
            )
        inside(folder, path)
    return tuple(shards[number] for number in sorted(shards))


def _shards(folder: Path) -> dict[int, Path]:
    """Give the shards by number; nothing where not all files of ratings are shards of one set."""
    found = {path: _SHARD.fullmatch(path.name) for path in sorted(folder.glob("ratings*.jsonl"))}
    named = {path: match for path, match in found.items() if match}
    shards = {int(match["shard"]): path for path, match in named.items()}
    sets = {(match["judge"], match["total"]) for match in named.values()}
    return shards if len(sets) == 1 and len(shards) == len(found) else {}
