"""`freshstack tags`."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from freshstack_dspy.cli.tags import tags
from freshstack_dspy.errors import ConfigError, SourceError
from tests.questions.dump import answer, question, write_archive, write_dump

HEADER = ["tag", "questions", "share", "added", "coverage"]


def run(*words: object) -> Result:
    app = typer.Typer()
    app.command()(tags)
    return CliRunner().invoke(app, [str(word) for word in words])


def rows(result: Result) -> list[list[str]]:
    lines = [line.replace("┃", "│") for line in result.output.splitlines()]
    return [line.strip("│").replace("│", " ").split() for line in lines if line.startswith("│")]


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    return write_dump(
        tmp_path / "Posts.xml",
        question(1, 2, Tags="<llm><python>"),
        answer(2, 1),
        question(3, Tags="<llm><python><chroma>"),
        question(4, Tags="<llm><chroma>", CreationDate="2010-01-01T00:00:00", Score=0),
        question(5, Tags="<sql>"),
    )


def test_tags_are_listed_by_the_questions_they_cover(dump: Path) -> None:
    result = run(dump, "--tag", "llm")

    assert result.output.splitlines()[0] == "3 questions with llm"
    assert rows(result) == [
        HEADER,
        ["chroma", "2", "66.7%", "2", "66.7%"],
        ["python", "2", "66.7%", "1", "100.0%"],
    ]
    assert result.output.splitlines()[-1] == (
        "2 tags to choose from; 0 questions have none of them"
    )


@pytest.mark.parametrize(
    ("words", "listed"),
    [
        (["--ignore", "Python", "--tag", "llm"], ["chroma"]),
        (["--since", "2015-01-01", "--tag", "llm"], ["python"]),
        (["--until", "2015-01-01"], ["chroma"]),
        (["--min-score", 1, "--order", "questions"], ["llm", "python", "chroma", "sql"]),
        (["--accepted-only"], ["llm"]),
        (["--top", 1], ["llm"]),
    ],
)
def test_options_choose_the_questions_and_the_tags(
    dump: Path, words: list[object], listed: list[str]
) -> None:
    assert [row[0] for row in rows(run(dump, *words))[1:]] == listed


def test_a_tag_moves_no_cursor(tmp_path: Path) -> None:
    tag = "a\x9b2jb\u202ec"
    dump = write_dump(tmp_path / "Posts.xml", question(1, Tags=f"<{tag}>"))

    assert [row[:2] for row in rows(run(dump))[1:]] == [["a", "2jb"]]
    shown, as_json = run(dump).output, run(dump, "--json").output
    assert "\x9b" not in shown + as_json
    assert "\u202e" not in shown + as_json
    assert json.loads(as_json)["tags"][0]["tag"] == tag


def test_json_holds_the_same_figures(dump: Path) -> None:
    found = json.loads(run(dump, "--tag", "llm", "--top", "1", "--json").output)

    assert found == {
        "questions": 3,
        "without": 0,
        "distinct": 2,
        "tags": [{"tag": "chroma", "questions": 2, "share": 2 / 3, "added": 2, "coverage": 2 / 3}],
    }


def test_a_configuration_needs_no_more_than_its_questions(dump: Path, tmp_path: Path) -> None:
    """Its corpora are what the tags are looked at for."""
    write_archive(tmp_path / "site.7z", {"Posts.xml": dump})
    config = tmp_path / "build.toml"
    config.write_text(
        '[queries]\nsource = "stackexchange"\npath = "site.7z"\ntags = ["llm"]\nsince = 2015-01-01\n'
    )

    assert run(config).output.splitlines()[0] == "2 questions with llm"
    assert run(config, "--tag", "sql").output.splitlines()[0] == "1 questions with sql"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "queries is missing"),
        ("queries = 3", "should be an object"),
        ('[queries]\npath = "x"\ntag = "a"', "unknown key tag; allowed here: all_tags, chunks"),
        ("[queries", "not valid TOML"),
        ('[queries]\nsource = "synthetic"\ncount = 1', "queries.source is synthetic"),
    ],
)
def test_a_configuration_with_other_questions_is_named(
    tmp_path: Path, text: str, message: str
) -> None:
    config = tmp_path / "build.toml"
    config.write_text(text)

    error = run(config).exception

    assert isinstance(error, ConfigError)
    assert str(error).startswith(f"{config}: ")
    assert message in str(error)


def test_no_question_is_an_error(dump: Path) -> None:
    error = run(dump, "--tag", "llm", "--min-score", 99).exception

    assert isinstance(error, SourceError)
    assert str(error) == f"{dump}: no question passes the filters; widen them"
