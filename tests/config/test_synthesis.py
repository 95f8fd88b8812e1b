"""Synthetic questions."""

from pathlib import Path

import pytest

from freshstack_dspy.config import load_config

from .least import LEAST, refused, written

SYNTHETIC = LEAST.replace('[queries]\npath = "questions.jsonl"', '[queries]\nsource = "synthetic"')


def test_synthetic_questions_need_a_count_and_no_path(folder: Path) -> None:
    text = SYNTHETIC.replace('"synthetic"', '"synthetic"\ncount = 7')

    config = load_config(written(folder, text))

    assert (config.queries.path, config.queries.count) == (None, 7)
    assert config.queries.is_synthetic


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ("", "queries: count is missing"),
        ("count = 0", "queries.count is 0: input should be greater than or equal to 1"),
        ('count = 1\npath = "questions.jsonl"', "queries: path: for questions that are read"),
        ("count = 1\nlimit = 3", "queries: limit: for questions that are read"),
        ('count = 1\nsources = ["doc"]', "queries.sources names ['doc']; there are: docs"),
        ("count = 1\nmin_tokens = 900", "queries.min_tokens (900) is above chunking.max_tokens"),
        ('count = 1\nstyle = "lost.txt"', "queries.style names"),
        ("count = 1\nchunks = 0", "queries.chunks is 0"),
    ],
)
def test_what_synthetic_questions_cannot_have_is_named(folder: Path, keys: str, said: str) -> None:
    text = SYNTHETIC.replace('"synthetic"', f'"synthetic"\n{keys}')

    assert said in refused(written(folder, text))


def test_keys_of_synthetic_questions_are_for_these_alone(folder: Path) -> None:
    text = LEAST.replace('"questions.jsonl"', '"questions.jsonl"\ncount = 3\nseed = 4')

    assert "queries: count, seed: for source synthetic alone" in refused(written(folder, text))


def test_questions_that_are_read_need_a_path(folder: Path) -> None:
    text = LEAST.replace('path = "questions.jsonl"', 'source = "jsonl"')

    assert refused(written(folder, text)) == "queries: path is missing"
