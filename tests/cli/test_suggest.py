"""`freshstack suggest`."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from freshstack_dspy.cli.suggest import suggest
from freshstack_dspy.errors import ConfigError, SourceError
from tests.questions.dump import answer, question, write_archive, write_dump


def run(*words: object) -> Result:
    app = typer.Typer()
    app.command()(suggest)
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    return write_dump(
        tmp_path / "Posts.xml",
        question(1, 2, Tags="<llm><python>"),
        answer(2, 1),
        question(3, Tags="<llm><python><chroma>"),
        question(4, Tags="<llm><chroma>", CreationDate="2010-01-01T00:00:00"),
        question(5, Tags="<sql>"),
    )


def test_tags_are_listed_by_the_questions_they_cover(dump: Path) -> None:
    result = run(dump, "--tag", "llm", "--format", "csv")

    assert result.output.splitlines() == [
        "tag,questions,share,added,coverage",
        f"chroma,2,{2 / 3},2,{2 / 3}",
        f"python,2,{2 / 3},1,1.0",
    ]


@pytest.mark.parametrize(
    ("words", "listed"),
    [
        (["--ignore", "Python", "--tag", "llm"], ["chroma"]),
        (["--since", "2015-01-01", "--tag", "llm"], ["python"]),
        (["--limit", 1], ["llm"]),
    ],
)
def test_options_choose_the_questions_and_the_tags(
    dump: Path, words: list[object], listed: list[str]
) -> None:
    found = json.loads(run(dump, *words, "--json").output)

    assert [one["tag"] for one in found["tags"]] == listed


def test_a_configuration_needs_no_more_than_its_questions(dump: Path, tmp_path: Path) -> None:
    """Its corpora are what the tags are looked at for."""
    write_archive(tmp_path / "site.7z", {"Posts.xml": dump})
    config = tmp_path / "build.toml"
    config.write_text(
        '[queries]\nsource = "stackexchange"\npath = "site.7z"\ntags = ["llm"]\nsince = 2015-01-01\n'
    )

    assert run(config).output.splitlines()[0] == "2 questions with llm"
    assert run(config, "--tag", "sql").output.splitlines()[0] == "1 question with sql"


def test_questions_without_tags_of_their_own_are_an_error(tmp_path: Path) -> None:
    config = tmp_path / "build.toml"
    config.write_text('[queries]\nsource = "synthetic"\ncount = 1')

    error = run(config).exception

    assert isinstance(error, ConfigError)
    assert "queries.source is synthetic" in str(error)


def test_no_question_is_an_error(dump: Path) -> None:
    error = run(dump, "--since", "2030-01-01").exception

    assert isinstance(error, SourceError)
    assert str(error) == f"{dump}: no question passes the filters; widen them"


def test_a_misspelt_tag_names_the_likely_one(dump: Path) -> None:
    assert "did you mean 'python'?" in str(run(dump, "--tag", "pyhton").exception)
