"""Running somebody's loader in a process of its own, with hub and home out of reach."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

_BY = {"author": "Ada", "url": "https://example.org/q/12", "licence": "CC BY-SA 4.0"}
METADATA = {
    "title": "How?",
    "origin": "community",
    "date": "2026-01-02T03:04:05",
    "tags": ["api"],
    "question_source": _BY,
    "answer_source": _BY,
}
"""Of query 12 of the small collection."""


def needs(module: str) -> pytest.MarkDecorator:
    """Skip where a tool is not installed: those that pull torch come with an extra of their own."""
    return pytest.mark.skipif(
        importlib.util.find_spec(module) is None,
        reason=f"{module} is not installed; pip install 'freshstack_dspy[formats]'",
    )


def loaded(code: str, home: Path, *words: object) -> Any:
    """Give what the code prints last, as JSON.

    Args:
        code: Python; finds the words in `sys.argv[1:]`.
        home: Where whatever the loader keeps goes.
        words: For the code.
    """
    kept = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(home), "HOME": str(home)}
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
        env={**os.environ, **kept, "MTEB_CACHE": str(home)},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def stopwords(home: Path) -> None:
    """Autojudge-base reads NLTK's list of stop words when it is imported, and has none offline."""
    folder = home / "nltk_data/corpora/stopwords"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "english").write_text("the\na\nof\n")


def lines_of(path: Path) -> list[Any]:
    """The values of a file of JSON Lines."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
