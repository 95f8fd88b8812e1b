"""`freshstack suggest`."""

import json
from pathlib import Path

import pytest

from tests.questions.dump import answer, question, write_dump

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


def test_topics_that_are_new_since_a_date(freshstack: Command, dump: Path) -> None:
    words = ("suggest", dump, "--since", "2015-01-01")

    (found,) = json.loads(freshstack(*words, "--at-least", 1, "--ignore", "llm", "--json").out)

    assert (found["tag"], found["questions"], found["answered"]) == ("python", 2, 1)
    assert "0 tags new since 2015-01-01 with at least 50" in " ".join(
        freshstack(*words).out.split()
    )
    assert "since is '2015'" in freshstack("suggest", dump, "--since", "2015").err
    assert "--at-least goes with --since" in freshstack("suggest", dump, "--at-least", 3).err
