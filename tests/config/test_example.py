"""The example that `freshstack init` writes."""

import re
from pathlib import Path

from freshstack_dspy import cli
from freshstack_dspy.config import BuildConfig, load_config

from .least import written

EXAMPLE = Path(cli.__file__).with_name("example.toml").read_text(encoding="utf-8")


def test_the_example_loads_once_its_inputs_are_there(tmp_path: Path) -> None:
    path = tmp_path / "build.toml"
    path.write_text(EXAMPLE)
    (tmp_path / "Posts.xml").write_text("")
    (tmp_path / "src/my-library").mkdir(parents=True)

    config = load_config(path)

    assert config.name == "my-domain"
    assert config.queries.source == "stackexchange"


def test_the_examples_commented_lines_are_valid_too(tmp_path: Path) -> None:
    """What stands behind a `#` is there to be uncommented."""
    text = re.sub(r"^# (?=[\w]+ = |\[)", "", EXAMPLE, flags=re.MULTILINE)
    for name in ("Posts.xml", "judge.json", "replies.jsonl"):
        (tmp_path / name).write_text("")
    (tmp_path / "src/my-library").mkdir(parents=True)

    config = load_config(written(tmp_path, text))

    assert "\n# " not in text[text.index("[queries]") :]
    assert config.programs.support_judge == tmp_path / "judge.json"
    assert config.cache.bundles == (tmp_path / "replies.jsonl",)
    assert config.queries.since == "2023-01-01"
    assert config.pool == BuildConfig.model_fields["pool"].default


def test_the_examples_plain_values_are_the_defaults(tmp_path: Path) -> None:
    (tmp_path / "build.toml").write_text(EXAMPLE)
    (tmp_path / "Posts.xml").write_text("")
    (tmp_path / "src/my-library").mkdir(parents=True)

    config = load_config(tmp_path / "build.toml")

    for section in ("chunking", "model", "pool", "judge"):
        assert getattr(config, section) == BuildConfig.model_fields[section].default, section
