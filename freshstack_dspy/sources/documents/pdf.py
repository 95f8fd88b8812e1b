"""The text of a PDF, by pypdf in a process of its own: a hostile file ends that process only."""

import hashlib
import importlib.util
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from freshstack_dspy.sources.documents.skips import Skip

_SECONDS = 120
_READ: dict[tuple[bytes, int], str | Skip] = {}
"""What this process has read: a build reads its corpora twice, and each PDF takes a second."""
_PROGRAM = Path(__file__).with_name("pdf_program.py")


def pdf_text(data: bytes, most: int) -> str | Skip:
    """Give the text of a PDF; each page ends with an empty line and a form feed.

    Args:
        data: All of the file.
        most: Characters; a longer text is refused.

    Returns:
        The text, or why there is none: encrypted, damaged, too large, no text in it, or the
        extra `pages` is not installed.
    """
    if importlib.util.find_spec("pypdf") is None:
        return _unreadable("a PDF; to read it: pip install 'freshstack_dspy[pages]'")
    known = (hashlib.sha256(data).digest(), most)
    if known not in _READ:
        _READ[known] = _extracted(data, most)
    return _READ[known]


def _extracted(data: bytes, most: int) -> str | Skip:
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as found:
        given.write(data)
        given.seek(0)
        command = [sys.executable, "-P", "-W", "ignore", str(_PROGRAM), str(most), str(_SECONDS)]
        try:
            done = subprocess.run(  # noqa: S603 - no shell, and words of our own
                command,
                stdin=given,
                stdout=found,
                stderr=subprocess.DEVNULL,
                timeout=2 * _SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return _unreadable(f"a PDF that takes more than {_SECONDS} seconds")
        found.seek(0)
        try:
            answer = json.loads(found.read())
        except ValueError:
            return _unreadable(f"a PDF that takes too much memory or time (exit {done.returncode})")
    if "reason" in answer:
        return _unreadable(str(answer["reason"]))
    return str(answer["text"])


def _unreadable(reason: str) -> Skip:
    return Skip("unreadable", reason)
