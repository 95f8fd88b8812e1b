"""A domain small enough to judge by hand: three questions over five files.

With the answers of `scripted.py`:

query  its nuggets (the sentences of its answer)                       slice
2      "install it with pip"* · "python 3.11 is needed"*               answerable
10     "call reset twice"* · "the moon must be full"                   partly_supported
x      "nobody knows"                                                  unanswerable

* is in the corpus word by word.
"""

import json
import shutil
from pathlib import Path
from typing import Any

from freshstack_dspy import BuildConfig, load_config

FILES = {
    "docs/install.md": "# Installing\n\nInstall it with pip. Python 3.11 is needed.\n",
    "docs/reset.md": "# Resetting the dial\n\nIf the dial sticks, call reset twice.\n",
    "docs/dial.md": "# The dial\n\nThe dial shows the phase of the moon.\n",
    "src/dial.py": "def reset(dial):\n    '''Reset a dial.'''\n    dial.phase = 0\n",
    "src/phase.py": "def phase(day):\n    return day % 29\n",
}
QUESTIONS = (
    {
        "query_id": "10",
        "title": "The dial sticks",
        "body": "How do I reset the dial?",
        "answer": "Call reset twice. The moon must be full.",
    },
    {
        "query_id": "2",
        "title": "How to install?",
        "body": "Which python does pip need?",
        "answer": "Install it with pip. Python 3.11 is needed.",
        "tags": ["install"],
    },
    {
        "query_id": "x",
        "title": "What is the phase of the dial?",
        "body": "",
        "answer": "Nobody knows.",
    },
)


def questions_file(config: BuildConfig) -> Path:
    """The file of a domain's questions."""
    return config.queries.file


def write_domain(folder: Path, **sections: dict[str, Any]) -> Path:
    """Write corpus, questions and a configuration; return the configuration's path.

    Args:
        folder: Where.
        sections: Keys of tables to add to the configuration or to change in it.
    """
    for name, text in FILES.items():
        path = folder / "corpus" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "corpus" / "logo.png").write_bytes(b"\x89PNG\x00\x00")
    lines = [json.dumps(question) + "\n" for question in QUESTIONS]
    (folder / "questions.jsonl").write_text("".join(lines))
    tables: dict[str, dict[str, Any]] = {
        "queries": {"path": "questions.jsonl"},
        "model": {"name": "openai/scripted", "concurrency": 2, "retries": 0},
        "index": {"path": "index", "dimensions": 4},
        "cache": {"path": "cache"},
        "pool": {"depth": 5, "top_k": 5},
        "judge": {"batch": 3},
    }
    for name, values in sections.items():
        tables[name] = tables.get(name, {}) | values
    text = 'name = "small"\nout = "collection"\n\n[[corpus]]\nname = "dial"\npath = "corpus"\n'
    for name, values in tables.items():
        # A JSON value of these kinds is a TOML value too.
        entries = "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items())
        text += f"\n[{name}]\n{entries}"
    path = folder / "build.toml"
    path.write_text(text)
    return path


def domain(folder: Path, **sections: dict[str, Any]) -> BuildConfig:
    """Write the domain and read its configuration."""
    return load_config(write_domain(folder, **sections))


def afresh(config: BuildConfig) -> BuildConfig:
    """Remove the collection, so that a build makes it again in place of finding it unchanged."""
    shutil.rmtree(config.out)
    return config


def files_of(folder: Path) -> dict[str, bytes]:
    """The bytes of every file below a folder, by its path there."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
