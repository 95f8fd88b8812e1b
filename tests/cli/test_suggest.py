"""`freshstack suggest`."""

import json
from pathlib import Path

import pytest

from tests.questions.dump import answer, question, write_archive, write_dump

from .conftest import Command


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


@pytest.mark.parametrize(
    ("words", "listed"),
    [
        (["--tag", "llm"], [("chroma", 2, 2), ("python", 2, 1)]),
        (["--tag", "llm", "--ignore", "Python"], [("chroma", 2, 2)]),
        (["--limit", 1], [("llm", 3, 3)]),
    ],
)
def test_tags_are_listed_by_the_questions_they_cover(
    freshstack: Command, dump: Path, words: list[object], listed: list[object]
) -> None:
    found = json.loads(freshstack("suggest", dump, *words, "--json").out)

    assert [(one["tag"], one["questions"], one["added"]) for one in found["tags"]] == listed


def test_a_configuration_needs_no_more_than_its_questions(
    freshstack: Command, dump: Path, tmp_path: Path
) -> None:
    """Its corpora are what the tags are looked at for."""
    write_archive(tmp_path / "site.7z", {"Posts.xml": dump})
    config = tmp_path / "build.toml"
    config.write_text(
        '[queries]\nsource = "stackexchange"\npath = "site.7z"\ntags = ["llm"]\nsince = 2015-01-01\n'
    )

    assert freshstack("suggest", config).out.startswith("2 questions with llm, 1 with an accepted")
    assert freshstack("suggest", config, "--tag", "sql").out.startswith("1 question with sql, ")


def test_what_has_no_tags_is_one_line(freshstack: Command, dump: Path, tmp_path: Path) -> None:
    (tmp_path / "made.toml").write_text('[queries]\nsource = "synthetic"\ncount = 1')
    (tmp_path / "late.toml").write_text(
        '[queries]\nsource = "stackexchange"\npath = "Posts.xml"\nsince = 2030-01-01\n'
    )

    assert "queries.source is synthetic" in freshstack("suggest", "made.toml").err
    assert "no question passes the filters" in freshstack("suggest", "late.toml").err
    assert "did you mean 'python'?" in freshstack("suggest", dump, "--tag", "pyhton").err


def test_repositories_that_questions_name_come_as_entries_to_paste(
    freshstack: Command, tmp_path: Path
) -> None:
    body = "<p><a href='https://github.com/Ana/Tool/issues/1'>here</a></p>"
    dump = write_dump(tmp_path / "Posts.xml", question(1, 2, Body=body), answer(2, 1))
    out = freshstack("suggest", dump).out

    assert "1 question of 1 with accepted answers name a repository" in out
    assert out.endswith('[[corpus]]\nname = "tool"\nurl = "https://github.com/ana/tool"\n')
    links = json.loads(freshstack("suggest", dump, "--json").out)["links"]
    assert [one["tag"] for one in links["repository"]["tags"]] == ["github.com/ana/tool"]


def test_a_log_without_answers_is_looked_at_too(freshstack: Command, tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("query_id,title\n1,See https://github.com/ana/tool\n2,Why?\n")
    (tmp_path / "log.toml").write_text('[queries]\nsource = "csv"\npath = "log.csv"\n')
    out = freshstack("suggest", "log.toml").out

    assert out.startswith("2 questions, 0 with an accepted answer; none has a tag\n")
    assert "1 question of 2 name a repository" in out
