"""The example that `freshstack init` writes."""

import re
from pathlib import Path

import pytest

from freshstack_dspy import BuildConfig, cli, load_config

EXAMPLE = Path(cli.__file__).with_name("example.toml").read_text(encoding="utf-8")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the example is written, next to its inputs."""
    for name in ("Posts.xml", "judge.json", "replies.jsonl"):
        (tmp_path / name).write_text("")
    (tmp_path / "src/my-library").mkdir(parents=True)
    return tmp_path / "build.toml"


def test_the_example_loads_and_its_plain_values_are_the_defaults(path: Path) -> None:
    path.write_text(EXAMPLE)

    config = load_config(path)

    assert (config.name, config.queries.source) == ("my-domain", "stackexchange")
    for section in ("chunking", "model", "pool", "judge"):
        assert getattr(config, section) == BuildConfig.model_fields[section].default, section


def test_the_log_of_tickets_is_valid_in_place_of_the_dump(path: Path) -> None:
    text = re.sub(r"^\[queries\]\n.*?(?=^#:)", "", EXAMPLE, flags=re.MULTILINE | re.DOTALL)
    path.write_text(re.sub(r"^#: ", "", text, flags=re.MULTILINE))
    path.with_name("tickets.csv").write_text("id,subject,description,created,product\n")

    queries = load_config(path).queries

    assert queries.source == "csv"
    assert queries.columns["title"] == "subject"


def test_the_examples_commented_lines_are_valid_too(path: Path) -> None:
    """They are there to be uncommented."""
    text = re.sub(r"^# (?=[\w]+ = |\[)", "", EXAMPLE, flags=re.MULTILINE)
    path.write_text(text)
    labels = path.with_name("labels-ana.jsonl")
    labels.touch()

    config = load_config(path)

    assert config.trust.labels == (labels,)
    assert "\n# " not in text[text.index("[queries]") :]
    assert config.programs.named["support_judge"].state == path.with_name("judge.json")
    assert config.cache.bundles == (path.with_name("replies.jsonl"),)
    assert config.queries.source == "stackexchange"
    assert config.queries.since == "2023-01-01"
    usual = BuildConfig.model_fields["pool"].default
    assert config.pool == usual.model_copy(update={"per_file": 5})
