"""Bundles: recorded replies as JSON Lines sorted by key, for git, colleagues and replay."""

from collections.abc import Iterable
from pathlib import Path

from freshstack_dspy.errors import StoreError
from freshstack_dspy.lm.reply import Reply, reply_from_json
from freshstack_dspy.lm.request import canonical_json


def read_bundle(path: Path) -> dict[str, Reply]:
    """Read a bundle, validating every line, by key.

    Raises:
        StoreError: The file cannot be read, a line is not a recorded reply, or a key comes twice.
    """
    replies: dict[str, Reply] = {}
    try:
        with path.open(encoding="utf-8", newline="\n") as lines:
            for number, line in enumerate(lines, 1):
                reply = reply_from_json(line, f"{path}:{number}")
                if reply.key in replies:
                    raise StoreError(f"{path}:{number}: the key {reply.key} comes twice")
                replies[reply.key] = reply
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f"{path}: the bundle cannot be read: {error}") from error
    return replies


def write_bundle(replies: Iterable[Reply], path: Path) -> int:
    """Write replies as a bundle and return how many there are."""
    ordered = sorted(replies, key=lambda reply: reply.key)
    lines = [canonical_json(reply.model_dump(mode="json")) + "\n" for reply in ordered]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(lines), encoding="utf-8", newline="\n")
    except OSError as error:
        raise StoreError(f"{path}: the bundle cannot be written: {error}") from error
    return len(lines)
